"""Several methods on the same images with several seeds, side by side.

    runs = compare(["fedavg", "scaffold", Mine()], seeds=range(10), rounds=20)
    runs.table()                                     # mean, 95 % interval, n for each method
    runs.difference("mine", "fedavg", on="others")   # seed by seed, and what may be said of it
    runs.curves()

What was run once is not run again: a run is known by its method and its code, its settings, its
images, its seed and the version of this package. With `folder` runs are kept between sessions, one
line each in `runs.jsonl`; without, as long as this Python process lives.
"""

import copy
import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from . import __version__, methods, rounds, scenarios
from .difference import Difference
from .engine.checkpoints import folder_to_write
from .engine.files import key_of, shown
from .engine.own_code import fingerprint, modules_of
from .engine.workers import device_of
from .errors import DataError, DivergenceError, SettingError, StorageError, choose
from .experiments.recipes import Recipe
from .experiments.results import recorded
from .federation import Federation
from .history import OTHERS, OWN, History, long_table
from .methods import METHODS, Method
from .scenarios import Scenario
from .settings import FIELDS, Settings

FILE, UNFINISHED = "runs.jsonl", "unfinished"
ON = {"own": OWN, "others": OTHERS, OWN: OWN, OTHERS: OTHERS}
LOOKS_ONLY = ("eval_every", "observe")  # when a run is tested changes nothing that it learns
_here: dict[str, dict] = {}  # runs of this process: id -> record


@dataclass(frozen=True)
class Task:
    """One run that was asked for."""

    label: str
    method: Method
    scenario: object  # a `Scenario`; of a committed run what would build it
    settings: Settings
    seed: int
    device: str
    measure: Callable | None

    @cached_property
    def id(self) -> str:
        """The same for every run that comes to the same numbers."""
        settings = {k: v for k, v in asdict(self.settings).items() if k not in LOOKS_ONLY}
        kind = type(self.method).__qualname__
        return key_of(
            kind,
            _parameters(self.method),
            fingerprint(self.method),
            settings,
            self.scenario.fingerprint,
            self.seed,
            __version__,
        )

    @cached_property
    def measure_id(self) -> str:
        """The code of `measure`; "" where there is none."""
        return "" if self.measure is None else fingerprint(self.measure) or repr(self.measure)

    def is_answered_by(self, record: dict) -> bool:
        """Whether a record of this run was tested and measured as this task asks."""
        if record["failed"]:
            return True
        seen = {
            (at["round"], at["moment"].partition(" ")[0]) for at in record["history"]["accuracy"]
        }
        every, last = self.settings.eval_every, self.settings.rounds
        wanted = {(n, "end") for n in range(every, last + 1, every)} | {(last, "end")}
        wanted |= {(last, moment.partition(",")[0]) for moment in self.settings.observe}
        measured = not self.measure_id or self.measure_id in record["measured"]
        return wanted <= seen and measured


