"""Results whose code has changed since: which they are, and what differs.

    python -m fedtutor stale          counts per folder, and the first results that are stale
    python -m fedtutor stale --all    all of them, and those of unknown code, and the `dirty` ones

`current`: made by the code of today, up to comments and the like (`code_hash.py`); `stale`: by
other code, so that a run today may give other numbers; `unknown`: recorded before results knew
their code, or with code that cannot be read here. Beside it stands `dirty`: made from files that no
commit holds.
"""

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from ..engine.files import ROOT, shown
from ..errors import SettingError
from . import code_hash, stored

CURRENT, STALE, UNKNOWN = "current", "stale", "unknown"
RESULTS = ROOT / "data" / "results"
WORDS = "its code has changed"  # in lists of what is to be done
OTHER = "recorded by other code"  # a warning begins so: notebooks know it by these words
FIRST = 20
BEFORE = "recorded before results knew their code"


def code_now(method: str, settings: dict, scenario: str) -> dict:
    """`code_hash.code_of` a run with these settings, as it would be played now."""
    virtual = bool(settings.get("virtual_ipc", 0))
    return code_hash.code_of(method, settings["models"], scenario, virtual=virtual)


def standing(method: str, settings: dict, scenario: str, environment: dict) -> tuple[str, str]:
    """(state, what changed) of a result that says this of itself."""
    made = environment.get("code")
    if made is None:
        return UNKNOWN, BEFORE
    if not made["hash"]:
        return UNKNOWN, made["unknown"]
    now = code_now(method, settings, scenario)
    if not now["hash"]:
        return UNKNOWN, f"here {now['unknown']}"
    if now["hash"] == made["hash"]:
        return CURRENT, ""
    return STALE, ", ".join(code_hash.changed(made, now))


def is_stale(result) -> bool:
    """Whether a `Result` was made by other code than a run would use now."""
    parts = result.method, result.settings, result.scenario["name"], result.environment
    return standing(*parts)[0] == STALE


def states(folder=RESULTS) -> pd.DataFrame:
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
            value = there.value
            made = value["environment"]
            parts = value["method"], value["settings"], value["scenario"]["name"], made
            state, words = standing(*parts)
        except (KeyError, TypeError):
            continue
        git = made.get("git") or {}
        rows.append({"folder": path.parent.relative_to(folder).as_posix(), "result": path.stem,
                     "state": state, "changed": words, "dirty": bool(git.get("dirty")),
                     "commit": (git.get("commit") or "")[:7]})  # fmt: skip
    return pd.DataFrame(rows, columns=["folder", "result", "state", "changed", "dirty", "commit"])


def counts(frame: pd.DataFrame) -> pd.DataFrame:
    """folder | results | current | stale | unknown | dirty, from `states`; the last row sums."""
    told = pd.DataFrame({
        "folder": frame["folder"], "results": 1,
        **{state: (frame["state"] == state).astype(int) for state in (CURRENT, STALE, UNKNOWN)},
        "dirty": frame["dirty"].astype(int),
    })  # fmt: skip
    told = told.groupby("folder", sort=True).sum()
    told.loc["all"] = told.sum()
    return told.reset_index()


def in_words(frame: pd.DataFrame, *, every: bool = False) -> str:
    """Counts per folder and the first stale results; `every`: all, and unknown and dirty ones."""
    if not len(frame):
        return "no results"
    total = counts(frame).iloc[-1]
    lines = [counts(frame).to_string(index=False), "",
             f"{total[STALE]} stale ({WORDS}), {total[UNKNOWN]} of unknown code, "
             f"{total['dirty']} dirty (from uncommitted files) of {total['results']}"]  # fmt: skip
    old = frame[frame["state"] == STALE]
    odd = frame[(frame["state"] != CURRENT) | frame["dirty"]]
    for row in (odd if every else old[:FIRST]).itertuples():
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
        warnings.warn(f"{OTHER}: {_some(names)}; see python -m fedtutor stale", stacklevel=3)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    kind = "result" if len(names) == 1 else "results"
    return f"{len(names)} {kind}, {', '.join(names[:3])}{more}"
