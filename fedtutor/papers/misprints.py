"""Printed numbers that cannot all be right: what is known, and the arithmetic that shows it."""

import statistics

import pandas as pd

from ..engine.files import load_json
from ..report.ledger import tables
from . import verdicts


def misprints() -> pd.DataFrame:
    """The known misprints: paper | table | row | column | printed | likely | why."""
    lines = []
    for paper, content in load_json(verdicts.PUBLISHED / "tables.json").items():
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
        table = load_json(verdicts.PUBLISHED / "tables.json")[paper][key]
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
