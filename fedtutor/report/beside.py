"""One printed table beside what was measured, in one call."""

import statistics
from collections.abc import Mapping, Sequence
from html import escape

import pandas as pd

from .. import papers
from ..datasets import sources
from ..difference import Difference
from ..errors import choose
from ..experiments import manifest, results
from ..papers import spread
from .tables import MEASURED, NO_RUN, OPEN, PAPER, PLACE, REDUCED, STAND_IN, Report, accuracy

COLUMNS = ["row", "column", "printed", "measured", "seeds", "setting", "verdict", "differs in",
           "open because", "run"]  # fmt: skip
NUMBERS = ["row", "column", "printed", "likely", "mean", "low", "high", "n", *COLUMNS[4:]]
FOLDED = [name for name in COLUMNS if name not in ("differs in", "run")]
KEPT = ("row", "column", "printed")  # in the fold; others only where they say something
ABOUT = {PAPER: "the paper's", STAND_IN: "the paper's, on other data",
         REDUCED: "smaller than the paper's", OPEN: ""}  # fmt: skip
MOST_ROWS, MOST_GROUPS = 8, 2
SIDES = {"own domain": False, "other domains": True}
MARK = ' style="font-weight: bold; outline: 2px solid currentColor"'


class Beside(pd.DataFrame):
    """What `beside` returns: a pandas DataFrame with a line per printed number.

    A notebook shows its summary, `brief()`, with the deciding cells marked, and folds the lines.
    A part of it is shown line by line.
    """

    @property
    def _constructor(self):
        return Beside

    def brief(self) -> pd.DataFrame:
        """At most eight rows and five columns: printed and measured, a mean for each group."""
        brief = self.attrs["brief"]
        return pd.DataFrame(brief["rows"], columns=brief["columns"])

    @property
    def _whole(self) -> bool:
        return len(self) > 0 and len(self) == self.attrs.get("lines")

    def __repr__(self) -> str:
        text = self.brief().to_string(index=False) if self._whole else super().__repr__()
        return f"{self.attrs['caption']}\n{text}" if self._whole else text

    def _repr_html_(self) -> str:
        lines = pd.DataFrame(self)
        bold = {(i, j) for i, said in enumerate(lines["verdict"]) if said
                for j in range(len(lines.columns))}  # fmt: skip
        if not self._whole:
            return _html(lines, bold, self.attrs.get("caption", ""))
        differ = {run: what for run, what in zip(lines["run"], lines["differs in"], strict=True)
                  if what}  # fmt: skip
        said = "".join(f"<p>Differs from the paper in ({escape(run)}): {escape(what)}.</p>"
                       for run, what in differ.items())  # fmt: skip
        marks = {tuple(place) for place in self.attrs["brief"]["marks"]}
        shown = [name for name in FOLDED if name in KEPT or lines[name].astype(bool).any()]
        bold = {(i, j) for i, j in bold if j < len(shown)}
        about = ", seeds, settings" if "measured" in shown else "; none was measured with its data"
        return (
            f"{_html(self.brief(), marks, self.attrs['caption'])}\n"
            f"<details><summary>All {len(lines)} lines: every printed number{about}"
            f"</summary>\n{_html(lines[shown], bold)}\n{said}</details>"
        )


def beside(paper: str, table: str, *, part: str = "", of: str = "",
           ours: Mapping[str, Sequence[results.Result]] | None = None,
           folder=results.RESULTS) -> Beside:  # fmt: skip
    """A printed table beside ours: one line per printed number and setting that was measured.

    row | column | printed | measured | seeds | setting | verdict | differs in | open because | run.
    `printed` in percent, with the likely number where the paper has a misprint. `measured` is the
    mean over `seeds`, ± one sample standard deviation over seeds, in percent. `verdict` stands
    where the setting and the data are the paper's, so that the line decides; it is marked in a
    notebook. `open because` says why there is no number at the paper's own setting: its data are
    absent, how long a GPU would take, or that no run is planned. Nothing is downloaded.

    A notebook shows a summary, one row per printed row, and folds the lines. The summary has means
    over the columns of a group (what stands before the slash: "Digits" of "Digits/M->"); `part`
    chooses a group, otherwise those that were measured come first. Where it has one group and the
    table has the row `of` (default: the paper's method), two columns say by how many points that
    row is ahead of each other row, as printed and as measured, and the closest rival is marked.
    `ours` are results, {printed row: one per seed}, that stand in the summary for a table whose
    data are absent. Raises `SettingError` for an unknown paper, table, group or row, and names the
    nearest one.
    """
    papers.published_table(paper, table)
    runs = [run for path in (manifest.MANIFEST, MEASURED)
            for run in manifest.load(path, paper=paper, published=table)]  # fmt: skip
    found, faults = manifest.survey(runs, folder)
    made = Report(tuple(runs), found, tuple(faults), folder)
    shown = lines_of(made, paper, table)
    shown.attrs["lines"] = len(shown)
    if len(shown):
        shown.attrs["brief"] = _brief(made, paper, table, part, of, dict(ours or {}))
    about = f"{part}, " if part else ""
    shown.attrs["caption"] = (
        f"{paper}, Table {table}: {about}mean accuracy in percent; measured as mean ± standard "
        "deviation over seeds" + (", on stand-in data" if ours else "")
    )
    return shown


