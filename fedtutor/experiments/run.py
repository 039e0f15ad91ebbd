"""Train a method as a recipe says, and keep what came out."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict

import torch

from .. import methods, rounds
from ..engine.checkpoints import Checkpoints
from ..engine.counting import Work
from ..engine.workers import device_of
from ..errors import SettingError, choose
from ..federation import Federation
from .commits import code, require_committed
from .environment import environment, peak_memory
from .recipes import Recipe
from .results import Result, accuracies, parameters_of, result_path, save_result


def run(recipe: Recipe, method: str, *, seed: int, scenario=None, device="cpu",
        threads: int | None = None, progress: Callable | None = None, watch: Callable | None = None,
        folder=None, checkpoint=None, artifacts=None) -> Result:  # fmt: skip
    """Train `method` as `recipe` says and return the result.

    `scenario` is the recipe's scenario for this seed where it is already built; `threads`
    defaults to one per core; `progress` wraps the numbers of the rounds; `watch(fed)` is called
    before the first round and after each; `folder` (e.g. `results.RESULTS`) keeps the result,
    `checkpoint` (a folder, or `Checkpoints`) the state of the run, from which it goes on,
    `artifacts` (a folder or a dict) what runs can share, such as pretrained networks. Raises
    `FedtutorError`s; a `folder` below `data/` takes no result of uncommitted code.
    """
    device = device_of(device)
    if folder is not None:
        require_committed(folder)
    if scenario is None:
        scenario = recipe.build(seed)
    if scenario.name != recipe.scenario:
        raise SettingError(
            f"the data are {scenario.name!r}, the recipe asks for {recipe.scenario!r}",
            where=f"run of {method}", do="build the recipe's scenario, or load another recipe",
        )  # fmt: skip
    threads = threads or os.cpu_count() or 1
    about = environment(device, threads)  # now: the code may be edited while it runs
    if checkpoint is not None:
        if not isinstance(checkpoint, Checkpoints):
            checkpoint = Checkpoints(checkpoint, every=120.0)
        checkpoint.code = code()
    if torch.device(device).type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    fed = Federation(
        scenario, recipe.make(method), recipe.settings_of(method),
        seed=seed, device=device, threads=threads, artifacts=artifacts,
    )  # fmt: skip

    start, work, played, began = Work(), Work(), [], ExitStack()
    resident = peak_memory(device)

    def watched(numbers):
        began.close()  # what comes before round 1 is over
        if watch:
            watch(fed)
        for number in (progress or iter)(numbers):
            played.append(number)
            with work:
                yield number
            if watch:
                watch(fed)

    with began:
        began.enter_context(start)
        history = rounds.run(fed, checkpoint=checkpoint, progress=watched)
    counted = {}
    if played[:1] == [1]:  # nothing was resumed
        counted = {"work": work.as_dict(), "start": {**start.as_dict(), "peak_memory": resident}}
    measured = result(recipe, method, seed=seed, scenario=scenario, history=history, about=about,
                      device=device, **counted)  # fmt: skip
    if folder is not None:
        save_result(measured, result_path(recipe, method, seed, folder=folder))
    return measured


def different(names, *, where: str) -> list[str]:
    """The names of methods; raises `SettingError` for none, and one that is unknown or twice."""
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, list | tuple) or not names:
        raise SettingError(
            f"methods = {names!r}", where=where,
            do='give a list of names, such as ["solo", "fedavg"]',
        )  # fmt: skip
    for name in names:
        choose(name, methods.METHODS, kind="method", where=where)
        if names.count(name) > 1:
            raise SettingError(f"{name!r} is named twice", where=where, do="name each method once")
    return list(names)


def result(recipe: Recipe, method: str, *, seed: int, scenario, history: dict, about: dict,
           device="cpu", **counted: dict) -> Result:  # fmt: skip
    """The `Result` of a run that has just ended in this process with `history`.

    `about` is what `environment` said when it began. `counted` joins the totals: "work", what all
    rounds computed (`counting.Work`); "start", the same before round 1 (what an artifact held is
    not in it), with the process's peak memory before the run.
    """
    sent = {direction: 0 for direction in ("up", "down", "peer")}
    for row in history["bytes"]:
        sent[row["direction"]] += row["bytes"]
    reached = accuracies(history)
    totals = {
        "seconds": sum(history["seconds"]), "peak_memory": peak_memory(device), "bytes": sent,
        **counted,
    }  # fmt: skip
    return Result(
        recipe=recipe.name, paper=recipe.paper, profile=recipe.profile,
        scenario={
            "name": scenario.name, "title": scenario.title, "options": recipe.options(seed),
            "stand_in": scenario.stand_in, "fingerprint": scenario.fingerprint,
        },
        method=method, parameters=parameters_of(recipe, method),
        settings=asdict(recipe.settings_of(method)), overrides=recipe.overrides, seed=seed,
        environment=about, history=dict(history),
        headline=reached[-1], best=max(reached, key=lambda row: row["intra"]), totals=totals,
    )  # fmt: skip
