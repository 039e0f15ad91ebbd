"""What notebook 07 reads off its tables: who is above whom, at which cost, and how much is luck.

Tables are dicts method -> `arenas.Entry`; a column is a key of `ranks.MEASURES`. Nothing here
trains but `one_formula`.
"""

import sys
from collections.abc import Mapping, Sequence
from itertools import takewhile

import numpy as np
import pandas as pd

from .. import measures, rounds
from ..engine.kinds import is_ours
from ..experiments import arenas, ranks, recipes
from ..experiments.recording import SEEDS
from ..figures import display_name, method_order
from ..methods import METHODS
from .conditions import OTHERS, OWN, REAL, SCENARIO, answered, told_weightings, weightings
from .frame import VERDICT_BOX, _show

NOT_FEDERATED = ("solo", "central")
LUCK = "told apart by luck, if all were equal"
LAST_DIGITS = 1e-5  # of a weight; what rounding alone makes is below
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


def federated(names: Sequence[str]) -> list[str]:
    """Those that are federated methods of this package: no yardstick, and not a reader's own."""
    return [m for m in names if m not in NOT_FEDERATED and is_ours(METHODS.get(m))]


def fixed(shown: Mapping[str, Mapping]) -> tuple[list[str], int]:
    """(federated methods whose rank the seeds fix in every question, number of these methods)."""
    names = federated(next(iter(shown.values()), {}))
    sure = [m for m in names if all(rows[m][0] == rows[m][1] for rows in shown.values())]
    return sure, len(names)


def in_ranks(shown: Mapping[str, Mapping], method: str) -> str:
    """A method's intervals in words, such as `17 of 29 on other domains`."""
    said = []
    for question, rows in shown.items():
        if method in rows:
            first, last, _ = rows[method]
            place = f"{first} to {last}" if first < last else f"{first}"
            said.append(f"{place} of {len(rows)} on the {question}")
    return ", ".join(said) or "open, because a seed is missing"


def at_home(entry: arenas.Entry) -> list[float]:
    """Accuracy on the own domain after local training, before the last average; one per seed."""
    found = []
    for result in entry.results:
        history, now = result.history, ("after_local", result.headline["round"])
        own = [history["tests"].index(domain) for domain in history["domains"]]
        found += [np.mean(measures.intra(seen["matrix"], own)) for seen in history["accuracy"]
                  if (seen["moment"], seen["round"]) == now]  # fmt: skip
    return found if len(found) == len(entry.results) else []


def who(entries: Mapping[str, arenas.Entry]) -> pd.DataFrame:
    """Method | what it does, in the first line of its docstring | what crosses."""
    rows = []
    for name, entry in entries.items():
        sent = [row["name"] for r in entry.results[:1] for row in r.history["bytes"]]
        rows.append({"method": display_name(name), "what it does": _first_line(METHODS[name]),
                     "what crosses": ", ".join(dict.fromkeys(sent)) or "nothing"})  # fmt: skip
    return pd.DataFrame(rows or NOBODY)


def _first_line(method: type) -> str:
    alone = [c for c in METHODS.values() if c.__module__ == method.__module__] == [method]
    about = sys.modules[method.__module__] if alone and is_ours(method) else method
    line = (about.__doc__ or "").partition("\n")[0]
    return line.partition(": ")[2] if about is not method else line


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
    """Question -> (methods above training alone, methods below it), `central` left out."""
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


def winners(entries: Mapping[str, arenas.Entry], asked: Mapping[str, str]) -> list[str]:
    """A line per question: who is above training alone."""
    return [f"{question}, above training alone: {_named(above)}"
            for question, (above, _) in beside_the_floor(entries, asked).items()]  # fmt: skip


def _named(names: Sequence[str]) -> str:
    """`A, B and C`, or `nobody`."""
    *most, last = [*map(display_name, names)] or ["nobody"]
    return f"{', '.join(most)} and {last}" if most else last


def table(entries: Mapping[str, arenas.Entry]) -> pd.DataFrame:
    """Accuracy of every method, and whether it runs here as its paper runs it."""
    return answered(ranks.table(entries), list(entries)) if entries else NOBODY


