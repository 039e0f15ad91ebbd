"""Paired differences: dots, means, spreads and numbers where the data are, around zero."""

import numpy as np
import pytest
from support.layout import words_of

from fedtutor import figures
from fedtutor.errors import DataError, SettingError

SEEDS = [1.0, 2.0, 6.0]
TWO = {
    "home": {"fedavg": SEEDS, "solo": [0.5, -0.5, 0.0]},
    "abroad": {"fedavg": [-9.0, -8.0, -7.0]},
}
SIDES = {"left": "worse than alone", "right": "better than alone"}


def lines(axes, gid: str) -> list[list[float]]:
    return [list(line.get_xdata()) for line in axes.lines if line.get_gid() == gid]


def test_a_dot_per_seed_and_their_mean():
    home, abroad = figures.paired(TWO, title="FedAvg gains").axes
    assert lines(home, "seeds")[0] == SEEDS and lines(home, "mean")[0] == [3.0]
    assert lines(abroad, "mean") == [[-8.0]]
    spread = [list(line.get_xdata()) for line in abroad.lines if line.get_linewidth() == 3]
    assert spread == [[-9.0, -7.0]]


def test_a_row_stands_beside_its_name_in_every_panel():
    home, abroad = figures.paired(TWO, title="FedAvg gains").axes
    names = [label.get_text() for label in home.get_yticklabels()]
    assert names == ["local only (solo)", "FedAvg"]
    for axes in (home, abroad):
        (row,) = {line.get_ydata()[0] for line in axes.lines if line.get_gid() == "mean"
                  and line.get_xdata()[0] in (3.0, -8.0)}  # fmt: skip
        assert row == 1


def test_zero_is_in_the_picture_and_in_words(monkeypatch):
    figure = figures.paired(TWO, title="FedAvg gains", **SIDES)
    words = words_of(figure, monkeypatch)
    below = next(text for text in words if "difference (points)" in text)
    assert "left of zero: worse than alone" in below
    assert below.endswith("right of zero: better than alone")
    for axes in figure.axes:
        low, high = axes.get_xlim()
        assert low < -9 and high > 6
        assert any(list(line.get_xdata()) == [0, 0] for line in axes.lines)
    assert {"+3.0", "−8.0", "0"} <= set(words)
    assert min(size for text, size in words.items() if "seed" not in text) >= figures.LABEL


@pytest.mark.parametrize(
    ("values", "number"),
    [([12.4], "+12"), ([0.81], "+0.8"), ([30.0, 10.0], "+20"), ([0.001, 0.003], "+0.002"),
     ([-0.4, -0.6], "−0.5"), ([0.0], "0")],
)  # fmt: skip
def test_numbers_have_the_digits_that_the_spread_allows(values, number, monkeypatch):
    figure = figures.paired({"all": {"FedAvg": values}}, title="One row")
    assert number in words_of(figure, monkeypatch)


def test_one_seed_has_no_spread(monkeypatch):
    figure = figures.paired({"all": {"mine": [1.0]}}, title="One seed", unit="dB")
    words = words_of(figure, monkeypatch)
    assert any(text.startswith("One seed: the spread is not known.") for text in words)
    assert "difference (dB)" in words and not lines(figure.axes[0], "seeds")


def test_a_dot_can_be_something_else_than_a_seed(monkeypatch):
    words = words_of(figures.paired(TWO, title="FedAvg gains", dot="run"), monkeypatch)
    (note,) = [text for text in words if text.startswith("Dot:")]
    first = note.partition("\n")[0]
    assert "Dot: a run" in first and "mean over 3 runs" in first and "seeds" not in first


def test_four_panels_and_eight_rows_are_legible(monkeypatch):
    rng = np.random.default_rng(0)
    rows = {f"label number {i}": rng.normal(size=5) for i in range(8)}
    panels = {name: rows for name in ("MNIST", "optical", "street", "synthetic")}
    words_of(figures.paired(panels, title="Four panels", **SIDES), monkeypatch)


def test_an_order_can_be_given():
    figure = figures.paired(TWO, title="FedAvg gains", order=["fedavg", "solo"])
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == ["FedAvg", "local only (solo)"]


@pytest.mark.parametrize(
    ("values", "more", "error", "wrong"),
    [
        ({}, {}, DataError, "at least one entry"),
        ({"a": {}}, {}, DataError, "paired, a"),
        ({"a": {"b": [float("nan")]}}, {}, DataError, "paired, a, b"),
        ({"a": {"b": [[1.0]]}}, {}, DataError, "finite numbers"),
        (TWO, {"order": ["fedavg"]}, SettingError, "name each row once"),
        (TWO, {"order": ["fedavgg", "solo"]}, SettingError, "'fedavg'"),
        ({"a": {f"r{i}": [1.0] for i in range(25)}}, {}, SettingError, "at most 24"),
    ],
)
def test_bad_values_are_refused(values, more, error, wrong):
    with pytest.raises(error, match=wrong):
        figures.paired(values, title="FedAvg gains", **more)
