"""`run.diagram`: what is drawn, what is said, and the table, from one count."""

import pytest
from support.every import ready

from fedtutor.errors import SettingError
from fedtutor.experiments.exchange import ROUNDS, counted
from fedtutor.figures.output import _checked_description
from fedtutor.notebook import diagram
from fedtutor.notebook.start import start

GIVEN = {"profile": "quick", "scenario": None, "seeds": [0], "methods": ["solo"], "device": "cpu",
         "overrides": {}}  # fmt: skip


@pytest.fixture
def rows():
    names = ("fedavg", "fccl+", "fedlgd", "central", "solo", "repshare")
    return {name: counted(ready(name, rounds=ROUNDS + 1)) for name in names}


@pytest.fixture
def seen(monkeypatch):
    """What `figures.show` was given."""
    found = []
    monkeypatch.setattr("fedtutor.figures.show", lambda *given, **more: found.append((given, more)))
    return found


def test_a_notebook_shows_figure_description_and_table(seen):
    start(dict(GIVEN), recipe="start").diagram("fedavg")
    (figure, words), more = seen[0]
    assert (
        figure.get_suptitle() == "FedAvg: in a round each client sends 191 kB and receives 191 kB"
    )
    assert "the server sends to each client: weights; at the clients: local training;" in words
    assert list(more["table"]["bytes"]) == ["190,504", "190,504", "8"]
    assert more["footer"] == "digits-mini · quick · seed 0"
    drawn = {text.get_text() for text in figure.axes[0].texts}
    assert {"server", "client k (4 of them)", "number of images", "local training"} <= drawn


def test_changes_reach_the_count(seen):
    run = start(dict(GIVEN), recipe="fccl")
    for size in (128, 64):
        run.diagram("kd", public_batch_size=size)
    first, second = (more["table"] for _, more in seen)
    assert list(first["per client"]) == [8, 8] and list(second["per client"]) == [16, 16]
    with pytest.raises(SettingError, match="public_batch_size"):
        run.diagram("kd", public_batch_sise=64)


def test_the_description_names_every_message_and_no_measured_number(rows):
    for name, own in rows.items():
        words = diagram.description(name, own)
        assert _checked_description(words) == " ".join(words.split())
        for row in own:
            assert row["name"] in words and row["when"] in words


def test_the_title_says_what_a_round_costs(rows):
    title = diagram.title
    assert title("solo", rows["solo"]) == "Local only (solo): nothing is sent"
    assert title("central", rows["central"]).startswith(
        "Centralized: nothing is sent in a round; before round 1 a client sends "
    )
    assert title("fccl+", rows["fccl+"]).startswith("FCCL+: in a round each client sends ")
    assert title("fedlgd", rows["fedlgd"]) == (
        "FedLGD: what each client sends and receives differs from round to round"
    )


def test_rounds_that_differ_are_told_one_by_one(rows):
    notes = diagram.notes
    assert notes(rows["fccl+"]) == [] == notes(rows["solo"])
    (line,) = notes(rows["fedlgd"])
    assert line.count("in round") == ROUNDS


def test_the_table_has_a_row_per_message(rows):
    table = diagram.table
    assert table(rows["solo"]) is None
    assert list(table(rows["central"])["when"]) == ["once, before round 1"]
    assert len(table(rows["repshare"])) == len(rows["repshare"]) - 1
