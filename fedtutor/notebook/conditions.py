"""Notebook 07: the rows that a benchmark leaves out, in the conditions that a method's paper names.

`AS_PAPER` answers one question for every method of the benchmark: does it run there as its paper
runs it? `beside(seeds)` sets each of the five papers' methods in its own conditions beside its row
in the benchmark. `steps` and `suspects` look for what keeps RepShare at chance. All of it is
recorded, with the seeds that are asked for.
"""

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import pandas as pd

from ..experiments import arenas, conditions, ranks, recipes
from ..figures import display_name
from ..papers import spread
from .frame import sentence
from .rows import signed, told

SCENARIO = "digits-mini"
OWN, OTHERS = "own domain (%)", "other domains (%)"
SIDES = {"own digits": OWN, "others' digits": OTHERS}
OPEN = "open"
AS_PAPER = {
    "solo": "no paper: the floor",
    "central": "no paper: the ceiling",
    "fedavg": "yes",
    "fedprox": "yes; weight as in FCCL+",
    "fednova": "yes; equal steps here, so it is FedAvg",
    "scaffold": "no: SGD with momentum",
    "fedavgm": "yes",
    "moon": "no: no projection head",
    "fedproto": "no: averages weights, too",
    "fedproc": "yes; its weight falls as in a re-implementation",
    "fedrs": "yes; every class everywhere, so it is FedAvg",
    "fedgkd": "yes; weight as in FedCSD",
    "logit-distillation": "no: made for label skew",
    "feature-distillation": "no: made for label skew",
    "ewc": "no: equal networks, SGD",
    "vhl": "no: fewer noise images",
    "kd": "no paper: the plain form of FedMD",
    "fedmd": "no: public images have no labels to begin with",
    "feddf": "no: equal networks are not averaged first",
    "fedmatch": "no: made for few labels",
    "rhfl": "no: made for wrong labels and different networks",
    "fml": "yes; the weights of its losses are ours",
    "rcfl": "no: made for clients with different labels",
    "fd": "yes; the paper names no weight, so it is ours",
    "fccl": "no: equal networks, SGD, short pretraining",
    "fccl+": "no: equal networks, SGD",
    "fedcsd": "no: weight for label skew, a smaller learning rate",
    "repshare": "no: features without a bound, SGD",
    "fedlgd": "no: SGD with momentum, five local epochs",
}
YOURS = "yours"


def answered(table: pd.DataFrame, methods: Sequence[str]) -> pd.DataFrame:
    """A table of methods with the column that says whether each runs as its paper runs it."""
    answers = [AS_PAPER.get(method, YOURS) for method in methods]
    return table.assign(**{"as its paper runs it?": answers})


def in_the_benchmark(method: str, seeds: Sequence[int]) -> dict[str, arenas.Entry]:
    """What is recorded of a method and its baselines in the arena that it may enter."""
    arena = "virtual images" if method == "fedlgd" else "one network"
    recipe = arenas.in_arena(recipes.load(arenas.RECIPE, profile="quick"), arena)
    return arenas.entries_of(recipe, (*conditions.BASELINES[method], method), seeds)


def gains(entries: dict[str, arenas.Entry], method: str, baseline: str, column: str) -> np.ndarray:
    """By how many points a method is ahead of its baseline, one per seed; empty where open."""
    found = ranks.values(entries, column)
    if not {method, baseline} <= found.keys():
        return np.array([])
    return 100 * np.subtract(found[method], found[baseline])


def both(method: str, seeds: Sequence[int]) -> dict[tuple[str, str], np.ndarray]:
    """(where, side) -> gain over the baseline in points, one per seed.

    where: "here" in the benchmark, "as its paper" in its own conditions; side: a key of `SIDES`.
    """
    baseline = conditions.BASELINES[method][-1]
    there = {
        "here": in_the_benchmark(method, seeds),
        "as its paper": conditions.shelf(method, seeds),
    }
    return {(where, side): gains(entries, method, baseline, column)
            for side, column in SIDES.items() for where, entries in there.items()}  # fmt: skip


def beside(seeds: Sequence[int]) -> pd.DataFrame:
    """A row per paper: its method less its baseline, in the benchmark and in its own conditions."""
    rows = {}
    for method, baselines in conditions.BASELINES.items():
        found = both(method, seeds)
        cells = {f"{side}, {where}": _gain(values) for (where, side), values in found.items()}
        rows[display_name(method)] = {"less": BASE[baselines[-1]], **cells}
    return pd.DataFrame.from_dict(rows, orient="index")


def changed(seeds: Sequence[int]) -> list[str]:
    """The papers' methods for which the seeds tell another answer in their own conditions.

    An answer: ahead of the baseline on the own digits, behind it, or not told.
    """
    names = []
    for method in conditions.BASELINES:
        found = [both(method, seeds)[where, "own digits"] for where in ("here", "as its paper")]
        if all(map(len, found)) and len({_answer(values) for values in found}) == 2:
            names.append(display_name(method))
    return names


def _answer(gains: np.ndarray) -> float:
    return float(np.sign(gains.mean())) if told(gains) else 0.0


BASE = {"solo": "training alone", "fedavg": "FedAvg"}


def levels(seeds: Sequence[int]) -> pd.DataFrame:
    """Accuracy in the papers' own conditions, a row per method and baseline."""
    rows = []
    for method in conditions.BASELINES:
        entries = conditions.shelf(method, seeds)
        for name, entry in entries.items():
            cells = {side: _level({name: entry}, name, column) for side, column in SIDES.items()}
            rows.append({"conditions of": display_name(method), "method": display_name(name),
                         **{f"{side} (%)": cell for side, cell in cells.items()}})  # fmt: skip
    return pd.DataFrame(rows)


