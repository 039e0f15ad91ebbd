"""What `python -m fedtutor report` and `describe` do."""

import os
from pathlib import Path

from ..engine.files import ROOT
from ..experiments.results import RESULTS


def register(jobs) -> None:
    """Enter report and describe into the command line."""
    job = jobs.add_parser("report", help="the papers' tables and claims beside what was measured")
    job.add_argument("--results", type=Path, default=RESULTS,
                     help="where results lie; default data/results")  # fmt: skip
    job.add_argument(
        "--readme",
        action="store_true",
        help="write the README's findings and picture, and REPRODUCED.md",
    )
    job.add_argument("--numbers", action="store_true",
                     help="write the tables of data/results/NUMBERS.md")  # fmt: skip
    job.add_argument("--papers", action="store_true",
                     help="write a reproducibility report per paper into data/reports")  # fmt: skip
    job.add_argument("--all", action="store_true",
                     help="list all that is stale, dirty, or does not know its code")  # fmt: skip
    job.set_defaults(do=write_report)
    job = jobs.add_parser("reproduce", help="a printed table beside ours: what is missing is run")
    job.add_argument("request", metavar="TABLE", help='a paper and its table, such as "FCCL+ X"')
    job.add_argument("--dry-run", action="store_true", help="say what it needs, and run nothing")
    job.add_argument("--profile", default="paper",
                     help="paper (default): the paper's settings; quick: smaller ones")  # fmt: skip
    job.add_argument("--rows", default="", metavar="WORD",
                     help="rows or columns with this word, such as MNIST or FedAvg")  # fmt: skip
    job.add_argument("--seeds", type=int, nargs="+", default=(), help="default: those of the queue")
    job.add_argument("--at-once", type=int, default=max(1, min(8, os.cpu_count() or 1)),
                     help="runs side by side; default: one on each core, up to 8")  # fmt: skip
    job.add_argument("--again", action="store_true", help="play what data/results holds, too")
    job.add_argument("--device", default="cpu", help='"cpu" (default), "cuda" or "auto"')
    job.add_argument("--download", action="store_true", help="fetch missing data where possible")
    job.add_argument("--results", type=Path, default=ROOT / "build" / "reproduced" / "results",
                     help="where new results go; default build/reproduced/results")  # fmt: skip
    job.add_argument("--output", type=Path, default=ROOT / "build" / "reproduced",
                     help="where the table goes; default build/reproduced")  # fmt: skip
    job.add_argument("--kept", type=Path, help="checkpoints; default queue/ in the cache")
    job.set_defaults(do=reproduce_table)
    job = jobs.add_parser("describe", help="results as an RO-Crate, bundled images as a Croissant")
    job.set_defaults(do=describe)


def write_report(options) -> int:
    """Print what is covered, skipped and stale, or make pages of it anew."""
    from .. import papers
    from ..experiments import everything
    from ..papers import ledger
    from . import challenge, front, numbers_page, tables

    if options.readme:
        front.draw()
        print("new: " + (", ".join(tables.update_readme()) or "nothing"))
    if options.numbers:
        print("data/results/NUMBERS.md: " + ("new" if numbers_page.update_page() else "as it was"))
    if options.papers:
        print("\n".join(challenge.update()))
    if options.readme or options.numbers or options.papers:
        return 0
    made, book = tables.build(options.results), papers.claims()
    for fault in made.faults:
        print(f"skipped {fault}")
    print(made.coverage(book).to_string(index=False))
    print(ledger.counts(book).to_string())
    print("\n" + everything.in_words(options.results, every=options.all))
    return 0


def reproduce_table(options) -> int:
    """Say what a table needs, play what is missing, print and write it."""
    from .reproduce import reproduce

    return reproduce(options)


def describe(options) -> int:
    """Write what machines read about the data, where it is not of today."""
    from . import metadata

    print("\n".join(metadata.update()))
    return 0
