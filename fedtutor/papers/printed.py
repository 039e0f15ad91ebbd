"""What the papers print: claims, tables, and numbers that cannot all be right.

`data/published/` holds them as they are printed; its README says what the columns mean.
"""

import statistics
from collections import Counter

import pandas as pd

from ..engine.files import ROOT, load_json
from ..errors import StorageError, choose

PUBLISHED = ROOT / "data" / "published"
PAPERS = ("FCCL", "FCCL+", "FedCSD", "RepShare", "FedLGD")


def claims() -> list[dict]:
    """All claims of all papers."""
    return _published("claims.json")


def claims_of(paper: str) -> list[dict]:
    """All claims of a paper ("FCCL", "FCCL+", "FedCSD", "RepShare", "FedLGD") in ledger order."""
    choose(paper, PAPERS, kind="paper", where="claims_of")
    return [claim for claim in claims() if claim["paper"] == paper]


def published_table(paper: str, id: str) -> pd.DataFrame:
    """Table `id` of `paper` as printed, one row per method.

    `attrs["caption"]` is its caption, `attrs["notes"]` a list of remarks and known misprints,
    `attrs["rows"]` a name for each row: its method, and what tells rows of one method apart, such
    as "FedAvg (ConvNet)"; `attrs["printed"]` the columns that the paper has.
    Numbers are the printed ones, also where a note says that they cannot be right; an entry that
    the paper leaves out ("-") is missing.
    """
    table = _table(paper, id, where="published_table")
    rows = [{k: v for k, v in row.items() if k != "note"} for row in table["rows"]]
    extra = [k for k in dict.fromkeys(k for row in rows for k in row)
             if k != "method" and k not in table["columns"]]  # fmt: skip
    frame = pd.DataFrame(rows, columns=["method", *table["columns"], *extra])
    names = [(row["method"], *(row[k] for k in extra if isinstance(row.get(k), str)))
             for row in rows]  # fmt: skip
    often = Counter(row["method"] for row in rows)
    frame.attrs["rows"] = [f"{name} ({', '.join(more)})" if often[name] > 1 else name
                           for name, *more in names]  # fmt: skip
    frame.attrs["printed"] = list(table["columns"])
    frame.attrs["caption"] = table["caption"]
    frame.attrs["notes"] = table.get("notes", []) + [
        _misprint(row["method"], note) for row in table["rows"] for note in row.get("note", [])
    ]
    return frame


def require_table(paper: str, id: str, *, where: str) -> None:
    """Raise `SettingError` with the nearest names for a table that no paper prints."""
    _table(paper, id, where=where)


def _table(paper: str, id: str, *, where: str) -> dict:
    tables = _published("tables.json")
    tables = tables[choose(paper, tables, kind="paper", where=where)]
    return tables[choose(id, tables, kind="table", where=f"{where}, tables of {paper}")]


def columns_of(table: pd.DataFrame, name: str = "") -> list[str]:
    """The columns of a published table that `name` stands for.

    A column's own name; a group in front ("Digits" for all "Digits/..."), or behind ("IPC=10" for
    all "... IPC=10"); nothing for all of them. Raises `SettingError` for what is none of these.
    """
    printed = table.attrs["printed"]
    if not name or name in printed:
        return [name] if name else printed
    found = [c for c in printed if c.startswith(f"{name}/") or c.endswith(f" {name}")]
    if not found:
        groups = {c.rpartition("/")[0] or c.rpartition(" ")[2] for c in printed}
        choose(name, {*printed, *groups}, kind="column", where=f"table {table.attrs['caption']}")
    return found


def tables() -> list[tuple[str, str]]:
    """(paper, key) of every printed table."""
    known = _published("tables.json")
    return [(paper, key) for paper in PAPERS for key in known[paper]]


def misprints() -> pd.DataFrame:
    """The known misprints: paper | table | row | column | printed | likely | why."""
    lines = []
    for paper, content in _published("tables.json").items():
        for key, table in content.items():
            for row in table["rows"]:
                for note in row.get("note", []):
                    if "printed" in note:
                        likely = "unknown" if note.get("likely") is None else note["likely"]
                        lines.append({"paper": paper, "table": key, "row": row["method"],
                                      "column": note["column"], "printed": note["printed"],
                                      "likely": likely, "why": note["reason"]})  # fmt: skip
    return pd.DataFrame(lines)


def recomputed() -> pd.DataFrame:
    """Every printed average and difference, and the same number from the printed cells beside it.

    `off` counts units of the last printed digit: up to 0.5 is rounding, up to 1 an average that was
    cut or taken of longer numbers, more is a slip somewhere in the row.
    """
    lines = []
    for paper, key in tables():
        table = _published("tables.json")[paper][key]
        rows, columns = table["rows"], table["columns"]
        unit = 0.1 if paper == "FedLGD" else 0.01
        for row in rows:
            for column in columns:
                if isinstance(row.get(column), int | float):
                    for what, value in _again(rows, row, columns, column):
                        lines.append({
                            "paper": paper, "table": key, "row": row["method"], "column": column,
                            "printed": row[column], "from": what, "computed": round(value, 3),
                            "off": round((row[column] - value) / unit, 2),
                        })  # fmt: skip
    return pd.DataFrame(lines)


def _again(rows: list, row: dict, columns: list, column: str):
    """(words, value) of an average or difference from the printed cells, if it is one."""
    front, _, end = column.rpartition("/")
    if end.startswith("AVG"):
        parts = [c for c in columns if c.rpartition("/")[0] == front and c.endswith(end[3:])
                 and not c.rpartition("/")[2].startswith(("AVG", "delta"))]  # fmt: skip
    elif column in ("Average", "Avg") or column.startswith("Average "):
        parts = [c for c in columns if c != column and c.endswith(column[7:])]
    else:
        parts = []
    values = [row.get(c) for c in parts]
    if values and None not in values:
        yield f"mean of {len(values)}", statistics.fmean(values)
    if end == "delta" and row is not rows[0]:
        first = rows[0]["method"]
        yield f"AVG less that of {first}", row[f"{front}/AVG"] - rows[0][f"{front}/AVG"]


def _misprint(method: str, note: dict) -> str:
    parts = [f"{method}, {note['column']}:"]
    if "printed" in note:
        likely = "unknown" if note.get("likely") is None else note["likely"]
        parts.append(f"printed {note['printed']}, likely {likely};")
    return " ".join([*parts, note["reason"]])


def _published(name: str):
    try:
        return load_json(PUBLISHED / name)
    except StorageError as error:
        raise StorageError(
            error.what, where=error.where, do="restore it: git checkout -- data/published"
        ) from None
