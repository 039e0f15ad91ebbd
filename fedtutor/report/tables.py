"""The report: every printed number beside what was measured.

Nothing is typed here. Printed numbers come from `data/published`; measured ones from the files in
`data/results` that a manifest names (`data/queue.toml` at the papers' settings,
`data/measured.toml` at smaller ones); verdicts from the records in the committed notebooks.
"""

import re
import statistics
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from .. import papers
from ..difference import against_reported
from ..engine.files import DATA, shown
from ..errors import SettingError
from ..experiments import manifest, recipes, results
from ..experiments.manifest import Run
from ..measures import inter, intra
from ..papers import ledger, spread
from ..papers.printed import accuracies, tables

MEASURED = DATA / "measured.toml"
PAPER, STAND_IN, REDUCED, OPEN = "paper", "stand-in", "reduced", "not yet"
SETTINGS = (PAPER, STAND_IN, REDUCED, OPEN)
COLUMNS = {PAPER: "paper's setting", STAND_IN: STAND_IN, REDUCED: REDUCED, OPEN: OPEN}
AGREES, ONE = "agrees", "one seed"  # what `against_reported` may say
NEITHER = "no verdict"  # at other settings or on other data, a number cannot meet a printed one
NO_RUN = "no run is planned"
NOTHING = "nothing (what the paper leaves open is chosen in the recipe)"
PLACE = ["paper", "table", "row", "column"]


@dataclass(frozen=True)
class Block:
    """What one line of a manifest says about a printed table."""

    run: str  # its name there
    setting: str
    seeds: str
    grid: pd.DataFrame  # row by column: printed (a misprint mended); measured, verdict
    differs: str
    command: str  # computes all of it; `Report.table` has the command of each cell


@dataclass(frozen=True)
class Report:
    """Runs of the manifests, and what a folder holds of them."""

    runs: tuple[Run, ...]
    found: dict  # path -> results.Result
    faults: tuple[str, ...]  # files that were skipped, in words: `manifest.survey`
    folder: Path

    @cached_property
    def cells(self) -> pd.DataFrame:
        """One line per printed accuracy and line of a manifest that stands for it.

        A cell that no run stands for has one line, too. `setting`: "paper"; "stand-in", the paper's
        settings on other data; "reduced"; "not yet". `measured` is mean ± standard deviation over
        `seeds`, in percent; `verdict` says what they tell about the printed number, or the likely
        one where a misprint is known (`difference.against_reported`); `command` computes the cell
        anew.
        """
        groups, lines, cells = {}, [], list(accuracies().itertuples(index=False))
        for run in self.runs:
            for key in run.tables:
                place = (run.table, run.row, run.column, run.paper, key)
                groups.setdefault(place, []).append(run)
        for (_, row, column, *place), runs in groups.items():
            columns = papers.columns_of(papers.published_table(*place), column)
            lines += [self._line(cell, runs) for cell in cells if [cell.paper, cell.table] == place
                      and cell.row == row and cell.column in columns]  # fmt: skip
        lines = [line for line in lines if line]
        planned = {tuple(line[name] for name in PLACE) for line in lines}
        return pd.DataFrame(lines + [self._line(c) for c in cells if c[:4] not in planned])

    def _line(self, cell, runs: Sequence[Run] = ()) -> dict | None:
        """A line of `cells`, from runs that differ in the seed alone.

        None where their data do not have the domain of the cell.
        """
        done = {r.seed: self.found[p] for r in runs if (p := r.path(self.folder)) in self.found}
        setting = _setting(runs[0], done.values()) if done else OPEN
        values = [accuracy(result, cell.domain, elsewhere=cell.elsewhere, last=runs[0].last,
                           before=runs[0].before) for result in done.values()]  # fmt: skip
        if None in values:
            return None
        said = {OPEN: OPEN}.get(setting, NEITHER)
        if setting == PAPER:
            said = against_reported(values, cell.likely)
        return {
            "paper": cell.paper, "table": cell.table, "row": cell.row, "column": cell.column,
            "printed": cell.printed, "likely": cell.likely, "setting": setting,
            "values": tuple(values), "measured": spread(values, 1) if values else "",
            "seeds": ", ".join(map(str, done)), "verdict": said,
            "run": runs[0].table if runs else NO_RUN, "machine": machine(done.values()),
            "command": command(runs[0], again=bool(done)) if runs else NO_RUN,
        }  # fmt: skip

    @cached_property
    def best(self) -> pd.DataFrame:
        """The cells with one line each: the setting nearest to the paper's that was measured."""
        ranks = self.cells["setting"].map(SETTINGS.index).sort_values(kind="stable")
        return self.cells.loc[ranks.index].drop_duplicates(PLACE).sort_index()

    def table(self, paper: str, key: str) -> pd.DataFrame:
        """A printed table beside ours: row | column | paper | measured | ... | command."""
        cells = self._of(paper, key)
        cells["paper"] = [f"{c.printed:g}" + f" (likely {c.likely:g})" * (c.printed != c.likely)
                          for c in cells.itertuples()]  # fmt: skip
        columns = ["row", "column", "paper", "measured", "seeds", "verdict", "setting", "run",
                   "machine", "command"]  # fmt: skip
        return cells[columns].reset_index(drop=True)

    def blocks(self, paper: str, key: str) -> list[Block]:
        """A printed table as one grid per line of a manifest; what no run stands for comes last."""
        cells = self._of(paper, key)
        cells["said"] = [f"{c.likely:g}" + (f"; {c.measured}" if c.measured else "")
                         + (f", {c.verdict}" if c.setting == PAPER else "")
                         for c in cells.itertuples()]  # fmt: skip
        differ, blocks = self.differences(paper, key), []
        for (run, setting), lines in cells.groupby(["run", "setting"], sort=False):
            grid = lines.pivot(index="row", columns="column", values="said").fillna("")
            blocks.append(Block(
                run, setting, ", ".join(dict.fromkeys(lines["seeds"])),
                grid.loc[lines["row"].unique(), lines["column"].unique()],
                differ.get(run, "") if setting != OPEN else "",
                re.sub(f'("{re.escape(run)}: )[^"]*', r"\1", lines["command"].iloc[0]),
            ))  # fmt: skip
        return sorted(blocks, key=lambda b: (b.run == NO_RUN, SETTINGS.index(b.setting)))

    def differences(self, paper: str, key: str) -> dict[str, str]:
        """Line of a manifest -> what differs, for all that measured something of this table."""
        papers.published_table(paper, key)  # refuses what nobody printed
        mine = [run for run in self.runs if run.paper == paper and key in run.tables]
        queued = [run for run in mine if run.manifest == manifest.MANIFEST]
        queued.sort(key=lambda run: not run.instead_of)  # the paper's own data count more
        planned, said = {(run.row, run.column, run.method): run for run in queued}, {}
        for run in mine:
            if run.path(self.folder) in self.found:
                parts = differs(run, planned.get((run.row, run.column, run.method), run))
                said.setdefault(run.table, {}).update(dict.fromkeys(parts))
        return {name: "; ".join(parts) or NOTHING for name, parts in said.items()}

    def coverage(self, book: pd.DataFrame) -> pd.DataFrame:
        """One line per printed table: owner, accuracies, how many at each setting, its claims.

        `book` is the ledger of all claims, `papers.claims()`.
        """
        owners, lines = ledger.owners(), []
        settings = dict(list(self.best.groupby(["paper", "table"])["setting"]))
        about = book.explode("tables")
        for paper, key in tables():
            counts = Counter(settings.get((paper, key), ()))
            claims = about[(about["paper"] == paper) & (about["tables"] == key)]
            other = owners["not_accuracy"].get((paper, key), "")
            lines.append({
                "paper": paper, "table": key, "notebook": owners["tables"][paper, key],
                "numbers": counts.total(), **{COLUMNS[s]: counts[s] for s in SETTINGS},
                "its claims": ledger.in_words(claims) or other,
            })  # fmt: skip
        return pd.DataFrame(lines)

    def _of(self, paper: str, key: str) -> pd.DataFrame:
        """The cells of one printed table, a copy; raises `SettingError` where there is none."""
        papers.published_table(paper, key)
        return self.cells[(self.cells["paper"] == paper) & (self.cells["table"] == key)].copy()


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


