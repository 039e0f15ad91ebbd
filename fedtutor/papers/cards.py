"""What was found for each claim, as HTML: a card per claim, the whole ledger folded below."""

import html
from collections.abc import Sequence

import pandas as pd

CARD = 'style="border-left: 4px solid; padding: 0 1em; margin: 1em 0"'
# For nbval's --nbval-sanitize-with: of a card with a live verdict, it compares the claim's id.
LIVE_CARD = r'(<div class="claim live" [^>]*><p><b>\S+)[\s\S]*?</div>'


def cards_page(records: Sequence[dict], ledger: pd.DataFrame) -> str:
    """The cards of `Claims.records`, and `ledger` in a fold.

    The fold's class says whether the validation of the notebooks compares it: "recorded" if no
    verdict is live, else "measured".
    """
    if not records:
        return "<p>No claim has been measured yet.</p>"
    kind = "measured" if any(record["live"] for record in records) else "recorded"
    claims = f"{len(records)} claim{'s' * (len(records) > 1)}"
    fold = (f'<details class="{kind}"><summary>The ledger: what was judged for {claims}'
            f"</summary>\n{scoped_table(ledger)}\n</details>")  # fmt: skip
    return "\n".join([*map(_card, records), fold])


def _card(record: dict) -> str:
    """The claim, its verdict, a sentence with the measured value; where, and with which data."""
    text = {key: html.escape(str(value)) for key, value in record.items()}
    marks = [text["verdict"], *["exact"] * record["exact"], *["live"] * record["live"]]
    said = text["sentence"] or f"Measured: {text['measured']}."
    said += f" No verdict, because: {text['because']}" * bool(record["because"])
    said += f" In size, {text['size']}." * bool(record["size"])
    sides = {1: "above zero", -1: "below zero", 0: "no difference that matters"}
    small = "" if record["exact"] else f"Expected: {sides[record['claimed']]}. "
    small += f"Data: {text['setting']}."
    if not record["values"]:
        said = small = ""
    return "\n".join([
        f'<div class="claim{" live" * record["live"]}" {CARD}><p><b>{text["id"]}</b> · '
        f"<b>{' · '.join(marks)}</b><br>{text['claim']} <i>({text['where']})</i></p>",
        *[f"<p>{said}</p>"] * bool(said),
        *[f"<p><small>{small}</small></p>"] * bool(small),
        "</div>",
    ])  # fmt: skip


def scoped_table(table: pd.DataFrame) -> str:
    """A DataFrame as HTML whose header cells say what they head, for screen readers."""
    index = not isinstance(table.index, pd.RangeIndex)
    body = table.to_html(index=index, border=0, float_format=lambda value: f"{value:.4g}")
    head, end, rest = body.partition("</thead>")
    return head.replace("<th>", '<th scope="col">') + end + rest.replace("<th>", '<th scope="row">')
