"""A notebook's exercises as an nbgrader assignment: solutions cut out, checks that give points.

    python -m fedtutor assignment 03 --course my-course

writes `my-course/source/03/03_name.ipynb` and, once, `my-course/nbgrader_config.py`. Its source is
`notebooks/solutions/03_name.ipynb`: what stands before the exercises, then questions, answers and
checks; discussions of the answers are left out. Each `mark` of a check is worth one point, and a
check that is right in part earns its part.
"""

import ast
from pathlib import Path

from ..engine.files import shown, write_atomically
from ..errors import StorageError
from .exercises import BEGIN, END

SCHEMA = 3  # of nbgrader's metadata
CONFIG = """c = get_config()
c.CourseDirectory.course_id = {course!r}
c.ClearSolutions.code_stub = {{"python": "# your code here"}}
c.ExecutePreprocessor.timeout = 900  # seconds for a cell: some of them train
c.Execute.kernel_name = "python3"
"""
EARNED = """
### BEGIN HIDDEN TESTS
exercises.earned({points})
### END HIDDEN TESTS"""


def write(solutions: Path, course: Path) -> tuple[Path, int]:
    """Write the assignment of one solution notebook; return where it is, and all its points."""
    import nbformat

    notebook, points = assignment(nbformat.read(solutions, as_version=4), shown(solutions))
    target = Path(course) / "source" / solutions.stem.partition("_")[0] / solutions.name
    write_atomically(target, lambda name: nbformat.write(notebook, name))
    config = Path(course) / "nbgrader_config.py"
    if not config.exists():
        text = CONFIG.format(course=Path(course).resolve().name)
        write_atomically(config, lambda name: Path(name).write_text(text, encoding="utf-8"))
    return target, points


def assignment(solutions, where: str = "solutions") -> tuple:
    """(the notebook that nbgrader takes as source, all its points).

    solutions: a notebook with the tags of `exercises`. Raises `StorageError` where it has no check.
    """
    from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

    cells, everything, begun = [], 0, False
    for cell in solutions.cells:
        tags = set(cell.metadata.get("tags", []))
        begun = begun or "exercise" in tags
        given = "exercise" in tags or (not begun and cell.cell_type == "code")
        name = f"cell-{len(cells):02d}"
        if cell.cell_type == "markdown":
            if given:
                cells.append(new_markdown_cell(cell.source, id=name))
        elif "check" in tags:
            points = _marks(cell.source)
            everything += points
            source = cell.source + EARNED.format(points=points) if points else cell.source
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


def _about(name: str, *, points: int = 0, answer: bool = False) -> dict:
    """Metadata of a cell: to be written, to be marked, or given and locked."""
    about = {"schema_version": SCHEMA, "grade_id": name, "task": False, "solution": answer,
             "grade": points > 0, "locked": not answer}  # fmt: skip
    return {"nbgrader": {**about, "points": points} if points else about}


def _bracketed(source: str) -> str:
    """The source with nbgrader's marks around what students write.

    The stub stands above the marks, because nbgrader has one for all places and ours differ ("...",
    "most = ..."): it runs, and is answered below.
    """
    lines = []
    for line in source.splitlines():
        text = line.strip()
        indent = line[: len(line) - len(line.lstrip())]
        if text == BEGIN or text.startswith(f"{BEGIN}: "):
            stub = text.removeprefix(BEGIN).removeprefix(": ") or "..."
            lines.append(indent + stub)
            lines.append(f"{indent}### BEGIN SOLUTION")
        elif text == END:
            lines.append(f"{indent}### END SOLUTION")
        else:
            lines.append(line)
    return "\n".join(lines)


def _marks(source: str) -> int:
    """How many calls of `mark` stand in a check; one in a loop counts once."""
    calls = [node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return sum(isinstance(call, ast.Attribute) and call.attr == "mark" for call in calls)
