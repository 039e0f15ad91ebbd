"""The benchmark compares loops that do the same work, and the pages say what it measured."""

from collections import Counter
from unittest.mock import patch

import nbformat
import pytest
import torch
from support.notebooks import frozen

from fedtutor.engine import optimizers
from fedtutor.engine.files import ROOT, load_json, numbered
from fedtutor.models import base
from tools import markdown, refresh
from tools.bench import clients, gpu, layouts, page
from tools.bench import rounds as bench
from tools.bench.shared import flat as flat_weights


def small(**changes) -> bench.Workload:
    """It is over at once."""
    settings = {"optimizer": "sgd", "lr": 0.05, "momentum": 0.9, "batch_size": 1000, **changes}
    build = bench.mnist(num_clients=3, private_size=90, min_per_client=5, partition="dirichlet")
    return bench.Workload("small", "lenet5", settings, build)


def weights(play) -> dict[str, torch.Tensor]:
    return play.fed.server.model.state_dict()


@pytest.mark.parametrize("tensors", [False, True])
def test_the_naive_loop_is_the_same_algorithm(tensors):
    """With one batch per client no order of images can differ: the weights agree."""
    theirs, ours = bench.naive(small(), "cpu", 1, tensors=tensors), bench.ours(small(), "cpu", 1)
    before = {n: v.clone() for n, v in weights(ours).items()}
    for _ in range(2):
        theirs()
        ours()
    expected = theirs.server.state_dict()
    for name, value in weights(ours).items():
        moved = float((value - before[name]).abs().max())
        assert moved > 0 and float((value - expected[name]).abs().max()) < 0.001 * moved, name


def test_the_floor_makes_as_many_steps():
    work = small(batch_size=7, local_epochs=2)
    ours, floor = bench.ours(work, "cpu", 1), bench.floor(work, "cpu", 1)
    ours()
    assert sum(client.steps for client in ours.fed.clients) == floor.steps > 20


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_shared_floor_makes_the_steps_of_a_loop(optimizer, threads):
    """Its flat weights come to what the usual ones of a network come to."""
    options = {"optimizer": optimizer, "momentum": 0.9 * (optimizer == "sgd"), "lr": 0.01}
    work = small(batch_size=20, local_epochs=2, **options)
    flat, floor = bench.shared(work, "cpu", threads), bench.floor(work, "cpu", 1)
    assert flat.steps == floor.steps
    before = [{n: w.clone() for n, w in net.state_dict().items()} for net in flat.networks]
    flat()
    assert any(  # with few clients one thread may have done it all
        not torch.equal(old[name], w)
        for old, network in zip(before, flat.networks, strict=True)
        for name, w in network.state_dict().items()
    )
    settings = work.federation().settings
    one, other = (work.federation().make().train() for _ in range(2))
    x, y = torch.randn(8, *one.image_shape), torch.arange(8) % 10
    stepper, gradients = flat_weights(one, settings)
    usual = bench._fastest(other, settings)
    for _ in range(3):
        torch.nn.functional.cross_entropy(one(x), y).backward()
        stepper.step()
        gradients.zero_()
        usual.zero_grad()
        torch.nn.functional.cross_entropy(other(x), y).backward()
        usual.step()
    for name, value in other.state_dict().items():
        assert torch.allclose(one.state_dict()[name], value, atol=1e-5), name


def test_the_floor_with_own_networks_trains_each_of_them():
    work = small(batch_size=20)
    apart, floor = bench.floor(work, "cpu", 1, apart=True), bench.floor(work, "cpu", 1)
    assert apart.steps == floor.steps
    moved = Counter()
    real = optimizers.Optimizer.step

    def step(self):
        moved[id(self)] += 1
        return real(self)

    with patch.object(optimizers.Optimizer, "step", step):
        apart()
        assert len(moved) == 3 and sum(moved.values()) == apart.steps
        moved.clear()
        floor()
        assert len(moved) == 1 and sum(moved.values()) == apart.steps


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"local_epochs": 2, "weight_decay": 1e-3},
        {"momentum": 0.0},
        {"optimizer": "adam", "lr": 1e-3, "momentum": 0.0},
    ],
    ids=["sgd", "decay", "plain", "adam"],
)
def test_a_step_on_tensors_that_keep_their_place_is_a_step_of_ours(changes):
    """What the GPU captures, called instead of replayed."""
    work = small(**{"batch_size": 16, **changes})
    theirs, ours = gpu.captured(work, "cpu", 1), bench.ours(work, "cpu", 1)
    before = {n: v.clone() for n, v in weights(ours).items()}
    for _ in range(2):
        theirs()
        ours()
    expected = weights(ours)
    for name, value in weights(theirs).items():
        assert not torch.equal(value, before[name]), name
        assert torch.equal(value, expected[name]), name


