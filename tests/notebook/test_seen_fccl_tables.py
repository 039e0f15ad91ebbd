"""The tables of notebook 01b: rows are recorded, printed numbers stand in the right rows."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from fedtutor.errors import FedtutorError
from fedtutor.notebook import seen_fccl_tables as tables
from fedtutor.notebook.start import start
from fedtutor.papers import published_table

PARAMETERS = {"profile": "quick", "scenario": None, "seeds": [0, 1, 2], "methods": ["fccl"],
              "device": "cpu", "overrides": {}}  # fmt: skip


@pytest.fixture(scope="module")
def run():
    return start(dict(PARAMETERS), recipe="fccl")


@pytest.mark.parametrize("name", tables.TABLES)
def test_every_row_of_every_table_is_recorded(run, name, nothing_trains):
    found = tables.compared(run, name)
    assert 2 <= len(found.measured) <= 8 and len(found.columns()) <= 5
    key = "intra" if "own digits" in found.caption else "inter"
    for label, results in found.results.items():
        assert [r.seed for r in results] == run.seeds, label
        assert found.measured[label] == pytest.approx([100 * r.headline[key] for r in results])
    asked = {(r[0].method, str(r[0].settings), str(r[0].parameters), str(r[0].scenario))
             for r in found.results.values()}  # fmt: skip
    assert len(asked) == len(found.results), "two rows of the same run"


@pytest.mark.parametrize(
    "name, row, number",
    [
        ("1", "FCCL", 33.51),
        ("1", "SOLO", (15.29 + 13.91 + 39.24 + 34.30) / 4),
        ("2", "RCFL", (82.59 + 81.05 + 78.79 + 91.40) / 4),
        ("3", "FedAVG", (57.85 + 54.05 + 55.72 + 60.18) / 4),
        ("3, own digits", "FML", (74.87 + 60.73 + 77.19 + 60.71) / 4),
    ],
)
def test_printed_numbers_stand_in_their_rows(run, name, row, number):
    assert tables.compared(run, name).printed[row] == pytest.approx(number, abs=0.006)


def test_the_networks_before_round_1_are_no_printed_row(run):
    found = tables.compared(run, "2")
    assert tables.START not in found.printed and found.decides == {"FML"}
    trained = found.gains("SOLO", tables.START)
    assert trained == pytest.approx(tables.since_start(found["SOLO"], "intra"))
    assert tables.START not in tables.compared(run, "1").measured


def test_clients_stand_beside_their_own_printed_numbers(run):
    away, home = (tables.clients(run, table) for table in ("1", "2"))
    assert list(away.index) == ["FCCL", "SOLO", *tables.RIVALS]
    assert away.loc["RCFL", "SVHN"].endswith("(48.9)")
    assert home.loc["FCCL", "rendered (paper: SYN)"].endswith("(91.2)")
    last = [r.history["accuracy"][-1]["matrix"] for r in tables.real(run)["FCCL"]]
    usps = 100 * np.mean([matrix[1][1] for matrix in last])
    assert home.loc["FCCL", "USPS"].startswith(f"{usps:.1f} ±")
    guests = 100 * np.mean([[matrix[1][k] for k in (0, 2, 3)] for matrix in last])
    assert away.loc["FCCL", "USPS"].startswith(f"{guests:.1f} ±")
    with pytest.raises(FedtutorError, match="one of: 1, 2"):
        tables.clients(run, "3")


def test_teachers_are_compared_with_none(run, nothing_trains):
    found = tables.taught(run)
    assert list(found.columns) == tables.TAUGHT and found.shape == (5, 5)
    assert "digits-partial" in found.columns.name
    assert found.loc["no teacher", "own digits, minus no teacher"] == ""
    both = tables.compared(run, "teachers").gains("both", home=True)
    assert found.loc["both", "own digits, minus no teacher"] == tables.points(both)
    assert list(found.loc["both, printed"]) == ["", "+6.4 (CIFAR-100)", "", "+3.9 (ImageNet)", ""]


def test_of_the_controls_only_rcfl_may_have_to_train(run, monkeypatch):
    asked = []

    def train(recipe, method, *args, **options):
        asked.append((method, recipe.overrides.get("rcfl.alpha")))
        raise RuntimeError

    monkeypatch.setattr(sys.modules["fedtutor.notebook.start"], "train", train)
    try:
        found = tables.controls(run)
    except RuntimeError:
        assert asked == [("rcfl", 0.0)]
    else:
        assert not asked and tables.in_points(found).shape == (4, 1)


def test_what_the_seeds_tell_is_sorted_out():
    gains = {"a": [1.0, 1.1, 1.2], "b": [-1.0, -1.1, -1.2], "c": [1.0, -1.0, 2.0]}
    assert tables.sorted_out(gains) == (["a"], ["b"], ["c"])
    assert tables.points(gains["a"]) == "+1.1 ± 0.1*"
    assert tables.points([0.2, -0.2]) == "0.0 ± 0.3"
    assert list(tables.in_points(gains)["points"]) == ["+1.1 ± 0.1*", "-1.1 ± 0.1*", "+0.7 ± 1.5"]


def test_a_sentence_marks_what_is_told():
    ahead, unclear = [1.0, 1.1, 1.2], [1.0, -1.0, 2.0]
    assert (tables.gained(ahead), tables.gained([-v for v in ahead])) == (
        "1.1 ± 0.1*",
        "-1.1 ± 0.1*",
    )
    assert tables.against("A", "B", ahead, "at home") == "A is 1.1 ± 0.1* points ahead of B at home"
    assert tables.against("B", "A", [-v for v in ahead]) == "B is 1.1 ± 0.1* points behind A"
    assert tables.against("A", "B", unclear) == "A is not told from B (+0.7 ± 1.5 points)"


@pytest.mark.parametrize(
    "names, said", [([], "nobody"), (["A"], "A"), (["A", "B"], "A and B"), ("ABC", "A, B and C")]
)
def test_names_are_listed(names, said):
    assert tables.listed(list(names)) == said


def played(*matrices, moments):
    entries = [{"moment": m, "matrix": a} for m, a in zip(moments, matrices, strict=True)]
    return SimpleNamespace(
        history={"accuracy": entries, "tests": ["x", "y"], "domains": ["x", "y"]}
    )


def test_what_was_gained_since_the_start():
    start, talk, later, end = ([[v, 0.1], [0.2, v]] for v in (0.5, 0.3, 0.1, 0.8))
    result = played(start, talk, later, end,
                    moments=["end", "after_collaborate", "after_collaborate", "end"])  # fmt: skip
    assert tables.since_start([result], "intra") == pytest.approx([30])
    assert tables.since_start([result], "intra", "after_collaborate") == pytest.approx([-20])
    assert tables.since_start([result], "inter") == pytest.approx([0])


def test_each_client_at_home():
    results = [played([[0.5, 0.1], [0.2, end]], moments=["end"]) for end in (0.3, 0.4)]
    found = tables.at_home(results)
    assert list(found) == ["x", "y"]
    assert [list(v) for v in found.values()] == [pytest.approx([50, 50]), pytest.approx([30, 40])]


def test_a_lead_names_its_rival(run):
    rows = tables.compared(run, "1")
    found = tables.leads(rows, ["FML", "FedDF"], "there")
    assert list(found) == ["FCCL minus FML there", "FCCL minus FedDF there"]
    assert found["FCCL minus FML there"] == pytest.approx(-rows.gains("FML"))


def test_the_outlined_rival_decides_for_all_seeds():
    measured = {m: np.array([50.0, 51, 52]) for m in ("FCCL", *tables.RIVALS)}
    measured["FML"] = np.array([60.0, 30, 60])  # best in two seeds, told from nobody
    measured["RCFL"] = np.array([51.0, 52, 53.5])
    assert tables._hardest(measured) == ["RCFL"]


def test_table_3_as_printed_has_every_domain():
    found = tables.office_home()
    assert found.shape == (8, 8) and len(found) == len(published_table("FCCL", "3"))


def test_an_unknown_table_names_the_nearest(run):
    with pytest.raises(FedtutorError, match="photographs"):
        tables.compared(run, "photograph")
