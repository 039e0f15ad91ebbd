"""The published facts are whole, and what is said of a claim follows from its seeds."""

import json
import math
import re

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.formatters import DisplayFormatter
from nbval.plugin import get_sanitize_patterns
from scipy.stats import ttest_1samp

from fedtutor.difference import AGREES, EXCLUDED, NO_DIFFERENCE, NOT_EXCLUDED, TOO_CLOSE
from fedtutor.engine.files import ROOT, save_json
from fedtutor.errors import SettingError, StorageError
from fedtutor.papers import (
    Claims,
    claims_of,
    direction,
    ledger,
    printed,
    published_table,
    spread,
    verdicts,
    weakest,
)
from fedtutor.papers.printed import PUBLISHED, accuracies, tables
from fedtutor.papers.verdicts import (
    AHEAD,
    BEHIND,
    FAILS,
    HOLDS,
    NO_VERDICT,
    NOT_TESTABLE,
    OTHER_IMAGES,
    PAPERS_OWN,
    RECORDS,
    SMALLER,
    kind,
    records_in,
)
from fedtutor.scenarios import photos

PAPERS = ["FCCL", "FCCL+", "FedCSD", "RepShare", "FedLGD"]
LEDGER = json.loads((PUBLISHED / "claims.json").read_text(encoding="utf-8"))
TABLES = json.loads((PUBLISHED / "tables.json").read_text(encoding="utf-8"))
PRINTED = {  # the numbered tables that hold numbers; what is left out has none (README there)
    "FCCL": {"1", "2", "3", "text"},
    "FCCL+": {"II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII", "XIII", "XIV",
              "XV", "XVI", "XVII", "XVIII", "XIX", "Fig7", "Fig9"},
    "FedCSD": {"I", "II", "III", "IV"},
    "RepShare": {"1", "text"},
    "FedLGD": {"1", "2", "3", "5", "6", "7", "text"},
}  # fmt: skip


def measured(values, *, id="lab-01", claimed=+1, **more):
    """A ledger with one claim: the notebook's own, about which nobody printed anything."""
    book = Claims("FCCL")
    if id.startswith("lab"):
        book.add(id, "A beats B", "section 1")
    given_ = {"unit": "points", "setting": "digits-mini · quick", "stand_in": False, **more}
    book.measure(id, values, claimed=claimed, **given_)
    return book


def record(values, **more):
    (found,) = measured(values, **more).records()
    return found


def verdict(values, claimed=+1, **more):
    return record(values, claimed=claimed, **more)["verdict"]


def said(book, capsys):
    book.verdicts()
    return capsys.readouterr().out


@pytest.fixture
def facts(tmp_path, monkeypatch):
    """Writes published facts of one claim, fccl-01, with these keys, and what is gated."""

    def write(gates=None, **keys):
        plain = {k: v for k, v in LEDGER[0].items() if k not in OPTIONAL}
        claim = {**plain, "id": "fccl-01", "paper": "FCCL", **keys}
        save_json(tmp_path / "claims.json", [claim])
        save_json(tmp_path / "gates.json", gates or {})

    monkeypatch.setattr(printed, "PUBLISHED", tmp_path)
    monkeypatch.setattr(verdicts, "GATES", tmp_path / "gates.json")
    write()
    return write


# --- what the papers print

OPTIONAL = {"doubt", "proxy", "reported", "no_verdict", "equal"}
WORDS = ("statement", "where", "statistic", "direction", "scenario", "kind", "quick")


def test_every_claim_is_there_once_and_has_an_owner():
    ids = [claim["id"] for claim in LEDGER]
    assert len(ids) == len(set(ids)) > 200
    assert sorted(c["id"] for paper in PAPERS for c in claims_of(paper)) == sorted(ids)
    assert ledger.owners()["claims"].keys() == set(ids)


@pytest.mark.parametrize("claim", LEDGER, ids=lambda c: c["id"])
def test_a_claim_is_whole_and_its_tables_exist(claim):
    for key in WORDS:
        assert isinstance(claim[key], str) and claim[key].strip()
    assert claim["paper"] in PAPERS and (claim["methods"] or claim["kind"] == "theory")
    assert set(claim["tables"]) <= TABLES[claim["paper"]].keys()
    prefix = claim["paper"].lower().replace("+", "plus")
    assert re.fullmatch(rf"{prefix}-\d\d[a-z]?", claim["id"])
    assert claim.keys() <= {"id", "paper", "tables", "methods", *WORDS, *OPTIONAL}


