"""What notebook 07 reads off its tables: who is above whom, and at which cost.

Tables are dicts method -> `arenas.Entry`; a column is a key of `ranks.MEASURES`. Nothing here
trains.
"""

import sys
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from .. import measures
from ..engine.kinds import is_ours
from ..experiments import arenas, ranks, recipes
from ..experiments.arenas import SEEDS
from ..figures import display_name, method_order
from ..methods import METHODS
from ..papers import spread
from .conditions import (
    AS_PAPER,
    OTHERS,
    OWN,
    REAL,
    SCENARIO,
    YOURS,
    answered,
    gains,
)
from .frame import VERDICT_BOX, _show, sentence
from .rows import starred

NOT_FEDERATED = ("solo", "central")
ALL = ("other domains", "own domain")
NOBODY = pd.DataFrame([{"method": "nobody may enter with these clients"}])
COLUMNS = dict(zip(ALL, (OTHERS, OWN), strict=True))
EXAMINED, UNEXAMINED = {"repshare": "section 9 examines it"}, "not examined here"
COST = {
    "down and up (kB)": ("up (kB)", "down (kB)"),
    "passes": ("passes",),
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


def at_the_end(shown: Mapping[str, Mapping]) -> str:
    """`, the last 2` where the ranks that the seeds fix are the last ones in every question."""
    sure, _ = fixed(shown)
    first = [rows[m][0] > len(rows) - len(sure) for rows in shown.values() for m in sure]
    return f", the last {len(sure)}" if sure and all(first) else ""


def title(shown: Mapping[str, Mapping], seeds: int) -> str:
    """Of the figure of ranks: for how many methods the seeds leave one rank, and which."""
    sure, count = fixed(shown)
    panels = "both panels" if len(shown) > 1 else "the panel"
    named = f": {_named(sure)}" if 0 < len(sure) < 5 else ""
    return (f"Of the library's {count} methods, {seeds} seeds fix the rank of {len(sure)} in "
            f"{panels}{named}")  # fmt: skip


def leader(entries: Mapping[str, arenas.Entry], column: str) -> str:
    """The federated method with the highest mean in a column."""
    found = ranks.values(entries, column)
    return max(federated(found), key=lambda m: np.mean(found[m]), default="")


def first(entries: Mapping[str, arenas.Entry], asked: Mapping[str, str]) -> list[str]:
    """Who has the highest mean in each question, at which rank; who runs as in its paper."""
    shown, said, closer = intervals(entries, asked), [], []
    for question, column in asked.items():
        if not (name := leader(entries, column)):
            continue
        rows, found = shown[question], ranks.values(entries, column)
        said.append(f"{_at(name, found, rows)} on the {question}")
        closer += [f"But {_at(m, found, rows)} has a better interval on the {question}, because it "
                   "beats more rows." for m in federated(rows)
                   if rows[m][0] <= rows[name][0] and rows[m][1] < rows[name][1]]  # fmt: skip
    every, (sure, count) = federated(entries), fixed(shown)
    alike = [m for m in every if AS_PAPER.get(m, YOURS).startswith("yes")]
    unlike = [f"{display_name(m)} ({AS_PAPER.get(m, YOURS).partition(': ')[2]}; "
              f"{EXAMINED.get(m, UNEXAMINED)})" for m in sure if m not in alike]  # fmt: skip
    unlike = f" With a fixed rank, but not as in the paper: {' and '.join(unlike)}." * bool(unlike)
    return [
        f"**Who is first?** {rows_shown(shown)} The highest means of the {count} methods: "
        f"{', '.join(said) or 'nobody'}.",
        *closer,
        f"{len(alike)} of {len(every)} methods **run as in their papers**, apart from data, "
        f"networks and rounds (folded table of accuracies).{unlike}",
    ]


def _at(name: str, found: Mapping, rows: Mapping) -> str:
    """`FD (90.5 ± 0.5 %; rank 2 to 11)`."""
    return f"{display_name(name)} ({spread([100 * v for v in found[name]], 1)} %; " + (
        f"rank {_place(rows[name])})")  # fmt: skip


def _place(row: tuple) -> str:
    first, last, _ = row
    return f"{first} to {last}" if first < last else f"{first}"


def rows_shown(shown: Mapping[str, Mapping]) -> str:
    """How many rows the ranks count, and which: the library's methods and the others by name."""
    names = list(next(iter(shown.values()), {}))
    inside = federated(names)
    rest = [m for m in names if m not in inside]
    return f"Ranks count {len(names)} rows: {len(inside)} methods, {_named(rest)}."


def in_ranks(shown: Mapping[str, Mapping], method: str) -> str:
    """A method's intervals in words, such as `17 of 29 on other domains`."""
    said = []
    for question, rows in shown.items():
        if method in rows:
            said.append(f"{_place(rows[method])} of {len(rows)} on the {question}")
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
                     "what crosses": ", ".join(dict.fromkeys(sent)) or (
                         "nothing" if entry.results else "-")})  # fmt: skip
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
        sent, passes = (sum(np.mean(rows) for rows in parts) for parts in found.values())
        said.append(f"{display_name(method)} {sent / 1e6:.2f} MB, {passes:,.0f} passes a round")
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


