"""The report on one screen: each printed number has one state, the same on every machine."""

import re
import statistics
from pathlib import Path

import nbformat
import pandas as pd
import pytest
from bs4 import BeautifulSoup

from fedtutor import figures, papers
from fedtutor.datasets.catalog import SETS
from fedtutor.difference import NO_DIFFERENCE, TOO_CLOSE
from fedtutor.engine.files import ROOT
from fedtutor.papers import ledger, printed, verdicts
from fedtutor.papers.verdicts import AHEAD, BEHIND, FAILS, HOLDS, NO_VERDICT
from fedtutor.report import overview, tables
from fedtutor.report.tables import OPEN, PAPER


@pytest.fixture(scope="module")
def made():
    return tables.build()


@pytest.fixture(scope="module")
def found(made):
    return overview.numbers(made)


def test_every_printed_number_has_one_state(found):
    assert len(found) == len(printed.accuracies()) == sum(overview.counted(found).values())
    assert not found.duplicated(tables.PLACE).any()
    assert (overview.by_state(found).sum() == list(overview.counted(found).values())).all()


def test_what_was_measured_keeps_its_setting(found):
    measured = found[found["setting"] != OPEN]
    assert (measured["state"] == measured["setting"]).all()
    assert set(found.loc[found["setting"] == OPEN, "state"]) <= {overview.WAITING, overview.ABSENT}
    assert (found["state"] == PAPER).sum() == overview.counted(found)[PAPER] > 0


@pytest.mark.parametrize(
    ("paper", "table", "column", "name"),
    [
        ("FCCL+", "VIII", "Office31/AVG", "Office31"),
        ("FCCL+", "VIII", "Digits/AVG", ""),
        ("FCCL+", "XI", "inter", "Office31"),
        ("FCCL", "3", "Intra/A", "Office-Home"),
        ("FedCSD", "I", "FEMNIST beta=0.05", "FEMNIST"),
        ("FedCSD", "I", "CIFAR-100 beta=5", ""),
        ("FedCSD", "III", "accuracy", ""),
        ("FedCSD", "II", "A", "Office-Caltech-10"),
        ("FedLGD", "3", "Ri", "RETINA"),
        ("FedLGD", "1", "USPS IPC=50", ""),
        ("RepShare", "1", "CIFAR10 N=2", ""),
    ],
)
def test_whose_data_a_reader_must_get_by_hand(found, paper, table, column, name):
    cells = found[(found["paper"] == paper) & (found["table"] == table)]
    line = next(cells[cells["column"] == column].itertuples())
    assert overview.data_by_hand(line) == name


def test_data_by_hand_are_those_without_a_download():
    for key in overview.BY_HAND:
        assert not any(SETS[key].downloads(split) for split in SETS[key].splits), key


def test_tiles_are_the_tables_in_small(found):
    groups = overview.tiles(found)
    every = [
        s
        for blocks in groups.values()
        for rows in blocks.values()
        for row in rows
        for s in row
        if s is not None
    ]
    assert len(every) == len(found) and set(every) <= set(overview.LEGEND.values())
    states = list(overview.STATES)
    for state in states:
        assert every.count(overview.LEGEND[state]) == overview.counted(found)[state]
    (corner,) = [
        c.state for c in found.itertuples() if c[1:5] == ("FCCL+", "VIII", "FCCL+", "Digits/M->")
    ]
    rows = papers.published_table("FCCL+", "VIII").attrs["rows"]
    assert groups["FCCL+"]["VIII"][rows.index("FCCL+")][0] == overview.LEGEND[corner]
    figures.tiles(groups, title="All numbers", states=list(overview.LEGEND.values()))


def test_the_legend_begins_with_the_names_of_the_states(found):
    assert list(overview.LEGEND) == list(overview.NAMES) == list(overview.STATES)
    for state, text in overview.LEGEND.items():
        assert text.partition(":")[0] == overview.NAMES[state]
    assert list(overview.by_state(found).columns) == list(overview.NAMES.values())


