"""Assignments for nbgrader: nothing is given away, right answers earn points, stubs none."""

import importlib.util
import io
import re
import subprocess
import sys
from contextlib import redirect_stdout

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from fedtutor.engine.files import ROOT
from fedtutor.errors import SettingError, StorageError
from fedtutor.notebook import exercises
from tools import assignments

SOLUTIONS = sorted((ROOT / "notebooks" / "solutions").glob("[0-9]*.ipynb"))


def cell(kind: str, source: str, *tags: str):
    new = new_markdown_cell if kind == "markdown" else new_code_cell
    return new(source, metadata={"tags": list(tags)})


def small():
    one, two = (exercises.code(name, answer) for name, answer in (("1 · sum", 5), ("2 · most", 7)))
    return new_notebook(cells=[
        cell("markdown", "The source of the exercises."),
        cell("code", "given = 2", "parameters"),
        cell("markdown", "## Exercises", "exercise"),
        cell("code", "from fedtutor.notebook import exercises", "exercise"),
        cell("code", 'def add(x):\n    # solution\n    return x + 3\n    # end', "solution"),
        cell("code", f'exercises.mark("1 · sum", add(given), "{one}")', "check"),
        cell("markdown", "It is five.", "solution"),
        cell("code", "print('what only the solution shows')"),
        cell("code", "# solution: most = ...  # a number\nmost = 7\n# end", "solution"),
        cell("code", f'exercises.mark("2 · most", most, "{two}")\n'
                     f'exercises.mark("2 · again", most, "00000000")', "check"),
    ])  # fmt: skip


def points(notebook) -> list:
    """What the checks of a notebook earn when it is run from start to end."""
    exercises.earned(0)  # a kernel of its own would begin with nothing said
    space, found = {}, []
    for block in notebook.cells:
        if block.cell_type != "code":
            continue
        *body, last = block.source.rstrip().splitlines()
        graded = block.metadata.get("nbgrader", {}).get("grade")
        lines = [line for line in [*body, last] if not line.startswith("###")]
        with redirect_stdout(io.StringIO()):
            if graded:
                exec("\n".join(lines[:-1]), space)
                found.append(eval(lines[-1], space))
            else:
                exec("\n".join(lines), space)
    return found


def released(notebook):
    """As nbgrader hands it out: solutions replaced by the stub, hidden tests kept for `points`."""
    for block in notebook.cells:
        lines, inside = [], False
        for line in block.source.splitlines():
            if line.strip() == "### BEGIN SOLUTION":
                lines.append(line.replace("### BEGIN SOLUTION", "# your code here"))
            inside = inside or line.strip() == "### BEGIN SOLUTION"
            if not inside:
                lines.append(line)
            inside = inside and line.strip() != "### END SOLUTION"
        block.source = "\n".join(lines)
    return notebook


def test_right_answers_earn_their_points_and_stubs_none():
    made, everything = assignments.assignment(small())
    assert everything == 3
    assert points(made) == [1.0, 1.0]  # "2 · again" has another answer: half of two points
    stub = released(assignments.assignment(small())[0])
    assert points(stub) == [0.0, 0.0]
    assert any("most = ...  # a number" in block.source for block in stub.cells)


def test_what_the_exercises_use_is_kept_and_nothing_else():
    made = small()
    made.cells[7:7] = [
        cell("code", "base = given + 1"),
        cell("code", "table = {'six': base + 3}\nhidden = add(9)"),
        cell("markdown", "### Exercise 2", "exercise"),
        cell("code", "print(table)", "exercise"),
    ]
    text = "\n".join(block.source for block in assignments.assignment(made)[0].cells)
    assert "base = given + 1" in text and "table = {" in text and "given = 2" in text
    assert "only the solution" not in text


def test_what_nbgrader_is_told():
    made, _ = assignments.assignment(small())
    about = [block.metadata.get("nbgrader") for block in made.cells if block.cell_type == "code"]
    assert [(a["solution"], a["grade"], a["locked"], a.get("points")) for a in about] == [
        (False, False, True, None), (False, False, True, None), (True, False, False, None),
        (False, True, True, 1), (True, False, False, None), (False, True, True, 2),
    ]  # fmt: skip
    assert len({a["grade_id"] for a in about}) == len(about)
    text = "\n".join(block.source for block in made.cells)
    assert "It is five" not in text and "only the solution" not in text