def minus_alone(entries: Mapping, asked: Mapping[str, str], names: Sequence[str]) -> list[str]:
    """A line per method: its difference to training alone, in points; a star where it is told."""
    lines = []
    for name in names:
        less = {q: gains(entries, name, "solo", column) for q, column in asked.items()}
        said = [f"{q} {starred(values)}" for q, values in less.items() if len(values)]
        lines += [f"{display_name(name)} minus training alone: {', '.join(said)}"] if said else []
    return lines


def _named(names: Sequence[str]) -> str:
    """`A, B and C`, or `nobody`."""
    *most, last = [*map(display_name, names)] or ["nobody"]
    return f"{', '.join(most)} and {last}" if most else last


def table(entries: Mapping[str, arenas.Entry], *, four: bool = False) -> pd.DataFrame:
    """Accuracy of every method, and whether it runs here (`four` networks) as its paper runs it."""
    return answered(ranks.table(entries), list(entries), four=four) if entries else NOBODY


def bill(entries: Mapping[str, arenas.Entry]) -> pd.DataFrame:
    """Costs of every method."""
    return ranks.table(entries, ranks.COSTS) if entries else NOBODY


def entered(answers: Mapping[str, str]) -> tuple[int, int]:
    """(federated methods of this package that may enter an arena, those that were asked)."""
    names = federated(answers)
    return sum(not answers[m] for m in names), len(names)


def admitted(arena: str, answers: Mapping[str, str]) -> str:
    """How many of the library's methods may enter an arena, in a line; who not, if they are few."""
    may, every = entered(answers)
    out = [m for m in federated(answers) if answers[m]]
    but = f", not {_named(out)}" if 0 < len(out) < 4 else ""
    return f"{arena:<15} {may:>2} of {every} methods may enter{but}"


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


def told_virtual(virtual: Mapping[str, arenas.Entry], rounds: int) -> list[str]:
    """What distilled images cost before round 1, and what FedLGD gains on them, in sentences."""
    made, played = (ranks.values(virtual, key).get("fedavg") for key in ("before", "passes"))
    said = []
    if made and played:
        ratio = np.mean(made) / (rounds * np.mean(played))
        said = [f"**What you see.** Making the images costs {ratio:.1f} times the passes of "
                f"FedAvg's {rounds} rounds. A table that counts from round 1 would hide this "
                "price."]  # fmt: skip
    less = gains(virtual, "fedlgd", "fedavg", OWN)
    if len(less):
        said.append(sentence(
            less, digits=1,
            above="On these images FedLGD is {value} points ahead of FedAvg.",
            below="On these images FedLGD is {value} points behind FedAvg; section 9 asks whether "
            "our setting is the reason.",
            unclear="On these images FedLGD cannot be told from FedAvg.",
        ))  # fmt: skip
    return said or ["Some rows are open: `python -m tools.record benchmark` records them."]


def verdict_box() -> None:
    """The box of the other notebooks, in a fold: here are no claims, but the rule is the same."""
    page = (f"<details><summary>The same rule judges the claims of all other notebooks</summary>"
            f"\n\n{VERDICT_BOX}\n</details>")  # fmt: skip
    _show({"text/markdown": page, "text/plain": "How a claim is judged: see notebook 00."})
