"""What notebook 07 says first and last: which method to take, as its tables have it."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from ..experiments import ranks
from ..figures import display_name
from .conditions import OPEN, OTHERS, OWN, gains
from .rows import told
from .seen_benchmark import (
    COLUMNS,
    _named,
    _place,
    at_the_end,
    better,
    fixed,
    intervals,
    leader,
    points,
    unbeaten,
)
from .seen_benchmark_doubts import told_weightings, weightings


def first_screen(mini: Mapping, real: Mapping, four: Mapping, four_real: Mapping) -> list[str]:
    """What the first screen says of all arenas: which method to take, and which ranks are fixed."""
    both, shown = in_both(mini, real, OTHERS), intervals(mini, COLUMNS)
    above, own, (sure, count) = better(mini, OTHERS), better(real, OWN), fixed(shown)
    alike = not told(gains(mini, "scaffold", "fedavg", OTHERS)) and (
        "cannot be told apart" in told_weightings(weightings())[1])  # fmt: skip
    gloss = ", which corrects local steps," if both == ["scaffold"] else ","
    again = f"none beats {_named(both)}{gloss} here or on real digits." if both else (
        "here or on real digits each is beaten by another.")  # fmt: skip
    return [
        f"*One network, others' digits:* {len(above)} of {count} methods beat training alone;",
        again,
        "On real digits FedAvg that counts clients alike is not told from it, and sends less."
        if both == ["scaffold"] and alike else "",
        f"*Own digits:* {_beaten_by(better(mini, OWN), 'training alone')};",
        f"on real digits {_named(own) if own else 'none'} do{'es' * (len(own) < 2)}.",
        f"*Four networks, others' digits:* {_in_both_data(four, four_real)}.",
        f"*Ranks:* the seeds fix {len(sure)} of {count}{at_the_end(shown)}.",
    ]  # fmt: skip


def every_rank(shown: Mapping[str, Mapping]) -> pd.DataFrame:
    """Method | its interval of ranks per question, such as "2 to 11"; from `intervals`."""
    names = dict.fromkeys(m for rows in shown.values() for m in rows)
    return pd.DataFrame([
        {"method": display_name(m)}
        | {question: _place(rows[m]) if m in rows else OPEN for question, rows in shown.items()}
        for m in names])  # fmt: skip


def in_both(mini: Mapping, real: Mapping, column: str) -> list[str]:
    """Methods that no other federated method beats, neither on the small digits nor the real."""
    again = unbeaten(real, column)
    return [m for m in unbeaten(mini, column) if m in again]


def _in_both_data(four: Mapping, four_real: Mapping) -> str:
    again = better(four_real, OTHERS)
    both = [m for m in better(four, OTHERS) if m in again]
    return f"{_beaten_by(both, 'training alone')} both here and on real digits"


def advice(mini: Mapping, real: Mapping, four: Mapping, four_real: Mapping) -> list[str]:
    """Which method to take, in sentences: on the small digits, the real ones, four networks."""
    sent = {m: np.mean(found[0]) for m, found in points(mini, OTHERS).items()}
    both = in_both(mini, real, OTHERS)
    price = [f"{display_name(m)} sends {sent[m] / sent['fedavg']:.1f} times FedAvg's bytes."
             for m in both]  # fmt: skip
    take = f"So take {_named(both)}." if both else ""
    if "scaffold" in both:  # section 8 asks whether its lead is its own
        alike = told_weightings(weightings())[1]
        if "cannot be told apart" in alike:
            take = ("But the seeds cannot tell it from FedAvg that counts clients alike: try that "
                    "first.")  # fmt: skip
        else:
            price.append(alike)
    nobody = "every federated method is beaten by another"
    leading = f"no federated method beats {_named(both)}" if both else nobody
    own, there, other, later = (better(*asked) for asked in (
        (mini, OWN), (real, OWN), (four, OTHERS), (four_real, OTHERS)))  # fmt: skip
    return [
        f"*For others' digits*, {leading} in section 5 or on the real digits of section 8.",
        *price, take, first_but_beaten(mini, real),
        f"*For the own digits*, try training alone first: in section 5 {_beaten_by(own)}, on the "
        f"real digits {_beaten_by(there)}. *With four networks*, for others' digits: in section 6 "
        f"{_beaten_by(other, 'training alone')}, on the real digits {_beaten_by(later)}.",
    ]  # fmt: skip


def first_but_beaten(mini: Mapping, real: Mapping) -> str:
    """Why the method with the highest mean on the small digits is not the one to take."""
    both = in_both(mini, real, OTHERS)
    name, found = leader(mini, OTHERS), ranks.values(real, OTHERS)
    rivals = [m for m in both if name in found and m in ranks.beside(found, name)[0]]
    return (f"{display_name(name)}, first by its mean in section 5, is beaten by {_named(rivals)} "
            "on the real digits.") if rivals else ""  # fmt: skip


def _beaten_by(names: Sequence[str], whom: str = "it") -> str:
    return f"{_named(names)} beat{'s' * (len(names) == 1)} {whom}" if names else (
        f"no method beats {whom}")  # fmt: skip
