"""The verdicts of all notebooks, asked a second time with other last digits.

    python -m tools.verdicts_elsewhere                  # some 20 minutes
    python -m tools.verdicts_elsewhere --only 03 05b    # these notebooks anew

The notebooks are executed in a copy of the project. What they train there has the last digits of
another set of instructions, and of the results that they read, those that were played again on
another processor (data/replays) lie in the place of the recordings. The verdicts go to
data/verdicts-elsewhere.json. `papers.claims` reads them: a claim holds only if both say so.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from fedtutor.engine.files import ROOT, load_json, numbered, save_json
from fedtutor.experiments import environment, results, stored
from fedtutor.papers import ledger

BITS = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
}
KEPT = ("verdict", "measured", "setting", "notebook")  # of a claim


def copied(to: Path) -> None:
    """The project as it lies here, without what git ignores."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, to / name)


def laid_over(replays: Path, recorded: Path) -> int:
    """Put each replay in the place of its recording; how many there are."""
    paths = {recorded / path.relative_to(replays): path for path in results.load_all(replays)}
    stored.fold({place: stored.entry(path).value for place, path in paths.items()})
    return len(paths)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="NN", help="such as 03 05b")
    only = parser.parse_args(arguments).only
    names = [path.stem.partition("_")[0] for path in numbered(ROOT / "notebooks", only)]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "fedtutor"
        copied(copy)
        count = laid_over(copy / "data" / "replays", copy / "data" / "results")
        command = [sys.executable, "-m", "fedtutor", "notebooks", "--output", copy / "build"]
        own = {"PYTHONPATH": str(copy), "FEDTUTOR_CACHE": f"{folder}/cache"}
        done = subprocess.run(
            [*command, "--only", *names], cwd=copy, env={**os.environ, **BITS, **own}
        )
        book = ledger.claims(folder=copy / "build" / "executed", second=None)
    book = book[book["verdict"] != ledger.OPEN]
    before = load_json(ledger.SECOND)["claims"] if only and ledger.SECOND.exists() else {}
    claims = {id: line for id, line in before.items() if line["notebook"] not in names}
    claims |= {id: {key: line[key] for key in KEPT} for id, line in book.iterrows()}
    made = {
        "processor": environment.processor(),
        "instructions": BITS["ONEDNN_MAX_CPU_ISA"],
        "replays": count,
        "claims": dict(sorted(claims.items())),
    }
    save_json(ledger.SECOND, made)
    print(f"{len(book)} claims, {count} replays in the place of recordings: {ledger.SECOND.name}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
