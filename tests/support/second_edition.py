"""What a notebook of the second edition keeps beside the rules for all of them.

Each rule yields what is wrong with a notebook, in the words of whoever has to mend it.
"""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from bs4 import BeautifulSoup

from tools.exercises import parts

from .notebooks import (
    code_cells,
    headings,
    hidden,
    numbered,
    outputs,
    section_names,
    shown_as_markdown,
    tags,
)

SECTIONS = ("In one minute", "You will be able to", "What you need", "A whole round from scratch",
            "Recap", "Critical reading", "What the paper reports, what we measured",
            "Differs from the paper in", "Exercises", "Summary", "Further reading")  # fmt: skip
OF_A_LESSON = ("A whole round from scratch", "Recap", "Critical reading")
FIRST_SCREEN = ("The problem", "The idea", "A round", "The paper's promise")  # and, printed:
FOUND = "What we found"
NO_CLAIMS = ("07_", "08_")  # the benchmark; the report, which reads the claims of all others
MOST_WORDS, MOST_CELLS, MOST_LINES, MOST_COLUMNS = 300, 40, 25, 88
MOST_ROWS, MOST_FIELDS = 8, 5
START = re.compile(r"(?<![.\w])start\(")
TOLD = {"say", "tell", "verdict_box", "question"}  # calls that show words


def is_lesson(stem: str) -> bool:
    """Whether a notebook teaches a paper: it has all parts, which other notebooks may lack."""
    return bool(re.match(r"0[1-5]a?_|00_template", stem))


def anatomy(notebook, stem: str) -> Iterator[str]:
    """The title, the sections in their order, headings without a skipped level."""
    found = list(headings(notebook))
    number = stem.partition("_")[0]
    titles = [text for level, text in found if level == 1]
    if len(titles) != 1 or found[0][0] != 1:
        yield f"{len(titles)} headings of level 1, one is needed, at the top"
    elif not re.match(rf"{number} · .+: .+", titles[0]):
        yield f"the title is not '# {number} · Short name: what it is for'"
    for (above, _), (level, text) in pairwise(found):
        if level > above + 1:
            yield f"heading {text!r} skips a level"
    words = [text for text in section_names(notebook, SECTIONS) if text in SECTIONS]
    for name in SECTIONS:
        if name not in words and (is_lesson(stem) or name not in OF_A_LESSON):
            yield f"section {name!r} is missing"
    order = list(dict.fromkeys(words))
    if order != sorted(order, key=SECTIONS.index):
        yield f"sections stand in the order {', '.join(order)}"
    first = notebook.cells[0].source.lower()
    if number.endswith("b") and "optional" not in first and number != "00b":
        yield "a laboratory says in its first cell that it is optional"


def first_screen(notebook, stem: str) -> Iterator[str]:
    """Problem, idea, round, promise and what was found in 300 words; then diagram and algorithm."""
    cells = list(_first_cells(notebook))
    written = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    printed = "\n".join(shown_as_markdown(cell) for cell in cells)
    for label in FIRST_SCREEN if is_lesson(stem) else ():
        if not re.search(rf"\*\*{label}\.?\*\*", written):
            yield f"'**{label}.**' is missing before 'You will be able to'"
    if FOUND in written or FOUND not in printed:
        yield f"'{FOUND}' is not printed by a cell before 'You will be able to'"
    count = sum(bool(re.search(r"\w", word)) for word in f"{written}\n{printed}".split())
    if count > MOST_WORDS:
        yield f"{count} words before 'You will be able to', {MOST_WORDS} are enough"
    calls = [name for cell in cells for name in _calls(cell) if name in ("diagram", "algorithm")]
    if is_lesson(stem) and calls != ["diagram", "algorithm"]:
        yield f"{calls} before 'You will be able to' instead of diagram and algorithm"


def claims(notebook, stem: str) -> Iterator[str]:
    """One box and one set of cards, in this order; no second list of verdicts.

    The benchmark and the report measure no claim and have the box alone.
    """
    calls = [name for cell in code_cells(notebook) for name in _calls(cell)]
    order = [name for name in calls if name in ("verdict_box", "cards")]
    if stem.startswith(NO_CLAIMS):
        if order != ["verdict_box"] or "measure" in calls:
            yield f"{order} in a notebook that shows one verdict_box() and judges nothing"
    elif order != ["verdict_box", "cards"]:
        yield f"{order} instead of one verdict_box() and one claims.cards() behind it"
    if "verdicts" in calls:
        yield "verdicts() prints a second list beside the cards"


def collapsed(notebook, stem: str) -> Iterator[str]:
    """The input of plumbing is collapsed; parameters and exercises are open."""
    before, exercises, after = parts(notebook)
    for cell in (c for c in (*before, *after) if c.cell_type == "code"):
        calls = _calls(cell)
        asked = {
            "the start cell": bool(START.search(cell.source)), "imports": _imports(cell),
            "a check": "check" in tags(cell), "claims": "claims" in tags(cell),
            "a printed text": bool(TOLD & set(calls)),
        }  # fmt: skip
        kind = next((kind for kind, is_so in asked.items() if is_so), "")
        if kind and not hidden(cell):
            yield f"{kind} with an open input: {cell.source.splitlines()[0]!r}"
        if "parameters" in tags(cell) and hidden(cell):
            yield "the parameters are collapsed"
    yield from (
        "an exercise is collapsed" for c in exercises if "exercise" in tags(c) and hidden(c)
    )


