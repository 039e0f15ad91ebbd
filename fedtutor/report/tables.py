"""The report: every printed number beside what was measured, and every claim in one ledger.

    python -m fedtutor report            what is covered, and which files were skipped
    python -m fedtutor report --readme   the same into README.md

Nothing is typed here. Printed numbers come from `data/published`; measured ones from the files in
`data/results` that a manifest names (`data/queue.toml` at the papers' settings,
`data/measured.toml` at smaller ones); verdicts from the records in the committed notebooks. A file
that is not what its place says is named and skipped, as in `manifest.survey`.
"""

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from .. import papers
from ..engine.files import ROOT, shown, write_atomically
from ..errors import SettingError, StorageError
from ..experiments import manifest, recipes, results
from ..experiments.manifest import Run
from ..measures import inter, intra
from ..papers import ledger, spread, verdicts
from ..papers.printed import Cell, accuracies, tables

MEASURED = ROOT / "data" / "measured.toml"
PAPER, STAND_IN, REDUCED, OPEN = "paper", "stand-in", "reduced", "not yet"
SETTINGS = (PAPER, STAND_IN, REDUCED, OPEN)
COLUMNS = {PAPER: "paper's setting", STAND_IN: STAND_IN, REDUCED: REDUCED, OPEN: OPEN}
ABOVE, BELOW, EQUAL, ONE = "above", "below", "not told apart", "one seed"
NEITHER = "no verdict"  # at other settings or on other data, a number cannot meet a printed one
NO_RUN = "no run is planned"
NOTHING = "nothing (what the paper leaves open is chosen in the recipe)"
HIDDEN = {"eval_every", "observe"}  # when we look changes nothing that we see
PLACE = ["paper", "table", "row", "column"]


