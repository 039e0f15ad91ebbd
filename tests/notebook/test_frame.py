"""The printed words of a lesson: the sign turns the sentence, the validation bears live numbers."""

import re

import IPython
import pandas as pd
import pytest
from bs4 import BeautifulSoup
from nbconvert.filters import markdown2html
from nbval.plugin import get_sanitize_patterns

from fedtutor import notebook
from fedtutor.engine.files import ROOT
from fedtutor.errors import SettingError
from fedtutor.notebook import frame
from fedtutor.notebook.frame import folded, question, say, sentence, tell, verdict_box
from fedtutor.papers import ledger

WORDS = {"above": "FCCL+ gains {value} points.", "below": "FCCL+ loses {value} points."}
UNCLEAR = "It is too close to call, {mean} points on average."


@pytest.fixture
def shown(monkeypatch):
    """What was displayed, as a notebook would: a list of the forms of each output."""
    seen = []
    monkeypatch.setattr(IPython, "get_ipython", lambda: object())
    monkeypatch.setattr("IPython.display.display", lambda data, raw: seen.append(data))
    return seen


def cleaned(data: dict[str, str]) -> dict[str, str]:
    """What the validation of the notebooks compares of an output."""
    rules = get_sanitize_patterns((ROOT / "tests" / "nbval.cfg").read_text(encoding="utf-8"))
    found = dict(data)
    for pattern, words in rules:
        found = {kind: re.sub(pattern, words, text) for kind, text in found.items()}
    return found


# --- a sentence


@pytest.mark.parametrize(
    "values, text",
    [
        ([2.0, 3.0, 4.0], "FCCL+ gains 3.0 ± 1.0 points."),
        ([-2.0, -3.0, -4.0], "FCCL+ loses 3.0 ± 1.0 points."),
        ([-20.0, -40.0], "FCCL+ loses 30 ± 14 points."),
        ([-1.0, 4.0], "FCCL+ gains 1.5 ± 3.5 points."),  # too close to call, and no wording for it
        ([0.5], "FCCL+ gains 0.5 points."),
        ([-5120, -5120], "FCCL+ loses 5,120 ± 0 points."),
    ],
)
def test_the_sign_of_the_mean_chooses_the_wording(values, text):
    assert sentence(values, **WORDS) == text


@pytest.mark.parametrize(
    "values, text",
    [
        ([2.0, 3.0, 4.0], "FCCL+ gains 3.0 ± 1.0 points."),
        ([-2.0, -3.0, -4.0], "FCCL+ loses 3.0 ± 1.0 points."),
        ([5.0, 5.0, -1.0], "It is too close to call, +3.0 points on average."),
        ([-5.0, -5.0, 1.0], "It is too close to call, -3.0 points on average."),
        ([7.0], "It is too close to call, +7 points on average."),  # one seed
        ([-7.0], "It is too close to call, -7 points on average."),
    ],
)
def test_a_value_whose_side_is_open_has_a_wording_of_its_own_and_keeps_its_sign(values, text):
    assert sentence(values, **WORDS, unclear=UNCLEAR) == text


def test_the_wording_follows_the_interval_and_not_two_deviations():
    said = [sentence(v, **WORDS, unclear="close") for v in ([2.0, 0.4, 1.9, 3.0], [1.2, 2.2, 3.2])]
    assert said == ["FCCL+ gains 1.8 ± 1.1 points.", "close"]  # 1.7 and 2.2 deviations


def test_digits_can_be_chosen():
    assert sentence([2.24, 3.31], **WORDS, digits=0) == "FCCL+ gains 3 ± 1 points."
    words = {"above": "{value}, {mean}; {other}", "below": ""}
    assert sentence([2.0, 2.5], **words, digits=1, other=[8, 9]) == "2.2 ± 0.4, 2.2; 8.5 ± 0.7"


def test_other_numbers_are_given_by_name():
    words = "{value} of {count} images, {share:.0%}, {ratio}, {each} at {place}"
    numbers = {"count": 1280, "share": 0.25, "ratio": 0.1 + 0.2, "each": [1.0, 2.0, 3.0],
               "place": "home"}  # fmt: skip
    assert sentence([3.0, 3.0], above=words, below=words, **numbers) == (
        "3 ± 0 of 1280 images, 25%, 0.3, 2.0 ± 1.0 at home"
    )


@pytest.mark.parametrize("values, words, more, said", [
    ([-1.0, -1.1], {"above": "more", "below": None}, {}, "no wording for -1.050"),
    ([1.0, 1.1], {"above": None, "below": "less"}, {}, 'above = "..."'),
    ([0.0, 0.0], {"above": "more", "below": "less"}, {}, 'unclear = "..."'),
    ([float("nan"), 1.0], WORDS, {}, "a finite number per seed"),
    ([], WORDS, {}, "a finite number per seed"),
    ([1.0], {"above": "more", "below": "less by {count}"}, {}, "unknown number 'count'"),
    ([1.0], {"above": "more", "below": "less by {counts}"}, {"count": 3}, "mean 'count'"),
    ([1.0], WORDS, {"count": 3}, "unknown number 'count'"),
    ([1.0], WORDS, {"value": 3}, "a number called 'value'"),
    ([1.0], {"above": "{value", "below": "less"}, {}, "for a brace"),
])  # fmt: skip
def test_a_sentence_that_cannot_be_said_is_one_clear_error(values, words, more, said):
    with pytest.raises(SettingError, match=r"where: (sentence|Difference)") as error:
        sentence(values, **words, **more)
    assert said in str(error.value)


