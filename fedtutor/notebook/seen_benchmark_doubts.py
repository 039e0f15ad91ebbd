"""What notebook 07 doubts about its own table: whose lead it is, and how much is luck.

Nothing here trains but `one_formula`.
"""

from collections.abc import Mapping, Sequence
from itertools import takewhile

import numpy as np
import pandas as pd

from .. import measures, rounds
from ..experiments import arenas, ranks, recipes
from ..experiments.arenas import SEEDS
from ..figures import display_name
from ..papers import direction, spread
from .conditions import OTHERS, OWN, REAL, gains
from .frame import sentence
from .rows import starred

LUCK = "told apart by luck, if all were equal"
LAST_DIGITS = 1e-5  # of a weight; what rounding alone makes is below
EITHER = ("So each of the two alone lifts FedAvg: corrections, or counting alike. The seeds do not "
          "tell whether both together do more.")  # fmt: skip

# --------------------------------------------------------------------------- whose lead it is


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


def two_by_two(found: Mapping[tuple[str, str], Sequence[float]]) -> pd.DataFrame:
    """`weightings` of SCAFFOLD and FedAvg: both in percent, and their difference."""
    rows = {"each as in its paper": ("clients alike", "by images"),
            "both by images": ("by images",) * 2, "both alike": ("clients alike",) * 2}  # fmt: skip
    table = {}
    for words, (corrected, plain) in rows.items():
        pair = [100 * np.array(found[key]) for key in (("scaffold", corrected), ("fedavg", plain))]
        lead = pair[0] - pair[1]
        table[words] = {"SCAFFOLD (%)": spread(pair[0], 1), "FedAvg (%)": spread(pair[1], 1),
                        "SCAFFOLD minus FedAvg": starred(lead)}  # fmt: skip
    return pd.DataFrame.from_dict(table, orient="index")


def told_turned(again: pd.DataFrame) -> str:
    """How many pairs turn round on other data, and where most of them; from `seen.again`."""
    pairs = again["same order"] + again["turned round"]
    turned = again["turned round"].sum()
    if not turned:
        return "**What you see.** No pair turns round."
    most = (again["turned round"] / pairs.where(pairs > 0)).idxmax()
    count, row = "Few" if turned < 0.1 * pairs.sum() else "Many", again.loc[most]
    return (f"**What you see.** {count} pairs turn. The largest share is that of *{row['arena']}*, "
            f"{row['question']}: {row['turned round']} of {pairs[most]}.")  # fmt: skip


def told_lead(mini: Mapping[str, arenas.Entry], real: Mapping[str, arenas.Entry]) -> list[str]:
    """SCAFFOLD beside FedAvg in section 5 and on real digits, and beside training alone there."""
    pairs = [gains(entries, "scaffold", other, column) for entries, other, column in (
        (mini, "fedavg", OTHERS), (real, "fedavg", OTHERS), (real, "solo", OWN))]  # fmt: skip
    if not all(map(len, pairs)):
        return ["Some rows are open: `python -m tools.record benchmark` records them."]
    here, there, alone = pairs
    nova = gains(real, "fednova", "fedavg", OTHERS)
    return [
        sentence(here, digits=1,
                 above="In section 5, on other domains, SCAFFOLD leads FedAvg by {value} points.",
                 below="In section 5, on other domains, FedAvg leads SCAFFOLD by {value} points.",
                 unclear="In section 5, on other domains, the seeds do not tell SCAFFOLD from "
                 "FedAvg."),
        sentence(there, digits=1,
                 above="On the real digits SCAFFOLD leads by {value} points.",
                 below="On the real digits FedAvg leads by {value} points.",
                 unclear="On the real digits they do not tell them apart, either."),
        sentence(alone, digits=1,
                 above="On the own real digits SCAFFOLD is {value} points above training alone.",
                 below="On the own real digits SCAFFOLD is {value} points below training alone.",
                 unclear="On the own real digits SCAFFOLD cannot be told from training alone."),
        sentence(nova, digits=0,
                 above="FedNova is no longer FedAvg, because steps differ between clients: it is "
                 "{value} points ahead of it on other domains.",
                 below="FedNova is no longer FedAvg, because steps differ between clients: it is "
                 "{value} points behind it on other domains. Why so much, we did not test.",
                 unclear="FedNova cannot be told from FedAvg here.") if len(nova) else "",
    ]  # fmt: skip


def told_weightings(found: Mapping[tuple[str, str], Sequence[float]]) -> list[str]:
    """What is left of SCAFFOLD's lead, in sentences."""
    both = ("scaffold", "fedavg")
    by_images, alike = ([100 * np.array(found[method, how]) for method in both]
                        for how in ("by images", "clients alike"))  # fmt: skip
    asked = (by_images[0] - by_images[1], alike[1] - by_images[1], alike[0] - alike[1])
    enough = list(map(direction, asked)) == [1, 1, 0]
    return [
        sentence(by_images[0] - by_images[1], digits=1,
                 above="If both count clients by images, SCAFFOLD stays {value} points ahead.",
                 below="If both count clients by images, SCAFFOLD is {value} points behind.",
                 unclear="If both count clients by images, the two cannot be told apart."),
        sentence(alike[0] - alike[1], digits=1,
                 above="If clients count alike in both methods, SCAFFOLD keeps {value} points.",
                 below="If clients count alike in both methods, SCAFFOLD is {value} points behind.",
                 unclear="If clients count alike in both methods, the two cannot be told apart."),
        sentence(alike[1] - by_images[1], digits=1,
                 above="Counting alike lifts FedAvg by {value} points.",
                 below="Counting alike costs FedAvg {value} points.",
                 unclear="Counting alike changes nothing in FedAvg that the seeds tell."),
        EITHER if enough else "",
    ]  # fmt: skip


# ------------------------------------------------------------------------------------ luck


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


def told_pairs(found: pd.DataFrame) -> str:
    """The same of the first arena, in a sentence."""
    arena = found.index[0].partition(", ")[0]
    rows = found[found.index.str.startswith(arena)]
    apart = " and ".join(f"{row['told apart']} ({words.partition(', ')[2]})"
                         for words, row in rows.iterrows())  # fmt: skip
    return (f"In *{arena}* our rule tells apart {apart} of {rows['pairs'].iloc[0]} pairs; if all "
            f"methods were equal, luck would tell {rows[LUCK].iloc[0]}.")  # fmt: skip


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


def rows_apart(entries: Mapping[str, arenas.Entry]) -> str:
    """How far the table's rows of `one_formula` are apart, in a sentence; "" where one is open."""
    found = ranks.values(entries, OWN)
    if not {"fedavg", "fednova"} <= found.keys():
        return ""
    most = 100 * np.abs(np.subtract(found["fednova"], found["fedavg"])).max()
    return f"In section 5 the two rows are up to {most:.1f} points apart in a seed."


def twins(entries: Mapping[str, arenas.Entry], method: str = "fedavg") -> list[str]:
    """Methods whose accuracy at home is that of another in every seed."""
    found = ranks.values(entries, OWN)
    return [display_name(m) for m, row in found.items() if m != method and row == found.get(method)]
