"""A random tenth of all runs, played again on another processor: what a last digit costs.

    python -m fedtutor again --elsewhere       # on a machine with another processor

Two processors differ in the last digits of a sum, and training amplifies them. So a recording is
one draw of two kinds of chance: the seed's and the processor's. Both recordings are kept, the first
in data/results, the second in data/replays, in the same form.
"""

import hashlib
import math
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from ..engine.files import ROOT
from ..errors import FedtutorError
from . import again, environment, results, stored
from .frame import KEYS, runs
from .results import Result, result_path
from .run import run as train

REPLAYS = ROOT / "data" / "replays"
SHARE = 10  # one run in ten
GROUP = [key for key in KEYS if key != "seed"]
SIDES = {"own domain": "intra", "other domains": "inter"}


def chosen(folder=results.RESULTS) -> dict[str, Result]:
    """The runs to be played again, by their names below `folder`, in an order drawn by lot.

    A run is taken if the hash of its name says so: once chosen it stays so, whatever is recorded
    later. Left out are those that other code recorded, because code would move them, too.
    """
    folder, found = Path(folder), {}
    for path, run in results.load_all(folder).items():
        name = path.relative_to(folder).as_posix()
        if isinstance(run, FedtutorError) or _lot(name) % SHARE or not again.settled(run):
            continue
        found[name] = run
    return {name: found[name] for name in sorted(found, key=_lot)}


def _lot(name: str) -> int:
    return int(hashlib.sha256(name.encode()).hexdigest(), 16)


def play(*, folder=results.RESULTS, to=REPLAYS, only: str = "", minutes: float = math.inf,
         dry_run: bool = False, say: Callable = print) -> int:  # fmt: skip
    """Play what is `chosen` and not there yet, one by one with one thread; how many failed.

    `only`: a text in the name of a run; no run is started after `minutes`. A run that this make of
    processor has recorded itself is passed over. Images that are not here are an error of that run
    alone.
    """
    here, failed, end = environment.processor(), 0, time.monotonic() + 60 * minutes
    wanted = {
        name: run
        for name, run in chosen(folder).items()
        if only in name and run.environment.get("processor") != here
        and not stored.entry(Path(to) / name)
    }  # fmt: skip
    hours = sum(run.totals["seconds"] for run in wanted.values()) / 3600
    say(f"{len(wanted)} runs to play again on: {here}; {hours:.1f} hours of a core when recorded")
    for number, (name, run) in enumerate([] if dry_run else wanted.items(), start=1):
        if time.monotonic() > end:
            say(f"the time is up; {len(wanted) - number + 1} runs are left")
            break
        try:
            recipe = again.rebuilt(run)
            made = train(recipe, run.method, seed=run.seed, threads=1, folder=to)
            path = result_path(recipe, run.method, run.seed, folder=to)
            stored.fold({path: stored.entry(path).value})
            said = f"own domain {run.headline['intra']:.3f}, here {made.headline['intra']:.3f}"
        except FedtutorError as error:
            failed, said = failed + 1, f"FAILED: {error.what}"
        say(f"{number}/{len(wanted)} {name}: {said}")
    return failed


def compared(folder=REPLAYS, *, first=results.RESULTS) -> pd.DataFrame:
    """One row per replay and side, in points: run, side, processor, seed.

    `processor`: the replay minus the recording, the same seed. `seed`: the next seed of the same
    setting minus this one, both as recorded; NaN where there is no other.
    """
    recorded, rows = runs(first), []
    here = runs(folder) if Path(folder).is_dir() else recorded.iloc[:0]
    for name in here.index.intersection(recorded.index):
        old = recorded.loc[name]
        group = recorded[(recorded[GROUP] == old[GROUP]).all(axis=1)].sort_values("seed")
        others = [n for n in group.index if n != name]
        after = [n for n in others if group.at[n, "seed"] > old["seed"]] or others
        for side, column in SIDES.items():
            if pd.isna(old[column]):
                continue  # one test set: there are no other domains
            other = group.at[after[0], column] if after else float("nan")
            rows.append((name, side, here.at[name, column] - old[column], other - old[column]))
    return pd.DataFrame(rows, columns=["run", "side", "processor", "seed"])