def test_without_a_check_there_is_one_clear_error():
    empty = new_notebook(cells=[cell("markdown", "## Exercises", "exercise")])
    with pytest.raises(StorageError, match="nothing to mark"):
        assignments.assignment(empty)


def test_points_count_since_the_last_time(capsys):
    exercises.earned(1)
    assert exercises.earned(2) == 0
    exercises.mark("a", 1, exercises.code("a", 1))
    exercises.mark("b", 2, exercises.code("b", 1))
    exercises.mark("c", ..., exercises.code("c", 1))
    assert exercises.earned(3) == 1.0 and exercises.earned(3) == 0


def test_a_check_that_ends_with_an_error_gives_the_next_one_nothing():
    exercises.mark("1 · sum", 1, exercises.code("1 · sum", 1))  # and then an error
    made, _ = assignments.assignment(small())
    last = [block.source for block in made.cells if "earned" in block.source][-1]
    lines = [line for line in last.splitlines() if not line.startswith("###")]
    space = {"exercises": exercises, "most": ...}
    with redirect_stdout(io.StringIO()):
        exec("\n".join(lines[:-1]), space)
    assert eval(lines[-1], space) == 0


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
def test_every_notebook_makes_an_assignment(path, tmp_path):
    target, everything = assignments.write(path, tmp_path)
    made = nbformat.read(target, as_version=4)
    assert everything >= 2 and target.parent.name == path.stem.partition("_")[0]
    answers = [b for b in made.cells if b.metadata.get("nbgrader", {}).get("solution")]
    assert answers and all("### BEGIN SOLUTION" in block.source for block in answers)
    for block in released(made).cells:
        if block.cell_type == "code":
            compile(block.source, path.stem, "exec")
    assert (tmp_path / "nbgrader_config.py").exists()


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
def test_some_of_the_exercises_stand_alone(path, tmp_path):
    whole = nbformat.read(path, as_version=4)
    _, everything = assignments.assignment(whole)
    numbers = [int(n) for block in whole.cells
               for n in re.findall(r"^### Exercise (\d+)", block.source)]  # fmt: skip
    earned = []
    for number in numbers:
        made, points = assignments.assignment(whole, exercises=[number])
        text = "\n".join(block.source for block in made.cells)
        assert re.findall(r"^### Exercise (\d+)", text, re.M) == [str(number)]
        code = "\n".join(block.source for block in released(made).cells
                         if block.cell_type == "code")  # fmt: skip
        (tmp_path / f"alone_{number}.py").write_text(code, encoding="utf-8")
        earned.append(points)
    assert sum(earned) == everything
    lines = ["ruff", "check", "--isolated", "--select", "F821", "--quiet", str(tmp_path)]
    found = subprocess.run([sys.executable, "-m", *lines], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout  # every name is defined


def test_an_exercise_that_is_not_there_is_refused():
    made = small()
    made.cells.insert(4, cell("markdown", "### Exercise 1 · recall · 2 minutes: Sum", "exercise"))
    assert assignments.assignment(made, exercises=[1])[1] == 3
    with pytest.raises(SettingError, match="exercise '9'"):
        assignments.assignment(made, exercises=[9])


@pytest.mark.skipif(importlib.util.find_spec("nbgrader") is None, reason="needs nbgrader")
def test_nbgrader_hands_it_out_and_marks_it(tmp_path, monkeypatch):
    from nbgrader.api import Gradebook
    from nbgrader.apps import NbGraderAPI
    from traitlets.config import Config

    made, everything = assignments.assignment(small())
    source = tmp_path / "source" / "00" / "00_small.ipynb"
    source.parent.mkdir(parents=True)
    nbformat.write(made, source)
    config = Config()
    config.CourseDirectory.root = str(tmp_path)
    api = NbGraderAPI(config=config)
    assert api.generate_assignment("00")["success"]
    handed_out = tmp_path / "release" / "00" / "00_small.ipynb"
    assert "x + 3" not in handed_out.read_text() and "earned" not in handed_out.read_text()
    for student, text in (("right", source.read_text()), ("stub", handed_out.read_text())):
        submitted = tmp_path / "submitted" / student / "00" / "00_small.ipynb"
        submitted.parent.mkdir(parents=True)
        submitted.write_text(text)
        assert api.autograde("00", student)["success"]
    with Gradebook(f"sqlite:///{tmp_path}/gradebook.db") as book:
        scores = {s.student.id: s.score for s in book.assignment_submissions("00")}
    assert scores == {"right": everything - 1, "stub": 0}