def lines_of(made: Report, paper: str, table: str) -> Beside:
    """The same of a report's own runs."""
    return Beside(_lines(made, paper, table), columns=COLUMNS)


def numbers_of(made: Report, paper: str, table: str) -> pd.DataFrame:
    """The same lines with numbers in columns of their own, for a file.

    `printed` and `likely` (the printed number, or what a misprint should have been) are percent,
    and so are `mean` and the ends of its 95 % interval, `low` and `high`, over `n` seeds.
    """
    lines = _lines(made, paper, table)
    for line in lines:
        found = Difference(line["values"]) if line["values"] else None
        line["printed"] = line["number"]
        line["mean"], line["n"] = (found.mean, found.n) if found else (None, 0)
        line["low"], line["high"] = found.interval() if found and found.n > 1 else (None, None)
    return pd.DataFrame(lines, columns=NUMBERS)


def _lines(made: Report, paper: str, table: str) -> list[dict]:
    """A line per printed number and setting: `COLUMNS`, and `values`, `number`, `likely`."""
    lines, differ = made.table(paper, table), made.differences(paper, table)
    cells = made.cells[(made.cells["paper"] == paper) & (made.cells["table"] == table)]
    elsewhere = {(run.table, run.row) for run in made.runs if run.instead_of}
    why, measured = {}, set()
    for line in sorted(lines.itertuples(), key=lambda one: (one.run, one.row) in elsewhere):
        cell = line.row, line.column  # runs with the paper's own data come first
        if line.setting == OPEN:
            why.setdefault(cell, _why(line, made.runs))
        else:
            measured.add(cell)
    said = []
    for line, number in zip(lines.itertuples(), cells.itertuples(), strict=True):
        cell, decides = (line.row, line.column), line.setting == PAPER
        if line.setting == OPEN and cell in measured:
            continue  # the line of the smaller setting says why this one is open
        said.append({
            "row": line.row, "column": line.column, "printed": line.paper,
            "measured": line.measured, "seeds": line.seeds, "setting": ABOUT[line.setting],
            "verdict": line.verdict if decides else "", "differs in": differ.get(line.run, ""),
            "open because": "" if decides else _open(why.get(cell, NO_RUN), cell in measured),
            "run": line.run,
            "values": number.values, "number": number.printed, "likely": number.likely,
        })  # fmt: skip
    return said


def sides(rows: Mapping[str, Sequence[results.Result]]) -> pd.DataFrame:
    """Accuracy of results on the own and on other domains, a row per entry: mean ± sd, in percent.

    rows: label -> one result per seed; the accuracy is that of the last round. A deviation below
    0.05 has two digits.
    """
    return pd.DataFrame(
        {words: [_seen([accuracy(r, elsewhere=where) for r in found])
                 for found in rows.values()] for words, where in SIDES.items()},
        index=list(rows),
    )  # fmt: skip


def _seen(values: Sequence[float]) -> str:
    text = spread(values, 1)
    return spread(values, 2) if text.endswith("± 0.0") else text


# ------------------------------------------------------------------------------ the summary


