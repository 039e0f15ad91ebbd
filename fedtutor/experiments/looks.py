"""What a look saw in a run, round by round, kept so that a notebook trains one seed alone.

A look is a function of this package that is called with a federation before round 1 and after each
round, such as one that compares the clients' networks. What it returned lies in

    data/looks/<recipe>/<profile>/<scenario>.jsonl      a run and a look per line

with the settings of the run. `notebook.Run.looks` reads it, and records it where FEDTUTOR_RECORD is
set.
"""

import base64
import json
import math
import sys
import warnings
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from types import FunctionType

import numpy as np
import torch

from ..engine.files import DATA, key_of, locked, shown
from ..errors import SettingError
from . import stored
from .commits import require_committed
from .recipes import Recipe
from .results import Result, is_of, parameters_of, result_path

LOOKS = DATA / "looks"
FORMAT = 1
MOST = 1_000_000  # bytes of a file; a larger one is a burden for everybody who clones
KINDS = "biuf"  # of the values of an array: truth, whole numbers, floating point


@dataclass(frozen=True)
class Seen:
    """One line: what `look` saw in one run, and what the run was."""

    recipe: str
    profile: str
    scenario: dict  # name, options
    method: str
    parameters: dict
    settings: dict
    overrides: dict
    seed: int
    look: str  # such as "measures.mmd"
    options: dict  # of a look that is a `partial`
    environment: dict  # as of a result
    seen: list  # packed; `values` unpacks

    @property
    def values(self) -> list:
        """What the look returned before round 1 and after each round."""
        return [unpacked(value) for value in self.seen]


def root_of(look) -> tuple[str, str] | None:
    """(module below fedtutor, name) of a look; None for one that has no name in the package."""
    function = look.func if isinstance(look, partial) else look
    if not isinstance(function, FunctionType):
        return None
    package, _, module = function.__module__.partition(".")
    root = module, function.__qualname__
    known = getattr(sys.modules.get(function.__module__), function.__name__, None) is function
    return root if package == __name__.partition(".")[0] and known else None


def options_of(look) -> dict:
    """The keyword arguments of a look that is a `partial`. Raises `SettingError` for others."""
    if not isinstance(look, partial):
        return {}
    try:
        same = json.loads(json.dumps(look.keywords)) == look.keywords and not look.args
    except (TypeError, ValueError):
        same = False
    if not same:
        raise SettingError(
            f"the options of {look.func.__name__} cannot be written down", where="looks",
            do="give a partial keyword arguments alone: numbers, texts, lists or dicts of them",
        )  # fmt: skip
    return look.keywords


def short_name(look) -> str:
    """What a look is called in a dict of several: its name, and its options if it has some."""
    given = ", ".join(f"{key}={value!r}" for key, value in options_of(look).items())
    function = look.func if isinstance(look, partial) else look
    name = getattr(function, "__name__", type(function).__name__)
    return f"{name}({given})" if given else name


def different(looks: tuple) -> tuple:
    """The same looks; raises `SettingError` where two share a name, or one is no function."""
    for look in looks:
        if not callable(look):
            raise SettingError(f"{look!r} is no look", where="looks",
                               do="give functions of a federation")  # fmt: skip
    names = [short_name(look) for look in looks]
    for name in names:
        if names.count(name) > 1:
            raise SettingError(f"two looks are called {name!r}", where="looks",
                               do="give each look once, and each a name of its own")  # fmt: skip
    return looks


def path_of(recipe: Recipe, method: str, seed: int, look, *, folder=None) -> Path:
    """Where `stored` finds the line. Raises `SettingError` for a look that has no name."""
    if (root := root_of(look)) is None:
        raise SettingError(
            f"{look!r} is no function of the package, so nothing of it can be kept", where="looks",
            do="write it into a module below fedtutor/, such as measures.py, and import it; "
            "or look at one run with run.watch(method, seed, look)",
        )  # fmt: skip
    run = result_path(recipe, method, seed, folder=LOOKS if folder is None else folder)
    name, options = ".".join(root), options_of(look)
    return run.with_name(f"{run.stem} {name}{'-' + key_of(options)[:8] if options else ''}.json")


