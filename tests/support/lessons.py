"""What a lesson of the third edition keeps: each rule yields what is wrong, for who mends it."""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from tools.exercises import parts

from .notebooks import code_cells, headings, hidden, numbered, outputs, section_names, tags

DOOR = {
    "fedtutor": {
        "Federation", "Settings", "attacks", "compare", "losses", "measures", "methods", "papers",
        "plots", "run", "scenarios", "teach",
    },
}  # fmt: skip
LIBRARIES = {"torch", "numpy", "pandas", "matplotlib", "scipy", "seaborn", "sklearn", "IPython"}
PLAIN = {"copy", "math", "dataclasses", "functools", "itertools", "collections", "time"}
FIRST_SCREEN = ("In one minute", "You will be able to", "What you need")
SECTIONS = (*FIRST_SCREEN, "Exercises", "Summary")
MOST_CELLS, MOST_IN_A_CELL, OPEN = 40, 30, 0.8
MOST_LINES = {"00": 400, "00b": 150, "02b": 250}  # of code in all; a laboratory 150, others 450
PROSE = re.compile(r"\b(?:display\s*\(\s*)?Markdown\(|\b(?:say|tell|sentence)\(")
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
MEASURED = re.compile(
    r"(?<![\w.$-])(\d[\d,]*(?:\.\d+)?)\s?(?:%|percent\b|(?:percentage )?points?\b|times\b|MB\b)"
)
LEVELS = {"95", "90", "5"}  # percent of an interval or a test
QUOTED = re.compile(r"paper|report|McMahan|et al\.|Table|promise|guess|abstract", re.I)


def anatomy(notebook, stem: str) -> Iterator[str]:
    """The title, the sections in their order, headings without a skipped level."""
    found, number = list(headings(notebook)), stem.partition("_")[0]
    titles = [text for level, text in found if level == 1]
    if len(titles) != 1 or found[0][0] != 1 or not re.match(rf"{number} · .+", titles[0]):
        yield f"the title, the only heading of level 1, is not '# {number} · ...'"
    for (above, _), (level, text) in pairwise(found):
        if level > above + 1:
            yield f"heading {text!r} skips a level"
    words = [name for name in section_names(notebook, SECTIONS) if name in SECTIONS]
    yield from (f"{name!r} is missing" for name in SECTIONS if name not in words)
    order = list(dict.fromkeys(words))
    if order != sorted(order, key=SECTIONS.index):
        yield f"sections stand in the order {', '.join(order)}"


def open_code(notebook, stem: str) -> Iterator[str]:
    """Four fifths of the lines are open, cells are short, and there are not too many."""
    cells = code_cells(notebook)
    lines = {shut: sum(lines_of(c) for c in cells if hidden(c) == shut) for shut in (True, False)}
    total = sum(lines.values())
    if lines[False] < OPEN * total:
        yield f"{lines[False]} of {total} lines of code are open, {OPEN:.0%} must be"
    number = stem.partition("_")[0]
    most = MOST_LINES.get(number, 150 if number.endswith("b") else 450)
    if total > most:
        yield f"{total} lines of code, {most} are enough"
    before, _, after = parts(notebook)
    if (count := sum(c.cell_type == "code" for c in (*before, *after))) > MOST_CELLS:
        yield f"{count} code cells outside the exercises, {MOST_CELLS} are enough"
    for place, cell in numbered(notebook, "code"):
        if lines_of(cell) > MOST_IN_A_CELL:
            yield f"{place} has {lines_of(cell)} lines, {MOST_IN_A_CELL} are enough"
        if PROSE.search(cell.source):
            yield f"{place} prints prose; write it in Markdown"
        if "parameters" in tags(cell) and hidden(cell):
            yield "the parameters are collapsed"


def imports(notebook, stem: str) -> Iterator[str]:
    """A lesson calls the names at the door, and libraries that every student knows."""
    for place, cell in numbered(notebook, "code"):
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.Import):
                names = {alias.name: {None} for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names = {node.module: {alias.name for alias in node.names}}
            else:
                continue
            for module, wanted in names.items():
                known = module.partition(".")[0] in LIBRARIES | PLAIN
                if not known and not wanted <= DOOR.get(module, set()):
                    yield f"{place} imports {module}, which is not at the door"


def guarded(notebook, stem: str) -> Iterator[str]:
    """A number with a unit in prose is one that an output or a cell of the lesson has."""
    shown = [o.get("text", "") for _, o in outputs(notebook)]
    shown += [str(o.get("data", {}).get("text/plain", "")) for _, o in outputs(notebook)]
    shown += [cell.source for cell in code_cells(notebook)]
    known = {float(text.replace(",", "")) for text in NUMBER.findall("\n".join(shown))}
    for place, cell in numbered(notebook, "markdown"):
        text = re.sub(r"```.*?```|`[^`]*`|\$\$.*?\$\$|\$[^$]*\$", "", cell.source, flags=re.S)
        plain = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("|"))
        for sentence in re.split(r"(?<=[.!?:])\s+", plain):
            for match in MEASURED.finditer(sentence):
                digits = len(match[1].partition(".")[2])
                value = float(match[1].replace(",", ""))
                same = any(round(abs(x), digits) == value for x in known)
                if not same and match[1] not in LEVELS and not QUOTED.search(sentence):
                    yield f"{place}: {match[0]!r} stands in no output of this lesson"


def lines_of(cell) -> int:
    """Lines of code that are not empty."""
    return sum(bool(line.strip()) for line in cell.source.splitlines())


RULES = (anatomy, open_code, imports, guarded)
