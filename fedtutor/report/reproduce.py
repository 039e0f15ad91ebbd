"""`fedtutor reproduce "FCCL+ X"`: what a printed table needs, the runs that are missing, the table.

A request names a paper and a table; "FCCL+ X" stands for X-inter and X-intra. The runs are those of
`data/queue.toml` (the paper's own settings) or, with the profile "quick", of `data/measured.toml`.
"""

import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import pandas as pd
import torch

from .. import models
from ..comparison import compare
from ..datasets import sources
from ..engine.checkpoints import folder_to_write
from ..engine.files import here, write_atomically
from ..errors import SettingError, choose
from ..experiments import manifest, results
from ..experiments.environment import environment
from ..experiments.manifest import Run
from ..experiments.run import result
from ..losses import cross_entropy
from ..papers.printed import accuracies, columns_of, published_table
from ..papers.printed import tables as printed_tables
from .beside import Beside, lines_of, numbers_of
from .tables import MEASURED, Report

MANIFESTS = {"paper": manifest.MANIFEST, "quick": MEASURED}


@dataclass(frozen=True)
class Plan:
    """What a request asks for, and what is there."""

    paper: str
    keys: tuple[str, ...]  # of its printed tables
    runs: tuple[Run, ...]  # of `data/queue.toml` or `data/measured.toml`
    found: dict  # path of a run in `folder` -> its result, here or in data/results
    faults: tuple[str, ...]
    folder: Path  # where new results go
    rows: str = ""  # the word that rows or columns have

    @property
    def missing(self) -> list[Run]:
        """The runs that are to be played, and whose data are here."""
        return [run for run in self._open if not self._absent(run)]

    @property
    def without_data(self) -> dict[str, str]:
        """Run -> why its data are not here."""
        return {run.name: why for run in self._open if (why := self._absent(run))}

    @property
    def once(self) -> list[Run]:
        """The runs, each once: two columns can share one."""
        return list({run.path(""): run for run in self.runs}.values())

    @property
    def _open(self) -> list[Run]:
        return [run for run in self.once if run.path(self.folder) not in self.found]

    def _absent(self, run: Run) -> str | None:
        return manifest.absent(run)

    def tables(self) -> dict[str, Beside]:
        """Key -> the printed table beside what is there, the rows and seeds of the request."""
        return self._told(lines_of)

    def numbers(self) -> dict[str, pd.DataFrame]:
        """The same with numbers in columns of their own."""
        return self._told(numbers_of)

    def _told(self, of: Callable) -> dict:
        made = Report(self.runs, self.found, self.faults, self.folder)
        told = {key: of(made, self.paper, key) for key in self.keys}
        return {key: table[_asked(table, self.rows)] for key, table in told.items()}


def _asked(table: pd.DataFrame, word: str) -> list[bool]:
    """Which lines have the word in their row or column."""
    pairs = zip(table["row"], table["column"], strict=True)
    return [has(word, *names) for names in pairs]


def has(word: str, *names: str) -> bool:
    """Whether one of the names has the whole word: "MNIST" is no word of "Fashion-MNIST"."""
    found = re.compile(rf"(?<![\w+-]){re.escape(word)}(?![\w+-])", re.IGNORECASE)
    return not word or any(map(found.search, names))


def wanted(request: str) -> tuple[str, tuple[str, ...]]:
    """("FCCL+", ("X-inter", "X-intra")) of "FCCL+ X"; `SettingError` names the nearest ones."""
    paper, _, key = request.strip().partition(" ")
    known = [k for p, k in printed_tables() if p == paper]
    if not known:
        choose(paper, {p for p, _ in printed_tables()}, kind="paper", where=f"reproduce {request}")
    keys = tuple(k for k in known if k == key.strip() or k.startswith(f"{key.strip()}-"))
    if not keys or not key.strip():
        choose(key.strip(), known, kind=f"table of {paper}", where=f"reproduce {request}")
    return paper, keys


