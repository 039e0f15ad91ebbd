"""Rehearse a paper's full setting: two rounds of every method, before a long run is started.

A network that does not fit, a lack of memory or a checkpoint that cannot be read should not show
after hours. So every method plays two rounds, each in a process of its own: nothing but the
checkpoint leads from the first to the second, and the peak memory is that of this method alone.
What is smaller than in the recipe (images, epochs) is given as overrides and written down beside
every number. Accuracies are not: two rounds say nothing about them.

    python -m tools.record rehearse fccl --scenario digits-partial --overrides '{"batch_size": 256}'
"""

import itertools
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
import torch

from .. import methods, rounds, scenarios
from ..engine.checks import has_numbers
from ..engine.files import DATA, damaged, load_json, save_json, shown
from ..errors import StorageError, TrainingError, choose
from ..federation import Federation
from . import jobs, recipes
from .commits import require_committed
from .environment import environment, peak_memory
from .recipes import Recipe

REHEARSALS = DATA / "rehearsals"
FORMAT = 1  # of the file
ROUNDS = 2


def rehearse(name: str, *, scenario: str | None = None, names: Sequence[str] | None = None,
             overrides: dict | None = None, device: str = "cpu", profile: str = "paper",
             threads: int | None = None, folder=REHEARSALS, artifacts=None,
             say: Callable = print) -> list[dict]:  # fmt: skip
    """Play two rounds of the methods `names` (default: all of the recipe `name`); one row each.

    Rows go to `<folder>/<recipe>-<scenario>.json` as they come. There a row takes the place of the
    one with the same method, profile, reductions, device and threads; all others stay. A method
    that fails has its error in its row and stops nothing. What goes through `fed.artifact`, such as
    pretrained networks, is made once for all methods; in the folder `artifacts` later calls find
    it too. Fewer `threads` need less memory: so many clients train at once.
    Raises `SettingError` for an unknown recipe, scenario, method or override, and where `folder`
    takes nothing of uncommitted code; and `StorageError`.
    """
    full = recipes.load(name, profile=profile)
    recipe = recipes.load(name, profile=profile, scenario=scenario, overrides=overrides)
    recipe = recipe.change({"rounds": ROUNDS, "eval_every": ROUNDS})
    choose(recipe.scenario, scenarios.SCENARIOS, kind="scenario", where=f"recipe {name}")
    names = list(recipe.methods) if names is None else names
    for method in names:
        choose(method, methods.METHODS, kind="method", where="methods")
    require_committed(folder)
    threads, rows = threads or os.cpu_count() or 1, []
    with tempfile.TemporaryDirectory() as temporary:
        for method in names:
            options = {"device": device, "threads": threads, "artifacts": artifacts or temporary}
            row = {
                "method": method, "profile": profile, "reduced": reduced(full, recipe, method),
                "networks": recipe.settings.models, "batch_size": recipe.settings.batch_size,
                "public_batch_size": recipe.settings.public_batch_size,
                "environment": environment(device, threads),
            }  # fmt: skip
            with tempfile.TemporaryDirectory() as checkpoint:
                row |= _played(recipe, method, checkpoint=checkpoint, **options)
            rows.append(row)
            _keep(Path(folder) / f"{name}-{recipe.scenario}.json", recipe, row)
            say(f"{method}: {row['error'] or _in_words(row)}")
    return rows


def _played(recipe: Recipe, method: str, **options) -> dict:
    """The parts of a row that are measured, or the error alone."""
    played = []
    try:
        for number in range(1, ROUNDS + 1):
            played.append(jobs.alone(jobs.Task(play, (recipe, method, number), options)))
    except jobs.Killed:
        number = len(played) + 1
        return {"error": f"the process of round {number} was killed: too little memory?"}
    except Exception as error:  # whatever it is, the next method has its turn
        return {"error": f"{type(error).__name__}: {getattr(error, 'what', error)}"}
    return {"error": None, "data": played[0]["data"], "rounds": [p["round"] for p in played]}


