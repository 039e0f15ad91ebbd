"""The paper queue: all runs at the papers' own settings, and one command that works through them.

    python -m fedtutor queue                   what is done, what is open, what cannot be run here
    python -m fedtutor queue pack OUT          the images that the next runs need, to carry along
    python -m fedtutor queue run --minutes 9   the most valuable open runs, until the time is up
    python -m fedtutor queue attacks           notebook 06's longer attacks (attack_list.py)

`data/queue.toml` names the runs: every table of a paper is rows x columns x seeds, with a value,
and minutes and gigabytes on a GPU: estimates until something was measured. Minutes of a CPU core
come from two rounds made small (tests/bench_queue.py). Here is what it says and what is open;
`worker.py` plays runs, `packing.py` packs images. Nothing imports a notebook: for these runs torch,
torchvision and pandas, with what they bring along (numpy, Pillow, filelock), are enough; SVHN's own
.mat files need SciPy, too. The attacks are another matter: they need scikit-learn, SciPy and
scikit-image, and opacus where a client trains by DP-SGD.
"""

import json
import statistics
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import pandas as pd

from .. import methods, papers, scenarios
from ..datasets import sources
from ..engine.checkpoints import Checkpoints
from ..engine.files import ROOT, load_json, once_per_version, shown
from ..errors import DataError, SettingError, StorageError, choose
from . import recipes, results, stale
from .environment import environment
from .recipes import Recipe

MANIFEST = ROOT / "data" / "queue.toml"
TIMED = ROOT / "data" / "speed" / "queue.json"  # cell -> minutes of a CPU core
FILE = {"seeds": list[int], "table": list[dict]}  # seeds: of each table that names none
TABLE = {"name": str, "paper": str, "recipe": str, "rows": list[dict], "value": float,
         "tables": list[str], "claims": list[str], "profile": str, "scenario": str,
         "instead_of": str, "seeds": list[int], "columns": list[dict], "overrides": dict,
         "last": int, "note": str}  # fmt: skip
ROW = {"row": str, "method": str, "minutes": float, "gb": float, "first": float, "parts": int,
       "value": float, "before": bool, "overrides": dict}  # fmt: skip
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
    minutes: float  # on a GPU, alone; an estimate until a result of another seed is there
    gb: float  # on the GPU
    first: float  # minutes until round 1 begins, such as pretraining; part of `minutes`
    parts: int  # pieces of `first` that are kept one by one, so that it may be interrupted
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

    @property
    def cell(self) -> Path:
        """Equal for runs that differ in nothing but the seed."""
        return results.result_path(self.recipe, self.method, 0, folder="")

    @property
    def core(self) -> float | None:
        """Minutes of one CPU core; None where tests/bench_queue.py has not timed it."""
        return timed(TIMED).get(self.cell.as_posix()) if TIMED.exists() else None

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

    def on_a_core(self) -> "Run":
        """Itself with the minutes of one CPU core, where they are known, in place of a GPU's."""
        minutes = self.core or self.minutes
        return replace(self, minutes=minutes, first=self.first * minutes / self.minutes)

    def round_minutes(self) -> float:
        return (self.minutes - self.first) / self.recipe.settings.rounds

    def needs(self, kept) -> float:
        """Minutes without which it is not worth starting: to the end of its next round or part."""
        return (0 if self.played(kept) else self.first / self.parts) + self.round_minutes()

    def left(self, kept) -> float:
        """Minutes until it is done."""
        played = self.played(kept)
        return self.minutes - (self.first + played * self.round_minutes() if played else 0)


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
    content = recipes.checked(recipes.read_toml(path), FILE, (), where)
    seeds = content.get("seeds", [0, 1, 2])
    for number, table in enumerate(content.get("table", []), start=1):
        where = f"{shown(path)}, table {table.get('name', number)!r}"
        table = recipes.checked(table, TABLE, ("name", "paper", "recipe", "rows", "value"), where)
        table = {"seeds": seeds, **table}
        if table["paper"] != (paper or table["paper"]):
            continue
        if published and published not in table.get("tables", ()):
            continue
        for row in table["rows"]:
            row = recipes.checked(row, ROW, ("row", "method", "minutes", "gb"), where)
            for column in table.get("columns", [{}]):
                column = recipes.checked(column, COLUMN, (), where)
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
    seeds, last, parts = table["seeds"], table.get("last", 1), row.get("parts", 1)
    minutes, first = row["minutes"] * column.get("times", 1.0), row.get("first", 0.0)
    for what, right, do in (
        (f"seeds = {seeds!r}", seeds and min(seeds) >= 0 and len(set(seeds)) == len(seeds),
         "give different whole numbers"),
        (f"last = {last}", last >= 1, "give how many rounds, from 1"),
        (f"parts = {parts}", parts >= 1, "give at least 1"),
        (f"minutes = {minutes}, first = {first}, gb = {row['gb']}",
         0 <= first < minutes and row["gb"] > 0,
         "give minutes above first, first from 0, gb above 0"),
    ):  # fmt: skip
        if not right:
            raise SettingError(what, where=where, do=do)
    return [Run(
        table=table["name"], paper=table["paper"], tables=tuple(table.get("tables", ())),
        row=row["row"], column=column.get("column", ""), recipe=recipe, method=row["method"],
        seed=seed, value=row.get("value", table["value"]), minutes=minutes, gb=row["gb"],
        first=first, parts=parts, own=column.get("paper", {}) | own,
        instead_of=table.get("instead_of", ""), last=last, before=row.get("before", False),
        note=table.get("note", ""), manifest=path,
    ) for seed in seeds]  # fmt: skip


