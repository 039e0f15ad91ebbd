"""Flip one sign in a numbered equation of `losses`, and a check of that equation must fail.

Equations, checks and mutants are all found, none is listed, so that later equations join by
themselves:

- an equation is a public function of `fedtutor/losses/` whose docstring has "Eq." and a number;
- its checks are the `check` cells of the notebooks that name the function and call `check`, and
  the plain-loop tests (`LOOPS`) that name it. The tests alone must notice every mutant; where an
  equation has none, the cells must. Cells of frozen lessons are not run;
- a mutant has one operator changed in the function, or in a private helper that it calls.

An equation without any check fails. An equation of one of the five papers must be checked in a
notebook as soon as that paper's notebook is there; what only the tests check is listed as skipped
(`pytest -rs`).
"""

import importlib
import importlib.util
import re
from inspect import getsource
from pathlib import Path
from pkgutil import iter_modules

import nbformat
import pytest
import torch
from support import mutants as engine
from support.mutants import check_cells, equations, fails, mutants, runnable, survivors

from fedtutor import losses
from fedtutor.engine.files import ROOT


def loaded(path: Path):
    """The plain-loop tests of a file, as a module."""
    spec = importlib.util.spec_from_file_location(f"loops_of_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FILES = [
    importlib.import_module(f"fedtutor.losses.{m.name}") for m in iter_modules(losses.__path__)
]
EQUATIONS = [pytest.param(module, name, id=name) for module in FILES for name in equations(module)]
LOOPS = [loaded(path) for path in sorted((ROOT / "tests" / "losses").glob("test_*.py"))]
NOTEBOOK_OF = {"FCCL": "01", "FCCL+": "02", "FedCSD": "03", "RepShare": "04", "FedLGD": "05"}


# ------------------------------------------------------------------- the equations of the suite


@pytest.mark.parametrize("module, name", EQUATIONS)
def test_a_flipped_sign_makes_a_check_fail(module, name):
    cells, tests = runnable(name, ROOT / "notebooks", *LOOPS)
    assert cells or tests, f"{name} is a numbered equation without any check"
    assert not fails(cells + tests), f"a check of {name} fails for the equation as it is"
    alive = survivors(module, name, tests or cells)
    assert not alive, "the plain-loop tests do not notice\n  " + "\n  ".join(alive)


@pytest.mark.parametrize("module, name", EQUATIONS)
def test_a_papers_equation_is_checked_in_its_notebook(module, name):
    reason = unchecked(getattr(module, name), ROOT / "notebooks")
    if reason:
        pytest.skip(reason)


def unchecked(function, folder: Path) -> str | None:
    """Why a numbered equation may be checked in no notebook; None where it is checked in one.

    Raises AssertionError where one of the papers that its docstring names has its notebook.
    """
    if check_cells(function.__name__, folder):
        return None
    papers = [p for p in NOTEBOOK_OF
              if re.search(rf"\b{re.escape(p)}(?![\w+])", function.__doc__)]  # fmt: skip
    present = [p for p in papers if list(folder.glob(f"{NOTEBOOK_OF[p]}_*.ipynb"))]
    text = f"{function.__name__} is checked in no notebook"
    assert not present, f"{text}, and that of {', '.join(present)} is there"
    return text + (f"; that of {', '.join(papers)} is to come" if papers else "; tests check it")


def test_excuses_are_still_needed(monkeypatch):
    excused = set(engine.SAME)
    monkeypatch.setattr(engine, "SAME", {})
    found = {label for module in FILES for name in equations(module)
             for label, *_ in mutants(getsource(module), name)}  # fmt: skip
    assert excused <= found


# -------------------------------------------------------------------------- these tests can fail

TOY = '''
import torch

def tilt(x, y, *, mu=0.5):
    """A toy (FCCL+ Eq. 7)."""
    if x.ndim < 1:
        raise ValueError(f"{x.ndim - 1}")
    total = _square(x - y) * mu
    total += -1.0
    return total.sum(-1) + x[-1] ** 2

def _square(x):
    return x * x

def _unused(x):
    return x - 1

def plain(x):
    """No equation."""
    return x + 1
'''


@pytest.fixture
def toy(tmp_path, monkeypatch):
    (tmp_path / "toy_losses.py").write_text(TOY)
    monkeypatch.syspath_prepend(tmp_path)
    return importlib.reload(importlib.import_module("toy_losses"))


def strong(toy):
    x, y = torch.tensor([1.0, 3.0]), torch.tensor([0.5, -1.0])
    value = 0.5 * (0.25 + 16) - 2 + 9
    return [lambda: _same(toy.tilt(x, y), value)]


def _same(a, b):
    assert abs(float(a) - b) < 1e-6


def test_only_public_numbered_functions_are_equations(toy):
    assert equations(toy) == ["tilt"]


