"""The first cell of every notebook: check the parameters, prepare the kernel, say what runs.

    run = start(globals(), recipe="start")

`run` then holds what the notebook works with: `run.scenario`, `run.seeds`, `run.methods`,
`run.device`; `run(method, seed)` trains and returns a result, `run.recorded(method)` reads what is
committed in `data/results/`.
"""

import json
import os
import platform
import re
import textwrap
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version

import pandas as pd
import torch
from tqdm.notebook import tqdm

from .. import __version__, figures, methods, scenarios
from ..comparison import different_seeds
from ..engine.workers import device_of
from ..errors import SettingError, choose
from ..experiments import commits, recipes
from ..experiments import results as kept
from ..experiments.results import Result
from ..experiments.run import different
from ..experiments.run import run as train
from ..federation import Federation
from .diagram import diagram

NAMES = ("profile", "scenario", "seeds", "methods", "device", "overrides")
AS_JSON = {"seeds": 'whole numbers, such as -p seeds "[0, 1, 2]"',
           "methods": """names, such as -p methods '["solo", "fedavg"]'""",
           "overrides": """a table, such as -p overrides '{"rounds": 4}'"""}  # fmt: skip
SHORT_RUNS = (3, 4)  # the seeds that only these are recorded with
KERNEL = {"In", "Out", "get_ipython", "exit", "quit", "open", "start"}


@dataclass
class Run:
    """What the parameters of a notebook mean, checked."""

    recipe: recipes.Recipe
    scenario: scenarios.Scenario
    seeds: list[int]
    methods: list[str]
    device: str
    threads: int
    results: dict = field(default_factory=dict, repr=False)
    artifacts: dict = field(default_factory=dict, repr=False)  # pretrained networks, for all runs

    def __call__(self, method: str, seed: int, **changes) -> Result:
        """Train `method` with `seed`; `changes` are overrides for this run alone.

        What was computed once in this kernel is not computed again.
        """
        key = _key(method, seed, changes)
        if key not in self.results:
            self.results[key] = self._train(self._changed(changes), method, seed)
        return self.results[key]

    def watch(self, method: str, seed: int, look: Callable, **changes) -> list:
        """`look(fed)` before the first round of a run and after each; see `__call__`."""
        key = (*_key(method, seed, changes), look)
        if key not in self.results:
            seen = []
            self.results[key[:-1]] = self._train(
                self._changed(changes), method, seed, watch=lambda fed: seen.append(look(fed))
            )
            self.results[key] = seen
        return self.results[key]

    def recorded(self, method: str, scenario: str | None = None, recipe: str | None = None,
                 profile: str = "quick", seeds: Sequence[int] | None = None,
                 compute: bool = True, **changes) -> list[Result]:  # fmt: skip
        """One result per seed from `data/results/`, in the recipe's quick setting with `changes`.

        `recipe`: another one than the notebook's; `profile`: "paper" for the paper's setting;
        `seeds`: others than the notebook's. Some long runs are recorded with seeds 0, 1, 2 alone:
        of the notebook's seeds, 3 and 4 are left out where they are missing and others are there. A
        reader's own `overrides` do not touch it, save "recompute". What else is missing, or of
        other settings, is computed now, or left out with `compute=False`. It is kept where the
        environment variable `FEDTUTOR_RECORD` is set, and where a notebook in the paper profile
        computes the paper's own setting. `data/results/` takes nothing of uncommitted code.
        """
        asked = recipes.load(
            recipe or self.recipe.name, profile=profile, scenario=scenario, overrides=changes
        )
        about = {**changes, "recorded": [asked.name, asked.profile, asked.scenario]}
        asked_to = bool(os.environ.get("FEDTUTOR_RECORD"))
        keeps = asked_to or self.recipe.profile == profile == "paper"
        results, there = [], {}
        for seed in self.seeds if seeds is None else seeds:
            there[seed] = self.results.get(_key(method, seed, about)) or kept.recorded(
                asked, method, seed, folder=kept.RESULTS
            )
        left_out = SHORT_RUNS if seeds is None and any(there.values()) else ()
        for seed, found in there.items():
            key = _key(method, seed, about)
            if not found and (not compute or seed in left_out):
                continue
            if key not in self.results:
                if not found or self.recipe.recompute:
                    if keeps and not asked_to and (files := commits.uncommitted(kept.RESULTS)):
                        keeps = False  # who did not ask for it is not stopped by it
                        warnings.warn(f"not kept: {files[0]} is not committed", stacklevel=2)
                    keep = kept.RESULTS if keeps else None
                    found = self._train(asked, method, seed, folder=keep)
                self.results[key] = found
            results.append(self.results[key])
        return results

    def federation(self, method: str, seed: int = 0, **changes) -> Federation:
        """Clients, server and networks as the recipe says; `fed.method.start(fed)` is to come."""
        recipe = self._changed(changes)
        return Federation(
            self._data(recipe, seed), recipe.make(method), recipe.settings_of(method),
            seed=seed, device=self.device, threads=self.threads, artifacts=self.artifacts,
        )  # fmt: skip

    def _changed(self, changes: dict) -> recipes.Recipe:
        return self.recipe.change(changes) if changes else self.recipe

    def _data(self, recipe: recipes.Recipe, seed: int) -> scenarios.Scenario:
        """The notebook's scenario, or the one that a changed recipe or a seed asks for."""
        asked = recipe.scenario, recipe.scenario_options
        if not recipe.draws and asked == (self.recipe.scenario, self.recipe.scenario_options):
            return self.scenario
        return recipe.build(seed)

    def _train(self, recipe, method: str, seed: int, **options) -> Result:
        return train(
            recipe, method, seed=seed, scenario=self._data(recipe, seed), device=self.device,
            threads=self.threads, progress=progress(f"{method}, seed {seed}"),
            artifacts=self.artifacts, **options,
        )  # fmt: skip

    def each(self, method: str, **changes) -> list[Result]:
        """One result per seed."""
        return [self(method, seed, **changes) for seed in self.seeds]

    def all(self, **changes) -> dict[str, list[Result]]:
        """One result per seed for each of the notebook's methods."""
        return {method: self.each(method, **changes) for method in self.methods}

    def diagram(self, method: str, **changes) -> None:
        """Show who sends what in a round of `method`; `changes` as in `__call__`."""
        recipe = self._changed(changes)
        diagram(self, method, recipe, self._data(recipe, self.seeds[0]))

    def show(self, figure, description: str, *, table=None, recorded=(), seed=None) -> None:
        """`figures.show` with the line that names data, profile and seeds.

        `recorded`: the results behind the figure, where they come from `recorded`; `seed`: the one
        that a picture of a single run shows.
        """
        footer = f"{setting(recorded)} · recorded" if recorded else self.footer
        if seed is not None:
            footer = _footer([self.scenario.name], self.recipe.profile, [seed])
        figures.show(figure, description, footer=footer, table=table, recorded=bool(recorded))

    @property
    def few_seeds(self) -> list[int]:
        """The notebook's seeds for long runs: without 3 and 4, if others are among them."""
        return [seed for seed in self.seeds if seed not in SHORT_RUNS] or self.seeds

    @property
    def footer(self) -> str:
        """Data, profile and seeds: the small line under every figure."""
        return _footer([self.scenario.name], self.recipe.profile, self.seeds)


