"""The command `fedtutor`: what is done without a notebook open; its jobs: `command_line.py`.

What only maintainers call is in the folder `tools` of the clone.
"""

import argparse
import os
import sys
import time
from pathlib import Path

from . import command_line as jobs
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
    """All jobs with their options, under the name by which they were called."""
    named = Path(sys.argv[0]).stem == "fedtutor"
    return jobs.command_line("fedtutor" if named else "python -m fedtutor")


def execute_all(options) -> int:
    """Execute notebooks into a folder of copies; the status is 1 where a cell failed."""
    from .engine.files import ROOT, here, numbered
    from .experiments.recipes import PROFILES

    choose(options.profile, PROFILES, kind="profile", where="--profile")
    output = options.folder or ROOT / "build" / "executed"
    paths = numbered(options.source or ROOT / "notebooks", options.only)
    failed, began = 0, time.monotonic()
    for path in paths:
        print(f"{path.stem} ... ", end="", flush=True)
        start = time.monotonic()
        problem = execute(path, output / path.name, options.profile)
        failed += bool(problem)
        print(f"{time.monotonic() - start:.0f} s{'; ' * bool(problem)}{problem}", flush=True)
    print(
        f"{len(paths)} notebooks, {failed} failed, {time.monotonic() - began:.0f} s; "
        f"copies with outputs are in {here(output)}"
    )
    return 1 if failed else 0


def execute(path: Path, copy: Path, profile: str = "quick") -> str:
    """Run one notebook by papermill into `copy`, also where a cell fails; what failed, or ""."""
    import papermill
    from papermill.exceptions import PapermillExecutionError

    from .engine.files import write_atomically

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