def compare(
    methods,
    *,
    scenario=None,
    settings=None,
    seeds: Iterable[int] = range(5),
    jobs: int | None = None,
    folder=None,
    on_round: Callable | None = None,
    measure: Callable | None = None,
    device: str = "cpu",
    **single,
) -> "Comparison":
    """Run each method with each seed, or read what is recorded, and lay the runs side by side.

    methods: names, `Method` objects, or a dict of label -> either. scenario: a name (then every
    seed draws images of its own, unless the scenario has only one draw), a `Scenario` (the same
    images for all seeds), or a function seed -> `Scenario`. settings: a `Settings`, or a recipe of
    `experiments.recipes.load`, which brings its scenario and the parameters of its methods; single
    settings by keyword, such as rounds=20, go before. jobs: processes at once, by default one per
    core; the numbers are the same for any of them. folder: where runs are kept, and where an
    interrupted one goes on. on_round(fed) is called after each round, in the process that trains.
    measure(fed) is called after the last one and returns a number, or a dict of numbers, that is
    kept with the run.

    A method that is written in a cell reaches the processes by cloudpickle; where it cannot, and
    where `on_round` or `measure` cannot, runs follow one another in this process. A run that
    diverges is a row with its reason. Raises `FedtutorError`s for anything that does not fit.
    """
    base, images = _settings(settings, scenario, single)
    named, seeds, device = _named(methods, base), _seeds(seeds), device_of(device)
    store, pairs, waiting = Store(folder), {}, {}
    for seed in seeds:
        for label, method in named.items():
            task = Task(label, method, images, _plain(base), seed, device, measure)
            if not (record := _committed(base, task)):
                task = replace(task, scenario=images.of(seed))
                record = store.find(task)
            pairs[label, seed] = task, record
            if not record:
                waiting[task.id] = task
    _play(list(waiting.values()), store, jobs, on_round)
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
        return long_table(
            ({"method": task.label, "seed": task.seed}, record["history"])
            for task, record in self._done
        )

    @cached_property
    def messages(self) -> pd.DataFrame:
        """method | seed | round | source | target | name | bytes | messages."""
        parts = [
            History(record["history"]).messages(method=task.label, seed=task.seed)
            for task, record in self._done
        ]
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()

    @cached_property
    def runs(self) -> pd.DataFrame:
        """A row per run.

        method | seed | own domain | other domains | bytes | seconds | failed | what was measured.
        Accuracies in percent after the last round, mean over clients; "other domains" is missing
        with one test set. `failed` is "" or the reason.
        """
        rows = []
        for task, record in self.pairs:
            row = {"method": task.label, "seed": task.seed, OWN: np.nan, OTHERS: np.nan}
            history, measured = record["history"], record["measured"].get(task.measure_id, {})
            if not record["failed"]:
                last = long_table([({}, {**history, "accuracy": history["accuracy"][-1:]})])
                row |= last.groupby("on", observed=True)["accuracy"].mean().to_dict()
            row["bytes"] = sum(part["bytes"] for part in history.get("bytes", []))
            row["seconds"] = sum(history.get("seconds", []))
            rows.append({**row, "failed": record["failed"], **measured})
        return pd.DataFrame(rows)

    def values(self, on: str = OWN) -> pd.DataFrame:
        """One number per seed and method: rows are seeds, columns methods.

        on: "own" or "others" (accuracy there, in percent), or the name of what was measured.
        """
        known = [*ON, *self.runs.columns[self.runs.columns.get_loc("failed") + 1 :]]
        column = ON.get(on) or choose(on, known, kind="side or measure", where="Comparison")
        wide = self.runs.pivot(index="seed", columns="method", values=column)
        return wide[list(dict.fromkeys(self.runs["method"]))]

    def table(self, on: str = OWN) -> pd.DataFrame:
        """A row per method: mean | low | high | n | failed, low to high being the 95 % interval.

        Numbers are numbers: `.round(1)`, `.to_csv()`, `.to_markdown()`, `.to_latex()` follow. With
        one seed there is no interval.
        """
        rows = {}
        for method, values in self.values(on).items():
            found = Difference(values.dropna()) if values.notna().any() else None
            low, high = found.interval() if found and found.n > 1 else (np.nan, np.nan)
            mean, n = (found.mean, found.n) if found else (np.nan, 0)
            bad = self.runs[(self.runs["method"] == method) & (self.runs["failed"] != "")]
            rows[method] = {"mean": mean, "low": low, "high": high, "n": n, "failed": len(bad)}
        frame = pd.DataFrame.from_dict(rows, orient="index").rename_axis("method")
        return frame.astype({"n": int, "failed": int})

    def difference(self, a: str, b: str, on: str = OWN, **about) -> Difference:
        """`a` minus `b`, of the seeds that both have; see `Difference` for `about`.

        Raises `SettingError` for a method that was not compared, and where no seed has both.
        """
        values = self.values(on)
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
        return Difference(tuple(both), a, b, **({"on": ON.get(on, on)} | plain | about))

    def curves(self, on: str = OWN):
        """Accuracy over rounds with 95 % bands, as a figure; see `plots.curves`."""
        from .plots import curves

        return curves(self, on=on)

    def differences(self, over: str, on: str = OWN):
        """Every method minus `over`, as a figure; see `plots.differences`."""
        from .plots import differences

        return differences(self, over=over, on=on)

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
        given = given.change(single) if single else given
        options = given.scenario_options if scenario is None else {}
        return given, Images(given.scenario if scenario is None else scenario, options)
    if not isinstance(given, Settings | None):
        raise SettingError(f"settings = {given!r}", where="compare", do="give Settings(rounds=3)")
    base = replace(given, **single) if given else Settings(**single)
    return base, Images("digits-mini" if scenario is None else scenario)