def kept(recipe: Recipe, method: str, seed: int, look, *, folder=None) -> Seen | None:
    """What is recorded of a look at this run; None where there is nothing, or of other settings.

    As with results, an option that is younger than the file counts as its default, and the data
    are not looked at. Raises `StorageError` for a damaged file.
    """
    there = stored.entry(path_of(recipe, method, seed, look, folder=folder))
    if there is None:
        return None
    found = checked(there)
    asked = ".".join(root_of(look)), options_of(look)
    return found if (found.look, found.options) == asked and is_of(
        found, recipe, method, seed) else None  # fmt: skip


def checked(there: stored.Entry) -> Seen:
    """The content of a line. Raises `StorageError` where it is not whole."""
    if there.error:
        raise there.error
    if there.result is None:
        value, types = there.value, {f.name: f.type for f in fields(Seen)}
        if not isinstance(value, dict) or value.keys() != types.keys() | {"format"}:
            raise there.damaged(ValueError("its parts are not those of a look"))
        wrong = [name for name, kind in types.items() if type(value[name]) is not kind]
        if value["format"] != FORMAT or wrong:
            raise there.damaged(ValueError(f"it has another format {' '.join(wrong)}".strip()))
        try:
            there.result = Seen(**{name: value[name] for name in types})
            _ = there.result.values
        except (KeyError, TypeError, ValueError) as error:
            raise there.damaged(error) from None
    return there.result


def keep(recipe: Recipe, look, run: Result, values: list, *, folder=None) -> Seen:
    """Record what `look` saw in `run`. Raises `SettingError` where code is uncommitted."""
    folder = LOOKS if folder is None else folder
    path, root = path_of(recipe, run.method, run.seed, look, folder=folder), root_of(look)
    require_committed(folder)
    line = Seen(
        recipe=recipe.name, profile=recipe.profile,
        scenario={"name": recipe.scenario, "options": recipe.scenario_options},
        method=run.method, parameters=parameters_of(recipe, run.method),
        settings=asdict(recipe.settings), overrides=recipe.overrides, seed=run.seed,
        look=".".join(root), options=options_of(look),
        environment=run.environment, seen=[packed(v) for v in values],
    )  # fmt: skip
    file = stored.folded(path)
    with locked(file):
        stored.fold({path: {"format": FORMAT, **asdict(line)}})
    if (size := file.stat().st_size) > MOST:
        warnings.warn(f"{shown(file)} has {size / 1e6:.1f} MB, more than {MOST / 1e6:g}: let its "
                      "looks return less, such as means or fewer images", stacklevel=2)  # fmt: skip
    return line


# --- numbers as JSON, and back to the bit


def packed(value):
    """What a look returns, as JSON: numbers, texts, None, arrays, tensors, lists, tuples, dicts.

    Raises `SettingError` for anything else, such as a network.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return [packed(part) for part in value]
    if isinstance(value, tuple):
        return {"tuple": [packed(part) for part in value]}
    if isinstance(value, dict):
        return {"dict": [[packed(key), packed(part)] for key, part in value.items()]}
    kind = "tensor" if isinstance(value, torch.Tensor) else "array"
    try:
        array = value.detach().cpu().numpy() if kind == "tensor" else value
    except TypeError:  # numpy has no bfloat16
        array = None
    if not isinstance(array, np.ndarray) or array.dtype.kind not in KINDS:
        raise SettingError(
            f"a look returned {type(value).__name__}", where="looks",
            do="return numbers, arrays or tensors of numbers, or lists, tuples and dicts of them",
        )  # fmt: skip
    array = array.astype(array.dtype.newbyteorder("<"))
    text = base64.b64encode(array.tobytes()).decode("ascii")
    return {kind: text, "shape": list(array.shape), "dtype": array.dtype.str}


def unpacked(value):
    """What `packed` was given."""
    if isinstance(value, list):
        return [unpacked(part) for part in value]
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float(value["float"])
    if "tuple" in value:
        return tuple(unpacked(part) for part in value["tuple"])
    if "dict" in value:
        return {unpacked(key): unpacked(part) for key, part in value["dict"]}
    kind = "tensor" if "tensor" in value else "array"
    array = np.frombuffer(base64.b64decode(value[kind], validate=True), dtype=value["dtype"])
    array = array.reshape(value["shape"]).astype(array.dtype.newbyteorder("="))  # ours to write in
    return torch.from_numpy(array) if kind == "tensor" else array
