"""The README's findings turn round with the verdicts, and its picture shows what was recorded."""

import tomllib

import numpy as np
import pytest

from fedtutor import papers
from fedtutor.difference import NO_DIFFERENCE, TOO_CLOSE
from fedtutor.errors import StorageError
from fedtutor.papers import ledger
from fedtutor.papers.verdicts import AHEAD, BEHIND, FAILS, HOLDS, NO_VERDICT, NOT_TESTABLE
from fedtutor.report import tables
from tools import front


@pytest.fixture(scope="module")
def book():
    return papers.claims()


@pytest.fixture
def one(tmp_path, monkeypatch):
    """A finding on a claim that is measured."""
    text = """[[finding]]
notebook = "05"
claim = "anchor-03"
setting = "digits-mini"
data = "small digits"
ahead = "More, by {value}."
behind = "Less, by {value}."
no_difference = "As much ({value})."
too_close = "Nobody knows ({value})."
no_verdict = "We cannot tell."
"""
    monkeypatch.setattr(front, "FINDINGS", tmp_path / "findings.toml")
    front.FINDINGS.write_text(text)
    return text


@pytest.mark.parametrize(
    ("verdict", "claimed", "values", "said"),
    [
        (AHEAD, 1, [3.0, 4.0, 5.0], "More, by 4.0 [1.5, 6.5] points."),
        (AHEAD, -1, [-3.0, -4.0, -5.0], "More, by 4.0 [1.5, 6.5] points."),
        (BEHIND, 1, [-3.0, -4.0, -5.0], "Less, by 4.0 [1.5, 6.5] points."),
        (BEHIND, -1, [3.0, 4.0, 5.0], "Less, by 4.0 [1.5, 6.5] points."),
        (BEHIND, 0, [-3.0, -4.0, -5.0], "Less, by 4.0 [1.5, 6.5] points."),
        ("ahead by less than a point", 1, [0.2, 0.2], "More, by 0.20 [0.20, 0.20] points."),
        (NO_DIFFERENCE, 1, [-0.2, -0.2], "As much (-0.20 [-0.20, -0.20] points)."),
        (TOO_CLOSE, 1, [-3.0, 2.0, -2.0], "Nobody knows (-1.0 [-7.6, +5.6] points)."),
        (TOO_CLOSE, -1, [3.0, -2.0, 2.0], "Nobody knows (+1.0 [-5.6, +7.6] points)."),
        (NO_VERDICT, 1, [3.0, 4.0, 5.0], "We cannot tell."),
    ],
)
def test_a_finding_follows_its_verdict(one, book, verdict, claimed, values, said):
    (line,) = front.findings(changed(book, verdict, values, claimed))
    seeds = f"{len(values)} seeds"
    assert line == f"- {said} ([05](notebooks/05_fedlgd_distillation.ipynb): small digits, {seeds})"


def changed(book, verdict, values=(3.0, 4.0), claimed=1):
    other = book.copy()
    for key, value in (("verdict", verdict), ("values", list(values)), ("claimed", claimed)):
        other.at["anchor-03", key] = value
    return other


def test_every_verdict_on_numbers_has_a_key():
    """Exact facts and what nobody could test are told in no finding."""
    none = {HOLDS, FAILS, NOT_TESTABLE, ledger.OPEN}
    assert set(front.KEYS) == set(ledger.VERDICTS) - none


RUNS = """run = { recipe = "start", method = "a" }
minus = { method = "b" }
"""


@pytest.mark.parametrize(
    ("differences", "said"),
    [
        ([3.0, 4.0, 5.0], "More, by 4.0 [1.5, 6.5] points."),
        ([-3.0, -4.0, -5.0], "Less, by 4.0 [1.5, 6.5] points."),
        ([-0.2, -0.2, -0.2], "Less, by 0.20 [0.20, 0.20] points."),
        ([-0.2, 0.2, 0.1], "As much (+0.03 [-0.48, +0.55] points)."),
        ([-3.0, 2.0, -2.0], "Nobody knows (-1.0 [-7.6, +5.6] points)."),
    ],
)
def test_a_finding_of_recorded_runs_is_judged_seed_by_seed(
    one, book, monkeypatch, differences, said
):
    front.FINDINGS.write_text(one.replace('claim = "anchor-03"\n', RUNS))
    theirs = {seed: 10.0 * seed for seed in range(4)}  # seed 3 has no partner
    ours = {seed: theirs[seed] + value for seed, value in enumerate(differences)}
    monkeypatch.setattr(
        front.numbers.Shelf, "values", lambda self, side: {"a": ours, "b": theirs}[side["method"]]
    )
    (line,) = front.findings(book)
    assert line.startswith(f"- {said} ([05]") and line.endswith("3 seeds)")


