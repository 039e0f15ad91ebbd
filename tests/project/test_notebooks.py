"""Every notebook keeps the suite's form: anatomy, open code, numbers that are shown, outputs.

Each rule is a function that yields what is wrong with a notebook; those of a lesson's own are in
`support/lessons.py`. The second half of this file breaks a small lesson in every way and expects
the rule to say so. That the outputs are what the code computes is nbval's part.
"""

import ast
import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from support import lessons
from support.notebooks import code_cells, frozen, numbered, outputs, tags, texts

from fedtutor.engine.files import ROOT
from fedtutor.teach import NAMES

FOLDER = ROOT / "notebooks"
FROZEN = frozen(FOLDER)
LATER = {"09_real_federation"}  # executed and validated, and written anew later
NOTEBOOKS = [
    *sorted(FOLDER.glob("[0-9][0-9]*.ipynb")),
    *sorted((FOLDER / "template").glob("[0-9][0-9]*.ipynb")),
]
SOLUTIONS = sorted((FOLDER / "solutions").glob("[0-9][0-9]*.ipynb"))
TAGS = {"parameters", "check", "figure", "claims", "exercise", "solution", "nbval-ignore-output",
        "raises-exception"}  # fmt: skip
MOST_COLUMNS = 100
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


def ignored(notebook, stem: str) -> Iterator[str]:
    """At most a third of the cells with outputs is not compared."""
    shown = [cell for cell in code_cells(notebook) if cell.outputs]
    skipped = [cell for cell in shown if "nbval-ignore-output" in tags(cell)]
    if 3 * len(skipped) > len(shown):
        yield f"nbval ignores {len(skipped)} of {len(shown)} cells with outputs"


def tagged(notebook, stem: str) -> Iterator[str]:
    """Known tags only."""
    for place, cell in numbered(notebook):
        yield from (f"{place}: unknown tag {tag!r}" for tag in sorted(tags(cell) - TAGS))


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
OF_A_LESSON = (parameters, figures, ignored, links, *EVERYWHERE, *lessons.RULES)


def rules_of(path: Path) -> tuple:
    if path.stem in FROZEN:
        return (clean, links, frozen)
    if path.stem in LATER:
        return (parameters, figures, links, *EVERYWHERE)
    return OF_A_LESSON


def frozen(notebook, stem: str) -> Iterator[str]:
    """A lesson that waits for its third edition says so, and at which commit it runs."""
    if not re.search(r"second edition.*`[0-9a-f]{7,40}`", notebook.cells[0].source, re.S):
        yield "the first cell does not say that it is of the second edition, and its commit"


# ------------------------------------------------------------------------ the suite's notebooks


def named(path_and_rule) -> str:
    path, rule = path_and_rule
    return f"{rule.__name__}-{path.stem}"


@pytest.mark.parametrize("what", [(p, r) for p in NOTEBOOKS for r in rules_of(p)], ids=named)
def test_notebook(what):
    path, rule = what
    found = list(rule(nbformat.read(path, as_version=4), path.stem))
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "what",
    [(p, r) for p in SOLUTIONS if p.stem not in FROZEN for r in (parameters, *EVERYWHERE)],
    ids=named,
)
def test_solutions(what):
    path, rule = what
    found = list(rule(nbformat.read(path, as_version=4), path.stem))
    assert not found, "\n".join(found)


def test_what_is_frozen_is_a_lesson_and_the_first_ones_are_not():
    known = {path.stem for path in NOTEBOOKS}
    assert known >= FROZEN | LATER
    assert not FROZEN & {"00_start_here", "00b_data_gallery", "00_template", *LATER}


# ------------------------------------------------------------------------- these rules can fail

DESCRIPTION = "Bars of accuracy, one per method, with a dot for each seed."
SIX = """profile = "quick"
scenario = None
seeds = [0, 1, 2]
methods = ["solo"]
device = "auto"
overrides = {}"""
OPENING = """# 03 · FedX: it helps

> **In one minute**
>
> FedX reads six more digits of a hundred.

**You will be able to**

**What you need**: time"""


def good():
    """A small lesson with nothing wrong."""
    picture = new_output(
        "display_data",
        data={"image/png": "iVBORw0KGgo=", "text/plain": DESCRIPTION},
        metadata={"image/png": {"alt": DESCRIPTION, "width": 760}},
    )
    found = new_output(
        "stream", text="FedX minus solo: +6.1 points [+5.2, +7.0], 10 seeds: ahead\n"
    )
    shut = {"jupyter": {"source_hidden": True}}
    notebook = new_notebook(
        cells=[
            new_markdown_cell(OPENING),
            new_code_cell(SIX, metadata={"tags": ["parameters"]}),
            new_code_cell("from fedtutor import teach\nlesson = teach.start()", metadata=shut),
            new_markdown_cell("## 1. Idea\n\n### Detail\n\n`5 %`, $5\\%$; the paper reports 9 %."),
            new_code_cell("import torch\n" + "x = 1\n" * 9, outputs=[picture]),
            new_code_cell("expect(lead)", outputs=[found]),
            new_markdown_cell("FedX is ahead by about 6 points, or 6.1 points; see a 95 % band."),
            new_markdown_cell("## Exercises"),
            new_markdown_cell("## Summary\n\n[the tests](../tests)"),
        ],
        metadata={
            "kernelspec": {"name": "python3", "display_name": "Python 3"},
            "language_info": {"name": "python"},
        },
    )
    for count, cell in enumerate(code_cells(notebook), start=1):
        cell.execution_count = count
    return notebook