def size(notebook, stem: str) -> Iterator[str]:
    """At most 40 visible cells outside the exercises, 25 lines in a visible code cell."""
    before, _, after = parts(notebook)
    visible = [cell for cell in (*before, *after) if not hidden(cell)]
    if len(visible) > MOST_CELLS:
        yield f"{len(visible)} visible cells outside the exercises, {MOST_CELLS} are enough"
    for place, cell in numbered(notebook, "code"):
        lines = len(cell.source.splitlines())
        if lines > MOST_LINES and not hidden(cell):
            yield f"{place} has {lines} visible lines, {MOST_LINES} are enough"


def code(notebook, stem: str) -> Iterator[str]:
    """Lines that can be read: not too long, formatted, no lambda with a name."""
    for place, cell in numbered(notebook, "code"):
        if long := [line for line in cell.source.splitlines() if len(line) > MOST_COLUMNS]:
            yield f"{place}: a line of {len(long[0])} characters, {MOST_COLUMNS} are enough"
        if re.search(r"#\s*fmt:", cell.source):
            yield f"{place}: a remark to the formatter"
        for node in ast.walk(_tree(cell)):
            named = isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr)
            if named and isinstance(node.value, ast.Lambda):
                yield f"{place}: a lambda with a name; write def"


def tables(notebook, stem: str) -> Iterator[str]:
    """An open table has at most 8 rows and 5 columns, and no column twice; a folded one any."""
    for place, cell in numbered(notebook, "markdown"):
        yield from (f"{place}: {wrong}" for wrong in _markdown_tables(cell.source))
    for place, output in outputs(notebook):
        data = output.get("data", {})
        wrong = [*_html_tables(data.get("text/html", "")),
                 *_markdown_tables(data.get("text/markdown", ""))]  # fmt: skip
        yield from (f"{place}: {words}" for words in wrong)


def numbers_apart_from_the_promise(source: str) -> str:
    """A Markdown cell without the paragraph that quotes the paper's number with its table."""
    paragraphs = re.split(r"\n[> ]*\n", source)
    table = r"\b(?:Table|Tab\.|Figure|Fig\.)\s[\dIVX]"
    quoted = [p for p in paragraphs if "The paper's promise" in p and re.search(table, p)]
    return "\n\n".join(p for p in paragraphs if p not in quoted)


RULES = (anatomy, first_screen, claims, collapsed, size, code, tables)


def defined_twice(notebooks: dict) -> Iterator[str]:
    """A function that two notebooks define, outside their exercises: it belongs to the library."""
    where = {}
    for stem, notebook in notebooks.items():
        before, _, after = parts(notebook)
        cells = [cell for cell in (*before, *after) if cell.cell_type == "code"]
        for name in {n.name for cell in cells for n in _tree(cell).body
                     if isinstance(n, ast.FunctionDef)}:  # fmt: skip
            where.setdefault(name, []).append(stem)
    for name, stems in sorted(where.items()):
        if len(stems) > 1:
            yield f"{name} is defined in {' and '.join(stems)}"


# ------------------------------------------------------------------------------------- reading


def _first_cells(notebook) -> Iterator:
    """What stands before 'You will be able to'; the Markdown above it in its cell, too."""
    for cell in notebook.cells:
        above, goals, _ = cell.source.partition("You will be able to")
        if goals and cell.cell_type == "markdown":
            yield type(cell)({**cell, "source": above.rstrip("*# \n")})
            return
        yield cell


def _tree(cell) -> ast.Module:
    """The cell's code; nothing, where it is none that Python reads."""
    try:
        return ast.parse(cell.source if cell.cell_type == "code" else "")
    except SyntaxError:
        return ast.Module([], [])


def _calls(cell) -> list[str]:
    """The names of what a cell calls, without what stands before the dot, from top to bottom."""
    calls = [node.func for node in ast.walk(_tree(cell)) if isinstance(node, ast.Call)]
    calls.sort(key=lambda func: (func.lineno, func.col_offset))
    return [getattr(func, "attr", getattr(func, "id", "")) for func in calls]


def _imports(cell) -> bool:
    return any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(_tree(cell)))


def _html_tables(text: str) -> Iterator[str]:
    for table in BeautifulSoup(text, "html.parser")("table"):
        if table.find_parent("details") or "algorithm" in table.get("class", []):
            continue
        rows = [row for row in table("tr") if row.find("td")]
        heads = table.select("thead tr")
        names = [th.get_text() for row in heads for th in row("th") if th.get_text()]
        names = names if len(heads) == 1 else []  # two lines of heads may group columns
        yield from _too_large(len(rows), max((len(row("td")) for row in rows), default=0), names)


def _markdown_tables(text: str) -> Iterator[str]:
    """Tables in Markdown, without those in a fold. The first column heads its row."""
    text = re.sub(r"<details.*?</details>", "", text, flags=re.S)
    for table in re.findall(r"(?:^[> ]*\|.*\n?)+", text, flags=re.M):
        lines = [line.strip("> ").strip("|") for line in table.splitlines()]
        lines = [re.split(r"(?<!\\)\|", line) for line in lines]
        if len(lines) < 2 or not re.fullmatch(r"[-: ]+", "".join(lines[1])):
            continue
        names = [name.strip() for name in lines[0] if name.strip()]
        yield from _too_large(len(lines) - 2, len(lines[0]) - 1, names)


def _too_large(rows: int, columns: int, names: list[str]) -> Iterator[str]:
    if rows > MOST_ROWS or columns > MOST_FIELDS:
        yield (f"an open table of {rows} rows and {columns} columns, {MOST_ROWS} and "
               f"{MOST_FIELDS} are enough; fold it")  # fmt: skip
    if twice := sorted({name for name in names if names.count(name) > 1}):
        yield f"a table with the column {twice[0]!r} twice"