@dataclass(frozen=True)
class Report:
    """Runs of the manifests, and what a folder holds of them."""

    runs: tuple[Run, ...]
    found: dict  # path -> results.Result
    faults: tuple[str, ...]  # files that were skipped, in words
    folder: Path

    @cached_property
    def cells(self) -> pd.DataFrame:
        """One line per printed accuracy and line of a manifest that stands for it.

        A cell that no run stands for has one line, too. `setting`: "paper"; "stand-in", the paper's
        settings on other data; "reduced"; "not yet". `measured` is mean ± standard deviation over
        `seeds`, in percent; `verdict` the rule of all claims, asked of measured minus printed
        (where a misprint is known, minus the likely number); `command` computes the cell anew.
        """
        groups = {}
        for run in self.runs:
            groups.setdefault((run.table, run.row, run.column), []).append(run)
        lines = [line for runs in groups.values() for key in runs[0].tables
                 for line in _cells(self, runs, key)]  # fmt: skip
        planned = {tuple(line[name] for name in PLACE) for line in lines}
        lines += [_line(paper, key, cell) for paper, key in tables()
                  for cell in accuracies(paper, key)
                  if (paper, key, cell.row, cell.column) not in planned]  # fmt: skip
        return pd.DataFrame(lines)

    @cached_property
    def best(self) -> pd.DataFrame:
        """The cells with one line each: the setting nearest to the paper's that was measured."""
        ranks = self.cells["setting"].map(SETTINGS.index).sort_values(kind="stable")
        return self.cells.loc[ranks.index].drop_duplicates(PLACE).sort_index()

    def table(self, paper: str, key: str) -> pd.DataFrame:
        """A printed table beside ours: row | column | paper | measured | ... | command."""
        cells = self._of(paper, key)
        printed = [f"{p:g}" + (f" (likely {q:g})" if p != q else "")
                   for p, q in zip(cells["printed"], cells["likely"], strict=True)]  # fmt: skip
        columns = ["row", "column", "paper", "measured", "seeds", "verdict", "setting", "run",
                   "machine", "command"]  # fmt: skip
        return cells.assign(paper=printed)[columns].reset_index(drop=True)

    def blocks(self, paper: str, key: str) -> list["Block"]:
        """A printed table as one grid per line of a manifest; what no run stands for comes last."""
        cells = self._of(paper, key)
        said = [f"{c.likely:g}" + (f"; {c.measured}" if c.measured else "")
                + (f", {c.verdict}" if c.setting == PAPER else "")
                for c in cells.itertuples()]  # fmt: skip
        differ, blocks = dict(self.differences(paper, key)), []
        for (run, setting), lines in cells.assign(said=said).groupby(
            ["run", "setting"], sort=False
        ):
            grid = lines.pivot(index="row", columns="column", values="said").fillna("")
            whole = f'--only "{run}: "'
            blocks.append(Block(
                run, setting, ", ".join(dict.fromkeys(lines["seeds"])),
                grid.loc[lines["row"].unique(), lines["column"].unique()],
                differ.get(run, "") if setting != OPEN else "",
                re.sub(rf"{re.escape(whole[:-1])}.*?\"", whole, lines["command"].iloc[0]),
            ))  # fmt: skip
        return sorted(blocks, key=lambda b: (b.run == NO_RUN, SETTINGS.index(b.setting)))

    def differences(self, paper: str, key: str) -> list[tuple[str, str]]:
        """(line of a manifest, what differs) for all that measured something of this table."""
        mine = [run for run in self.runs if run.paper == paper and key in run.tables]
        queued = [run for run in mine if run.manifest == manifest.MANIFEST]
        queued.sort(key=lambda run: not run.instead_of)  # the paper's own data count more
        planned = {(run.row, run.column, run.method): run for run in queued}
        said = {}
        for run in mine:
            if run.path(self.folder) in self.found:
                parts = differs(run, planned.get((run.row, run.column, run.method)))
                said.setdefault(run.table, {}).update(dict.fromkeys(parts))
        return [(name, "; ".join(parts) or NOTHING) for name, parts in said.items()]

    def _of(self, paper: str, key: str) -> pd.DataFrame:
        """The cells of one printed table; raises `SettingError` where there is none."""
        papers.published_table(paper, key)
        return self.cells[(self.cells["paper"] == paper) & (self.cells["table"] == key)]

    def coverage(self, book: pd.DataFrame) -> pd.DataFrame:
        """One line per printed table: owner, accuracies, how many at each setting, its claims.

        `book` is the ledger of all claims, `papers.claims()`.
        """
        owners, lines = ledger.owners(), []
        for paper, key in tables():
            mine = self.best[(self.best["paper"] == paper) & (self.best["table"] == key)]
            counts = mine["setting"].value_counts()
            about = book[[p == paper and key in t
                          for p, t in zip(book["paper"], book["tables"], strict=True)]]  # fmt: skip
            lines.append({
                "paper": paper, "table": key, "notebook": owners["tables"][paper, key],
                "numbers": len(mine), **{COLUMNS[s]: int(counts.get(s, 0)) for s in SETTINGS},
                "its claims": ledger.in_words(about)
                or owners["not_accuracy"].get((paper, key), ""),
            })  # fmt: skip
        return pd.DataFrame(lines)


@dataclass(frozen=True)
class Block:
    """What one line of a manifest says about a printed table."""

    run: str  # its name there
    setting: str
    seeds: str
    grid: pd.DataFrame  # row by column: printed (a misprint mended); measured, verdict
    differs: str
    command: str  # computes all of it; `Report.table` has the command of each cell


def build(folder=results.RESULTS, manifests: Sequence[Path] = (manifest.MANIFEST, MEASURED)):
    """The `Report` of a folder of results; raises `SettingError` where there is no such folder."""
    if not Path(folder).is_dir():
        raise SettingError("there is no folder of results", where=shown(folder),
                           do="check the path after --results")  # fmt: skip
    runs = tuple(run for path in manifests for run in manifest.load(path))
    found, faults = manifest.survey(runs, folder)
    return Report(runs, found, tuple(dict.fromkeys(faults)), Path(folder))


