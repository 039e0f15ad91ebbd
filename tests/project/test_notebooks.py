"""Every notebook keeps the suite's form: anatomy, headings, figures, tags, outputs.

Each rule is a function that yields what is wrong with a notebook; the second half of this file
breaks a small notebook in every way and expects the rule to say so. That the outputs are what the
code computes is nbval's part.
"""

import ast
import re
from collections.abc import Iterator
from copy import deepcopy
from itertools import pairwise
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from fedtutor.engine.files import ROOT
from fedtutor.notebook.exercises import parts
from fedtutor.notebook.start import NAMES

FOLDERS = (ROOT / "notebooks", ROOT / "notebooks" / "template")
NOTEBOOKS = [path for folder in FOLDERS for path in sorted(folder.glob("[0-9][0-9]*.ipynb"))]
SOLUTIONS = sorted((ROOT / "notebooks" / "solutions").glob("[0-9][0-9]*.ipynb"))
TAGS = {"parameters", "check", "figure", "claims", "exercise", "solution", "nbval-ignore-output",
        "raises-exception"}  # fmt: skip
SECTIONS = ("You will be able to", "What you need", "What the paper reports, what we measured",
            "Differs from the paper in", "Critical reading", "Exercises", "Summary",
            "Further reading")  # fmt: skip
MOST_CELLS, MOST_LINES, MOST_COLUMNS = 40, 20, 100
MEASURED = re.compile(
    r"\d\s?%|±\s?\d|\d[\d.,]*\s+(?:percentage\s+)?points?\b|\bby\s+(?:a\s+factor\s+of\s+)?\d+\.\d"
)
FORBIDDEN = {
    "!pip or another shell command": re.compile(r"^\s*!", re.M),
    "a magic command": re.compile(r"^\s*%", re.M),
    "sys.path": re.compile(r"\bsys\.path\b"),
    "filterwarnings": re.compile(r"\b(?:filterwarnings|simplefilter)\b"),
}
PATH = re.compile(
    r"(?<![\w./~-])/(?:home|Users|root|tmp|mnt|opt|srv|var|usr|private)/\w|\b[A-Z]:\\\w"
)
LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#\s]+)")


# ------------------------------------------------------------------------------------- rules


def anatomy(notebook, stem: str) -> Iterator[str]:
    """One H1 with the number, the sections in their order, headings without a skipped level."""
    found = list(headings(notebook))
    number = stem.partition("_")[0]
    titles = [text for level, text in found if level == 1]
    if len(titles) != 1 or found[0][0] != 1:
        yield f"{len(titles)} headings of level 1, one is needed, at the top"
    elif not re.match(rf"{number} · .+: .+", titles[0]):
        yield f"the title is not '# {number} · Short name: the claim'"
    for (above, _), (level, text) in pairwise(found):
        if level > above + 1:
            yield f"heading {text!r} skips a level"
    words = [text for text in section_names(notebook) if text in SECTIONS]
    yield from (f"section {name!r} is missing" for name in SECTIONS if name not in words)
    order = list(dict.fromkeys(words))
    if order != sorted(order, key=SECTIONS.index):
        yield f"sections stand in the order {', '.join(order)}"


def parameters(notebook, stem: str) -> Iterator[str]:
    """The first code cell, and it alone, has the tag and the six plain assignments."""
    cells = code_cells(notebook)
    if [i for i, cell in enumerate(cells) if "parameters" in tags(cell)] != [0]:
        yield "the first code cell, and no other, must have the tag 'parameters'"
        return
    body = ast.parse(cells[0].source).body
    plain = [s for s in body if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name)]
    if [s.targets[0].id for s in plain] != list(NAMES) or len(plain) < len(body):
        yield f"the parameters are not {', '.join(NAMES)}, in this order and nothing else"
    for statement in plain:
        try:
            ast.literal_eval(statement.value)
        except ValueError:
            yield f"the parameter {statement.targets[0].id!r} is computed"


