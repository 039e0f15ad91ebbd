"""What a laboratory shows: rows beside printed numbers, clauses from differences, folded cards."""

import re

import numpy as np
import pytest

from fedtutor.errors import FedtutorError
from fedtutor.notebook.rows import FoldedCards, Rows, against, deciding, effect, told
from fedtutor.papers import Claims

MEASURED = {"A": [10.0, 11.0, 12.0], "B": [12.0, 13.1, 14.2], "C": [9.0, 12.0, 12.5]}
PRINTED = {"A": 20.0, "B": 30.0}


def rows(**changes):
    given = {"less": "A", "printed": PRINTED, "home": MEASURED, "decides": ["B"]} | changes
    return Rows("A table", MEASURED, **given)


def test_a_line_has_levels_and_differences_to_the_base():
    shown = rows()
    assert shown.line("A") == ["20.0", "11.0 ± 1.0", "", "", "11.0 ± 1.0"]
    assert shown.line("B") == ["30.0", "13.1 ± 1.1", "+10.0", "+2.1 ± 0.1 *", "13.1 ± 1.1"]
    assert shown.line("C") == ["", "11.2 ± 1.9", "", "+0.2 ± 1.0", "11.2 ± 1.9"]
    assert shown.columns()[2:4] == ["minus A, printed", "minus A, measured"]


def test_without_printed_numbers_or_a_home_their_columns_are_gone():
    shown = rows(printed={}, home={})
    assert shown.columns() == ["measured", "minus A, measured"]
    assert shown.line("B") == ["13.1 ± 1.1", "+2.1 ± 0.1 *"]


def test_a_frame_has_the_same_cells_and_names_another_side():
    shown = rows(side="all images")
    frame = shown.frame()
    assert list(frame.columns) == shown.columns() and shown.columns()[-1] == "all images, measured"
    assert frame.loc["B"].tolist() == shown.line("B")


def test_a_lead_is_the_same_comparison_in_every_seed():
    shown = rows()
    assert shown.rival("B", ["A", "C"]) == "C"  # 3, 1.1, 1.7: not told, so it decides
    assert shown.lead("B", ["A", "C"]).tolist() == shown.gains("B", "C").tolist()
    assert shown.rival("C", ["A", "B"]) == "B"


def test_the_comparison_that_decides_is_named_on_the_card():
    leads = {"A minus B": [1.0, 1.1, 1.2], "A minus C": [1.0, -1.0, 1.0]}
    values, says = deciding(leads, "{name}, the comparison that decides: {value} points.")
    claims = Claims()
    claims.add("lab-01", "A is ahead of all", "section 1")
    claims.measure(
        "lab-01", values, claimed=1, unit="points", setting="toy", stand_in=False, says=says
    )
    (record,) = claims.records()
    assert record["values"] == leads["A minus C"]
    assert record["sentence"].startswith("A minus C, the comparison that decides: +0.3 [")


def test_every_row_may_have_a_base_of_its_own():
    shown = rows(less={"B": "C"}, base="its twin", decides=[])
    assert shown.line("C")[3] == "" and shown.line("B")[2:4] == ["", "+1.9 ± 1.0"]
    assert shown.gains("B").tolist() == pytest.approx([3.0, 1.1, 1.7])
    assert shown.gains("B", "A", home=True).tolist() == pytest.approx([2.0, 2.1, 2.2])


def test_the_deciding_cell_is_marked_and_no_other():
    page = rows()._repr_html_()
    assert re.findall(r"<td style[^>]*>([^<]*)</td>", page) == ["+2.1 ± 0.1 *"]
    assert page.count('scope="row"') == 3 and "told" not in page and "tell" in page
    text = repr(rows()).splitlines()
    assert len(text) == 5 and len({len(line) for line in text[1:]}) == 1


@pytest.mark.parametrize("changes", [{"less": "D"}, {"printed": {"D": 1.0}}, {"decides": ["D"]}])
def test_a_row_that_is_not_there_is_named(changes):
    with pytest.raises(FedtutorError, match="unknown row 'D'"):
        rows(**changes)


def test_rows_give_back_what_lies_behind():
    assert rows(results={"A": "runs"})["A"] == "runs"
    with pytest.raises(FedtutorError):
        rows(results={"A": "runs"})["B"]


def test_an_asterisk_follows_the_rule_over_seeds():
    assert told([1.0, 1.1, 1.2]) == told([-1.0, -1.1, -1.2]) == " *"
    assert told([0.1, 1.1, 1.2]) == told([1.0]) == told([1.2, 2.2, 3.2]) == ""


def test_a_clause_turns_round_with_its_values():
    up = np.array([1.0, 1.1, 1.2])
    assert effect("FISL", up, "here") == "FISL gains 1.1 ± 0.1 points here"
    assert effect("FISL", -up) == "FISL loses 1.1 ± 0.1 points"
    assert effect("FISL", [-1, 0, 2], "here") == (
        "FISL changes accuracy here by +0.3 ± 1.5 points, not told from zero"
    )
    assert against("FISL", "none", up, "here") == "FISL is 1.1 ± 0.1 points ahead of none here"
    assert against("FISL", "none", -up) == "FISL is 1.1 ± 0.1 points behind none"
    assert against("FISL", "none", [-1, 0, 1]) == "FISL is not told from none (0.0 ± 1.0 points)"


def ledger():
    claims = Claims()
    for id in ("lab-01", "lab-02", "lab-03"):
        claims.add(id, f"Claim {id}", "section 1")
        claims.measure(id, [1, 2, 3], claimed=1, unit="", setting="toy", stand_in=False,
                       recorded=True, says="{value}")  # fmt: skip
    return claims.cards()


def test_folded_cards_keep_every_card_and_the_records():
    cards = ledger()
    data, metadata = FoldedCards(cards, main=["lab-03"])._repr_mimebundle_()
    whole, kept = cards._repr_mimebundle_()
    page = data["text/html"]
    assert metadata == kept and data["text/plain"] == whole["text/plain"]
    opened, _, rest = page.partition("<details><summary>The other 2 cards</summary>")
    assert "lab-03" in opened and "lab-01" not in opened
    folded, _, below = rest.partition("</details>")
    assert "lab-01" in folded and "lab-02" in folded and "lab-03" not in folded
    assert below.strip() == whole["text/html"][whole["text/html"].index("<details") :].strip()


def test_all_cards_open_leaves_nothing_to_fold():
    page = FoldedCards(ledger(), main=["lab-01", "lab-02", "lab-03"])._repr_mimebundle_()[0]
    assert "The other" not in page["text/html"]
    with pytest.raises(FedtutorError, match="lab-09"):
        FoldedCards(ledger(), main=["lab-09"])
