"""One ledger of all claims, and who owns which claim and which printed table.

A verdict is written once: by the notebook that measures it, as it is executed (`verdicts.Claims`).
The ledger keeps three things apart: the direction here, whether the paper's size is excluded here,
and at which setting it was measured.
"""

import tomllib
from collections import Counter
from pathlib import Path

import pandas as pd
import scipy

from ..difference import NO_DIFFERENCE, TOO_CLOSE, Difference
from ..engine.files import DATA, ROOT, load_json, shown
from ..errors import SettingError, StorageError, choose
from .printed import PAPERS, claims_of, tables
from .verdicts import (
    AHEAD,
    BEHIND,
    FAILS,
    HOLDS,
    NO_VERDICT,
    NOT_TESTABLE,
    kind,
    margin_of,
    records_in,
)

OWNERS = DATA / "owners.toml"
NOTEBOOKS = ROOT / "notebooks"
OURS, OPEN = "ours", "open"
VERDICTS = (
    HOLDS, FAILS, AHEAD, BEHIND, NO_DIFFERENCE, TOO_CLOSE, NO_VERDICT, NOT_TESTABLE, OPEN,
)  # fmt: skip
COLUMNS = (
    "paper", "claim", "where", "says", "tables", "measured", "verdict", "because", "size", "at",
    "setting", "live", "values", "p", "unit", "claimed", "exact", "needed", "notebook",
)  # fmt: skip
NOTHING = {
    "measured": "", "verdict": OPEN, "because": "", "size": "", "at": "-", "setting": "",
    "live": False, "values": [], "p": 1.0, "unit": "", "claimed": 0, "exact": False,
}  # fmt: skip


def claims(paper: str = "", *, folder: Path = NOTEBOOKS) -> pd.DataFrame:
    """What the committed notebooks found for each claim of a paper, or of "ours", or of all.

    Index: id. Columns: paper, claim, where, says (the paper), tables, measured, verdict,
    because (why there is none), needed (how many seeds might tell what is too close to call),
    size (whether the paper's number is excluded here), at (the paper's setting, a smaller one,
    other images), setting, live, values (one per seed), p, unit, claimed, exact, notebook. A
    claim that no notebook in `folder` has measured is "open"; its notebook is the one that owns
    it. Raises `StorageError` for a claim that two notebooks measure.
    """
    if paper:
        choose(paper, (*PAPERS, OURS), kind="paper", where="papers.claims")
    found, lines, owner = {}, [], owners()["claims"]
    for path in sorted(Path(folder).glob("[0-9][0-9]*.ipynb")):
        for record in records_in(load_json(path)):
            if record["id"] in found:
                raise StorageError(
                    f"claim {record['id']} is measured twice",
                    where=f"{path.name} and notebook {found[record['id']]['notebook']}",
                    do="measure it in one of them, and link to it from the other",
                )
            found[record["id"]] = {**record, "notebook": path.stem.partition("_")[0]}
    for claim in [claim for name in PAPERS for claim in claims_of(name)]:
        nothing = {**NOTHING, "notebook": owner[claim["id"]]}
        about = {"claim": claim["statement"], "says": claim["direction"]}
        known = found.pop(claim["id"], nothing)
        lines.append({**known, **claim, **about, "tables": tuple(claim["tables"])})
    lines += [{**r, "paper": OURS, "says": r["paper"], "tables": ()} for r in found.values()]
    for line in lines:
        line["needed"] = _needed(line)
    book = pd.DataFrame(lines, columns=COLUMNS, index=[line["id"] for line in lines])
    book["needed"] = book["needed"].astype("Int64")
    return book[book["paper"] == paper] if paper else book


def _needed(line: dict) -> int | None:
    """How many seeds might tell, where it is too close to call."""
    if line["verdict"] != TOO_CLOSE:
        return None
    return Difference(line["values"], margin=margin_of(line["unit"])).seeds_needed


def expected_false(book: pd.DataFrame) -> tuple[int, float]:
    """How many directions the ledger names, and how many of them chance alone may have made.

    By the false discovery rate of Benjamini and Hochberg, over all claims that were judged.
    """
    plain = book["verdict"].map(kind)
    judged = book[plain.isin([AHEAD, BEHIND, NO_DIFFERENCE, TOO_CLOSE])]
    named = judged["verdict"].map(kind).isin([AHEAD, BEHIND]).to_numpy()
    if not named.any():
        return 0, 0.0
    rate = scipy.stats.false_discovery_control(judged["p"].to_numpy(float))[named].max()
    return int(named.sum()), float(rate * named.sum())


def counts(book: pd.DataFrame) -> pd.DataFrame:
    """Paper by verdict: how many claims."""
    seen = pd.crosstab(book["paper"], book["verdict"].map(kind))
    order = [p for p in (*PAPERS, OURS) if p in seen.index]
    return seen.reindex(index=order, columns=list(VERDICTS), fill_value=0)


def in_words(book: pd.DataFrame) -> str:
    """Like `2 ahead, 1 too close to call`."""
    seen = Counter(map(kind, book["verdict"]))
    return ", ".join(f"{seen[name]} {name}" for name in VERDICTS if seen[name])


def owners(path: Path = OWNERS) -> dict[str, dict]:
    """What data/owners.toml says, by three keys.

    "tables": (paper, key) -> notebook; "claims": id -> notebook; "not_accuracy": (paper, key) ->
    what stands in a table that holds no accuracy, and where it is looked at. Raises `SettingError`
    for what is owned twice or unknown, and for what nobody owns.
    """
    given = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    known = {"tables": [" ".join(place) for place in tables()],
             "claims": [c["id"] for p in PAPERS for c in claims_of(p)]}  # fmt: skip
    found = {"tables": {}, "claims": {}, "not_accuracy": given["not_accuracy"]}
    for what, names in known.items():
        for notebook, name in [(n, name) for n, part in given["notebook"].items()
                               for name in part.get(what, [])]:  # fmt: skip
            if name in found[what] or name not in names:
                problem = "owned twice" if name in found[what] else "unknown"
                raise SettingError(f"{name} is {problem}", where=f"{shown(path)}, {notebook}",
                                   do="give each to one notebook")  # fmt: skip
            found[what][name] = notebook
        if left := [name for name in names if name not in found[what]]:
            raise SettingError(f"nobody owns {left[0]}", where=shown(path),
                               do="write it below the notebook that measures it")  # fmt: skip
    for what in ("tables", "not_accuracy"):
        found[what] = {tuple(name.split(" ", 1)): text for name, text in found[what].items()}
    return found