def size(notebook, stem: str) -> Iterator[str]:
    """At most 40 cells outside the exercises, 20 lines in a code cell."""
    before, _, after = parts(notebook)
    if len(before) + len(after) > MOST_CELLS:
        yield f"{len(before) + len(after)} cells outside the exercises, {MOST_CELLS} are enough"
    for place, cell in numbered(notebook, "code"):
        if (lines := len(cell.source.splitlines())) > MOST_LINES:
            yield f"{place} has {lines} lines, {MOST_LINES} are enough"


def figures(notebook, stem: str) -> Iterator[str]:
    """Each image is PNG, with a description as text/plain and an alternative text."""
    for place, output in outputs(notebook):
        data = output.get("data", {})
        images = [kind for kind in data if kind.startswith("image/")]
        if not images:
            continue
        if images != ["image/png"]:
            yield f"{place}: {', '.join(images)} instead of image/png alone"
        if len(data.get("text/plain", "").split()) < 8 or "Figure(" in data.get("text/plain", ""):
            yield f"{place}: a figure without a description of eight words"
        if len(output.metadata.get("image/png", {}).get("alt", "").split()) < 8:
            yield f"{place}: a figure without an alternative text"
    for place, cell in numbered(notebook, "markdown"):
        if re.search(r"!\[\s*\]\(|<img(?![^>]*\balt=\"[^\"]+\")", cell.source):
            yield f"{place}: an image without an alternative text"


def numbers(notebook, stem: str) -> Iterator[str]:
    """No measured number is typed into Markdown; tables, code and math may hold some."""
    for place, cell in numbered(notebook, "markdown"):
        text = re.sub(r"```.*?```|`[^`]*`|\$\$.*?\$\$|\$[^$]*\$", "", cell.source, flags=re.S)
        for line in text.splitlines():
            if not line.lstrip().startswith("|") and (match := MEASURED.search(line)):
                yield f"{place}: {match[0]!r} looks like a measured number; let a cell print it"


def ignored(notebook, stem: str) -> Iterator[str]:
    """At most a third of the cells with outputs is not compared."""
    shown = [cell for cell in code_cells(notebook) if cell.outputs]
    skipped = [cell for cell in shown if "nbval-ignore-output" in tags(cell)]
    if 3 * len(skipped) > len(shown):
        yield f"nbval ignores {len(skipped)} of {len(shown)} cells with outputs"


def tagged(notebook, stem: str) -> Iterator[str]:
    """Known tags only, and figures where the tag says so."""
    for place, cell in numbered(notebook):
        yield from (f"{place}: unknown tag {tag!r}" for tag in sorted(tags(cell) - TAGS))
        drawn = any("image/png" in o.get("data", {}) for o in cell.get("outputs", []))
        if drawn != ("figure" in tags(cell)) and cell.cell_type == "code":
            yield f"{place}: the tag 'figure' and a figure do not go together"


def clean(notebook, stem: str) -> Iterator[str]:
    """Valid, with nothing in the metadata that differs between runs or machines."""
    try:
        nbformat.validate(notebook)
    except nbformat.ValidationError as error:
        yield f"not a valid notebook: {str(error).splitlines()[0]}"
    if extra := set(notebook.metadata) - {"kernelspec", "language_info"}:
        yield f"metadata {', '.join(sorted(extra))}"
    if notebook.metadata.get("kernelspec", {}).get("name") != "python3":
        yield "the kernel is not python3"
    if set(notebook.metadata.get("language_info", {})) - {"name"}:
        yield "language_info names a version"
    for place, cell in numbered(notebook):
        if extra := set(cell.metadata) - {"tags"}:
            yield f"{place}: metadata {', '.join(sorted(extra))}"


def executed(notebook, stem: str) -> Iterator[str]:
    """Run once from top to bottom, without an error or a warning."""
    counts = [cell.execution_count for cell in code_cells(notebook)]
    if counts != list(range(1, len(counts) + 1)):
        yield f"executed in the order {counts}"
    for place, output in outputs(notebook):
        meant = "raises-exception" in tags(notebook.cells[int(place.split()[1])])
        if output.output_type == "error" and not meant:
            yield f"{place} failed: {output.ename}"
        if output.get("name") == "stderr":
            yield f"{place} wrote to stderr: {output.text[:60]!r}"


