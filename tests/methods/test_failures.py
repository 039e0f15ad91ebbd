"""A client fails: the same bits for any number of threads, and as if it had not been there."""

import warnings

import pytest
import torch
from support.every import NAMES, same, small
from support.every import crowded as ready
from support.federations import assert_same_bits, federation, weights_of

from fedtutor.errors import SettingError, TrainingError
from fedtutor.methods import Method
from fedtutor.rounds import run
from fedtutor.settings import CHOICES

WHO, WHEN = "domain1", 2


def failing(name: str, error=RuntimeError, *, who=(WHO,)) -> Method:
    """The method, with clients that fail in the second local step of a round."""
    method = small(name)
    usual, calls = method.local_loss, {}

    def local_loss(client, x, y):
        if client.id in who and client.round_ == WHEN:
            calls[client.id] = calls.get(client.id, 0) + 1
            if calls[client.id] == 2 and error is None:
                return usual(client, x, y) * float("nan")
            if calls[client.id] == 2:
                raise error("out of memory")
        return usual(client, x, y)

    method.local_loss = local_loss
    return method


def sitting_out(name: str) -> Method:
    """The method, with a round in which one client is not selected."""
    method = small(name)
    method.select = lambda fed: [c for c in fed.clients if (c.id, fed.round_) != (WHO, WHEN)]
    return method


def left_out(name: str, threads: int = 1, *, method: Method | None = None, **changes):
    options = {"participation": 1.0, "on_client_error": "leave_out", **changes}
    fed = ready(name, threads, method or failing(name), **options)
    with pytest.warns(RuntimeWarning, match=f"round 2 goes on without {WHO}: "):
        run(fed)
    return fed


def nobody_is_left(method: Method, words: str) -> None:
    fed = ready(method.name, 1, method, participation=1.0, on_client_error="leave_out")
    with (
        pytest.warns(RuntimeWarning),
        pytest.raises(TrainingError, match=f"no client is left: {words}"),
    ):
        run(fed)


@pytest.mark.parametrize("name", [n for n in NAMES if n != "central"])  # it has one client
def test_a_failure_changes_the_same_bits_for_any_number_of_threads(name):
    one, three = left_out(name), left_out(name, 3)
    same(one, three)
    assert all(v.isfinite().all() for v in weights_of(one).values())
    words = "RuntimeError: out of memory"
    assert one.history["failures"] == [{"round": WHEN, "client": WHO, "error": words}]
    losses = [row["values"][1] for row in one.history["loss"]]
    assert [loss is None for loss in losses] == [False, True, False]


@pytest.mark.parametrize(
    "name", ["solo", "fedavg", "fedprox", "fedavgm", "fednova", "scaffold", "moon"]
)
@pytest.mark.parametrize("keep", [False, True])
def test_it_is_as_if_the_client_had_not_been_selected(name, keep):
    if keep and name == "fednova":
        pytest.skip("it refuses momentum that is kept")
    fed = left_out(name, keep_optimizer=keep)
    other = ready(name, method=sitting_out(name), participation=1.0, keep_optimizer=keep)
    run(other)
    assert_same_bits(weights_of(fed), weights_of(other))
    assert [c.steps for c in fed.clients] == [c.steps for c in other.clients]
    for key in ("accuracy", "loss"):
        assert fed.history[key] == other.history[key]
    plain = ready(name, participation=1.0, keep_optimizer=keep)
    run(plain)
    assert any(not torch.equal(v, weights_of(plain)[n]) for n, v in weights_of(fed).items())


def failing_exchange(name: str, *, who=(WHO,)) -> Method:
    """The method, with clients whose part of the exchange fails when it is done."""
    method = small(name)
    usual = method.collaborate
    method.failed = []

    def collaborate(fed, clients):
        each = fed.each

        def part(client, fn):
            value = fn(client)
            if client.id in who and fed.round_ == WHEN:
                method.failed.append(client.id)
                raise MemoryError(f"no room for {client.id}")
            return value

        fed.each = lambda clients, fn: each(clients, lambda client: part(client, fn))
        try:
            usual(fed, clients)
        finally:
            del fed.each

    method.collaborate = collaborate
    return method


