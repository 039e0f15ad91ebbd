"""A course folder: what students need and nothing that tells them the answers."""

import re

import nbformat
import pytest

from fedtutor.engine.files import ROOT
from fedtutor.errors import StorageError
from tools import course

HOME = (
    "## What was found\nIt.\n[a](TEACHING.md)\n```sh\n./run tests\n```\n\nplays. Then.\n## Then\n"
)
COPY = "## What was found\nIt.\na\nThen.\n## Then\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("courses") / "2027"
    assert course.main(["copy", str(folder), "--clear"]) == 0
    return folder


def test_all_lessons_are_there_without_solutions_and_tests(folder):
    names = {path.name for path in (ROOT / "notebooks").glob("[0-9]*.ipynb")}
    assert {path.name for path in (folder / "notebooks").glob("*.ipynb")} == names
    for needed in ("run", "requirements.txt", "pyproject.toml", "README.md", "fedtutor/rounds.py",
                   "data/results", "data/bundled", "data/recipes/start.toml"):  # fmt: skip
        assert (folder / needed).exists(), needed
    everything = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    told = ("solutions", "tests", "tools", ".git", "TEACHING", "__pycache__")
    assert not [name for name in everything if any(word in name.split("/") for word in told)]


def test_cleared_notebooks_have_no_outputs_and_are_otherwise_the_same(folder):
    for path in (folder / "notebooks").glob("0[01]_*.ipynb"):
        held = nbformat.read(path, as_version=4)
        nbformat.validate(held)
        ours = nbformat.read(ROOT / "notebooks" / path.name, as_version=4)
        for cell, own in zip(held.cells, ours.cells, strict=True):
            words = cell.cell_type == "markdown"
            assert cell.source == (course._linked(own.source, path.parent) if words else own.source)
        assert not any(cell.get("outputs") for cell in held.cells)


def test_no_findings_and_no_dead_links(folder):
    readme = (folder / "README.md").read_text()
    assert "What was found" not in readme and "front.png" not in readme
    assert "./run lab" in readme and "## Ways in" in readme and "Sixteen lessons" in readme
    assert "./run tests" not in readme and "all tests" not in readme
    assert "## The notebooks" in readme and "swings" not in readme
    names = re.findall(r"^#+ (.+)$", readme, flags=re.M)
    anchors = {re.sub(r"[^a-z -]", "", name.lower()).replace(" ", "-") for name in names}
    assert set(re.findall(r"]\(#([^)]+)\)", readme)) <= anchors
    assert not (folder / "data/results/front.png").exists()
    for page in folder.rglob("*.md"):
        for link in course.LINK.finditer(page.read_text()):
            assert link[2].startswith("http") or (page.parent / link[2]).exists(), (page, link[0])


def test_with_outputs_findings_stay_and_an_assignment_does_not(tmp_path, monkeypatch):
    home = tmp_path / "home"
    for name in ("notebooks", "work/source/03", "data/results"):
        (home / name).mkdir(parents=True)
    (home / "README.md").write_text(HOME)
    for name in ("work/nbgrader_config.py", "work/source/03/03.ipynb", "data/results/front.png"):
        (home / name).write_text("")
    monkeypatch.setattr(course, "ROOT", home)
    course.write(tmp_path / "copy")
    left = {p.relative_to(tmp_path / "copy").as_posix() for p in (tmp_path / "copy").rglob("*")}
    assert left == {"README.md", "notebooks", "data", "data/results", "data/results/front.png"}
    text = (tmp_path / "copy" / "README.md").read_text()
    assert text == COPY


def test_nothing_is_overwritten(folder, tmp_path):
    with pytest.raises(StorageError, match="not empty"):
        course.write(folder)
    with pytest.raises(StorageError, match="outside"):
        course.write(ROOT / "build" / "course")
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        course.write(tmp_path / "file")