def plan(
    request: str,
    *,
    folder,
    profile: str = "paper",
    rows: str = "",
    seeds: Sequence[int] = (),
    again: bool = False,
) -> Plan:
    """What a request asks for: the runs of its tables, and which of them are there.

    `rows` keeps the rows and columns that have this word, and the runs that stand for them; `seeds`
    keeps those seeds. What `folder` holds counts, and unless `again`, what `data/results` holds.
    Raises `SettingError` for an unknown paper, table or profile, and where nothing is left.
    """
    paper, keys = wanted(request)
    choose(profile, MANIFESTS, kind="profile", where="--profile")
    cells = accuracies()
    cells = cells[(cells["paper"] == paper) & cells["table"].isin(keys)]
    if rows and len(cells) and not any(_asked(cells, rows)):
        names = [", ".join(dict.fromkeys(cells[name])) for name in ("row", "column")]
        raise SettingError(
            f"no row or column has the word {rows!r}",
            where=f"reproduce {request}",
            do=f"rows are {names[0]}; columns are {names[1]}",
        )
    every = manifest.load(MANIFESTS[profile], paper=paper)
    of_table = [run for run in every if set(run.tables) & set(keys)]
    runs = [run for run in of_table if has(rows, *_names(run, keys))]
    known = sorted({run.seed for run in runs})
    if known and seeds and not set(seeds) & set(known):
        raise SettingError(
            f"no run has one of the seeds {', '.join(map(str, seeds))}",
            where=f"reproduce {request}",
            do=f"choose from {', '.join(map(str, known))}",
        )
    runs = [run for run in runs if not seeds or run.seed in seeds]
    folder, found, faults = Path(folder), {}, []
    for place in [folder] if again else [results.RESULTS, folder]:
        there, wrong = manifest.survey(runs, place)
        found |= {
            run.path(folder): there[run.path(place)] for run in runs if run.path(place) in there
        }
        faults += wrong
    return Plan(paper, keys, tuple(runs), found, tuple(faults), folder, rows)


def _names(run: Run, keys: Sequence[str]) -> list[str]:
    """The row and the columns of the printed tables that a run stands for."""
    tables = [published_table(run.paper, key) for key in run.tables if key in keys]
    return [run.row, run.column, *(c for table in tables for c in columns_of(table, run.column))]


# --- what it will take


def minutes(run: Run, found: Sequence[results.Result]) -> float | None:
    """Minutes of one core that a run takes; None where its data are not here.

    From a recorded run on a CPU that differs in the seed alone; else from training steps of its
    networks, timed now: what a method computes beside the local updates is not in that.
    """

    def same(r: results.Result) -> bool:
        return results.home_of(r) == results.result_path(run.recipe, run.method, r.seed, folder="")

    like = [r for r in found if r.environment["device"].startswith("CPU") and same(r)]
    if like:
        return sum(r.totals["seconds"] * r.environment["threads"] for r in like) / len(like) / 60
    if manifest.absent(run):
        return None
    with sources.without_pixels():
        scene = run.recipe.build()
    s, total = run.recipe.settings, 0.0
    for k, client in enumerate(scene.clients):
        network = s.models[k % len(s.models)]
        epochs = s.client_epochs[k] if s.client_epochs else s.local_epochs
        shape = scene.num_classes, scene.channels, scene.image_size, s.batch_size
        total += len(client.private) * epochs * seconds_per_image(network, *shape)
    return s.rounds * s.participation * total / 60


@cache
def seconds_per_image(network: str, classes: int, channels: int, size: int, batch: int) -> float:
    """Processor seconds for an image there and back, in a batch, on one core of this machine."""
    own = torch.Generator().manual_seed(0)
    model = models.build(network, num_classes=classes, in_channels=channels, image_size=size,
                         generator=own)  # fmt: skip
    models.use_generator(model, own)
    x, y = torch.randn(batch, channels, size, size), torch.zeros(batch, dtype=torch.int64)
    threads, spent = torch.get_num_threads(), []
    torch.set_num_threads(1)
    try:
        for _ in range(5):
            began = time.process_time()
            cross_entropy(model(x), y).backward()
            spent.append(time.process_time() - began)
    finally:
        torch.set_num_threads(threads)
    return min(spent) / batch


def needs(made: Plan, at_once: int) -> str:
    """In words: data, runs, minutes on this machine, memory."""
    missing, absent = made.missing, made.without_data
    lines = [
        f"{made.paper}, Table {' and '.join(made.keys)}: {len(made.once)} runs, "
        f"{len(made.found)} are there, {len(missing)} to run, {len(absent)} without data"
    ]
    if not made.runs:
        lines.append("no run is planned for it: what is known stands in its claims, "
                     f'papers.claims("{made.paper}")')  # fmt: skip
    for why in dict.fromkeys(absent.values()):
        lines += [f"  not here: {why.removesuffix(', is not here')}", *sources.place(why)]
    for name in stand_ins(made):
        lines.append(f"  measured on other data: {name}")
    if missing:
        recorded = list(manifest.survey(made.runs, results.RESULTS)[0].values())
        known = [minutes(run, recorded) for run in missing]
        gb = max(run.gb for run in missing)
        lines.append(f"  about {in_hours(sum(known) / at_once)} on this machine, {at_once} runs "
                     f"at once on a core each; up to {gb:g} GB for a run")  # fmt: skip
    return "\n".join(lines)


