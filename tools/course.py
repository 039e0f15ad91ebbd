"""A course: a copy of the project for students, exercises from solutions, nbgrader assignments.

    python -m tools.course copy ../federated-2027 --clear    all but solutions, tests and tools
    python -m tools.course exercises --only 03               stubs from the solutions
    python -m tools.course assignment 03 --course ../course  an nbgrader assignment

With `--clear` the notebooks have no outputs, and the README has no findings, so that a prediction
is made before its figure.
"""

import argparse
import re
import shutil
from pathlib import Path

import nbformat

from fedtutor.__main__ import carry_out
from fedtutor.engine.files import ROOT, numbered, shown, write_atomically
from fedtutor.errors import StorageError

from . import assignments, exercises

LEFT_OUT = (
    "solutions", "template", "TEACHING.md", "tests", "tools", "noxfile.py", "build", "cache",
    "requirements-dev.txt", "*.egg-info", "__pycache__", ".*",
)  # fmt: skip


NBGRADER = "nbgrader_config.py"  # a folder with it has solutions and marks
RESULTS = ("REPRODUCED.md", "front.png")  # left out with `clear`
PARTS = re.compile(  # of the README: the picture with its line, and the findings
    r"<!-- made by python -m tools.pages: picture -->.*?(?=^## )"
    r"|^## What was found\n.*?(?=^## )",
    re.S | re.M,
)
TESTS = re.compile(r"```sh\n\./run tests\n```\n\n[^.]*\.\s")  # the command that the copy has not
LINK = re.compile(r"\[([^]]*)\]\(([^)#\s]*[./][^)#\s]*)(#[^)]*)?\)")  # not x[i](y)


def main(arguments: list[str] | None = None) -> int:
    """Do one of the jobs; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.course",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    jobs = parser.add_subparsers(metavar="JOB")
    job = jobs.add_parser("copy", help="all but solutions, tests and tools, for students")
    job.add_argument("folder", type=Path, help="a new folder")
    job.add_argument("--clear", action="store_true", help="notebooks without outputs")
    job.set_defaults(do=make_copy)
    job = jobs.add_parser("exercises", help="make the exercises from their solutions")
    job.add_argument("--only", nargs="+", default=[], metavar="NN", help="e.g. --only 00 02b")
    job.add_argument("--folder", type=Path, default=ROOT / "notebooks", help="where they lie")
    job.set_defaults(do=make_exercises)
    job = jobs.add_parser("assignment", help="write a notebook's exercises for nbgrader")
    job.add_argument("only", nargs="+", metavar="NN", help="notebooks by number, e.g. 01 03")
    job.add_argument("--course", type=Path, default=Path("course"), help="nbgrader's folder")
    job.add_argument(
        "--exercises",
        type=int,
        nargs="+",
        default=[],
        metavar="N",
        help="these alone, e.g. --exercises 1 3",
    )
    job.set_defaults(do=make_assignments)
    return carry_out(parser, arguments)


def make_copy(options) -> int:
    notebooks = write(options.folder, clear=options.clear)
    print(f"{len(notebooks)} notebooks without solutions in {options.folder}")
    return 0


def make_exercises(options) -> int:
    """Copy questions, stubs and checks from `solutions/` into the notebooks."""
    for path in exercises.generate(options.folder, options.only):
        print(f"{path.stem}: new exercises; now python -m tools.refresh --only {path.stem}")
    return 0


def make_assignments(options) -> int:
    for path in numbered(ROOT / "notebooks" / "solutions", options.only, kind="solutions for"):
        target, points = assignments.write(path, options.course, options.exercises)
        name = target.parent.name
        print(f"{shown(target)}: {points} points; nbgrader generate_assignment {name} --create")
    return 0


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


if __name__ == "__main__":
    raise SystemExit(main())