@pytest.mark.parametrize("claim", [c for c in LEDGER if OPTIONAL & c.keys()], ids=lambda c: c["id"])
def test_what_a_claim_may_have_besides(claim):
    if "reported" in claim:
        assert isinstance(claim["reported"], int | float) and math.isfinite(claim["reported"])
        assert claim["reported"] > 0 and "equal" not in claim
    assert claim.get("equal", True) is True
    assert re.fullmatch(r"[A-Z].*\.", claim.get("no_verdict", "A sentence."))


def test_every_printed_table_is_there():
    found = {paper: {id.split("-")[0] for id in tables} for paper, tables in TABLES.items()}
    assert found == PRINTED


@pytest.mark.parametrize("paper, id", [(p, id) for p, tables in TABLES.items() for id in tables])
def test_a_table_has_a_caption_a_method_per_row_and_no_empty_column(paper, id):
    frame = published_table(paper, id)
    assert frame.attrs["caption"] and all(isinstance(n, str) for n in frame.attrs["notes"])
    assert frame["method"].notna().all() and len(frame) == len(TABLES[paper][id]["rows"])
    assert frame.notna().any().all()
    assert "note" not in frame


def test_every_accuracy_names_its_domain_and_where_it_was_tested():
    digits = {"mnist", "usps", "svhn", "synthetic", "mnist_m"}
    office = {"amazon", "caltech", "dslr", "webcam"}
    known = {"", *digits, *office, *photos.OFFICE_HOME, *photos.RETINA_TESTS}
    printed = accuracies()
    for paper, key in tables():
        table = TABLES[paper][key]
        own, others = table.get("own", {}), table.get("others", {})
        assert not own.keys() & others.keys() and {*own, *others} <= set(table["columns"])
        assert {*own.values(), *others.values()} <= known
        there = printed[(printed["paper"] == paper) & (printed["table"] == key)]
        assert set(there["column"]) == {*own, *others}, (paper, key)
        for column in table["columns"]:  # the papers' own marks
            assert not (column.endswith("->") and column not in others), (paper, key, column)
            assert not (column.endswith("<-") and column not in own), (paper, key, column)


@pytest.mark.parametrize("paper, key, column, expected", [
    ("FCCL+", "VIII", "Digits/SV->", ("svhn", True)), ("FCCL+", "VIII", "Digits/AVG", ("", True)),
    ("FCCL+", "IX", "Digits/AVG", ("", False)), ("FCCL+", "X-intra", "Digits/AVG", ("", False)),
    ("FCCL+", "XI", "intra", ("", False)), ("FCCL+", "XVII", "Digits/AVG<-", ("", False)),
    ("FCCL+", "Fig7", "AVG", ("", True)), ("FCCL", "2", "Digits/SY", ("synthetic", False)),
    ("FCCL", "3", "Inter/C->", ("clipart", True)), ("FCCL", "3", "Intra/C", ("clipart", False)),
    ("FedCSD", "II", "Average", ("", False)), ("FedCSD", "II", "D", ("dslr", False)),
    ("FedLGD", "1", "MNIST-M IPC=10", ("mnist_m", False)), ("FedLGD", "3", "Ri", ("rim", False)),
])  # fmt: skip
def test_a_column_means_a_domain_here_or_elsewhere(paper, key, column, expected):
    found = {(c.domain, c.elsewhere) for c in accuracies().itertuples()
             if (c.paper, c.table, c.column) == (paper, key, column)}  # fmt: skip
    assert found == {expected}


def test_what_is_no_accuracy_is_none():
    columns = {(c.table, c.column) for c in accuracies().itertuples() if c.paper == "FCCL+"}
    assert "VII" not in {key for key, _ in columns}
    for key, column in (("VIII", "Digits/delta"), ("XI", "lambda")):
        assert column in TABLES["FCCL+"][key]["columns"] and (key, column) not in columns


def test_published_files_carry_no_markup_and_the_short_names():
    text = json.dumps([LEDGER, TABLES])
    assert not re.search(r"</?[a-z]+>", text)
    assert "Berdoz" not in text and list(TABLES) != [] and set(TABLES) == set(PAPERS)


