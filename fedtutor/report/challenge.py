"""One reproducibility report per paper, in the form of the ML Reproducibility Challenge.

What a person judged stands in `data/published/reports/<paper>.toml`, a paragraph per heading.
Every number and every verdict comes from where the rest of the report has it: the claims from the
ledger, the tables from `tables.build`, the settings and their sources from the recipe, hours and
machines from the results. `python -m fedtutor report --papers` writes `data/reports/<paper>.md`.
"""

import textwrap
import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from .. import papers
from ..engine.files import ROOT, shown, write_atomically
from ..errors import SettingError, StorageError, choose
from ..experiments import recipes
from ..papers import ledger, verdicts
from ..papers.printed import PAPERS
from . import tables
from .tables import COLUMNS, OPEN, PAPER, Report

WRITTEN = ROOT / "data" / "published" / "reports"
REPORTS = ROOT / "data" / "reports"
MADE = "<!-- made by: python -m fedtutor report --papers; write in data/published/reports -->"
PROSE = ("title", "authors", "venue", "code", "scope", "methodology", "results", "easy",
         "difficult", "communication")  # fmt: skip
RULE = """
A claim becomes one number per seed, which is above zero where the claim is right. It *holds* where
every seed is above zero and the mean is more than two standard deviations (over seeds, divisor
n - 1) from it; it *does not hold* where the same is so below zero; anything else is *undecided*. On
other data than the paper's a claim is *consistent with* or *inconsistent with* what was measured,
and no more. A measured accuracy is *above* or *below* the printed one by the same rule. A verdict
marked *(live)* was measured while its notebook ran; another processor may turn it.
"""
SOURCES = "The settings below say for each value where it comes from: the text, the code, or us."
AGAIN = """
The notebooks measure the claims; the queue makes the runs at the paper's settings. Each run can be
stopped, and goes on from there.
"""


def file_of(paper: str) -> str:
    """The name of a paper's files, that of its recipe: "fccl_plus" for "FCCL+"."""
    choose(paper, PAPERS, kind="paper", where="reports")
    return paper.lower().replace("+", "_plus")


def written(paper: str, folder: Path = WRITTEN) -> dict:
    """What a person wrote for each heading: the keys of PROSE, texts; "differences", a list.

    Raises `StorageError` for a file that is not there or no TOML, `SettingError` for a heading
    that is missing, empty or unknown.
    """
    path = Path(folder) / f"{file_of(paper)}.toml"
    try:
        prose = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StorageError(f"cannot read what is written about {paper} ({error})",
                           where=shown(path), do="restore it: git checkout -- data/published"
                           ) from None  # fmt: skip
    for name in prose:
        choose(name, (*PROSE, "differences"), kind="heading", where=shown(path))
    for name in (*PROSE, "differences"):
        if not prose.get(name):
            raise SettingError(f"nothing is written below {name!r}", where=shown(path),
                               do=f"add {name} = ...")  # fmt: skip
    return prose


def text_of(paper: str, made: Report, book: pd.DataFrame, folder: Path = WRITTEN) -> str:
    """The report of a paper as Markdown, with links that are right in `data/reports`.

    `made` is `tables.build()`, `book` the ledger of all claims, `papers.claims()`; `folder` holds
    what is written by hand.
    """
    prose, mine = written(paper, folder), book[book["paper"] == paper]
    coverage = made.coverage(book)
    coverage = coverage[coverage["paper"] == paper].drop(columns="paper").set_index("table")
    parts = [
        f"# Reproducibility report: {paper}", MADE,
        f"On *{prose['title']}* by {prose['authors']}, {prose['venue']}. {prose['code']}",
        "## Reproducibility summary",
        "### Scope of reproducibility", prose["scope"], _scope(mine, coverage),
        "### Methodology", prose["methodology"], _effort(paper, made),
        "### Results", prose["results"], _found(paper, mine, made),
        "### What was easy", prose["easy"],
        "### What was difficult", prose["difficult"],
        "### Communication with the authors", prose["communication"],
        "## Differences between the text and the code",
        _bullets(prose["differences"]), SOURCES,
        "## Claims", RULE, *_claims(mine),
        "## Doubts", *_doubts(paper),
        "## Settings", *_settings(paper),
        "## Data", *_data(paper, made),
        "## Tables", *_tables(paper, coverage, made),
        "## Misprints", *_misprints(paper),
        "## To compute it again", *_again(paper, mine, made),
    ]  # fmt: skip
    return "\n\n".join(map(_wrapped, parts)) + "\n"


