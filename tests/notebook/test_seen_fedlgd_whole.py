"""What notebook 05a sees: a look at small federations with and without anchors."""

import math

import numpy as np
import pytest
import torch

from fedtutor import Federation, Settings, measures, methods, rounds, scenarios
from fedtutor.distillation import virtual_images
from fedtutor.errors import TrainingError
from fedtutor.experiments import looks
from fedtutor.notebook import seen_fedlgd_whole as seen

SMALL = {
    "fedlgd": {"selected": 1, "every": 3, "local_steps": 1, "global_steps": 1, "global_ipc": 1},
    "fedavg": {},
}


def new_federation(method):
    made = scenarios.build("digits-mini", private_size=40)
    settings = Settings(
        rounds=1, local_epochs=1, batch_size=16, models=["small_convnet"], virtual_ipc=1,
        virtual_steps=1, lr=0.1,
    )  # fmt: skip
    return Federation(made, methods.METHODS[method](**SMALL[method]), settings, seed=1)


def seen_in(method):
    """What the look saw before round 1 and after the only one, and the federation."""
    fed, found = new_federation(method), []
    rounds.run(fed, progress=lambda steps: _watched(steps, fed, found))
    return fed, [*found, seen.anchored(fed)]


def _watched(steps, fed, found):
    for step in steps:
        if not found:
            found.append(seen.anchored(fed))
        yield step


@pytest.fixture(scope="module")
def fedlgd():
    return seen_in("fedlgd")


def test_a_look_can_be_recorded():
    assert looks.root_of(seen.anchored)


def test_the_loss_is_that_of_the_servers_network(fedlgd):
    fed, found = fedlgd
    network = fed.server.model.eval()
    tests = fed.scenario.tests.values()
    expected = np.mean([measures.mean_loss(network, t, fed.scenario) for t in tests])
    assert math.isclose(found[-1]["loss"], expected, rel_tol=1e-5)


def test_the_network_stays_in_its_mode(fedlgd):
    fed, _ = fedlgd
    fed.server.model.train()
    seen.anchored(fed)
    assert fed.server.model.training


def test_pixels_have_moved_since_the_first_distillation(fedlgd):
    fed, found = fedlgd
    made = virtual_images(fed)
    far = [float((made[c.id].x - c.data.x).abs().mean()) for c in fed.clients]
    assert math.isclose(found[-1]["moved"]["clients"], np.mean(far), rel_tol=1e-5)
    assert min(far) > 0


def test_pictures_are_of_the_first_client_and_of_the_anchors(fedlgd):
    fed, found = fedlgd
    pictures, made = found[-1]["pictures"], virtual_images(fed)
    assert pictures.shape[:2] == (2, seen.SHOWN)
    assert torch.equal(pictures[0], made[fed.clients[0].id].images().x[: seen.SHOWN])
    assert torch.equal(pictures[1], made["server"].images().x[: seen.SHOWN])


def test_without_anchors_nothing_is_said_of_them():
    _, found = seen_in("fedavg")
    assert not {"taught", "gap", "pictures"} & {key for at in found for key in at}
    assert found[-1]["moved"]["clients"] == 0


def test_reading_it():
    runs = [
        [{"loss": 2.0, "taught": 0.1}, {}, {"loss": 1.0, "taught": 0.3, "gap": 0.5}],
        [{"loss": 3.0, "taught": 0.1}, {}, {"loss": 0.5, "taught": 0.2, "gap": 0.4}],
    ]
    assert seen.through(runs).tolist() == [[2.0, 1.0], [3.0, 0.5]]
    assert seen.through(runs, "taught").tolist() == [[0.1, 0.3], [0.1, 0.2]]
    assert seen.at_the_end(runs, "gap").tolist() == [0.5, 0.4]


def test_pictures_before_and_after(fedlgd):
    fed, found = fedlgd

    class Run:
        seeds = (1,)

        def federation(self, method, seed):
            assert (method, seed) == ("fedlgd", 1)
            return new_federation("fedlgd")

    rows = seen.before_and_after(Run(), [found])
    first = fed.clients[0].id
    assert list(rows) == [f"{name}, at the {when}" for name in (first, "server")
                          for when in ("start", "end")]  # fmt: skip
    assert torch.equal(rows[f"{first}, at the end"], found[-1]["pictures"][0])
    assert torch.equal(rows[f"{first}, at the start"], fed.clients[0].data.images().x[: seen.SHOWN])
    assert not torch.equal(rows["server, at the start"], rows["server, at the end"])


