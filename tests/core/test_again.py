"""A second `run` of a federation: it goes on where it stood, or says why it cannot."""

import copy
import gc
import os
import signal
import threading
import time
from functools import cache

import pytest
from support.every import ready
from support.federations import assert_same_bits, tiny_scenario, weights_of
from support.runs import stop_after

from fedtutor import rounds
from fedtutor.engine.checkpoints import Checkpoints
from fedtutor.errors import StorageError, TrainingError
from fedtutor.rounds import run

ROUNDS = 3
NAMES = ("fedavg", "fccl", "scaffold", "fedlgd")
HOOKS = ("select", "collaborate", "local_data", "local_loss", "after_step", "after_epoch",
         "after_local", "aggregate", "evaluated", "predict")  # fmt: skip
PLACES = [("start", 0), ("predict", 0), *((hook, 2) for hook in HOOKS)]
BREAKS = [(ValueError, 1), (KeyboardInterrupt, 2)]  # what happens, with so many threads
every_name = pytest.mark.parametrize("name", NAMES)
every_place = pytest.mark.parametrize(("hook", "round_"), PLACES)
every_break = pytest.mark.parametrize(("error", "threads"), BREAKS)


def fresh(name, **options):
    return ready(name, **{"rounds": ROUNDS, "observe": ["after_local"], **options})


def state_of(fed):
    """All weights, and the history without its seconds, as they are now."""
    weights = {key: value.clone() for key, value in weights_of(fed).items()}
    return weights, copy.deepcopy({**fed.history, "seconds": len(fed.history["seconds"])})


def assert_same(a, b):
    assert_same_bits(a[0], b[0])
    assert a[1] == b[1]


@cache
def straight(name):
    """One run without a stop."""
    fed = fresh(name)
    run(fed)
    return state_of(fed)


def interrupted(fed, hook, round_, error, **options):
    """Play until a hook raises; after that it would raise no more."""
    original = getattr(fed.method, hook)

    def broken(*given):
        if fed.round_ == round_:
            raise error("stop")
        return original(*given)

    setattr(fed.method, hook, broken)
    with pytest.raises(error):
        run(fed, **options)
    delattr(fed.method, hook)
    return fed


@every_name
def test_after_the_end_nothing_is_left_to_do(name):
    fed = fresh(name)
    history = run(fed)
    assert run(fed) is history
    assert_same(state_of(fed), straight(name))


@every_name
@pytest.mark.parametrize("count", range(ROUNDS))
def test_between_two_rounds_it_goes_on(name, count):
    fed = fresh(name)
    with pytest.raises(KeyboardInterrupt):
        run(fed, progress=stop_after(count, KeyboardInterrupt))
    run(fed, progress=lambda numbers: list(numbers)[:1])
    run(fed)
    assert_same(state_of(fed), straight(name))


@every_name
@every_place
@every_break
def test_half_a_round_is_refused_and_nothing_changes(name, hook, round_, error, threads):
    fed = interrupted(fresh(name, threads=threads), hook, round_, error)
    before = state_of(fed)
    place = f"in round {round_}" if round_ else "before round 1"
    with pytest.raises(TrainingError, match=f"interrupted {place}") as caught:
        run(fed)
    assert "checkpoint" in caught.value.do
    assert_same(state_of(fed), before)


@every_name
@every_place
@every_break
@pytest.mark.parametrize("every", [0, 1e9])
def test_with_a_checkpoint_half_a_round_goes_on(
    name, hook, round_, error, threads, every, tmp_path
):
    """From the last checkpoint; where nothing was saved yet, from the beginning."""
    kept = {"checkpoint": tmp_path, "every": every}
    fed = interrupted(fresh(name, threads=threads), hook, round_, error, **kept)
    run(fed, **kept)
    assert_same(state_of(fed), straight(name))
    run(fed, **kept)
    assert_same(state_of(fed), straight(name))


