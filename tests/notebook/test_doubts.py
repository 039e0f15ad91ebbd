"""The experiments of notebook 01b: known answers where there are some, and runs at small sizes."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from fedtutor import losses
from fedtutor.notebook import doubts
from fedtutor.notebook.start import start

PARAMETERS = {"profile": "quick", "scenario": None, "seeds": [0], "methods": ["solo", "fccl"],
              "device": "cpu"}  # fmt: skip


@pytest.fixture(scope="module")
def run():
    small = {"fccl.pretrain_epochs": 1, "scenario.private_size": 40}
    return start({**PARAMETERS, "overrides": small}, recipe="fccl")


def result(*accuracies, moments=("after_collaborate", "end")):
    """A result of two clients: one matrix per moment, the last one also as headline."""
    entries = [{"moment": moment, "round": 1, "matrix": matrix}
               for moment, matrix in zip(moments, accuracies, strict=True)]  # fmt: skip
    last = accuracies[-1]
    return SimpleNamespace(history={"accuracy": entries}, headline={
        "intra": (last[0][0] + last[1][1]) / 2, "inter": (last[0][1] + last[1][0]) / 2,
    })  # fmt: skip


def test_nothing_turns_a_step_that_sees_no_photographs():
    W = torch.randn(10)
    assert doubts.turned(0, lambda z, mean: (z.mean(0) * 0 + W).sum() + z.sum() * 0 + z[0].sum()
                         ) == pytest.approx(0, abs=1e-5)  # fmt: skip


def test_wild_photographs_turn_a_step_that_they_enter():
    squared = doubts.turned(0, lambda z, mean: (z - mean).square().sum())
    assert 0.1 < squared <= 2
    assert doubts.calmer(1) == doubts.turned(1, losses.distillation) - doubts.turned(
        1, doubts.agree
    )


def test_one_domain_is_less_to_disagree_about(run):
    several = run.federation("fccl", 0)
    assert len({client.domain for client in several.clients}) == 4
    parts = [doubts.diagonal_part(run, 0, one_domain=alike) for alike in (False, True)]
    assert all(0 < part < 40 for part in parts) and parts[0] != parts[1]


def test_clients_of_other_classes_cannot_take_part(run):
    assert doubts.different_classes(run, 0) is True


def test_only_a_new_adam_moves_by_the_whole_rate(run):
    assert (
        doubts.full_steps(run, 0, fresh=True) > 0.8 > 0.3 > doubts.full_steps(run, 0, fresh=False)
    )


def test_a_fit_that_adds_nothing_changes_nothing(run):
    nothing = doubts.first_public_half(run, "fccl", 0, lambda z, y: 0.0)
    found = dict(zip(doubts.HOME, nothing, strict=True))
    assert found["before"] == found["before, offsets"]
    assert found["after"] == found["after, offsets"]
    one_class = torch.eye(10)[3] * 1e6
    always = doubts.first_public_half(run, "fccl", 0, lambda z, y: one_class)
    assert always[1] == pytest.approx(always[4])  # everything is a 3, before and after
    assert always[2] == found["after"]


def test_reading_of_results():
    better = result([[0.5, 0.1], [0.2, 0.6]], [[0.9, 0.3], [0.5, 0.7]])
    worse = result([[0.5, 0.1], [0.2, 0.6]], [[0.9, 0.2], [0.4, 0.7]])
    assert doubts.accuracy([better, worse], "inter") == pytest.approx([40, 30])
    assert doubts.by_client([better]) == pytest.approx(np.array([[30, 50]]))
    assert doubts.before_local([better]) == pytest.approx([15])


def test_late_gain_is_five_rounds_less_five_before():
    def rising(step):
        curve = [{"moment": "end", "round": n, "epoch": 0,
                  "matrix": [[n * step, 0.0], [0.0, n * step]]} for n in range(41)]  # fmt: skip
        return SimpleNamespace(history={"accuracy": curve, "tests": ["a", "b"],
                                        "domains": ["a", "b"], "clients": ["a", "b"]})  # fmt: skip

    assert doubts.late_gain([rising(0.01)], "intra") == pytest.approx([10])
    assert doubts.late_gain([rising(0.0)], "intra") == pytest.approx([0])


def test_the_table_leaves_out_what_is_said_in_words():
    values = np.array([[70.0, 71, 60, 61, 65], [72.0, 71, 62, 61, 67]])
    table = doubts.home_table({"fccl": values})
    assert list(table.columns) == ["before", "after", "after, old statistics", "after, offsets"]
    assert table.loc["FCCL", "after"] == "61.0 ± 1.4"