def portable(notebook, stem: str) -> Iterator[str]:
    """No path of a machine, no command that changes it, no line too wide to read."""
    for place, cell in numbered(notebook, "code"):
        for name, pattern in FORBIDDEN.items():
            if pattern.search(cell.source):
                yield f"{place}: {name}"
    for place, text in texts(notebook):
        home = next((path for path in (ROOT, Path.home()) if str(path) in text), None)
        if (home and len(home.parts) > 1) or PATH.search(text):
            yield f"{place}: a path of some machine"
    for place, output in outputs(notebook):
        wide = [line for line in output.get("text", "").splitlines()
                if len(line) > MOST_COLUMNS and not line.startswith("environment: ")]  # fmt: skip
        if wide:
            yield f"{place}: an output line of {len(wide[0])} characters"


def links(notebook, stem: str, folder: Path = ROOT / "notebooks") -> Iterator[str]:
    """Links inside the project lead somewhere and say where."""
    for place, cell in numbered(notebook, "markdown"):
        for target in LINK.findall(cell.source):
            if not (folder / target).exists():
                yield f"{place}: the link to {target} leads nowhere"
        if vague := re.search(r"\[(here|link|this|click here)\]\(", cell.source, re.I):
            yield f"{place}: the link text {vague[1]!r} says nothing"


EVERYWHERE = (tagged, clean, executed, portable)
RULES = (anatomy, parameters, size, figures, numbers, ignored, links, *EVERYWHERE)


# ---------------------------------------------------------------------------- reading notebooks


def tags(cell) -> set[str]:
    return set(cell.metadata.get("tags", []))


def code_cells(notebook) -> list:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def numbered(notebook, kind: str = "") -> Iterator[tuple[str, dict]]:
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == kind or not kind:
            yield f"cell {number}", cell


def outputs(notebook) -> Iterator[tuple[str, dict]]:
    for place, cell in numbered(notebook, "code"):
        for output in cell.outputs:
            yield place, output


def texts(notebook) -> Iterator[tuple[str, str]]:
    """Sources and outputs as text."""
    for place, cell in numbered(notebook):
        yield place, cell.source
    for place, output in outputs(notebook):
        parts = [v for k, v in output.get("data", {}).items() if k.startswith("text/")]
        yield place, "\n".join([output.get("text", ""), *parts])


def lines_of(cell) -> Iterator[str]:
    """The lines of a Markdown cell that are not code."""
    fenced = False
    for line in cell.source.splitlines():
        fenced ^= line.lstrip().startswith("```")
        if not fenced:
            yield line


def headings(notebook) -> Iterator[tuple[int, str]]:
    for _, cell in numbered(notebook, "markdown"):
        for line in lines_of(cell):
            if match := re.match(r"(#{1,6}) +(.*)", line):
                yield len(match[1]), match[2].strip()


def section_names(notebook) -> Iterator[str]:
    """Headings without their numbers, and the bold words that open a paragraph or a list."""
    for _, cell in numbered(notebook, "markdown"):
        for line in lines_of(cell):
            if match := re.match(r"#+ +(?:\d+\. +)?(.*)|\*\*(.+?)\*\*", line):
                name = (match[1] or match[2] or "").strip(" :")
                yield next((s for s in SECTIONS if name.startswith(s)), name)


# ------------------------------------------------------------------------ the suite's notebooks


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_notebook(path, rule):
    found = list(rule(nbformat.read(path, as_version=4), path.stem))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
@pytest.mark.parametrize("rule", [parameters, numbers, *EVERYWHERE], ids=lambda r: r.__name__)
def test_solutions(path, rule):
    found = list(rule(nbformat.read(path, as_version=4), path.stem))
    assert not found, "\n".join(found)


# ------------------------------------------------------------------------- these rules can fail