def said(rule, change, stem="03_fedx") -> list[str]:
    notebook = deepcopy(good())
    change(notebook, notebook.cells)
    return list(rule(notebook, stem))


def replaced(number, old, new):
    def change(notebook, cells):
        assert old in cells[number].source
        cells[number].source = cells[number].source.replace(old, new)

    return change


def source(number, text):
    return lambda notebook, cells: cells[number].update(source=text)


def output(number, **changes):
    return lambda notebook, cells: cells[number].outputs[0].update(changes)


def tag(number, *names):
    return lambda notebook, cells: cells[number].metadata.update(tags=list(names))


def shut(number):
    return lambda notebook, cells: cells[number].metadata.update(jupyter={"source_hidden": True})


def test_a_good_lesson_has_no_faults():
    for rule in OF_A_LESSON:
        assert list(rule(good(), "03_fedx")) == [], rule.__name__


MANY = [new_code_cell("x = 1") for _ in range(41)]
BROKEN = [
    (lessons.anatomy, replaced(3, "## 1. Idea", "# Idea"), "the only heading of level 1"),
    (lessons.anatomy, replaced(0, "03 ·", "04 ·"), "is not '# 03"),
    (lessons.anatomy, replaced(3, "### Detail", "#### Detail"), "'Detail' skips a level"),
    (lessons.anatomy, replaced(0, "**What you need**", "What you need"), "'What you need' is"),
    (lessons.anatomy, replaced(0, "**In one minute**", "*In short*"), "'In one minute' is"),
    (lessons.anatomy, lambda n, c: c.insert(3, c.pop(8)), "sections stand in the order"),
    (lessons.open_code, shut(4), "lines of code are open"),
    (lessons.open_code, source(4, "x = 1\n" * 31), "31 lines, 30 are enough"),
    (lessons.open_code, source(4, "x = 1\n" * 451), "lines of code, 450 are enough"),
    (lessons.open_code, shut(1), "the parameters are collapsed"),
    (lessons.open_code, source(5, 'display(Markdown("It helps."))'), "prints prose"),
    (lessons.open_code, source(5, 'tell("It helps.")'), "prints prose"),
    (lessons.open_code, lambda n, c: c.__setitem__(slice(5, 5), MANY), "40 are enough"),
    (lessons.imports, source(5, "from fedtutor.notebook import seen"), "not at the door"),
    (lessons.imports, source(5, "from fedtutor import experiments"), "not at the door"),
    (lessons.imports, source(5, "import tools.gates"), "not at the door"),
    (lessons.guarded, replaced(6, "6.1 points", "6.2 points"), "'6.2 points' stands in no output"),
    (lessons.guarded, replaced(6, "about 6 points", "about 8 points"), "'8 points'"),
    (lessons.guarded, replaced(6, "95 % band", "97 % band"), "'97 %'"),
    (parameters, tag(1), "must have the tag"),
    (parameters, tag(4, "parameters"), "must have the tag"),
    (parameters, replaced(1, "overrides", "override"), "in this order"),
    (parameters, replaced(1, '"auto"', "pick()"), "is computed"),
    (figures, output(4, data={"image/png": "", "text/plain": "<Figure()>"}), "a description of"),
    (figures, output(4, metadata={}), "without an alternative text"),
    (figures, output(4, data={"image/svg+xml": "", "text/plain": DESCRIPTION}), "instead of"),
    (ignored, lambda n, c: [tag(i, "nbval-ignore-output")(n, c) for i in (4, 5)], "ignores 2 of 2"),
    (tagged, tag(5, "chek"), "unknown tag 'chek'"),
    (clean, lambda n, c: c[4].metadata.update(scrolled=True), "metadata scrolled"),
    (clean, lambda n, c: n.metadata.update(widgets={}), "metadata widgets"),
    (executed, lambda n, c: c[4].update(execution_count=9), "executed in the order"),
    (executed, output(5, name="stderr", text="a warning"), "wrote to stderr"),
    (portable, source(5, "!pip install x"), "another shell command"),
    (portable, source(5, "import sys\nsys.path.append('.')"), "sys.path"),
    (portable, output(5, text="/home/someone/x"), "a path of some machine"),
    (links, replaced(8, "../tests", "../nowhere"), "leads nowhere"),
    (links, replaced(8, "[the tests]", "[here]"), "says nothing"),
    (frozen, lambda n, c: None, "does not say that it is of the second edition"),
]


@pytest.mark.parametrize(("rule", "change", "words"), BROKEN)
def test_a_broken_lesson_is_noticed(rule, change, words):
    assert any(words in text for text in said(rule, change)), said(rule, change)


@pytest.mark.parametrize(
    "text",
    [
        "The paper reports 53 % there.",
        "Of the 12 clients, two own a 7.",
        "`about=9 points`",
        "| 12 % |",
        "McMahan et al. promise 10 to 100 times fewer rounds.",
    ],
)
def test_what_is_quoted_or_no_measurement_is_no_fault(text):
    assert not said(lessons.guarded, source(6, text))
