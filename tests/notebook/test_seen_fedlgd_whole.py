"""What notebook 05a sees: a look at small federations with and without anchors."""

import math

import numpy as np
import pytest
import torch

from fedtutor import Federation, Settings, measures, methods, rounds, scenarios
from fedtutor.distillation import virtual_images
from fedtutor.experiments import looks
from fedtutor.notebook import seen_fedlgd_whole as seen

SMALL = {
    "fedlgd": {"selected": 1, "every": 3, "local_steps": 1, "global_steps": 1, "global_ipc": 1},
    "fedavg": {},
}


def seen_in(method):
    """What the look saw before round 1 and after the only one, and the federation."""
    made = scenarios.build("digits-mini", private_size=40)
    settings = Settings(
        rounds=1, local_epochs=1, batch_size=16, models=["small_convnet"], virtual_ipc=1,
        virtual_steps=1, lr=0.1,
    )  # fmt: skip
    fed = Federation(made, methods.METHODS[method](**SMALL[method]), settings, seed=1)
    found = []
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
    assert seen.rounds_seen(runs) == [0, 2]