DESCRIPTION = "Bars of accuracy, one per method, with a dot for each seed."
SIX = """profile = "quick"
scenario = None
seeds = [0, 1, 2]
methods = ["solo"]
device = "auto"
overrides = {}"""


def good():
    """A small notebook with nothing wrong."""
    picture = new_output(
        "display_data", data={"image/png": "iVBORw0KGgo=", "text/plain": DESCRIPTION},
        metadata={"image/png": {"alt": DESCRIPTION, "width": 760}},
    )  # fmt: skip
    printed = [new_output("stream", text=f"{word}\n") for word in ("equal", "holds")]
    notebook = new_notebook(
        cells=[
            new_markdown_cell("# 03 · FedX: it helps\n\n**You will be able to**\n\n"
                              "**What you need**: time\n\n| 5 % | ± 3 |\n|---|---|"),
            new_code_cell(SIX, metadata={"tags": ["parameters"]}),
            new_markdown_cell("## 1. Idea\n\n### Detail\n\n`5 %`, $5\\%$ and\n\n```\n# none\n```"),
            new_code_cell("draw()", outputs=[picture], metadata={"tags": ["figure"]}),
            new_markdown_cell("## 2. What the paper reports, what we measured"),
            new_code_cell("claims()", outputs=[printed[1]], metadata={"tags": ["claims"]}),
            new_markdown_cell("**Differs from the paper in** data.\n\n## 3. Critical reading: why"),
            new_code_cell("check(1, 1)", outputs=[printed[0]], metadata={"tags": ["check"]}),
            new_markdown_cell("## Exercises"),
            new_markdown_cell("## Summary\n\n## Further reading\n\n[the tests](../tests)"),
        ],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"},
                  "language_info": {"name": "python"}},
    )  # fmt: skip
    for count, cell in enumerate(code_cells(notebook), start=1):
        cell.execution_count = count
    return notebook


def said(rule, change, stem="03_fedx") -> list[str]:
    notebook = deepcopy(good())
    change(notebook, notebook.cells)
    return list(rule(notebook, stem))


def set_source(number, source):
    return lambda notebook, cells: cells[number].update(source=source)


def replaced(number, old, new):
    def change(notebook, cells):
        assert old in cells[number].source
        cells[number].source = cells[number].source.replace(old, new)

    return change


def output(number, **changes):
    return lambda notebook, cells: cells[number].outputs[0].update(changes)


def tag(number, *names):
    return lambda notebook, cells: cells[number].metadata.update(tags=list(names))


def test_a_good_notebook_has_no_faults():
    for rule in RULES:
        assert list(rule(good(), "03_fedx")) == [], rule.__name__


