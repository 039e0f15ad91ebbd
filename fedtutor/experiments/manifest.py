"""Manifests: which runs stand for which printed table.

`data/queue.toml` names the runs at the papers' own settings, `data/measured.toml` those that the
notebooks show at smaller ones. Every table of a paper is rows x columns x seeds, with a value, and
estimated minutes and gigabytes on a GPU. `worker.play` plays a run; `tools/Snakefile` plays all.
"""

import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from .. import methods, papers, scenarios
from ..datasets import sources
from ..engine.checkpoints import Checkpoints
from ..engine.files import DATA, shown
from ..engine.kinds import checked
from ..errors import DataError, SettingError, StorageError, choose
from . import recipes, results
from .recipes import Recipe

MANIFEST = DATA / "queue.toml"
FILE = {"seeds": list[int], "table": list[dict]}  # seeds: of each table that names none
TABLE = {"name": str, "paper": str, "recipe": str, "rows": list[dict], "value": float,
         "tables": list[str], "claims": list[str], "profile": str, "scenario": str,
         "instead_of": str, "seeds": list[int], "columns": list[dict], "overrides": dict,
         "last": int, "note": str}  # fmt: skip
ROW = {"row": str, "method": str, "minutes": float, "gb": float, "value": float, "before": bool,
       "overrides": dict}  # fmt: skip
COLUMN = {"column": str, "scenario": str, "overrides": dict, "times": float, "paper": dict}


@dataclass(frozen=True)
class Run:
    """One run of the manifest: a cell (or line) of a paper's table with one seed."""

    table: str  # its name in the manifest
    paper: str
    tables: tuple[str, ...]  # keys of data/published/tables.json
    row: str
    column: str
    recipe: Recipe
    method: str
    seed: int
    value: float
    minutes: float  # on a GPU, alone; an estimate
    gb: float  # on the GPU
    own: dict = field(default_factory=dict)  # what the paper's row and column change
    instead_of: str = ""  # the paper's scenario, where this is another one
    last: int = 1  # so many of the last tested rounds are averaged
    before: bool = False  # the row is the state before round 1
    note: str = ""
    manifest: Path = MANIFEST

    @property
    def name(self) -> str:
        column = f", {self.column}" if self.column else ""
        return f"{self.table}: {self.row}{column}, seed {self.seed}"

    def path(self, folder) -> Path:
        """Where its result lies."""
        return results.result_path(self.recipe, self.method, self.seed, folder=folder)

    def state(self, kept) -> Path:
        """The folder of its checkpoints."""
        return self.path(kept).with_suffix("")

    def played(self, kept) -> int:
        """Rounds in its newest checkpoint."""
        files = Checkpoints(self.state(kept), every=0).files()
        return int(files[-1].stem.partition("-")[2]) if files else 0


# --- the manifest


def load(path: Path = MANIFEST, *, paper: str = "", published: str = "") -> list[Run]:
    """All runs of a manifest, in its order. What two tables share is twice.

    `paper`: those of one paper alone; `published`: those of one of its printed tables.

    Raises `SettingError` for whatever is unknown, missing or of the wrong type.
    """
    path, runs = Path(path), []
    where = shown(path)
    if not path.exists():
        raise SettingError(f"there is no manifest {path.name}", where=where,
                           do=f"check the path; the queue's own is {shown(MANIFEST)}")  # fmt: skip
    content = checked(recipes.read_toml(path), FILE, where)
    seeds = content.get("seeds", [0, 1, 2])
    for number, table in enumerate(content.get("table", []), start=1):
        where = f"{shown(path)}, table {table.get('name', number)!r}"
        table = checked(table, TABLE, where, needed=("name", "paper", "recipe", "rows", "value"))
        table = {"seeds": seeds, **table}
        if table["paper"] != (paper or table["paper"]):
            continue
        if published and published not in table.get("tables", ()):
            continue
        for row in table["rows"]:
            row = checked(row, ROW, where, needed=("row", "method", "minutes", "gb"))
            for column in table.get("columns", [{}]):
                column = checked(column, COLUMN, where)
                runs += _runs(path, table, row, column, f"{where}, row {row['row']!r}")
    return runs


