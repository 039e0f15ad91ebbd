"""The experiments of notebook 02b: known answers where there are some."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from fedtutor.notebook import doubts_fccl_plus as doubts
from fedtutor.notebook.start import start

PARAMETERS = {"profile": "quick", "scenario": None, "seeds": [0], "methods": ["fccl+"],
              "device": "cpu"}  # fmt: skip


@pytest.fixture(scope="module")
def run():
    small = {"fccl+.pretrain_epochs": 1, "scenario.private_size": 40, "local_epochs": 1}
    return start({**PARAMETERS, "overrides": small}, recipe="fccl_plus")


@pytest.fixture
def fed(run):
    fed = run.federation("fccl+")
    fed.method.start(fed)
    return fed


def test_equation_2_is_least_where_classes_are_as_opposite_as_they_can_be():
    assert doubts.where_least(0) == pytest.approx(-1 / 9, abs=0.01)


def test_wild_photographs_turn_the_steps_of_others_only_through_a_batch():
    largest, feddf, fccm = doubts.turned_by_wild(0)
    assert 0 < largest < 1
    assert feddf == pytest.approx(0, abs=1e-5) and fccm > 1e-3


def test_operations_are_counted():
    a = torch.ones(3, 4)
    assert doubts.operations(lambda: a @ a.T) == 2 * 3 * 4 * 3


def test_local_work_is_a_share_of_one_pass(fed):
    work = doubts.local_work(fed)
    client = fed.clients[0]
    x = fed.scenario.normalize(client.data.x[:32])
    forward = doubts.operations(lambda: client.model(x))
    h = client.model.features(x).shape[1]
    assert work["similarities"] * forward == pytest.approx(2 * 32 * 32 * h)
    weights = sum(p.numel() for p in client.model.parameters())
    assert work["penalty"] == pytest.approx(6 * weights / forward)


def test_the_bound_holds_and_its_last_term_has_its_formula():
    for seed in range(5):
        risk, first, last = doubts.bound(seed)
        assert 0 <= risk <= 1 and risk <= first + last
    last = doubts.bound(0, m=50, delta=0.5, K=2)[2]
    assert last == pytest.approx((4 + math.sqrt(math.log(202))) / (0.25 * 10))


def test_one_client_is_the_global_distribution():
    # no discrepancy: its best error on the images, and twice that on its distribution
    p = np.random.default_rng(0).dirichlet(np.ones(10), 1)[0]
    y = (np.arange(10) >= 5) ^ (np.arange(10) == 7)
    H = [(np.arange(10) >= t) ^ flip for t in range(11) for flip in (0, 1)]
    best = min(float(((y != h) * p).sum()) for h in H)
    assert doubts.bound(0, m=10**6, K=1)[1] == pytest.approx(3 * best, abs=0.01)


def test_only_batch_normalization_sees_neighbors_and_the_teacher_is_left_as_it_was(fed):
    teacher = fed.clients[2].model
    before = {name: value.clone() for name, value in teacher.state_dict().items()}
    moved = [doubts.moved_by_neighbors(fed, client, 8) for client in (1, 2)]
    assert moved[0] == pytest.approx(0, abs=1e-6) and 1e-3 < moved[1] < 1
    assert all(torch.equal(before[name], value) for name, value in teacher.state_dict().items())


def test_silhouettes_of_two_domains(run):
    found = doubts.silhouettes(run, 0)
    assert len(found) == 2 and all(-1 <= value <= 1 for value in found)
    assert found == doubts.silhouettes(run, 0)


def test_by_client_has_both_sides():
    matrix = [[0.5, 0.1, 0.3], [0.2, 0.6, 0.4], [0.0, 1.0, 0.7]]
    result = SimpleNamespace(history={"accuracy": [{"matrix": matrix}]})
    found = doubts.by_client([result])
    assert found.shape == (1, 3, 2)
    assert found[0].tolist() == [pytest.approx([20, 50]), pytest.approx([30, 60]),
                                 pytest.approx([50, 70])]  # fmt: skip
