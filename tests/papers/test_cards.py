"""The cards of the claims: for the eye, for the ear, for the ledger, for the validation."""

import json
import re

import pytest
from bs4 import BeautifulSoup
from IPython.core.formatters import DisplayFormatter
from nbval.plugin import get_sanitize_patterns

from fedtutor import papers
from fedtutor.engine.files import ROOT
from fedtutor.errors import SettingError
from fedtutor.papers import Claims
from fedtutor.papers.cards import LIVE_CARD
from fedtutor.papers.verdicts import RECORDS, records_in


def measured(values=(2.0, 3.0, 4.0), id="fccl-01", claimed=+1, **more) -> Claims:
    given = {"unit": "points", "setting": "digits-mini, quick", "stand_in": True, **more}
    ledger = Claims("FCCL")
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
    claim = papers.claims_of("FCCL")[0]
    assert cards(ledger) == [
        f"fccl-01 · consistent with · live {claim['statement']} ({claim['where']}) "
        "FCCL is +3.0 ± 1.0 points ahead of FedAvg on <bundled> digits. "
        "Expected: above zero. Data: digits-mini, quick; measured here."
    ]


def test_a_card_without_a_sentence_says_what_was_measured():
    (card,) = cards(measured(claimed=-1, recorded=True))
    assert "Measured: +3.0 ± 1.0 points (3 seeds). Expected: below zero." in card
    assert "inconsistent with" in card and "live" not in card


def test_what_is_not_testable_has_a_card_without_numbers():
    ledger = Claims("FCCL")
    ledger.not_testable("fccl-06", "no Office-Home")
    (card,) = cards(ledger)
    assert "not testable here: no Office-Home" in card
    assert "Measured" not in card and "Data" not in card


def test_the_whole_ledger_is_folded_below():
    ledger = measured()
    ledger.measure("fccl-03", [1.0, 1.1], claimed=1, unit="points", setting="-", stand_in=False)
    fold = page(ledger).details
    assert not fold.has_attr("open") and "2 claims" in fold.summary.get_text()
    heads = [th.get_text() for th in fold("th", scope="col")]
    assert heads == ["", "claim", "where", "paper", "measured", "verdict", "setting"]
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


def test_the_records_are_in_the_output_as_those_of_the_table_are(tmp_path):
    ledger = measured(says="{value} points")
    cell = {"cell_type": "code", "metadata": {"tags": ["claims"]}, "outputs": [output(ledger)]}
    assert records_in({"cells": [cell]}) == ledger.records()
    assert RECORDS not in cell["outputs"][0]["data"]  # the validation compares all of that
    (tmp_path / "01_x.ipynb").write_text(json.dumps({"cells": [cell]}), encoding="utf-8")
    found = papers.claims("FCCL", folder=tmp_path).loc["fccl-01"]
    assert (found["verdict"], found["values"]) == ("consistent with", [2.0, 3.0, 4.0])


def test_the_validation_compares_all_but_live_cards():
    rules = get_sanitize_patterns((ROOT / "tests" / "nbval.cfg").read_text(encoding="utf-8"))
    assert LIVE_CARD in [rule for rule, _ in rules]

    def compared(values, **more) -> dict:
        found = output(measured(values, says="{value} points", **more))["data"]
        for pattern, words in rules:
            found = {kind: re.sub(pattern, words, text) for kind, text in found.items()}
        return found

    live = compared([9.0, 10.0])
    assert live == compared([-1.0, 1.0])
    assert live != compared([9.0, 10.0], id="fccl-02")
    assert compared([9.0, 10.0], recorded=True) != compared([9.0, 10.1], recorded=True)


# --- what a card says


def test_a_sentence_may_come_ready_made_but_not_with_an_unknown_number():
    assert "It lost 3 points." in cards(measured(says="It lost 3 points."))[0]
    with pytest.raises(SettingError, match="did you mean 'value'"):
        measured(says="{vlue} points")


@pytest.mark.parametrize("values, unit, said, number", [
    ([5120.0, 5120.0], "bytes", "exact: 5,120 bytes", "5,120"),
    ([5120], "bytes", "exact: 5,120 bytes", "5,120"),
    ([1e-6, 1e-6], "", "exact", "1e-06"), ([1.0, 1.0], "", "exact", "1"),
    ([0.25, 0.25], "of the bytes", "exact", "0.25"),
])  # fmt: skip
def test_a_fact_without_spread_says_exact(values, unit, said, number):
    ledger = measured(values, unit=unit, exact=True, stand_in=False, says="It is {value}.")
    row = ledger.table().loc["fccl-01"]
    assert (row["measured"], row["verdict"]) == (said, "holds")
    (card,) = cards(ledger)
    assert "fccl-01 · holds · exact · live" in card and f"It is {number}." in card
    assert "±" not in card and "seed" not in card and "Expected" not in card


@pytest.mark.parametrize("values, claimed, expected", [
    ([1.0], +1, "holds"), ([1.0, 2.0], -1, "does not hold"), ([0.0], +1, "does not hold"),
    ([-3.0, -3.0], -1, "holds"), ([1.0, 9.0], +1, "holds"),
])  # fmt: skip
def test_an_exact_claim_is_judged_by_its_sign_alone(values, claimed, expected):
    ledger = measured(values, claimed=claimed, exact=True, stand_in=False)
    assert ledger.records()[0]["verdict"] == expected


def test_exact_values_that_disagree_are_refused():
    with pytest.raises(SettingError, match="these seeds disagree"):
        measured([1.0, -1.0], exact=True)
    with pytest.raises(SettingError, match="one finite number"):
        measured([], exact=True)
    with pytest.raises(SettingError, match="unknown number 'value'"):
        measured([1.0, 2.0], exact=True, says="{value}")  # which of the two?
    assert cards(measured([1.0, 2.0], exact=True, says="Equal for every seed."))
