"""Every claim and every printed number, in tables that a reader can sort and filter.

itables writes them, with all that they need: docs/results.md becomes a page that loads nothing.
`results.html#fccl-01` opens it with one claim.
"""

from html import escape
from pathlib import Path

import itables
import pandas as pd

from fedtutor import papers
from fedtutor.papers import ledger
from fedtutor.papers.verdicts import kind
from fedtutor.report import overview, tables

MARK = "<!-- ledger -->"
DARK = ".then((script) => script.set_or_remove_dark_class())"  # follow the page's colors
ASKED = r"""(location.hash.match(/^#(\w+-\w+)$/) || ["", ""])[1]"""  # a claim, by its id


def drawn(lessons: list[str]) -> list[str]:
    """Both tables as HTML; they lead to `lessons`."""
    where = {Path(name).name.partition("_")[0]: Path(name).stem for name in lessons}

    def linked(number: str) -> str:
        if number not in where:
            return number
        return f'<a href="../notebooks/{where[number]}.html">{number}</a>'

    return [
        itables.to_html_datatable(
            frame,
            allow_html=True,
            classes="display compact",
            columnControl=["order", ["searchList"]],
            columnDefs=[{"targets": [1], "width": "20em"}],
            connected=False,
            maxBytes=0,
            ordering={"indicators": False, "handler": False},
            paging=False,
            scrollCollapse=True,
            scrollX=True,
            scrollY="75vh",
            search={"search": itables.JavascriptCode(ASKED if "Claim" in frame else "''")},
            showIndex=False,
            style="width:100%",
        )
        for frame in (claims(linked), numbers(linked))
    ]


def fill(page: Path, tables: list[str]) -> None:
    """Put the tables into the page of docs/results.md."""
    text = page.read_text(encoding="utf-8")
    bundle = itables.javascript.generate_init_offline_itables_html(itables.options.dt_bundle)
    bundle += f"<script>window.{itables.javascript._itables_underscore_version()}{DARK}</script>"
    for table in (bundle + tables[0], *tables[1:]):
        text = text.replace(MARK, table, 1)
    page.write_text(text, encoding="utf-8")


def claims(linked) -> pd.DataFrame:
    """A row per claim of the ledger."""
    book = papers.claims()
    kinds = overview.theirs(book)["kind"]
    return pd.DataFrame(
        {
            "Paper": book["paper"],
            "Claim": [f"<b>{name}</b> {escape(said)}" for name, said in book["claim"].items()],
            "Where": book["where"].map(escape),
            "The paper says": book["says"].astype(str).map(escape),
            "Measured": book["measured"].map(escape),
            "Verdict": book["verdict"].map(kind)
            + book["needed"].map(lambda n: "" if pd.isna(n) else f", about {n} seeds might tell"),
            "Size": book["size"].map(escape),
            "At": book["at"],
            "Kind": [kinds.get(name, ledger.OURS) for name in book.index],
            "Data and settings": book["setting"].map(escape),
            "Lesson": book["notebook"].map(linked),
        }
    )


def numbers(linked) -> pd.DataFrame:
    """A row per printed accuracy, with the run that is nearest to the paper's setting."""
    found, owner = overview.numbers(tables.build()), ledger.owners()["tables"]
    done = ~found["state"].isin([overview.ABSENT, overview.WAITING])
    return pd.DataFrame(
        {
            "Paper": found["paper"],
            "Table": found["table"],
            "Row": found["row"].map(escape),
            "Column": found["column"].map(escape),
            "Printed, %": found["printed"],
            "Measured, %": found["measured"].map(escape),
            "Seeds": found["seeds"],
            "State": found["state"],
            "Verdict": found["verdict"].where(done, ""),
            "Run": found["run"].map(escape),
            "Lesson": [
                linked(owner[place]) for place in zip(found["paper"], found["table"], strict=True)
            ],
        }
    )
