"""What a laboratory shows: a printed table beside ours with differences, and cards in a fold."""

import re
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
import pandas as pd

from ..errors import choose
from ..papers import direction, spread, weakest
from .frame import sentence

MARK = ' style="font-weight: bold; outline: 2px solid currentColor"'
TOLD = "*: the seeds tell the difference from zero"


class Rows:
    """One table: a row per label, printed and measured, and the difference to a base row.

    measured: label -> accuracy, one number per seed, in percent; `home` the same on another side,
    named by `side`.
    printed: label -> the paper's number, where it has one. less: the base row, or label -> its own
    base. decides: the labels whose difference is marked. results: label -> what lies behind, given
    by `rows[label]`.
    """

    def __init__(self, caption: str, measured: Mapping[str, Sequence[float]], *,
                 less: str | Mapping[str, str], printed: Mapping[str, float] = {},
                 home: Mapping[str, Sequence[float]] = {}, decides: Sequence[str] = (),
                 base: str = "", results: Mapping = {},
                 side: str = "own domain"):  # fmt: skip
        self.caption, self.printed, self.results = caption, dict(printed), dict(results)
        self.measured = {label: np.asarray(values) for label, values in measured.items()}
        self.home = {label: np.asarray(values) for label, values in home.items()}
        self.less = {label: less for label in measured} if isinstance(less, str) else dict(less)
        for label in {*self.less, *self.less.values(), *self.printed, *decides}:
            choose(label, self.measured, kind="row", where=caption)
        self.decides, self.side = set(decides), side
        self.base = base or (less if isinstance(less, str) else "its base")

    def __getitem__(self, label: str):
        return self.results[choose(label, self.results, kind="row", where=self.caption)]

    def gains(self, label: str, over: str = "", *, home: bool = False) -> np.ndarray:
        """By how many points a row is ahead of another (default: its base), one per seed."""
        found = self.home if home else self.measured
        over = over or self.less[choose(label, self.less, kind="row", where=self.caption)]
        return found[choose(label, found, kind="row", where=self.caption)] - found[over]

    def said(self, label: str, over: str = "") -> str:
        """The same as text with a star where the seeds tell it from zero; see `starred`."""
        return starred(self.gains(label, over))

    def lead(self, label: str, over: Sequence[str]) -> np.ndarray:
        """By how many points a row leads the rival that decides; see `rival`."""
        return self.gains(label, self.rival(label, over))

    def rival(self, label: str, over: Sequence[str]) -> str:
        """Which of others decides whether a row is ahead of all of them; see `papers.weakest`."""
        return weakest({other: self.gains(label, other) for other in over})

    def columns(self) -> list[str]:
        """Names of the shown columns; without printed numbers or a home, theirs are left out."""
        printed = ["printed", "measured", f"minus {self.base}, printed"] if self.printed else [
            "measured"]  # fmt: skip
        return [
            *printed,
            f"minus {self.base}, measured",
            *[f"{self.side}, measured"] * bool(self.home),
        ]

    def line(self, label: str) -> list[str]:
        """The cells of a row, as text."""
        base = self.less.get(label)
        own = base in (None, label)
        gains = None if own else self.gains(label)
        said = "" if own else starred(gains)
        shown = self.printed.get(label)
        ahead = not own and shown is not None and base in self.printed
        cells = ["" if shown is None else f"{shown:.1f}"] if self.printed else []
        cells.append(spread(self.measured[label], 1))
        if self.printed:
            cells.append(f"{shown - self.printed[base]:+.1f}" if ahead else "")
        if self.home:
            return [*cells, said, spread(self.home[label], 1)]
        return [*cells, said]

    def frame(self) -> pd.DataFrame:
        """The same as a plain DataFrame of texts, for a fold."""
        lines = {label: self.line(label) for label in self.measured}
        return pd.DataFrame.from_dict(lines, orient="index", columns=self.columns())

    def __repr__(self) -> str:
        lines = [["", *self.columns()], *[[label, *self.line(label)] for label in self.measured]]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
                for line in lines]  # fmt: skip
        return "\n".join([f"{self.caption}. {TOLD}", *text])

    def _repr_html_(self) -> str:
        names, deciding = self.columns(), f"minus {self.base}, measured"
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in ["", *names])
        lines = ["<table>", f"<caption>{escape(self.caption)}. {TOLD}</caption>",
                 f"<thead><tr>{head}</tr></thead>", "<tbody>"]  # fmt: skip
        for label in self.measured:
            cells = "".join(
                f"<td{MARK if label in self.decides and name == deciding else ''}>"
                f"{escape(cell)}</td>"
                for name, cell in zip(names, self.line(label), strict=True)
            )
            lines.append(f'<tr><th scope="row">{escape(label)}</th>{cells}</tr>')
        return "\n".join([*lines, "</tbody>", "</table>"])