def test_headline_numbers_and_misprints_are_those_of_the_papers():
    table = published_table("FCCL+", "VIII").set_index("method")
    assert table.loc["FCCL+", "Digits/AVG"] == 50.49
    table = published_table("FedLGD", "1")
    assert any("668.0, likely 66.8" in note for note in table.attrs["notes"])
    assert pd.isna(published_table("FCCL+", "II")["digits_inter_acc"][0])


@pytest.mark.parametrize("call", [
    lambda: claims_of("FCCL++"), lambda: published_table("FedCDS", "I"),
    lambda: published_table("FedCSD", "V"), lambda: Claims("fccl"),
])  # fmt: skip
def test_an_unknown_paper_or_table_is_refused_with_the_nearest_one(call):
    with pytest.raises(SettingError, match="choose one of"):
        call()


@pytest.mark.parametrize("content", [None, "", '[{"id": "fccl-01", "pap'])
def test_missing_or_damaged_facts_say_how_to_restore_them(content, tmp_path, monkeypatch):
    monkeypatch.setattr(printed, "PUBLISHED", tmp_path)
    if content is not None:
        (tmp_path / "claims.json").write_text(content)
    with pytest.raises(StorageError, match="restore"):
        claims_of("FCCL")


# --- the verdict

UP, OPEN_, LITTLE, NONE = [2.5, 3.1, 4.0], [3.0, -3.0, 2.0], [0.2, 0.21, 0.22], [0.1, -0.1, 0.0]
DOWN = [-value for value in UP]


@pytest.mark.parametrize(
    "values, claimed, expected",
    [
        (UP, +1, AHEAD),
        (DOWN, +1, BEHIND),
        (UP, -1, BEHIND),
        (DOWN, -1, AHEAD),
        (UP, 0, AHEAD),
        (DOWN, 0, BEHIND),
        (NONE, 0, NO_DIFFERENCE),
        (NONE, +1, NO_DIFFERENCE),
        (OPEN_, +1, TOO_CLOSE),
        (OPEN_, -1, TOO_CLOSE),
        (OPEN_, 0, TOO_CLOSE),
        ([5.0], +1, TOO_CLOSE),
        (LITTLE, +1, "ahead by less than a point"),
        (LITTLE, -1, "behind by less than a point"),
        ([0.0, 0.0], 0, NO_DIFFERENCE),
        ([1.5, 1.5], +1, AHEAD),
    ],
)
def test_a_claim_of_either_sign_or_of_no_difference(values, claimed, expected):
    assert verdict(values, claimed) == expected
    assert kind(expected) in (AHEAD, BEHIND, NO_DIFFERENCE, TOO_CLOSE)


@given(st.lists(st.integers(-500, 500).map(lambda k: k / 100), min_size=1, max_size=8))
def test_the_opposite_claim_has_the_opposite_verdict(values):
    swap = {AHEAD: BEHIND, BEHIND: AHEAD}
    one, other = verdict(values), verdict(values, -1)
    assert swap.get(kind(one), one) == kind(other)
    assert verdict([-value for value in values], -1) == one
    assert direction(values) == {AHEAD: 1, BEHIND: -1}.get(kind(one), 0)


@pytest.mark.parametrize(
    "unit, small", [("points", True), ("points of AUC", True), ("nats", False), ("", False)]
)
def test_only_points_have_a_margin_that_matters(unit, small):
    assert verdict(NONE, 0, unit=unit) == (NO_DIFFERENCE if small else TOO_CLOSE)
    assert (verdict(LITTLE, unit=unit) != AHEAD) == small


def test_of_several_comparisons_the_largest_p_decides():
    near, far = [1.0, 1.2, 1.1], [5.0, 5.1, 5.2]
    found = record({"far": far, "near": near})
    assert (found["verdict"], found["values"]) == (AHEAD, near)
    found = record({"far": far, "open": OPEN_, "near": near})
    assert (found["verdict"], found["values"]) == (TOO_CLOSE, OPEN_)
    assert weakest({"far": far, "open": OPEN_, "near": near}) == "open"
    turned = {"far": [-v for v in far], "near": [-v for v in near]}
    found = record(turned, claimed=-1)
    assert (found["verdict"], found["values"]) == (AHEAD, turned["near"])


