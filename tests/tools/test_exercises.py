"""Exercises: stubs come from solutions and run, answers are marked, nothing drifts or leaks."""

import io
import re
import shutil
from contextlib import redirect_stdout
from itertools import pairwise

import nbformat
import numpy as np
import pytest
import torch
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from fedtutor.engine.files import ROOT
from fedtutor.errors import SettingError, StorageError
from fedtutor.notebook import exercises as marking
from tools import exercises

NOTEBOOKS = ROOT / "notebooks"
SOLUTIONS = sorted((NOTEBOOKS / "solutions").glob("[0-9][0-9]*.ipynb"))
TITLE = re.compile(r"### Exercise (\d) · .+")
every_solution = pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)


def md(source, *tags):
    return new_markdown_cell(source, metadata={"tags": list(tags)} if tags else {})


def py(source, *tags):
    return new_code_cell(source, metadata={"tags": list(tags)} if tags else {})


SOLVED = """def double(x):
    # solution
    return 2 * x
    # end


# solution: name = ...  # a text
name = "Ada"
# end"""
STUBBED = """def double(x):
    ...  # your code here


name = ...  # a text"""
CHECK = f"""mark("double", [double(2), double(3)], "{marking.code("double", [4, 6])}")
mark("name", name, "{marking.code("name", "ada")}")"""


def solutions():
    cells = [
        md("# 00 · Solutions"), py("profile = 'quick'", "parameters"),
        md("## Exercises\n\nTwo of them.", "exercise"),
        py("from fedtutor.notebook.exercises import mark", "exercise"), py(SOLVED, "solution"),
        py(CHECK, "check"), md("Twice two is four.", "solution"), py("double(21)"),
    ]  # fmt: skip
    return new_notebook(cells=cells)


def students(*cells):
    return new_notebook(cells=[md("# 00 · Title\n\n## One\n\nText."), py("x = 1"), *cells])


def written(folder, *, student=None, solution=None):
    (folder / "solutions").mkdir()
    nbformat.write(student or students(md("## Summary")), folder / "00_a.ipynb")
    nbformat.write(solution or solutions(), folder / "solutions" / "00_a.ipynb")
    return folder


def sources(cells):
    return [cell.source for cell in cells]


def printed(*cells) -> list[str]:
    out, names = io.StringIO(), {}
    with redirect_stdout(out):
        for cell in cells:
            exec(cell.source, names)
    return [line[33:] for line in out.getvalue().splitlines()]


# ------------------------------------------------------------------------------------- stubs


def test_a_stub_keeps_questions_and_checks_and_loses_the_solution():
    cells = exercises.stubs(solutions())
    assert sources(cells) == [
        "## Exercises\n\nTwo of them.",
        "from fedtutor.notebook.exercises import mark",
        STUBBED,
        CHECK
    ]  # fmt: skip
    assert [cell.metadata.tags for cell in cells] == [["exercise"]] * 3 + [["check"]]


def test_a_collapsed_check_is_collapsed_for_the_students_too():
    solved = solutions()
    solved.cells[5].metadata["jupyter"] = {"source_hidden": True}
    cells = exercises.stubs(solved)
    assert [cell.metadata.get("jupyter") for cell in cells] == [None] * 3 + [
        {"source_hidden": True}
    ]
    assert exercises.insert(students(*exercises.stubs(solutions()), md("## Summary")), cells)


def test_an_untouched_stub_runs_and_a_solution_is_right():
    code = [cell for cell in exercises.stubs(solutions()) if cell.cell_type == "code"]
    assert printed(*code) == ["not answered yet", "not answered yet"]
    assert printed(*(c for c in solutions().cells[3:6])) == ["right", "right"]
    wrong = py(SOLVED.replace("2 * x", "x * x").replace("Ada", "Ben"))
    assert printed(code[0], wrong, code[2]) == ["not yet", "not yet"]


@pytest.mark.parametrize(
    "source, said",
    [
        ("x = 1", "nothing to solve"),
        ("# solution\nx = 1", "no end of the solution"),
        ("if x:\n    y = 1\n# solution: else\nelse:\n    y = 2\n# end", "not Python"),
    ],
)
def test_a_solution_that_would_leak_or_break_is_refused(source, said):
    broken = solutions()
    broken.cells[4].source = source
    with pytest.raises(StorageError, match=said):
        exercises.stubs(broken)


def test_exercises_need_their_heading_first():
    broken = solutions()
    broken.cells[2].source = "Two of them.\n\n## Exercises"
    with pytest.raises(StorageError, match="no beginning"):
        exercises.stubs(broken)


# ------------------------------------------------------------------------------------- insert


