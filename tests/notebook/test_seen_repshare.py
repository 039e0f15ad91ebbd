"""What notebook 04 sees: a look at a small federation, and pairs whose information is known."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from fedtutor import Federation, Settings, methods, rounds, scenarios
from fedtutor.experiments import looks
from fedtutor.notebook import seen_repshare as seen


@pytest.fixture(scope="module")
def fed():
    """Two clients of RepShare behind their only round."""
    made = scenarios.build("mnist-mini", num_clients=2, partition="iid", private_size=60)
    settings = Settings(rounds=1, local_epochs=1, batch_size=16, models=["lenet5"])
    played = Federation(made, methods.METHODS["repshare"](reading="code"), settings, seed=1)
    rounds.run(played)
    return played


@pytest.fixture(scope="module")
def found(fed):
    return seen.reading(fed)


def test_a_look_can_be_recorded():
    assert looks.root_of(seen.reading)


def test_features_are_those_of_the_first_test_images(fed, found):
    images = next(iter(fed.scenario.tests.values()))[: seen.SHOWN]
    x = fed.scenario.normalize(images.x)
    with torch.no_grad():
        expected = torch.stack([client.model.features(x) for client in fed.clients])
    assert torch.equal(found["y"], images.y)
    assert torch.allclose(found["h"] / 127, expected, atol=0.5 / 127 + 1e-6)


def test_each_client_reads_the_next_one(fed, found):
    images = next(iter(fed.scenario.tests.values()))[: seen.IMAGES]
    x = fed.scenario.normalize(images.x)
    h = []
    for k, client in enumerate(fed.clients):
        with torch.no_grad():
            h.append(client.model.features(x))
            theirs = fed.clients[1 - k].model.features(x)
            named = client.model.classifier(theirs).argmax(1)
        assert found["read"][k] == pytest.approx(float((named == images.y).double().mean()))
    right = [images.y[((h[1] - h[0][i]) ** 2).sum(1).argmin()] == images.y[i] for i in range(200)]
    assert found["neighbors"] == pytest.approx(np.mean(right), abs=0.011)  # near ties
    assert -1 < found["groups"] < 1
    assert found["bins"].shape == (len(seen.EDGES) - 1, 3) and found["bins"][:, 2].sum() <= 1


def test_rounds_between_looks_are_left_out(fed, monkeypatch):
    monkeypatch.setattr(fed, "settings", SimpleNamespace(rounds=60))
    assert seen.reading(fed) == {}  # round 1; the next look is at round 3
    monkeypatch.setattr(fed, "round_", 3)
    assert "read" in seen.reading(fed) and "h" not in seen.reading(fed)


def test_a_look_leaves_networks_ready_to_train(fed, found):
    assert all(client.model.training for client in fed.clients)


def test_h_beside_how_often_a_pair_is_of_one_class():
    same = [[0.95, 0.05], [0.8, 0.2], [0.2, 0.8], [0.4, 0.6]]
    found = seen.bins(torch.tensor(same), torch.tensor([0, 0, 1, 1]))
    assert found[-1].tolist() == pytest.approx([0.95, 1.0, 1 / 8])  # one of eight pairs
    assert found[0].tolist() == pytest.approx([0.2, 0.0, 2 / 8])
    assert found[:, 2].sum() == pytest.approx(7 / 8)  # that at 0.05 is in no bin
    runs = [[{}, {"bins": found}]]
    assert seen.calibration(runs).shape == (1, 5, 3)
    off = [0.2, 0.2, 0.4, 0.4, 0.2, 0.2, 0.05]  # of the pairs in the bins
    assert seen.miscalibrated(runs)[0] == pytest.approx(np.mean(off))


def test_what_is_read_from_looks():
    runs = [[{"read": [0.25, 0.75], "groups": 0.1}, {}, {"read": [0.5, 1.0], "groups": 0.3}]]
    assert seen.through(runs, "read").tolist() == [[0.5, 0.75]]
    assert seen.through(runs, "groups").tolist() == [[0.1, 0.3]]


def test_what_is_read_from_results(monkeypatch):
    monkeypatch.setattr(seen, "accuracies", lambda history: [{"intra": a} for a in history])
    runs = [
        SimpleNamespace(history=[0.5, 0.8, 0.9], headline={"intra": 0.9}),
        SimpleNamespace(history=[0.2, 0.3, 0.4], headline={"intra": 0.4}),
    ]
    assert seen.points(runs).tolist() == [90, 40]
    assert seen.rounds_to(runs, 0.7).tolist() == [20, 40]
    assert seen.rounds_to(runs, 0.3, every=5).tolist() == [5, 10]


def test_the_first_look_on_a_line_is_one_behind_the_last_where_there_is_none():
    values = np.array([[0.0, 0.2, 0.0], [0.0, 0.0, 0.1], [0.0, 0.0, 0.0]])
    assert seen.first_look(values, 0.1).tolist() == [1, 2, 3]


def test_printed_beside_measured():
    value = {"A": {2: np.array([80.0, 82.0])}, "B": {2: np.array([80.0, 82.0])}}
    table = seen.beside(value | {"C": {2: np.array([5.0])}}, {"A": {2: 81.0}, "B": {2: 90.0},
                                                              "C": {2: 50.0}})  # fmt: skip
    assert table["A"][2] == "81.00 → 81.0 ± 1.4" and table["B"][2] == "90.00 → 81.0 ± 1.4 *"
    assert table["C"][2] == "50.00 → 5.0"  # one run has no spread to judge by


def test_the_bound_is_never_above_the_information():
    for seed in range(3):
        for n_avg, features in ((1, 1), (10, 32)):
            pair = seen.gaussian(n_avg, features, seed, pairs=4000)
            for K in (9, 99):
                known = min(pair["mutual information"], math.log(K))
                assert pair[f"bound, K = {K}"] < known + 0.05


def test_gaussians_share_what_their_correlation_says():
    rho2 = 1 / (2 * 1.1)
    assert seen.gaussian(10, 3, 0)["mutual information"] == pytest.approx(-1.5 * math.log(1 - rho2))


def test_a_blunter_discriminator_has_a_worse_bound():
    p = seen.random_table(0)
    assert float(p.sum()) == pytest.approx(1)
    bounds = [seen.table_of(p, sharp=v)[1] for v in (1.0, 0.7, 0.4, 0.1)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[0] == max(seen.table_of(p, sharp=v)[1] for v in (0.9, 1.0, 1.1))


def test_independent_features_share_nothing():
    p = torch.ones(3, 3).double() / 9
    information, bound = seen.table_of(p, negatives=9)
    assert information == pytest.approx(0, abs=1e-12)
    assert bound == pytest.approx(-10 * math.log(10 / 9))


def test_features_that_share_a_class_share_at_most_log_c():
    shared = [seen.table_of(seen.by_class(0, clear))[0] for clear in (0, 4, 12)]
    assert shared == sorted(shared) and shared[-1] < math.log(10)
    assert shared[-1] == pytest.approx(math.log(10), abs=0.01)
    assert float(seen.by_class(0, 4).sum()) == pytest.approx(1)
