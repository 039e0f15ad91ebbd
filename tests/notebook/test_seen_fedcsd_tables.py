"""The tables of notebook 03b: all rows are recorded, printed numbers stand in the right rows."""

from types import SimpleNamespace

import numpy as np
import pytest

from fedtutor.errors import FedtutorError
from fedtutor.notebook import seen_fedcsd_tables as tables
from fedtutor.notebook.start import start

PARAMETERS = {"profile": "quick", "scenario": None, "seeds": [0, 1, 2],
              "methods": ["fedavg", "fedcsd"], "device": "cpu", "overrides": {}}  # fmt: skip


@pytest.fixture(scope="module")
def run():
    return start(dict(PARAMETERS), recipe="fedcsd")


def result(*accuracies):
    entries = [{"round": number, "moment": "end", "matrix": [row]}
               for number, row in enumerate(accuracies, start=1)]  # fmt: skip
    return SimpleNamespace(history={"accuracy": entries})


@pytest.mark.parametrize("name", tables.TABLES)
def test_every_row_of_every_table_is_recorded(run, name, nothing_trains):
    found = tables.compared(run, name)
    assert 2 <= len(found.measured) <= 8 and len(found.columns()) <= 5
    for results in found.results.values():
        assert [r.seed for r in results] == run.seeds
    asked = {str((r[0].method, r[0].settings, r[0].parameters, r[0].scenario))
             for r in found.results.values()}  # fmt: skip
    assert len(asked) == len(found.results), "two rows of the same run"


@pytest.mark.parametrize(
    "name, row, number",
    [
        ("I, strong skew", "FedNova", 10.31),
        ("I, strong skew", "FedCSD", 94.83),
        ("I, mild skew", "FedAvg", 66.67),
        ("II", "FedProto", 63.84),
        ("III, printed weight", tables.BASE, 63.66),
        ("III, larger weight", "M3: no scores", 68.34),
        ("III, printed weight", "M1: no moving average", 70.19),
        ("IV, strong skew", "argmax mask", 59.95),
        ("IV, mild skew", "adaptive mask", 71.36),
    ],
)
def test_printed_numbers_stand_in_their_rows(run, name, row, number):
    assert tables.compared(run, name).printed[row] == number


def test_only_the_misprint_is_marked(run):
    mild = tables.compared(run, "I, mild skew")
    assert {label: mild.line(label)[0] for label in ("MOON", "FedCSD")} == {
        "MOON": "98.5 †", "FedCSD": "71.4"}  # fmt: skip
    assert mild.line("MOON")[2].endswith(" †") and "†" not in mild.line("FedCSD")[2]
    assert "†: a misprint" in mild.caption
    assert "†" not in repr(tables.compared(run, "I, strong skew"))
    alone = tables.compared(run, "I, strong skew, five rounds").frame()  # nothing printed
    assert "†" not in alone.to_string() and next(iter(alone)) == "measured"


def test_late_is_the_mean_of_the_last_three_rounds(monkeypatch):
    series = [0.1, 0.2, 0.3, 0.6, 0.9]
    curves = 100 * np.array([series, series[::-1]])
    monkeypatch.setattr(tables, "curves", lambda results: curves)
    assert tables.late([]).tolist() == pytest.approx([60, 20])
    assert tables.late([], 4).tolist() == pytest.approx([110 / 3, 110 / 3])
    assert tables.late([], 3).tolist() == pytest.approx([20, 60])


def test_the_first_five_rounds_are_those_of_the_longer_run(run):
    five, ten = (tables.compared(run, f"I, strong skew{end}") for end in (", five rounds", ""))
    assert "rounds 3 to 5" in five.caption and "10 rounds" in ten.caption
    curve = tables.curves(ten["FedProx"])
    assert five.measured["FedProx"] == pytest.approx(curve[:, 2:5].mean(1))
    assert ten.measured["FedProx"] == pytest.approx(curve[:, 7:].mean(1))


@pytest.mark.parametrize(
    "gains, words",
    [
        ([11.8, 12.0, 12.2], "FedCSD is 12 points ahead of Base"),
        ([-11.8, -12.0, -12.2], "FedCSD is 12 points behind Base"),
        ([-1.0, 0.0, 2.0], "FedCSD against Base is undecided"),
    ],
)
def test_a_headline_says_who_is_ahead_or_that_the_seeds_do_not_tell(gains, words):
    assert tables.headline("FedCSD", gains, "Base") == words


def test_each_test_set_and_all_images(run):
    assert tables.by_test([result([0.0, 1.0], [0.2, 0.6], [0.4, 0.2], [0.6, 0.1])]).tolist() == [
        pytest.approx([40, 30])
    ]
    office = tables.compared(run, "II")
    found = tables.by_test(office["FedNova"])
    assert found.shape == (3, 4)
    assert office.measured["FedNova"] == pytest.approx(found.mean(1))
    assert office.home["FedNova"] == pytest.approx(found @ tables.IMAGES / 508)


def test_jumps_are_mean_changes_from_round_five_on(monkeypatch):
    curve = np.array([[0, 50, 0, 50, 10, 13, 11, 11]])
    monkeypatch.setattr(tables, "curves", lambda results: curve)
    assert tables.jumps([]).tolist() == pytest.approx([5 / 3])


def test_misprints_leave_out_what_is_only_rounded():
    notes = tables.misprints("I")
    assert notes.loc["MOON, CIFAR-100 beta=0.5", "printed"] == 98.49
    assert not notes["why"].str.contains("rounding").any() and len(tables.misprints("IV")) == 0


def test_an_unknown_table_names_the_nearest(run):
    with pytest.raises(FedtutorError, match="Fig"):
        tables.compared(run, "Fig. 5")
