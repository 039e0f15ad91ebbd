"""Recipes in, results and claims out: what was measured, beside what a paper reports.

- `run`, `run_all`: train a method as a recipe says and keep the result as JSON.
- `summary`: results of several methods and seeds as one table.
- `check` (checks.py): the cell that shows that the code *is* the equation.
- `Claims` (claims.py): a paper's claims, what we measured for each, and a verdict.

The last round is the headline of a result. The best round is beside it, under that name.
"""

import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, fields
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from .. import __version__, methods, rounds, scenarios
from ..engine.checkpoints import Checkpoints
from ..engine.counting import Work
from ..engine.files import ROOT, damaged, load_json, save_json, shown
from ..engine.workers import device_of
from ..errors import SettingError, StorageError, choose
from ..federation import Federation
from ..measures import inter, intra
from ..notebook.check import CheckError, check
from ..papers.verdicts import Claims, claims_of, published_table, verdict, verdicts_in
from ..settings import Settings
from . import stale
from .commits import commit, git_commit, require_committed
from .recipes import Recipe, scenario_options_of

__all__ = [
    "RESULTS", "CheckError", "Claims", "Result", "accuracies", "check", "claims_of", "environment",
    "git_commit", "headlines", "load_result", "made_by", "matrices", "peak_memory",
    "published_table", "recorded", "result", "result_path", "run", "run_all", "save_result",
    "summary", "verdict", "verdicts_in",
]  # fmt: skip

RESULTS = ROOT / "data" / "results"
SAVE_EVERY = 120.0  # seconds between checkpoints
CAPS = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS", "MKL_CBWR")
FORMAT = 1  # of a result file; a change of what a key means is a new format
PARTS = {
    "scenario": ("name", "title", "options", "stand_in", "fingerprint"),
    "environment": ("fedtutor", "python", "torch", "numpy", "device", "threads", "git"),
    "history": ("clients", "domains", "tests", "accuracy", "loss", "bytes", "seconds"),
    "totals": ("seconds", "peak_memory", "bytes"),
}


@dataclass(frozen=True)
class Result:
    """One run: a method on a scenario with one seed. Everything is plain, ready for JSON."""

    recipe: str
    paper: str
    profile: str
    scenario: dict  # name, title, options, stand_in, fingerprint
    method: str
    parameters: dict  # all parameters of the method
    settings: dict  # all settings, resolved
    overrides: dict  # what differs from the recipe, as given
    seed: int
    environment: dict  # versions, processor, device, threads, git commit, code (`code_hash.py`)
    history: dict  # accuracy matrices, losses, bytes, seconds, per round
    headline: dict  # the last round: round, intra, inter, worst
    best: dict  # the round with the highest intra-domain accuracy, the same keys
    totals: dict  # seconds, peak_memory, bytes (up, down, peer); work and start, see `result`


