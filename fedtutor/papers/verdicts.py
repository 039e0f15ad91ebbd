"""What is said of a paper's claim: one number per seed becomes a verdict.

The cell that shows a notebook's claims, as cards or as a table, leaves the same as data in its
output, below a MIME type of its own; `records_in` reads it from there.
"""

import re
import statistics
from collections.abc import Mapping, Sequence
from math import floor, log10

import pandas as pd

from ..difference import MARGIN, Difference, decided
from ..engine.files import DATA, load_json
from ..engine.kinds import twelve_digits
from ..errors import SettingError, choose
from .cards import cards_page
from .printed import PAPERS, claims_of

HOLDS, FAILS = "holds", "does not hold"  # of exact facts alone
AHEAD, BEHIND = "ahead", "behind"  # of zero, on the side that the claim expects or on the other
NO_VERDICT, NOT_TESTABLE = "no verdict", "not testable here"
PAPERS_OWN, SMALLER, OTHER_IMAGES = "the paper's setting", "a smaller setting", "other images"
GATES = DATA / "gates.json"  # claim -> why there can be no verdict; made by tools/gates.py
LIVE = " (live)"  # behind a verdict that another processor may turn; `tests/nbval.cfg` knows it
RECORDS = "application/vnd.fedtutor.claims+json"
COLUMNS = ["claim", "where", "paper", "measured", "verdict", "size", "at", "setting"]


def spread(values: Sequence[float], digits: int | None = 2, *, signed: bool = False) -> str:
    """Like `87.3 ± 1.2`: mean and standard deviation over seeds (divisor n - 1); "-" for none.

    One value has no deviation. With `digits` None there are as many as the deviation allows.
    """
    values = [float(value) for value in values]
    if not values:
        return "-"
    mean, plus = twelve_digits(statistics.fmean(values)), "+" if signed else ""
    sd = twelve_digits(statistics.stdev(values)) if len(values) > 1 else None
    if digits is None and not sd:
        whole = mean == round(mean) and abs(mean) < 1e12
        return f"{mean:{plus}{',.0f' if whole else '.4g'}}" + " ± 0" * (sd is not None)
    if digits is None:
        digits = min(9, max(0, 1 - floor(log10(sd))))
    return f"{mean:{plus},.{digits}f}" + ("" if sd is None else f" ± {sd:,.{digits}f}")


def direction(values: Sequence[float]) -> int:
    """+1, -1 or 0: on which side of zero the 95 % interval of the mean lies; see `Difference`."""
    return Difference(tuple(values)).direction


def weakest(comparisons: Mapping[str, Sequence[float]]) -> str:
    """Which of several comparisons decides a claim that expects all to be positive.

    comparisons: what is compared -> one number per seed. See `difference.decided`.
    """
    return decided({name: Difference(tuple(v)) for name, v in comparisons.items()})[0]


def kind(verdict: str) -> str:
    """A verdict without its details: how little, or which data set is absent."""
    for plain in (NOT_TESTABLE, AHEAD, BEHIND):
        if verdict.startswith(plain):
            return plain
    return verdict


def margin_of(unit: str) -> float | None:
    """The difference that does not matter: a point where points are counted, else nobody knows."""
    return MARGIN if unit.startswith("point") else None


