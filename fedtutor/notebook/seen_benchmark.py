"""What notebook 07 reads off its tables: who is above whom, at which cost, and how much is luck.

Tables are dicts method -> `arenas.Entry`; a column is a key of `ranks.MEASURES`. Nothing here
trains but `one_formula`.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from .. import measures, rounds
from ..experiments import arenas, ranks, recipes
from ..experiments.recording import SEEDS
from ..figures import display_name, method_order
from ..methods import METHODS
from .conditions import OTHERS, OWN, SCENARIO, answered

REAL = "digits-partial"
ALL = ("other domains", "own domain")
NOBODY = pd.DataFrame([{"method": "nobody may enter with these clients"}])
COLUMNS = dict(zip(ALL, (OTHERS, OWN), strict=True))
COST = {
    "down and up (kB)": ("up (kB)", "down (kB)"),
    "passes": ("passes",),
    "CPU (s)": ("CPU (s)",),
}


def questions(scenario) -> dict[str, str]:
    """Question -> column; with one test set there is nothing to ask about other domains."""
    return {name: column for name, column in COLUMNS.items()
            if len(scenario.tests) > 1 or column == OWN}  # fmt: skip


def recorded(arena: str = "one network", scenario: str = SCENARIO) -> dict[str, arenas.Entry]:
    """What is recorded of every method of the benchmark in an arena, all seeds."""
    recipe = arenas.in_arena(recipes.load(arenas.RECIPE, profile="quick", scenario=scenario), arena)
    names = method_order([name for name in METHODS if name in recipe.methods])
    found = arenas.entries_of(recipe, names, SEEDS)
    return {name: entry for name, entry in found.items() if entry.results or entry.failed}


def arena(run, name: str) -> dict[str, arenas.Entry]:
    """An arena of the notebook: what is recorded, or what its own settings ask for."""
    recipe = run.recipe
    if run.scenario.name == SCENARIO and not (recipe.overrides or recipe.recompute):
        return recorded(name)
    return arenas.gather(run, name, only=list(recipe.methods))


def points(entries: Mapping[str, arenas.Entry], column: str) -> dict[str, tuple]:
    """Method -> (bytes both ways, accuracy), one number per seed, for `accuracy_against_bytes`."""
    reached, up, down = (ranks.values(entries, c) for c in (column, "up (kB)", "down (kB)"))
    return {m: (list(np.add(up[m], down[m])), reached[m]) for m in reached}


def intervals(entries: Mapping[str, arenas.Entry], asked: Mapping[str, str]) -> dict:
    """Question -> method -> (first, last, rank per seed)."""
    found = {}
    for question, column in asked.items():
        rows = ranks.ranks(ranks.values(entries, column)).set_index("method")
        found[question] = {m: (r["first"], r["last"], r["per seed"]) for m, r in rows.iterrows()}
    return found


def fixed(shown: Mapping[str, Mapping]) -> tuple[int, int]:
    """(ranks that the seeds fix, all ranks), over all questions of `intervals`."""
    widths = [first == last for rows in shown.values() for first, last, _ in rows.values()]
    return sum(widths), len(widths)


def in_ranks(shown: Mapping[str, Mapping], method: str) -> str:
    """A method's intervals in words, such as `other domains: 17 to 17 of 29`."""
    said = [f"{question}: {rows[method][0]} to {rows[method][1]} of {len(rows)}"
            for question, rows in shown.items() if method in rows]  # fmt: skip
    return "; ".join(said) or "none, because a seed is missing"


def costs(entries: Mapping[str, arenas.Entry], methods: Sequence[str]) -> str:
    """What a whole run of some methods costs, in one clause each."""
    said = []
    for method in methods:
        found = {words: [ranks.values(entries, key).get(method) for key in keys]
                 for words, keys in COST.items()}  # fmt: skip
        if None in [rows for parts in found.values() for rows in parts]:
            continue
        sent, passes, seconds = (sum(np.mean(rows) for rows in parts) for parts in found.values())
        said.append(f"{display_name(method)} {sent / 1e6:.2f} MB, {passes:,.0f} passes a round, "
                    f"{seconds:.1f} s of a processor")  # fmt: skip
    return "; ".join(said)


def beside_the_floor(entries: Mapping[str, arenas.Entry], asked: Mapping[str, str]) -> dict:
    """Question -> (methods above training alone, methods below it), the ceiling left out."""
    sides = {}
    for question, column in asked.items():
        found = ranks.values(entries, column)
        pair = ranks.beside(found, "solo") if "solo" in found else ([], [])
        sides[question] = tuple([m for m in side if m != "central"] for side in pair)
    return sides


def sides(entries: Mapping[str, arenas.Entry], asked: Mapping[str, str]) -> pd.DataFrame:
    """The same as a table of names."""
    rows = []
    for question, pair in beside_the_floor(entries, asked).items():
        named = [", ".join(map(display_name, names)) or "nobody" for names in pair]
        rows.append({"question": question, "above training alone": named[0],
                     "below training alone": named[1]})  # fmt: skip
    return pd.DataFrame(rows)


def table(entries: Mapping[str, arenas.Entry]) -> pd.DataFrame:
    """Accuracy of every method, and whether it runs here as its paper runs it."""
    return answered(ranks.table(entries), list(entries)) if entries else NOBODY


def bill(entries: Mapping[str, arenas.Entry]) -> pd.DataFrame:
    """Costs of every method."""
    return ranks.table(entries, ranks.COSTS) if entries else NOBODY


def entrance(asked: Mapping[str, Mapping[str, str]]) -> pd.DataFrame:
    """Method x arena: yes, or why not."""
    words = {arena: {display_name(m): why or "yes" for m, why in answers.items()}
             for arena, answers in asked.items()}  # fmt: skip
    return pd.DataFrame(words)


