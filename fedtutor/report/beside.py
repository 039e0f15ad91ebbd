"""One printed table beside what was measured, in one call."""

from collections.abc import Sequence

import pandas as pd

from .. import papers
from ..datasets import sources
from ..experiments import manifest, results
from .tables import MEASURED, NO_RUN, OPEN, PAPER, REDUCED, STAND_IN, Report

COLUMNS = ["row", "column", "printed", "measured", "seeds", "setting", "verdict", "differs in",
           "open because", "run"]  # fmt: skip
ABOUT = {PAPER: "the paper's", STAND_IN: "the paper's, on other data",
         REDUCED: "smaller than the paper's", OPEN: ""}  # fmt: skip


class Beside(pd.DataFrame):
    """What `beside` returns: a pandas DataFrame whose display marks the lines that decide."""

    @property
    def _constructor(self):
        return Beside

    def _repr_html_(self) -> str:
        def marked(line):
            return ["font-weight: bold" if line["verdict"] else ""] * len(line)

        styled = pd.DataFrame(self).style.apply(marked, axis=1).hide()
        return styled.set_caption(self.attrs.get("caption", "")).to_html()


def beside(paper: str, table: str, *, folder=results.RESULTS) -> Beside:
    """A printed table beside ours: one line per printed number and setting that was measured.

    row | column | printed | measured | seeds | setting | verdict | differs in | open because | run.
    `printed` in percent, with the likely number where the paper has a misprint. `measured` is the
    mean over `seeds`, ± one sample standard deviation over seeds, in percent. `verdict` stands
    where the setting and the data are the paper's, so that the line decides; it is marked in a
    notebook. `open because` says why there is no number at the paper's own setting: its data are
    absent, how long a GPU would take, or that no run is planned. Nothing is downloaded. Raises
    `SettingError` for an unknown paper or table, and names the nearest one.
    """
    papers.published_table(paper, table)
    runs = [run for path in (manifest.MANIFEST, MEASURED)
            for run in manifest.load(path, paper=paper, published=table)]  # fmt: skip
    found, faults = manifest.survey(runs, folder)
    return lines_of(Report(tuple(runs), found, tuple(faults), folder), paper, table)


def lines_of(made: Report, paper: str, table: str) -> Beside:
    """The same of a report's own runs."""
    lines, differ = made.table(paper, table), made.differences(paper, table)
    why, measured = {}, set()
    for line in lines.itertuples():
        cell = line.row, line.column
        if line.setting == OPEN:
            why.setdefault(cell, _why(line, made.runs))
        else:
            measured.add(cell)
    said = []
    for line in lines.itertuples():
        cell, decides = (line.row, line.column), line.setting == PAPER
        if line.setting == OPEN and cell in measured:
            continue  # the line of the smaller setting says why this one is open
        said.append({
            "row": line.row, "column": line.column, "printed": line.paper,
            "measured": line.measured, "seeds": line.seeds, "setting": ABOUT[line.setting],
            "verdict": line.verdict if decides else "", "differs in": differ.get(line.run, ""),
            "open because": "" if decides else why.get(cell, NO_RUN), "run": line.run,
        })  # fmt: skip
    shown = Beside(said, columns=COLUMNS)
    shown.attrs["caption"] = (
        f"{paper}, Table {table}: accuracy in percent; measured as mean ± standard deviation over "
        "seeds; bold where the paper's own setting and data decide"
    )
    return shown


def _why(line, runs: Sequence[manifest.Run]) -> str:
    """Why a number was not measured."""
    planned = [run for run in runs if (run.table, run.row) == (line.run, line.row)]
    if not planned:
        return NO_RUN
    with sources.offline():
        missing = manifest.absent(planned[0])
    if missing:
        return f"data absent: {missing}"
    minutes = sum(run.minutes for run in planned)
    return f"not run yet: about {minutes:.0f} minutes of a GPU for {len(planned)} runs"