class Claims:
    """The claims of `papers` and of one notebook, with what the notebook measured for them.

    Measuring a claim again replaces the first measurement, so that a cell can be run twice.
    """

    def __init__(self, *papers: str):
        self._claims = {c["id"]: c for paper in papers for c in claims_of(paper)}
        self._gates = load_json(GATES) if GATES.is_file() else {}
        self._records: dict[str, dict] = {}

    def add(self, id: str, statement: str, where: str) -> None:
        """Enter a claim of the notebook itself, e.g. `add("start-01", "...", "section 3")`."""
        prefixes = {c["id"].partition("-")[0] for paper in PAPERS for c in claims_of(paper)}
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", id) or id.partition("-")[0] in prefixes:
            raise SettingError(
                f"claim id {id!r}",
                where="Claims.add",
                do="write the notebook's own prefix and a number, such as 'start-01'",
            )
        self._claims[id] = {"statement": statement, "where": where, "direction": "-"}

    def measure(
        self,
        id: str,
        values: Sequence[float] | Mapping[str, Sequence[float]],
        *,
        claimed: int,
        unit: str,
        setting: str,
        stand_in: bool,
        paper: str | float | None = None,
        recorded: bool = False,
        says: str = "",
        exact: bool = False,
    ) -> None:
        """Enter one value per seed for a claim, and judge it.

        `values` of several comparisons (name -> one value per seed) are a claim about all of them,
        such as "ahead of every rival": `difference.decided` says which decides, and whether it is
        behind after a correction for looking at several.

        `claimed` is the sign that the claim gives to the values: +1 or -1, or 0 for a claim that
        there is no difference that matters. The verdict is *ahead* where the interval lies on the
        claimed side of zero, *behind* on the other; see `Difference`. It is *no verdict* where
        `data/published/claims.json` or `data/gates.json` say why our setting cannot tell.
        `paper` is the paper's number (default: the claim's own words); `recorded` says that the
        values come from committed results; `stand_in`, that the images are not the paper's.

        `says` is the sentence of the claim's card (see `cards`), in which "{value}" is the mean
        with its 95 % interval. `exact` is for a fact without chance, such as a number of bytes: it
        *holds* if every value has the claimed sign, one value is enough, and "{value}" is the
        value, if all are equal. Raises `SettingError` for exact values of which some hold and some
        do not.
        """
        if claimed not in (1, 0, -1) or isinstance(claimed, bool) or (exact and not claimed):
            raise SettingError(
                f"claimed = {claimed!r}",
                where=f"claim {id}",
                do="give +1, -1, or 0 for no difference",
            )
        claim = self._claims[choose(id, self._claims, kind="claim", where="this ledger")]
        about = {"unit": unit, "margin": margin_of(unit), "reported": claim.get("reported")}
        sign = claimed or 1
        if isinstance(values, Mapping):
            several = {n: Difference(_numbers(id, v, sign), **about) for n, v in values.items()}
            found = decided(several)[1]
        else:
            found = Difference(_numbers(id, values, sign), **about)
        holm = found.corrected or 0.0 if found.mean < 0 else 0.0  # it was picked among several
        plain = [sign * value for value in found.values]
        why = claim.get("no_verdict") or self._gates.get(id, "")
        said = _of_a_fact(id, found.values) if exact else NO_VERDICT if why else found.verdict
        shown = Difference(plain, unit=unit)
        seeds = f"{found.n} seed{'s' * (found.n > 1)}"
        value, measured = shown.estimate, f"{shown.estimate} {unit} ({seeds})"
        if exact:
            value, why = spread(plain[:1], None), ""
            whole = len(set(plain)) == 1 and plain[0].is_integer() and unit
            measured = f"exact: {value} {unit}" if whole else "exact"
        for name in re.findall(r"\{(.*?)\}", says):
            known = [] if exact and len(set(plain)) > 1 else ["value"]
            choose(name, known, kind="number", where=f"what the card of {id} says")
        at = "-" if exact else OTHER_IMAGES if stand_in else _setting(setting)
        size = (
            f"the paper's {found.reported:+g} is {found.size}" if found.size and not exact else ""
        )
        self._enter(
            id,
            paper,
            measured=measured,
            verdict=said,
            because=why,
            size=size.replace("is agrees", "agrees"),
            at=at,
            setting=f"{setting}; {'recorded' if recorded else 'measured here'}",
            live=not recorded,
            values=[float(f"{value:.6g}") for value in plain],
            p=float(f"{max(found.p, holm):.3g}"),
            unit=unit,
            claimed=claimed,
            sentence=says.replace("{value}", value),
            exact=exact,
        )

    def not_testable(self, id: str, why: str) -> None:
        """Enter that a claim cannot be tested here: only where a data set is absent; name it."""
        if not why.strip():
            raise SettingError(
                f"claim {id} without a reason",
                where="Claims.not_testable",
                do="name the data set that is absent",
            )
        self._enter(
            id,
            measured="-",
            verdict=f"{NOT_TESTABLE}: {why}",
            because="",
            size="",
            at="-",
            setting="-",
            live=False,
            values=[],
            p=1.0,
            unit="",
            claimed=0,
            sentence="",
            exact=False,
        )

    def records(self) -> list[dict]:
        """One entry per claim that was measured or set aside, in the order of the ledger.

        `id` and the columns of `table` in words; `live`: computed by this notebook, so that another
        processor may turn the verdict; `values`: one per seed, at six digits; `p` of a paired
        t-test, corrected by Holm if it is below zero and one of several; `unit`; `claimed`: the
        sign that the claim gives to the values; `because`: why there is no verdict; `sentence`:
        what its card says, "" where nobody wrote it; `exact`: a fact without chance.
        """
        return [self._records[id] for id in self._claims if id in self._records]

    def table(self) -> pd.DataFrame:
        """claim | where | paper | measured | verdict | size | at | setting of measured claims.

        Shown by a notebook's cell, it leaves its records in the cell's output.
        """
        records = self.records()
        table = _Table(records, columns=COLUMNS, index=[record["id"] for record in records])
        table.attrs["records"] = records
        return table

    def cards(self) -> "_Cards":
        """One card per measured claim, the whole table folded below: the last line of a cell.

        A card has the claim, its verdict, the sentence that `measure` was given, and where. It
        leaves its records in the cell's output, where the validation of the notebooks does not look
        at them. That compares the words of recorded claims; of a live one, that it is there.
        """
        return _Cards(self.records(), self.table())

    def verdicts(self) -> None:
        """Print one line per measured claim: id and verdict, and whether it was measured live.

        So the validation of the notebooks compares that the line of a live verdict is there, and
        not what it says: on another processor it may be another one.
        """
        for line in _lines(self.records()):
            print(line)

    def _enter(self, id: str, paper: str | float | None = None, **found) -> None:
        claim = self._claims[choose(id, self._claims, kind="claim", where="this ledger")]
        said = str(claim["direction"] if paper is None else paper)
        about = {"id": id, "claim": claim["statement"], "where": claim["where"], "paper": said}
        self._records[id] = {**about, **found}


