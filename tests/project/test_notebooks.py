"""Every notebook keeps the suite's form: anatomy, headings, figures, tags, outputs.

Each rule is a function that yields what is wrong with a notebook; the second half of this file
breaks a small notebook in every way and expects the rule to say so. That the outputs are what the
code computes is nbval's part.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from copy import deepcopy
from itertools import pairwise
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from support import second_edition as second
from support.notebooks import (
    code_cells,
    headings,
    numbered,
    outputs,
    section_names,
    tags,
    texts,
)

from fedtutor.engine.files import ROOT
from fedtutor.notebook.start import NAMES
from tools.exercises import parts

FOLDERS = (ROOT / "notebooks", ROOT / "notebooks" / "template")
SECOND_EDITION = {
    "00_template", "00_start_here", "00b_data_gallery", "01_fccl", "01b_fccl_tables",
    "02_fccl_plus", "02b_fccl_plus_ablations", "03_fedcsd_logit_shift", "03b_fedcsd_tables",
    "04_representation_sharing", "04b_repshare_tables", "05_fedlgd_distillation",
    "05a_fedlgd_whole", "05b_fedlgd_ablations", "06_privacy_membership", "06a_privacy_inversion",
    "07_benchmark", "08_reproduction_report", "09_real_federation",
}  # fmt: skip
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
COLLAPSED = {"source_hidden": True}
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
    words = [text for text in section_names(notebook, SECTIONS) if text in SECTIONS]
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
    """No measured number is typed into Markdown; tables, code and math may hold some.

    In the second edition, "The paper's promise" may quote a printed number with its table.
    """
    for place, cell in numbered(notebook, "markdown"):
        new = stem in SECOND_EDITION
        source = second.numbers_apart_from_the_promise(cell.source) if new else cell.source
        text = re.sub(r"```.*?```|`[^`]*`|\$\$.*?\$\$|\$[^$]*\$", "", source, flags=re.S)
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
        if extra := set(cell.metadata) - {"tags", "jupyter"}:
            yield f"{place}: metadata {', '.join(sorted(extra))}"
        if cell.metadata.get("jupyter", COLLAPSED) != COLLAPSED:
            yield f"{place}: metadata jupyter: {dict(cell.metadata['jupyter'])}"


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
SHARED = (parameters, figures, numbers, ignored, links, *EVERYWHERE)
RULES = (anatomy, size, *SHARED)
RULES_OF = {path: (*second.RULES, *SHARED) if path.stem in SECOND_EDITION else RULES
            for path in NOTEBOOKS}  # fmt: skip


# ------------------------------------------------------------------------ the suite's notebooks


def named(path_and_rule) -> str:
    path, rule = path_and_rule
    return f"{rule.__name__}-{path.stem}"


@pytest.mark.parametrize("what", [(p, r) for p in NOTEBOOKS for r in RULES_OF[p]], ids=named)
def test_notebook(what):
    path, rule = what
    found = list(rule(nbformat.read(path, as_version=4), path.stem))
    assert not found, "\n".join(found)


OF_SOLUTIONS = {path: [parameters, numbers, *EVERYWHERE, *[second.code] *
                       (path.stem in SECOND_EDITION)] for path in SOLUTIONS}  # fmt: skip


@pytest.mark.parametrize("what", [(p, r) for p in SOLUTIONS for r in OF_SOLUTIONS[p]], ids=named)
def test_solutions(what):
    path, rule = what
    found = list(rule(nbformat.read(path, as_version=4), path.stem))
    assert not found, "\n".join(found)


def test_no_helper_is_defined_in_two_notebooks():
    new = {path.stem: nbformat.read(path, as_version=4) for path in NOTEBOOKS
           if path.stem in SECOND_EDITION}  # fmt: skip
    assert new.keys() == SECOND_EDITION, "a name that is no notebook"
    assert not list(second.defined_twice(new))


def test_the_formatter_knows_the_notebooks_of_the_first_edition():
    rules = tomllib.loads((ROOT / "notebooks" / "ruff.toml").read_text(encoding="utf-8"))
    first = {path.name for path in NOTEBOOKS if path.stem not in SECOND_EDITION}
    assert set(rules.get("format", {}).get("exclude", [])) == first
    assert rules["line-length"] == second.MOST_COLUMNS


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


# ------------------------------------------------------------------ those of the second edition


COLLAPSED_CELL = {"jupyter": dict(COLLAPSED)}
SECOND_START = """**In one minute**