# --- cells


def accuracy(result: results.Result, domain: str = "", *, elsewhere: bool = False, last: int = 1,
             before: bool = False) -> float | None:  # fmt: skip
    """Mean accuracy of the clients of a domain (of all, if none is named), in percent.

    On their own tests or `elsewhere`, over the `last` tested rounds, or `before` round 1. None:
    this was not measured.
    """
    history = result.history
    own = [history["tests"].index(name) for name in history["domains"]]
    chosen = [i for i, name in enumerate(history["domains"]) if domain in ("", name)]
    ends = [e["matrix"] for e in history["accuracy"] if e["moment"] == "end"
            and (e["round"] == 0) == before][-last:]  # fmt: skip
    found = [(inter if elsewhere else intra)(matrix, own) for matrix in ends]
    if not chosen or not found or None in found:
        return None
    return 100 * statistics.fmean(row[i] for row in found for i in chosen)


def _cells(report: Report, runs: Sequence[Run], key: str) -> list[dict]:
    """The lines of one row and column of a manifest, whose runs differ in the seed alone."""
    run, lines = runs[0], []
    there = {r.seed: report.found[p] for r in runs if (p := r.path(report.folder)) in report.found}
    done = list(there.values())
    about = {"seeds": ", ".join(map(str, there)), "run": run.table, "machine": machine(done),
             "command": command(run, again=bool(done))}  # fmt: skip
    columns = papers.columns_of(papers.published_table(run.paper, key), run.column)
    for cell in accuracies(run.paper, key):
        if cell.row == run.row and cell.column in columns:
            options = {"elsewhere": cell.elsewhere, "last": run.last, "before": run.before}
            values = [accuracy(result, cell.domain, **options) for result in done]
            if None not in values:  # else it is a domain that these data do not have
                lines.append(_line(run.paper, key, cell, _setting(run, done), values, **about))
    return lines


def _line(paper: str, key: str, cell: Cell, setting: str = OPEN, values: Sequence[float] = (),
          seeds: str = "", run: str = NO_RUN, machine: str = "",
          command: str = NO_RUN) -> dict:  # fmt: skip
    """A line of `Report.cells`."""
    said = beside(values, cell.likely) if setting == PAPER else OPEN if setting == OPEN else NEITHER
    return {
        "paper": paper, "table": key, "row": cell.row, "column": cell.column,
        "printed": cell.printed, "likely": cell.likely, "setting": setting,
        "values": tuple(values), "measured": spread(values, 1) if values else "", "seeds": seeds,
        "verdict": said, "run": run, "machine": machine, "command": command,
    }  # fmt: skip


def _setting(run: Run, done: Sequence[results.Result]) -> str:
    if not done:
        return OPEN
    if run.recipe.profile != "paper":
        return REDUCED
    return STAND_IN if run.instead_of or any(r.scenario["stand_in"] for r in done) else PAPER


def beside(values: Sequence[float], printed: float) -> str:
    """Whether measured values lie above or below a printed one, by the rule of all claims."""
    if len(values) < 2:
        return ONE
    said = verdicts.verdict([value - printed for value in values], +1)
    return {verdicts.HOLDS: ABOVE, verdicts.FAILS: BELOW}.get(said, EQUAL)


def differs(run: Run, planned: Run | None = None) -> list[str]:
    """What a run does otherwise than the paper's profile: its note, and `key ours (paper's)`.

    `planned` is the run of the queue that stands for the same row, if there is one.
    """
    parts = [run.note] if run.note else []
    scenario = run.instead_of or run.recipe.scenario
    model = planned or run
    if model.recipe.profile == "paper" and model.recipe.scenario == scenario:
        theirs = model.recipe.values()
    else:
        paper = recipes.load(model.recipe.name, profile="paper", scenario=scenario)
        own = {k: v for k, v in model.own.items() if k.startswith(f"{run.method}.")}
        theirs = {**paper.values(), **run.own, **own}
    ours = run.recipe.values()
    for key, value in ours.items():
        if key in theirs and value != theirs[key] and _matters(key, run, theirs):
            owned = key.partition(".")[0] == run.method
            name = key.partition(".")[2] if owned else key
            parts.append(f"{name} {_text(value)} ({_text(theirs[key])})")
    return parts


