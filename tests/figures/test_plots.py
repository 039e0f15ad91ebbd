"""Figures of a comparison: what is drawn where, and no two methods in one color."""

import itertools

import pytest
from matplotlib.colors import to_rgb
from support.federations import tiny_scenario

from fedtutor import methods, plots, tasks
from fedtutor.comparison import compare
from fedtutor.difference import Difference
from fedtutor.figures.drawing import METHOD_STYLE


@pytest.fixture(autouse=True)
def nothing_ran_before(monkeypatch):
    monkeypatch.setattr(tasks, "_here", {})


def tiny(given, **options):
    given = given if isinstance(given, dict) else {name: methods.make(name) for name in given}
    asked = {"seeds": range(3), "rounds": 2, "batch_size": 8, "models": ["linear"], "jobs": 1}
    return compare(given, scenario=tiny_scenario(), **asked | options)


def drawn(axis) -> dict[str, tuple[list, list]]:
    """Label -> where its line or point lies."""
    found = {}
    for line in axis.lines:
        if not line.get_label().startswith("_"):
            found[line.get_label()] = list(line.get_xdata()), list(line.get_ydata())
    for box in axis.containers:
        line = box.lines[0]
        found[box.get_label()] = list(line.get_xdata()), list(line.get_ydata())
    return found


OWN_ONES = ["mine", "other", "third", "fedavg 0.1", "fedavg 0.2"]


@pytest.mark.parametrize("start", range(0, len(METHOD_STYLE) - 7, 3))
def test_no_two_of_twelve_methods_share_a_color(start):
    names = [*OWN_ONES, *list(METHOD_STYLE)[start : start + 7]]
    found = plots.colors(names)
    assert list(found) == names
    assert len({to_rgb(color) for color in found.values()}) == 12
    apart = min(
        sum(abs(a - b) for a, b in zip(to_rgb(one), to_rgb(two), strict=True))
        for one, two in itertools.combinations(found.values(), 2)
    )
    assert apart > 0.05  # and can be told apart


def test_a_method_of_the_suite_keeps_its_color_where_it_is_free():
    for names in (["mine", "fccl", "fedmd"], ["fedmd", "mine", "fccl"]):
        found = plots.colors(names)
        assert found["fccl"] == METHOD_STYLE["fccl"].color
        assert found["fedmd"] == METHOD_STYLE["fedmd"].color
    assert plots.colors(list(METHOD_STYLE)).keys() == METHOD_STYLE.keys()


@pytest.mark.parametrize("every", [1, 5])
def test_points_of_a_curve_lie_at_the_rounds_that_were_tested(every):
    runs = tiny(["fedavg", "solo"], rounds=10, eval_every=every)
    (axis,) = plots.curves(runs).axes
    rounds = list(range(every, 11, every))
    table = runs.history.query("on == 'own domain' and moment == 'end'")
    for name, (x, y) in drawn(axis).items():
        wanted = table[table.method == name].groupby("round").accuracy.mean()
        assert x == rounds and y == pytest.approx(wanted.loc[rounds].tolist())
    assert list(drawn(axis)) == ["fedavg", "solo"]
    assert axis.get_legend() is not None


def test_the_band_is_the_interval_of_the_table():
    runs = tiny(["fedavg"], rounds=3)
    for on in ("own", "others"):
        (axis,) = runs.curves(on).axes
        (band,) = axis.collections
        ends = [y for x, y in band.get_paths()[0].vertices if x == 3]
        row = runs.table(on).loc["fedavg"]
        assert (min(ends), max(ends)) == pytest.approx((row["low"], row["high"]))


def test_one_tested_round_is_a_point_with_its_interval_and_no_line():
    runs = tiny(["fedavg", "solo"], rounds=4, eval_every=4)
    (axis,) = plots.curves(runs).axes
    assert len(axis.containers) == 2
    for name, (x, y) in drawn(axis).items():
        row = runs.table().loc[name]
        assert x == [4] and y == pytest.approx([row["mean"]])
    for box, name in zip(axis.containers, ("fedavg", "solo"), strict=True):
        assert box.lines[0].get_linestyle() == "None"
        (bar,) = box.lines[2][0].get_segments()
        row = runs.table().loc[name]
        assert bar[:, 1].tolist() == pytest.approx([row["low"], row["high"]])


def test_looks_inside_a_round_are_not_on_the_curve():
    runs = tiny(["fedavg"], rounds=2, observe=["after_local", "local_epoch"])
    (axis,) = plots.curves(runs).axes
    x, y = drawn(axis)["fedavg"]
    assert x == [1, 2] and y[-1] == pytest.approx(runs.table().loc["fedavg", "mean"])


def test_one_seed_and_a_run_that_diverged_are_drawn_as_far_as_they_are():
    runs = tiny(["fedavg", "solo"], seeds=[0])
    (axis,) = plots.curves(runs).axes
    assert set(drawn(axis)) == {"fedavg", "solo"}
    (axis,) = tiny(["fedavg"], lr=1e38).curves().axes
    assert not drawn(axis)


def test_differences_are_dots_a_mean_and_an_interval_on_the_row_of_their_name():
    runs = tiny(["fedavg", "solo", "fedprox"])
    (axis,) = plots.differences(runs, over="solo").axes
    names = [tick.get_text() for tick in axis.get_yticklabels()]
    labels = dict(zip(names, axis.get_yticks(), strict=True))
    assert list(labels) == ["fedavg", "fedprox"]
    for name, place in labels.items():
        found = runs.difference(name, "solo")
        on_row = [list(line.get_xdata()) for line in axis.lines
                  if set(line.get_ydata()) <= {place, place + 0.24}]  # fmt: skip
        assert list(found.values) in on_row and [found.mean] in on_row
        assert [found.low, found.high] in on_row
        assert found.verdict in [text.get_text() for text in axis.texts]
    assert "solo" in axis.get_xlabel() and [0, 0] in [list(line.get_xdata()) for line in axis.lines]


def last_round(fed):
    return fed.round_ + fed.seed / 7 * len(fed.method.name)


def test_what_was_measured_has_no_band_of_points():
    runs = tiny(["fedavg", "solo"], measure=last_round)
    (axis,) = runs.differences("solo", on="last_round").axes
    assert axis.get_title("left") == "last_round" and not axis.patches
    (axis,) = runs.differences("solo").axes
    assert len(axis.patches) == 1


def test_the_interval_of_one_value_is_the_value():
    assert plots.interval([3.0]) == (3.0, 3.0)
    assert plots.interval([1.0, 2.0, 4.0]) == Difference([1.0, 2.0, 4.0]).interval()