def test_exercises_go_before_the_summary_even_inside_a_cell():
    notebook = students(md("Last words.\n\n## Summary\n\nAll.\n\n## Further reading\n\nMore."))
    assert exercises.insert(notebook, exercises.stubs(solutions()))
    assert sources(notebook.cells[2:3]) == ["Last words."]
    assert sources(notebook.cells[3:7]) == sources(exercises.stubs(solutions()))
    assert sources(notebook.cells[7:]) == ["## Summary\n\nAll.\n\n## Further reading\n\nMore."]
    nbformat.validate(notebook)


def test_old_exercises_are_replaced_up_to_the_next_heading_and_only_they():
    old = [md("Before.\n\n## Exercises\n\nOld."), py("old = 1"), md("```\n## no heading\n```")]
    notebook = students(*old, md("### Below\n\n## Reading\n\n## Summary"), py("y = 2"))
    exercises.insert(notebook, exercises.stubs(solutions()))
    assert sources(notebook.cells[2:3]) == ["Before."]
    assert sources(notebook.cells[3:7]) == sources(exercises.stubs(solutions()))
    assert sources(notebook.cells[7:]) == ["## Reading\n\n## Summary", "y = 2"]


def test_inserting_twice_changes_nothing_and_keeps_outputs():
    notebook = students(md("## Summary"))
    exercises.insert(notebook, exercises.stubs(solutions()))
    notebook.cells[5].outputs = [nbformat.v4.new_output("stream", text="ran")]
    before = nbformat.writes(notebook)
    assert not exercises.insert(notebook, exercises.stubs(solutions()))
    assert nbformat.writes(notebook) == before
    changed = solutions()
    changed.cells[2].source += " Now three."
    assert exercises.insert(notebook, exercises.stubs(changed))
    assert notebook.cells[5].outputs[0].text == "ran"


def test_twin_cells_stay_two():
    notebook = students(py("x = 1"), md("## Summary"))
    before, _, _ = exercises.parts(notebook)
    assert sources(before)[-2:] == ["x = 1", "x = 1"]


def test_a_notebook_without_a_place_is_refused():
    with pytest.raises(StorageError, match="no place"):
        exercises.insert(students(), exercises.stubs(solutions()))


# ----------------------------------------------------------------------------------- generate


def test_generate_writes_what_changed_and_then_nothing_differs(tmp_path):
    folder = written(tmp_path)
    assert exercises.generate(folder) == [folder / "00_a.ipynb"]
    assert exercises.generate(folder, ["00"]) == exercises.generate(folder, ["00_a"]) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda cells: cells[3].update(source=CHECK + "\n"),
        lambda cells: cells[2].metadata.update(tags=[]),
        lambda cells: cells[0].update(source="## Exercises\n\nFew."),
        lambda cells: cells.pop(1),
    ],
)
def test_every_difference_is_found(tmp_path, change):
    cells = exercises.stubs(solutions())
    change(cells)
    folder = written(tmp_path, student=students(*cells, md("## Summary")))
    assert exercises.generate(folder) == [folder / "00_a.ipynb"]
    assert exercises.generate(folder) == []


def test_a_solution_without_a_notebook_is_found(tmp_path):
    student = students(*exercises.stubs(solutions()), md("## Summary"))
    folder = written(tmp_path, student=student)
    (folder / "solutions" / "00_a.ipynb").rename(folder / "solutions" / "01_b.ipynb")
    with pytest.raises(StorageError, match=r"01_b\.ipynb is not there"):
        exercises.generate(folder)


def test_bad_choices_and_damaged_notebooks_are_one_clear_error(tmp_path):
    folder = written(tmp_path)
    with pytest.raises(SettingError, match="no solutions for '07'"):
        exercises.generate(folder, ["07"])
    (folder / "00_a.ipynb").write_text('{"cells": [')
    with pytest.raises(StorageError, match=r"00_a\.ipynb is no notebook"):
        exercises.generate(folder)


# -------------------------------------------------------------------------------------- marks


@pytest.mark.parametrize(
    "right, same, wrong",
    [
        ("b", " B ", "c"),
        (0.6, torch.tensor(0.6), 0.601),
        ([0.9, 1.0], (0.9000001, 1), [1.0, 0.9]),
        (0, -0.0, 1),
        (True, True, 1),
        ([[1, 2]], np.array([[1.0, 2.0]]), [[1], [2]]),
        (3, 3.0, "3 points"),
    ],
)
def test_marks(capsys, right, same, wrong):
    for answer in (right, same, wrong, {1}, object(), float("nan")):
        marking.mark("task", answer, marking.code("task", right))
    said = [line[33:] for line in capsys.readouterr().out.splitlines()]
    assert said == ["right", "right", "not yet", "not yet", "not yet", "not yet"]


