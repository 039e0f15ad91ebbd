"""Exercises: solutions are the source, the students' stubs are made from them, answers are marked.

`notebooks/solutions/NN_name.ipynb` solves the exercises of `notebooks/NN_name.ipynb`. The tags of
its cells say what becomes of them there:

- `exercise`: copied as it is. A question in Markdown with its hint, or code that is given.
- `solution`, code: copied without the lines from `# solution` to `# end`. These become
  `...  # your code here`, or, where the first of them says `# solution: TEXT`, that TEXT.
- `solution`, Markdown: a discussion of the answer; left out.
- `check`: copied. It marks the answer (`mark`) and does not contain it.
- every other cell is what the solutions need to run; left out.

The first `exercise` cell opens with the heading `## Exercises`.

    python -m fedtutor exercises        make all stubs again (`generate`)
    python -m fedtutor assignment 03    the exercises for nbgrader (assignments.py)
    exercises.code("2 · worst", 0.6)    the code that a check cell needs for this answer
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path

from ..engine.files import numbered, shown, write_atomically
from ..errors import SettingError, StorageError

EXERCISES, SUMMARY = "## Exercises", "## Summary"
BEGIN, END, STUB = "# solution", "# end", "...  # your code here"
RIGHT, WRONG, OPEN = "right", "not yet", "not answered yet"
_said: list[str] = []  # by `mark`, since the last `earned`


def mark(name: str, answer, code: str, *, of: Callable | None = None) -> None:
    """Print one line: *right*, *not yet*, or *not answered yet* for an untouched stub.

    Compares the hash of `answer`, or of `of(answer)`, with `code`, so that the cell does not show
    the solution. Numbers count to five significant digits, texts without regard to case and outer
    spaces; tensors, arrays, lists and tuples entry by entry.
    """
    said = WRONG
    if not _answered(answer):
        said = OPEN
    else:
        with suppress(Exception):  # an answer of another kind is a wrong answer
            said = RIGHT if _hash(name, of(answer) if of else answer) == code else WRONG
    _said.append(said)
    print(f"{name:<32} {said}")


def mark_each(name: str, answers: Mapping, codes: Mapping[str, str]) -> None:
    """`mark` one answer per entry of `codes`; an entry that `answers` lacks is *not answered yet*.

    name: with {} where the key stands, as "1 · does {} change it".
    """
    given = answers if isinstance(answers, Mapping) else {}
    for key, code in codes.items():
        mark(name.format(key), given.get(key, ...), code)


def earned(points: float) -> float:
    """Of `points`, the share that was right in all calls of `mark` since the last `earned`.

    The last line of a check in an nbgrader assignment; 0 where nothing was marked. It is the first
    line, too, because an earlier check may have ended with an error.
    """
    share = _said.count(RIGHT) / len(_said) if _said else 0.0
    _said.clear()
    return round(points * share, 2)


def code(name: str, answer) -> str:
    """The eight hex digits by which `mark` knows the right answer of exercise `name`.

    Raises `SettingError` for an answer that is missing or of a kind that cannot be compared.
    """
    try:
        if _answered(answer):
            return _hash(name, answer)
    except TypeError:
        pass
    raise SettingError(
        f"{answer!r} cannot be marked", where=f"exercise {name!r}",
        do="give a number, a text, True or False, a tensor, or a list of them",
    )  # fmt: skip


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


def _answered(answer) -> bool:
    """Whether anything stands where `...` stood."""
    if isinstance(answer, dict):
        answer = list(answer.values())
    if isinstance(answer, (list, tuple)) and answer:
        return any(_answered(part) for part in answer)
    return answer is not ... and answer is not None


def _hash(name: str, answer) -> str:
    return hashlib.sha256(f"fedtutor exercise {name}: {_text(answer)}".encode()).hexdigest()[:8]


def _text(answer) -> str:
    if hasattr(answer, "tolist"):  # tensors, arrays and their numbers
        answer = answer.tolist()
    if isinstance(answer, (list, tuple)):
        return f"[{', '.join(map(_text, answer))}]"
    if isinstance(answer, bool):
        return str(answer)
    if isinstance(answer, (int, float)):
        return f"{answer + 0.0:.5g}"  # + 0.0 makes zero of minus zero
    if isinstance(answer, str):
        return answer.strip().lower()
    raise TypeError(type(answer).__name__)