# --- shown


def test_a_sentence_is_shown_as_markdown(shown):
    assert say([2.0, 3.0, 4.0], **WORDS, recorded=True) is None
    text = "FCCL+ gains 3.0 ± 1.0 points."
    assert shown == [{"text/markdown": text, "text/plain": text}]


def test_the_validation_compares_recorded_sentences_and_no_live_ones(shown):
    for values in ([2.0, 3.0], [-5.0, -5.5]):
        say(values, **WORDS)
        say(values, **WORDS, recorded=True)
    live, kept, other_live, other_kept = map(cleaned, shown)
    assert live == other_live and "gains" not in str(live)
    assert kept != other_kept
    assert "FCCL+ gains" in shown[0]["text/markdown"] and "FCCL+ gains" in shown[0]["text/plain"]


def test_the_rules_of_the_validation_are_those_of_the_frame():
    rules = [rule for rule, _ in get_sanitize_patterns((ROOT / "tests" / "nbval.cfg").read_text())]
    assert frame.PRINTED_HERE in rules and f"(?m)^({frame.PLAIN})[^\\n]*$" in rules


def test_several_sentences_are_one_paragraph(shown):
    tell("**What we found.**", sentence([2.0, 3.0, 4.0], **WORDS), "", " It\nis *so*.")
    page = markdown2html(shown[0]["text/markdown"])
    paragraphs = BeautifulSoup(page, "html.parser")("p")
    assert [p.get_text() for p in paragraphs] == [
        "What we found. FCCL+ gains 3.0 ± 1.0 points. It is so."
    ]
    assert paragraphs[0].em and paragraphs[0].parent["class"] == ["printed"]
    with pytest.raises(SettingError, match="nothing to tell"):
        tell("", "  ")


def test_a_script_prints_the_words(capsys):
    tell("One", "two.", recorded=True)
    assert capsys.readouterr().out == "One two.\n"


def test_the_verdict_box_has_every_word_of_a_verdict(shown):
    verdict_box()
    for form in shown[0].values():
        text = " ".join(form.replace(">", " ").replace("*", "").lower().split())
        for word in set(ledger.VERDICTS) - {ledger.OPEN}:
            assert word in text, word
    page = BeautifulSoup(markdown2html(shown[0]["text/markdown"]), "html.parser")
    marked = {" ".join(word.get_text().lower().split()) for word in page("em")}
    assert set(ledger.VERDICTS) - {ledger.OPEN} <= marked
    assert shown[0] == cleaned(shown[0])


# --- questions and folded tables


def test_a_question_unfolds_a_reply_for_each_choice(shown):
    question(
        "Who keeps $V_k$?", {"the `server` <b>": "No: it *never* leaves.", "the client": "Yes."}
    )
    page = BeautifulSoup(markdown2html(shown[0]["text/markdown"]), "html.parser")
    outer = page.find("details")
    inner = outer("details")
    assert outer.has_attr("open") and not any(fold.has_attr("open") for fold in inner)
    assert [fold.summary.get_text() for fold in inner] == ["the server <b>", "the client"]
    assert inner[0].summary.code and inner[0].p.em and not page.script
    assert [fold.p.get_text() for fold in inner] == ["No: it never leaves.", "Yes."]
    plain = shown[0]["text/plain"]
    assert plain.endswith("- the `server` <b>\n- the client") and "never" not in plain
    assert shown[0] == cleaned(shown[0])


@pytest.mark.parametrize("text, choices", [
    ("Why?", {}), ("Why?", {"so": "Yes."}), ("Why?", {"so": "Yes.", "not": " "}),
    (" ", {"so": "Yes.", "not": "No."}), ("Why?", ["so", "not"]),
])  # fmt: skip
def test_a_question_without_choices_or_replies_is_refused(text, choices):
    with pytest.raises(SettingError, match="where: question"):
        question(text, choices)


def test_a_folded_table_has_headers_and_a_line_that_opens_it(shown):
    table = pd.DataFrame({"a < b": [1 / 3, 2.0], "c": ["x", "y"]}, index=["one", "two"])
    folded(table, "All `rows`")
    page = BeautifulSoup(shown[0]["text/html"], "html.parser")
    assert page.details.summary.get_text() == "All rows" and not page.details.has_attr("open")
    assert [th.get_text() for th in page("th", scope="col")] == ["", "a < b", "c"]
    assert [th.get_text() for th in page("th", scope="row")] == ["one", "two"]
    assert "0.3333" in page.get_text()
    assert shown[0]["text/plain"] == "All `rows` (a folded table: 2 rows; a < b, c)"


def test_the_validation_compares_recorded_tables_only(shown):
    for value in (1.0, 2.0):
        folded(pd.DataFrame({"a": [value]}), "Rows")
        folded(pd.DataFrame({"a": [value]}), "Rows", recorded=True)
    live, kept, other_live, other_kept = map(cleaned, shown)
    assert live == other_live and kept != other_kept


@pytest.mark.parametrize("table, summary", [
    (None, "Rows"), (pd.DataFrame(), "Rows"), (pd.DataFrame({"a": [1]}), " ")
])  # fmt: skip
def test_a_fold_without_a_table_is_refused(table, summary):
    with pytest.raises(SettingError, match="where: folded"):
        folded(table, summary)


def test_the_words_are_at_the_door_of_the_wing():
    names = {"say", "sentence", "tell", "verdict_box", "question", "folded"}
    assert names <= set(notebook.__all__) and all(callable(getattr(notebook, n)) for n in names)
