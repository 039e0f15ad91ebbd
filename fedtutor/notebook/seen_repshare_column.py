"""RepShare's Fashion-MNIST column at the paper's own settings, as far as it was run (04b)."""

from collections.abc import Mapping, Sequence

import numpy as np

from .seen_repshare import points
from .seen_repshare_tables import FASHION, FIRST, of_paper

DATA, SIZES = "fashion-mnist", (2, 5, 10)
DRAWS = {"our draw": {}, "the author's images": FIRST}
RIVALS = ("IL", "FD")


def leads(run, label: str, rivals: Sequence[str] = RIVALS) -> dict[tuple, dict[str, float]]:
    """(clients, draw) -> rival -> by how many points the row `label` is ahead, mean over seeds.

    Of the columns in which it and all rivals were run; labels are those of `FASHION`.
    """
    found = {}
    for clients in SIZES:
        for draw, images in DRAWS.items():
            values = {}
            for name in (label, *rivals):
                _, method, _, changes = FASHION[name]
                values[name] = points(of_paper(run, method, clients, DATA, **changes, **images))
            if all(map(len, values.values())):
                found[clients, draw] = {
                    rival: float(np.mean(values[label]) - np.mean(values[rival]))
                    for rival in rivals
                }
    return found


def told(found: Mapping[tuple, Mapping[str, float]], label: str) -> str:
    """In how many of these columns the row is above every rival, in a sentence."""
    if not found:
        return "No column has all three rows yet."
    above = sum(min(gains.values()) > 0 for gains in found.values())
    names = " and ".join(f"*{rival}*" for rival in next(iter(found.values())))
    each = f"{above} of {len(found)}" if above < len(found) else f"all {len(found)}"
    return f"*{label}* is above {names} in {each} columns that have all three, one seed each."