def test_places_name_every_table_once_with_its_notebook(found):
    lines = overview.places(found, overview.notebooks())
    named = [(line.paper, key) for line in lines.itertuples() for key in line.tables.split(", ")]
    there = set(zip(found["paper"], found["table"], strict=True))
    assert len(named) == len(set(named)) and set(named) == there
    for cell in lines["notebook"]:
        name = cell.partition("(")[2].rstrip(")")
        assert nbformat.read(ROOT / "notebooks" / name, as_version=4).cells


def test_the_queue_is_what_is_open(made):
    left = overview.planned(made)
    assert (left.to_numpy() > 0).all() and set(left.index) <= set(printed.PAPERS)
    found = overview.numbers(made)
    waits = found[(found["setting"] == OPEN) & (found["run"] != tables.NO_RUN)]
    assert set(waits["run"]) <= {run.table for run in overview.queued(made)}


def test_the_table_with_most_open_runs_is_a_grid_of_runs(made):
    left = overview.planned(made).iloc[:, 0]
    for paper in left.index:
        most = overview.largest(made, paper)
        assert most["table"] in [key for name, key in papers.tables() if name == paper]
        assert 0 < most["runs"] <= left[paper]
        assert most["runs"] <= most["rows"] * most["settings"] * most["seeds"]


@pytest.mark.parametrize("said", [tables.AGREES, tables.ONE])
def test_a_verdict_is_counted_in_one_line_or_in_all(said):
    place = dict(zip(tables.PLACE, ("A", "1", "a", "x"), strict=True))
    other = place | {"column": "y"}
    lines = [place | {"verdict": said}, place | {"verdict": "above"}, other | {"verdict": said}]
    asked = () if said == tables.AGREES else (said,)
    assert overview.agreed(pd.DataFrame(lines), *asked) == (2, 1)
    assert overview.agreed(pd.DataFrame(lines[1:]), *asked) == (1, 1)


def test_a_lead_is_one_difference_per_seed(made):
    run = "RepShare 1, MNIST, the author's images, N=10"
    found = overview.lead(made, run, "MNIST N=10", "IL", "FD")
    back = overview.lead(made, run, "MNIST N=10", "FD", "IL")
    assert len(found) == 3 and found == pytest.approx([-value for value in back])
    lines = overview.met(made).query("run == @run").set_index("row")["measured"]
    means = [float(lines[row].partition(" ")[0]) for row in ("IL", "FD")]
    assert statistics.fmean(found) == pytest.approx(means[0] - means[1], abs=0.11)


def test_gaps_are_means_and_deviations_of_what_was_met(made):
    mean, sd = overview.gaps(made, "RepShare", "MNIST")
    assert {"FL, as printed", "FL, author's code", "FD"} <= set(mean.index)
    lines = made.cells[made.cells["run"] == "RepShare 1, MNIST, as the author's code"]
    (line,) = lines[(lines["row"] == "FL") & (lines["column"] == "MNIST N=10")].itertuples()
    less = [value - line.likely for value in line.values]
    place = "FL, author's code", "MNIST N=10"
    assert mean.loc[place] == pytest.approx(statistics.fmean(less))
    assert sd.loc[place] == pytest.approx(statistics.stdev(less))


AS_CLAIMED, OTHERWISE, NOWHERE = (*overview.SIDES[:2], overview.SIDES[-1])
SIDES = {  # verdict -> its side for a claim of a sign, and for a claim of no difference
    HOLDS: (AS_CLAIMED, AS_CLAIMED),
    FAILS: (OTHERWISE, OTHERWISE),
    AHEAD: (AS_CLAIMED, OTHERWISE),
    BEHIND: (OTHERWISE, OTHERWISE),
    "ahead by less than a point": (AS_CLAIMED, AS_CLAIMED),
    "behind by less than a point": (OTHERWISE, AS_CLAIMED),
    NO_DIFFERENCE: (NO_DIFFERENCE, AS_CLAIMED),
    TOO_CLOSE: (TOO_CLOSE, TOO_CLOSE),
    NO_VERDICT: (NO_VERDICT, NO_VERDICT),
    "not testable here: no Office-Home": (NOWHERE, NOWHERE),
    ledger.OPEN: (NOWHERE, NOWHERE),
}