def update(folder: Path = REPORTS) -> list[str]:
    """Write the reports that differ from what is in `folder`; return the names of all, in words."""
    made, book, said = tables.build(), papers.claims(), []
    for paper in PAPERS:
        path, text = Path(folder) / f"{file_of(paper)}.md", text_of(paper, made, book)
        fresh = not path.is_file() or path.read_text(encoding="utf-8") != text
        if fresh:
            write_atomically(path, lambda name, t=text: Path(name).write_text(t, encoding="utf-8"))
        said.append(f"{shown(path)}: " + ("new" if fresh else "as it was"))
    return said


# --- the summary


def _scope(mine: pd.DataFrame, coverage: pd.DataFrame) -> str:
    notebooks = " and ".join(_notebook(number) for number in sorted(set(mine["notebook"])))
    return (
        f"The ledger has {len(mine)} claims of this paper, measured in {notebooks}; its "
        f"{len(coverage)} printed tables have {coverage['numbers'].sum()} accuracies."
    )


def _effort(paper: str, made: Report) -> str:
    """Runs behind the tables, their hours, machines and versions."""
    found = _results(paper, made)
    if not found:
        return "No run stands behind the printed tables yet."
    seconds = sum(result.totals["seconds"] for result in found)
    devices = {f"{r.environment['device']}, PyTorch {r.environment['torch']}" for r in found}
    seeds = ", ".join(map(str, sorted({result.seed for result in found})))
    dirty = sum(bool((result.environment.get("git") or {}).get("dirty")) for result in found)
    return (
        f"{len(found)} recorded runs stand behind the tables (seeds {seeds}). Their rounds took "
        f"{seconds / 3600:.1f} hours, on: {'; '.join(sorted(devices))}. Of these runs, {dirty} "
        "were recorded while code or recipes differed from the commit that they name."
    )  # fmt: skip


def _found(paper: str, mine: pd.DataFrame, made: Report) -> str:
    """How the claims and the accuracies came out, in numbers."""
    cells = made.best[made.best["paper"] == paper]
    settings = cells["setting"].map(COLUMNS)
    at_papers = cells[cells["setting"] == PAPER]
    said = f"Claims by verdict: {_counted(mine['verdict'].map(verdicts.kind), ledger.VERDICTS)}. "
    said += f"Printed accuracies by what was measured: {_counted(settings, COLUMNS.values())}."
    if len(at_papers):
        beside = _counted(at_papers["verdict"], sorted(set(at_papers["verdict"])))
        said += f" At the paper's settings and data our numbers are, beside the printed: {beside}."
    return said


def _counted(words: Iterable[str], known: Iterable[str]) -> str:
    """Like `*holds* 2, *undecided* 5`: each of the `known` words, and how often it is there."""
    often = Counter(words)
    return ", ".join(f"*{word}* {often[word]}" for word in known)


# --- the parts below


def _claims(mine: pd.DataFrame) -> list[str]:
    lines = [
        {"claim": f"{id}: {line.claim}", "where": line.where, "the paper": line.says,
         "measured": line.measured, "verdict": line.verdict + verdicts.LIVE * bool(line.live),
         "setting": line.setting, "notebook": _notebook(line.notebook)}
        for id, line in zip(mine.index, mine.itertuples(), strict=True)
    ]  # fmt: skip
    return [_markdown(lines)]


def _doubts(paper: str) -> list[str]:
    lines = [{"claim": c["id"], "where": c["where"], "doubt": c["doubt"]}
             for c in papers.claims_of(paper) if c.get("doubt")]  # fmt: skip
    if not lines:
        return ["None is noted in the ledger."]
    return ["Why a claim may not stand as it is printed, whatever was measured.", _markdown(lines)]


