"""With which Python and PyTorch the unit tests and the notebooks were played, and how it ended.

    nox -s "units-3.12(pinned)"    # plays, in an environment of its own: see noxfile.py
    python -m tools.versions       # what was played into data/versions.json and tests/README.md

`--play` is what nox calls in that environment; the result goes into .nox/versions.json. Into the
table comes what was played as a whole, from a commit without changes.
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from xml.etree import ElementTree

from fedtutor.engine.files import ROOT, load_json, locked, save_json

from . import markdown

PLAYED = ROOT / ".nox" / "versions.json"
VERSIONS = ROOT / "data" / "versions.json"
PAGE = ROOT / "tests" / "README.md"
BEGIN = "<!-- made by: python -m tools.versions -->"
NBVAL = ["--nbval", "--nbval-sanitize-with", "tests/nbval.cfg", "notebooks"]
CALLS = {  # as in ./run
    "units": [["-n", "2", "--dist", "loadfile", "-m", "not serial"], ["-m", "serial"]],
    "notebooks": [["-n", "2", "--dist", "loadfile", *NBVAL]],
}
QUIET = {
    "units": {"OMP_NUM_THREADS": "1"},
    "notebooks": {},
}
TITLES = {"units": "unit tests", "notebooks": "cells of notebooks"}
HEADER = ("what", "Python", "PyTorch", "passed", "failed", "skipped", "minutes", "commit")
NOTHING_CHOSEN = 5  # pytest's exit status


def play(part: str, only: list[str]) -> dict:
    """Play a part, or what `only` chooses of it, and count what pytest reports."""
    began, commit = time.monotonic(), clean_commit()
    counts = dict.fromkeys(("passed", "failed", "skipped"), 0)
    ended = set()
    with tempfile.TemporaryDirectory() as folder:
        for number, words in enumerate(CALLS[part]):
            report = Path(folder) / f"{number}.xml"
            command = [sys.executable, "-m", "pytest", *words, *only, f"--junitxml={report}"]
            ended.add(subprocess.run(command, cwd=ROOT, env=os.environ | QUIET[part]).returncode)
            for name, count in counted(report).items():
                counts[name] += count
    return {
        "part": part,
        "only": only,
        "python": platform.python_version(),
        "torch": metadata.version("torch"),
        "system": f"{platform.system()} {platform.machine()}",
        **counts,
        "seconds": round(time.monotonic() - began),
        "commit": commit if commit == clean_commit() else None,
        "whole": not only and ended <= {0, 1, NOTHING_CHOSEN},
    }


def counted(report: Path) -> dict[str, int]:
    """passed, failed and skipped of pytest's own report; nothing where it wrote none."""
    if not report.exists():
        return {}
    sums = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    for suite in ElementTree.parse(report).getroot().iter("testsuite"):
        for name in sums:
            sums[name] += int(suite.get(name, 0))
    failed, skipped = sums["failures"] + sums["errors"], sums["skipped"]
    return {"passed": sums["tests"] - failed - skipped, "failed": failed, "skipped": skipped}


def clean_commit() -> str | None:
    """The commit, if no file differs from it and none is new; else None."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(ROOT), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return None if git("status", "--porcelain") else git("rev-parse", "HEAD")
    except (OSError, subprocess.CalledProcessError):
        return None


def key(row: dict) -> tuple:
    """What a newer play of replaces an older one: part, Python and PyTorch without their builds."""
    python = tuple(map(int, row["python"].split(".")[:2]))
    return list(CALLS).index(row["part"]), python, row["torch"].partition("+")[0], row["only"]


def merged(rows: list[dict], newer: list[dict]) -> list[dict]:
    """Of each combination the newest, sorted."""
    found = {str(key(row)): row for row in [*rows, *newer]}
    return sorted(found.values(), key=key)


def kept(path: Path) -> list[dict]:
    return load_json(path) if path.exists() else []


def table(rows: list[dict]) -> str:
    """Markdown: a line for each play."""
    if not rows:
        return "Nothing was played as a whole yet."
    lines = [
        (
            TITLES[row["part"]],
            row["python"],
            row["torch"],
            f"{row['passed']:,}",
            row["failed"],
            row["skipped"],
            f"{row['seconds'] / 60:.0f}",
            row["commit"][:7],
        )
        for row in rows
    ]
    systems = ", ".join(sorted({row["system"] for row in rows}))
    return f"{markdown.table(HEADER, lines)}\n\nAll on {systems}."


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--play", choices=CALLS, help="in this environment; for nox")
    options, only = parser.parse_known_args(arguments)
    if options.play:
        row = play(options.play, only)
        with locked(PLAYED):
            save_json(PLAYED, merged(kept(PLAYED), [row]))
        print(row)
        return 0 if row["passed"] and not row["failed"] else 1
    whole = [row for row in kept(PLAYED) if row["whole"] and row["commit"]]
    rows = merged(kept(VERSIONS), whole)
    save_json(VERSIONS, rows)
    markdown.update(PAGE, table(rows), BEGIN)
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
