"""Words and numbers of a figure: proper names, percent, bytes, and titles computed from data."""

from collections.abc import Sequence

import numpy as np

from .inputs import pair, require, sample_sd

DISPLAY = {
    "solo": "local only (solo)", "central": "centralized", "fedavg": "FedAvg",
    "fedprox": "FedProx", "fednova": "FedNova", "scaffold": "SCAFFOLD", "fedavgm": "FedAvgM",
    "moon": "MOON", "fedproto": "FedProto", "fedproc": "FedProc", "fedrs": "FedRS",
    "feddyn": "FedDyn", "fedadam": "FedAdam", "fedyogi": "FedYogi", "fedbn": "FedBN",
    "fedper": "FedPer", "fedrep": "FedRep", "ditto": "Ditto",
    "fedgkd": "FedGKD", "ewc": "EWC", "vhl": "VHL", "fedmd": "FedMD", "feddf": "FedDF",
    "fedmatch": "FedMatch", "rhfl": "RHFL", "fml": "FML", "rcfl": "RCFL", "fd": "FD",
    "fccl": "FCCL", "fccl+": "FCCL+", "fedcsd": "FedCSD", "repshare": "RepShare",
    "fedlgd": "FedLGD", "kd": "plain logits (kd)",
    "logit-distillation": "logit distillation", "feature-distillation": "feature distillation",
}  # fmt: skip
IN_A_SENTENCE = DISPLAY | {"solo": "local-only training", "central": "centralized training"}
ACCURACY = "accuracy (%), higher is better"


def display_name(method: str) -> str:
    """The proper name of a method (`fccl+` is FCCL+); a reader's own keeps the name it has."""
    return DISPLAY.get(method, str(method))


def percent(share: float) -> str:
    """A share between 0 and 1 in words: `87 %`."""
    return f"{100 * share:.0f} %"


def human_bytes(n: float) -> str:
    """Bytes in decimal units, three digits: `0 B`, `950 B`, `1.25 MB` (1 kB is 1000 bytes)."""
    require(0 <= n < np.inf, f"{n} bytes", where="human_bytes", do="give a number from 0 on")
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if n < 999.5 or unit == "TB":
            return f"{n:.0f} {unit}" if n >= 99.95 or unit == "B" else f"{n:.3g} {unit}"
        n /= 1000


def finding(
    method: str,
    other: str,
    values: Sequence[float],
    other_values: Sequence[float],
    *,
    where: str = "",
    words: tuple[str, str] = ("gains {} over", "loses {} against"),
    scale: float = 100,
    unit: str = "points",
) -> str:
    """A title computed from paired seeds: `FedAvg gains 11 points over local-only training`.

    values, other_values: [seeds], in the same order of seeds. The difference of the means is
    stated as a fact only where every seed has its sign and the mean is more than two standard
    deviations from 0; otherwise the title says "within the spread", and with one seed "one seed".
    It starts with a capital letter; inside it, names stay as they are.
    `words` are for a positive and a negative difference, `scale` turns it into `unit`.
    """
    where_both = f"finding, {method} and {other}"
    first, second = pair((values, other_values), where=where_both, shares=(False, False))
    difference = scale * (first - second)
    mean, sd = difference.mean(), sample_sd(difference)
    a, b = (IN_A_SENTENCE.get(name, name) for name in (method, other))
    tail = f" {where}" if where else ""
    one_sign = bool(mean) and np.all(np.sign(difference) == np.sign(mean))
    clear = len(first) == 1 or (one_sign and abs(mean) > 2 * sd)
    if np.any(difference):
        size = _amount(abs(mean), None if clear else sd, unit)
        text = f"{a} {words[0 if mean > 0 else 1].format(size)} {b}{tail}"
    else:
        clear, text = True, f"{a} and {b} are equal{tail}"
    text = text[:1].upper() + text[1:]
    return text + (" (one seed)" if len(first) == 1 else "" if clear else ": within the spread")


def _amount(mean: float, sd: float | None, unit: str) -> str:
    def number(value):
        return f"{value:.0f}" if max(mean, sd or 0) >= 9.95 else f"{value:.2g}"

    text = number(mean) if sd is None else f"{number(mean)} ± {number(sd)}"
    return f"{text} {'point' if text == '1' and unit == 'points' else unit}"