def test_the_parts_of_a_round_are_all_of_it():
    clock = iter(range(0, 10**6, 3))
    with patch.object(bench.time, "perf_counter", lambda: float(next(clock))):
        found = bench.parts(small(batch_size=20), repeats=2)
    floor, ours, idle = found["floor"], found["ours"], found["nobody trains"]
    assert set(floor) == {"forward", "backward", "step", "rest"}
    assert set(ours) == {name for name, _, _ in bench.PARTS} | {"rest"}
    steps = bench.floor(small(batch_size=20), "cpu", 1).steps
    # the clock goes on by 3 at each look, so a call that looks at nothing else takes 3
    assert ours["forward"] == floor["forward"] == ours["step"] == floor["step"] == 3 * steps
    assert ours["new optimizers"] == 3 * 3 and ours["download"] == ours["average"] == 3
    assert floor["rest"] == 3 * (1 + 3 * steps)
    assert set(ours) - set(idle) == {"forward", "backward", "step"}
    assert all(idle[name] == ours[name] for name in set(idle) - {"rest"})


def test_where_nobody_trains_everything_else_happens():
    play = bench.untrained(small(batch_size=20))
    play()
    members = play.fed.clients
    steps = bench.floor(small(batch_size=20), "cpu", 1).steps
    assert sum(client.steps for client in members) == steps
    assert play.fed.history["loss"][0]["values"] == [0.0] * len(members)
    for name, value in weights(play).items():
        mean = sum(c.model.state_dict()[name] for c in members) / len(members)
        assert torch.allclose(value, mean) and value.abs().max() > 0, name


def test_what_an_image_costs_is_measured_in_turns(monkeypatch):
    monkeypatch.setattr(bench, "_pin", lambda threads: None)
    turns = []
    monkeypatch.setattr(bench, "ours", lambda work, *_: lambda: turns.append(work.title[8:11]))
    found = bench.even(2)
    assert turns == ["100", "10 ", "10 ", "100", "100", "10 "]
    assert {len(times) for times in found.values()} == {2}
    assert page.per_image({"even": {"even10": [1.0, 2.0, 4.0], "even100": [1.0, 3.0, 8.0]}}) == 1.5
    assert page.per_image({}) is None


def test_a_generator_is_timed_in_its_own_turns_only():
    clock, spent = iter(range(100)), Counter()

    def numbers():
        yield 1
        yield 2

    with patch.object(bench.time, "perf_counter", lambda: float(next(clock))):
        for _ in bench._timed(numbers, "numbers", spent)():
            next(clock)  # what the caller does costs one
    assert spent == {"numbers": 3}  # three turns, the last of which finds the end


def test_everybody_has_a_turn_in_changing_order(monkeypatch):
    monkeypatch.setattr(bench, "_pin", lambda threads: None)
    turns = []
    for name in bench.CONTESTANTS:
        monkeypatch.setitem(
            bench.CONTESTANTS,
            name,
            lambda work, device, threads, name=name: lambda: turns.append((name, threads)),
        )
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

    found = bench.ratios(
        row(
            naive=[4.0, 9.0, 6.0],
            tensors=[2.0, 3.0, 3.0],
            ours=[2.0, 3.0, 2.0],
            floor=[2.0, 2.0, 2.0],
            floor_on_one=[1.0, 1.0, 9.0],
        )
    )
    assert found == {"naive / ours": 3.0, "tensors / ours": 1.0, "ours / floor": 2.0}


@pytest.mark.parametrize("path", page.PAGES, ids=lambda path: path.parent.name)
def test_the_pages_say_what_was_measured(path):
    part = page.measured() if path.parent == page.SPEED else page.in_short()
    text = path.read_text(encoding="utf-8")
    new = markdown.with_part(text, part, begin=page.BEGIN)
    assert text == new, "run python -m tools.bench.page"


BUDGET, FIRST = 120, 15  # processor seconds of a notebook, and until its first figure


def test_a_notebook_keeps_within_its_budget():
    """At the last `refresh`, on a machine that was not idle."""
    spent = load_json(page.NOTEBOOKS)
    waiting = frozen(ROOT / "notebooks")
    for path in numbered(ROOT / "notebooks", []):
        if path.stem in waiting:
            continue
        name, found = path.stem, spent[path.stem]
        code = refresh.code_of(nbformat.read(path, as_version=4))
        assert found["code"] == code, f"{name} changed: python -m tools.refresh"
        assert 0 < found["cpu"] <= BUDGET, name
        assert (found["first_figure"] or 0) <= FIRST, name


