"""Notebook 07: the rows that a benchmark leaves out, in the conditions that a method's paper names.

`AS_PAPER` answers one question for every method of the benchmark: does it run there as its paper
runs it? `beside(seeds)` sets each of the five papers' methods in its own conditions beside its row
in the benchmark; RepShare has two rows there, because its author's code differs from what is
printed. `steps` and `suspects` look for what keeps RepShare at chance. All of it is recorded.
"""

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import pandas as pd

from ..experiments import arenas, conditions, ranks, recipes
from ..figures import display_name
from ..papers import spread
from .frame import sentence
from .rows import starred, told

SCENARIO, REAL = "digits-mini", "digits-partial"
OWN, OTHERS = "own domain (%)", "other domains (%)"
SIDES = {"own digits": OWN, "others' digits": OTHERS}
HERE, THERE = "our setting", "its conditions"
PRINTED, CODE = "RepShare, as printed", "RepShare, author's code"
OPEN = "open"
AS_PAPER = {
    "solo": "no paper: each client alone",
    "central": "no paper: all images in one place",
    "fedavg": "yes",
    "fedprox": "yes; weight as in FCCL+",
    "fednova": "yes; FedAvg where all take equally many steps",
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
WITH_FOUR = {  # other answers where all networks differ
    "ewc": "no: SGD",
    "feddf": "yes; different networks are not averaged",
    "rhfl": "no: made for wrong labels",
    "fccl": "no: SGD, short pretraining",
    "fccl+": "no: SGD",
}
YOURS = "yours"
MEANS, NO_PULL, WEAK = "means in place of sums", "no pull", "a hundredth of the pull"
WEAK_LATER = "a hundredth of the pull, no targets in round 1"
WHOLE = "means, targets, draw"
PLAYED = ("as printed", "means", WHOLE, "as printed, no pull", "as printed", "means", WHOLE, WHOLE)
NETWORK = (*["ours"] * 4, *["its author's"] * 3, "ours")


def answered(table: pd.DataFrame, methods: Sequence[str], *, four: bool = False) -> pd.DataFrame:
    """A table of methods with the column that says whether each runs as its paper runs it.

    `four`: in the arena of four different networks.
    """
    known = AS_PAPER | (WITH_FOUR if four else {})
    answers = [known.get(method, YOURS) for method in methods]
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


def rows(seeds: Sequence[int]) -> dict[str, tuple[str, dict, dict]]:
    """Label -> (method, what is recorded in our setting, in its own conditions)."""
    found = {}
    for method in conditions.BASELINES:
        here, there = in_the_benchmark(method, seeds), conditions.shelf(method, seeds)
        if method != "repshare":
            found[display_name(method)] = (method, here, there)
            continue
        changes, names = conditions.STEPS["as printed"]
        printed = conditions.shelf(method, seeds, *names, **changes)
        code = {method: conditions.suspect(conditions.PLAIN, seeds)}
        found[PRINTED] = (method, here, there | printed)
        found[CODE] = (method, here | code, there)
    return found


def gained(seeds: Sequence[int]) -> dict[str, dict[tuple[str, str], np.ndarray]]:
    """Label -> (where, side) -> gain over the baseline in points, one per seed.

    where: `HERE`, in the benchmark, or `THERE`, in the method's own conditions; side: a key of
    `SIDES`.
    """
    return {label: {(where, side): gains(entries, method, conditions.BASELINES[method][-1], column)
                    for side, column in SIDES.items()
                    for where, entries in ((HERE, here), (THERE, there))}
            for label, (method, here, there) in rows(seeds).items()}  # fmt: skip


def beside(seeds: Sequence[int]) -> pd.DataFrame:
    """A row per paper, two for RepShare: method minus baseline, here and in its conditions."""
    baselines = {label: conditions.BASELINES[row[0]][-1] for label, row in rows(seeds).items()}
    table = {}
    for label, found in gained(seeds).items():
        cells = {f"{side}, {where}": _gain(values) for (where, side), values in found.items()}
        table[label] = {"minus": BASE[baselines[label]], **cells}
    return pd.DataFrame.from_dict(table, orient="index")


def changed(seeds: Sequence[int]) -> dict[str, tuple[str, str]]:
    """Label -> its answers here and in its own conditions, where the seeds tell two different ones.

    An answer, on the own digits: ahead of the baseline, behind it, or undecided.
    """
    named = {}
    for label, found in gained(seeds).items():
        pair = [found[where, "own digits"] for where in (HERE, THERE)]
        if all(map(len, pair)) and len(answers := {_answer(values): 0 for values in pair}) == 2:
            named[label] = tuple(answers)
    return named


def _answer(gains: np.ndarray) -> str:
    return ("ahead" if gains.mean() > 0 else "behind") if told(gains) else "undecided"


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
    rows = [(HERE, here, here)]
    for words in (MEANS, conditions.PLAIN, NO_PULL):
        rows.append((HERE, {"repshare": conditions.suspect(words, seeds)}, here))
    alone = conditions.shelf("repshare", seeds, "solo")
    for changes, names in conditions.STEPS.values():
        entries = conditions.shelf("repshare", seeds, *names, **changes)
        rows.append((THERE, entries, entries if "solo" in entries else alone))
    found = {}
    for number, (row, has, network) in enumerate(zip(rows, PLAYED, NETWORK, strict=True), 1):
        where, entries, floor = row
        less = gains({**entries, "solo": floor["solo"]}, "repshare", "solo", OWN)
        found[f"{number} · {where}"] = {
            "its version": has, "network": network,
            "RepShare, own digits (%)": _level(entries, "repshare", OWN),
            "training alone, own digits (%)": _level(floor, "solo", OWN),
            "difference (points)": _gain(less),
        }  # fmt: skip
    return pd.DataFrame.from_dict(found, orient="index")


def told_steps(seeds: Sequence[int]) -> list[str]:
    """What keeps RepShare at chance, in sentences that follow from the recorded values."""
    found = {words: ranks.values(conditions.shelf("repshare", seeds, *names, **changes), OWN)
             for words, (changes, names) in conditions.STEPS.items()}  # fmt: skip
    sums, means, plain, free = found.values()
    ours = {w: conditions.suspect(w, seeds)
            for w in (MEANS, conditions.PLAIN, NO_PULL, WEAK, WEAK_LATER)}  # fmt: skip
    here = ranks.values(in_the_benchmark("repshare", seeds) | ours, OWN)
    names = ("repshare", "solo")
    wanted = [(sums, names[0]), (means, names[0]), *((here, name) for name in (*ours, *names)),
              *((rows, name) for rows in (plain, free) for name in names)]  # fmt: skip
    if not all(name in rows for rows, name in wanted):
        return ["Some rows are open: `python -m tools.record benchmark` records them."]

    def points(more, less):
        return 100 * np.subtract(more, less)

    return [
        sentence(
            points(means["repshare"], sums["repshare"]),
            above="**What you see.** *In its own conditions* the sums made RepShare guess: means "
            "gain {mean} points (row 6).",
            below="**What you see.** *In its own conditions* the sums did not make RepShare guess: "
            "means lose {mean} points (row 6).",
            unclear="**What you see.** *In its own conditions* the sums did not make RepShare "
            "guess: means change nothing that the seeds tell (row 6).",
            digits=0,
        ),
        sentence(
            points(plain["repshare"], means["repshare"]),
            above="Targets and draw gain {value} more (row 7).",
            below="Targets and draw lose {value} again (row 7).",
            unclear="Targets and draw change nothing that the seeds tell (row 7).",
            digits=1,
        ),
        sentence(
            points(plain["repshare"], plain["solo"]),
            above="Then RepShare is {value} points *ahead* of training alone.",
            below="Then RepShare is {value} points behind training alone.",
            unclear="Then RepShare cannot be told from training alone.",
            digits=0,
        ),
        sentence(
            points(free["solo"], plain["solo"]),
            above="But its author's network is weak on these digits: with ours (row 8), training "
            "alone gains {mean} points,",
            below="With our network (row 8), training alone loses {mean} points,",
            unclear="With our network (row 8), training alone stays where it is,",
            digits=0,
        ),
        sentence(
            points(free["repshare"], free["solo"]),
            above="and RepShare is {value} points ahead of training alone.",
            below="and RepShare is {value} points behind training alone.",
            unclear="and RepShare cannot be told from training alone.",
            digits=1,
        ),
        sentence(
            points(free["repshare"], 0.2),
            above="Our network has no bound, and yet RepShare does not guess there: a missing "
            "bound alone is not the reason.",
            below="Our network has no bound, and RepShare guesses.",
        ),
        sentence(
            points(here[MEANS], here["repshare"]),
            above="*In our setting* means gain {mean} points (row 2);",
            below="*In our setting* means lose {mean} points (row 2);",
            unclear="*In our setting* means alone change nothing that the seeds tell (row 2);",
            digits=0,
        ),
        sentence(
            points(here[conditions.PLAIN], here["repshare"]),
            above="with targets and draw they gain {mean} points (row 3).",
            below="with targets and draw they lose {mean} points (row 3).",
            unclear="nor do they with targets and draw (row 3).",
            digits=0,
        ),
        sentence(
            points(here[NO_PULL], here["repshare"]),
            above="Without its pull the printed method gains {mean} points (row 4): here the pull "
            "makes RepShare guess. (Perhaps it holds all features at means that know nothing; we "
            "did not look.)",
            below="Without its pull the printed method loses {mean} points (row 4).",
            unclear="Without its pull the printed method changes by nothing that the seeds tell "
            "(row 4).",
            digits=0,
        ),
        sentence(
            points(here[WEAK_LATER], here[WEAK]),
            above="(With a hundredth of the pull it matters that targets are random in round 1: "
            "without these, {mean} points more. See the fold.)",
            below=None,
            digits=0,
        ),
        sentence(
            points(free["repshare"], here[conditions.PLAIN]),
            above="Row 8 is {mean} points above row 3: its optimizer, learning rate, epochs and "
            "rounds help.",
            below="Row 8 is {mean} points below row 3: its optimizer, learning rate, epochs and "
            "rounds do not help.",
            unclear="The seeds do not tell row 8 from row 3.",
            digits=0,
        ),
    ]


def suspects(seeds: Sequence[int]) -> pd.DataFrame:
    """RepShare in the benchmark's setting with one or several changes; own digits in percent."""
    rows = {"as in the table": in_the_benchmark("repshare", seeds)["repshare"]}
    rows |= {words: conditions.suspect(words, seeds) for words in conditions.SUSPECTS}
    return pd.DataFrame([{"changed": words, "own digits (%)": _level({"it": entry}, "it", OWN)}
                         for words, entry in rows.items()])  # fmt: skip


def sources(method: str) -> pd.DataFrame:
    """setting | our setting | its conditions | source, of all that a method's conditions change."""
    recipe = recipes.load(arenas.RECIPE, profile="quick")
    changes, where = recipes.named(arenas.RECIPE, method, "quick")
    if method == "fedlgd":
        recipe = arenas.in_arena(recipe, "virtual images")
    here = asdict(recipe.settings) | recipe.values()
    rows = [{"setting": key, HERE: _said(here.get(key)), THERE: _said(value),
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
    return starred(values) if len(values) else OPEN
