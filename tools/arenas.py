"""What notebook 07 reads is recorded in data/results: every method in every arena.

python -m tools.record benchmark              record what is missing
"""

from collections.abc import Callable, Sequence

import torch

from fedtutor import methods
from fedtutor.engine.files import save_json
from fedtutor.errors import SettingError, choose
from fedtutor.experiments import conditions, jobs, recipes, results
from fedtutor.experiments.arenas import (
    ARENAS,
    RECIPE,
    SEEDS,
    asked_of,
    failure_file,
    in_arena,
    in_words,
    kept,
    refusals,
)
from fedtutor.experiments.commits import require_committed
from fedtutor.experiments.environment import environment
from fedtutor.experiments.run import run as train

STUDIES = {  # recorded, too: (scenario, arena) -> changes, and for whom
    ("digits-mini", "one network"): [
        ({"lr": 0.01, "observe": []}, ("solo", "fedavg", "scaffold", "fedavgm", "moon", "vhl")),
    ],
    ("digits-partial", "one network"): [
        ({"fedavg.weighting": "uniform", "fednova.weighting": "uniform",
          "scaffold.weighting": "samples", "observe": []}, ("fedavg", "fednova", "scaffold")),
    ],
}  # fmt: skip


def missing(scenario: str, *, folder=results.RESULTS, names: Sequence[str] = ()) -> list[tuple]:
    """(recipe, method, seed) of all runs on a scenario that have neither a result nor failed."""
    recipe = recipes.load(RECIPE, profile="quick", scenario=scenario)
    for name in names:
        choose(name, methods.METHODS, kind="method", where="benchmark")
        if name not in recipe.methods:
            raise SettingError(
                f"{name} has no table in {RECIPE}.toml, so nothing of it is recorded",
                where="benchmark",
                do=f"add [methods.{name}] to data/recipes/{RECIPE}.toml, or leave it out",
            )
    data, found = recipe.build(), []
    for arena in ARENAS:
        asked = refusals(recipe, arena, data, only=names or list(recipe.methods))
        enter = [m for m, reason in asked.items() if not reason]
        for changes, those in (({}, enter), *STUDIES.get((scenario, arena), [])):
            inside = in_arena(recipe, arena, **changes)
            asked_for = [m for m in those if not names or m in names]
            found += [(inside, m, seed) for m in asked_for for seed in SEEDS
                      if not kept(inside, m, seed, folder)]  # fmt: skip
    if scenario == recipes.load(RECIPE, profile="quick").scenario:
        found += [(inside, m, seed) for inside, m in conditions.rows() for seed in SEEDS
                  if (not names or m in names) and not kept(inside, m, seed, folder)]  # fmt: skip
    return found


def record(scenario: str, *, names: Sequence[str] = (),
           folder=results.RESULTS, say: Callable = print) -> int:  # fmt: skip
    """Train what is missing on a scenario; how many runs failed.

    Each run has a process of its own, so that its peak memory is its own, one thread, and no
    artifacts, so that its work is whole. A result is written as soon as it is there, and so is how
    a run failed: started again, it goes on where it was.
    """
    torch.set_num_threads(1)  # before a fork
    asked = {"folder": folder, "names": names}
    left = jobs.alone(jobs.Task(missing, (scenario,), asked, threads=1, fork=True))
    say(f"{scenario}: {len(left)} runs to do")
    if left:
        require_committed(folder)
    tasks = [jobs.Task(_recorded, (*run, folder), threads=1, fork=True) for run in left]
    number = count = 0
    for task, outcome, said in jobs.through(tasks):
        recipe, method, seed, _ = task.given
        if outcome == jobs.FAILED:
            said = f"FAILED: {said}"
        number, count = number + 1, count + said.startswith("FAILED")
        networks = ", ".join(recipe.settings.models)
        say(f"{number}/{len(left)} {method} seed {seed} ({networks}): {said}")
    return count


def _recorded(recipe: recipes.Recipe, method: str, seed: int, folder) -> str:
    """Train and keep a result, or how that failed; in words."""
    try:
        done = train(recipe, method, seed=seed, threads=1, folder=folder)
        failure_file(recipe, method, seed, folder).unlink(missing_ok=True)
        return f"{done.totals['seconds']:.1f} s, intra {done.headline['intra']:.3f}"
    except (OSError, MemoryError) as error:  # this machine's: to be tried again
        return f"FAILED here: {type(error).__name__}: {error}"
    except Exception as error:  # whatever it is, the next run has its turn
        entry = {"what": in_words(error), "asked": asked_of(recipe, method, seed),
                 "environment": environment()}  # fmt: skip
        save_json(failure_file(recipe, method, seed, folder), entry)
        return f"FAILED: {entry['what']}"