def test_behind_one_of_several_is_said_after_a_correction_only():
    loses = [-0.7, -1.0, -1.3]  # p = 0.029 alone, 0.086 among three
    alone, among = record(loses), record({"x": loses, "y": OPEN_, "z": [-2.0, 2.5, 1.0]})
    assert (alone["verdict"], among["verdict"]) == (BEHIND, TOO_CLOSE)
    assert among["values"] == loses and among["p"] == pytest.approx(3 * alone["p"], rel=0.01)
    clear = [-5.0, -5.1, -5.2]
    found = record({"x": OPEN_, "y": clear, "z": UP})
    assert (found["verdict"], found["values"]) == (BEHIND, clear)


@pytest.mark.parametrize(
    "values",
    [
        [],
        [float("nan"), 1.0],
        [float("inf")],
        ["high"],
        None,
        [None],
        {},
        {"a": []},
    ],
)
def test_values_that_are_no_numbers_are_refused(values):
    with pytest.raises(SettingError):
        measured(values)


@pytest.mark.parametrize("claimed", [2, "+1", None, True])
def test_a_claim_has_one_of_three_signs(claimed):
    with pytest.raises(SettingError, match="where: claim lab-01"):
        measured([1.0, 2.0], claimed=claimed)
    with pytest.raises(SettingError, match="or 0 for no difference"):
        measured([1.0], claimed=0, exact=True)


# --- the size, the setting, and why there is no verdict


@pytest.mark.parametrize(
    "values, words",
    [
        ([7.0, 7.3, 7.1], AGREES),
        (UP, f"is {EXCLUDED}"),
        ([2.0, 9.0, 12.0], f"is {NOT_EXCLUDED}"),
        ([-7.0, -7.3, -7.1], f"is {EXCLUDED}"),
    ],
)
def test_the_papers_size_is_kept_apart_from_the_direction(facts, values, words):
    facts(reported=7.2)
    found = record(values, id="fccl-01")
    assert found["size"] == f"the paper's +7.2 {words}"
    facts()
    assert record(values, id="fccl-01") == {**found, "size": ""}


def test_no_size_is_said_of_one_seed_or_of_an_exact_fact(facts):
    facts(reported=7.2)
    assert record([3.0], id="fccl-01")["size"] == ""
    assert record([3.0, 3.0], id="fccl-01", exact=True)["size"] == ""


@pytest.mark.parametrize(
    "keys, gates, why",
    [
        ({"no_verdict": "The rate was tuned for one."}, {}, "The rate was tuned for one."),
        ({}, {"fccl-01": "No row differs."}, "No row differs."),
        ({"no_verdict": "By hand."}, {"fccl-01": "By computer."}, "By hand."),
        ({}, {"fccl-02": "No row differs."}, ""),
    ],
)
def test_there_is_no_verdict_where_the_setting_could_not_show_it(facts, keys, gates, why):
    facts(gates, reported=7.2, **keys)
    for values in (UP, DOWN, NONE, OPEN_):
        found = record(values, id="fccl-01")
        assert found["because"] == why
        assert (found["verdict"] == NO_VERDICT) == bool(why)
        assert found["values"] == values and "[" in found["measured"] and found["size"]
    exact = record([1.0], id="fccl-01", exact=True)  # what is counted needs no lead
    assert (exact["verdict"], exact["because"]) == (HOLDS, "")


def test_without_a_list_of_gates_every_claim_is_judged(facts, tmp_path):
    (tmp_path / "gates.json").unlink()
    assert verdict(UP, id="fccl-01") == AHEAD


@pytest.mark.parametrize(
    "setting, more, at",
    [
        ("mnist · paper · seeds 0, 1, 2", {}, PAPERS_OWN),
        ("mnist-mini · quick · seeds 0, 1, 2", {}, SMALLER),
        ("mnist · paper · seeds 0, 1, 2", {"stand_in": True}, OTHER_IMAGES),
        ("newspapers · quick", {}, SMALLER),
        ("mnist · paper", {"exact": True}, "-"),
    ],
)
def test_a_record_says_at_which_setting_it_was_measured(setting, more, at):
    assert record([3.0, 3.1], setting=setting, **more)["at"] == at


@pytest.mark.parametrize(
    "values, claimed, expected",
    [
        ([1.0], +1, HOLDS),
        ([1.0, 2.0], -1, FAILS),
        ([0.0], +1, FAILS),
        ([-3.0, -3.0], -1, HOLDS),
        ([1.0, 9.0], +1, HOLDS),
    ],
)
def test_an_exact_claim_is_judged_by_its_sign_alone(values, claimed, expected):
    assert verdict(values, claimed, exact=True) == expected