**The problem.** Owners disagree.

**The idea.** Share one part.

**A round.** The part travels.

**The paper's promise.** FedX reaches about 74 % (Table 2)."""
GOALS = "**You will be able to**\n\n**What you need**: time\n\n| a | b |\n|---|---|\n| 1 | 2 |"


def printed(text: str, kind: str = "text/markdown"):
    return [new_output("display_data", data={kind: text, "text/plain": text})]


def folded_code(source: str, *names: str, outputs=()):
    about = {**deepcopy(COLLAPSED_CELL), **({"tags": list(names)} if names else {})}
    return new_code_cell(source, metadata=about, outputs=list(outputs))


def good_lesson():
    """A small lesson of the second edition with nothing wrong."""
    found = '<div class="printed">\n\n**What we found.** It helps.\n\n</div>'
    cells = [
        new_markdown_cell(f"# 03 · FedX: share what is common\n\n{SECOND_START}"),
        new_code_cell(SIX, metadata={"tags": ["parameters"]}),
        folded_code("from fedtutor.notebook import start\n\nrun = start(globals(), recipe='x')"),
        folded_code("tell('It helps.')", outputs=printed(found)),
        new_code_cell("run.diagram('fedx')"),
        new_code_cell("algorithm('fedx')"),
        new_markdown_cell(GOALS),
        new_markdown_cell("## 1. Idea"),
        new_code_cell("def shared(a, b):\n    return (a + b) / 2\n\n\nshared(1, 2)"),
        folded_code("check('Eq. 1', shared(1, 2), 1.5)", "check"),
        new_markdown_cell("## 2. A whole round from scratch"),
        new_code_cell("x = 1\n" * 24),
        new_markdown_cell("**Recap.** Two lines.\n\n## 3. The experiment"),
        new_code_cell("table", outputs=printed(html_table(8, 5), "text/html")),
        new_markdown_cell("## 4. Critical reading: why\n\n## 5. What the paper reports, what we "
                          "measured"),
        folded_code("verdict_box()"),
        folded_code("claims.cards()", "claims"),
        new_markdown_cell("**Differs from the paper in** data.\n\n## Exercises"),
        new_code_cell("import torch\n\n\ndef shared(a, b):\n    ...",
                      metadata={"tags": ["exercise"]}),
        new_markdown_cell("## Summary\n\n## Further reading"),
    ]  # fmt: skip
    notebook = new_notebook(cells=cells, metadata=good().metadata)
    for count, cell in enumerate(code_cells(notebook), start=1):
        cell.execution_count = count
    return notebook


def html_table(rows: int, columns: int, *, inside: str = "", names=None) -> str:
    names = names or [f"c{i}" for i in range(columns)]
    heads = "".join(f"<th>{name}</th>" for name in ["", *names])
    row = f"<tr><th>r</th>{'<td>1</td>' * columns}</tr>"
    table = f"<table{inside}><thead><tr>{heads}</tr></thead><tbody>{row * rows}</tbody></table>"
    return table


def md_table(rows: int, columns: int) -> str:
    return "\n".join(["|".join(["", *"abcdefghij"[:columns], ""]), "|---" * columns + "|",
                      *["| 1 " * columns + "|"] * rows])  # fmt: skip


def of_lesson(rule, change, stem="03_fedx") -> list[str]:
    notebook = good_lesson()
    change(notebook, notebook.cells)
    return list(rule(notebook, stem))


