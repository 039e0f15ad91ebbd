"""The benchmark compares loops that do the same work, and the README says what it measured."""

import bench_rounds as bench
import pytest
import torch

from fedtutor.storage import ROOT, load_json


def small(**changes) -> bench.Workload:
    settings = {"optimizer": "sgd", "lr": 0.05, "momentum": 0.9, "batch_size": 1000, **changes}
    build = bench.mnist(num_clients=3, private_size=90, min_per_client=5, partition="dirichlet")
    return bench.Workload("small", "lenet5", settings, build)


@pytest.mark.parametrize("tensors", [False, True])
def test_the_naive_loop_is_the_same_algorithm(tensors):
    """With one batch per client no order of images can differ: the weights agree."""
    theirs, ours = bench.naive(small(), "cpu", 1, tensors=tensors), bench.ours(small(), "cpu", 1)
    before = {n: v.clone() for n, v in ours.fed.server.model.state_dict().items()}
    for _ in range(2):
        theirs()
        ours()
    expected = theirs.server.state_dict()
    for name, value in ours.fed.server.model.state_dict().items():
        moved = float((value - before[name]).abs().max())
        assert moved > 0 and float((value - expected[name]).abs().max()) < 0.001 * moved, name


def test_the_floor_makes_as_many_steps():
    work = small(batch_size=7, local_epochs=2)
    ours, floor = bench.ours(work, "cpu", 1), bench.floor(work, "cpu", 1)
    ours()
    assert sum(client.steps for client in ours.fed.clients) == floor.steps > 20


def test_everybody_has_a_turn_in_changing_order(monkeypatch):
    monkeypatch.setattr(bench, "_pin", lambda threads: None)
    turns = []
    for name in bench.CONTESTANTS:
        monkeypatch.setitem(bench.CONTESTANTS, name, lambda work, device, threads, name=name:
                            lambda: turns.append((name, threads)))  # fmt: skip
    names = ["naive", "ours", "floor"]
    times = bench.measure(small(), device="cpu", threads=2, repeats=2, names=names)
    assert list(times) == [*names, "naive on one", "floor on one"]
    assert {len(t[clock]) for t in times.values() for clock in ("wall", "cpu")} == {2}
    first, second, _ = turns[:5], turns[5:10], turns[10:]
    assert first[::-1] == second
    assert second == [("naive", 2), ("ours", 2), ("floor", 2), ("naive", 1), ("floor", 1)]


def test_threads_are_set_back():
    before = torch.get_num_threads()
    bench.floor(small(), "cpu", before + 1)()
    assert torch.get_num_threads() == before


def test_ratios_by_hand():
    def row(**walls):
        times = {name.replace("_", " "): {"wall": v, "cpu": v} for name, v in walls.items()}
        return {"times": times}

    found = bench.ratios(row(naive=[4.0, 9.0, 6.0], tensors=[2.0, 3.0, 3.0], ours=[2.0, 3.0, 2.0],
                             floor=[2.0, 2.0, 2.0], floor_on_one=[1.0, 1.0, 9.0]))  # fmt: skip
    assert found == {"naive / ours": 3.0, "tensors / ours": 1.0, "ours / floor": 2.0}


def test_the_readme_says_what_was_measured():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text == bench.with_measured(text), (
        "README.md is not data/speed.json and data/faults.json; "
        "run python tests/bench_rounds.py --readme"
    )


def test_what_was_killed_came_back():
    killed = load_json(bench.FAULTS)
    assert killed["kills"] == killed["resumed"] == sum(killed["places"].values()) >= 20
    assert killed["differences"] == 0