def _plain(base) -> Settings:
    return base.settings if isinstance(base, Recipe) else base


def _committed(base, task: Task) -> dict | None:
    """What `data/results` holds of a run of a recipe; nobody needs its images for that."""
    usual = isinstance(base, Recipe) and task.scenario.options == base.scenario_options
    if not usual or task.measure or task.label != task.method.name:
        return None
    if (found := recorded(base, task.label, task.seed)) is None:
        return None
    return {"failed": "", "history": found.history, "measured": {}}


def _seeds(given) -> list[int]:
    seeds = [given] if isinstance(given, int) else list(given)
    right = all(isinstance(s, int | np.integer) and s >= 0 for s in seeds)
    if not seeds or not right or len(set(seeds)) < len(seeds):
        raise SettingError(
            f"seeds = {given!r}",
            where="compare",
            do="give different whole numbers from 0, such as range(5)",
        )
    return [int(seed) for seed in seeds]


class Images:
    """The scenario of each seed, built when it is asked for."""

    def __init__(self, given, options: dict | None = None):
        self.given, self.options, self.built = given, options, {}
        self.draws = options is None and "split_seed" in (
            scenarios.options(given) if isinstance(given, str) else ()
        )

    def of(self, seed: int) -> Scenario:
        if isinstance(self.given, Scenario):
            return self.given
        key = seed if self.draws or callable(self.given) else None
        if key not in self.built:
            self.built[key] = self._build(seed)
        return self.built[key]

    def _build(self, seed: int) -> Scenario:
        if not callable(self.given):
            drawn = {"split_seed": seed} if self.draws else {}
            return scenarios.build(self.given, **(self.options or {}), **drawn)
        if not isinstance(found := self.given(seed), Scenario):
            raise DataError(
                f"{found!r} is no scenario",
                where="compare",
                do="give a name, a Scenario, or a function of the seed",
            )
        return found


def _parameters(method: Method) -> dict:
    return asdict(method) if is_dataclass(method) else dict(vars(method))


# --- the store


class Store:
    """Records of runs: those of this process, and the lines of a folder.

    A record has id, failed (the reason, or ""), history, measured (code of a measure -> numbers),
    and for a reader of the file what it was: method, parameters, settings, scenario, seed, device.
    """

    def __init__(self, folder):
        self.folder = None if folder is None else folder_to_write(folder, "folder")
        self.found = _here if folder is None else self._lines()

    def find(self, task: Task) -> dict | None:
        """The record of a run, if it was tested and measured as the task asks."""
        record = self.found.get(task.id)
        return record if record and task.is_answered_by(record) else None

    def checkpoint(self, task: Task) -> Path | None:
        """Where a run that is under way keeps its state."""
        return self.folder and self.folder / UNFINISHED / task.id

    def keep(self, record: dict) -> None:
        """Enter a record; a newer one of the same run takes its place and keeps its measures."""
        before = self.found.get(record["id"], {})
        record["measured"] = before.get("measured", {}) | record["measured"]
        self.found[record["id"]] = record
        if self.folder:
            line = json.dumps(record, sort_keys=True, allow_nan=False) + "\n"
            self.folder.mkdir(parents=True, exist_ok=True)
            with (
                _locked(self.folder / FILE),
                open(self.folder / FILE, "a", encoding="utf-8") as file,
            ):
                file.write(line)

    def _lines(self) -> dict[str, dict]:
        """The last line of each run; a line that was cut short by a kill is no run."""
        path, found = self.folder / FILE, {}
        if not path.exists():
            return found
        lines = path.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, start=1):
            try:
                record = json.loads(line)
                found[record["id"]] = record
            except (ValueError, KeyError, TypeError) as error:
                if number < len(lines):
                    raise StorageError(
                        f"line {number} is damaged ({error})",
                        where=shown(path),
                        do="delete that line; its run is run again",
                    ) from None
                with _locked(path):  # the next line must not be glued to it
                    whole = "".join(f"{line}\n" for line in lines[:-1])
                    path.write_text(whole, encoding="utf-8")
        return found


