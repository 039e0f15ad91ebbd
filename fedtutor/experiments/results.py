"""What a run leaves: its `Result`, and where it lies.

The last round is the headline of a result. The best round is beside it, under that name.
"""

import hashlib
import json
import math
import statistics
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from .. import methods, scenarios
from ..engine.files import DATA, save_json, shown
from ..errors import SettingError, StorageError
from ..measures import inter, intra
from ..settings import Settings
from . import stored
from .recipes import Recipe

RESULTS = DATA / "results"
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
    environment: dict  # versions, processor, device, threads, git commit
    history: dict  # accuracy matrices, losses, bytes, seconds, per round
    headline: dict  # the last round: round, intra, inter, worst
    best: dict  # the round with the highest intra-domain accuracy, the same keys
    totals: dict  # seconds, peak_memory, bytes (up, down, peer); work and start, see `run.result`


def result_path(recipe: Recipe, method: str, seed: int, *, folder=RESULTS) -> Path:
    """<folder>/<recipe>/<profile>/<scenario>/<method>-seed<k>.json, while runs are under way.

    `python -m tools.record fold` makes it a line of <folder>/<recipe>/<profile>/<scenario>.jsonl.

    Overrides that touch this run add 8 hex digits to the name, so that a trial never replaces
    the recipe's own result.
    """
    place = recipe.name, recipe.profile, recipe.scenario
    return Path(folder, *place, f"{_name(method, seed, recipe.overrides)}.json")


def home_of(result: Result) -> Path:
    """Where a result belongs, below a folder of results."""
    place = result.recipe, result.profile, result.scenario["name"]
    return Path(*place, f"{_name(result.method, result.seed, result.overrides)}.json")


def touching(method: str, overrides: dict) -> dict:
    """The overrides that touch a run of this method."""
    return {key: value for key, value in overrides.items()
            if key.partition(".")[0] in (key, "scenario", method)}  # fmt: skip


def _name(method: str, seed: int, overrides: dict) -> str:
    name, changed = f"{method}-seed{seed}", touching(method, overrides)
    if changed:
        text = json.dumps(changed, sort_keys=True)
        name += f"-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    return name


def save_result(measured: Result, path: Path) -> None:
    """Write a result; raises `StorageError` where that is impossible or a part is wrong."""
    value = {"format": FORMAT, **asdict(measured)}
    try:
        json.dumps(value, allow_nan=False)
        fault = _fault(value)
    except (TypeError, ValueError) as error:
        fault = f"{type(error).__name__}: {error}"
    if fault:
        raise StorageError(
            f"this result is not whole ({fault})", where=shown(path),
            do="save what `run` returns, unchanged",
        )  # fmt: skip
    save_json(path, value)


def load_result(path: Path) -> Result:
    """Read a result; raises `StorageError` for a missing, cut, altered or newer file."""
    path = Path(path)
    if (there := stored.entry(path)) is None:
        raise StorageError(f"{path.name} is not there", where=shown(path),
                           do="run the experiment first")  # fmt: skip
    return _checked(there)


def load_all(folder=RESULTS) -> dict[Path, Result | StorageError]:
    """Every result below a folder by the path of its run, or why it cannot be read."""
    found = {}
    for path, there in stored.entries(folder).items():
        try:
            found[path] = _checked(there)
        except StorageError as error:
            found[path] = error
    return found


def fold(folder) -> tuple[int, list[str]]:
    """Fold every run's own file into the lines of its scenario (`stored.py`).

    Returns how many, and which files stay as they are and why: what cannot be read, and what is
    not in its place.
    """
    folder, whole, faults = Path(folder), {}, []
    if not folder.is_dir():
        raise SettingError(f"no folder {folder.name}", where=shown(folder), do="name another one")
    for path, found in load_all(folder).items():
        name = path.relative_to(folder)
        if not path.exists():
            continue  # it is a line already
        if isinstance(found, StorageError):
            faults.append(f"{name}: {found.what}")
        elif (home := home_of(found)) != name:
            faults.append(f"{name}: it belongs to {home}")
        else:
            whole[path] = stored.entry(path).value
    stored.fold(whole)
    return len(whole), faults


def _checked(there: stored.Entry) -> Result:
    if there.error:
        raise there.error
    if there.result is None:
        value = there.value
        found = value.get("format") if isinstance(value, dict) else None
        if isinstance(found, int) and found != FORMAT:
            raise StorageError(
                f"{there.file.name} has format {found}, this fedtutor reads {FORMAT}",
                where=shown(there.file),
                do="use the fedtutor that wrote it, or delete it and run again",
            )  # fmt: skip
        if fault := _fault(value):
            raise there.damaged(ValueError(fault))
        there.result = Result(**{key: part for key, part in value.items() if key != "format"})
    return there.result


def recorded(recipe: Recipe, method: str, seed: int, *, folder=RESULTS) -> Result | None:
    """What `folder` keeps of this run; None where there is nothing, or of other settings.

    An option that is younger than the file counts as its default. The data are not looked at, so
    that a result can be read where they are absent.
    """
    if (there := stored.entry(result_path(recipe, method, seed, folder=folder))) is None:
        return None
    found = _checked(there)
    return found if is_of(found, recipe, method, seed) else None


def is_of(found, recipe: Recipe, method: str, seed: int) -> bool:
    """Whether a result, or what looks saw, is of this run; younger options count as defaults."""
    return (found.method, found.seed) == (method, seed) and not differs(found, recipe)


def differs(found: Result, recipe: Recipe) -> str:
    """What a result and a recipe do not share: "settings", "parameters" or "options"; else "".

    An option that is younger than the result counts as its default.
    """
    method, options = found.method, scenarios.options(recipe.scenario)
    if {**asdict(Settings()), **found.settings} != asdict(recipe.settings_of(method)):
        return "settings"
    if {**methods.parameters(method), **found.parameters} != parameters_of(recipe, method):
        return "parameters"
    same = {**options, **found.scenario["options"]} == recipe.options(found.seed)
    return "" if same else "options"


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


def parameters_of(recipe: Recipe, method: str) -> dict:
    """All parameters of a method, as the recipe has them."""
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
    highest = max((row["intra"] for row in reached), default=None)
    best = [row for row in reached if _same(row["intra"], highest)]
    if not reached or not _same(value["headline"], reached[-1]) or not any(
        _same(value["best"], row) for row in best):  # fmt: skip
        return "'headline' and 'best' are not those of the history"
    return None


def _same(a, b) -> bool:
    """Equal but for last digits: since Python 3.12, the built-in `sum` of floats rounds less."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if type(a) is type(b) is float:
        return math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-15)
    return type(a) is type(b) and a == b
