"""What `python -m fedtutor report` does."""

from pathlib import Path

from ..engine.files import ROOT


def register(jobs) -> None:
    """Enter report into the command line."""
    job = jobs.add_parser("report", help="the papers' tables and claims beside what was measured")
    job.add_argument("--results", type=Path, default=ROOT / "data" / "results",
                     help="where results lie; default data/results")  # fmt: skip
    job.add_argument("--readme", action="store_true", help="write the table into README.md")
    job.add_argument("--numbers", action="store_true",
                     help="write the tables of data/results/NUMBERS.md")  # fmt: skip
    job.add_argument("--all", action="store_true",
                     help="list all that is stale, dirty, or does not know its code")  # fmt: skip
    job.set_defaults(do=write_report)


def write_report(options) -> int:
    """Print what is covered, skipped and stale, or make the README's table anew."""
    from .. import papers
    from ..experiments import stale
    from ..papers import ledger
    from . import numbers_page, tables

    if options.readme:
        print("README.md: " + ("new" if tables.update_readme() else "as it was"))
        return 0
    if options.numbers:
        print("data/results/NUMBERS.md: " + ("new" if numbers_page.update_page() else "as it was"))
        return 0
    made, book = tables.build(options.results), papers.claims()
    for fault in made.faults:
        print(f"skipped {fault}")
    print(made.coverage(book).to_string(index=False))
    print(ledger.counts(book).to_string())
    print("\n" + stale.in_words(stale.states(options.results), every=options.all))
    return 0
