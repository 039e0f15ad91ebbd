"""What the papers print: claims, tables, and numbers that cannot all be right.

`data/published/` holds them as they are printed; its README says what the columns mean.
"""

import statistics
from collections import Counter
from collections.abc import Iterator

import pandas as pd

from ..engine.files import DATA, load_json, once_per_version
from ..errors import StorageError, choose

PUBLISHED = DATA / "published"
PAPERS = ("FCCL", "FCCL+", "FedCSD", "RepShare", "FedLGD")


def claims_of(paper: str) -> list[dict]:
    """All claims of a paper ("FCCL", "FCCL+", "FedCSD", "RepShare", "FedLGD") in ledger order."""
    choose(paper, PAPERS, kind="paper", where="claims_of")
    return [dict(claim) for claim in _published("claims.json") if claim["paper"] == paper]


def tables() -> list[tuple[str, str]]:
    """(paper, key) of every printed table."""
    known = _published("tables.json")
    return [(paper, key) for paper in PAPERS for key in known[paper]]


def published_table(paper: str, id: str) -> pd.DataFrame:
    """Table `id` of `paper` as printed, one row per method.

    `attrs["caption"]` is its caption, `attrs["notes"]` a list of remarks and known misprints,
    `attrs["rows"]` a name for each row: its method, and what tells rows of one method apart, such
    as "FedAvg (ConvNet)"; `attrs["printed"]` the columns that the paper has.
    Numbers are the printed ones, also where a note says that they cannot be right; an entry that
    the paper leaves out ("-") is missing. An unknown name is a `SettingError` with the nearest.
    """
    table = _table(paper, id)
    rows = [{k: v for k, v in row.items() if k != "note"} for row in table["rows"]]
    frame = pd.DataFrame(rows)
    first = ["method", *table["columns"]]
    extra = [column for column in frame if column not in first]
    often, names = Counter(frame["method"]), []
    for row in rows:
        more = ", ".join(row[k] for k in extra if isinstance(row.get(k), str))
        names.append(f"{row['method']} ({more})" if often[row["method"]] > 1 else row["method"])
    notes = table.get("notes", []) + [
        f"{row['method']}, {note['column']}: "
        + (f"printed {note['printed']}, likely {likely}; " if "printed" in note else "")
        + note["reason"]
        for row, note, likely in _notes(table)
    ]
    frame = frame.reindex(columns=[*first, *extra])
    frame.attrs = {"rows": names, "printed": list(table["columns"]), "caption": table["caption"],
                   "notes": notes}  # fmt: skip
    return frame


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


def accuracies() -> pd.DataFrame:
    """Every printed accuracy: paper | table | row | column | printed | likely | domain | elsewhere.

    `likely` is the printed number, or what a misprint should have been; `domain` says whose clients
    are meant, by the name of their test set ("" for the mean of all); they were tested on it, or
    `elsewhere`, on the other domains.
    """
    lines = []
    for paper, key in tables():
        table = _table(paper, key)
        means = {column: (domain, where == "others") for where in ("own", "others")
                 for column, domain in table.get(where, {}).items()}  # fmt: skip
        for name, row in zip(published_table(paper, key).attrs["rows"], table["rows"], strict=True):
            likely = {n["column"]: n["likely"] for n in row.get("note", []) if n.get("likely")}
            for column in table["columns"]:
                if column in means and (value := row.get(column)) is not None:
                    right = likely.get(column, value)
                    lines.append((paper, key, name, column, value, right, *means[column]))
    names = ["paper", "table", "row", "column", "printed", "likely", "domain", "elsewhere"]
    return pd.DataFrame(lines, columns=names)


def misprints() -> pd.DataFrame:
    """The known misprints: paper | table | row | column | printed | likely | why."""
    return pd.DataFrame([
        {"paper": paper, "table": key, "row": row["method"], "column": note["column"],
         "printed": note["printed"], "likely": likely, "why": note["reason"]}
        for paper, content in _published("tables.json").items() for key, table in content.items()
        for row, note, likely in _notes(table) if "printed" in note
    ])  # fmt: skip


def recomputed() -> pd.DataFrame:
    """Every printed average and difference, and the same number from the printed cells beside it.

    `off` counts units of the last printed digit: up to 0.5 is rounding, up to 1 an average that was
    cut or taken of longer numbers, more is a slip somewhere in the row.
    """
    lines = []
    for paper, key in tables():
        table, unit = _table(paper, key), 0.1 if paper == "FedLGD" else 0.01
        for row, column in [(row, column) for row in table["rows"] for column in table["columns"]]:
            if isinstance(row.get(column), int | float):
                lines += [
                    {"paper": paper, "table": key, "row": row["method"], "column": column,
                     "printed": row[column], "from": words, "computed": round(value, 3),
                     "off": round((row[column] - value) / unit, 2)}
                    for words, value in _again(table, row, column)
                ]  # fmt: skip
    return pd.DataFrame(lines)


def _again(table: dict, row: dict, column: str) -> Iterator[tuple[str, float]]:
    """(words, value) of an average or difference from the printed cells, if it is one."""
    first, columns, parts = table["rows"][0], table["columns"], []
    front, _, end = column.rpartition("/")
    if end.startswith("AVG"):
        parts = [c for c in columns if c.rpartition("/")[0] == front and c.endswith(end[3:])
                 and not c.rpartition("/")[2].startswith(("AVG", "delta"))]  # fmt: skip
    elif column in ("Average", "Avg") or column.startswith("Average "):
        parts = [c for c in columns if c != column and c.endswith(column[7:])]
    values = [row.get(c) for c in parts]
    if values and None not in values:
        yield f"mean of {len(values)}", statistics.fmean(values)
    if end == "delta" and row is not first:
        yield f"AVG less that of {first['method']}", row[f"{front}/AVG"] - first[f"{front}/AVG"]


def _notes(table: dict) -> Iterator[tuple[dict, dict, str | float]]:
    """(row, note, the likely number) for all that is known about single printed numbers."""
    for row in table["rows"]:
        for note in row.get("note", []):
            yield row, note, "unknown" if note.get("likely") is None else note["likely"]


def _table(paper: str, id: str) -> dict:
    known = _published("tables.json")
    known = known[choose(paper, known, kind="paper", where="published tables")]
    return known[choose(id, known, kind="table", where=f"published tables of {paper}")]


_kept = once_per_version(load_json)


def _published(name: str):
    try:
        return _kept(PUBLISHED / name)
    except StorageError as error:
        raise StorageError(
            error.what, where=error.where, do="restore it: git checkout -- data/published"
        ) from None
