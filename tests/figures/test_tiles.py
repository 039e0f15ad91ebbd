"""Tables in miniature: every number has its tile, and gray is enough to read them."""

import numpy as np
import pytest
from matplotlib import colors
from support.layout import words_of

from fedtutor import figures
from fedtutor.errors import DataError, SettingError
from fedtutor.figures.tiles import ACROSS, LOOKS

STATES = ["met", "elsewhere", "small", "open", "absent"]
TABLES = {
    "One": {"1": [["met", "small"], [None, "open"]], "VIII-inter": [["absent"] * 5] * 3},
    "Two": {"II": [["small"]]},
}


def squares(figure) -> dict[str, list]:
    """State -> lower corners of its tiles, legend included."""
    found = {}
    for collection in figure.axes[0].collections:
        if collection.get_gid():
            found[collection.get_gid()] = [
                tuple(np.round(path.vertices.min(axis=0), 6)) for path in collection.get_paths()
            ]
    return found


def test_every_number_has_one_tile_and_the_legend_one_more():
    figure = figures.tiles(TABLES, title="Five states", states=STATES)
    found = squares(figure)
    assert {state: len(corners) for state, corners in found.items()} == {
        "met": 2, "elsewhere": 1, "small": 3, "open": 2, "absent": 16}  # fmt: skip
    every = [corner for corners in found.values() for corner in corners]
    assert len(set(every)) == len(every), "two tiles in one place"
    (legend, met), (_, small, _) = found["met"], found["small"]
    assert small == (met[0] + 1, met[1]) and found["open"][1] == (met[0] + 1, met[1] + 1)
    assert legend[1] < met[1]


def test_words_are_legible_and_counted(monkeypatch):
    words = words_of(figures.tiles(TABLES, title="Five states", states=STATES), monkeypatch)
    assert {"One", "VIII-inter", "II", "15 · absent", "0 · elsewhere", "2 · small"} <= set(words)
    assert min(size for text, size in words.items() if "seeds" not in text) >= figures.LABEL


def test_many_tables_stay_inside_and_apart(monkeypatch):
    tables = {f"T{k}-inter": [["small"] * (3 + 5 * k % 17)] * (1 + k % 7) for k in range(30)}
    groups = {"A": tables, "B": {"1": [["met"] * 10]}, "C": {"2": [["open"] * 20]}}
    figure = figures.tiles(groups, title="Many tables", states=STATES)
    words_of(figure, monkeypatch)
    found = squares(figure)
    every = [corner for corners in found.values() for corner in corners]
    assert len(set(every)) == len(every)
    assert max(x for x, _ in every) < ACROSS
    assert found["met"][-1][1] == found["open"][-1][1], "short groups share a line"


def test_states_differ_without_color():
    looks = LOOKS
    light = [colors.rgb_to_hsv(colors.to_rgb(look.face))[2] for look in looks]
    marks = [look.mark for look in looks]
    for i, look in enumerate(looks):
        for j in range(i):
            assert abs(light[i] - light[j]) > 0.2 or look.mark != marks[j]


@pytest.mark.parametrize(("groups", "states", "error", "wrong"), [
    ({}, STATES, DataError, "at least one entry"),
    ({"a": {}}, STATES, DataError, "tiles, a"),
    ({"a": {"1": [[None]]}}, STATES, DataError, "no number in 1"),
    ({"a": {"1": [["mett"]]}}, STATES, SettingError, "'met'"),
    (TABLES, [*STATES, "sixth"], SettingError, "one to 5 different"),
    (TABLES, ["met", "met"], SettingError, "different names"),
])  # fmt: skip
def test_bad_values_are_refused(groups, states, error, wrong):
    with pytest.raises(error, match=wrong):
        figures.tiles(groups, title="Five states", states=states)
