"""One run of a comparison: what identifies it, where its record is kept, how it is run.

`comparison.py` says which runs there are. A record is a line of JSON in `runs.jsonl`, or, without a
folder, an entry of a dict that lives as long as this Python process.
"""

import copy
import json
import os
import shutil
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, is_dataclass
from functools import cached_property
from pathlib import Path

from . import __version__, rounds
from .engine.checkpoints import folder_to_write
from .engine.files import key_of, shown
from .engine.own_code import fingerprint, is_readers, modules_of
from .errors import DivergenceError, SettingError, StorageError
from .federation import Federation
from .methods import Method
from .models import MODELS, Architecture
from .settings import LAST, Settings

FILE, UNFINISHED = "runs.jsonl", "unfinished"
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
        # A setting with its default does not count: one that comes later changes no identity
        usual, given = asdict(Settings()), asdict(self.settings)
        settings = {k: v for k, v in given.items() if k not in LOOKS_ONLY and v != usual[k]}
        kind = type(self.method).__qualname__
        return key_of(
            kind,
            parameters(self.method),
            self.code,
            settings,
            self.scenario.fingerprint,
            self.seed,
            __version__,
        )

    @cached_property
    def code(self) -> str:
        """The reader's: of the method, of hooks that were set in it, and of networks."""
        hooks = [value for value in vars(self.method).values() if callable(value)]
        return fingerprint(self.method, *hooks, *(n.features for n in self.networks.values()))

    @property
    def networks(self) -> dict[str, Architecture]:
        """The reader's own among the networks that the settings name."""
        known = {name: MODELS[name] for name in self.settings.models if name in MODELS}
        return {name: own for name, own in known.items() if is_readers(own.features)}

    @cached_property
    def measure_id(self) -> str:
        """The code of `measure`; "" where there is none."""
        return "" if self.measure is None else fingerprint(self.measure) or repr(self.measure)

    def is_answered_by(self, record: dict) -> bool:
        """Whether a record of this run was tested and measured as this task asks."""
        if record["failed"]:
            return True
        seen = {(at["round"], at["moment"]) for at in record["history"]["accuracy"]}
        every, last = self.settings.eval_every, self.settings.rounds
        wanted = {(n, "end") for n in range(every, last + 1, every)} | {(last, "end")}
        for moment in self.settings.observe:
            only, at, _ = moment.partition(LAST)
            wanted |= {(n, only) for n in ([last] if at else range(1, last + 1))}
        measured = not self.measure_id or self.measure_id in record["measured"]
        return wanted <= seen and measured


def parameters(method: Method) -> dict:
    plain = {key: value for key, value in vars(method).items() if not callable(value)}
    return plain | (asdict(method) if is_dataclass(method) else {})


# --- the store


class Store:
    """Records of runs: those of this process, and the lines of a folder.

    A record has id, failed (the reason, or ""), history, measured (code of a measure -> numbers),
    and for a reader of the file what it was: method, parameters, settings, scenario, seed, device.
    """

    def __init__(self, folder, recorded=None):
        self.folder = None if folder is None else folder_to_write(folder, "folder")
        self.found = _here if folder is None else lines_of(self.folder / FILE)
        self.recorded = recorded and Path(recorded)
        self.committed = {}
        if recorded:
            self.committed = lines_of(self.recorded, shared="FEDTUTOR_RECORD" in os.environ)

    def find(self, task: Task) -> dict | None:
        """The record of a run, if it was tested and measured as the task asks."""
        both = self.found.get(task.id), self.committed.get(task.id)
        record = next((r for r in both if r and task.is_answered_by(r)), None)
        if record and not (both[1] and task.is_answered_by(both[1])):
            self._commit(record)  # of this process, or of the folder
        return record

    def checkpoint(self, task: Task) -> Path | None:
        """Where a run that is under way keeps its state."""
        looks = [task.label, *(getattr(task.settings, name) for name in LOOKS_ONLY)]
        return self.folder and self.folder / UNFINISHED / f"{task.id}-{key_of(*looks)}"

    def keep(self, record: dict) -> None:
        """Enter a record; a newer one of the same run takes its place and keeps its measures."""
        for known in (self.found, self.committed):
            before = known.get(record["id"], {})
            record["measured"] = before.get("measured", {}) | record["measured"]
        self.found[record["id"]] = record
        if self.folder:
            _append(self.folder / FILE, record)
        self._commit(record)

    def _commit(self, record: dict) -> None:
        """Enter it in the file that is committed, where somebody records."""
        if self.recorded and "FEDTUTOR_RECORD" in os.environ:
            self.committed[record["id"]] = record
            _append(self.recorded, record)


def lines_of(path: Path, *, shared: bool = True) -> dict[str, dict]:
    """The last line of each run; a line that was cut short by a kill is no run.

    shared: whether another process may be writing to the file.
    """
    found = {}
    if not path.exists():
        return found
    with _locked(path) if shared else nullcontext():  # nobody writes a line while it is read
        text = path.read_text(encoding="utf-8")
        if text and not text.endswith("\n"):  # the next line must not be glued to it
            text = text[: text.rfind("\n") + 1]
            if shared:
                path.write_text(text, encoding="utf-8")
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
            found[record["id"]] = record
        except (ValueError, KeyError, TypeError) as error:
            raise StorageError(
                f"line {number} is damaged ({error})",
                where=shown(path),
                do="delete that line; its run is run again",
            ) from None
    return found


def _append(path: Path, record: dict) -> None:
    line = json.dumps(record, sort_keys=True) + "\n"  # a measure may be NaN
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path), open(path, "a", encoding="utf-8") as file:
        file.write(line)


def _locked(path: Path):
    from filelock import FileLock

    return FileLock(path.with_suffix(".lock"))


# --- the runs


def play(tasks: list[Task], store: Store, jobs: int | None, on_round: Callable | None) -> None:
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
                store.keep(train(task, store.checkpoint(task), on_round, cores))
                bar.update()
    for task in tasks:
        if place := store.checkpoint(task):
            shutil.rmtree(place, ignore_errors=True)
    if store.folder and (left := store.folder / UNFINISHED).is_dir() and not any(left.iterdir()):
        left.rmdir()


def _packed(tasks, store, on_round, threads: int) -> list[bytes] | None:
    """What the processes need, as bytes; None where something cannot leave this process."""
    import cloudpickle

    for task in tasks:
        own = [network.features for network in task.networks.values()]
        for thing in (type(task.method), task.measure, on_round, *own):
            for module in modules_of(thing):
                cloudpickle.register_pickle_by_value(module)
    try:
        return [
            cloudpickle.dumps((t, t.networks, store.checkpoint(t), on_round, threads))
            for t in tasks
        ]
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

    task, networks, place, on_round, threads = cloudpickle.loads(text)
    MODELS.update(networks)
    torch.set_num_threads(1)
    return train(task, place, on_round, threads)


def train(task: Task, place, on_round, threads: int) -> dict:
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
            measured = {task.measure_id: numbers(task.measure(fed), task.measure)}
    except DivergenceError as error:
        failed = f"{error.what} ({error.where})"
    scenario = task.scenario
    return {
        "id": task.id,
        "failed": failed,
        "history": {} if failed else dict(fed.history),
        "measured": measured,
        "method": task.label,
        "parameters": json.loads(json.dumps(parameters(task.method), default=repr)),
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


def numbers(found, measure) -> dict[str, float]:
    """What `measure` returned, as name -> number."""
    name = getattr(measure, "__name__", "measured")
    named = found if isinstance(found, Mapping) else {name: found}
    try:
        return {str(key): float(value) for key, value in named.items()}
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