def _runs(path: Path, table: dict, row: dict, column: dict, where: str) -> list[Run]:
    own = {**column.get("overrides", {}), **row.get("overrides", {})}
    try:
        recipe = recipes.load(
            table["recipe"], profile=table.get("profile", "paper"),
            overrides={**table.get("overrides", {}), **own},
            scenario=column.get("scenario", table.get("scenario")),
        )  # fmt: skip
        for name in (recipe.scenario, table.get("instead_of", recipe.scenario)):
            choose(name, scenarios.SCENARIOS, kind="scenario", where=where)
        choose(row["method"], methods.METHODS, kind="method", where=where)
        choose(row["method"], recipe.methods, kind="method of this recipe", where=where)
    except SettingError as error:
        raise SettingError(error.what, where=f"{where}; {error.where}", do=error.do) from None
    _require_published(table, row["row"], column.get("column", ""), where)
    seeds, last = table["seeds"], table.get("last", 1)
    minutes = row["minutes"] * column.get("times", 1.0)
    for what, right, do in (
        (f"seeds = {seeds!r}", seeds and min(seeds) >= 0 and len(set(seeds)) == len(seeds),
         "give different whole numbers"),
        (f"last = {last}", last >= 1, "give how many rounds, from 1"),
        (f"minutes = {minutes}, gb = {row['gb']}", minutes > 0 and row["gb"] > 0,
         "give minutes and gb above 0"),
    ):  # fmt: skip
        if not right:
            raise SettingError(what, where=where, do=do)
    return [Run(
        table=table["name"], paper=table["paper"], tables=tuple(table.get("tables", ())),
        row=row["row"], column=column.get("column", ""), recipe=recipe, method=row["method"],
        seed=seed, value=row.get("value", table["value"]), minutes=minutes, gb=row["gb"],
        own=column.get("paper", {}) | own,
        instead_of=table.get("instead_of", ""), last=last, before=row.get("before", False),
        note=table.get("note", ""), manifest=path,
    ) for seed in seeds]  # fmt: skip


def _require_published(table: dict, row: str, column: str, where: str) -> None:
    """Refuse names that no published table or claim has."""
    if not table.get("tables") and not table.get("claims"):
        raise SettingError("no tables and no claims", where=where,
                           do="name what the runs are compared with")  # fmt: skip
    known = {claim["id"] for claim in papers.claims_of(table["paper"])}
    for claim in table.get("claims", []):
        choose(claim, known, kind="claim", where=where)
    for key in table.get("tables", []):
        printed = papers.published_table(table["paper"], key)
        choose(row, set(printed.attrs["rows"]), kind=f"row of table {key}", where=where)
        papers.columns_of(printed, column)


# --- what is done, and what can be done here


def survey(runs: Sequence[Run], folder) -> tuple[dict, list[str]]:
    """(path -> `Result`, faults in words): what `folder` holds of the runs.

    A file that is cut, altered, foreign, of other settings, or a second one of its run is named and
    skipped: where it lies in the place of a result, that run is open.
    """
    folder, found, faults = Path(folder), {}, []
    expected = {run.path(folder): run for run in runs}
    for place in sorted({Path(run.recipe.name) / run.recipe.profile for run in runs}):
        there = results.load_all(folder / place)
        for path, result in there.items():
            fault = ""
            if isinstance(result, StorageError):
                fault = result.what
            elif folder / (home := results.home_of(result)) != path:
                fault = "duplicate of" if folder / home in there else "foreign: it belongs to"
                fault += f" {home}"
            elif run := expected.get(path):
                if results.recorded(run.recipe, run.method, run.seed, folder=folder) == result:
                    found[path] = result
                else:
                    fault = "of other settings than its recipe has today"
            if fault:
                faults.append(f"{path.relative_to(folder)}: {fault}")
    return found, faults


def absent(run: Run) -> str | None:
    """Why the data of a run are not here; None where they are. No pixel is read."""
    options = run.recipe.options(0)  # every draw needs the same files
    return _absent(run.recipe.scenario, json.dumps(options, sort_keys=True))


@cache
def _absent(name: str, options: str) -> str | None:
    made_here = "rebuilt" in name + options  # that works on pixels
    try:
        with nullcontext() if made_here else sources.without_pixels():
            scenarios.build(name, **json.loads(options))
    except DataError as error:
        return error.what
    return None