def _numbers(id: str, values: Sequence[float], sign: int) -> list[float]:
    """The values with the sign that makes the claim positive."""
    try:
        return [sign * float(value) for value in values]
    except (TypeError, ValueError):
        raise SettingError(
            f"values = {values!r}", where=f"claim {id}", do="give a finite number per seed"
        ) from None


def _of_a_fact(id: str, values: Sequence[float]) -> str:
    """The verdict on a fact without chance; one value may stand for all."""
    right = {value > 0 for value in values}
    if len(right) > 1:
        raise SettingError(
            f"values = {list(values)!r} of an exact claim",
            where=f"claim {id}",
            do="leave out exact=True: these seeds disagree",
        )
    return HOLDS if right == {True} else FAILS


def _setting(words: str) -> str:
    return PAPERS_OWN if re.search(r"\bpaper\b", words) else SMALLER


def _lines(records: Sequence[dict]) -> list[str]:
    """Id and verdict of each claim, and what "live" means."""
    lines = [f"{r['id']:<14} {r['verdict']}{LIVE * r['live']}" for r in records]
    if any(record["live"] for record in records):
        lines.append("(live: measured here; another processor may come to another verdict)")
    return lines


class _Cards:
    """Cards as HTML, verdicts as plain text, and the records in the output's metadata."""

    def __init__(self, records: list[dict], ledger: pd.DataFrame):
        self.records, self.ledger = records, ledger

    def __repr__(self) -> str:
        return "\n".join(_lines(self.records))

    def _repr_mimebundle_(self, include=None, exclude=None):
        page = cards_page(self.records, self.ledger)
        return {"text/html": page, "text/plain": repr(self)}, {RECORDS: self.records}


class _Table(pd.DataFrame):
    """A table that hands its records over with what it shows. A part of it is a plain frame."""

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {RECORDS: self.attrs["records"]}


def records_in(notebook: dict) -> list[dict]:
    """The records (see `Claims.records`) that an executed notebook has in its outputs."""
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    places = [output.get(key, {}) for output in outputs for key in ("data", "metadata")]
    return [record for place in places for record in place.get(RECORDS, [])]
