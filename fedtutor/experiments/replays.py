"""A tenth of all runs, played again on another processor: what a last digit costs.

Two processors differ in the last digits of a sum, and training amplifies them. So a recording is
one draw of two kinds of chance: the seed's and the processor's. Both recordings are kept, the first
in data/results, the second in data/replays, in the same form.
"""

from pathlib import Path

import pandas as pd

from ..engine.files import DATA
from . import results
from .frame import KEYS, runs

REPLAYS = DATA / "replays"
GROUP = [key for key in KEYS if key != "seed"]
SIDES = {"own domain": "intra", "other domains": "inter"}


def compared(folder=REPLAYS, *, first=results.RESULTS) -> pd.DataFrame:
    """One row per replay and side, in points: run, side, processor, seed.

    `processor`: the replay minus the recording, the same seed. `seed`: the next seed of the same
    setting minus this one, both as recorded; NaN where there is no other.
    """
    recorded, rows = runs(first), []
    here = runs(folder) if Path(folder).is_dir() else recorded.iloc[:0]
    for name in here.index.intersection(recorded.index):
        old = recorded.loc[name]
        group = recorded[(recorded[GROUP] == old[GROUP]).all(axis=1)].sort_values("seed")
        others = [n for n in group.index if n != name]
        after = [n for n in others if group.at[n, "seed"] > old["seed"]] or others
        for side, column in SIDES.items():
            if pd.isna(old[column]):
                continue  # one test set: there are no other domains
            other = group.at[after[0], column] if after else float("nan")
            rows.append((name, side, here.at[name, column] - old[column], other - old[column]))
    return pd.DataFrame(rows, columns=["run", "side", "processor", "seed"])
