"""`python -m fedtutor notebooks`: execute the numbered notebooks and write pages to `build/`.

For maintainers: `python -m fedtutor exercises` makes their exercises from the solutions, and
`python -m fedtutor refresh` executes them in place, as they are committed. Before a long run,
`python -m fedtutor rehearse` plays two rounds of every method of a recipe, and
`python -m fedtutor queue` works through the runs at the papers' settings; `python -m fedtutor
report` sets what was measured beside what the papers print, `python -m fedtutor reproduce "FCCL+
X"` plays what is missing of one table and prints it, `python -m fedtutor stale` names what
other code recorded, `python -m fedtutor again` plays that anew, `python -m fedtutor fold` makes one
file of many results, `python -m fedtutor describe` says what is in them to machines, `python -m
fedtutor benchmark` trains what notebook 07 reads, and `python -m fedtutor federate` gives every
client a process of its own.
"""

import argparse
import os
import sys
import time
from pathlib import Path

BEGAN = time.time()  # before anything that takes its time

from . import __version__  # noqa: E402
from .engine.files import ROOT  # noqa: E402
from .errors import FedtutorError  # noqa: E402

STOPPED = "stopped; what is done is kept, and the same command goes on from there"


def main(arguments: list[str] | None = None) -> int:
    """The exit status: 0; 1 where something failed; 2 where no job is named; 130 after Ctrl-C.

    A pipe that is closed early, as by `head`, is no failure.
    """
    parser = command_line()
    options = parser.parse_args(arguments)
    if options.job is None:
        parser.print_help(sys.stderr)
        return 2
    options.began = BEGAN if arguments is None else time.time()
    os.environ.setdefault("TQDM_DISABLE", "1")
    try:
        status = options.do(options)
        sys.stdout.flush()
        return status
    except FedtutorError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # whoever reads has enough, as in `... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print(STOPPED)
        return 130


def command_line() -> argparse.ArgumentParser:
    """All jobs with their options; each wing registers its own."""
    from .experiments import commands as experiments
    from .processes import commands as processes
    from .report import commands as report
    from .site import commands as site

    called = "fedtutor" if Path(sys.argv[0]).stem == "fedtutor" else "python -m fedtutor"
    parser = argparse.ArgumentParser(prog=called, description=__doc__)
    parser.add_argument("--version", action="version", version=f"fedtutor {__version__}",
                        help="print the version and stop")  # fmt: skip
    jobs = parser.add_subparsers(dest="job", metavar="JOB", help="JOB --help shows its options")
    site.register(jobs)
    job = jobs.add_parser("exercises", help="make the exercises from their solutions")
    job.add_argument("--only", nargs="+", default=[], metavar="NN", help="e.g. --only 00 02b")
    job.add_argument("--folder", type=Path, default=ROOT / "notebooks", help="where they lie")
    job.set_defaults(do=make_exercises)
    job = jobs.add_parser("assignment", help="write a notebook's exercises for nbgrader")
    job.add_argument("only", nargs="+", metavar="NN", help="notebooks by number, e.g. 01 03")
    job.add_argument("--course", type=Path, default=Path("course"), help="nbgrader's folder")
    job.add_argument("--exercises", type=int, nargs="+", default=[], metavar="N",
                     help="these alone, e.g. --exercises 1 3")  # fmt: skip
    job.set_defaults(do=make_assignments)
    job = jobs.add_parser("course", help="copy all but solutions and tests, for students")
    job.add_argument("folder", type=Path, help="a new folder")
    job.add_argument("--clear", action="store_true", help="notebooks without outputs")
    job.set_defaults(do=make_course)
    experiments.register(jobs)
    report.register(jobs)
    processes.register(jobs)
    return parser


def make_assignments(options) -> int:
    from .engine.files import numbered, shown
    from .notebook.assignments import write

    folder = ROOT / "notebooks" / "solutions"
    for path in numbered(folder, options.only, kind="solutions for"):
        target, points = write(path, options.course, options.exercises)
        name = target.parent.name
        print(f"{shown(target)}: {points} points; nbgrader generate_assignment {name} --create")
    return 0


def make_course(options) -> int:
    from .notebook.course import write

    notebooks = write(options.folder, clear=options.clear)
    print(f"{len(notebooks)} notebooks without solutions in {options.folder}")
    return 0


def make_exercises(options) -> int:
    """Copy questions, stubs and checks from `solutions/` into the notebooks.

    It stands here, as the wing `notebook` draws: a queue runs where nothing that draws is there.
    """
    from .notebook.exercises import generate

    for path in generate(options.folder, options.only):
        print(f"{path.stem}: new exercises; now python -m fedtutor refresh --only {path.stem}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