def play(recipe: Recipe, method: str, number: int, *, checkpoint, device: str = "cpu",
         threads: int = 1, artifacts=None) -> dict:  # fmt: skip
    """Play round `number` in this process, from the checkpoint on, and leave a new one there.

    Returns which data were used, and for the round: seconds (preparation holds loading, pretraining
    and the evaluation before round 1; the last round holds the evaluation after it), CPU seconds
    (which other work on the machine does not lengthen as much), peak memory in bytes, losses.
    Raises `TrainingError` where another round was played, and for a weight that is not finite; in
    the last round, which is tested, that is the evaluation's `ModelError`.
    """
    began, seen = time.perf_counter(), {}
    if torch.device(device).type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    scenario = recipe.build()
    fed = Federation(
        scenario, recipe.make(method), recipe.settings_of(method),
        device=device, threads=threads, artifacts=artifacts,
    )  # fmt: skip

    def one_round(numbers):
        seen["preparation"] = time.perf_counter() - began
        busy = time.process_time()
        for seen["number"] in itertools.islice(numbers, 1):
            yield seen["number"]
        seen["cpu_seconds"] = time.process_time() - busy

    history = rounds.run(fed, checkpoint=checkpoint, every=0, progress=one_round)
    wrong = [f"a weight of client {c.id} is not finite" for c in fed.clients
             for m in c.models.values() if not has_numbers(m)]  # fmt: skip
    if not seen.get("number") == number == len(history["loss"]):
        wrong = [f"round {seen.get('number')} was played instead"]
    if wrong:
        raise TrainingError(wrong[0], where=f"{method}, round {number}",
                            do="mend the method before a long run is started")  # fmt: skip
    public = [(c.state.get("public_loss") or [None])[-1] for c in fed.clients]
    return {
        "data": {
            "title": scenario.title, "stand_in": scenario.stand_in, "size": scenario.image_size,
            "fingerprint": scenario.fingerprint,
            "clients": history["clients"], "private": [len(c.private) for c in scenario.clients],
            "public": 0 if scenario.public is None else len(scenario.public),
            "tests": history["tests"], "test": [len(test) for test in scenario.tests.values()],
        },
        "round": {
            "number": number, "preparation": seen["preparation"], "public_loss": public,
            "loss": history["loss"][-1]["values"], "seconds": history["seconds"][-1],
            "cpu_seconds": seen.get("cpu_seconds"), "peak_memory": peak_memory(device),
        },
    }  # fmt: skip


def reduced(full: Recipe, recipe: Recipe, method: str) -> dict:
    """Key -> [value in `full`, value in `recipe`], where a run of `method` differs.

    Options that only the other scenario has are left out, unless they were given.
    """
    before, found = full.values(), {}
    for key, value in recipe.values().items():
        touches = key.partition(".")[0] in (key, "scenario", method)
        if touches and (key in before or key in recipe.overrides) and before.get(key) != value:
            found[key] = [before.get(key), value]
    return found


def table(recipe: str, *, folder=REHEARSALS) -> pd.DataFrame:
    """All rehearsals of `recipe`, one row each: method, seconds, peak memory, error, conditions.

    Preparation: of round 1; the first method's holds the pretraining of all. GB: 10^9 bytes. Raises
    `StorageError` where there is none, or where a file is damaged.
    """
    found = [_read(path) for path in sorted(Path(folder).glob("*.json"))]
    lines = [_line(value["scenario"], row) for value in found if value["recipe"] == recipe
             for row in value["rows"]]  # fmt: skip
    if not lines:
        raise StorageError(
            f"no rehearsal of {recipe}", where=shown(folder),
            do=f"run python -m tools.record rehearse {recipe}",
        )  # fmt: skip
    return pd.DataFrame(lines)


def _line(scenario: str, row: dict) -> dict:
    data, made, memory = row.get("data"), row["environment"], _memory(row)
    git = made["git"] or {"commit": "", "dirty": False}
    unknown = [dict.fromkeys(("preparation", "seconds", "cpu_seconds"))] * ROUNDS
    played = row.get("rounds", unknown)
    return {
        "method": row["method"], "scenario": scenario, "threads": made["threads"],
        "preparation (s)": played[0]["preparation"],
        **{f"round {n} (s)": entry["seconds"] for n, entry in enumerate(played, start=1)},
        **{f"CPU {n} (s)": entry["cpu_seconds"] for n, entry in enumerate(played, start=1)},
        "peak (GB)": memory and memory / 1e9, "error": row["error"] or "",
        "reduced": "; ".join(f"{key} {a} → {b}" for key, (a, b) in row["reduced"].items()),
        "networks": ", ".join(row["networks"]),
        "batches": f"{row['batch_size']} private, {row['public_batch_size']} public",
        "private images": ", ".join(map(str, data["private"])) if data else "",
        "public images": data and data["public"],
        "test images": ", ".join(map(str, data["test"])) if data else "",
        "profile": row["profile"], "torch": made["torch"], "device": made["device"],
        "commit": git["commit"][:12] + git["dirty"] * " + changes",
    }  # fmt: skip


def _in_words(row: dict) -> str:
    seconds, memory = [entry["seconds"] for entry in row["rounds"]], _memory(row)
    words = f"rounds of {' and '.join(f'{s:.1f}' for s in seconds)} s"
    return words if memory is None else f"{words}, {memory / 1e9:.2f} GB"


def _memory(row: dict) -> int | None:
    return max((r["peak_memory"] for r in row.get("rounds", []) if r["peak_memory"]), default=None)


def _keep(path: Path, recipe: Recipe, row: dict) -> None:
    def key(r):
        own = [r[part] for part in ("method", "profile", "reduced")]
        return own + [r["environment"][part] for part in ("device", "threads")]

    rows = [r for r in (_read(path)["rows"] if path.exists() else []) if key(r) != key(row)]
    save_json(path, {"format": FORMAT, "recipe": recipe.name, "scenario": recipe.scenario,
                     "rows": [*rows, row]})  # fmt: skip


def _read(path: Path) -> dict:
    value = load_json(path)
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise damaged(path, ValueError(f"it is not a rehearsal of format {FORMAT}"))
    return value