def open_input(number):
    return lambda notebook, cells: cells[number].metadata.pop("jupyter")


def collapse(number):
    return lambda notebook, cells: cells[number].metadata.update(deepcopy(COLLAPSED_CELL))


def shows(number, text, kind="text/html"):
    return lambda notebook, cells: cells[number].update(outputs=printed(text, kind))


def more(*cells):
    return lambda notebook, all_: all_.__setitem__(slice(9, 9), cells)


def test_a_good_lesson_has_no_faults():
    for rule in (*second.RULES, *SHARED):
        if rule is not numbers:
            assert list(rule(good_lesson(), "03_fedx")) == [], rule.__name__


BROKEN_LESSON = [
    (second.anatomy, replaced(0, "# 03 ·", "# 04 ·"), "not '# 03"),
    (second.anatomy, replaced(7, "## 1", "# 1"), "2 headings of level 1"),
    (second.anatomy, replaced(7, "## 1", "### 1"), "skips a level"),
    (second.anatomy, replaced(0, "**In one minute**", "In short"), "'In one minute' is missing"),
    (second.anatomy, replaced(12, "**Recap.**", "In short."), "'Recap' is missing"),
    (second.anatomy, replaced(10, "A whole round", "Once more"), "'A whole round from scratch'"),
    (second.anatomy, lambda n, c: c.insert(6, c.pop(12)), "sections stand in the order"),
    (second.first_screen, replaced(0, "**The idea.**", "The idea."), "'**The idea.**' is missing"),
    (second.first_screen, replaced(0, "The paper's", "A"), "'**The paper's promise.**' is missing"),
    (second.first_screen, shows(3, "nothing"), "'What we found' is not printed"),
    (second.first_screen, replaced(0, "Owners", "**What we found.** Owners"), "is not printed"),
    (second.first_screen, replaced(0, "Owners", "many words " * 150), "300 are enough"),
    (second.first_screen, set_source(4, "algorithm('fedx')"), "instead of diagram and algorithm"),
    (second.first_screen, lambda n, c: c.insert(4, c.pop(6)), "instead of diagram and algorithm"),
    (second.claims, set_source(15, "pass"), "instead of one verdict_box()"),
    (second.claims, set_source(16, "claims.table()"), "instead of one verdict_box()"),
    (second.claims, set_source(16, "claims.cards()\nclaims.verdicts()"), "a second list"),
    (second.claims, lambda n, c: c.insert(15, c.pop(16)), "instead of one verdict_box()"),
    (second.collapsed, set_source(8, "import torch"), "imports with an open input"),
    (second.collapsed, set_source(8, "from torch import nn"), "imports with an open input"),
    (second.collapsed, open_input(2), "the start cell with an open input"),
    (second.collapsed, open_input(3), "a printed text with an open input"),
    (second.collapsed, open_input(9), "a check with an open input"),
    (second.collapsed, open_input(15), "a printed text with an open input"),
    (second.collapsed, open_input(16), "claims with an open input"),
    (second.collapsed, set_source(8, "question('x', {})"), "a printed text with an open input"),
    (second.collapsed, collapse(1), "the parameters are collapsed"),
    (second.collapsed, collapse(18), "an exercise is collapsed"),
    (second.size, set_source(8, "x = 1\n" * 26), "26 visible lines"),
    (second.size, more(*[new_markdown_cell("x") for _ in range(27)]), "41 visible cells"),
    (second.code, set_source(8, f"x = '{'y' * 83}'"), "a line of 89 characters"),
    (second.code, set_source(9, "x = 1  # fmt: skip"), "a remark to the formatter"),
    (second.code, set_source(9, "# fmt: off\nx = 1"), "a remark to the formatter"),
    (second.code, set_source(9, "mean = lambda x: x / 2"), "a lambda with a name"),
    (second.code, set_source(9, "(mean := lambda x: x / 2)"), "a lambda with a name"),
    (second.tables, shows(13, html_table(9, 5)), "9 rows and 5 columns"),
    (second.tables, shows(13, html_table(8, 6)), "8 rows and 6 columns"),
    (second.tables, shows(13, html_table(1, 2, names=["a", "a"])), "the column 'a' twice"),
    (second.tables, set_source(7, md_table(9, 2)), "9 rows"),
    (second.tables, set_source(7, md_table(2, 7)), "6 columns"),
    (second.tables, shows(3, md_table(9, 2), "text/markdown"), "9 rows"),
    (clean, lambda n, c: c[8].metadata.update(jupyter={"a": True}), "metadata jupyter"),
]  # fmt: skip