@once_per_version
def timed(path: Path) -> dict[str, float]:
    """Minutes of one CPU core of what tests/bench_queue.py has timed, by cell."""
    return {cell: run["minutes"] for cell, run in load_json(path)["runs"].items()}


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
    skipped: where it lies in the place of a result, that run is open. What other code recorded is
    found, too; `valid` leaves it out.
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
                options = {"folder": folder, "warn": False}
                if results.recorded(run.recipe, run.method, run.seed, **options) == result:
                    found[path] = result
                else:
                    fault = "of other settings than its recipe has today"
            if fault:
                faults.append(f"{path.relative_to(folder)}: {fault}")
    return found, faults


def valid(found: dict[Path, results.Result]) -> dict[Path, results.Result]:
    """Those of `found` that need not be played again: their code is that of today, or unknown."""
    return {path: result for path, result in found.items() if not stale.is_stale(result)}


def measured(runs: Sequence[Run], found: dict[Path, results.Result], device: str) -> list[Run]:
    """The runs, estimates replaced where a result from such a GPU is there for another seed.

    A result of a CPU replaces nothing: its seconds are a clock's, beside whatever else ran there.
    """
    here, seen = environment(device)["device"], {}
    for path, result in found.items():
        if result.environment["device"] == here and not here.startswith("CPU"):
            name = path.name.replace(f"-seed{result.seed}", "-seed0")
            place = (result.recipe, result.profile, result.scenario["name"], name)
            seen.setdefault(Path(*place), []).append(result.totals)
    changed = []
    for run in runs:
        if totals := seen.get(run.cell):
            minutes = run.first + statistics.fmean(t["seconds"] for t in totals) / 60
            peaks = [t["peak_memory"] for t in totals if t["peak_memory"]]
            gb = max(peaks) / 1e9 if peaks else run.gb
            run = replace(run, minutes=minutes, gb=gb)
        changed.append(run)
    return changed


def in_order(runs: Sequence[Run], kept) -> list[Run]:
    """Each run once: most valuable first, then what was begun, then by seed."""
    once = {}
    for run in sorted(runs, key=lambda r: (-r.value, r.seed)):  # else as in the manifest
        once.setdefault(run.path(""), run)
    return sorted(once.values(), key=lambda r: (-r.value, not r.played(kept), r.seed))


def absent(run: Run) -> str | None:
    """Why the data of a run are not here; None where they are. No pixel is read."""
    return _absent(run.recipe.scenario, json.dumps(run.recipe.scenario_options, sort_keys=True))


@cache
def _absent(name: str, options: str) -> str | None:
    made_here = "rebuilt" in name + options  # that works on pixels
    try:
        with nullcontext() if made_here else sources.noted():
            scenarios.build(name, **json.loads(options))
    except DataError as error:
        return error.what
    return None


def overview(runs: Sequence[Run], found: dict, folder, kept) -> str:
    """A table: one line per row and column of the manifest, with done and open seeds."""
    lines, done_now = {}, valid(found)
    for run in runs:
        line = lines.setdefault((run.table, run.row, run.column), {
            "value": run.value, "table": run.table, "row": run.row, "column": run.column,
            "scenario": run.recipe.scenario, "done": [], "open": [], "GPU min": run.minutes,
            "core min": "?" if run.core is None else round(run.core, 1 if run.core < 10 else None),
            "GB": run.gb, "": absent(run) or "",
        })  # fmt: skip
        played = run.played(kept)
        about = f" ({played} of {run.recipe.settings.rounds} rounds)" if played else ""
        done, there = run.path(folder) in done_now, run.path(folder) in found
        about = f" ({stale.WORDS})" if there and not done else about * (not done)
        line["done" if done else "open"].append(f"{run.seed}{about}")
    table = pd.DataFrame(lines.values())
    for key in ("done", "open"):
        table[key] = table[key].map(", ".join)
    table = table.sort_values("value", ascending=False, kind="stable")
    return table.to_string(index=False, float_format=lambda number: f"{number:g}")


def totals(runs: Sequence[Run], left: Sequence[Run], kept, again: int = 0) -> str:
    """A sentence: how many runs are done, open, without data here; what the open ones take.

    `again` of those that are left have a result of other code.
    """
    here = [run for run in left if absent(run) is None]
    minutes = sum(run.left(kept) for run in here)
    cores = [run.on_a_core().left(kept) for run in here if run.core is not None]
    night = (
        f", or {sum(cores) / 60:.0f} hours of a CPU core for {len(cores)} of them" if cores else ""
    )
    number = len(in_order(runs, kept))
    return (f"{number} runs: {number - len(left)} done, {len(here)} open with about {minutes:.0f} "
            f"minutes of a GPU (estimates until measured){night}, {len(left) - len(here)} without "
            f"data here" + f"; {again} to do again ({stale.WORDS})" * bool(again))  # fmt: skip