def test_layouts_are_those_that_were_faster():
    """A network has channels-last where it is never slower with it, in training or evaluation."""
    rows = load_json(page.LAYOUTS)["rows"]
    assert {row["network"] for row in rows} == {
        name for name, network in base.OURS.items() if network.smallest <= 32
    }
    for name in {row["network"] for row in rows}:
        mine = [row for row in rows if row["network"] == name]
        faster = all(row["train"] > 0.98 and row["evaluate"] > 1 for row in mine)
        assert base.OURS[name].channels_last == faster, mine


def test_many_clients_cost_what_the_page_says():
    rows = {row["clients"]: row for row in load_json(page.CLIENTS)["rows"]}
    assert list(rows) == [10, 100, 1000, 10_000]
    assert rows[10_000]["build"] < 5
    assert rows[10_000]["round"] < 1.35 * rows[10]["round"]
    assert all(row["networks"] <= 10 * 24 + 1 for row in rows.values())


def test_who_measures_many_clients_builds_few_networks():
    found = clients.measure(300)
    assert len(found["rounds"]) == clients.ROUNDS and 10 <= found["networks"] <= 241


@pytest.mark.parametrize("kind", layouts.KINDS)
def test_both_layouts_do_the_same_work(kind):
    """What is compared differs in layout alone."""
    seen = {}
    real = layouts.work

    def watched(network, images, labels, asked):
        if asked == kind:
            with torch.no_grad():
                seen[network.channels_last] = network(images)
        real(network, images, labels, asked)

    with patch.object(layouts, "work", watched):
        found = layouts.gains("small_cnn", 1, 28, 1)
    assert set(found) == set(layouts.KINDS) and all(gain > 0 for gain in found.values())
    assert seen.keys() == {False, True}
    assert torch.allclose(seen[False], seen[True], atol=1e-4)


def test_the_page_says_what_a_gpu_gains():
    def row(key, device, **extra):
        walls = {"naive": 0.4, "tensors": 0.3, "ours": 0.2, "floor": 0.1, **extra}
        times = {name: {"wall": [t, t], "cpu": [t, t]} for name, t in walls.items()}
        return {"workload": key, "title": key, "device": device, "threads": 1, "times": times}

    about = {"cpu": "C", "cores": 16, "gpu": "G", "python": "3", "torch": "2", "platform": "L"}
    runs = [{"workload": "many", "runs": n, "rounds_per_second": r} for n, r in ((1, 5), (4, 15))]
    rows = [row("lenet", "cpu"), row("many", "cuda", streams=0.16, captured=0.05)]
    machine = {**about, "load": 0.0}
    text = page.speed_part({"rows": rows, "machine": machine, "at_once": runs})
    assert "| many | 1, GPU | 400 ms | " in text and "C, 16 cores, G, Python 3" in text
    assert "not built in: streams 1.25, captured 4.00." in text
    assert "4 runs at once on the GPU play 3.0 times as many rounds" in text


def test_what_was_killed_came_back():
    killed = load_json(page.FAULTS)
    assert killed["kills"] == killed["resumed"] == sum(killed["places"].values()) >= 20
    assert killed["differences"] == 0


# --- on a GPU


def assert_close(theirs, ours, atol: float) -> None:
    for name, value in weights(ours).items():
        assert torch.isfinite(value).all(), name
        assert torch.allclose(weights(theirs)[name], value, atol=atol), name


@pytest.mark.gpu
@pytest.mark.parametrize("idea", ["streams", "captured"])
@pytest.mark.parametrize(
    "changes", [{}, {"optimizer": "adam", "lr": 1e-3, "momentum": 0.0}], ids=["sgd", "adam"]
)
def test_an_idea_trains_the_same_weights(idea, changes):
    work = small(**{"batch_size": 16, "local_epochs": 2, **changes})
    theirs, ours = getattr(gpu, idea)(work, "cuda", 2), bench.ours(work, "cuda", 1)
    for _ in range(2):
        theirs()
        ours()
    # Adam turns a difference in rounding into one of its steps, as long as the learning rate
    assert_close(theirs, ours, atol=10 * changes["lr"] if changes else 1e-4)


@pytest.mark.gpu
def test_streams_lose_no_memory_to_each_other():
    """Many short rounds, one after the other: a tensor used too early would show."""
    work = small(batch_size=4)
    theirs, ours = gpu.streams(work, "cuda", 3), bench.ours(work, "cuda", 1)
    for _ in range(10):
        theirs()
        ours()
    assert_close(theirs, ours, atol=1e-2)
