"""A copy of the project for students: all but solutions, tests and the teacher's page.

    python -m fedtutor course ../federated-2027 --clear

With `--clear` the notebooks have no outputs, and the README has no findings, so that a prediction
is made before its figure.
"""

import re
import shutil
from pathlib import Path

import nbformat

from ..engine.files import ROOT, shown, write_atomically
from ..errors import StorageError

LEFT_OUT = (
    "solutions", "template", "TEACHING.md", "tests", "workflow", "noxfile.py", "build", "cache",
    "requirements-dev.txt", "*.egg-info", "__pycache__", ".*",
)  # fmt: skip


NBGRADER = "nbgrader_config.py"  # a folder with it has solutions and marks
RESULTS = ("REPRODUCED.md", "front.png", "reports")  # left out with `clear`
PARTS = re.compile(  # of the README: the picture with its line, and the findings
    r"<!-- report --readme: picture -->.*?(?=^## )|^## What was found\n.*?(?=^## )", re.S | re.M
)
TESTS = re.compile(r"```sh\n\./run tests\n```\n\n[^.]*\.\s")  # the command that the copy has not
LINK = re.compile(r"\[([^]]*)\]\(([^)#\s]*[./][^)#\s]*)(#[^)]*)?\)")  # not x[i](y)


def write(folder: Path, *, clear: bool = False) -> list[Path]:
    """Copy what students need into `folder`, which must be new or empty; return the notebooks.

    clear: without outputs, findings and reports. A link to what is left out becomes its text.
    Raises `StorageError` for a folder inside the project, or with files.
    """
    folder = Path(folder).resolve()
    if folder.is_relative_to(ROOT):
        raise StorageError(f"{shown(folder)} is a folder of the project", where="course",
                           do="name a folder outside of it")  # fmt: skip
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StorageError(f"{folder.name} is there and not empty", where="course",
                           do="name a new folder")  # fmt: skip
    patterns = shutil.ignore_patterns(*LEFT_OUT, *(RESULTS if clear else ()))

    def ignored(place: str, names: list[str]) -> set[str]:
        marked = {name for name in names if (Path(place) / name / NBGRADER).exists()}
        return patterns(place, names) | marked

    shutil.copytree(ROOT, folder, ignore=ignored, dirs_exist_ok=True)
    for page in folder.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        if page == folder / "README.md":
            text = TESTS.sub("", PARTS.sub("", text) if clear else text)
        page.write_text(_linked(text, page.parent), encoding="utf-8")
    notebooks = sorted((folder / "notebooks").glob("[0-9][0-9]*.ipynb"))
    for path in notebooks:
        held = nbformat.read(path, as_version=4)
        for cell in held.cells:
            if cell.cell_type == "markdown":
                cell.source = _linked(cell.source, path.parent)
            elif clear:
                cell.outputs, cell.execution_count = [], None
        write_atomically(path, lambda name, held=held: nbformat.write(held, name))
    return notebooks


def _linked(text: str, place: Path) -> str:
    """The Markdown text of a page in `place`; links to files that are not there become text."""

    def kept(link: re.Match) -> str:
        far = link[2].startswith(("http:", "https:", "attachment:", "mailto:"))
        return link[0] if far or (place / link[2]).exists() else link[1]

    return LINK.sub(kept, text)
