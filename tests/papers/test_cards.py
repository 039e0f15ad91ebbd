"""The cards of the claims: for the eye, for the ear, for the ledger, for the validation."""

import json
import re

import pytest
from bs4 import BeautifulSoup
from IPython.core.formatters import DisplayFormatter
from nbval.plugin import get_sanitize_patterns

from fedtutor import papers
from fedtutor.engine.files import ROOT, save_json
from fedtutor.errors import SettingError
from fedtutor.papers import Claims, printed
from fedtutor.papers.cards import LIVE_CARD
from fedtutor.papers.verdicts import RECORDS, records_in


def measured(values=(2.0, 3.0, 4.0), id="lab-01", claimed=+1, **more) -> Claims:
    given = {"unit": "points", "setting": "digits-mini, quick", "stand_in": True, **more}
    ledger = Claims("FCCL")
    if id.startswith("lab"):
        ledger.add(id, "A beats B", "section 1")
    ledger.measure(id, values, claimed=claimed, **given)
    return ledger


def output(ledger: Claims) -> dict:
    """The output of a cell whose last line is `ledger.cards()`."""
    data, metadata = DisplayFormatter().format(ledger.cards())
    result = {"output_type": "execute_result", "data": data, "metadata": metadata}
    return json.loads(json.dumps(result))


def page(ledger: Claims) -> BeautifulSoup:
    return BeautifulSoup(output(ledger)["data"]["text/html"], "html.parser")


def cards(ledger: Claims) -> list[str]:
    found = page(ledger)("div", class_="claim")
    return [" ".join(card.get_text(" ").split()) for card in found]


def test_a_card_has_claim_verdict_sentence_and_place():
    ledger = measured(says="FCCL is {value} points ahead of FedAvg on <bundled> digits.")
    assert cards(ledger) == [
        "lab-01 · ahead · live A beats B (section 1) "
        "FCCL is +3.0 [+0.5, +5.5] points ahead of FedAvg on <bundled> digits. "
        "Expected: above zero. Data: digits-mini, quick; measured here."
    ]


@pytest.mark.parametrize(
    "claimed, expected",
    [
        (+1, "lab-01 · ahead A beats"),
        (-1, "lab-01 · behind A beats"),
        (0, "lab-01 · ahead A beats"),
    ],
)
def test_a_card_without_a_sentence_says_what_was_measured_and_expected(claimed, expected):
    (card,) = cards(measured(claimed=claimed, recorded=True))
    side = {1: "above zero", -1: "below zero", 0: "no difference that matters"}[claimed]
    assert f"Measured: +3.0 [+0.5, +5.5] points (3 seeds). Expected: {side}." in card
    assert expected in card and "live" not in card


def test_a_card_says_why_there_is_no_verdict_and_whether_the_size_is_met(tmp_path, monkeypatch):
    claim = {**papers.claims_of("FCCL")[0], "reported": 7.2, "no_verdict": "Rates < 1 differ."}
    save_json(tmp_path / "claims.json", [claim])
    monkeypatch.setattr(printed, "PUBLISHED", tmp_path)
    (card,) = cards(measured(id="fccl-01", says="It gains {value}."))
    assert card.startswith("fccl-01 · no verdict · live")
    assert "It gains +3.0 [+0.5, +5.5]. No verdict, because: Rates < 1 differ. In size," in card
    assert "In size, the paper's +7.2 is not excluded here. Expected" in card


def test_what_is_not_testable_has_a_card_without_numbers():
    ledger = Claims("FCCL")
    ledger.not_testable("fccl-06", "no Office-Home")
    (card,) = cards(ledger)
    assert "not testable here: no Office-Home" in card
    assert "Measured" not in card and "Data" not in card


