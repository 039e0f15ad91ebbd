"""Exercises: solutions are the source, the students' stubs are made from them.

`notebooks/solutions/NN_name.ipynb` solves the exercises of `notebooks/NN_name.ipynb`. The tags of
its cells say what becomes of them there:

- `exercise`: copied as it is. A question in Markdown with its hint, or code that is given.
- `solution`, code: copied without the lines from `# solution` to `# end`. These become
  `...  # your code here`, or, where the first of them says `# solution: TEXT`, that TEXT.
- `solution`, Markdown: a discussion of the answer; left out.
- `check`: copied. It marks the answer (`mark`) and does not contain it.
- every other cell is what the solutions need to run; left out.

The first `exercise` cell opens with the heading `## Exercises`.
"""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from fedtutor.engine.files import numbered, shown, write_atomically
from fedtutor.errors import StorageError

EXERCISES, SUMMARY = "## Exercises", "## Summary"
BEGIN, END, STUB = "# solution", "# end", "...  # your code here"


def stubs(solutions, *, where: str = "solutions") -> list:
    """The cells that a solution notebook makes for the students' notebook.

    Raises `StorageError` where a cell would give its solution away or would not run.
    """
    from nbformat.v4 import new_code_cell, new_markdown_cell

    cells = []
    for number, cell in enumerate(solutions.cells):
        tags = set(cell.metadata.get("tags", []))
        if not tags & {"exercise", "solution", "check"}:
            continue
        source = cell.source
        if "solution" in tags:
            if cell.cell_type == "markdown":
                continue
            source = _cut(source, where=f"{where}, cell {number}")
            tags = tags - {"solution"} | {"exercise"}
        new = new_code_cell if cell.cell_type == "code" else new_markdown_cell
        about = {"tags": sorted(tags)}
        if hidden := cell.metadata.get("jupyter"):  # a collapsed input stays collapsed
            about["jupyter"] = hidden
        cells.append(new(source, id=f"exercise-{len(cells):02d}", metadata=about))
    if not cells or cells[0].source.splitlines()[:1] != [EXERCISES]:
        raise StorageError(
            "the exercises have no beginning", where=where,
            do=f"tag a Markdown cell 'exercise', before all others, and begin it with {EXERCISES}",
        )  # fmt: skip
    return cells


def insert(notebook, cells: Sequence, *, where: str = "notebook") -> bool:
    """Put `cells` where the exercises stand in `notebook`, in place; return whether it changed.

    They replace everything from the heading `## Exercises` to the next heading of that level; a
    notebook without it gets them before `## Summary`. A code cell that stays as it was keeps its
    outputs. Raises `StorageError` where the notebook has neither heading.
    """
    before, old, after = parts(notebook, where=where)
    if _content(old) == _content(cells):
        return False
    ran = {cell.source: cell for cell in old if cell.cell_type == "code"}
    for cell in cells:
        if cell.cell_type == "code" and cell.source in ran:
            cell.outputs = ran[cell.source].outputs
            cell.execution_count = ran[cell.source].execution_count
    notebook.cells = [*before, *cells, *after]
    return True


def generate(folder: Path, only: Sequence[str] = ()) -> list[Path]:
    """Make the stubs of the notebooks in `folder` again and return the notebooks that changed.

    `only` chooses some by number ("00") or name. New code cells have no outputs until the
    notebook is run. Raises `FedtutorError`s for an unknown choice and for damaged notebooks.
    """
    import nbformat

    changed = []
    for path in numbered(Path(folder) / "solutions", only, kind="solutions for"):
        target = Path(folder) / path.name
        notebook = _read(target)
        cells = stubs(_read(path), where=shown(path))
        if insert(notebook, cells, where=shown(target)):
            write_atomically(target, lambda name, nb=notebook: nbformat.write(nb, name))
            changed.append(target)
    return changed


def parts(notebook, *, where: str = "notebook") -> tuple[list, list, list]:
    """The cells before, in and after the section `## Exercises`, which may be empty.

    A Markdown cell that reaches over a border is split there. Raises `StorageError` where there
    is neither that section nor a summary before which it would stand.
    """
    chunks = [(cell, text) for cell in notebook.cells for text in _sections(cell)]
    headings = [text.partition("\n")[0].strip() if cell.cell_type == "markdown"
                and text.startswith("## ") else None for cell, text in chunks]  # fmt: skip
    if EXERCISES in headings:
        first = headings.index(EXERCISES)
        last = next((i for i in range(first + 1, len(chunks)) if headings[i]), len(chunks))
    elif SUMMARY in headings:
        first = last = headings.index(SUMMARY)
    else:
        raise StorageError(
            "no place for the exercises", where=where,
            do=f"write the heading {EXERCISES!r} or {SUMMARY!r}",
        )  # fmt: skip
    return _join(chunks[:first]), _join(chunks[first:last]), _join(chunks[last:])


def _join(chunks: list[tuple]) -> list:
    """Whole cells again; a Markdown cell of which only a part is here becomes a cell of its own."""
    from nbformat.v4 import new_markdown_cell

    cells = []
    for _, group in groupby(chunks, key=lambda chunk: id(chunk[0])):
        (cell, *_), texts = zip(*group, strict=True)
        text = "".join(texts)
        whole = text == cell.source
        cells.append(cell if whole else new_markdown_cell(text.strip("\n"), metadata=cell.metadata))
    return cells


def _sections(cell) -> list[str]:
    """The source of a cell; of a Markdown cell, one text per heading of level 2."""
    texts, fenced = [""], False
    for line in cell.source.splitlines(keepends=True):
        fenced ^= line.lstrip().startswith("```")
        if cell.cell_type == "markdown" and line.startswith("## ") and not fenced and texts[-1]:
            texts.append("")
        texts[-1] += line
    return texts


def _cut(source: str, *, where: str) -> str:
    """`source` with a stub in place of every solution."""
    lines, inside, cuts = [], False, 0
    for line in source.splitlines():
        text = line.strip()
        if not inside and (text == BEGIN or text.startswith(f"{BEGIN}: ")):
            indent = line[: len(line) - len(line.lstrip())]
            lines.append(indent + (text.removeprefix(BEGIN).removeprefix(": ") or STUB))
            inside, cuts = True, cuts + 1
        elif inside:
            inside = text != END
        else:
            lines.append(line)
    stub = "\n".join(lines)
    try:
        compile(stub, "stub", "exec")
        what = "no end of the solution" if inside else "" if cuts else "nothing to solve"
    except SyntaxError as error:
        what = f"the stub is not Python ({error.msg})"
    if what:
        raise StorageError(
            what, where=where, do=f"write {BEGIN!r} above and {END!r} below what students write"
        )
    return stub


def _content(cells: Sequence) -> list[tuple]:
    return [(c.cell_type, c.source, sorted(c.metadata.get("tags", [])), c.metadata.get("jupyter"))
            for c in cells]  # fmt: skip


def _read(path: Path):
    import nbformat

    try:
        return nbformat.read(path, as_version=4)
    except FileNotFoundError:
        raise StorageError(
            f"{path.name} is not there", where=shown(path),
            do="give a solution notebook the name of its notebook",
        ) from None  # fmt: skip
    except (OSError, ValueError) as error:  # nbformat's NotJSONError is a ValueError
        raise StorageError(
            f"{path.name} is no notebook ({str(error)[:80]})", where=shown(path),
            do="restore it, for example with git checkout",
        ) from None  # fmt: skip