def test_a_finding_that_no_notebook_shows_leads_to_the_recorded_runs(one, book, monkeypatch):
    text = one.replace('claim = "anchor-03"\n', RUNS).replace('notebook = "05"\n', "")
    front.FINDINGS.write_text(text)
    monkeypatch.setattr(
        front.numbers.Shelf,
        "values",
        lambda self, side: {0: 4.0, 1: 5.0} if side["method"] == "a" else {0: 1.0, 1: 2.0},
    )
    (line,) = front.findings(book)
    assert line.endswith("([recorded](data/results/README.md): small digits, 2 seeds)")


def test_a_finding_of_runs_that_nobody_recorded_is_one_clear_error(one, book, monkeypatch):
    front.FINDINGS.write_text(one.replace('claim = "anchor-03"\n', RUNS))
    monkeypatch.setattr(front.numbers.Shelf, "values", lambda self, side: {})
    with pytest.raises(StorageError, match="finding on small digits are not recorded"):
        front.findings(book)


def test_a_claim_that_nobody_measures_is_one_clear_error(one, book):
    front.FINDINGS.write_text(one.replace("anchor-03", "anchor-99"))
    with pytest.raises(StorageError, match="anchor-99"):
        front.findings(book)


def test_a_claim_on_other_data_than_said_is_one_clear_error(one, book):
    front.FINDINGS.write_text(one.replace("digits-mini", "cifar10"))
    with pytest.raises(StorageError, match="'anchor-03' was measured on 'digits-mini"):
        front.findings(book)


def test_a_verdict_without_a_sentence_is_one_clear_error(one, book):
    front.FINDINGS.write_text(one.replace("too_close", "#"))
    with pytest.raises(StorageError, match=r"no sentence for claim 'anchor-03'.*'too_close'"):
        front.findings(changed(book, TOO_CLOSE))
    with pytest.raises(StorageError, match="no sentence for claim 'anchor-03'"):
        front.findings(changed(book, "not testable here: no images"))


def test_every_finding_has_a_sentence_for_each_verdict():
    for one in tomllib.loads(front.FINDINGS.read_text(encoding="utf-8"))["finding"]:
        said = [one[key] for key in front.KEYS.values()]
        assert len(set(said)) == len(said) and all("±" not in sentence for sentence in said)
        assert all("{value}" in one[key] for key in front.KEYS.values() if key != "no_verdict")
        assert "{value}" not in one["no_verdict"]


def test_the_findings_are_of_the_notebooks_that_they_name(book):
    found = tomllib.loads(front.FINDINGS.read_text(encoding="utf-8"))["finding"]
    assert len(found) == 5
    judged = [f for f in found if "claim" in f]
    assert all(book.loc[f["claim"], "notebook"] == f["notebook"] for f in judged)
    assert all({"run", "minus"} <= f.keys() for f in found if f not in judged)


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
    lgd = front.rounds("fedlgd")
    assert 0 < lgd["virtual images"] < lgd["weights"] == front.rounds("fccl")["logits"]
    picture = front.draw(tmp_path / "front.png").read_bytes()
    assert picture[:4] == b"\x89PNG" and len(picture) < 200_000


def test_the_picture_in_words_turns_round_with_the_numbers(monkeypatch):
    there, back = front.swings(np.array([[70.0, 60, 71, 61, 72], [70, 62, 71, 63, 72]]))
    assert (there, back) == (-9.0, 10.0)
    monkeypatch.setattr(front, "saw", lambda: np.array([[70.0, 60, 71]]))
    assert "falls while clients agree on photographs, and rises in local" in front.described()
    monkeypatch.setattr(front, "saw", lambda: np.array([[70.0, 71, 60]]))
    assert "rises while clients agree on photographs, and falls in local" in front.described()


def test_a_method_without_the_runs_to_draw_is_one_clear_error():
    with pytest.raises(StorageError, match="no run of fccl"):
        front._runs(front.SAW, "fccl", observe=["nowhere"])


def test_what_an_installation_takes_is_said_as_measured(monkeypatch, tmp_path):
    measured = front.load_json(front.INSTALLATION)["MB"]
    for part in ("reader", "reader, CPU builds", "tests", "engine", "workflow"):
        assert f"{measured[part]:,} MB" in front.installation()
    assert measured["reader, CPU builds"] < measured["reader"] / 2