def _settings(paper: str) -> list[str]:
    name = file_of(paper)
    quick, theirs = (recipes.load(name, profile=profile) for profile in ("quick", "paper"))
    small, others = quick.values(), {*theirs.methods} - {paper.lower()}
    lines = [
        {"setting": key, "at the paper's": _value(value), "quick": _value(small.get(key, "-")),
         "source": theirs.origins[key]}
        for key, value in theirs.values().items()
        if key in theirs.origins and key.rpartition(".")[0] not in others
    ]  # fmt: skip
    file = f"[data/recipes/{name}.toml](../recipes/{name}.toml)"
    about = f"Those of {paper} and of every run; those of the methods beside it are in {file}."
    return [about, _markdown(lines)]


def _data(paper: str, made: Report) -> list[str]:
    seen = Counter((r.scenario["name"], r.scenario["title"], r.scenario["stand_in"], r.profile)
                   for r in _results(paper, made))  # fmt: skip
    lines = [{"scenario": name, "what it is": title, "stand-in": "yes" if stand_in else "no",
              "profile": profile, "runs": count}
             for (name, title, stand_in, profile), count in sorted(seen.items())]  # fmt: skip
    about = "Sources, licences and splits: [data/README.md](../README.md)."
    return [about, _markdown(lines)] if lines else [about]


def _tables(paper: str, coverage: pd.DataFrame, made: Report) -> list[str]:
    lines = [{"table": key, **row, "notebook": _notebook(row["notebook"])}
             for key, row in coverage.to_dict("index").items()]  # fmt: skip
    parts = ["How many printed accuracies were measured, and where.", _markdown(lines)]
    for key in coverage.index:
        for block in made.blocks(paper, key):
            if block.setting != OPEN:
                grid = [{"": row, **cells} for row, cells in block.grid.to_dict("index").items()]
                about = f"{COLUMNS[block.setting]} (*{block.run}*, seeds {block.seeds})"
                parts += [f"**Table {key}**, {about}: printed; measured, in %.", _markdown(grid),
                          f"Differs from the paper in: {block.differs}."]  # fmt: skip
    return parts


def _misprints(paper: str) -> list[str]:
    known = papers.misprints()
    known = known[known["paper"] == paper].drop(columns="paper")
    if known.empty:
        return ["None is known in the printed tables."]
    return [
        "Numbers that cannot be right as they are printed.",
        _markdown(known.to_dict("records")),
    ]


def _again(paper: str, mine: pd.DataFrame, made: Report) -> list[str]:
    numbers = " ".join(sorted(set(mine["notebook"])))
    runs = {run.table for run in made.runs if run.paper == paper and run.recipe.profile == "paper"}
    lines = [f"python -m fedtutor refresh --only {numbers}",
             *(f'python -m fedtutor queue run --only "{name}"' for name in sorted(runs)),
             "python -m fedtutor report --papers"]  # fmt: skip
    return [AGAIN, "```sh\n" + "\n".join(lines) + "\n```"]


# --- helpers


def _results(paper: str, made: Report) -> list:
    """The recorded results that stand for a printed accuracy of this paper, each once."""
    paths = dict.fromkeys(run.path(made.folder) for run in made.runs if run.paper == paper)
    return [made.found[path] for path in paths if path in made.found]


def _notebook(number: str) -> str:
    """A link to the notebook of this number, as it stands from `data/reports`."""
    name = next(ledger.NOTEBOOKS.glob(f"{number}_*.ipynb")).name
    return f"[{number}](../../notebooks/{name})"


def _value(value) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "whole" if value is None else str(value)


def _markdown(lines: list[dict]) -> str:
    names = list(lines[0])
    rows = [names, ["---"] * len(names), *([line[name] for name in names] for line in lines)]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows)


def _cell(value) -> str:
    return " ".join(str(value).replace("|", "\\|").split())


def _bullets(points: list[str]) -> str:
    return "\n".join(_filled(f"- {point}", subsequent_indent="  ") for point in points)


def _wrapped(part: str) -> str:
    """Prose in lines of 120 characters; tables, titles, lists, code and marks as they are."""
    if part.startswith(("|", "#", "- ", "```", "<!--")):
        return part
    return "\n\n".join(map(_filled, part.strip().split("\n\n")))


def _filled(text: str, **more) -> str:
    words = " ".join(text.split())
    return textwrap.fill(words, 120, break_long_words=False, break_on_hyphens=False, **more)
