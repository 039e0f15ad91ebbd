"""The unit tests and the notebooks with other Pythons and another PyTorch, each in .nox/.

    python -m pip install "nox[uv]"
    nox                                              # the unit tests, with all six
    nox -s "units-3.12(earliest)"                    # with one of them
    nox -s "notebooks-3.13(pinned)"                  # every cell against its committed output
    nox -s "units-3.12(pinned)" -- tests/losses      # a part; it stays out of the table
    python -m tools.versions                         # what was played, into the table

An environment takes 2 to 3 minutes and 5 GB; uv shares most of it between them.
"""

import os
import re
import shutil
import sys
from pathlib import Path

import nox
from nox.command import CommandFailed

PYTHONS = ("3.11", "3.12", "3.13")
EARLIEST = {"torch": "2.11.0", "torchvision": "0.26.0"}  # those that belong together
CPU = "https://download.pytorch.org/whl/cpu"

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each process reads PyTorch's sources anew
os.environ["UV_COMPILE_BYTECODE"] = "1"  # pip does it anyway
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["units"]
nox.options.error_on_missing_interpreters = True

versions = nox.parametrize(
    "torch", [nox.param({}, id="pinned"), nox.param(EARLIEST, id="earliest")]
)


@nox.session(python=PYTHONS)
@versions
def units(session: nox.Session, torch: dict[str, str]) -> None:
    """The unit tests of `./run tests`."""
    play(session, torch)


@nox.session(python=PYTHONS)
@versions
def notebooks(session: nox.Session, torch: dict[str, str]) -> None:
    """Every cell of every notebook against its committed output."""
    play(session, torch)


def play(session: nox.Session, torch: dict[str, str]) -> None:
    pins = pinned() | torch
    with_cpu_builds(session, {name: pins[name] for name in EARLIEST})
    wanted = [f"{name}=={version}" for name, version in pins.items()]
    session.install(*wanted, "-e", ".[workflow,engine]")
    part = session.name.partition("-")[0]
    session.run("python", "-m", "tools.versions", "--play", part, *session.posargs)


def pinned() -> dict[str, str]:
    """Every package of the two requirements files, with its version."""
    texts = (Path(f"requirements{part}.txt").read_text() for part in ("", "-dev"))
    return dict(re.findall(r"^([\w.-]+)==(\S+)$", "\n".join(texts), flags=re.M))


def with_cpu_builds(session: nox.Session, builds: dict[str, str]) -> None:
    """PyTorch without CUDA where it can be had, as `./run` does it."""
    if sys.platform != "linux" or shutil.which("nvidia-smi"):
        return
    once = {"UV_HTTP_RETRIES": "0", "UV_HTTP_TIMEOUT": "15", "PIP_RETRIES": "0"}
    names = [f"{name}=={version}+cpu" for name, version in builds.items()]
    try:
        session.install("--no-deps", "--index-url", CPU, *names, env=once)
    except CommandFailed:
        session.warn("no CPU builds here: the ordinary ones, about 5 GB, are installed")
