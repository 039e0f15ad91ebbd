"""Several methods on the same images with several seeds, side by side.

    runs = compare(["fedavg", "scaffold", Mine()], seeds=range(10), rounds=20)
    runs.table()                                     # mean, 95 % interval, n for each method
    runs.difference("mine", "fedavg", on="others")   # seed by seed, and what may be said of it
    runs.curves()

What was run once is not run again: a run is known by its method and its code, its settings, its
images, its seed and the version of this package. With `folder` runs are kept between sessions, one
line each in `runs.jsonl`; without, as long as this Python process lives.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pandas as pd

from . import methods, scenarios
from .difference import Difference
from .engine.files import shown
from .engine.workers import device_of
from .errors import DataError, SettingError, StorageError, choose, whole
from .experiments import results
from .experiments.recipes import DRAWN, SPLIT, Recipe
from .history import MESSAGES, ON, OTHERS, OWN, History, long_table
from .methods import METHODS, Method
from .scenarios import Scenario
from .settings import FIELDS, Settings
from .tasks import Store, Task, play


def compare(
    methods,
    *,
    scenario=None,
    settings=None,
    seeds: Iterable[int] = range(5),
    jobs: int | None = None,
    folder=None,
    recorded=None,
    on_round: Callable | None = None,
    measure: Callable | None = None,
    device: str = "cpu",
    **single,
) -> "Comparison":
    """Run each method with each seed, or read what is recorded, and lay the runs side by side.

    methods: names, `Method` objects, or a dict of label -> either. scenario: a name (then every
    seed draws private images of its own, unless the scenario has only one draw), a `Scenario`
    (the same images for all seeds), or a function seed -> `Scenario`. settings: a `Settings`,
    or a recipe of `experiments.recipes.load`, which brings its scenario and the parameters of
    its methods, and what it has of another scenario that is named; single settings by keyword,
    such as rounds=20, go before. jobs: processes at once, by default one per core; the numbers
    are the same for any of them. folder: where runs are kept, and where an interrupted one goes
    on. recorded: a file of such lines that is read, too, and written only where the environment
    variable FEDTUTOR_RECORD is set; a lesson commits it, and where FEDTUTOR_VALIDATE is set it must
    hold every run. on_round(fed) is called after each round, in the process that trains.
    measure(fed) is called after the last one and returns a number, or a dict of numbers, that is
    kept with the run.

    A method that is written in a cell reaches the processes by cloudpickle; where it cannot,
    and where `on_round` or `measure` cannot, runs follow one another in this process. A run
    that diverges is a row with its reason. Raises `FedtutorError`s for anything that does not
    fit.
    """
    base, images = _settings(settings, scenario, single)
    named, seeds, device = _named(methods, base), different_seeds(seeds), device_of(device)
    store, pairs, waiting = Store(folder, recorded), {}, {}
    for seed in seeds:
        for label, method in named.items():
            task = Task(label, method, images, _plain(base, method), seed, device, measure)
            if not (record := _committed(base, task)):
                task = replace(task, scenario=images.of(seed))
                record = store.find(task)
            pairs[label, seed] = task, record
            if not record:
                _ = task.measure_id  # as `id`, computed here: a process has no cell to read
                waiting[task.id] = task
    if waiting and recorded and "FEDTUTOR_VALIDATE" in os.environ:
        raise StorageError(
            f"{len(waiting)} of {len(pairs)} runs, as they are asked for now, are not in it",
            where=shown(recorded),
            do="execute the lesson with FEDTUTOR_RECORD=1",
        )
    play(list(waiting.values()), store, jobs, on_round)
    order = [(label, seed) for label in named for seed in seeds]
    return Comparison(
        [(task, record or store.find(task)) for task, record in map(pairs.get, order)]
    )


@dataclass
class Comparison:
    """What `compare` returns: runs of several methods with the same seeds."""

    pairs: list[tuple[Task, dict]] = field(repr=False)

    @cached_property
    def history(self) -> pd.DataFrame:
        """The long table: method | seed | round | moment | epoch | client | test | on | accuracy.

        See `History.accuracies`. Runs that diverged have no rows.
        """
        found = long_table(
            ({"method": task.label, "seed": task.seed}, record["history"])
            for task, record in self._done
        )
        return found if self._done else found.reindex(columns=["method", "seed", *found.columns])

    @cached_property
    def messages(self) -> pd.DataFrame:
        """method | seed | round | source | target | name | bytes | messages."""
        parts = [
            History(record["history"]).messages(method=task.label, seed=task.seed)
            for task, record in self._done
        ]
        nothing = pd.DataFrame(columns=["method", "seed", *MESSAGES])
        return pd.concat(parts, ignore_index=True) if parts else nothing

    @cached_property
    def runs(self) -> pd.DataFrame:
        """A row per run.

        method | seed | own domain | other domains | bytes | seconds | failed | what was measured.
        Accuracies in percent after the last round, mean over clients; "other domains" is missing
        with one test set. `failed` is "" or the reason. With the setting `top` an accuracy is
        top-`top`.
        """
        return self._runs(1)

    def _runs(self, last: int) -> pd.DataFrame:
        """`runs`, accuracies as the mean over the `last` evaluated rounds."""
        whole("last", last, 1, "Comparison")
        rows = []
        for task, record in self.pairs:
            row = {"method": task.label, "seed": task.seed, OWN: np.nan, OTHERS: np.nan}
            history, measured = record["history"], record["measured"].get(task.measure_id, {})
            if not record["failed"]:
                ends = [e for e in history["accuracy"] if e["moment"] == "end" and e["round"]]
                if len(ends) < last:
                    raise SettingError(
                        f"last = {last}, but {task.label} was evaluated after {len(ends)} rounds",
                        where="Comparison",
                        do="give fewer, or run more rounds, with a smaller eval_every",
                    )
                found = long_table([({}, {**history, "accuracy": ends[-last:]})])
                row |= found.groupby("on", observed=True)["accuracy"].mean().to_dict()
            row["bytes"] = sum(part["bytes"] for part in history.get("bytes", []))
            row["seconds"] = sum(history.get("seconds", []))
            rows.append({**row, "failed": record["failed"], **measured})
        return pd.DataFrame(rows)

    def values(self, on: str = OWN, *, last: int = 1) -> pd.DataFrame:
        """One number per seed and method: rows are seeds, columns methods.

        on: "own" or "others" (accuracy there, in percent), or the name of what was measured.
        last: accuracies are means over so many of the last evaluated rounds (FCCL+ Table VIII:
        three); `SettingError` where fewer were evaluated.
        """
        known = [*ON, *self.runs.columns[self.runs.columns.get_loc("failed") + 1 :]]
        column = ON.get(on) or choose(on, known, kind="side or measure", where="Comparison")
        runs = self._runs(last) if column in ON.values() else self.runs
        wide = runs.pivot(index="seed", columns="method", values=column)
        return wide[list(dict.fromkeys(self.runs["method"]))]

    def table(self, on: str = OWN, *, last: int = 1) -> pd.DataFrame:
        """A row per method: mean | low | high | n | failed, low to high being the 95 % interval.

        on, last: as for `values`. Numbers are numbers: `.round(1)`, `.to_csv()`, `.to_markdown()`,
        `.to_latex()` follow. With one seed there is no interval.
        """
        rows = {}
        for method, values in self.values(on, last=last).items():
            found = Difference(values.dropna()) if values.notna().any() else None
            low, high = found.interval() if found and found.n > 1 else (np.nan, np.nan)
            mean, n = (found.mean, found.n) if found else (np.nan, 0)
            bad = self.runs[(self.runs["method"] == method) & (self.runs["failed"] != "")]
            rows[method] = {"mean": mean, "low": low, "high": high, "n": n, "failed": len(bad)}
        frame = pd.DataFrame.from_dict(rows, orient="index").rename_axis("method")
        return frame.astype({"n": int, "failed": int})

    def difference(self, a: str, b: str, on: str = OWN, *, last: int = 1, **about) -> Difference:
        """`a` minus `b`, of the seeds that both have; see `Difference` for `about`.

        on, last: as for `values`. Raises `SettingError` for a method that was not compared, and
        where no seed has both.
        """
        values = self.values(on, last=last)
        for name in (a, b):
            choose(name, list(values), kind="method", where="Comparison.difference")
        both = (values[a] - values[b]).dropna()
        if both.empty:
            raise SettingError(
                f"no seed has numbers of both {a!r} and {b!r}",
                where="Comparison.difference",
                do="look at .runs: its column 'failed' has the reasons",
            )
        plain = {} if on in ON else {"unit": "", "margin": None}
        setting, stand_in = self.setting
        given = {"on": ON.get(on, on), "setting": setting, "stand_in": stand_in}
        return Difference(tuple(both), a, b, **(given | plain | about))

    @property
    def setting(self) -> tuple[str, bool]:
        """(images, rounds and seeds in words, whether the images are not the paper's)."""
        task = self.pairs[0][0]
        seeds = ", ".join(str(seed) for seed in dict.fromkeys(t.seed for t, _ in self.pairs))
        words = f"{task.scenario.name}, {task.settings.rounds} rounds, seeds {seeds}"
        words += f", top-{task.settings.top} accuracy" * (task.settings.top > 1)
        return words, task.scenario.stand_in

    def curves(self, on: str | Sequence[str] = OWN, **look):
        """Accuracy over rounds with 95 % bands, as a figure; see `plots.curves`."""
        from .plots import curves

        return curves(self, on, **look)

    def differences(self, over: str, on: str | Sequence[str] = OWN, **look):
        """Every method minus `over`, as a figure; see `plots.differences`."""
        from .plots import differences

        return differences(self, over, on, **look)

    @property
    def _done(self) -> list[tuple[Task, dict]]:
        return [(task, record) for task, record in self.pairs if not record["failed"]]


# --- what was asked for


def _named(given, base) -> dict[str, Method]:
    """Label -> method."""
    make = base.make if isinstance(base, Recipe) else methods.make
    if isinstance(given, str | Method | type):
        given = [given]
    if not isinstance(given, Mapping | Sequence) or not len(given):
        raise SettingError(f"methods = {given!r}", where="compare", do='give ["fedavg", Mine()]')
    pairs = given.items() if isinstance(given, Mapping) else [(None, one) for one in given]
    found = {}
    for label, one in pairs:
        one = make(one) if isinstance(one, str) else one() if isinstance(one, type) else one
        if not isinstance(one, Method):
            raise SettingError(
                f"{one!r} is no method",
                where="compare",
                do="give a name, or an object of a class that extends Method",
            )
        known = METHODS.get(one.name) is type(one)  # else the name is that of a class it extends
        label = label or (one.name if known else type(one).__name__.lower())
        if label in found:
            raise SettingError(
                f"two methods are called {label!r}",
                where="compare",
                do='name them yourself: {"mu 0.1": methods.make("fedprox", mu=0.1), ...}',
            )
        found[label] = one
    return found


def _settings(given, scenario, single: dict) -> tuple[object, "Images"]:
    """Settings or a recipe, single settings set in it, and what says which images there are."""
    for key in single:
        choose(key, FIELDS, kind="setting", where="compare")
    if isinstance(given, Recipe):
        name = scenario if isinstance(scenario, str) else given.scenario
        given = given.change(single, scenario=name)
        if scenario is None or isinstance(scenario, str):
            return given, Images(name, given.scenario_options)
        return given, Images(scenario)
    if not isinstance(given, Settings | None):
        raise SettingError(f"settings = {given!r}", where="compare", do="give Settings(rounds=3)")
    base = replace(given, **single) if given else Settings(**single)
    return base, Images("digits-mini" if scenario is None else scenario)


def _plain(base, method: Method) -> Settings:
    """The settings; of a recipe with the learning rate that it has for this method."""
    if not isinstance(base, Recipe):
        return base
    registered = METHODS.get(method.name) is type(method)  # else it is one that extends that
    return base.settings_of(method.name) if registered else base.settings


def _committed(base, task: Task) -> dict | None:
    """What `data/results` holds of a run of a recipe; nobody needs its images for that."""
    usual = isinstance(base, Recipe) and task.scenario.options == base.scenario_options
    if not usual or task.measure or task.label not in METHODS or task.code:
        return None
    if task.method != base.make(task.label):  # other parameters than those of the recipe
        return None
    if (found := results.recorded(base, task.label, task.seed)) is None:
        return None
    return {"failed": "", "history": found.history, "measured": {}}


def different_seeds(given, *, where: str = "compare") -> list[int]:
    """The seeds; raises `SettingError` unless they are different whole numbers from 0."""
    seeds = list(given) if isinstance(given, Iterable) else [given]
    right = all(isinstance(s, int | np.integer) and type(s) is not bool and s >= 0 for s in seeds)
    if not seeds or not right or len(set(seeds)) < len(seeds):
        raise SettingError(
            f"seeds = {given!r}",
            where=where,
            do="give different whole numbers from 0, such as [0, 1, 2]",
        )
    return [int(seed) for seed in seeds]


class Images:
    """The scenario of each seed, built when it is asked for."""

    def __init__(self, given, options: dict | None = None):
        self.given, self.options, self.built = given, options, {}
        if options is None and isinstance(given, str) and SPLIT in scenarios.options(given):
            self.options = {SPLIT: DRAWN}
        self.draws = (self.options or {}).get(SPLIT) == DRAWN

    @property
    def name(self) -> str:
        return self.given if isinstance(self.given, str) else self.of(0).name

    @property
    def stand_in(self) -> bool:
        """Of committed runs, as their recipe's scenario has it."""
        return self.of(0).stand_in

    def of(self, seed: int) -> Scenario:
        if isinstance(self.given, Scenario):
            return self.given
        key = seed if self.draws or callable(self.given) else None
        if key not in self.built:
            self.built[key] = self._build(seed)
        return self.built[key]

    def _build(self, seed: int) -> Scenario:
        if not callable(self.given):
            drawn = {SPLIT: seed} if self.draws else {}
            return scenarios.build(self.given, **{**(self.options or {}), **drawn})
        if not isinstance(found := self.given(seed), Scenario):
            raise DataError(
                f"{found!r} is no scenario",
                where="compare",
                do="give a name, a Scenario, or a function of the seed",
            )
        return found