def test_an_entry_that_is_left_out_is_not_answered(capsys):
    codes = {key: marking.code(f"does {key} hold", key == "a") for key in "abc"}
    marking.mark_each("does {} hold", {"a": True, "b": True, "z": True}, codes)
    marking.mark_each("does {} hold", None, codes)
    lines = capsys.readouterr().out.splitlines()
    said = [marking.RIGHT, marking.WRONG, marking.OPEN, *[marking.OPEN] * 3]
    assert lines == [
        f"{f'does {key} hold':<32} {word}" for key, word in zip("abc" * 2, said, strict=True)
    ]


@pytest.mark.parametrize("answer", [..., None, [None, None], [...], {"a": ..., "b": None}])
def test_an_untouched_answer_is_neutral(capsys, answer):
    marking.mark("task", answer, "00000000", of=lambda a: 1 / 0)
    assert capsys.readouterr().out == f"{'task':<32} not answered yet\n"


def test_a_half_answer_is_not_yet_right(capsys):
    marking.mark("task", [0.5, ...], marking.code("task", [0.5, 0.5]))
    marking.mark("task", {"a": 1, "b": ...}, marking.code("task", "a"), of=lambda a: a["b"] > 1)
    assert capsys.readouterr().out.count("not yet") == 2


def test_the_same_answer_has_another_code_in_another_exercise():
    assert marking.code("1", "b") != marking.code("2", "b")


@pytest.mark.parametrize("answer", [..., None, {1, 2}, print, [1, None]])
def test_no_code_for_an_answer_that_cannot_be_marked(answer):
    with pytest.raises(SettingError, match="cannot be marked"):
        marking.code("task", answer)


# --------------------------------------------------------------------- the committed notebooks


def test_notebooks_and_solutions_agree(tmp_path):
    copy = shutil.copytree(NOTEBOOKS, tmp_path / "notebooks")
    changed = [path.stem for path in exercises.generate(copy)]
    assert not changed, "run: python -m tools.course exercises, then tools.refresh"
    for path in NOTEBOOKS.glob("[0-9][0-9]*.ipynb"):
        has = bool(exercises.parts(nbformat.read(path, as_version=4), where=path.name)[1])
        assert has == (NOTEBOOKS / "solutions" / path.name).is_file(), path.name


@every_solution
def test_every_solution_is_right(path):
    notebook = nbformat.read(path, as_version=4)
    said = marks(notebook.cells)
    assert said and set(said) == {marking.RIGHT}, said


@every_solution
def test_every_stub_is_neutral(path):
    _, cells, _ = exercises.parts(nbformat.read(NOTEBOOKS / path.name, as_version=4))
    said = marks(cells)
    assert said and set(said) == {marking.OPEN}, said


@every_solution
def test_form_of_the_exercises(path):
    assert faults(exercises.stubs(nbformat.read(path, as_version=4))) == []


def marks(cells) -> list[str]:
    """What the check cells printed, without the names."""
    outputs = [o for cell in cells if "check" in cell.metadata.get("tags", [])
               for o in cell.outputs]  # fmt: skip
    text = "".join(output.get("text", "") for output in outputs)
    words = (marking.RIGHT, marking.WRONG, marking.OPEN)
    return [line[33:] for line in text.splitlines() if line[33:] in words]


def faults(cells) -> list[str]:
    """What is missing: one to six exercises in their order, each with a stub and a check."""
    asked = [
        i for i, c in enumerate(cells) if c.cell_type == "markdown" and c.source.startswith("### ")
    ]
    found = [] if 1 <= len(asked) <= 6 else [f"{len(asked)} exercises"]
    for number, (i, end) in enumerate(pairwise([*asked, len(cells)]), start=1):
        title, code = TITLE.match(cells[i].source), cells[i + 1 : end]
        if not title or int(title[1]) != number:
            found.append(f"title of exercise {number}")
        if not any("..." in cell.source for cell in code):
            found.append(f"stub of exercise {number}")
        checks = [cell.source for cell in code if "check" in cell.metadata.tags]
        if not checks:
            found.append(f"check of exercise {number}")
        if any(re.search(r"for .+\.items\(\):\s+exercises\.mark\(", text) for text in checks):
            found.append(f"exercise {number} marks what is there: use mark_each")
    return found


def test_form_can_fail():
    def exercise(number):
        question = md(f"### Exercise {number} · 3 minutes · Why\n\nBecause.", "exercise")
        return [question, py("x = ...", "exercise"), py("mark(x)", "check")]

    assert faults([*exercise(1), *exercise(2)]) == []
    assert faults([]) == ["0 exercises"]
    assert faults([*exercise(1), *exercise(3)[:1]]) == [
        "title of exercise 2",
        "stub of exercise 2",
        "check of exercise 2",
    ]
