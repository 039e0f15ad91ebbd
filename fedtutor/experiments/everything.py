"""All that is recorded, and whether the code of today made it: results, looks, attacks."""

from pathlib import Path

import pandas as pd

from . import attack_list, looks, results, stale


def in_words(folder=results.RESULTS, *, every: bool = False) -> str:
    """`stale.in_words` of the results in `folder`; of data/results, of what lies beside it, too."""
    parts = [stale.in_words(stale.states(folder), every=every)]
    if Path(folder).resolve() == results.RESULTS.resolve():
        if looks.LOOKS.is_dir():
            parts.append(stale.in_words(stale.states(looks.LOOKS), every=every, of="looks"))
        if attack_list.FOLDER.is_dir():
            attacks = pd.DataFrame(attack_list.states(), columns=stale.COLUMNS)
            parts.append(stale.in_words(attacks, every=every, of="attacks"))
    return "\n\n".join(parts)