def test_arms_by_their_letters():
    assert seen.lettered("clients only") == "clients only (AB)"
    assert seen.lettered("FedAvg, 140 steps") == "FedAvg, 140 steps"
    points = {"FedLGD": [50.0, 51.0], "no regularizer": [60.0, 61.5], "FedAvg": [50.0, 52.0]}
    table = seen.differences(
        points, {"D": ("FedLGD", "no regularizer"), "all": ("FedLGD", "FedAvg")}
    )
    assert table.to_numpy().tolist() == [
        ["ABCD minus ABC", "-10.2 ± 0.4 *"], ["ABCD minus FedAvg", "-0.5 ± 0.7"]
    ]  # fmt: skip


def test_whether_a_part_helps():
    assert seen.helps("D", [1.0, 1.1, 1.2]) == "D helps."
    assert seen.helps("D", [-1.0, -1.1, -1.2]) == "D does harm."
    assert seen.helps("D", [1.0, -1.1, 0.2]) == "D: the seeds do not tell."


def test_clients_that_never_compare_images_meet_at_the_anchors():
    found = {name: values[0] for name, values in seen.drawn_together(120, rate=0.1).items()}
    assert {name: round(values[0]) for name, values in found.items()} == seen.ANGLES
    for label in (1, 2):
        a, b, anchor = (
            found[f"{who}, class {label}"] for who in ("client A", "client B", "anchor")
        )
        assert abs(a[0] - b[0]) > 90 and abs(a[-1] - b[-1]) < 15
        assert max(abs(a[-1] - anchor[-1]), abs(b[-1] - anchor[-1])) < 15
    assert abs(found["anchor, class 1"][-1] - found["anchor, class 2"][-1]) > 120


def test_lemma_1_needs_the_private_law():
    for seed in range(3):
        assert seen.toys_broken(seed, printed=True) > 0.05
        assert seen.toys_broken(seed, printed=False) == 0


def test_the_bounds_of_a_toy():
    margin, private, printed = (v[0] for v in seen.bounds([0.0, 0.25, 1.0]).values())
    assert np.allclose(margin, [1, 0.75, 0]) and np.allclose(printed, 0.6)
    assert np.allclose(private, [0.6, 0.35, -0.4])
    assert (private < margin).all() and printed[-1] > margin[-1]


def test_work_by_hand():
    times = seen.work()
    batches = math.ceil((500 + 100) / 32)
    refining = 10 * 100 * (2560 + 2 * 500)
    training = 3 * (10 * 500 + 90 * (600 + batches * 100))
    fedavg = 3 * 100 * 7291
    assert math.isclose(times.loc["from round 1", "USPS"], (refining + training) / fedavg)
    first = 10_000 * (2560 + 2 * 500)
    assert math.isclose(
        times.loc["with the first distillation", "USPS"], (first + refining + training) / fedavg
    )


def test_the_work_of_all_clients_by_hand():
    found, times = seen.work_together(), seen.work().loc["from round 1"]
    held = {c: n for c, n in seen.HELD.items() if c != "CIFAR10C"}
    mean = sum(times[c] * n for c, n in held.items()) / sum(held.values())
    assert math.isclose(found["DIGITS"], mean) and 0.10 < mean < 0.11
    assert math.isclose(found["CIFAR10C"], times["CIFAR10C"])


def test_bytes_by_hand():
    added = seen.added_bytes()
    assert math.isclose(added["convnet"], 100 * 10 * 235200 / (200 * 311050), rel_tol=0.01)
    assert added["resnet18_gn"] < 0.2


def test_the_spread_of_early_losses():
    rows = [{"values": [0.0, 2.0]}, {"values": [0.0, 4.0]}, {"values": [0.0, 90.0]}]
    result = type("Result", (), {"history": {"loss": rows}})
    assert np.allclose(seen.early([result], rounds=2), [3 / math.sqrt(2)])


def test_every_class_that_a_client_has_gets_as_many_images():
    assert seen.images_per_class(3) == {0, 3}


def test_three_readings():
    asked = []

    class Run:
        seeds, recipe = (5,), type("Recipe", (), {"settings": Settings(rounds=20)})

        def __call__(self, method, seed, **changes):
            asked.append((method, seed, changes))
            if changes.get("fedlgd.reading") == "literal":
                raise TrainingError("the loss is nan", where="round 2", do="lower it")
            rows = [{"round": r, "epoch": None, "moment": "end", "matrix": [[r / 10]]}
                    for r in (0, 6)]  # fmt: skip
            history = {"accuracy": rows, "domains": ["a"], "tests": ["a"]}
            return type("Result", (), {"history": history, "headline": {"intra": 0.1}})

    found = seen.readings(Run())
    assert list(found.values()) == ["60 %", "10 %", "nothing: the loss is nan"]
    assert [changes.get("rounds") for _, _, changes in asked] == [None, 6, 6]
