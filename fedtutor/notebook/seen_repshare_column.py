"""RepShare's Fashion-MNIST column at the paper's own settings, as far as it was run (04b)."""

from collections.abc import Mapping, Sequence

import numpy as np

from .seen_repshare import points
from .seen_repshare_tables import FASHION, FIRST, of_paper

DATA, SIZES = "fashion-mnist", (2, 5, 10)
DRAWS = {"our draw": {}, "the author's images": FIRST}
RIVALS = ("IL", "FD")


def leads(run, label: str, rivals: Sequence[str] = RIVALS) -> dict[tuple, dict]:
    """(clients, draw) -> rival -> by how many points the row `label` is ahead, one per seed.

    Of the columns in which it and all rivals were run, with the seeds that all of them have;
    labels are those of `FASHION`.
    """
    found = {}
    for clients in SIZES:
        for draw, images in DRAWS.items():
            values = {}
            for name in (label, *rivals):
                _, method, _, changes = FASHION[name]
                values[name] = points(of_paper(run, method, clients, DATA, **changes, **images))
            if few := min(map(len, values.values())):
                own = np.array(values[label][:few])
                found[clients, draw] = {rival: own - values[rival][:few] for rival in rivals}
    return found


def told(found: Mapping[tuple, Mapping], label: str) -> str:
    """In how many of these columns the row's mean is above that of every rival, in a sentence."""
    if not found:
        return "No column has all three rows yet."
    above = sum(min(map(np.mean, gains.values())) > 0 for gains in found.values())
    names = " and ".join(f"*{rival}*" for rival in next(iter(found.values())))
    seeds = max(len(gains) for column in found.values() for gains in column.values())
    return (f"*{label}* is above {names} in {above} of the {len(found)} columns that have all "
            f"three, with {seeds} seed{'s' * (seeds > 1)} at most.")  # fmt: skip