def deciding(comparisons: Mapping[str, Sequence[float]], says: str) -> tuple[Mapping, str]:
    """The comparisons of a claim about all of them, and what the card says of the deciding one.

    comparisons: in words ("FedLGD minus VHL, IPC 50") -> one value per seed; `says` has {name} for
    these words, beside {value}. See `papers.weakest`.
    """
    return comparisons, says.replace("{name}", weakest(comparisons))


def told(gains: Sequence[float]) -> str:
    """ " *" where the seeds tell differences from zero, by the rule of `papers.direction`."""
    return "" if direction(list(gains)) == 0 else " *"


class FoldedCards:
    """The cards of a ledger (`Claims.cards`), those named in `main` first, the others in a fold.

    Every card and the ledger's records stay in the output, as `cards` alone leaves them.
    """

    def __init__(self, cards, main: Sequence[str]):
        ids = [record["id"] for record in cards.records]
        for id in main:
            choose(id, ids, kind="claim", where="FoldedCards, main")
        self.cards, self.main = cards, list(main)

    def __repr__(self) -> str:
        return repr(self.cards)

    def _repr_mimebundle_(self, include=None, exclude=None):
        data, metadata = self.cards._repr_mimebundle_()
        page = data["text/html"]
        found = re.findall(r'<div class="claim[\s\S]*?</div>', page)
        ids = [record["id"] for record in self.cards.records]
        by_id = dict(zip(ids, found, strict=True))
        rest = [by_id[id] for id in ids if id not in self.main]
        fold = f"<details><summary>The other {len(rest)} cards</summary>\n{{}}\n</details>"
        shown = [by_id[id] for id in self.main] + ([fold.format("\n".join(rest))] if rest else [])
        ledger = page[page.index(found[-1]) + len(found[-1]) :]
        return {**data, "text/html": "\n".join(shown) + ledger}, metadata


def effect(what: str, gains: Sequence[float], where: str = "") -> str:
    """One clause: what a change gains or loses, in points, or that it is not told from zero.

    gains: one difference per seed, in points. Without a full stop, so that clauses can be joined.
    """
    where = f" {where}" if where else ""
    return sentence(
        gains,
        above=f"{what} gains {{value}} points{where}",
        below=f"{what} loses {{value}} points{where}",
        unclear=f"{what} changes accuracy{where} by {signed(gains)} points, not told from zero",
        digits=1,
    )


def against(what: str, other: str, gains: Sequence[float], where: str = "") -> str:
    """One clause: what is ahead of another or behind it, in points, or not told from it.

    gains: `what` minus `other`, one number per seed, in points.
    """
    where = f" {where}" if where else ""
    return sentence(
        gains,
        above=f"{what} is {{value}} points ahead of {other}{where}",
        below=f"{what} is {{value}} points behind {other}{where}",
        unclear=f"{what} is not told from {other}{where} ({signed(gains)} points)",
        digits=1,
    )


def starred(gains: Sequence[float]) -> str:
    """Mean ± sd as `signed` has it, with the star of `told`: "+1.2 ± 0.3 *"."""
    return signed(gains) + told(gains)


def signed(values: Sequence[float]) -> str:
    """Mean ± sd with the mean's sign and one digit; a mean that is zero has none."""
    return re.sub(r"^[+-](?=0\.0 )", "", spread(values, 1, signed=True))