@pytest.mark.parametrize("verdict", SIDES)
def test_every_verdict_has_a_side(verdict):
    of_a_sign, of_none = SIDES[verdict]
    assert {of_a_sign, of_none} <= set(overview.SIDES)
    assert overview.side(verdict, 1) == overview.side(verdict, -1) == of_a_sign
    assert overview.side(verdict, 0) == of_none


def test_no_verdict_is_left_without_a_side():
    assert set(ledger.VERDICTS) == {verdicts.kind(verdict) for verdict in SIDES}


def test_kinds_of_claims_are_counted_by_side_and_ours_nowhere():
    book = papers.claims(folder=Path("nowhere"))
    ranking = [c["id"] for c in papers.claims_of("FCCL") if c["kind"] == "ranking"]
    book.loc[ranking[:2], ["verdict", "claimed"]] = [[AHEAD, 1], [TOO_CLOSE, 1]]
    book.loc["lab-01"] = book.loc[ranking[0]].replace({"FCCL": ledger.OURS})
    found = overview.by_kind(book)
    assert found.index[0] == "ranking" and list(found.columns) == list(overview.SIDES)
    assert found.loc["ranking", [AS_CLAIMED, TOO_CLOSE]].tolist() == [1, 1]
    assert found.to_numpy().sum() == len(book) - 1


def test_folds_have_every_table_and_every_claim(made):
    book = papers.claims()
    page = BeautifulSoup(overview.folded_tables(made, book), "html.parser")
    assert len(page("details", recursive=False)) == len(printed.PAPERS)
    assert len(page.select("details details")) == len(papers.tables())
    counts = [overview.counted(overview.numbers(made))[s] for s in (overview.ABSENT, "reduced")]
    told = [summary.get_text() for summary in page.select("details details > summary")]
    for state, count in zip((overview.ABSENT, "reduced"), counts, strict=True):
        assert sum(int(n) for text in told for n in re.findall(rf"(\d+) {state}", text)) == count
    assert not [th for th in page.select("thead th, tbody th") if not th.get("scope")]
    assert "(not yet)" not in page.get_text()
    said = page.find("summary", string=lambda text: text.startswith("RepShare, 1 ")).get_text()
    rows = made.best[(made.best["paper"] == "RepShare") & (made.best["setting"] == "paper")]
    assert f"{len(rows)} paper's setting" in said and "notebook 04" in said and len(rows) > 15
    papers_said = [one.get_text() for one in page.select("details:has(details) > summary")]
    assert "RepShare: 1 table and 1 without accuracies" in "\n".join(papers_said)
    shown = sum(int(re.search(r": (\d+) table", text)[1]) for text in papers_said)
    assert shown == len(overview.numbers(made)[["paper", "table"]].drop_duplicates())
    blocks = {one.parent.get_text() for one in page.select("p > b")}
    assert {
        "FCCL 3, Office-Home (open, data absent)",
        "FedCSD I, CIFAR-100 (open)",
        "FedCSD I, FEMNIST (open, data absent)",
        "FedCSD I, Fashion-MNIST (open)",
        "no run is planned (data absent)",
        "no run is planned (not yet measured)",
    } <= blocks
    absent = page.find("summary", string=lambda text: text.startswith("FCCL, 3 ")).parent
    assert all("data absent" in one.parent.get_text() for one in absent.select("p > b"))
    claims = BeautifulSoup(overview.folded_claims(book), "html.parser")
    assert len(claims.select("tbody tr")) == len(book)
    assert {row.th.get_text() for row in claims.select("tbody tr")} == set(book.index)