def test_the_whole_ledger_is_folded_below():
    ledger = measured(id="fccl-01")
    ledger.measure("fccl-03", [1.0, 1.1], claimed=1, unit="points", setting="-", stand_in=False)
    fold = page(ledger).details
    assert not fold.has_attr("open") and "2 claims" in fold.summary.get_text()
    heads = [th.get_text() for th in fold("th", scope="col")]
    columns = ["claim", "where", "paper", "measured", "verdict", "size", "at", "setting"]
    assert heads == ["", *columns]
    assert [th.get_text() for th in fold("th", scope="row")] == ["fccl-01", "fccl-03"]
    claim = papers.claims_of("FCCL")[0]["statement"]
    assert len(claim) > 50 and claim in fold.get_text()  # nothing is cut
    assert len(cards(ledger)) == 2


def test_no_claim_no_card():
    assert "No claim has been measured" in page(Claims("FCCL")).get_text()
    assert output(Claims("FCCL"))["data"]["text/plain"] == ""


def test_the_plain_text_is_the_list_of_verdicts(capsys):
    ledger = measured()
    ledger.verdicts()
    assert output(ledger)["data"]["text/plain"] == capsys.readouterr().out.rstrip("\n")


def test_the_records_reach_the_ledger_through_a_notebooks_output(tmp_path):
    ledger = measured(id="fccl-01", says="{value} points")
    cell = {"cell_type": "code", "metadata": {"tags": ["claims"]}, "outputs": [output(ledger)]}
    assert records_in({"cells": [cell]}) == ledger.records()
    assert RECORDS not in cell["outputs"][0]["data"]  # the validation compares all of that
    (tmp_path / "01_x.ipynb").write_text(json.dumps({"cells": [cell]}), encoding="utf-8")
    found = papers.claims("FCCL", folder=tmp_path).loc["fccl-01"]
    (record,) = ledger.records()
    kept = ["verdict", "because", "size", "at", "values", "p", "claimed", "exact", "live", "unit"]
    assert {key: found[key] for key in kept} == {key: record[key] for key in kept}


def test_the_validation_compares_all_but_live_cards():
    rules = get_sanitize_patterns((ROOT / "tests" / "nbval.cfg").read_text(encoding="utf-8"))
    assert LIVE_CARD in [rule for rule, _ in rules]

    def compared(values, **more) -> dict:
        found = output(measured(values, says="{value} points", **more))["data"]
        for pattern, words in rules:
            found = {kind: re.sub(pattern, words, text) for kind, text in found.items()}
        return found

    live = compared([9.0, 10.0])
    assert live == compared([-1.0, 1.0]) == compared([-9.0, -9.1, -9.2])
    assert live != compared([9.0, 10.0], id="lab-02")
    assert compared([9.0, 10.0], recorded=True) != compared([9.0, 10.1], recorded=True)


# --- what a card says


def test_a_sentence_may_come_ready_made_but_not_with_an_unknown_number():
    assert "It lost 3 points." in cards(measured(says="It lost 3 points."))[0]
    with pytest.raises(SettingError, match="did you mean 'value'"):
        measured(says="{vlue} points")


@pytest.mark.parametrize(
    "values, unit, said, number",
    [
        ([5120.0, 5120.0], "bytes", "exact: 5,120 bytes", "5,120"),
        ([5120], "bytes", "exact: 5,120 bytes", "5,120"),
        ([1e-6, 1e-6], "", "exact", "1e-06"),
        ([1.0, 1.0], "", "exact", "1"),
        ([0.25, 0.25], "of the bytes", "exact", "0.25"),
    ],
)
def test_a_fact_without_chance_says_exact(values, unit, said, number):
    ledger = measured(values, unit=unit, exact=True, stand_in=False, says="It is {value}.")
    row = ledger.table().loc["lab-01"]
    assert (row["measured"], row["verdict"]) == (said, "holds")
    (card,) = cards(ledger)
    assert "lab-01 · holds · exact · live" in card and f"It is {number}." in card
    assert "[" not in card and "seed" not in card and "Expected" not in card


def test_exact_values_that_differ_may_be_told_without_a_number():
    assert "Equal." in cards(measured([1.0, 2.0], exact=True, says="Equal."))[0]