def stand_ins(made: Plan) -> list[str]:
    """Names of runs that stand for these tables on other data."""
    if not made.without_data:
        return []
    every = [run for path in MANIFESTS.values() for run in manifest.load(path, paper=made.paper)]
    return list(dict.fromkeys(
        f"{run.table} ({run.recipe.scenario} in the place of {run.instead_of})" for run in every
        if run.instead_of and set(run.tables) & set(made.keys)
    ))  # fmt: skip


def in_hours(minutes: float) -> str:
    """A length of time in the unit that a reader thinks in."""
    if minutes < 1:
        return f"{60 * minutes:.0f} seconds"
    return f"{minutes:.0f} minutes" if minutes < 90 else f"{minutes / 60:.1f} hours"


# --- running


def play(made: Plan, *, jobs: int, device: str = "cpu", say: Callable = print) -> int:
    """Run what is missing, from where it stopped the last time; how many runs failed.

    `compare` runs all seeds of a row at once. A second result of the same run is never computed.
    """
    groups, failed = {}, 0
    for run in made.missing:
        groups.setdefault(run.name.removesuffix(f" {run.seed}"), []).append(run)
    if groups:
        folder_to_write(made.folder, "--folder")
    for name, runs in groups.items():
        say(f"{name}: seed{'s' * (len(runs) > 1)} {', '.join(str(run.seed) for run in runs)}")
        failed += _compared(runs, made.folder, jobs, device, say)
    return failed


def _compared(runs: Sequence[Run], folder: Path, jobs: int, device: str, say: Callable) -> int:
    """Run the seeds of one row, and write their results; how many diverged."""
    recipe, method = runs[0].recipe, runs[0].method
    about = environment(device, 1)  # now: the code may be edited while it runs
    found = compare([method], settings=recipe, seeds=[run.seed for run in runs], jobs=jobs,
                    scenario=recipe.build,  # a function: what is committed does not count
                    folder=folder.with_name("runs"), device=device)  # fmt: skip
    failed = 0
    for run, (task, record) in zip(runs, found.pairs, strict=True):
        if record["failed"]:
            failed += 1
            say(f"{run.name}: failed, {record['failed']}")
            continue
        measured = result(recipe, method, seed=run.seed, scenario=task.scenario,
                          history=record["history"], about=about, device=device)  # fmt: skip
        results.save_result(measured, run.path(folder))
        say(f"{run.name}: done, {100 * measured.headline['intra']:.1f} % on own tests")
    return failed


# --- the table

ABOUT = (
    "Accuracy in percent; measured as mean ± standard deviation over seeds; there is a verdict "
    "where the paper's own setting and data decide."
)


def write(made: Plan, folder) -> list[Path]:
    """The tables as Markdown, and with numbers as CSV; the paths."""
    paths, numbers = [], made.numbers()
    for key, table in made.tables().items():
        stem = re.sub(r"[^\w+-]+", "-", f"{made.paper}-{key}")
        heading = f"# {made.paper}, Table {key}\n\n{ABOUT}\n\n"
        for suffix, text in (
            (".md", heading + table.to_markdown(index=False, disable_numparse=True)),
            (".csv", numbers[key].to_csv(index=False)),
        ):
            path = Path(folder) / f"{stem}{suffix}"
            write_atomically(path, lambda name, t=text: Path(name).write_text(t, encoding="utf-8"))
            paths.append(path)
    return paths


def reproduce(options) -> int:
    """What the command does; the status is 1 where a run failed."""
    o, say, folder = options, partial(print, flush=True), options.folder.resolve()
    jobs = o.jobs or max(1, min(8, os.cpu_count() or 1))
    about = {"folder": folder / "results", "profile": o.profile, "rows": o.rows, "seeds": o.seeds}
    asked = partial(plan, o.request, again=o.again, **about)
    with sources.offline(not o.download):
        made = asked()
        say(needs(made, jobs))
        if o.dry_run:
            return 0
        failed = play(made, jobs=jobs, device=o.device, say=say)
        made = asked()
        for key, table in made.tables().items():
            shorter = table.drop(columns=["differs in", "open because", "run"])
            print(f"\n{made.paper}, Table {key}\n{shorter.to_string(index=False)}")
        print("\n" + "\n".join(f"written: {here(path)}" for path in write(made, folder)))
    return 1 if failed else 0
