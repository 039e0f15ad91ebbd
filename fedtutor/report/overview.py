"""The report on one screen: the state of every printed number, and what notebook 08 folds."""

import math
import statistics
from collections import Counter
from collections.abc import Mapping
from html import escape

import pandas as pd

from .. import papers
from ..difference import NO_DIFFERENCE, TOO_CLOSE
from ..engine.files import load_json
from ..experiments import manifest
from ..papers import ledger
from ..papers.cards import scoped_table
from ..papers.printed import PAPERS, claims_of, tables
from ..papers.verdicts import (
    AHEAD,
    BEHIND,
    FAILS,
    HOLDS,
    NO_VERDICT,
    NOT_TESTABLE,
    kind,
    records_in,
)
from .tables import AGREES, COLUMNS, NO_RUN, OPEN, PAPER, PLACE, REDUCED, STAND_IN, Block, Report

ABSENT, WAITING = "data absent", "not yet measured"
STATES = {  # what each means, in words
    PAPER: "measured with the paper's settings and data",
    STAND_IN: "measured with the paper's settings on other data",
    REDUCED: "measured in a smaller setting",
    WAITING: WAITING,
    ABSENT: "data absent: a reader must get them by hand",
}
NAMES = {PAPER: COLUMNS[PAPER], STAND_IN: STAND_IN, REDUCED: REDUCED, WAITING: WAITING,
         ABSENT: ABSENT}  # fmt: skip
LEGEND = {  # the picture's, which begins with the name of the state
    PAPER: f"{NAMES[PAPER]}: the paper's settings and images",
    STAND_IN: f"{STAND_IN}: the paper's settings, other images",
    REDUCED: f"{REDUCED}: a smaller setting, often other images",
    WAITING: WAITING,
    ABSENT: f"{ABSENT}: a reader must get the images by hand",
}
BY_HAND = {  # a data set that this program cannot download -> its names in print
    "office_home": ("Office-Home",), "office31": ("Office31",), "femnist": ("FEMNIST",),
    "office_caltech10": ("Office Caltech", "Office-Caltech-10"), "retina": ("RETINA",),
}  # fmt: skip
AS_CLAIMED, OTHERWISE = "as the paper says", "otherwise"
SIDES = (AS_CLAIMED, OTHERWISE, NO_DIFFERENCE, TOO_CLOSE, NO_VERDICT, "cannot be tested here")
OTHERS = ("Digits", "MNIST", "CIFAR", "DIGITS")  # what columns name besides


def numbers(made: Report) -> pd.DataFrame:
    """A line per printed accuracy: `Report.best` with its `state`, one of STATES.

    "data absent" is said of a number that was not measured, if a reader must get its images by
    hand, and of no other: a stand-in's number has a state of its own. It is the same on every
    machine, whatever data are there.
    """
    found = made.best.copy()
    found["state"] = [
        line.setting if line.setting != OPEN else ABSENT if data_by_hand(line) else WAITING
        for line in found.itertuples()
    ]
    return found


def data_by_hand(line) -> str:
    """The name of a data set that a reader must get by hand for a printed number; else "".

    A column that names its data decides; otherwise the table's caption does.
    """
    every = [name for names in BY_HAND.values() for name in names]
    caption = papers.published_table(line.paper, line.table).attrs["caption"]
    told = any(name in line.column for name in (*every, *OTHERS))
    text = line.column if told else caption
    return next((name for name in every if name in text), "")


def tiles(found: pd.DataFrame) -> dict[str, dict[str, list[list[str | None]]]]:
    """For `figures.tiles`: paper -> table -> rows of LEGEND's texts, in the paper's order."""
    groups, lines = {}, dict(list(found.groupby(["paper", "table"])))
    for paper, key in tables():
        if (paper, key) not in lines:
            continue
        cells = lines[paper, key]
        grid = cells.pivot(index="row", columns="column", values="state")
        printed = papers.published_table(paper, key)
        columns = [name for name in printed.columns if name in grid.columns]
        grid = grid.reindex(index=[name for name in dict.fromkeys(printed.attrs["rows"])
                                   if name in grid.index], columns=columns)  # fmt: skip
        rows = [[LEGEND.get(state) for state in row] for row in grid.to_numpy()]
        groups.setdefault(paper, {})[key] = rows
    return {paper: groups[paper] for paper in PAPERS if paper in groups}