def _brief(made: Report, paper: str, table: str, part: str, of: str, ours: dict) -> dict:
    """Rows, columns and marked places of the summary, as plain lists."""
    about = papers.printed.accuracies()[[*PLACE, "domain", "elsewhere"]]
    cells = made.best.merge(about, on=PLACE)
    cells = cells[(cells["paper"] == paper) & (cells["table"] == table)].copy()
    cells["group"] = [c.partition("/")[0] if "/" in c else "" for c in cells["column"]]
    names = list(dict.fromkeys(cells["row"]))
    for row in ours:
        choose(row, names, kind="row", where=f"beside, {paper}, Table {table}")
    groups = _groups(cells, part, f"beside, {paper}, Table {table}")
    told = {(row, group): _mean(cells[(cells["row"] == row) & (cells["group"] == group)],
                                ours.get(row))
            for row in names for group in groups}  # fmt: skip
    names.sort(key=lambda row: not any(told[row, group][1] for group in groups))
    names = names[:MOST_ROWS]
    if of:
        choose(of, names, kind="row", where=f"beside, {paper}, Table {table}")
    columns, rows, marks = ["row"], [[name] for name in names], []
    for group in groups:
        named = f" ({group})" if len(groups) > 1 and group else ""
        columns += [f"printed{named}", f"measured{named}"]
        for row in rows:
            printed, values, _ = told[row[0], group]
            row += ["" if printed is None else f"{printed:.1f}", spread(values, 1) or "-"]
    own = of or (paper if paper in names else "")
    if len(groups) == 1 and own and len(names) > 1:
        columns += [f"{own} ahead, printed", f"{own} ahead, measured"]
        ahead = {row[0]: _ahead(told[own, groups[0]], told[row[0], groups[0]]) for row in rows}
        for row in rows:
            printed, values = ahead[row[0]]
            row += ["", ""] if row[0] == own else [
                "" if printed is None else f"{printed:+.1f}",
                spread(values, 1, signed=True) if values else "-"]  # fmt: skip
        rivals = [i for i, name in enumerate(names) if name != own and ahead[name][1]]
        if rivals:
            closest = min(rivals, key=lambda i: statistics.fmean(ahead[names[i]][1]))
            marks.append([closest, len(columns) - 1])
    for place, group in enumerate(groups):
        measured = [i for i, name in enumerate(names) if told[name, group][2]]
        marks += [[i, 2 + 2 * place] for i in measured]
        if ours and len(groups) > 1 and any(told[name, group][1] for name in names):
            best = max(range(len(names)), key=lambda i: _level(told[names[i], group][1]))
            marks.append([best, 2 + 2 * place])
    return {"columns": columns, "rows": rows, "marks": marks}


def _groups(cells: pd.DataFrame, part: str, where: str) -> list[str]:
    groups = list(dict.fromkeys(cells["group"]))
    if part:
        return [choose(part, groups, kind="part of this table", where=where)]
    measured = set(cells.loc[cells["setting"] != OPEN, "group"])
    return sorted(groups, key=lambda group: group not in measured)[:MOST_GROUPS]


def _mean(cells: pd.DataFrame, results=None) -> tuple[float | None, list[float], bool]:
    """Mean over the cells of a row and group: printed, one measured per seed, at the paper's own.

    Means that the paper prints itself count only where nothing else is printed.
    """
    single = cells[cells["domain"] != ""]
    cells = single if len(single) else cells
    if cells.empty:
        return None, [], False
    values = [value for value in cells["values"] if isinstance(value, tuple) and value]
    alike = len({len(value) for value in values}) == 1 and len(set(cells["setting"])) == 1
    complete = len(values) == len(cells) and alike  # else the mean would be one of other numbers
    found = [statistics.fmean(seed) for seed in zip(*values, strict=True)] if complete else []
    if results is not None:
        elsewhere = bool(cells["elsewhere"].iloc[0])
        found = [accuracy(result, elsewhere=elsewhere) for result in results]
    return float(cells["likely"].mean()), found, bool(found) and set(cells["setting"]) == {PAPER}


def _ahead(own: tuple, other: tuple) -> tuple[float | None, list[float]]:
    """By how much `own` is ahead: printed, and one number per seed where both have the same."""
    printed = None if None in (own[0], other[0]) else own[0] - other[0]
    paired = own[1] and len(own[1]) == len(other[1])
    return printed, [a - b for a, b in zip(own[1], other[1], strict=True)] if paired else []


def _level(values: Sequence[float]) -> float:
    return statistics.fmean(values) if values else float("-inf")


def _html(frame: pd.DataFrame, marks: set = frozenset(), caption: str = "") -> str:
    """A table with headings for screen readers; `marks`: (row, column) of what decides."""
    head = "".join(f'<th scope="col">{escape(str(name))}</th>' for name in frame.columns)
    lines = [f"<table>\n<caption>{escape(caption)}</caption>" if caption else "<table>",
             f"<thead><tr>{head}</tr></thead>\n<tbody>"]  # fmt: skip
    for i, row in enumerate(frame.itertuples(index=False)):
        line = [f"<td{MARK if (i, j) in marks else ''}>{escape(str(value))}</td>"
                for j, value in enumerate(row)]  # fmt: skip
        lines.append(f"<tr>{''.join(line)}</tr>")
    return "\n".join([*lines, "</tbody>\n</table>"])


def _open(reason: str, measured: bool) -> str:
    """Why the paper's own setting is open; beside a number, what that number is."""
    return (
        f"the paper's setting was not run ({reason}); measured is our smaller or other setting"
        if (measured and reason != NO_RUN)
        else reason
    )


def _why(line, runs: Sequence[manifest.Run]) -> str:
    """Why a number was not measured."""
    planned = [run for run in runs if (run.table, run.row) == (line.run, line.row)]
    if not planned:
        return NO_RUN
    with sources.offline():
        missing = manifest.absent(planned[0])
    if missing:
        return f"not on this machine: {missing.removesuffix(' is not here').rstrip(',')}"
    minutes = sum(run.minutes for run in planned)
    return f"not run yet: about {minutes:.0f} minutes of a GPU for {len(planned)} runs"