def test_exact_values_that_disagree_are_refused():
    with pytest.raises(SettingError, match="these seeds disagree"):
        measured([1.0, -1.0], exact=True)
    with pytest.raises(SettingError, match="unknown number 'value'"):
        measured([1.0, 2.0], exact=True, says="{value}")  # which of the two?


# --- the ledger of a notebook


def test_the_table_sets_the_papers_number_beside_ours():
    book = measured(UP, id="fccl-01", paper=19.39)
    row = book.table().loc["fccl-01"]
    assert list(book.table().columns) == [
        "claim",
        "where",
        "paper",
        "measured",
        "verdict",
        "size",
        "at",
        "setting",
    ]
    assert row["claim"] == claims_of("FCCL")[0]["statement"]
    assert row["paper"] == "19.39" and row["verdict"] == AHEAD
    assert row["measured"] == "+3.2 [+1.3, +5.1] points (3 seeds)"
    assert row["setting"] == "digits-mini · quick; measured here"
    plain = measured([1.0], id="fccl-01").table()
    assert plain.loc["fccl-01", "paper"] == claims_of("FCCL")[0]["direction"]


@pytest.mark.parametrize(
    "values, claimed, text",
    [
        ([5120], 1, "+5,120.0 points (1 seed)"),
        ([-5120], -1, "-5,120.0 points (1 seed)"),
        (DOWN, -1, "-3.2 [-5.1, -1.3] points (3 seeds)"),
        (DOWN, +1, "-3.2 [-5.1, -1.3] points (3 seeds)"),
        ([-1.0, 1.0, 0.0], 0, "0.0 [-2.5, +2.5] points (3 seeds)"),
    ],
)
def test_every_number_is_shown_with_its_sign_whatever_is_claimed(values, claimed, text):
    assert record(values, claimed=claimed)["measured"] == text


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5))
def test_any_measurement_can_be_shown(values):
    assert "seed" in record(values)["measured"]


def test_a_verdict_says_whether_it_was_measured_live(capsys):
    why = "(live: measured here; another processor may come to another verdict)\n"
    assert said(measured(UP), capsys) == "lab-01         ahead (live)\n" + why
    assert said(measured(DOWN), capsys) == "lab-01         behind (live)\n" + why
    assert said(measured([5.0], recorded=True), capsys) == "lab-01         too close to call\n"


def test_the_validation_compares_all_but_live_verdicts(capsys):
    """On another processor a live verdict may turn; a recorded one may not, and no line may go."""
    rules = get_sanitize_patterns((ROOT / "tests" / "nbval.cfg").read_text(encoding="utf-8"))

    def cleaned(values, **more):
        text = said(measured(values, **more), capsys)
        for pattern, words in rules:
            text = re.sub(pattern, words, text)
        return text

    live = cleaned(UP)
    assert live == cleaned(OPEN_) == cleaned(LITTLE) == cleaned(NONE) != cleaned(UP, id="lab-02")
    assert len({cleaned(v, recorded=True) for v in (UP, OPEN_, LITTLE, NONE)} | {live}) == 5


def test_what_is_not_testable_says_why(capsys):
    book = Claims("FedCSD")
    book.not_testable("fedcsd-01", "FEMNIST is not here")
    assert said(book, capsys) == "fedcsd-01      not testable here: FEMNIST is not here\n"
    assert book.table().loc["fedcsd-01", "measured"] == "-"
    with pytest.raises(SettingError):
        book.not_testable("fedcsd-01", " ")


def test_the_ledger_keeps_its_order():
    book = Claims("FCCL", "FedCSD")
    for id in ("fedcsd-02", "fccl-03", "fccl-01"):
        book.measure(id, [1.0], claimed=1, unit="points", setting="-", stand_in=True)
    assert list(book.table().index) == ["fccl-01", "fccl-03", "fedcsd-02"]
    assert Claims("FCCL").table().empty


def test_a_cell_can_be_run_twice():
    book = measured(UP)
    book.measure("lab-01", DOWN, claimed=1, unit="x", setting="-", stand_in=False)
    assert list(book.table()["verdict"]) == [BEHIND]


