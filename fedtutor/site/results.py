"""results.html: all printed numbers beside measured ones, and all claims, to look things up.

The tables are plain HTML, complete without a script. The page's own script (results.js) adds
filters, a count and sorting by the headings; it keeps what is chosen in the page's address, so
that a view can be linked: `results.html?numbers.paper=FCCL&numbers.table=1`.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader

from .. import papers
from ..papers import ledger
from ..papers.printed import PAPERS, accuracies, tables
from ..papers.verdicts import kind
from ..report import overview
from ..report.tables import NO_RUN, OPEN, PLACE, Report, build
from .finding import TEMPLATES

STYLE, SCRIPT = TEMPLATES / "results.css", TEMPLATES / "results.js"
SHORT = {"paper": "paper's setting", "stand-in": "stand-in", "reduced": "reduced",
         overview.WAITING: "not yet measured", overview.ABSENT: "data absent"}  # fmt: skip


class Column(NamedTuple):
    """A column of a table: its key in the script, its heading; whether a list filters it."""

    key: str
    heading: str
    filtered: bool = False
    number: bool = False  # sorted by the number that it begins with


class Cell(NamedTuple):
    """A cell: its text, where it leads, and by what it is sorted if not by its text."""

    text: str
    link: str = ""
    order: int | None = None


class Table(NamedTuple):
    """A table of the page, `name` stands before its filters in the address."""

    name: str
    title: str
    about: str
    columns: tuple[Column, ...]
    rows: list[tuple[Cell, ...]]


NUMBERS = (
    Column("paper", "Paper", filtered=True), Column("table", "Table", filtered=True),
    Column("row", "Method or row", filtered=True), Column("column", "Column"),
    Column("printed", "Printed, %", number=True), Column("measured", "Measured, %", number=True),
    Column("seeds", "Seeds"), Column("state", "State", filtered=True),
    Column("verdict", "Verdict", filtered=True), Column("run", "Run"),
    Column("notebook", "Notebook"),
)  # fmt: skip
CLAIMS = (
    Column("paper", "Paper", filtered=True), Column("claim", "Claim"), Column("where", "Where"),
    Column("says", "The paper says"), Column("measured", "Measured", number=True),
    Column("verdict", "Verdict", filtered=True), Column("kind", "Kind", filtered=True),
    Column("data", "Data and settings"), Column("notebook", "Notebook", filtered=True),
)  # fmt: skip


def body(titles: Mapping[str, str]) -> str:
    """The body of the page; `titles` are the site's notebooks, page -> title."""
    made, book = _read()
    pages = {name.partition("_")[0]: name for name in titles}
    found = [
        Table("numbers", "Printed numbers", "Every accuracy that a paper prints, a line for each "
              "run that stands for it. ± is one standard deviation over seeds.", NUMBERS,
              list(number_rows(made, pages))),
        Table("claims", "Claims", "What the papers say, and our own claims. A measured value is "
              "the mean over seeds of the number that the claim was turned into.", CLAIMS,
              list(claim_rows(book, pages))),
    ]  # fmt: skip
    environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True)
    report = next((page for number, page in pages.items() if number == "08"), "")
    script = SCRIPT.read_text(encoding="utf-8")
    return environment.get_template("results.html.j2").render(
        tables=found,
        script=script,
        report=report,
        states=zip(SHORT.values(), overview.STATES.values(), strict=True),
    )


def style() -> str:
    """What the page needs beside page.css."""
    return STYLE.read_text(encoding="utf-8")


@cache
def _read() -> tuple[Report, object]:
    """The report and the ledger of what is committed: read once, as they take seconds."""
    return build(), papers.claims()


def number_rows(made: Report, pages: Mapping[str, str]) -> Iterable[tuple[Cell, ...]]:
    """A row of NUMBERS per printed accuracy and run, in the papers' order.

    pages: number of a notebook -> its page.
    """
    owner, order = ledger.owners()["tables"], {place: n for n, place in enumerate(tables())}
    printed = {place: n for n, place in enumerate(_places(accuracies()))}
    measured = set(_places(made.cells[made.cells["setting"] != OPEN]))
    lines = zip(_places(made.cells), made.cells.itertuples(), strict=True)
    for place, line in sorted(lines, key=lambda pair: printed[pair[0]]):
        if line.setting == OPEN and place in measured:
            continue  # another run has measured this number
        state = line.setting
        if state == OPEN:
            state = overview.ABSENT if overview.data_by_hand(line) else overview.WAITING
        likely = "" if line.printed == line.likely else f" (likely {line.likely:g})"
        yield (
            Cell(line.paper, order=PAPERS.index(line.paper)),
            Cell(line.table, order=order[line.paper, line.table]),
            Cell(line.row), Cell(line.column), Cell(f"{line.printed:g}{likely}"),
            Cell(line.measured), Cell(line.seeds), Cell(SHORT[state]),
            Cell("" if state in (overview.ABSENT, overview.WAITING) else line.verdict),
            Cell("no run is planned" if line.run == NO_RUN else line.run),
            _notebook(owner[line.paper, line.table], pages),
        )  # fmt: skip


def _places(cells) -> Iterable[tuple]:
    return cells[PLACE].itertuples(index=False, name=None)


def claim_rows(book, pages: Mapping[str, str]) -> Iterable[tuple[Cell, ...]]:
    """A row of CLAIMS per claim of the ledger."""
    kinds = overview.theirs(book)["kind"]
    order = (*PAPERS, ledger.OURS)
    for id, line in book.iterrows():
        yield (
            Cell(line["paper"], order=order.index(line["paper"])),
            Cell(f"{id}: {line['claim']}"), Cell(line["where"]), Cell(str(line["says"])),
            Cell(line["measured"]), Cell(kind(line["verdict"])), Cell(kinds.get(id, "ours")),
            Cell(line["setting"]), _notebook(line["notebook"], pages),
        )  # fmt: skip


def _notebook(number: str, pages: Mapping[str, str]) -> Cell:
    return Cell(number, link=pages.get(number, ""))
