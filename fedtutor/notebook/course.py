"""A copy of the project for students: all but solutions, tests and the teacher's page.

    python -m fedtutor course ../federated-2027 --clear

With `--clear` the notebooks have no outputs, so that a prediction is made before its figure.
"""

import shutil
from pathlib import Path

import nbformat

from ..engine.files import ROOT, shown, write_atomically
from ..errors import StorageError

LEFT_OUT = (
    "solutions", "template", "TEACHING.md", "tests", "workflow", "noxfile.py", "build", "cache",
    "requirements-dev.txt", "*.egg-info", "__pycache__", ".*",
)  # fmt: skip


def write(folder: Path, *, clear: bool = False) -> list[Path]:
    """Copy what students need into `folder`, which must be new or empty; return the notebooks.

    clear: without outputs. Raises `StorageError` for a folder inside the project, or with files.
    """
    folder = Path(folder).resolve()
    if folder.is_relative_to(ROOT):
        raise StorageError(f"{shown(folder)} is a folder of the project", where="course",
                           do="name a folder outside of it")  # fmt: skip
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StorageError(f"{folder.name} is there and not empty", where="course",
                           do="name a new folder")  # fmt: skip
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*LEFT_OUT), dirs_exist_ok=True)
    notebooks = sorted((folder / "notebooks").glob("[0-9][0-9]*.ipynb"))
    for path in notebooks if clear else ():
        held = nbformat.read(path, as_version=4)
        for cell in held.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        write_atomically(path, lambda name, held=held: nbformat.write(held, name))
    return notebooks