def test_a_notebook_enters_its_own_claims():
    book = Claims()
    book.add("start-01", "FedAvg beats training alone", "section 4")
    book.measure("start-01", [2.0, 2.1], claimed=1, unit="points", setting="-", stand_in=True)
    assert book.table().loc["start-01", "paper"] == "-"
    for wrong in ("fccl-99", "start", "Start-01", "fedcsd-01"):
        with pytest.raises(SettingError):
            book.add(wrong, "...", "...")


def test_an_unknown_claim_is_refused_with_the_nearest_one():
    with pytest.raises(SettingError, match="did you mean 'fccl-01'"):
        measured([1.0], id="fcl-01")


# --- its records


def claims_cell(book, **more):
    """A cell as a kernel leaves it that has shown the table."""
    data, _ = DisplayFormatter().format(book.table())
    output = {"output_type": "execute_result", "data": json.loads(json.dumps(data))}
    return {"cell_type": "code", "metadata": {"tags": ["claims"]}, "outputs": [output], **more}


def test_a_table_leaves_its_records_beside_what_it_shows(facts):
    facts({"fccl-01": "No row differs."}, reported=7.2)
    book = measured([2.5, 3.1, 10 / 3], id="fccl-01", paper=19.39)
    book.add("lab-02", "Something else", "section 2")
    book.not_testable("lab-02", "no Office-Home")
    cell = claims_cell(book)
    assert set(cell["outputs"][0]["data"]) == {"text/plain", "text/html", RECORDS}
    prose = {"cell_type": "markdown", "metadata": {}, "source": "fccl-07        holds"}
    first, second = records_in({"cells": [prose, cell, claims_cell(Claims("FCCL"))]})
    assert first == {
        "id": "fccl-01",
        "claim": claims_of("FCCL")[0]["statement"],
        "where": claims_of("FCCL")[0]["where"],
        "paper": "19.39",
        "measured": "+3.0 [+1.9, +4.0] points (3 seeds)",
        "verdict": NO_VERDICT,
        "live": True,
        "because": "No row differs.",
        "size": "the paper's +7.2 is excluded here",
        "at": SMALLER,
        "setting": "digits-mini · quick; measured here",
        "values": [2.5, 3.1, 3.33333],
        "p": pytest.approx(ttest_1samp([2.5, 3.1, 10 / 3], 0).pvalue, rel=0.01),
        "unit": "points",
        "claimed": 1,
        "sentence": "",
        "exact": False,
    }
    assert second.keys() == first.keys() and (second["values"], second["live"]) == ([], False)
    assert kind(second["verdict"]) == NOT_TESTABLE != second["verdict"]


def test_a_part_of_the_table_leaves_no_records():
    table = measured([1.0, 1.1]).table()
    for part in (table[["verdict"]], table.head(1), table.reset_index()):
        assert RECORDS not in DisplayFormatter().format(part)[0]


@pytest.mark.parametrize("path", sorted(ledger.NOTEBOOKS.rglob("*.ipynb")), ids=lambda p: p.stem)
def test_the_validation_compares_no_records(path):
    """Live numbers may be others on another processor; verdicts are compared in the next cell."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    for cell in (c for c in cells if records_in({"cells": [c]})):
        tags = set(cell["metadata"].get("tags", []))
        compared = any(RECORDS in output.get("data", {}) for output in cell["outputs"])
        assert "nbval-ignore-output" in tags or not compared
    code = "\n".join("".join(cell["source"]) for cell in cells)
    shown = any(call in code for call in (".verdicts()", ".cards(", "judge("))
    assert bool(records_in({"cells": cells})) == shown


@pytest.mark.parametrize("values, options, text", [
    ([], {}, "-"), ([0.5], {}, "0.50"), ([1, 2], {"digits": 1}, "1.5 ± 0.7"),
    ([1000, 1002], {"digits": 0}, "1,001 ± 1"), ([1.0, 1.5], {"signed": True}, "+1.25 ± 0.35"),
    ([2, 2], {"digits": None, "signed": True}, "+2 ± 0"), ([0.12345], {"digits": None}, "0.1235"),
    ([3.1, 3.2], {"digits": None}, "3.150 ± 0.071"),
    ([0.15 - 1e-16], {"digits": 1}, "0.1"), ([0.15 + 1e-15], {"digits": 1}, "0.1"),  # last digits
    ([0.35 - 1e-15], {"digits": 1}, "0.3"), ([0.35 + 1e-15], {"digits": 1}, "0.3"),
])  # fmt: skip
def test_a_spread_is_said_in_one_way(values, options, text):
    assert spread(values, **options) == text
