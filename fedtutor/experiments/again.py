"""Record again what other code recorded, or code that no commit holds; and further seeds.

    python -m fedtutor again --dry-run                     what is to be done, and its time
    python -m fedtutor again --only fccl --at-once 2       results with that text in their path
    python -m fedtutor again --seeds 3 4 --under 30        two more seeds where every run is short

A run writes a file of its own, which counts before the line of the same run, so processes side by
side never write one file. The parent folds them into lines at the end. Started again, it goes on.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from ..engine.files import shown
from ..errors import FedtutorError, SettingError
from . import jobs, recipes, results, stale, stored
from .commits import require_committed
from .results import Result, result_path
from .run import run as train


def to_do(*, folder=results.RESULTS, only: str = "", seeds: Sequence[int] = (),
          under: float = 30.0) -> tuple[list[tuple], list[str]]:  # fmt: skip
    """[(recipe, method, seed, seconds)] to be played, longest first; what cannot be rebuilt.

    `only`: a text that the path of a run below `folder` contains. `seeds`: added to every group of
    runs (the same but for their seed) in which each took less than `under` seconds.
    """
    folder, groups, lost = Path(folder), {}, []
    if not folder.is_dir():
        raise SettingError(f"no folder {folder.name}", where=shown(folder), do="name another one")
    for path, found in results.load_all(folder).items():
        name = path.relative_to(folder).as_posix()
        if only not in name:
            continue
        try:
            if isinstance(found, FedtutorError):
                raise found
            recipe = rebuilt(found)
            if (home := result_path(recipe, found.method, found.seed, folder=folder)) != path:
                raise SettingError(f"it belongs to {home.name}", where=name, do="move it there")
        except FedtutorError as error:
            lost.append(f"{name}: {error.what}")
            continue
        same = result_path(recipe, found.method, 0, folder=folder)
        groups.setdefault(same, []).append((recipe, found))
    wanted = []
    for runs in groups.values():
        seconds = [found.totals["seconds"] for _, found in runs]
        wanted += [(recipe, found.method, found.seed, _took(found))
                   for recipe, found in runs if not settled(found)]  # fmt: skip
        if max(seconds) < under:
            recipe, found = runs[0]
            there = {other.seed for _, other in runs}
            wanted += [(recipe, found.method, seed, max(_took(one) for _, one in runs))
                       for seed in seeds if seed not in there]  # fmt: skip
    return sorted(wanted, key=lambda run: -run[3]), lost


def _took(found: Result) -> float:
    """Seconds of a run with what came before round 1, where that was counted."""
    return found.totals["seconds"] + found.totals.get("start", {}).get("cpu_seconds", 0.0)


def settled(found: Result) -> bool:
    """Whether the code of today made it, and a commit holds that code."""
    scenario, made = found.scenario["name"], found.environment
    state, _ = stale.standing(found.method, found.settings, scenario, made)
    return state == stale.CURRENT and not (made.get("git") or {}).get("dirty")


def rebuilt(found: Result) -> recipes.Recipe:
    """The recipe of a result, from what it says of itself.

    Raises `SettingError` where the recipe of today no longer says the same, or is not there.
    """
    name = found.scenario["name"]
    recipe = recipes.load(found.recipe, profile=found.profile, scenario=name,
                          overrides=found.overrides)  # fmt: skip
    fault = results.differs(found, recipe)
    if fault:
        raise SettingError(f"the recipe has other {fault} today", where=f"{found.method} on {name}",
                           do="play it anew from a notebook, or delete the result")  # fmt: skip
    return recipe


def record(*, folder=results.RESULTS, only: str = "", seeds: Sequence[int] = (),
           under: float = 30.0, minutes: float = float("inf"), at_once: int = 1,
           artifacts=None, dry_run: bool = False, say: Callable = print) -> int:  # fmt: skip
    """Play what is `to_do` until the time is up, each in a process with one thread; the failed.

    `artifacts`: a folder for what runs share, such as distilled images, which may take longer than
    all rounds. Accuracies and the counted work of the rounds are the same; without a folder each
    run makes its own, so that its counted start is whole, too.
    """
    torch.set_num_threads(1)  # before a fork
    left, lost = to_do(folder=folder, only=only, seeds=seeds, under=under)
    hours = sum(seconds for *_, seconds in left) / 3600
    say(f"{len(left)} runs to do, about {hours:.1f} hours of one core when they were recorded")
    done = failed = 0
    if left and not dry_run:
        require_committed(folder)
        tasks = [jobs.Task(_played, (*run[:3], folder, artifacts), threads=1, fork=True)
                 for run in left]  # fmt: skip
        written = []
        try:
            for task, outcome, said in jobs.through(tasks, minutes=minutes, at_once=at_once,
                                                    finish=True):  # fmt: skip
                recipe, method, seed, *_ = task.given
                done += 1
                if outcome == jobs.DONE:
                    written.append(result_path(recipe, method, seed, folder=folder))
                else:
                    failed, said = failed + 1, f"FAILED: {said}"
                say(
                    f"{done}/{len(left)} {recipe.name} {recipe.scenario} {method} seed {seed}: "
                    + str(said)
                )
        finally:
            stored.fold({path: stored.entry(path).value for path in written})
        if done < len(left):
            say(f"the time is up; {len(left) - done} runs are left")
    for name in lost:
        say(f"cannot be rebuilt: {name}")
    return failed


def _played(recipe: recipes.Recipe, method: str, seed: int, folder, artifacts) -> str:
    made = train(recipe, method, seed=seed, threads=1, folder=folder, artifacts=artifacts)
    return f"{made.totals['seconds']:.1f} s, intra {made.headline['intra']:.3f}"
