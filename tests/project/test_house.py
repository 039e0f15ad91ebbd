"""The house keeps its rules: who imports whom, how thin the core is, how long a file may be."""

import ast
import re
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

import fedtutor
from fedtutor.engine.files import ROOT

CORE = ("channel", "clients", "errors", "evaluation", "federation", "images", "measures",
        "randomness", "rounds", "settings")  # fmt: skip
HOME = ROOT / "fedtutor"
LENGTHS = {
    path.relative_to(HOME).with_suffix("").as_posix(): len(
        path.read_text(encoding="utf-8").splitlines()
    )
    for path in sorted(HOME.rglob("*.py"))
}


def test_nobody_imports_upward(monkeypatch):
    """The contracts stand in pyproject.toml."""
    monkeypatch.chdir(ROOT)
    assert lint_imports(no_cache=True, no_logo=True) == 0


def test_the_core_is_thin():
    assert sum(LENGTHS[name] for name in CORE) <= 1200
    assert {name: LENGTHS[name] for name in CORE if LENGTHS[name] > 180} == {}


def test_every_file_at_the_door_is_of_the_core_or_known():
    flat = {name for name in LENGTHS if "/" not in name}
    running = {"comparison", "difference", "history", "plots", "tasks", "teach"}
    commands = {"__main__", "command_line", "commands"}
    assert flat == {*CORE, *running, *commands, "__init__", "distillation"}


@pytest.mark.parametrize("name", [n for n in LENGTHS if n not in CORE])
def test_no_other_file_is_long(name):
    assert LENGTHS[name] <= (400 if name == "teach" else 350)


def test_the_door_offers_what_it_names_and_nothing_else():
    taken = {}
    exec("from fedtutor import *", taken)
    assert set(fedtutor.__all__) == taken.keys() - {"__builtins__"}
    assert taken["run"] is fedtutor.rounds.run and taken["Settings"] is fedtutor.settings.Settings
    with pytest.raises(AttributeError, match="no attribute 'Clients'"):
        _ = fedtutor.Clients
    with pytest.raises(ImportError, match="FedAvg"):
        exec("from fedtutor import FedAvg")


# --- the tests have their house, too

TESTS = ROOT / "tests"
FILES = {path.relative_to(TESTS).as_posix(): path for path in sorted(TESTS.rglob("*.py"))}
NO_WING = {"core", "project", "support"}
BESIDE = {"tools", "docs"}  # folders beside the package


def test_every_test_lies_in_the_folder_of_its_wing():
    wings = {path.name for path in HOME.iterdir() if (path / "__init__.py").exists()}
    folders = {Path(name).parts[0] for name in FILES if "/" in name}
    assert folders - NO_WING - BESIDE == wings
    assert not [name for name in FILES if "/" not in name and name.startswith("test_")]


def test_tests_import_what_they_share_and_not_each_other():
    """What two of them need lies in tests/support."""
    for name, path in FILES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom | ast.Import):
                modules = [getattr(node, "module", None), *(alias.name for alias in node.names)]
                found = [m for m in modules if m and re.search(r"\b(conftest|test_\w+)$", m)]
                assert not found, f"tests/{name} imports {found[0]}"
