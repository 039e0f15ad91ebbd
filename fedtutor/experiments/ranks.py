"""Tables of many methods, and which of their ranks the seeds carry (notebook 07).

A method is above another where the 95 % interval of their difference, seed by seed, lies above
zero. All else is a tie.
"""

import statistics
from collections.abc import Callable, Sequence
from itertools import combinations

import pandas as pd

from .. import figures
from ..difference import Difference
from ..errors import choose
from ..measures import inter
from ..papers import spread
from .arenas import Entry
from .results import Result

PASS_BACKWARD = 2  # a backward pass costs about two forward passes
MEMORY = "memory (MB)"  # of a process of its own, so of recorded runs alone


def forgets(result: Result) -> float | None:
    """Accuracy on other domains that local training took in the last round, as a share.

    Mean over clients, from after the collaborative half to the end of the local update; negative
    where it added. None where it was not observed or there is one test set.
    """
    seen, history = {}, result.history
    own = [history["tests"].index(domain) for domain in history["domains"]]
    for entry in history["accuracy"]:
        if entry["round"] == result.headline["round"]:
            rows = [(row, o) for row, o in zip(entry["matrix"], own, strict=True) if row]
            seen[entry["moment"]] = inter(*map(list, zip(*rows, strict=True)))
    before, after = (seen.get(moment) for moment in ("after_collaborate", "after_local"))
    return statistics.fmean(before) - statistics.fmean(after) if before and after else None


def passes(result: Result) -> float:
    """Images through networks per round, in forward passes: a backward pass counts as two more."""
    return _passes(result.totals["work"]) / result.settings["rounds"]


def _passes(work: dict) -> int:
    return work["forward"] + PASS_BACKWARD * work["backward"]


def _beyond_start(result: Result) -> int:
    """Bytes by which the peak of a run's own process rose above what it held before the run."""
    return result.totals["peak_memory"] - result.totals["start"]["peak_memory"]


MEASURES = {  # column -> value of a result, scale, digits
    "own domain (%)": (lambda r: r.headline["intra"], 100, 1),
    "other domains (%)": (lambda r: r.headline["inter"], 100, 1),
    "worst domain (%)": (lambda r: r.headline["worst"], 100, 1),
    "forgets (points)": (forgets, 100, 1),
}
COSTS = {  # the same, without a spread
    "up (kB)": (lambda r: r.totals["bytes"]["up"], 1e-3, 0),
    "down (kB)": (lambda r: r.totals["bytes"]["down"], 1e-3, 0),
    "passes": (passes, 1, 0),
    "before": (lambda r: _passes(r.totals["start"]), 1, 0),
    "CPU (s)": (lambda r: r.totals["work"]["cpu_seconds"], 1, 1),
    "before (s)": (lambda r: r.totals["start"]["cpu_seconds"], 1, 1),
    "wall (s)": (lambda r: r.totals["seconds"], 1, 1),
    MEMORY: (_beyond_start, 1e-6, 0),
}


def values(entries: dict[str, Entry], key: str) -> dict[str, list[float]]:
    """Method -> one number per seed of a column, for all whose seeds are all there."""
    of = (MEASURES | COSTS)[choose(key, MEASURES | COSTS, kind="column", where="benchmark")][0]
    found = {name: [_value(of, r) for r in e.results] for name, e in entries.items() if e.whole}
    return {name: row for name, row in found.items() if None not in row}


def table(entries: dict[str, Entry], columns: dict = MEASURES) -> pd.DataFrame:
    """One row per method: mean and spread of every column, and a note where seeds are missing."""
    rows = []
    for name, entry in entries.items():
        row = {"method": figures.display_name(name), "from": "live" if entry.live else "recorded"}
        for column, (of, scale, digits) in columns.items():
            told = entry.results if column != MEMORY or not entry.live else []
            found = [value for r in told if (value := _value(of, r)) is not None]
            scaled = [scale * v for v in found]
            if scaled and columns is not MEASURES:  # costs are said by their mean alone
                scaled = [statistics.fmean(scaled)]
            row[column] = spread(scaled, digits)
        rows.append({**row, "note": entry.note})
    frame = pd.DataFrame(rows)
    return frame if any(frame["note"]) else frame.drop(columns="note")


def _value(of: Callable, result: Result):
    try:
        return of(result)
    except (KeyError, TypeError):
        return None


# ---------------------------------------------------------------------------- which ranks carry


def beats(a: Sequence[float], b: Sequence[float]) -> bool:
    """Whether a is ahead of b, seed by seed; see `Difference`."""
    return Difference([x - y for x, y in zip(a, b, strict=True)]).direction == 1


def ranks(rows: dict[str, Sequence[float]]) -> pd.DataFrame:
    """Method | mean | first | last | per seed, best mean first.

    `first` and `last` bound the rank that the seeds carry: 1 + how many methods beat this one, and
    all minus how many it beats. Only where both are equal there is a rank to claim. `per seed`: its
    ranks in the order of seeds; equal values share the smaller rank.
    """
    order = sorted(rows, key=lambda name: -statistics.fmean(rows[name]))
    seeds = range(len(next(iter(rows.values()), ())))
    lines = []
    for name in order:
        own, (above, below) = rows[name], beside(rows, name)
        lines.append({
            "method": name, "mean": statistics.fmean(own),
            "first": 1 + len(above), "last": len(order) - len(below),
            "per seed": [1 + sum(row[s] > own[s] for row in rows.values()) for s in seeds],
        })  # fmt: skip
    return pd.DataFrame(lines, columns=["method", "mean", "first", "last", "per seed"])


def beside(rows: dict[str, Sequence[float]], name: str) -> tuple[list[str], list[str]]:
    """(methods that beat `name`, methods that it beats); the seeds leave the others open."""
    above = [other for other, row in rows.items() if beats(row, rows[name])]
    return above, [other for other, row in rows.items() if beats(rows[name], row)]


def agreement(rows: dict[str, Sequence[float]], again: dict[str, Sequence[float]]) -> tuple:
    """(pairs told apart in both tables in the same order, in the opposite order)."""
    same = opposite = 0
    for a, b in combinations([name for name in rows if name in again], 2):
        found = {(beats(t[a], t[b]), beats(t[b], t[a])) for t in (rows, again)}
        same += len(found) == 1 and (False, False) not in found
        opposite += found == {(True, False), (False, True)}
    return same, opposite
