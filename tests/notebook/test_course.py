"""A course folder: what students need and nothing that tells them the answers."""

import nbformat
import pytest

from fedtutor.__main__ import main
from fedtutor.engine.files import ROOT
from fedtutor.errors import StorageError
from fedtutor.notebook import course


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("courses") / "2027"
    assert main(["course", str(folder), "--clear"]) == 0
    return folder


def test_all_lessons_are_there_without_solutions_and_tests(folder):
    names = {path.name for path in (ROOT / "notebooks").glob("[0-9]*.ipynb")}
    assert {path.name for path in (folder / "notebooks").glob("*.ipynb")} == names
    for needed in ("run", "requirements.txt", "pyproject.toml", "README.md", "fedtutor/rounds.py",
                   "data/results", "data/bundled", "data/recipes/start.toml"):  # fmt: skip
        assert (folder / needed).exists(), needed
    everything = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    told = ("solutions", "tests", ".git", "TEACHING", "__pycache__")
    assert not [name for name in everything if any(word in name.split("/") for word in told)]


def test_cleared_notebooks_have_no_outputs_and_are_otherwise_the_same(folder):
    for path in (folder / "notebooks").glob("0[01]_*.ipynb"):
        held = nbformat.read(path, as_version=4)
        nbformat.validate(held)
        ours = nbformat.read(ROOT / "notebooks" / path.name, as_version=4)
        assert [cell.source for cell in held.cells] == [cell.source for cell in ours.cells]
        assert not any(cell.get("outputs") for cell in held.cells)


def test_nothing_is_overwritten(folder, tmp_path):
    with pytest.raises(StorageError, match="not empty"):
        course.write(folder)
    with pytest.raises(StorageError, match="outside"):
        course.write(ROOT / "build" / "course")
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        course.write(tmp_path / "file")
