"""The sequence diagram: every row drawn once, in order, legible, and nothing on anything else."""

import pytest
from matplotlib.text import Annotation
from support.every import NAMES, ready
from support.layout import words_of

from fedtutor import figures
from fedtutor.errors import SettingError
from fedtutor.experiments.exchange import ROUNDS, counted
from fedtutor.figures.words import display_name

ROW = {"direction": "up", "name": "logits", "shape": "[128, 10]", "bytes": 5120, "times": 1}
LONG = "a rather long message that somebody calls by all of its names at once, and then by more"


def drawn(*rows, clients=4, **more):
    return figures.who_sends_what(list(rows), title="Who sends what", clients=clients, **more)


def arrows(figure) -> list[tuple[float, float]]:
    """(where it begins, where it ends) from left to right, from top to bottom."""
    return [(a.xyann[0], a.xy[0]) for a in figure.axes[0].texts if isinstance(a, Annotation)]


@pytest.mark.parametrize("name", NAMES)
def test_every_method_is_legible(name, monkeypatch):
    rows = counted(ready(name, rounds=ROUNDS + 1))
    title = f"{display_name(name)}: who sends what in a round"
    figure = figures.who_sends_what(rows, title=title, clients=3, notes=["A line for the foot."])
    words = words_of(figure, monkeypatch)
    assert {row["name"] for row in rows} <= {text.partition(" (")[0] for text in words}
    small = {text for text, size in words.items() if size < figures.LABEL}
    assert len(small) == 1  # the foot
    assert "A line for the foot." in small.pop()


def test_arrows_go_where_the_messages_go():
    figure = drawn(ROW, {**ROW, "direction": "down"}, {**ROW, "direction": "client", "name": "x"})
    (up, up_end), (down, down_end) = arrows(figure)
    assert up > up_end and down < down_end


def test_a_message_between_clients_comes_back_to_the_clients(monkeypatch):
    figure = drawn(ROW, {**ROW, "direction": "peer", "name": "gossip"}, {**ROW, "name": "after"})
    (up, _), (_, peer_end), _ = arrows(figure)
    assert peer_end == up
    assert "gossip, to another client" in words_of(figure, monkeypatch)


def test_neighbors_of_one_kind_share_a_box(monkeypatch):
    often = {**ROW, "times": 16, "when": "once per public batch"}
    figure = drawn(often, {**often, "name": "mean logits", "direction": "down"}, ROW,
                   {**ROW, "name": "images", "when": "once, before round 1"})  # fmt: skip
    words = words_of(figure, monkeypatch)
    assert {"× 16, once per public batch", "once, before round 1"} <= set(words)
    assert len(figure.axes[0].patches) == 2


def test_ranges_and_parts_of_the_clients_are_written(monkeypatch):
    trains = {**ROW, "direction": "client", "name": "local training", "clients": 1}
    figure = drawn({**ROW, "bytes": (1000, 5120), "clients": 3}, trains)
    words = words_of(figure, monkeypatch)
    assert "[128, 10]  ·  1 kB to 5.12 kB, 3 of 4 clients" in words
    assert "local training (1 of 4)" in words


def test_long_words_are_broken(monkeypatch):
    words = words_of(drawn({**ROW, "name": LONG, "shape": LONG}, ROW), monkeypatch)
    assert LONG in {text.replace("\n", " ") for text in words}
    assert any(text.startswith("a rather") and text.endswith("5.12 kB") for text in words)


def test_nothing_to_send_is_said(monkeypatch):
    for rows in ([], [{**ROW, "direction": "client", "name": "local training"}]):
        assert "nothing is sent" in words_of(drawn(*rows, clients=1), monkeypatch)


@pytest.mark.parametrize(
    ("row", "wrong"),
    [({"name": "logits"}, "give a dict with direction"), ({**ROW, "direction": "upp"}, "'up'"),
     ("logits", "give a dict")],
)  # fmt: skip
def test_what_is_no_row_is_refused(row, wrong):
    with pytest.raises(SettingError, match=wrong):
        drawn(row)