@pytest.mark.parametrize("name", ["fedavg", "central"])
def test_the_reproduction_of_the_review(name, tmp_path):
    """Interrupted in round 2 of 4, and called again: the history was 0, 1, 2, 2, 3, 4."""
    whole = ready(name, rounds=4)
    run(whole)
    for options in ({}, {"checkpoint": tmp_path, "every": 0}):
        fed = interrupted(ready(name, rounds=4), "after_step", 2, KeyboardInterrupt, **options)
        try:
            run(fed, **options)
        except TrainingError:
            assert not options
            run(fed := ready(name, rounds=4))
        assert [row["round"] for row in fed.history["accuracy"]] == [0, 1, 2, 3, 4]
        assert_same(state_of(fed), state_of(whole))


def test_a_kept_optimizer_begins_with_the_checkpoint(tmp_path):
    """Client 1 had no memory when the checkpoint was written, and some when the round broke."""
    options = {"momentum": 0.9, "keep_optimizer": True, "participation": 0.4, "seed": 3}
    whole, kept = fresh("fedavg", **options), {"checkpoint": tmp_path, "every": 0}
    run(whole)
    fed = interrupted(fresh("fedavg", **options), "aggregate", 2, ValueError, **kept)
    run(fed, **kept)
    assert_same(state_of(fed), state_of(whole))


@pytest.mark.parametrize("rounds_by_hand", [[1], [1, 2], [7]])
def test_rounds_by_hand_are_played_and_run_does_not_mix_with_them(rounds_by_hand):
    fed = fresh("fedavg")
    fed.method.start(fed)
    for number in rounds_by_hand:
        rounds.run_round(fed, number)
    before = state_of(fed)
    with pytest.raises(TrainingError, match="run one by one"):
        run(fed)
    assert_same(state_of(fed), before)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_round_by_hand_between_two_calls_is_not_mixed_in(number):
    fed = fresh("fedavg")
    run(fed, progress=lambda numbers: list(numbers)[:2])
    rounds.run_round(fed, number)
    with pytest.raises(TrainingError, match="run one by one"):
        run(fed)


def test_what_ran_without_a_checkpoint_is_saved_when_one_is_named(tmp_path):
    fed = fresh("fedavg")
    run(fed, progress=lambda numbers: list(numbers)[:2])
    run(fed, checkpoint=tmp_path, every=1e9, progress=lambda numbers: [])
    assert [path.name for path in Checkpoints(tmp_path, 0).files()] == ["round-000002.pt"]
    resumed = fresh("fedavg")
    run(resumed, checkpoint=tmp_path)
    assert_same(state_of(resumed), straight("fedavg"))


def test_the_folder_of_another_run_is_left_alone(tmp_path):
    run(fresh("fedavg", seed=1), checkpoint=tmp_path)
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    fed = fresh("fedavg")
    run(fed, progress=lambda numbers: list(numbers)[:1])
    broken = interrupted(fresh("fedavg"), "aggregate", 1, ValueError)
    for again in (fed, broken):
        with pytest.raises(StorageError, match="another run"):
            run(again, checkpoint=tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files


def test_filters_of_the_channel_stay_when_networks_are_set_up_anew(tmp_path):
    fed, seen = fresh("fedavg"), []
    fed.channel.filters.append(lambda message, own: seen.append(message.round_) or message.payload)
    interrupted(fed, "aggregate", 2, ValueError, checkpoint=tmp_path, every=0)
    seen.clear()
    run(fed, checkpoint=tmp_path, every=0)
    assert set(seen) == {2, 3}
    assert_same(state_of(fed), straight("fedavg"))


@pytest.fixture
def ctrl_c():
    """Ctrl-C interrupts, also in a shell's background job and beside hypothesis.

    Hypothesis is called by the garbage collection, where Python drops an interrupt.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()
    yield
    gc.enable()
    signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(os.name != "posix", reason="a wait cannot be interrupted on this system")
def test_after_ctrl_c_no_other_client_begins(ctrl_c):
    fed, began = ready("fedavg", scenario=tiny_scenario(clients=8), threads=2), []

    def local_data(client):
        began.append(client.id)
        time.sleep(0.2)  # until the main thread waits
        if client.id == began[0]:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        time.sleep(0.2)
        return client.data

    fed.method.local_data = local_data
    with pytest.raises(KeyboardInterrupt):
        run(fed)
    assert len(began) == 2
