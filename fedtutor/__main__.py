"""The command `fedtutor`: what is played without a notebook open.

    fedtutor notebooks --only 00          execute the lessons into build/executed
    fedtutor reproduce "RepShare 1"       play what is missing of a printed table, beside ours
    fedtutor federate fccl --rounds 2     a method with a process for every client

What only maintainers call is in the folder `tools` of the clone.
"""

import argparse
import os
import sys
import time
from pathlib import Path

from . import __version__
from .engine.files import ROOT, numbered, shown, write_atomically
from .errors import FedtutorError, choose

STOPPED = "stopped; what is done is kept, and the same command goes on from there"
QUIET = ["--log-level=ERROR"]  # a kernel on this machine warns that its sockets are not encrypted


def main(arguments: list[str] | None = None) -> int:
    """The exit status: 0; 1 where something failed; 2 where no job is named; 130 after Ctrl-C."""
    return carry_out(command_line(), arguments)


def carry_out(parser: argparse.ArgumentParser, arguments: list[str] | None) -> int:
    """Read `arguments`, do what they name, and say one clear line about a user's mistake.

    A pipe that is closed early, as by `head`, is no failure.
    """
    options = parser.parse_args(arguments)
    if getattr(options, "do", None) is None:
        parser.print_help(sys.stderr)
        return 2
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
    """All jobs with their options."""
    from .processes import commands as processes
    from .report import reproduce

    called = "fedtutor" if Path(sys.argv[0]).stem == "fedtutor" else "python -m fedtutor"
    parser = argparse.ArgumentParser(
        prog=called, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"fedtutor {__version__}",
        help="print the version and stop",
    )
    jobs = parser.add_subparsers(dest="job", metavar="JOB", help="JOB --help shows its options")
    job = jobs.add_parser("notebooks", help="execute the lessons, by number or all")
    job.add_argument("--only", nargs="+", default=[], metavar="NN", help="e.g. --only 00 02b")
    job.add_argument("--folder", type=Path, default=ROOT / "notebooks", help="where they lie")
    job.add_argument("--profile", default="quick", help="quick (default) or paper")
    job.add_argument(
        "--output",
        type=Path,
        default=ROOT / "build" / "executed",
        help="where the executed copies go; default build/executed",
    )
    job.set_defaults(do=execute_all)
    reproduce.register(jobs)
    processes.register(jobs)
    return parser


def execute_all(options) -> int:
    """Execute notebooks into a folder of copies; the status is 1 where a cell failed."""
    from .experiments.recipes import PROFILES

    choose(options.profile, PROFILES, kind="profile", where="--profile")
    paths, failed, began = numbered(options.folder, options.only), 0, time.monotonic()
    for path in paths:
        print(f"{path.stem} ... ", end="", flush=True)
        start = time.monotonic()
        problem = execute(path, options.output / path.name, options.profile)
        failed += bool(problem)
        print(f"{time.monotonic() - start:.0f} s{'; ' * bool(problem)}{problem}", flush=True)
    print(
        f"{len(paths)} notebooks, {failed} failed, {time.monotonic() - began:.0f} s; "
        f"copies with outputs are in {shown(options.output)}"
    )
    return 1 if failed else 0


def execute(path: Path, copy: Path, profile: str = "quick") -> str:
    """Run one notebook by papermill into `copy`, also where a cell fails; what failed, or ""."""
    import papermill
    from papermill.exceptions import PapermillExecutionError

    write_atomically(copy, lambda name: None)  # one clear error for a folder that is read-only
    try:
        papermill.execute_notebook(
            path,
            copy,
            parameters={} if profile == "quick" else {"profile": profile},
            cwd=path.parent,
            kernel_name="python3",
            progress_bar=False,
            extra_arguments=QUIET,
        )
    except PapermillExecutionError as error:
        return f"FAILED in cell {error.exec_count}: {error.ename}: {error.evalue}"
    return ""


if __name__ == "__main__":
    sys.exit(main())
