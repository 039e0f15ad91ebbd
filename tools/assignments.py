"""A notebook's exercises as an nbgrader assignment: solutions cut out, checks that give points.

    python -m tools.course assignment 03 --course my-course
    python -m tools.course assignment 03 --exercises 1 3      # these of its exercises alone

writes `my-course/source/03/03_name.ipynb` and, once, `my-course/nbgrader_config.py`. Its source is
`notebooks/solutions/03_name.ipynb`: questions, answers, checks, and cells that define their names;
discussions of the answers are left out. Each call of `mark` or `mark_each` in a check is worth one
point, and a check that is right in part earns its part.
"""

import ast
import re
from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path

from fedtutor.engine.files import shown, write_atomically
from fedtutor.errors import StorageError, choose

from .exercises import BEGIN, END

SCHEMA = 3  # of nbgrader's metadata
CONFIG = """c = get_config()
c.CourseDirectory.course_id = {course!r}
c.ClearSolutions.code_stub = {{"python": "# your code here"}}
c.ExecutePreprocessor.timeout = 900  # seconds for a cell: some of them train
c.Execute.kernel_name = "python3"
"""
MARKED = """\
### BEGIN HIDDEN TESTS
from fedtutor.notebook import exercises

exercises.earned(0)
### END HIDDEN TESTS
{source}
### BEGIN HIDDEN TESTS
exercises.earned({points})
### END HIDDEN TESTS"""


def write(solutions: Path, course: Path, exercises: Sequence[int] = ()) -> tuple[Path, int]:
    """Write the assignment of one solution notebook; return where it is, and all its points."""
    import nbformat

    given = nbformat.read(solutions, as_version=4)
    notebook, points = assignment(given, shown(solutions), exercises=exercises)
    target = Path(course) / "source" / solutions.stem.partition("_")[0] / solutions.name
    write_atomically(target, lambda name: nbformat.write(notebook, name))
    config = Path(course) / "nbgrader_config.py"
    if not config.exists():
        text = CONFIG.format(course=Path(course).resolve().name)
        write_atomically(config, lambda name: Path(name).write_text(text, encoding="utf-8"))
    return target, points


def assignment(solutions, where: str = "solutions", *, exercises: Sequence[int] = ()) -> tuple:
    """(the notebook that nbgrader takes as source, all its points).

    solutions: a notebook with the tags of `exercises`. `exercises`: those with these numbers alone;
    of the others stays, as given code, what these need. Raises `StorageError` where it has no
    check, and `SettingError` for an exercise that it does not have.
    """
    from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

    cells, everything = [], 0
    asked = _chosen(solutions.cells, exercises, where) if exercises else solutions.cells
    needed = _needed(asked)
    for place, cell in enumerate(asked):
        tags = set(cell.metadata.get("tags", []))
        given = "exercise" in tags or place in needed
        name = f"cell-{len(cells):02d}"
        if cell.cell_type == "markdown":
            if given:
                cells.append(new_markdown_cell(cell.source, id=name))
        elif "check" in tags:
            points = _marks(cell.source)
            everything += points
            source = MARKED.format(source=cell.source, points=points) if points else cell.source
            cells.append(new_code_cell(source, id=name, metadata=_about(name, points=points)))
        elif "solution" in tags:
            source = _bracketed(cell.source)
            cells.append(new_code_cell(source, id=name, metadata=_about(name, answer=True)))
        elif given:
            cells.append(new_code_cell(cell.source, id=name, metadata=_about(name)))
    if not everything:
        raise StorageError("there is nothing to mark", where=where, do="tag a check 'check'")
    metadata = {key: solutions.metadata[key] for key in ("kernelspec", "language_info")
                if key in solutions.metadata}  # fmt: skip
    return new_notebook(cells=cells, metadata=metadata), everything


def _chosen(cells, exercises: Sequence[int], where: str) -> list:
    """The cells; those of exercises that are not asked for have lost their tags."""
    found, now, numbers = [], 0, set()
    for cell in deepcopy(list(cells)):
        if heading := re.match(r"### Exercise (\d+)", cell.source):
            now = int(heading[1])
            numbers.add(str(now))
        if now and now not in exercises:
            cell.metadata["tags"] = []
        if cell.source.startswith("## Exercises"):
            cell.source = (
                "## Exercises\n\nWrite where it says *your code here*, then run the check."
            )
        found.append(cell)
    for number in exercises:
        choose(str(number), sorted(numbers), kind="exercise", where=where)
    return found


def _needed(cells) -> set[int]:
    """Places of the untagged code cells whose names a cell of the assignment uses later.

    In the students' notebook the lesson above the exercises defines these names.
    """
    kept = {i for i, cell in enumerate(cells) if cell.cell_type == "code"
            and {"exercise", "solution", "check"} & set(cell.metadata.get("tags", []))}  # fmt: skip
    loose = {i: _names(cell.source)[0] for i, cell in enumerate(cells)
             if cell.cell_type == "code" and i not in kept}  # fmt: skip
    needed, open_ = set(), sorted(kept)
    while open_:
        place = open_.pop()
        own, used = _names(cells[place].source)
        for name in used - own:
            above = {i for i in kept if i < place and name in _names(cells[i].source)[0]}
            homes = [i for i, names in loose.items() if i < place and name in names]
            if homes and not above and homes[-1] not in needed:
                needed.add(homes[-1])
                open_.append(homes[-1])
    parameters = {
        i for i, cell in enumerate(cells) if "parameters" in cell.metadata.get("tags", [])
    }
    return needed | parameters if needed else needed  # `start(globals())` reads them


@cache
def _names(source: str) -> tuple[set[str], set[str]]:
    """(names that a cell defines, names that it reads)."""
    own, used = set(), set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else own).add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            own.add(node.name)
        elif isinstance(node, ast.arg):
            own.add(node.arg)
        elif isinstance(node, ast.alias):
            own.add((node.asname or node.name).partition(".")[0])
    return own, used


def _about(name: str, *, points: int = 0, answer: bool = False) -> dict:
    """Metadata of a cell: to be written, to be marked, or given and locked."""
    about = {"schema_version": SCHEMA, "grade_id": name, "task": False, "solution": answer,
             "grade": points > 0, "locked": not answer}  # fmt: skip
    return {"nbgrader": {**about, "points": points} if points else about}


def _bracketed(source: str) -> str:
    """The source with nbgrader's marks around what students write.

    The stub stands above the marks, because nbgrader has one for all places and ours differ ("...",
    "most = ..."): it runs, and is answered below. So one that would raise is "..." here.
    """
    lines = []
    for line in source.splitlines():
        text = line.strip()
        indent = line[: len(line) - len(line.lstrip())]
        if text == BEGIN or text.startswith(f"{BEGIN}: "):
            stub = text.removeprefix(BEGIN).removeprefix(": ")
            stub = "..." if stub.startswith("raise") else stub or "..."
            lines.append(indent + stub)
            lines.append(f"{indent}### BEGIN SOLUTION")
        elif text == END:
            lines.append(f"{indent}### END SOLUTION")
        else:
            lines.append(line)
    return "\n".join(lines)


def _marks(source: str) -> int:
    """How many calls of `mark` and `mark_each` stand in a check."""
    calls = [node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    names = ("mark", "mark_each")
    return sum(isinstance(call, ast.Attribute) and call.attr in names for call in calls)