def _setting(run: Run, done: Collection[results.Result]) -> str:
    if run.recipe.profile != "paper":
        return REDUCED
    return STAND_IN if run.instead_of or any(r.scenario["stand_in"] for r in done) else PAPER


def differs(run: Run, planned: Run) -> list[str]:
    """What a run does otherwise than the paper's profile: its note, and `key ours (paper's)`.

    `planned` is the run of the queue that stands for the same row, or `run` itself.
    """
    parts = [run.note] if run.note else []
    if run.last != planned.last:
        parts.append(f"mean of the last {run.last} tested rounds ({planned.last})")
    scenario = run.instead_of or run.recipe.scenario
    if planned.recipe.profile == "paper" and planned.recipe.scenario == scenario:
        theirs = planned.recipe.values()
    else:
        paper = recipes.load(planned.recipe.name, profile="paper", scenario=scenario)
        own = {k: v for k, v in planned.own.items() if k.startswith(f"{run.method}.")}
        theirs = {**paper.values(), **run.own, **own}
    skipped = {"eval_every", "observe"}  # when we look changes nothing that we see
    if run.recipe.settings.client_epochs and theirs["client_epochs"]:
        skipped.add("local_epochs")  # each client has a number of its own
    values = run.recipe.values()
    if run.method in run.recipe.rates:
        values["lr"] = "the best of five for each method"
    for key, value in values.items():
        owner, _, name = key.rpartition(".")
        others = owner in run.recipe.methods and owner != run.method  # another method's parameter
        if key in theirs and value != theirs[key] and key not in skipped and not others:
            name = name if owner == run.method else key
            parts.append(f"{name} {_text(value)} ({_text(theirs[key])})")
    return parts


def _text(value) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "whole" if value is None else str(value)


def command(run: Run, *, again: bool) -> str:
    """What computes the cell of this run: all its seeds, into a folder of its own if `again`."""
    part = run.name.removesuffix(f" {run.seed}")
    other = "" if run.manifest == manifest.MANIFEST else f" manifest={shown(run.manifest)}"
    aside = " results=build/again" if again else ""
    return f'snakemake -s tools/Snakefile --cores 2 --config only="{part}"{other}{aside}'


def machine(done: Collection[results.Result]) -> str:
    """Devices and commits of results; a + marks code or recipes that differed from the commit."""
    said = []
    for made in (result.environment for result in done):
        git = made.get("git") or {}
        mark = (git.get("commit") or "no commit")[:7] + "+" * bool(git.get("dirty"))
        said.append(f"{made['device']}, torch {made['torch']}, {mark}")
    return "; ".join(dict.fromkeys(said))