def bill(entries: Mapping[str, arenas.Entry]) -> pd.DataFrame:
    """Costs of every method."""
    return ranks.table(entries, ranks.COSTS) if entries else NOBODY


def entered(answers: Mapping[str, str]) -> tuple[int, int]:
    """(federated methods of this package that may enter an arena, those that were asked)."""
    names = federated(answers)
    return sum(not answers[m] for m in names), len(names)


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


def unbeaten(entries: Mapping[str, arenas.Entry], column: str) -> list[str]:
    """Methods above training alone that no other federated method beats."""
    found, above = ranks.values(entries, column), better(entries, column)
    return [m for m in above if not set(federated(ranks.beside(found, m)[0]))]


def better(entries: Mapping[str, arenas.Entry], column: str) -> list[str]:
    """Federated methods above training alone."""
    return federated(beside_the_floor(entries, {"": column})[""][0])


def advice(mini: Mapping, real: Mapping, four: Mapping) -> list[str]:
    """Which method to take, in sentences: on the small digits, the real ones, four networks."""
    best, again = unbeaten(mini, OTHERS), unbeaten(real, OTHERS)
    sent = {m: np.mean(found[0]) for m, found in points(mini, OTHERS).items()}
    both = [m for m in best if m in again]
    price = [f"{display_name(m)} sends {sent[m] / sent['fedavg']:.1f} times FedAvg's bytes."
             for m in both]  # fmt: skip
    if "scaffold" in both:  # section 8 asks whether its lead is its own
        alike = told_weightings(weightings())[1]
        price.append(alike)
        if "cannot be told apart" in alike:
            price.append(
                "So FedAvg that counts clients alike is as good a choice, for fewer bytes."
            )
    own, there, other = (_named(better(*asked))
                         for asked in ((mini, OWN), (real, OWN), (four, OTHERS)))  # fmt: skip
    return [
        f"*For others' digits*, no federated method beats {_named(best)} in section 5, and none "
        f"beats {_named(again)} on the real digits of section 8.",
        f"So take {_named(both)}." if both else "So no method leads on both.", *price,
        f"*For the own digits*, try training alone first: of the federated methods, {own} beats "
        f"it in section 5, and {there} on the real digits. *With four different networks*, "
        f"training alone is beaten on others' digits by {other}.",
    ]  # fmt: skip


# ------------------------------------------------------------------------------------ doubts


def verdict_box() -> None:
    """The box of the other notebooks, in a fold: here are no claims, but the rule is the same."""
    page = (f"<details><summary>The same rule judges the claims of all other notebooks</summary>"
            f"\n\n{VERDICT_BOX}\n</details>")  # fmt: skip
    _show({"text/markdown": page, "text/plain": "How a claim is judged: see notebook 00."})


def by_luck(seeds: int, draws: int = 100_000) -> float:
    """How often the rule tells two equal methods apart: normal differences with mean zero."""
    drawn = np.random.default_rng(0).standard_normal((draws, max(seeds, 2)))
    one_sign = np.abs(np.sign(drawn).sum(1)) == drawn.shape[1]
    return float((one_sign & (np.abs(drawn.mean(1)) > 2 * drawn.std(1, ddof=1))).mean())


def pairs(tables: Mapping[str, Mapping], asked: Mapping[str, str], lucky: float) -> pd.DataFrame:
    """Arena and question: pairs told apart, all pairs, and how many luck would tell apart."""
    rows = {}
    for arena, entries in tables.items():
        for question, column in asked.items():
            told, every = ranks.told_apart(ranks.values(entries, column))
            rows[f"{arena}, {question}"] = {"pairs": every, "told apart": told,
                                            LUCK: f"{lucky * every:.0f}"}  # fmt: skip
    return pd.DataFrame.from_dict(rows, orient="index")


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


def grown(apart: Sequence[float]) -> str:
    """When two runs of one formula part, in a sentence; see `one_formula`."""
    quiet = len([*takewhile(lambda share: share < LAST_DIGITS, apart)])
    if not 0 < quiet < len(apart):
        return f"Rounds in which only last digits differ: {quiet} of {len(apart)}."
    return (f"For {quiet} rounds only last digits differ. In round {quiet + 1} the difference is "
            f"suddenly {apart[quiet] / apart[quiet - 1]:.0f} times as large.")  # fmt: skip


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
