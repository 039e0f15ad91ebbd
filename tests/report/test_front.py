"""The README's findings turn round with the verdicts, and its picture shows what was recorded."""

import tomllib

import numpy as np
import pytest

from fedtutor import papers
from fedtutor.errors import StorageError
from fedtutor.report import front, tables


@pytest.fixture(scope="module")
def book():
    return papers.claims()


@pytest.fixture
def one(tmp_path, monkeypatch):
    """A finding on a claim that is measured."""
    text = """[[finding]]
notebook = "05"
claim = "anchor-03"
holds = "More, by {value}."
does_not_hold = "Less, by {value}."
undecided = "Nobody knows."
"""
    monkeypatch.setattr(front, "FINDINGS", tmp_path / "findings.toml")
    front.FINDINGS.write_text(text)
    return text


@pytest.mark.parametrize(("verdict", "values", "said"), [
    ("holds", [3.0, 4.0], "More, by 3.50 ± 0.71 points."),
    ("consistent with", [3.0, 4.0], "More, by 3.50 ± 0.71 points."),
    ("inconsistent with", [-3.0, -4.0], "Less, by 3.50 ± 0.71 points."),
    ("does not hold", [-3.0, -4.0], "Less, by 3.50 ± 0.71 points."),
    ("undecided", [-3.0, 4.0], "Nobody knows."),
])  # fmt: skip
def test_a_finding_follows_its_verdict(one, book, verdict, values, said):
    changed = book.copy()
    changed.at["anchor-03", "verdict"] = verdict
    changed.at["anchor-03", "values"] = values
    (line,) = front.findings(changed)
    assert line == f"- {said} [notebook 05](notebooks/05_fedlgd_distillation.ipynb)"


def test_a_claim_that_nobody_measures_is_one_clear_error(one, book):
    front.FINDINGS.write_text(one.replace("anchor-03", "anchor-99"))
    with pytest.raises(StorageError, match="anchor-99"):
        front.findings(book)


def test_the_findings_are_of_the_notebooks_that_they_name(book):
    found = tomllib.loads(front.FINDINGS.read_text(encoding="utf-8"))["finding"]
    assert len(found) == 5
    assert all(book.loc[f["claim"], "notebook"] == f["notebook"] for f in found)


def test_the_state_counts_every_number_once(book):
    coverage = tables.build().coverage(book)
    said = front.state(coverage, tables.COLUMNS)
    assert f"{coverage['numbers'].sum():,} accuracies" in said
    counted = coverage[list(tables.COLUMNS.values())].to_numpy().sum()
    assert counted == coverage["numbers"].sum()


def test_the_picture_shows_what_was_recorded(tmp_path):
    crossed = front.crossed()
    assert list(crossed) == list(front.SHOWN)
    assert set(crossed["fccl"]) == {"logits"} and "weights" in crossed["fedavg"]
    clients, photographs, classes = 4, 512, 10
    assert crossed["fccl"]["logits"] == 2 * photographs * classes * 4, clients
    saw = front.saw()
    assert saw.shape[0] >= 3 and saw.shape[1] % 2 == 1
    assert np.all((saw > 0) & (saw < 100))
    picture = front.draw(tmp_path / "front.png").read_bytes()
    assert picture[:4] == b"\x89PNG" and len(picture) < 200_000
