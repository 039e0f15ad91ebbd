"""The tables of notebook 02b: all rows are recorded, printed numbers stand in the right rows."""

import numpy as np
import pytest

from fedtutor.errors import FedtutorError
from fedtutor.notebook import seen_fccl_plus_tables as tables
from fedtutor.notebook.start import start
from fedtutor.papers import published_table

PARAMETERS = {"profile": "quick", "scenario": None, "seeds": [0, 1, 2], "methods": ["fccl+"],
              "device": "cpu", "overrides": {}}  # fmt: skip


@pytest.fixture(scope="module")
def run():
    return start(dict(PARAMETERS), recipe="fccl_plus")


@pytest.mark.parametrize("name", tables.TABLES)
def test_every_row_of_every_table_is_recorded(run, name, nothing_trains):
    found = tables.ablation(run, name)
    assert 2 <= len(found.measured) <= 8 and len(found.columns()) <= 5
    for label, results in found.results.items():
        assert [r.seed for r in results] == run.seeds, label
        key = 100 * np.mean([r.headline["inter"] for r in results])
        assert np.mean(found.measured[label]) == pytest.approx(key)
    asked = {(r[0].method, str(r[0].overrides if hasattr(r[0], "overrides") else r[0].settings),
              str(r[0].parameters), r[0].scenario["name"], str(r[0].scenario))
             for r in found.results.values()}  # fmt: skip
    assert len(asked) == len(found.results), "two rows of the same run"


@pytest.mark.parametrize(
    "name, row, number",
    [
        ("X, partial", tables.FULL, 50.49),
        ("X, mini", tables.ALONE, (15.29 + 13.91 + 39.24 + 34.30) / 4),
        ("Fig. 9", "teacher after the public half", (16.08 + 20.25 + 34.75 + 45.95) / 4),
        ("XVI", "EWC, weight 0.7", 29.08),
        ("XVII", "KD in 30 % of the steps", (24.25 + 25.39 + 45.55 + 56.54) / 4),
        ("XIX", "with FNTD, 2 local epochs", 50.49),
        ("XIX", "without FNTD, 4 local epochs", 32.89),
        ("XI", "λ = 0.002", 33.09),
        ("XIV", "ω = 3", (30.97 + 25.90 + 51.12 + 53.84) / 4),
        ("XIII, augmented", "strong augmentation", (26.36 + 21.28 + 50.03 + 50.99) / 4),
        ("Fig. 7", tables.CIFAR, 33.51),
        ("XIII, sets", "Fashion-MNIST", (23.84 + 20.03 + 46.86 + 49.28) / 4),
        ("XVIII", "FCCL+, no mixer", 46.30),
        ("XVIII", "FedMD, no resnet", 30.94),
        ("XV, talking", "training alone", (14.36 + 13.82 + 50.75 + 46.83) / 4),
        ("XV, averaging", "MOON", (76.81 + 78.10 + 72.99 + 83.50) / 4),
    ],
)
def test_printed_numbers_stand_in_their_rows(name, row, number):
    assert tables.TABLES[name][2]()[row] == pytest.approx(number, abs=0.006)


def test_the_row_that_the_paper_leaves_out_is_there(run):
    for name in ("X, partial", "X, mini"):
        found = tables.ablation(run, name)
        assert "FCCM + FNTD" in found.measured and "FCCM + FNTD" not in found.printed
        assert found["FCCM + FNTD"][0].parameters["fisl"] is False
    assert len(published_table("FCCL+", "X-inter")) == len(found.measured) - 1


def test_the_corner_says_which_data_and_rounds_and_what_is_printed_otherwise(run):
    found = tables.ablation(run, "XIX")
    page = found._repr_html_()
    assert '<th scope="col">mini digits, 3 rounds</th><th scope="col">printed (10, 20, 30' in page
    assert page.count("outline: ") == len(found.decides) and '<th scope="col"></th>' not in page
    assert tables.ablation(run, "XIII, sets").where == "partial digits, 1 round"


def test_only_what_the_seeds_decide_is_named(run):
    open_, clear = [1, 2, -1], [-2, -2.1, -1.9]
    assert tables.decided({"a": open_}) == "none is decided"
    said = "only one is decided: b (-2.0 ± 0.1 points)"
    assert tables.decided({"a": open_, "b": clear}) == said
    assert tables.decided({"b": clear, "c": clear}).startswith("2 are decided: b (")


def test_a_difference_is_said_for_each_of_two_tables(run):
    sets = {"here": tables.ablation(run, "X, mini"), "there": tables.ablation(run, "X, partial")}
    said = tables.on_each(sets, tables.FCCL, tables.ALONE)
    assert said.count("points on") == 2 and said.endswith("points on there")
    said = tables.on_each(sets, "FCCM + FNTD", tables.FCCL)
    assert said.startswith("undecided on both (+") and said.count("±") == 2
    at_home = tables.on_each(sets, "FCCM + FNTD", tables.FCCL, home=True)
    assert at_home != said and at_home.count("±") == 2


def test_an_unknown_table_names_the_nearest(run):
    with pytest.raises(FedtutorError, match="XVII"):
        tables.ablation(run, "XVIV")