# ---------------------------------------------------------------------------------- other data


def real_digits(names: Mapping[str, Sequence[str]]) -> dict[str, dict[str, arenas.Entry]]:
    """Arena -> what is recorded of these methods on the real digits."""
    found = {}
    for arena, methods in names.items():
        inside = recipes.load(arenas.RECIPE, profile="quick", scenario=REAL)
        found[arena] = arenas.entries_of(arenas.in_arena(inside, arena), methods, SEEDS)
    return found


def again(real: Mapping[str, Mapping], asked: Mapping[str, str]) -> pd.DataFrame:
    """Pairs of methods whose order the seeds tell on both data: in the same order, turned round."""
    rows = []
    for arena, there in real.items():
        mini = recorded(arena)
        for question, column in asked.items():
            same, turned = ranks.agreement(ranks.values(mini, column), ranks.values(there, column))
            rows.append({"arena": arena, "question": question, "same order": same,
                         "turned round": turned})  # fmt: skip
    return pd.DataFrame(rows)


def weightings() -> dict[tuple[str, str], list[float]]:
    """(method, whose clients count how) -> accuracy on other domains of the real digits.

    The papers' own weights, and each method with the other ones.
    """
    swapped = {"fedavg.weighting": "uniform", "fednova.weighting": "uniform",
               "scaffold.weighting": "samples", "observe": []}  # fmt: skip
    found, methods = {}, ["fedavg", "fednova", "scaffold"]
    for changes in ({}, swapped):
        recipe = recipes.load(arenas.RECIPE, profile="quick", scenario=REAL, overrides=changes)
        there = arenas.entries_of(recipe, methods, SEEDS)
        for method, values in ranks.values(there, OTHERS).items():
            alike = (method == "scaffold") == (not changes)
            found[method, "clients alike" if alike else "by images"] = values
    return found


def weighted(found: Mapping[tuple[str, str], Sequence[float]]) -> pd.DataFrame:
    """`weightings` as a table of means, in percent."""
    shown = pd.Series({(display_name(method), weights): f"{100 * np.mean(row):.1f}"
                       for (method, weights), row in found.items()}, dtype=str)  # fmt: skip
    return shown.unstack() if len(shown) else shown.to_frame()


# ------------------------------------------------------------------------------------ doubts


def by_luck(seeds: int, draws: int = 100_000) -> float:
    """How often the rule tells two equal methods apart: normal differences with mean zero."""
    drawn = np.random.default_rng(0).standard_normal((draws, max(seeds, 2)))
    one_sign = np.abs(np.sign(drawn).sum(1)) == drawn.shape[1]
    return float((one_sign & (np.abs(drawn.mean(1)) > 2 * drawn.std(1, ddof=1))).mean())


def pairs(tables: Mapping[str, Mapping], asked: Mapping[str, str], lucky: float) -> pd.DataFrame:
    """Arena and question: pairs told apart, all pairs, and how many luck would tell apart."""
    rows = []
    for arena, entries in tables.items():
        for question, column in asked.items():
            told, every = ranks.told_apart(ranks.values(entries, column))
            rows.append({"arena": arena, "question": question, "pairs": every, "told apart": told,
                         "by luck, if all were equal": f"{lucky * every:.0f}"})  # fmt: skip
    return pd.DataFrame(rows)


def one_formula(run) -> tuple[list[float], tuple]:
    """FedAvg and FedNova, which are one formula where all clients take equally many steps.

    How far their weights are apart after each round, as a share of FedAvg's way from the start,
    and both weights after round 1 (None where the steps differ).
    """
    both = [run.federation(m, run.seeds[0], observe=[]) for m in ("fedavg", "fednova")]
    apart, first = [], None
    with both[0].workers(), both[1].workers():
        for fed in both:
            fed.method.start(fed)
        begin = {n: w.clone() for n, w in both[0].server.model.state_dict().items()}
        for number in range(1, run.recipe.settings.rounds + 1):
            for fed in both:
                rounds.play_round(fed, number)
            a, b = (fed.server.model.state_dict() for fed in both)
            apart.append(measures.weight_distance(a, b) / measures.weight_distance(a, begin))
            if number == 1 and len({c.steps for c in both[0].clients}) == 1:
                first = [{n: w.clone() for n, w in state.items()} for state in (b, a)]
    return apart, first


def rates(run, entries: Mapping[str, arenas.Entry], names: Sequence[str], column: str) -> dict:
    """Learning rate -> method -> accuracy per seed: as in the benchmark, and at half the rate."""
    rate = run.recipe.settings.lr
    slower = arenas.gather(run, "one network", only=names, lr=rate / 2, observe=[])
    found = {rate: ranks.values(entries, column), rate / 2: ranks.values(slower, column)}
    both = [m for m in names if all(m in rows for rows in found.values())]
    return {value: {m: rows[m] for m in both} for value, rows in found.items()}


def at_rates(found: Mapping[float, Mapping[str, Sequence[float]]]) -> pd.DataFrame:
    """`rates` as a table: means in percent, best first, a column per rate."""
    columns = {}
    for value, rows in found.items():
        best = sorted(rows, key=lambda m, rows=rows: -np.mean(rows[m]))
        columns[f"lr {value:g}, best first"] = [
            f"{display_name(m)} {100 * np.mean(rows[m]):.1f}" for m in best
        ]
    return pd.DataFrame(columns)


def twins(entries: Mapping[str, arenas.Entry], method: str = "fedavg") -> list[str]:
    """Methods whose accuracy at home is that of another in every seed."""
    found = ranks.values(entries, OWN)
    return [display_name(m) for m, row in found.items() if m != method and row == found.get(method)]