def counted(found: pd.DataFrame) -> dict[str, int]:
    """State -> how many numbers have it, all of them named."""
    counts = Counter(found["state"])
    return {state: counts[state] for state in STATES}


def by_state(found: pd.DataFrame) -> pd.DataFrame:
    """Paper by the name of a state: how many numbers."""
    seen = pd.crosstab(found["paper"], found["state"])
    order = [paper for paper in PAPERS if paper in seen.index]
    seen = seen.reindex(index=order, columns=list(STATES), fill_value=0)
    return seen.rename(columns=NAMES).rename_axis(index=None, columns=None)


def places(found: pd.DataFrame, titles: Mapping[str, str]) -> pd.DataFrame:
    """Paper | notebook | tables: where the tables with accuracies are looked at.

    titles: number of a notebook -> its file's name; a cell is Markdown with a link.
    """
    owner, lines = ledger.owners()["tables"], {}
    there = set(zip(found["paper"], found["table"], strict=True))
    for paper, key in [place for place in tables() if place in there]:
        lines.setdefault((paper, owner[paper, key]), []).append(key)
    order = sorted(lines, key=lambda place: (PAPERS.index(place[0]), place[1]))
    return pd.DataFrame(
        [{"paper": paper, "notebook": f"[{number}]({titles[number]})",
          "tables": ", ".join(lines[paper, number])} for paper, number in order]
    )  # fmt: skip


def notebooks() -> dict[str, str]:
    """Number of a notebook -> the name of its file: "01b" -> "01b_fccl_tables.ipynb"."""
    return {path.stem.partition("_")[0]: path.name
            for path in sorted(ledger.NOTEBOOKS.glob("[0-9][0-9]*.ipynb"))}  # fmt: skip


# --- claims


def theirs(book: pd.DataFrame) -> pd.DataFrame:
    """The papers' claims without ours, each with its `kind` and its `side`, one of SIDES.

    kind: what it is about, such as "ranking" or "cost".
    """
    kinds = {claim["id"]: claim["kind"] for paper in PAPERS for claim in claims_of(paper)}
    found = book[book["paper"] != ledger.OURS]
    sides = [side(*line) for line in zip(found["verdict"], found["claimed"], strict=True)]
    return found.assign(kind=[kinds[id] for id in found.index], side=sides)


def side(verdict: str, claimed: int) -> str:
    """One of SIDES.

    A claim of no difference (`claimed` 0) is met by none that matters: "ahead by less than a point"
    meets it, too.
    """
    said = kind(verdict)
    if said in (NOT_TESTABLE, ledger.OPEN):
        return SIDES[-1]
    if said == NO_DIFFERENCE:
        return NO_DIFFERENCE if claimed else AS_CLAIMED
    if said in (AHEAD, BEHIND):
        met = said == AHEAD if claimed else verdict != said
        return AS_CLAIMED if met else OTHERWISE
    return {HOLDS: AS_CLAIMED, FAILS: OTHERWISE}.get(said, said)


def by_kind(book: pd.DataFrame) -> pd.DataFrame:
    """Kind of claim by side: how many; most of the first side first."""
    found = theirs(book)
    seen = pd.crosstab(found["kind"], found["side"]).reindex(columns=list(SIDES), fill_value=0)
    order = (seen.iloc[:, 0] / seen.sum(axis=1)).sort_values(ascending=False, kind="stable")
    return seen.loc[order.index].rename_axis(index=None, columns=None)


def headlines(book: pd.DataFrame) -> pd.DataFrame:
    """Of each paper the first claim of a ranking: what it says, and what was found.

    Columns: id, claim, verdict, size, measured on (the scenario), measured (the card's sentence
    where there is one).
    """
    firsts = {paper: next(c["id"] for c in claims_of(paper) if c["kind"] == "ranking")
              for paper in PAPERS}  # fmt: skip
    names, lines = notebooks(), {}
    for paper, id in firsts.items():
        line = book.loc[id]
        records = records_in(load_json(ledger.NOTEBOOKS / names[line["notebook"]]))
        said = next((r.get("sentence") for r in records if r["id"] == id), "")
        lines[paper] = {"id": id, "its claim of being best": line["claim"],
                        "verdict": kind(line["verdict"]), "size": line["size"],
                        "measured on": line["setting"].partition(" · ")[0],
                        "measured": said or line["measured"]}  # fmt: skip
    return pd.DataFrame.from_dict(lines, orient="index")


