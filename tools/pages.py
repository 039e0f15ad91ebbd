"""Pages that are made from results: the README's findings, REPRODUCED.md and NUMBERS.md.

python -m tools.pages             print how much of each printed table is measured
python -m tools.pages --write     make the parts of the pages anew
"""

import argparse
from pathlib import Path

import pandas as pd

from fedtutor import papers
from fedtutor.__main__ import carry_out
from fedtutor.engine.files import ROOT
from fedtutor.papers import ledger
from fedtutor.papers.printed import tables
from fedtutor.report.tables import COLUMNS, PAPER, Report, build

from . import front, markdown, numbers

REPRODUCED = "data/results/REPRODUCED.md"
BEGIN = "<!-- made by: python -m tools.pages -->"


def main(arguments: list[str] | None = None) -> int:
    """Print what is measured, or write the pages; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.pages", description=__doc__)
    parser.add_argument("--write", action="store_true", help="make the parts of the pages anew")
    parser.set_defaults(do=write_pages)
    return carry_out(parser, arguments)


def write_pages(options) -> int:
    made, book = build(), papers.claims()
    if options.write:
        front.draw()
        print("new: " + (", ".join(update(made, book)) or "nothing"))
        return 0
    for fault in made.faults:
        print(f"skipped {fault}")
    print(made.coverage(book).to_string(index=False))
    print(ledger.counts(book).to_string())
    named, by_chance = ledger.expected_false(book)
    print(f"{named} directions; about {by_chance:.0f} of them may be false by chance")
    return 0


def update(made: Report, book: pd.DataFrame, folder: Path = ROOT) -> list[str]:
    """Make the parts of all pages below `folder` anew; the names of the pages that changed."""
    pages = {
        "README.md": front.parts(made.coverage(book), book, COLUMNS),
        REPRODUCED: {BEGIN: reproduced(made, book)},
        numbers.PAGE: numbers.parts(numbers.effects()),
    }
    made_anew = [
        (name, markdown.update(folder / name, part, begin))
        for name, parts in pages.items()
        for begin, part in parts.items()
    ]
    return list(dict.fromkeys(name for name, changed in made_anew if changed))


def reproduced(made: Report, book: pd.DataFrame) -> str:
    """Markdown: a line per paper, and all accuracies at a paper's own settings and data."""
    coverage = made.coverage(book).groupby("paper", sort=False)
    sums = coverage[["numbers", *COLUMNS.values()]].sum()
    sums.insert(0, "tables", coverage.size())
    lines = [_markdown(sums), "", _markdown(ledger.counts(book))]
    for paper, key in tables():
        for block in made.blocks(paper, key):
            if block.setting == PAPER:
                about = f"{paper}, Table {key} (*{block.run}*, seeds {block.seeds})"
                lines += ["", f"{about}, printed; measured in %:", "", _markdown(block.grid)]
                lines += ["", f"Differs from the paper in: {block.differs}."]
    return "\n".join(lines)


def _markdown(frame: pd.DataFrame) -> str:
    return markdown.table(["", *frame.columns], frame.itertuples())


if __name__ == "__main__":
    raise SystemExit(main())