def _matters(key: str, run: Run, theirs: dict) -> bool:
    owner = key.partition(".")[0]
    if owner in run.recipe.methods and owner not in (key, run.method):
        return False  # a parameter of another method
    per_client = run.recipe.settings.client_epochs and theirs["client_epochs"]
    return key not in HIDDEN and not (key == "local_epochs" and per_client)


def _text(value) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "whole" if value is None else str(value)


def command(run: Run, *, again: bool) -> str:
    """What computes the cell of this run: all its seeds, into a folder of its own if `again`."""
    part = run.name.removesuffix(f" {run.seed}")
    words = ["python -m fedtutor queue run", f'--only "{part}"']
    if run.manifest != manifest.MANIFEST:
        words.append(f"--manifest {shown(run.manifest)}")
    return " ".join([*words, *(["--results build/again"] if again else [])])


def machine(done: Sequence[results.Result]) -> str:
    """Devices and commits of results; a + marks code or recipes that differed from the commit."""
    said = []
    for r in done:
        git = r.environment.get("git") or {}
        mark = f"{(git.get('commit') or 'no commit')[:7]}{'+' if git.get('dirty') else ''}"
        said.append(f"{r.environment['device']}, torch {r.environment['torch']}, {mark}")
    return "; ".join(dict.fromkeys(said))


# --- README

BEGIN, END = "<!-- made by: python -m fedtutor report --readme -->", "<!-- end of what is made -->"


def readme_part(report: Report, book: pd.DataFrame) -> str:
    """Markdown: a line per paper, and all accuracies at a paper's own settings and data."""
    coverage = report.coverage(book).groupby("paper", sort=False)
    sums = coverage[["numbers", *COLUMNS.values()]].sum()
    sums.insert(0, "tables", coverage.size())
    lines = [*_markdown(sums), "", *_markdown(ledger.counts(book))]
    for paper, key in tables():
        for block in report.blocks(paper, key):
            if block.setting == PAPER:
                about = f"{paper}, Table {key} (*{block.run}*, seeds {block.seeds})"
                lines += ["", f"{about}, printed; measured in %:", "", *_markdown(block.grid), "",
                          f"Differs from the paper in: {block.differs}."]  # fmt: skip
    return "\n".join(lines)


def _markdown(frame: pd.DataFrame) -> list[str]:
    rows = [
        ["", *frame.columns],
        ["---"] * (1 + len(frame.columns)),
        *([name, *line] for name, line in zip(frame.index, frame.values, strict=True)),
    ]
    return [f"| {' | '.join(map(str, row))} |" for row in rows]


def with_part(text: str, part: str, *, begin: str = BEGIN) -> str:
    """README.md's `text` with `part` between the marks `begin` and END."""
    before, found, rest = text.partition(begin)
    after = rest.partition(END)[2]
    if not found or not after:
        raise StorageError("README.md has no place for the report", where="README.md",
                           do=f"put {begin} and {END} on lines of their own")  # fmt: skip
    return f"{before}{begin}\n\n{part}\n\n{END}{after}"


def update_readme(path: Path = ROOT / "README.md") -> bool:
    """Make the part of README.md anew; return whether it changed."""
    text = path.read_text(encoding="utf-8")
    new = with_part(text, readme_part(build(), papers.claims()))
    if new != text:
        write_atomically(path, lambda name: Path(name).write_text(new, encoding="utf-8"))
    return new != text
