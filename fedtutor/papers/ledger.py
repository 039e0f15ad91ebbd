"""One ledger of all claims, and who owns which claim and which printed table.

A verdict is written once: by the notebook that measures it, as it is executed (`verdicts.Claims`).
Another processor may come to another one. So all notebooks were executed twice, and a claim is
decided only where both say the same: the second execution is kept in `SECOND`, and counts for the
settings that it had.
"""

import tomllib
from collections import Counter
from pathlib import Path

import pandas as pd

from ..engine.files import DATA, ROOT, load_json, shown
from ..errors import SettingError, StorageError, choose
from .printed import PAPERS, claims_of, tables
from .verdicts import FAILS, FOR_STAND_IN, HOLDS, NOT_TESTABLE, UNDECIDED, kind, records_in

OWNERS = DATA / "owners.toml"
NOTEBOOKS = ROOT / "notebooks"
SECOND = DATA / "verdicts-elsewhere.json"  # made by tools/verdicts_elsewhere.py
OURS, OPEN = "ours", "open"
VERDICTS = (HOLDS, FOR_STAND_IN[HOLDS], FAILS, FOR_STAND_IN[FAILS], UNDECIDED, NOT_TESTABLE, OPEN)
COLUMNS = ("paper", "claim", "where", "says", "tables", "measured", "verdict", "setting", "live",
           "values", "unit", "notebook", "first", "second", "measured again")  # fmt: skip


def claims(
    paper: str = "", *, folder: Path = NOTEBOOKS, second: Path | None = SECOND
) -> pd.DataFrame:
    """What the committed notebooks found for each claim of a paper, or of "ours", or of all.

    Index: id. Columns: paper, claim, where, says (the paper), tables, measured, verdict, setting,
    live, values (one per seed), unit, notebook, first, second, measured again. A claim that no
    notebook in `folder` has measured is "open"; its notebook is the one that owns it. Raises
    `StorageError` for a claim that two notebooks measure.

    `first` is what the notebook itself says. `second` is what it said with other last digits (from
    the file `second`; with None no other is asked), "" where that was at another setting; "measured
    again" is what it measured then. A verdict stands if both say it; else the claim is undecided.
    An exact fact needs no second verdict.
    """
    if paper:
        choose(paper, (*PAPERS, OURS), kind="paper", where="papers.claims")
    found, lines, owner = {}, [], owners()["claims"]
    again = load_json(second)["claims"] if second and second.is_file() else {}
    for path in sorted(Path(folder).glob("[0-9][0-9]*.ipynb")):
        for record in records_in(load_json(path)):
            record = _twice(record, again.get(record["id"], {}))
            if other := found.get(record["id"]):
                raise StorageError(
                    f"{record['id']} is measured in {other['notebook']} and in {path.stem}",
                    where=shown(path), do="leave each claim to one notebook",
                )  # fmt: skip
            found[record["id"]] = {**record, "notebook": path.stem.partition("_")[0]}
    for claim in [claim for name in PAPERS for claim in claims_of(name)]:
        nothing = {"measured": "", "verdict": OPEN, "first": OPEN, "second": "", "setting": "",
                   "measured again": "", "live": False, "values": [], "unit": "",
                   "notebook": owner[claim["id"]]}  # fmt: skip
        lines.append({**found.pop(claim["id"], nothing), **claim, "claim": claim["statement"],
                      "says": claim["direction"], "tables": tuple(claim["tables"])})  # fmt: skip
    lines += [{**r, "paper": OURS, "says": r["paper"], "tables": ()} for r in found.values()]
    book = pd.DataFrame(lines, columns=COLUMNS, index=[line["id"] for line in lines])
    return book[book["paper"] == paper] if paper else book


def _twice(record: dict, again: dict) -> dict:
    """A record of a notebook, judged by what it says and by what it said elsewhere."""
    first = record["verdict"]
    plain = kind(first) != NOT_TESTABLE and not record.get("exact")
    asked = plain and again.get("setting") == record["setting"]
    second, measured = (again[key] if asked else "" for key in ("verdict", "measured"))
    record = {**record, "first": first, "second": second, "measured again": measured}
    if second in ("", first) or first == UNDECIDED:
        return record
    said = f"{record['measured']}; with other last digits {measured}"
    return {**record, "verdict": UNDECIDED, "measured": said}


def counts(book: pd.DataFrame) -> pd.DataFrame:
    """Paper by verdict: how many claims."""
    seen = pd.crosstab(book["paper"], book["verdict"].map(kind))
    order = [p for p in (*PAPERS, OURS) if p in seen.index]
    return seen.reindex(index=order, columns=list(VERDICTS), fill_value=0)


def in_words(book: pd.DataFrame) -> str:
    """Like `2 consistent with, 1 undecided`."""
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