def steps(seeds: Sequence[int]) -> pd.DataFrame:
    """RepShare from the benchmark's row to its author's code; own digits in percent."""
    here = in_the_benchmark("repshare", seeds)
    code = conditions.suspect(conditions.PLAIN, seeds)
    rows = {
        "our setting: as printed": (here, here),
        f"our setting: {conditions.PLAIN}": ({"repshare": code}, here),
    }
    alone = conditions.shelf("repshare", seeds, "solo")
    for words, (changes, names) in conditions.STEPS.items():
        entries = conditions.shelf("repshare", seeds, *names, **changes)
        beside_it = entries if "solo" in entries else alone
        rows[f"its conditions: {words}"] = (entries, beside_it)
    found = {}
    for words, (entries, floor) in rows.items():
        less = gains({**entries, "solo": floor["solo"]}, "repshare", "solo", OWN)
        found[words] = {"RepShare (%)": _level(entries, "repshare", OWN),
                        "training alone (%)": _level(floor, "solo", OWN),
                        "difference (points)": _gain(less)}  # fmt: skip
    return pd.DataFrame.from_dict(found, orient="index")


def told_steps(seeds: Sequence[int]) -> list[str]:
    """What keeps RepShare at chance, in sentences that follow from the recorded values."""
    found = {words: ranks.values(conditions.shelf("repshare", seeds, *names, **changes), OWN)
             for words, (changes, names) in conditions.STEPS.items()}  # fmt: skip
    sums, means, plain, free = found.values()
    here = ranks.values(in_the_benchmark("repshare", seeds), OWN)
    code = conditions.suspect(conditions.PLAIN, seeds)
    code = ranks.values({"repshare": code, "solo": code}, OWN)
    names = "repshare", "solo"
    if not all(name in rows for rows in (plain, free, here, code) for name in names):
        return ["Some rows are open: `python -m fedtutor benchmark` records them."]

    def points(more, less):
        return 100 * np.subtract(more, less)

    return [
        sentence(
            points(means["repshare"], sums["repshare"]),
            above="**What you see.** In RepShare's own conditions it was the sums: means in their "
            "place gain {mean} points.",
            below="**What you see.** It was not the sums. In RepShare's own conditions, means in "
            "their place lose {mean} points.",
            unclear="**What you see.** It was not the sums. In RepShare's own conditions, means "
            "in their place change nothing that the seeds tell.",
            digits=0,
        ),
        sentence(
            points(plain["repshare"], means["repshare"]),
            above="The author's first targets and draw gain {value} more.",
            below="The author's first targets and draw lose {value} again.",
            unclear="The author's first targets and draw change nothing that the seeds tell.",
            digits=1,
        ),
        sentence(
            points(*(plain[name] for name in names)),
            above="So RepShare is {value} points *ahead* of training alone there.",
            below="So RepShare is {value} points behind training alone there.",
            unclear="So RepShare cannot be told from training alone there.",
            digits=0,
        ),
        sentence(
            points(*(free[name] for name in names)),
            above="With our network in its conditions, it is {value} points ahead.",
            below="With our network in its conditions, it learns, but is {value} points behind.",
            unclear="With our network in its conditions, it cannot be told from training alone.",
            digits=1,
        ),
        sentence(
            points(code["repshare"], here["solo"]),
            above="In our own setting the author's code is {value} points ahead.",
            below="In our own setting the author's code is {value} points behind. Perhaps large "
            "steps of SGD and features without a bound do not go together.",
            unclear="In our own setting the author's code cannot be told from training alone.",
            digits=0,
        ),
    ]


def suspects(seeds: Sequence[int]) -> pd.DataFrame:
    """RepShare in the benchmark's setting with one thing changed; own digits in percent."""
    rows = {"as in the table": in_the_benchmark("repshare", seeds)["repshare"]}
    rows |= {words: conditions.suspect(words, seeds) for words in conditions.SUSPECTS}
    return pd.DataFrame([{"changed": words, "own digits (%)": _level({"it": entry}, "it", OWN)}
                         for words, entry in rows.items()])  # fmt: skip


def sources(method: str) -> pd.DataFrame:
    """setting | here | as its paper | source, for what the conditions of a method change."""
    recipe = recipes.load(arenas.RECIPE, profile="quick")
    changes, where = recipes.named(arenas.RECIPE, method, "quick")
    if method == "fedlgd":
        recipe = arenas.in_arena(recipe, "virtual images")
    here = asdict(recipe.settings) | recipe.values()
    rows = [{"setting": key, "here": _said(here.get(key)), "as its paper": _said(value),
             "source": where[key]} for key, value in changes.items()
            if here.get(key) != value and key not in ("observe", "eval_every")]  # fmt: skip
    return pd.DataFrame(rows)


def all_sources() -> pd.DataFrame:
    """The same for all five papers, one below the other."""
    parts = [sources(m).assign(method=display_name(m)) for m in conditions.BASELINES]
    table = pd.concat(parts, ignore_index=True)
    return table[["method", *[name for name in table if name != "method"]]]


def _said(value) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _level(entries: dict, method: str, column: str) -> str:
    found = ranks.values(entries, column).get(method)
    return spread([100 * v for v in found], 1) if found else OPEN


def _gain(values: np.ndarray) -> str:
    return signed(values) + told(values) if len(values) else OPEN