def start(names: dict, *, recipe: str) -> Run:
    """Read the parameters from the notebook's `globals()`; raise `SettingError` for a wrong one."""
    again = any(isinstance(value, Run) for value in names.values())
    if not again:  # the first run of this cell: nothing but the parameters may be there
        for name in names:
            if not name.startswith("_") and name not in KERNEL:
                choose(name, NAMES, kind="parameter", where="parameters cell")
    given = {name: parameter(name, names) for name in NAMES}
    loaded = recipes.load(
        recipe, profile=given["profile"], scenario=given["scenario"], overrides=given["overrides"]
    )
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    run = Run(
        recipe=loaded,
        scenario=loaded.build(),
        seeds=different_seeds(given["seeds"], where="parameters cell"),
        methods=different(given["methods"], where="parameters cell"),
        device=device_of(given["device"]),
        threads=min(8, cores or 1),
    )
    torch.set_num_threads(1)  # clients run in parallel instead; equal bits, see engine/workers.py
    pd.set_option("display.max_colwidth", None)  # claims are sentences
    versions = {"fedtutor": __version__, "Python": platform.python_version(),
                "torch": torch.__version__, "torchvision": version("torchvision")}  # fmt: skip
    named = " · ".join(f"{name} {value.partition('+')[0]}" for name, value in versions.items())
    on = torch.cuda.get_device_name(run.device) if run.device.startswith("cuda") else "CPU"
    print(f"environment: {named} · {on}, {run.threads} threads")
    print(f"profile: {loaded.profile} · methods: {', '.join(run.methods)} · seeds: {run.seeds}")
    print(textwrap.fill(run.scenario.describe(), 100, subsequent_indent="  "))
    return run


def progress(title: str):
    """A wrapper for the numbers of rounds: a bar in JupyterLab, silent in batch and in tests."""
    silent = bool(os.environ.get("TQDM_DISABLE")) or not os.environ.get("JPY_SESSION_NAME")
    return partial(tqdm, desc=title, unit="round", leave=False, disable=silent)


def _key(method: str, seed: int, changes: dict) -> tuple:
    written = methods.METHODS.get(method)  # a reader may write a method anew
    return method, written, seed, json.dumps(changes, sort_keys=True)


def setting(results: Sequence[Result]) -> str:
    """Data, profile and seeds of recorded results, as `Run.footer` has them for live ones."""
    names = dict.fromkeys(r.scenario["name"] for r in results)
    return _footer(names, results[0].profile, sorted({r.seed for r in results}))


def _footer(names, profile: str, seeds) -> str:
    kind = "seed" if len(seeds) == 1 else "seeds"
    return f"{', '.join(names)} · {profile} · {kind} {', '.join(map(str, seeds))}"


def parameter(name: str, names: dict):
    """A parameter's value; text that is JSON (papermill's `-p`) is read as such."""
    if name not in names:
        raise SettingError(
            f"the parameter {name!r} is missing", where="parameters cell",
            do=f"assign all six: {', '.join(NAMES)}",
        )  # fmt: skip
    value = names[name]
    if isinstance(value, str) and name in AS_JSON:
        if not re.match(r"\s*[\[{\d]", value) and "," not in value:
            return value
        try:
            return json.loads(value)
        except ValueError as error:
            raise SettingError(
                f"{name} = {value!r} is not JSON ({error})", where="parameters cell",
                do=f"write {AS_JSON[name]}",
            ) from None  # fmt: skip
    return None if name == "scenario" and value in ("", "None") else value
