"""The papers' reports: that they are of today, whole, and that no number in them was typed."""

import re
from dataclasses import replace

import pytest

from fedtutor import papers
from fedtutor.__main__ import main
from fedtutor.engine.files import ROOT
from fedtutor.errors import SettingError, StorageError
from fedtutor.papers import verdicts
from fedtutor.papers.printed import PAPERS
from fedtutor.report import challenge, tables
from fedtutor.report.tables import OPEN, PAPER

HEADINGS = [
    "Reproducibility summary", "Scope of reproducibility", "Methodology", "Results",
    "What was easy", "What was difficult", "Communication with the authors",
    "Differences between the text and the code", "Claims", "Doubts", "Settings",
    "Data", "Tables", "Misprints", "To compute it again",
]  # fmt: skip


@pytest.fixture(scope="module")
def made():
    return tables.build()


@pytest.fixture(scope="module")
def book():
    return papers.claims()


@pytest.fixture(scope="module")
def texts(made, book):
    return {paper: challenge.text_of(paper, made, book) for paper in PAPERS}


@pytest.mark.parametrize("paper", PAPERS)
def test_the_committed_report_is_the_one_of_today(paper, texts):
    path = challenge.REPORTS / f"{challenge.file_of(paper)}.md"
    assert path.read_text(encoding="utf-8") == texts[paper], (
        "stale: python -m fedtutor report --papers"
    )


@pytest.mark.parametrize("paper", PAPERS)
def test_every_heading_is_there_once_and_none_is_empty(paper, texts):
    pieces = re.split(r"^#+ (.*)$", texts[paper], flags=re.M)[3:]
    assert pieces[::2] == HEADINGS
    for name, text in zip(pieces[2::2], pieces[3::2], strict=True):
        assert len(text.split()) > 4, f"{name} is empty"


@pytest.mark.parametrize("paper", PAPERS)
def test_every_claim_has_its_line_and_its_verdict(paper, texts, book):
    lines = dict(re.findall(r"^\| ([a-z]+-\d+\w?): (.*)$", texts[paper], flags=re.M))
    mine = book[book["paper"] == paper]
    assert list(lines) == list(mine.index)
    for id, line in zip(mine.index, mine.itertuples(), strict=True):
        said = line.verdict + verdicts.LIVE * bool(line.live)
        assert f" | {said} | " in lines[id] and f"[{line.notebook}](" in lines[id]


@pytest.mark.parametrize("paper", PAPERS)
def test_every_table_that_was_measured_is_shown_and_every_misprint(paper, texts, made):
    cells = made.cells[(made.cells["paper"] == paper) & (made.cells["setting"] != OPEN)]
    for key, run in set(zip(cells["table"], cells["run"], strict=True)):
        assert re.search(rf"\*\*Table {re.escape(key)}\*\*, [\w\s']+\s\(\*", texts[paper])
        assert f"*{run}*" in " ".join(texts[paper].split())
    known = papers.misprints()
    for line in known[known["paper"] == paper].itertuples():
        assert f"| {line.row} | {line.column} | {line.printed} |" in texts[paper]


def test_numbers_turn_with_what_was_measured(made, book):
    """A ledger in which a claim turned, and an empty folder of results, give other reports."""
    turned = book.copy()
    turned.loc["repshare-13", "verdict"] = verdicts.FAILS
    before, after = (challenge.text_of("RepShare", made, b) for b in (book, turned))
    count = int(re.search(r"\*does not hold\* (\d+)", before)[1])
    assert re.search(r"\*does not hold\* (\d+)", after)[1] == str(count + 1)
    nothing = tables.Report(made.runs, {}, (), made.folder)
    bare = challenge.text_of("RepShare", nothing, book)
    assert "No run stands behind" in bare and "**Table" not in bare
    assert (made.best["setting"] == PAPER).any() and "beside the printed" in before
    assert "beside the printed" not in bare


def test_runs_of_uncommitted_code_are_counted(made, book):
    paths = [run.path(made.folder) for run in made.runs if run.paper == "FedCSD"]
    found = {path: made.found[path] for path in paths if path in made.found}
    clean = {path: replace(r, environment={**r.environment, "git": {"commit": "a", "dirty": False}})
             for path, r in found.items()}  # fmt: skip
    one = next(iter(clean))
    environment = {**clean[one].environment, "git": {"commit": "a", "dirty": True}}
    with_one = clean | {one: replace(clean[one], environment=environment)}
    for dirty, content in ((0, clean), (1, with_one)):
        report = tables.Report(made.runs, content, (), made.folder)
        text = " ".join(challenge.text_of("FedCSD", report, book).split())
        assert f"Of these runs, {dirty} were recorded while code" in text


def test_what_is_written_by_hand_has_no_measured_number():
    """A number with a spread, or a verdict, belongs to the parts that are made."""
    for paper in PAPERS:
        prose = " ".join(map(str, challenge.written(paper).values()))
        assert "±" not in prose and not re.search(r"\d\s*(%|percent|points)", prose), paper
        assert not re.search(r"\b(undecided|does not hold|consistent with)\b", prose), paper


def test_the_command_writes_what_is_stale_and_leaves_the_rest(
    tmp_path, monkeypatch, capsys, made, book, texts
):
    monkeypatch.setattr(challenge.update, "__defaults__", (tmp_path,))
    monkeypatch.setattr(tables, "build", lambda: made)
    monkeypatch.setattr(papers, "claims", lambda: book)
    for said in (["new"] * 5, ["as it was", "new", "new", "as it was", "as it was"]):
        assert main(["report", "--papers"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.rpartition(": ")[2] for line in lines] == said
        for paper, text in texts.items():
            path = tmp_path / f"{challenge.file_of(paper)}.md"
            assert path.read_text(encoding="utf-8") == text
        (tmp_path / "fccl_plus.md").write_text("old\n")
        (tmp_path / "fedcsd.md").unlink()


def test_a_heading_that_is_missing_misspelt_or_empty_is_named(tmp_path):
    with pytest.raises(StorageError, match="cannot read what is written about FCCL "):
        challenge.written("FCCL", tmp_path)
    text = (challenge.WRITTEN / "fccl.toml").read_text(encoding="utf-8")
    for old, new, match in (
        ("easy = ", "esay = ", "did you mean 'easy'"),
        ('venue = "CVPR 2022"', 'venue = ""', "nothing is written below 'venue'"),
        ('venue = "CVPR 2022"\n', "", "nothing is written below 'venue'"),
    ):
        assert old in text
        (tmp_path / "fccl.toml").write_text(text.replace(old, new), encoding="utf-8")
        with pytest.raises(SettingError, match=match):
            challenge.written("FCCL", tmp_path)
    with pytest.raises(SettingError, match=r"did you mean 'FCCL\+?'"):
        challenge.file_of("FCLL")


def test_every_paper_has_its_file_of_prose_and_no_other_has():
    names = {challenge.file_of(paper) for paper in PAPERS}
    assert {path.stem for path in challenge.WRITTEN.glob("*")} == names
    assert challenge.REPORTS == ROOT / "data" / "reports"
