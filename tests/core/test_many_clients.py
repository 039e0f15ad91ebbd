"""Whoever does not take part costs next to nothing, and changes no bit of those who do."""

import pytest
from support.federations import assert_same_bits, federation, tiny_scenario, weights_of
from support.runs import Stop, stop_after

from fedtutor.engine.checkpoints import Checkpoints
from fedtutor.rounds import run

MANY = {"scenario": tiny_scenario(clients=40, count=6), "participation": 0.05, "rounds": 3,
        "models": ["noisy"]}  # fmt: skip


def built(fed) -> set[str]:
    return {client.id for client in fed.clients if client.has_networks}


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "fedprox", "fedcsd", "moon"])
def test_networks_that_are_built_when_they_are_asked_for_have_the_same_bits(method):
    late, early = federation(method, **MANY), federation(method, **MANY)
    for client in early.clients:
        _ = client.models
    assert built(early) == {client.id for client in early.clients}
    assert run(late)["accuracy"] == run(early)["accuracy"]
    assert_same_bits(weights_of(late), weights_of(early))


def test_who_never_took_part_holds_no_network():
    fed = federation("fedavg", **MANY)
    assert len(built(fed)) == 1  # the first, to see that the network fits
    run(fed)
    assert 1 < len(built(fed)) <= 1 + 2 * 3


def test_a_stop_wakes_nobody(tmp_path):
    whole, begun, fed = (federation("fedavg", **MANY) for _ in range(3))
    run(whole)
    with pytest.raises(Stop):
        run(begun, checkpoint=Checkpoints(tmp_path, 0), progress=stop_after(1))
    run(fed, checkpoint=tmp_path)
    assert built(fed) == built(whole)
    assert_same_bits(weights_of(fed), weights_of(whole))