def run(recipe: Recipe, method: str, *, seed: int, scenario=None, device="cpu",
        threads: int | None = None, progress: Callable | None = None, watch: Callable | None = None,
        folder=None, checkpoint=None, artifacts=None) -> Result:  # fmt: skip
    """Train `method` as `recipe` says and return the result.

    `scenario` is the recipe's scenario where it is already built; `threads` defaults to one per
    core; `progress` wraps the numbers of the rounds; `watch(fed)` is called before the first round
    and after each; `folder` (e.g. `RESULTS`) keeps the result, `checkpoint` (a folder, or
    `Checkpoints`) the state of the run, from which it goes on, `artifacts` (a folder or a dict)
    what runs can share, such as pretrained networks. Raises `FedtutorError`s; a `folder` below
    `data/` takes no result of uncommitted code.
    """
    device = device_of(device)
    if folder is not None:
        require_committed(folder)
    if scenario is None:
        scenario = scenarios.build(recipe.scenario, **recipe.scenario_options)
    if scenario.name != recipe.scenario:
        raise SettingError(
            f"the data are {scenario.name!r}, the recipe asks for {recipe.scenario!r}",
            where=f"run of {method}", do="build the recipe's scenario, or load another recipe",
        )  # fmt: skip
    threads = threads or os.cpu_count() or 1
    parameters = _parameters(recipe, method)
    about = made_by(recipe, method, device, threads)  # now: the code may be edited while it runs
    if checkpoint is not None and not isinstance(checkpoint, Checkpoints):
        checkpoint = Checkpoints(checkpoint, every=SAVE_EVERY)
    if checkpoint is not None:
        checkpoint.code = about["code"]["hash"]
    if torch.device(device).type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    fed = Federation(
        scenario, methods.make(method, **parameters), recipe.settings,
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
    if played[:1] == [1]:
        counted["work"] = work.as_dict()
        counted["start"] = {**start.as_dict(), "peak_memory": resident}
    measured = result(
        recipe, method, seed=seed, scenario=scenario, history=history, device=device,
        threads=threads, about=about, **counted,
    )  # fmt: skip
    if folder is not None:
        save_result(measured, result_path(recipe, method, seed, folder=folder))
    return measured


def run_all(recipe: Recipe, names: Sequence[str], seeds: Sequence[int], *, scenario=None,
            device="cpu", threads: int | None = None, progress: Callable | None = None,
            folder=None, checkpoint=None, artifacts=None) -> list[Result]:  # fmt: skip
    """`run` for every method and seed, method by method.

    With `folder`, a result that lies there is read and not run again, if its settings, parameters
    and data are those of the recipe, its code is that of today as far as it is known, and the
    recipe does not say `recompute`. With `checkpoint` too, each run keeps its state in a folder
    below it until its result is written.
    """
    names = different(names, where="run_all")
    if scenario is None:
        scenario = scenarios.build(recipe.scenario, **recipe.scenario_options)
    results = []
    for method, seed in [(method, seed) for method in names for seed in seeds]:
        path = result_path(recipe, method, seed, folder=folder or RESULTS)
        if folder is not None and not recipe.recompute:
            found = recorded(recipe, method, seed, folder=folder, warn=False)
            same = found and found.scenario["fingerprint"] == scenario.fingerprint
            if same and not stale.is_stale(found):
                results.append(found)
                continue
        own = Path(checkpoint) / path.stem if checkpoint else None
        results.append(run(recipe, method, seed=seed, scenario=scenario, device=device,
                           threads=threads, progress=progress, folder=folder, checkpoint=own,
                           artifacts=artifacts))  # fmt: skip
        if folder is not None:
            for file in Checkpoints(own, every=0).files():
                file.unlink()
    return results


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


def recorded(recipe: Recipe, method: str, seed: int, *, folder=RESULTS,
             warn: bool = True) -> Result | None:  # fmt: skip
    """What `folder` keeps of this run; None where there is nothing, or of other settings.

    An option that is younger than the file counts as its default. The data are not looked at, so
    that a result can be read where they are absent. One that other code recorded is read, with a
    warning that says so.
    """
    path = result_path(recipe, method, seed, folder=folder)
    if not path.exists():
        return None
    found = load_result(path)
    same = (
        (found.method, found.seed) == (method, seed)
        and {**asdict(Settings()), **found.settings} == asdict(recipe.settings)
        and {**methods.parameters(method), **found.parameters} == _parameters(recipe, method)
        and {**scenario_options_of(recipe.scenario), **found.scenario["options"]}
        == recipe.scenario_options
    )
    if same and warn:
        stale.warn([found])
    return found if same else None


def result(recipe: Recipe, method: str, *, seed: int, scenario, history: dict, device="cpu",
           threads: int = 1, about: dict | None = None, **counted: dict) -> Result:  # fmt: skip
    """The `Result` of a run that has just ended in this process with `history`.

    `about` is what `made_by` said when it began; without it, it is asked now.
    `counted` joins the totals. `run` gives it where nothing was resumed: "work", what all rounds
    computed (`counting.Work`); "start", the same before round 1 (what an artifact held is not in
    it), with the process's peak memory before the run.
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
            "name": scenario.name, "title": scenario.title, "options": recipe.scenario_options,
            "stand_in": scenario.stand_in, "fingerprint": scenario.fingerprint,
        },
        method=method, parameters=_parameters(recipe, method), settings=asdict(recipe.settings),
        overrides=recipe.overrides, seed=seed,
        environment=about or made_by(recipe, method, device, threads), history=history,
        headline=reached[-1], best=max(reached, key=lambda row: row["intra"]), totals=totals,
    )  # fmt: skip


def accuracies(history: dict) -> list[dict]:
    """Per evaluated round: mean intra- and inter-domain accuracy, and the worst client's intra.

    Keys `round`, `intra`, `inter` (None with one test set), `worst`; shares from 0 to 1 (FCCL+
    Eq. 21 and 22), averaged over clients; the state before round 1 is left out.
    """
    own = [history["tests"].index(domain) for domain in history["domains"]]
    rows = []
    for entry in history["accuracy"]:
        if entry["moment"] == "end" and entry["round"] > 0:
            inside, outside = intra(entry["matrix"], own), inter(entry["matrix"], own)
            rows.append({
                "round": entry["round"], "intra": statistics.fmean(inside),
                "inter": statistics.fmean(outside) if outside else None, "worst": min(inside),
            })  # fmt: skip
    return rows


def matrices(results: dict[str, list[Result]]) -> dict[str, np.ndarray]:
    """Method -> accuracy matrices of the last round, [seeds, clients, tests], from 0 to 1."""
    return {
        method: np.array([r.history["accuracy"][-1]["matrix"] for r in runs])
        for method, runs in results.items()
    }


def headlines(results: dict[str, list[Result]], key: str) -> dict[str, list[float]]:
    """Method -> one number per seed of the last round; `key` is "intra", "inter" or "worst"."""
    return {method: [r.headline[key] for r in runs] for method, runs in results.items()}


def environment(device="cpu", threads: int = 1) -> dict:
    """What the numbers may depend on. No path, no host name."""
    gpu = torch.device(device).type == "cuda"
    cpu = f"CPU ({platform.machine()}, {os.cpu_count()} cores)"
    return {
        "fedtutor": __version__, "python": platform.python_version(), "torch": torch.__version__,
        "torchvision": version("torchvision"), "numpy": version("numpy"),
        "platform": platform.system(), "git": commit(), "threads": threads,
        "device": torch.cuda.get_device_name(device) if gpu else cpu,
        "processor": processor(), "instructions": instructions(),
    }  # fmt: skip


def made_by(recipe: Recipe, method: str, device="cpu", threads: int = 1) -> dict:
    """`environment`, and the code that such a run uses: what its result says of its making."""
    code = stale.code_now(method, asdict(recipe.settings), recipe.scenario)
    return {**environment(device, threads), "code": code}


@cache
def processor() -> str:
    """The model of the processor, as the system names it; "" where nobody says."""
    if platform.system() == "Darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        with suppress(OSError, subprocess.CalledProcessError):
            said = subprocess.run(command, capture_output=True, text=True, check=True)
            return said.stdout.strip()
    if platform.system() == "Windows":
        return os.environ.get("PROCESSOR_IDENTIFIER", platform.processor())
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
        return next(named, platform.processor())
    return platform.processor()


def instructions() -> dict[str, str]:
    """The vector instructions that torch uses, and the variables that keep a library from more."""
    used = {"torch": torch.backends.cpu.get_cpu_capability()}
    return used | {name: os.environ[name] for name in CAPS if name in os.environ}


def peak_memory(device="cpu") -> int | None:
    """Bytes: of the GPU since the run began, or of the whole process since its start."""
    if torch.device(device).type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if (status := Path("/proc/self/status")).exists():  # Linux: getrusage counts the parent, too
        lines = (line.split() for line in status.read_text().splitlines())
        return next((1024 * int(words[1]) for words in lines if words[0] == "VmHWM:"), None)
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def result_path(recipe: Recipe, method: str, seed: int, *, folder=RESULTS) -> Path:
    """<folder>/<recipe>/<profile>/<scenario>/<method>-seed<k>.json.

    Overrides that touch this run add 8 hex digits to the name, so that a trial never replaces
    the recipe's own result.
    """
    name = f"{method}-seed{seed}"
    touching = {key: value for key, value in recipe.overrides.items()
                if key.partition(".")[0] in (key, "scenario", method)}  # fmt: skip
    if touching:
        text = json.dumps(touching, sort_keys=True)
        name += f"-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    return Path(folder) / recipe.name / recipe.profile / recipe.scenario / f"{name}.json"


def save_result(measured: Result, path: Path) -> None:
    """Write a result; raises `StorageError` where that is impossible or a part is wrong."""
    value = {"format": FORMAT, **asdict(measured)}
    if fault := _fault(value):
        raise StorageError(
            f"this result is not whole ({fault})", where=shown(path),
            do="save what `run` returns, unchanged",
        )  # fmt: skip
    save_json(path, value)


def load_result(path: Path) -> Result:
    """Read a result; raises `StorageError` for a missing, cut, altered or newer file."""
    value = load_json(path)
    found = value.get("format") if isinstance(value, dict) else None
    if isinstance(found, int) and found != FORMAT:
        raise StorageError(
            f"{Path(path).name} has format {found}, this fedtutor reads {FORMAT}",
            where=shown(path), do="use the fedtutor that wrote it, or delete it and run again",
        )  # fmt: skip
    if fault := _fault(value):
        raise damaged(path, ValueError(fault))
    del value["format"]
    return Result(**value)


def summary(results: Sequence[Result]) -> pd.DataFrame:
    """method | intra (%) | inter (%) | worst (%) | sent (MB) | time (s) | seeds, last round.

    Mean ± standard deviation over seeds (divisor n - 1; none for one seed). `worst` is the client
    with the lowest intra-domain accuracy. Raises `SettingError` where results cannot stand in
    one table: other data or settings, or a method twice with one seed.
    """
    if not results:
        raise SettingError("no results", where="summary", do="run a method first")
    first, groups = results[0], {}
    for r in results:
        same = [(a.recipe, a.profile, a.scenario, a.settings) for a in (first, r)]
        runs = groups.setdefault(r.method, [])
        twice = any(r.seed == other.seed or r.parameters != other.parameters for other in runs)
        if same[0] != same[1] or twice:
            raise SettingError(
                f"{r.method}, seed {r.seed} does not belong into this table", where="summary",
                do="give results of one recipe, scenario and settings, each method and seed once",
            )  # fmt: skip
        runs.append(r)
    rows = []
    for method, runs in groups.items():
        row = {"method": method}
        for key in ("intra", "inter", "worst"):
            values = [r.headline[key] for r in runs]
            row[f"{key} (%)"] = "-" if None in values else _spread([100 * v for v in values], 1)
        row["sent (MB)"] = _spread([sum(r.totals["bytes"].values()) / 1e6 for r in runs], 2)
        row["time (s)"] = _spread([r.totals["seconds"] for r in runs], 1)
        rows.append({**row, "seeds": len(runs)})
    table = pd.DataFrame(rows)
    table.attrs["caption"] = f"{first.scenario['title']} · {first.profile} · last round"
    return table


def _spread(values: Sequence[float], digits: int) -> str:
    mean = f"{statistics.fmean(values):.{digits}f}"
    return mean if len(values) < 2 else f"{mean} ± {statistics.stdev(values):.{digits}f}"


def _parameters(recipe: Recipe, method: str) -> dict:
    return recipe.methods.get(method) or methods.parameters(method)


def _fault(value) -> str | None:
    """What is wrong with the content of a result file, if anything."""
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        return "it is not a result"
    types = {f.name: f.type for f in fields(Result)}
    for name, kind in types.items():
        if type(value.get(name)) is not kind:
            return f"{name!r} is missing or no {kind.__name__}"
        for part in PARTS.get(name, ()):
            if part not in value[name]:
                return f"{name!r} has no {part!r}"
    if extra := value.keys() - types.keys() - {"format"}:
        return f"unknown part {min(extra)!r}"
    try:
        json.dumps(value, allow_nan=False)
        history = value["history"]
        size = len(history["clients"]), len(history["tests"])
        for entry in history["accuracy"]:
            rows = [row for row in entry["matrix"] if row is not None]
            if len(entry["matrix"]) != size[0] or any(len(row) != size[1] for row in rows):
                return "an accuracy matrix has the wrong shape"
            if not all(0 <= a <= 1 for row in rows for a in row):
                return "an accuracy lies outside 0 to 1"
        reached = accuracies(history)
    except (KeyError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    best = max(reached, key=lambda row: row["intra"], default=None)
    if not reached or value["headline"] != reached[-1] or value["best"] != best:
        return "'headline' and 'best' are not those of the history"
    return None
