"""One ledger of all claims, and who owns which claim and which printed table.

A verdict is written once: into the claims table of the notebook that measures it, when that
notebook is executed (`verdicts.Claims`). `read` takes it from there, so that nothing can be out of
date but the notebook itself. `data/owners.toml` names the notebook of every claim and table, those
to come included.
"""

import tomllib
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd

from ..engine.files import ROOT, load_json, shown
from ..errors import SettingError, StorageError
from . import verdicts
from .printed import PAPERS, claims_of, tables

OWNERS = ROOT / "data" / "owners.toml"
NOTEBOOKS = ROOT / "notebooks"
OURS, OPEN = "ours", "open"
VERDICTS = (verdicts.HOLDS, "consistent with", verdicts.FAILS, "inconsistent with",
            verdicts.UNDECIDED, verdicts.NOT_TESTABLE, OPEN)  # fmt: skip


def read(folder: Path = NOTEBOOKS) -> pd.DataFrame:
    """All claims of all papers, then the notebooks' own: what the committed notebooks found.

    Index: id. Columns: paper, claim, where, says (the paper), measured, verdict, setting, notebook,
    tables. A claim that no notebook there has measured is "open"; its notebook is the one that owns
    it. Raises `StorageError` for a claim that two notebooks measure.
    """
    said, lines = {}, {}
    for path in sorted(Path(folder).glob("[0-9][0-9]*.ipynb")):
        for row in claims_in(load_json(path)):
            if other := said.get(row["id"]):
                raise StorageError(
                    f"{row['id']} is measured in {other['notebook']} and in {path.stem}",
                    where=shown(path), do="leave each claim to one notebook",
                )  # fmt: skip
            said[row["id"]] = {**row, "notebook": path.stem.partition("_")[0]}
    nothing = {"measured": "", "verdict": OPEN, "setting": ""}
    for paper in PAPERS:
        for claim in claims_of(paper):
            found = said.pop(claim["id"], {**nothing, "notebook": owners()["claims"][claim["id"]]})
            lines[claim["id"]] = {
                "paper": paper, "claim": claim["statement"], "where": claim["where"],
                "says": claim["direction"], "tables": tuple(claim["tables"]),
                **{key: found[key] for key in (*nothing, "notebook")},
            }  # fmt: skip
    for id, row in said.items():
        lines[id] = {"paper": OURS, "tables": (), "says": row["paper"],
                     **{k: row[k] for k in ("claim", "where", *nothing, "notebook")}}  # fmt: skip
    return pd.DataFrame.from_dict(lines, orient="index")


def claims_in(notebook: dict) -> list[dict]:
    """The rows of the claims table that an executed notebook shows, as `Claims.table` wrote it."""
    cells = [c for c in notebook["cells"] if "claims" in c["metadata"].get("tags", [])]
    data_shown = [o["data"] for c in cells for o in c.get("outputs", []) if "data" in o]
    rows = []
    for page in ("".join(data["text/html"]) for data in data_shown if "text/html" in data):
        head, *body = _Rows.of(page)
        if head[1:] == ["claim", "where", "paper", "measured", "verdict", "setting"]:
            rows += [dict(zip(["id", *head[1:]], row, strict=True)) for row in body]
    return rows


class _Rows(HTMLParser):
    """The cells of a table that pandas wrote, as text."""

    def __init__(self):
        super().__init__()
        self.rows, self.open = [[]], False

    @classmethod
    def of(cls, page: str) -> list[list[str]]:
        parser = cls()
        parser.feed(page)
        return [row for row in parser.rows if row] or [[]]

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self.open = True

    def handle_endtag(self, tag):
        self.open = self.open and tag not in ("td", "th")

    def handle_data(self, data):
        if self.open:
            self.rows[-1][-1] += data


def kind(verdict: str) -> str:
    """A verdict without what follows it, such as the data set that is absent."""
    return verdicts.NOT_TESTABLE if verdict.startswith(verdicts.NOT_TESTABLE) else verdict


def counts(book: pd.DataFrame) -> pd.DataFrame:
    """Paper by verdict: how many claims."""
    seen = pd.crosstab(book["paper"], book["verdict"].map(kind))
    order = [p for p in (*PAPERS, OURS) if p in seen.index]
    return seen.reindex(index=order, columns=list(VERDICTS), fill_value=0)


def in_words(book: pd.DataFrame) -> str:
    """Like `2 consistent with, 1 undecided`."""
    seen = Counter(book["verdict"].map(kind)) if len(book) else {}
    return ", ".join(f"{seen[name]} {name}" for name in VERDICTS if seen.get(name))


def owners(path: Path = OWNERS) -> dict[str, dict]:
    """{"tables": (paper, key) -> notebook, "claims": id -> notebook}, from data/owners.toml.

    Raises `SettingError` for what is owned twice or unknown, and for what nobody owns.
    """
    given = tomllib.loads(Path(path).read_text(encoding="utf-8"))["notebook"]
    known = {"tables": tables(), "claims": [c["id"] for p in PAPERS for c in claims_of(p)]}
    found = {"tables": {}, "claims": {}}
    for notebook, part in given.items():
        mine = {"tables": [tuple(name.split(" ", 1)) for name in part.get("tables", [])],
                "claims": part.get("claims", [])}  # fmt: skip
        for what, names in mine.items():
            for name in names:
                if name in found[what] or name not in known[what]:
                    problem = "owned twice" if name in found[what] else "unknown"
                    raise SettingError(f"{name} is {problem}", where=f"{shown(path)}, {notebook}",
                                       do="give each to one notebook")  # fmt: skip
                found[what][name] = notebook
    for what, names in known.items():
        if left := [name for name in names if name not in found[what]]:
            raise SettingError(f"nobody owns {left[0]}", where=shown(path),
                               do="write it below the notebook that measures it")  # fmt: skip
    return found


def not_accuracy(path: Path = OWNERS) -> dict[tuple[str, str], str]:
    """(paper, key) -> what stands in a table that holds no accuracy, and where it is looked at."""
    given = tomllib.loads(Path(path).read_text(encoding="utf-8"))["not_accuracy"]
    return {tuple(name.split(" ", 1)): words for name, words in given.items()}