BROKEN = [
    (anatomy, replaced(4, "## 2. What", "# What"), "2 headings of level 1"),
    (anatomy, replaced(0, "# 03 ·", "## 03 ·"), "0 headings of level 1"),
    (anatomy, replaced(0, "03 ·", "04 ·"), "not '# 03"),
    (anatomy, replaced(0, ": it helps", ""), "not '# 03"),
    (anatomy, replaced(2, "### Detail", "#### Detail"), "'Detail' skips a level"),
    (anatomy, replaced(0, "**What you need**", "What you need"), "'What you need' is missing"),
    (anatomy, replaced(6, "## 3. Critical reading", "## 3. Doubts"), "'Critical reading' is"),
    (anatomy, replaced(9, "## Further reading", "## More"), "'Further reading' is missing"),
    (anatomy, lambda n, c: c.insert(2, c.pop(8)), "sections stand in the order"),
    (parameters, tag(1), "must have the tag"),
    (parameters, tag(3, "parameters"), "must have the tag"),
    (parameters, lambda n, c: c.insert(1, new_code_cell("x = 1")), "must have the tag"),
    (parameters, replaced(1, "overrides", "override"), "in this order"),
    (parameters, replaced(1, "overrides = {}", ""), "in this order"),
    (parameters, replaced(1, "profile", "import os\nprofile"), "in this order"),
    (parameters, replaced(1, "[0, 1, 2]", "list(range(3))"), "'seeds' is computed"),
    (size, lambda n, c: c.extend(new_code_cell("") for _ in range(40)), "cells outside"),
    (size, set_source(3, "x = 1\n" * 21), "21 lines"),
    (figures, output(3, data={"image/png": "iVBORw0KGgo="}), "description"),
    (figures, lambda n, c: c[3].outputs[0].data.update({"text/plain": "<Figure(7)>"}), "descript"),
    (figures, output(3, metadata={}), "alternative text"),
    (figures, lambda n, c: c[3].outputs[0].data.update({"image/svg+xml": "<svg/>"}), "svg"),
    (figures, set_source(4, "![](a.png)"), "image without"),
    (figures, set_source(4, '<img src="a.png">'), "image without"),
    (numbers, set_source(4, "FedX gains 3.2 points."), "3.2 points"),
    (numbers, set_source(4, "An accuracy of 81 % is"), "1 %"),
    (numbers, set_source(4, "It is 0.8 ± 0.5 better"), "± 0"),
    (ignored, lambda n, c: [tag(i, "nbval-ignore-output")(n, c) for i in (3, 5)], "2 of 3"),
    (tagged, tag(5, "slow"), "unknown tag 'slow'"),
    (tagged, tag(3), "'figure'"),
    (tagged, tag(5, "figure"), "'figure'"),
    (clean, lambda n, c: n.metadata.update(papermill={}), "metadata papermill"),
    (clean, lambda n, c: n.metadata.language_info.update(version="3.11.7"), "version"),
    (clean, lambda n, c: n.metadata.kernelspec.update(name="mine"), "kernel"),
    (clean, lambda n, c: c[3].metadata.update(execution={}), "cell 3: metadata execution"),
    (clean, lambda n, c: c[3].pop("outputs"), "not a valid notebook"),
    (executed, lambda n, c: c[5].update(execution_count=7), "executed in the order"),
    (executed, lambda n, c: c[5].update(execution_count=None), "executed in the order"),
    (executed, output(7, name="stderr"), "wrote to stderr"),
    (executed, lambda n, c: c[7].outputs.append(
        new_output("error", ename="CheckError", evalue="", traceback=[])), "failed: CheckError"),
    (portable, set_source(3, "!pip install x"), "shell command"),
    (portable, set_source(3, "%cd .."), "magic"),
    (portable, set_source(3, "import sys\nsys.path.append('..')"), "sys.path"),
    (portable, set_source(3, "warnings.filterwarnings('ignore')"), "filterwarnings"),
    (portable, output(5, text="saved in /home/ada/x"), "a path of some machine"),
    (portable, output(5, text=f"saved in {ROOT}"), "a path of some machine"),
    (portable, set_source(4, "See C:\\Users"), "a path of some machine"),
    (portable, output(5, text="x" * 101), "101 characters"),
    (links, set_source(4, "[the recipe](../data/nowhere.toml)"), "leads nowhere"),
    (links, set_source(4, "Click [here](../README.md)."), "says nothing"),
]  # fmt: skip


@pytest.mark.parametrize("rule, change, words", BROKEN)
def test_a_broken_notebook_is_noticed(rule, change, words):
    found = said(rule, change)
    assert len(found) == 1 and words in found[0], found


@pytest.mark.parametrize(
    "text",
    [
        "from 0 to 1 in 3 steps", "Table 4 of Section 5.2", "a share of 0.5", "points of view",
        "the paper's learning rate 0.001", "[site](https://a.org/home/x)", "`lr = 5 %`",
    ],
)  # fmt: skip
def test_plain_numbers_and_links_are_no_fault(text):
    for rule in (numbers, portable, links):
        assert said(rule, set_source(4, text)) == []


def test_exercises_do_not_count_as_cells():
    more = [new_markdown_cell("### Exercise")] * 40
    assert said(size, lambda n, c: c.__setitem__(slice(9, 9), more)) == []