# --- at the papers' own settings


def met(made: Report) -> pd.DataFrame:
    """What was measured with a paper's settings and data: a line per printed number and run."""
    columns = ["paper", "table", "run", "row", "column", "printed", "measured", "seeds", "verdict",
               "machine"]  # fmt: skip
    return made.cells.loc[made.cells["setting"] == PAPER, columns].reset_index(drop=True)


def agreed(lines: pd.DataFrame, said: str = AGREES) -> tuple[int, int]:
    """How many printed numbers of `met` have a verdict in a line of theirs, and in all."""
    same = (lines["verdict"] == said).groupby([lines[name] for name in PLACE])
    return int(same.any().sum()), int(same.all().sum())


def lead(made: Report, run: str, column: str, own: str, rival: str) -> list[float]:
    """By how many points the row `own` of a run is ahead of the row `rival`: one per seed."""
    cells = made.cells[(made.cells["run"] == run) & (made.cells["column"] == column)]
    values = cells.set_index("row")["values"]
    return [mine - other for mine, other in zip(values[own], values[rival], strict=True)]


def gaps(made: Report, paper: str, group: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Measured minus printed, in points: mean and standard deviation over seeds, row by column.

    group: what the names of the columns begin with, "MNIST" of "MNIST N=2". A run whose name ends
    in "author's code" has rows of its own, and the others of that name say "as printed". A run of
    single columns is left out.
    """
    cells = made.cells[(made.cells["setting"] == PAPER) & (made.cells["paper"] == paper)]
    cells = cells[cells["column"].str.startswith(group)]
    width = cells.groupby("run")["column"].transform("nunique")
    cells = cells[width == cells["column"].nunique()]
    code = cells["run"].str.endswith("author's code")
    twice = cells["row"].isin(cells.loc[code, "row"])
    reading = [", author's code" if own else ", as printed" if two else ""
               for own, two in zip(code, twice, strict=True)]  # fmt: skip
    less = [statistics.fmean(values) - likely
            for values, likely in zip(cells["values"], cells["likely"], strict=True)]  # fmt: skip
    spread = [statistics.stdev(values) if len(values) > 1 else math.nan
              for values in cells["values"]]  # fmt: skip
    grid = cells.assign(row=cells["row"] + reading, less=less, spread=spread)
    order = grid["row"].unique(), grid["column"].unique()
    mean, sd = (grid.pivot(index="row", columns="column", values=name).loc[order]
                for name in ("less", "spread"))  # fmt: skip
    return mean, sd


# --- what is open


def queued(made: Report) -> list[manifest.Run]:
    """The queue's open runs; what two tables share is twice."""
    return [run for run in made.runs if run.manifest == manifest.MANIFEST
            and run.path(made.folder) not in made.found]  # fmt: skip


def largest(made: Report, paper: str) -> dict[str, str | int]:
    """The printed table with most open runs of a paper: table, runs, rows, settings, seeds."""
    lines = pd.DataFrame(
        [(key, run.path(made.folder), run.row, (run.table, run.column), run.seed)
         for run in queued(made) if run.paper == paper for key in run.tables],
        columns=["table", "runs", "rows", "settings", "seeds"],
    )  # fmt: skip
    counts = lines.groupby("table", sort=False).nunique()
    table = counts["runs"].idxmax()
    return {"table": table, **counts.loc[table].to_dict()}


def planned(made: Report) -> pd.DataFrame:
    """The queue's open runs by paper: how many, and the hours of a GPU that are estimated."""
    lines = pd.DataFrame([(run.paper, run.path(made.folder), run.minutes) for run in queued(made)],
                         columns=["paper", "path", "minutes"])  # fmt: skip
    lines = lines.drop_duplicates("path").groupby("paper", sort=False)["minutes"]
    told = lines.agg(["count", "sum"])
    told["sum"] = (told["sum"] / 60).round().astype(int)
    names = {"count": "open runs in the queue", "sum": "hours of a GPU, estimated"}
    return told.rename(columns=names).rename_axis(None)


# --- folds


def whole(frame: pd.DataFrame) -> str:
    """A DataFrame as HTML with heads for screen readers; no text is cut."""
    with pd.option_context("display.max_colwidth", None):
        return scoped_table(frame)


def folded_tables(made: Report, book: pd.DataFrame) -> str:
    """A fold per paper, and in it one per table: ours beside the print, what differs, commands."""
    coverage = made.coverage(book).set_index(["paper", "table"])
    states = {place: Counter(lines) for place, lines
              in numbers(made).groupby(["paper", "table"])["state"]}  # fmt: skip
    parts = []
    for paper in PAPERS:
        keys = [key for name, key in tables() if name == paper]
        inner = [_table(made, coverage.loc[paper, key], states.get((paper, key), Counter()), paper,
                        key) for key in keys]  # fmt: skip
        about = sum((states.get((paper, key), Counter()) for key in keys), Counter())
        shown = sum((paper, key) in states for key in keys)
        rest = f" and {len(keys) - shown} without accuracies" if shown < len(keys) else ""
        tables_of = f"{shown} table{'s' * (shown != 1)}{rest}"
        parts.append(f"<details><summary>{paper}: {tables_of}; {_told(about)}</summary>"
                     f"{''.join(inner)}</details>")  # fmt: skip
    return "\n".join(parts)


def _told(states: Counter) -> str:
    return ", ".join(f"{states[name]} {NAMES[name]}" for name in STATES if states[name])


def _table(made: Report, line: pd.Series, states: Counter, paper: str, key: str) -> str:
    caption = papers.published_table(paper, key).attrs["caption"]
    parts = [f"<p>{escape(caption)}</p><p>Claims: {escape(line['its claims'] or 'none')}.</p>"]
    for block in made.blocks(paper, key):
        seeds = f", seeds {block.seeds}" if block.seeds else ""
        about = _state(made, block, paper, key)
        parts.append(f"<p><b>{escape(block.run)}</b> ({about}{seeds})</p>")
        parts.append(whole(block.grid.rename_axis(index=None, columns=None)))
        parts += [f"<p>Differs in: {escape(block.differs)}</p>"] if block.differs else []
        parts += [f"<p><code>{escape(block.command)}</code></p>"] if block.run != NO_RUN else []
    about = f"{paper}, {key} (notebook {line['notebook']}): {_told(states) or 'no accuracy in it'}"
    return f"<details><summary>{escape(about)}</summary>{''.join(parts)}</details>"


def _state(made: Report, block: Block, paper: str, key: str) -> str:
    """The state of a block; "open" where a run is planned, and whether data must be got by hand."""
    if block.setting != OPEN:
        return NAMES[block.setting]
    cells = made.cells[(made.cells["paper"] == paper) & (made.cells["table"] == key)]
    cells = cells[(cells["run"] == block.run) & (cells["setting"] == OPEN)]
    absent = [bool(data_by_hand(line)) for line in cells.itertuples()]
    if block.run != NO_RUN:  # other data than the paper's are not those of the printed number
        other = any(run.instead_of for run in made.runs if run.table == block.run)
        return f"open, {ABSENT}" if all(absent) and not other else "open"
    return " or ".join([WAITING] * (not all(absent)) + [ABSENT] * any(absent))


def folded_claims(book: pd.DataFrame) -> str:
    """The ledger, a fold per paper: claim, where, what the paper says, measured, verdict."""
    parts = []
    for name, lines in book.groupby("paper", sort=False):
        found = ["measured", "verdict", "needed", "because", "size", "at", "setting", "notebook"]
        shown = lines[["claim", "where", "says", *found]].astype({"needed": "string"}).fillna("")
        whose = "our own, counted nowhere above" if name == ledger.OURS else name
        about = f"{whose}: {len(lines)} claims, {ledger.in_words(lines)}"
        parts.append(f"<details><summary>{escape(about)}</summary>{whole(shown)}</details>")
    return "\n".join(parts)