def test_mutants_are_one_flip_each_and_leave_dimensions_and_messages_alone(toy):
    labels = [label for label, *_ in mutants(getsource(toy), "tilt")]
    assert sorted(labels) == sorted([
        "tilt: x.ndim < 1 -> x.ndim >= 1",
        "tilt: _square(x - y) * mu -> _square(x - y) / mu",
        "tilt: x - y -> x + y",
        "tilt: total += -1.0 -> total -= -1.0",
        "tilt: -1.0 -> 1.0",
        "tilt: total.sum(-1) + x[-1] ** 2 -> -(total.sum(-1) + x[-1] ** 2)",
        "tilt: total.sum(-1) + x[-1] ** 2 -> total.sum(-1) - x[-1] ** 2",
        "tilt: x[-1] ** 2 -> x[-1] * 2",
        "_square: x * x -> -(x * x)",
        "_square: x * x -> x / x",
    ])  # fmt: skip


def test_a_strong_check_leaves_no_mutant_alive_and_a_weak_one_does(toy):
    assert survivors(toy, "tilt", strong(toy)) == []
    weak = [lambda: _same(toy.tilt(torch.ones(2), torch.ones(2)), -1)]
    assert "tilt: _square(x - y) * mu -> _square(x - y) / mu" in survivors(toy, "tilt", weak)
    assert survivors(toy, "tilt", []) == [label for label, *_ in mutants(TOY, "tilt")]


def test_the_function_is_whole_again_afterwards(toy):
    survivors(toy, "tilt", strong(toy))
    assert not fails(strong(toy))


def notebook_with(folder, *cells, name="00_a.ipynb"):
    made = [nbformat.v4.new_code_cell(source, metadata={"tags": [tag] if tag else []})
            for tag, source in cells]  # fmt: skip
    nbformat.write(nbformat.v4.new_notebook(cells=made), folder / name)


CELL = """def reference(x, total=0.0):
    for x_i in x:
        total += (x_i - y) ** 2 / 2
    return total - 1 + x[-1] ** 2
tries = [total for total in (1, 2)]
check("Eq. 7", tilt(x, torch.tensor([y])), reference(x))"""


def test_a_check_cell_runs_with_only_what_it_needs(toy, tmp_path):
    notebook_with(
        tmp_path, ("", "1 / 0"), ("", "import torch\nfrom fedtutor.notebook import check"),
        ("", "from toy_losses import tilt\nunused = total = x_i = tries = y = 1 / 0"),
        ("", "x = torch.zeros(1)\nx[0] = 3.0\ny = 0.25\ny += 0.25"), ("check", CELL),
        ("check", "print(tilt)"), ("", CELL),
        ("check", "check('', torch.tilt(x), x)"),
    )  # fmt: skip
    cells = check_cells("tilt", tmp_path)
    assert [place for place, *_ in cells] == ["00_a, cell 4"]
    assert "/" not in cells[0][1]
    cells, tests = runnable("tilt", tmp_path, *LOOPS)
    assert len(cells) == 1 and not tests
    assert not fails(cells)
    assert survivors(toy, "tilt", cells) == []


def test_a_check_cell_with_collapsed_input_counts_like_any_other(toy, tmp_path):
    notebook_with(
        tmp_path, ("", "import torch\nfrom fedtutor.notebook import check"),
        ("", "from toy_losses import tilt\nx = torch.zeros(1)\nx[0] = 3.0\ny = 0.5"),
        ("check", CELL),
    )  # fmt: skip
    path = tmp_path / "00_a.ipynb"
    made = nbformat.read(path, as_version=4)
    for cell in made.cells:
        cell.metadata["jupyter"] = {"source_hidden": True}
    nbformat.write(made, path)
    assert [place for place, *_ in check_cells("tilt", tmp_path)] == ["00_a, cell 2"]
    cells, _ = runnable("tilt", tmp_path)
    assert not fails(cells) and survivors(toy, "tilt", cells) == []


def test_cells_of_a_frozen_lesson_are_not_run(toy, tmp_path):
    notebook_with(tmp_path, ("", "from nowhere import check, x, y, tilt"), ("check", CELL))
    with pytest.raises(ImportError):
        runnable("tilt", tmp_path)
    (tmp_path / "frozen.txt").write_text("# waiting\n00_a 5aae545408\n")
    assert runnable("tilt", tmp_path) == ([], [])


def test_a_papers_notebook_must_check_its_equation(toy, tmp_path):
    assert "FCCL+ is to come" in unchecked(toy.tilt, tmp_path)
    notebook_with(tmp_path, ("", "pass"), name="01_fccl.ipynb")
    assert "FCCL+ is to come" in unchecked(toy.tilt, tmp_path)
    notebook_with(tmp_path, ("", "pass"), name="02_fccl_plus.ipynb")
    with pytest.raises(AssertionError, match="that of FCCL"):
        unchecked(toy.tilt, tmp_path)
    notebook_with(tmp_path, ("check", "check('Eq. 7', tilt(1), 1)"), name="02_fccl_plus.ipynb")
    assert unchecked(toy.tilt, tmp_path) is None