def exchanges(name: str) -> bool:
    """Whether clients compute something before their local update."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        method = failing_exchange(name)
        run(ready(name, method=method, participation=1.0, on_client_error="leave_out"))
    return bool(method.failed)


ALONE = ("central", "solo")
EXCHANGE = [name for name in NAMES if name not in ALONE]


@pytest.mark.parametrize("name", [n for n in NAMES if n != "central"])
def test_who_computes_in_the_exchange(name):
    assert exchanges(name) == (name in EXCHANGE), (
        "ALONE lists who asks its clients for nothing inside `collaborate`: add the method there"
    )


@pytest.mark.parametrize("name", EXCHANGE)
@pytest.mark.parametrize("threads", [1, 3])
def test_a_failure_in_the_exchange_puts_everybody_back(name, threads):
    """Clients, server and random numbers: the round is that of the others alone."""
    fed = left_out(name, threads, method=failing_exchange(name))
    assert fed.history["failures"] == [
        {"round": WHEN, "client": WHO, "error": f"MemoryError: no room for {WHO}"}
    ]
    other = ready(name, method=sitting_out(name), participation=1.0)
    run(other)
    assert_same_bits(weights_of(fed), weights_of(other))
    for key in ("accuracy", "loss"):
        assert fed.history[key] == other.history[key]
    assert [c.steps for c in fed.clients] == [c.steps for c in other.clients]


@pytest.mark.parametrize("name", ["kd", "fccl", "rhfl"])
def test_the_first_public_loss_that_is_no_number_names_its_client(name):
    """From the next batch on everybody's is none, because all of them hear this client's logits."""
    method = small(name)
    usual, calls = method.public_loss, {}

    def public_loss(client, *given):
        if client.round_ != WHEN:
            return usual(client, *given)
        calls[client.id] = calls.get(client.id, 0) + 1
        broken = client.id == WHO and calls[client.id] == 2
        return usual(client, *given) * (float("inf") if broken else 1)

    method.public_loss = public_loss
    fed = left_out(name, method=method, public_batch_size=5)
    assert fed.history["failures"][0]["error"].startswith(f"the public loss of client {WHO} is ")
    assert len(fed.history["failures"]) == 1
    other = ready(name, method=sitting_out(name), participation=1.0, public_batch_size=5)
    run(other)
    assert_same_bits(weights_of(fed), weights_of(other))


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
    fed = ready("kd", method=method, participation=1.0, rounds=2, on_client_error="leave_out")
    with pytest.warns(RuntimeWarning, match=f"goes on without {broken}"):
        run(fed)
    assert [row["client"] for row in fed.history["failures"]] == [broken]


def test_what_select_notes_is_there_when_the_exchange_begins_again():
    method, seen = failing_exchange("kd"), []
    usual = method.select, method.collaborate

    def select(fed):
        fed.server.state["selected"] = fed.round_
        return usual[0](fed)

    def collaborate(fed, clients):
        seen.append((fed.round_, fed.server.state["selected"]))
        usual[1](fed, clients)

    method.select, method.collaborate = select, collaborate
    left_out("kd", method=method)
    assert seen == [(1, 1), (2, 2), (2, 2), (3, 3)]


def test_a_failure_of_somebody_who_is_not_selected_stops_the_run():
    method = failing_exchange("kd")
    usual, method.select = method.collaborate, sitting_out("kd").select
    method.collaborate = lambda fed, clients: usual(fed, fed.clients)
    with pytest.raises(MemoryError, match=f"no room for {WHO}"):
        run(ready("kd", method=method, participation=1.0, on_client_error="leave_out"))


def test_who_failed_keeps_no_memory():
    fed = left_out("moon", rounds=WHEN)
    (client,) = [c for c in fed.clients if c.id == WHO]
    assert client.once is None and client.optimizer is None
    assert all(p.grad is None for p in client.parameters())


def test_an_optimizer_that_is_kept_is_put_back_after_a_failed_exchange():
    fed = left_out("kd", method=failing_exchange("kd"), keep_optimizer=True)
    other = ready("kd", method=sitting_out("kd"), participation=1.0, keep_optimizer=True)
    run(other)
    assert_same_bits(weights_of(fed), weights_of(other))
    for ours, theirs in zip(fed.clients, other.clients, strict=True):
        left, right = ours.optimizer.state_dict(), theirs.optimizer.state_dict()
        assert str(left) == str(right) and left["state"]


def test_two_failures_in_the_exchange_leave_out_two():
    for threads in (1, 3):
        method = failing_exchange("fccl", who=("domain1", "domain3"))
        fed = ready("fccl", threads, method, participation=1.0, on_client_error="leave_out")
        with pytest.warns(RuntimeWarning) as warned:
            run(fed)
        assert [row["client"] for row in fed.history["failures"]] == ["domain1", "domain3"]
        assert len(warned) == 2
        assert [v is None for v in fed.history["loss"][1]["values"]] == [False, True, False, True]


def test_a_failed_exchange_stops_the_run_by_default_or_where_nobody_is_left():
    everybody = [f"domain{k}" for k in range(4)]
    with pytest.raises(MemoryError, match="no room for domain1") as caught:
        run(ready("fccl", 3, failing_exchange("fccl"), participation=1.0))
    assert caught.value.__notes__ == [f"client {WHO}, round {WHEN}"]
    nobody_is_left(failing_exchange("fccl", who=everybody), "MemoryError: no room for domain3")


def test_what_fails_in_nobodys_name_stops_the_run():
    method = small("fedavg")
    method.collaborate = lambda fed, clients: torch.ones(2) @ torch.ones(3)
    with pytest.raises(RuntimeError):
        run(ready("fedavg", 1, method, participation=1.0, on_client_error="leave_out"))


def test_a_loss_that_is_no_number_is_a_failure_too():
    fed = left_out("solo", method=failing("solo", None))
    assert fed.history["failures"][0]["error"] == f"the loss of client {WHO} is nan"
    assert all(v.isfinite().all() for v in weights_of(fed).values())


def test_a_run_with_a_failure_resumes_bit_for_bit(tmp_path):
    whole = left_out("fedavg")
    fed = ready("fedavg", 1, failing("fedavg"), participation=1.0, on_client_error="leave_out")

    def stop(rounds):
        for round_ in rounds:
            yield round_
            if round_ == WHEN:
                return

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(fed, checkpoint=tmp_path, every=0, progress=stop)
    again = ready("fedavg", participation=1.0, on_client_error="leave_out")
    run(again, checkpoint=tmp_path, every=0)
    same(whole, again)


def test_by_default_a_failure_stops_the_run_and_names_the_client():
    for threads in (1, 3):
        with pytest.raises(RuntimeError, match="out of memory") as caught:
            run(ready("fedavg", threads, failing("fedavg"), participation=1.0))
        assert caught.value.__notes__ == [f"client {WHO}, round {WHEN}"]


def test_a_mistake_in_the_code_is_no_failure_of_a_client():
    method = failing("fedavg", AttributeError)
    with pytest.raises(AttributeError):
        run(ready("fedavg", 1, method, participation=1.0, on_client_error="leave_out"))


def test_if_nobody_is_left_the_run_stops():
    method = failing("fedavg", who=[f"domain{k}" for k in range(4)])
    nobody_is_left(method, "RuntimeError: out of memory")


def test_what_to_do_is_one_of_two_words():
    assert CHOICES["on_client_error"] == ("stop", "leave_out")
    with pytest.raises(SettingError, match="on_client_error"):
        federation(on_client_error="ignore")
