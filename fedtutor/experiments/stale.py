"""Results whose code has changed since: which they are, and what differs.

    python -m fedtutor stale          counts per folder, and the first results that are stale
    python -m fedtutor stale --all    all of them, and those of unknown code, and the `dirty` ones

`current`: made by the code of today, up to comments and the like (`code_hash.py`); `stale`: by
other code, so that a run today may give other numbers; `unknown`: recorded before results knew
their code, or with code that cannot be read here. Beside it stands `dirty`: made from files that no
commit holds.
"""

import warnings
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from ..engine.files import shown
from ..errors import SettingError
from . import code_hash, stored
from .commits import first

CURRENT, STALE, UNKNOWN = "current", "stale", "unknown"
WORDS = "its code has changed"  # in lists of what is to be done
OTHER = "recorded by other code"  # a warning begins so: notebooks know it by these words
FIRST = 20
COLUMNS = ["folder", "result", "state", "changed", "dirty", "commit"]
BEFORE = "recorded before results knew their code"


def code_now(method: str, settings: dict, scenario: str, roots: Iterable = ()) -> dict:
    """`code_hash.code_of` a run with these settings, as it would be played now."""
    virtual = bool(settings.get("virtual_ipc", 0))
    return code_hash.code_of(method, settings["models"], scenario, virtual=virtual, roots=roots)


def standing(method: str, settings: dict, scenario: str, environment: dict) -> tuple[str, str]:
    """(state, what changed) of a result that says this of itself."""
    made = environment.get("code")
    if not made or not made["hash"]:
        return compared(made, {})
    return compared(made, code_now(method, settings, scenario, made.get("roots", ())))


def compared(made: dict | None, now: dict) -> tuple[str, str]:
    """(state, what changed) between the code that made something and that of today."""
    if made is None:
        return UNKNOWN, BEFORE
    if not made["hash"]:
        return UNKNOWN, made["unknown"]
    if not now["hash"]:
        return UNKNOWN, f"here {now['unknown']}"
    if now["hash"] == made["hash"]:
        return CURRENT, ""
    return STALE, ", ".join(code_hash.changed(made, now))


def is_stale(result) -> bool:
    """Whether a `Result` was made by other code than a run would use now."""
    made, scenario = result.environment, result.scenario["name"]
    return standing(result.method, result.settings, scenario, made)[0] == STALE


def states(folder) -> pd.DataFrame:
    """folder | result | state | changed | dirty | commit, one row per result.

    `changed`: files of the package, and definitions of a reader, whose meaning differs; for an
    unknown state, why. Raises `SettingError` for a folder that is not there. What is no result is
    left out: `python -m fedtutor report` names it.
    """
    folder, rows = Path(folder), []
    if not folder.is_dir():
        raise SettingError(f"no folder {folder.name}", where=shown(folder), do="name another one")
    for path, there in stored.entries(folder).items():
        try:
            value, made = there.value, there.value["environment"]
            scenario = value["scenario"]["name"]
            state, words = standing(value["method"], value["settings"], scenario, made)
        except (KeyError, TypeError):
            continue
        git = made.get("git") or {}
        rows.append({"folder": path.parent.relative_to(folder).as_posix(), "result": path.stem,
                     "state": state, "changed": words, "dirty": bool(git.get("dirty")),
                     "commit": (git.get("commit") or "")[:7]})  # fmt: skip
    return pd.DataFrame(rows, columns=COLUMNS)


def counts(frame: pd.DataFrame) -> pd.DataFrame:
    """folder | results | current | stale | unknown | dirty, from `states`; the last row sums."""
    columns = {state: frame["state"] == state for state in (CURRENT, STALE, UNKNOWN)}
    told = pd.DataFrame({"results": 1, **columns, "dirty": frame["dirty"]}).astype(int)
    told = told.groupby(frame["folder"]).sum()
    told.loc["all"] = told.sum()
    return told.reset_index()


def in_words(frame: pd.DataFrame, *, every: bool = False, of: str = "results") -> str:
    """Counts per folder and the first stale ones; `every`: all, and unknown and dirty ones."""
    if not len(frame):
        return f"no {of}"
    total, old = counts(frame).iloc[-1], frame[frame["state"] == STALE]
    told = counts(frame).rename(columns={"results": of})
    lines = [told.to_string(index=False), "",
             f"{total[STALE]} stale ({WORDS}), {total[UNKNOWN]} of unknown code, "
             f"{total['dirty']} dirty (from uncommitted files) of {total['results']}"]  # fmt: skip
    listed = frame[(frame["state"] != CURRENT) | frame["dirty"]] if every else old[:FIRST]
    for row in listed.itertuples():
        said = f"{row.state}{', dirty' if row.dirty else ''}"
        lines.append(f"{row.folder}/{row.result}: {said}: {row.changed}".removesuffix(": "))
    if not every and len(old) > FIRST:
        lines.append(f"and {len(old) - FIRST} more: --all lists them")
    return "\n".join(lines)


def warn(results: Iterable) -> None:
    """One warning for all of `results` (`Result`s) that other code recorded, if there are any."""
    found = [r for r in results if is_stale(r)]
    if found:
        names = [f"{r.method} seed {r.seed} on {r.scenario['name']}" for r in found]
        said = f"{OTHER}: {len(names)} result{'s' * (len(names) > 1)}, {first(names, 3)}"
        warnings.warn(f"{said}; see python -m fedtutor stale", stacklevel=3)
