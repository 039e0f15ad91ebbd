"""All that is recorded, and whether the code of today made it: results and what looks saw."""

from pathlib import Path

from . import looks, results, stale


def in_words(folder=results.RESULTS, *, every: bool = False) -> str:
    """`stale.in_words` of the results in `folder`; of data/results, of what lies beside it, too."""
    parts = [stale.in_words(stale.states(folder), every=every)]
    if Path(folder).resolve() == results.RESULTS.resolve() and looks.LOOKS.is_dir():
        parts.append(stale.in_words(stale.states(looks.LOOKS), every=every, of="looks"))
    return "\n\n".join(parts)
