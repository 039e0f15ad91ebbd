"""A client fails: the run stops and names it, for any number of threads and for every method."""

import pytest
import torch
from support.every import NAMES, small
from support.every import crowded as ready

from fedtutor.errors import DivergenceError
from fedtutor.methods import Method
from fedtutor.rounds import run

WHO, WHEN = "domain1", 2


def failing(name: str, error=RuntimeError) -> Method:
    """The method, with a client that fails in the second local step of a round."""
    method = small(name)
    usual, calls = method.local_loss, []

    def local_loss(client, x, y):
        if client.id == WHO and client.round_ == WHEN:
            calls.append(client.id)
            if len(calls) == 2 and error is None:
                return usual(client, x, y) * float("nan")
            if len(calls) == 2:
                raise error("out of memory")
        return usual(client, x, y)

    method.local_loss = local_loss
    return method


@pytest.mark.parametrize("name", [n for n in NAMES if n != "central"])  # it has one client
def test_a_failure_stops_the_run_and_names_the_client(name):
    for threads in (1, 3):
        with pytest.raises(RuntimeError, match="out of memory") as caught:
            run(ready(name, threads, failing(name), participation=1.0))
        assert caught.value.__notes__ == [f"client {WHO}, round {WHEN}"]
        assert caught.value.client.id == WHO


def test_a_loss_that_is_no_number_stops_the_run():
    with pytest.raises(DivergenceError, match=f"the loss of client {WHO} is nan"):
        run(ready("solo", 1, failing("solo", None), participation=1.0))


@pytest.mark.parametrize("name", ["kd", "fccl", "rhfl"])
def test_the_first_public_loss_that_is_no_number_names_its_client(name):
    """From the next batch on everybody's is none, because all of them hear this client's logits."""
    method = small(name)
    usual, calls = method.public_loss, {}

    def public_loss(client, *given):
        calls[client.id] = calls.get(client.id, 0) + 1
        broken = client.id == WHO and client.round_ == WHEN
        return usual(client, *given) * (float("inf") if broken else 1)

    method.public_loss = public_loss
    with pytest.raises(DivergenceError, match=f"the public loss of client {WHO} is "):
        run(ready(name, 1, method, participation=1.0, public_batch_size=5))


@pytest.mark.parametrize("damage", [float("nan"), 1e30])
def test_whose_weights_broke_is_named_though_all_fail_in_the_same_batch(damage):
    method, broken = small("kd"), "domain3"
    usual = method.after_local

    def after_local(client):
        if client.id == broken and client.round_ == WHEN - 1:
            with torch.no_grad():
                client.model.classifier.weight.mul_(damage)
        return usual(client)

    method.after_local = after_local
    fed = ready("kd", 1, method, participation=1.0, rounds=WHEN, eval_every=WHEN)
    with pytest.raises(DivergenceError, match=f"client {broken}"):
        run(fed)