@pytest.mark.parametrize("rule, change, words", BROKEN_LESSON)
def test_a_broken_lesson_is_noticed(rule, change, words):
    found = of_lesson(rule, change)
    assert len(found) == 1 and words in found[0], found


GOOD_LESSON = [
    (second.size, more(*[folded_code("x = 1\n" * 90)] * 40)),
    (second.collapsed, more(new_code_cell("folded(table, 'All')"))),
    (second.collapsed, more(new_code_cell("fed.method.start(fed)"))),
    (second.code, set_source(8, "sorted(rows, key=lambda row: row[0])")),
    (second.code, set_source(8, f"x = '{'y' * 82}'")),
    (second.tables, shows(13, f"<details>{html_table(90, 9)}</details>")),
    (second.tables, shows(13, html_table(12, 2, inside=' class="algorithm"'))),
    (second.tables, set_source(7, f"<details>\n\n{md_table(90, 9)}\n\n</details>")),
    (second.tables, set_source(7, md_table(8, 6))),
    (second.tables, set_source(7, md_table(8, 6).replace("| 1 ", r"| \|x\| "))),
    (second.anatomy, replaced(0, "**In one minute**", "> **In one minute**")),
]


@pytest.mark.parametrize("rule, change", GOOD_LESSON)
def test_what_a_lesson_may_have_is_no_fault(rule, change):
    assert of_lesson(rule, change) == []


def test_a_laboratory_needs_less_and_says_that_it_is_optional():
    def change(notebook, cells):
        replaced(0, "# 03 ·", "# 03b ·")(notebook, cells)
        replaced(12, "**Recap.**", "So far.")(notebook, cells)
        replaced(0, "**The idea.**", "The idea.")(notebook, cells)
        set_source(5, "pass")(notebook, cells)

    assert len(of_lesson(second.anatomy, change, "03b_fedx")) == 1
    assert "optional" in of_lesson(second.anatomy, change, "03b_fedx")[0]
    assert of_lesson(second.first_screen, change, "03b_fedx") == []


def test_a_helper_in_two_notebooks_is_noticed_and_an_answer_is_none():
    one, two = good_lesson(), good_lesson()
    assert list(second.defined_twice({"03_fedx": one, "04_fedy": two})) == [
        "shared is defined in 03_fedx and 04_fedy"
    ]
    two.cells[8].source = "def other(): ..."
    assert not list(second.defined_twice({"03_fedx": one, "04_fedy": two}))


def test_the_report_has_the_box_and_judges_nothing():
    lesson = good_lesson()
    assert len(list(second.claims(lesson, "08_report"))) == 1
    lesson.cells[16].source = "pass"
    assert not list(second.claims(lesson, "08_report"))
    lesson.cells[16].source = 'claims.measure("x-01", [1.0])'
    assert len(list(second.claims(lesson, "08_report"))) == 1


def test_the_promise_may_quote_a_printed_number_with_its_table(monkeypatch):
    monkeypatch.setitem(numbers.__globals__, "SECOND_EDITION", {"03_fedx"})
    assert list(numbers(good_lesson(), "03_fedx")) == []
    assert len(list(numbers(good_lesson(), "03b_other"))) == 1
    lesson = good_lesson()
    lesson.cells[0].source = lesson.cells[0].source.replace("(Table 2)", "")
    assert len(list(numbers(lesson, "03_fedx"))) == 1