def _locked(path: Path):
    from filelock import FileLock

    return FileLock(path.with_suffix(".lock"))


# --- the runs


def _play(tasks: list[Task], store: Store, jobs: int | None, on_round: Callable | None) -> None:
    """Run what is missing, and keep each run as it ends."""
    if not tasks:
        return
    cores = os.cpu_count() or 1
    jobs = min(cores if jobs is None else jobs, len(tasks))
    if type(jobs) is not int or jobs < 1:
        raise SettingError(f"jobs = {jobs!r}", where="compare", do="give a whole number from 1")
    packed = _packed(tasks, store, on_round, max(1, cores // jobs)) if jobs > 1 else None
    with _bar(len(tasks)) as bar:
        if packed:
            import joblib

            pool = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
            for record in pool(joblib.delayed(_unpacked)(text) for text in packed):
                store.keep(record)
                bar.update()
        else:
            for task in tasks:
                store.keep(_train(task, store.checkpoint(task), on_round, cores))
                bar.update()
    for task in tasks:
        if place := store.checkpoint(task):
            shutil.rmtree(place, ignore_errors=True)


def _packed(tasks, store, on_round, threads: int) -> list[bytes] | None:
    """What the processes need, as bytes; None where something cannot leave this process."""
    import cloudpickle

    for task in tasks:
        for module in modules_of(type(task.method)):
            cloudpickle.register_pickle_by_value(module)
    try:
        return [cloudpickle.dumps((t, store.checkpoint(t), on_round, threads)) for t in tasks]
    except Exception as error:  # whatever a reader's object raises
        warnings.warn(
            "runs follow one another, because something cannot be sent to another process "
            f"({type(error).__name__}: {error})",
            UserWarning,
            stacklevel=4,
        )
        return None


def _unpacked(text: bytes) -> dict:
    import cloudpickle
    import torch

    task, place, on_round, threads = cloudpickle.loads(text)
    torch.set_num_threads(1)
    return _train(task, place, on_round, threads)


def _train(task: Task, place, on_round, threads: int) -> dict:
    """The record of one run."""
    method = copy.copy(task.method)
    method.name = task.label  # what lines and errors call it
    fed = Federation(
        task.scenario, method, task.settings, seed=task.seed, device=task.device, threads=threads
    )
    failed, measured = "", {}
    try:
        rounds.run(fed, checkpoint=place, every=60.0, on_round=on_round)
        if task.measure:
            measured = {task.measure_id: _numbers(task.measure(fed), task.measure)}
    except DivergenceError as error:
        failed = f"{error.what} ({error.where})"
    scenario = task.scenario
    return {
        "id": task.id,
        "failed": failed,
        "history": {} if failed else dict(fed.history),
        "measured": measured,
        "method": task.label,
        "parameters": json.loads(json.dumps(_parameters(task.method), default=repr)),
        "settings": asdict(task.settings),
        "seed": task.seed,
        "device": str(task.device),
        "scenario": {
            "name": scenario.name,
            "title": scenario.title,
            "stand_in": scenario.stand_in,
            "fingerprint": scenario.fingerprint,
        },
        "fedtutor": __version__,
    }


def _numbers(found, measure) -> dict[str, float]:
    """What `measure` returned, as name -> number."""
    name = getattr(measure, "__name__", "measured")
    found = found if isinstance(found, Mapping) else {name: found}
    try:
        return {str(key): float(value) for key, value in found.items()}
    except (TypeError, ValueError):
        raise SettingError(
            f"{name} returned {found!r}",
            where="compare, measure=",
            do="return a number, or a dict of numbers",
        ) from None


def _bar(total: int):
    """A bar in JupyterLab; in a terminal `rounds.run` prints; elsewhere nothing is shown."""
    from tqdm.auto import tqdm

    silent = "TQDM_DISABLE" in os.environ or "JPY_SESSION_NAME" not in os.environ
    return tqdm(total=total, unit="run", leave=False, disable=silent)
