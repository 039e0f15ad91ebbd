"""The experiments of notebook 03b: known answers where there are some."""

import numpy as np
import pytest
import torch

from fedtutor import losses
from fedtutor.notebook import doubts_fedcsd as doubts
from fedtutor.notebook.start import start

PARAMETERS = {"profile": "quick", "scenario": None, "seeds": [0], "methods": ["fedcsd"],
              "device": "cpu", "overrides": {"local_epochs": 1}}  # fmt: skip


@pytest.fixture(scope="module")
def run():
    return start(dict(PARAMETERS), recipe="fedcsd")


@pytest.fixture(scope="module")
def fed(run):
    return doubts.played(run, "fedcsd", 0, 1, record={"names": ["prototypes"]})


def test_theory_holds_and_each_check_can_fail(monkeypatch):
    assert doubts.proper(0) and doubts.stricter(0) and doubts.turned(0) < 1e-5
    monkeypatch.setattr(losses, "similarity_scores", lambda delta: delta)
    monkeypatch.setattr(losses, "forcible_mask", lambda z, y: torch.ones(len(z)))
    monkeypatch.setattr(losses, "global_prototypes", lambda own: own[0])
    assert not doubts.proper(0) and not doubts.stricter(0) and doubts.turned(0) > 0.1


def test_the_channel_counts_what_a_method_adds(run):
    plain, fedcsd = (doubts.bytes_by_name(run, m) for m in ("fedavg", "fedcsd"))
    kept = doubts.bytes_by_name(run, "fedcsd", **{"fedcsd.teacher_at": "client"})
    assert plain["weights"] == fedcsd["weights"] == kept["weights"] == 2 * fedcsd["teacher"]
    assert fedcsd["prototypes"] == 10 * 2 * 4 * 10 * 10 and "prototypes" not in plain
    assert "teacher" not in kept


def test_both_teachers_are_equal(run):
    assert doubts.unequal(run, 0) < 1e-6


def test_uploads_tell_who_owns_what(run, monkeypatch):
    assert doubts.read_off(run, 0) == 1
    found = doubts.sent_up

    def everything(fed, number):
        return {name: torch.ones_like(p) for name, p in found(fed, number).items()}

    monkeypatch.setattr(doubts, "sent_up", everything)
    assert 0 < doubts.read_off(run, 0) < 0.9


def test_every_client_sent_its_prototypes(fed):
    sent = doubts.sent_up(fed, 1)
    assert sent.keys() == {client.id for client in fed.clients}
    assert all(p.shape == (10, 10) for p in sent.values()) and not doubts.sent_up(fed, 2)


def test_scores_without_prototypes_are_one_tenth(fed):
    nothing = doubts.scored(fed, lambda client: torch.zeros(10, 10))
    assert nothing[[0, 2]] == pytest.approx([0.1, 0.1], abs=1e-6) and np.isnan(nothing[1])
    sent = doubts.sent_up(fed, 1)
    own = doubts.scored(fed, lambda client: sent[client.id])
    counts = [(len(c.data), len(c.data) * (sent[c.id].any(1).sum() - 1)) for c in fed.clients]
    images, others = (float(sum(column)) for column in zip(*counts, strict=True))
    rest = 9 * images - others
    total = own @ np.array([images, others, rest]) / images
    assert total == pytest.approx(1, abs=1e-5)  # the scores of an image sum to 1
