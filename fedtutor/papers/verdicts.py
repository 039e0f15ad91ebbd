"""The rule by which a claim is judged, and what a notebook measured for each.

The cell that shows a notebook's claims, as cards or as a table, leaves the same as data in its
output, below a MIME type of its own; `records_in` reads it from there.
"""

import re
import statistics
from collections.abc import Mapping, Sequence
from math import floor, isfinite, log10

import pandas as pd

from ..engine.kinds import twelve_digits
from ..errors import SettingError, choose
from .cards import cards_page
from .printed import PAPERS, claims_of

HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"
FOR_STAND_IN = {HOLDS: "consistent with", FAILS: "inconsistent with", UNDECIDED: UNDECIDED}
NOT_TESTABLE = "not testable here"
LIVE = " (live)"  # behind a verdict that another processor may turn; `tests/nbval.cfg` knows it
RECORDS = "application/vnd.fedtutor.claims+json"
COLUMNS = ["claim", "where", "paper", "measured", "verdict", "setting"]


def spread(values: Sequence[float], digits: int | None = 2, *, signed: bool = False) -> str:
    """Like `87.3 ± 1.2`: mean and standard deviation over seeds (divisor n - 1); "-" for none.

    One value has no deviation. With `digits` None there are as many as the deviation allows. Where
    rounding would put the mean on the wrong side of two deviations, the line that a verdict asks
    about, up to two more digits are shown.
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
    if sd:
        more = (digits, digits + 1, digits + 2)
        right = [n for n in more if _told(round(mean, n), round(sd, n)) == _told(mean, sd)]
        digits = right[0] if right else digits
    return f"{mean:{plus},.{digits}f}" + ("" if sd is None else f" ± {sd:,.{digits}f}")


def _told(mean: float, sd: float) -> bool:
    return abs(mean) > 2 * sd


def verdict(values: Sequence[float], claimed: int) -> str:
    """What the seeds say about a claim that a quantity is positive (+1) or negative (-1).

    "holds": every seed has the claimed sign and the mean is more than two standard deviations
    (divisor n - 1) from zero. "does not hold": the same with the other sign. "undecided":
    neither; one seed alone is undecided. Raises `SettingError` for values that are no numbers.
    """
    if claimed not in (1, -1) or isinstance(claimed, bool):
        raise SettingError(f"claimed = {claimed!r}", where="verdict",
                           do="give +1 (positive) or -1 (negative)")  # fmt: skip
    try:
        signed = [claimed * float(value) for value in values]
    except (TypeError, ValueError):
        signed = []
    if not signed or not all(isfinite(value) for value in signed):
        raise SettingError(f"values = {values!r}", where="verdict",
                           do="give one finite number per seed")  # fmt: skip
    if len(signed) == 1 or not _told(statistics.fmean(signed), statistics.stdev(signed)):
        return UNDECIDED
    if all(value > 0 for value in signed):
        return HOLDS
    return FAILS if all(value < 0 for value in signed) else UNDECIDED


def weakest(comparisons: Mapping[str, Sequence[float]], claimed: int = 1) -> str:
    """Which of several comparisons decides a claim that expects the same of all of them.

    comparisons: what is compared -> one value per seed; claimed: as in `verdict`. "Ahead of every
    rival" holds if each comparison holds, and does not hold if any of them does not; so the verdict
    on the named comparison is the verdict on the claim. It is one comparison for all seeds: the
    smallest value of each seed would be below zero even between equals.
    """
    order = (FAILS, UNDECIDED, HOLDS)
    return min(comparisons, key=lambda name: (
        order.index(verdict(comparisons[name], claimed)),
        claimed * statistics.fmean(comparisons[name]),
    ))  # fmt: skip


def kind(verdict: str) -> str:
    """A verdict without what follows it, such as the data set that is absent."""
    return NOT_TESTABLE if verdict.startswith(NOT_TESTABLE) else verdict


class Claims:
    """The claims of `papers` and of one notebook, with what the notebook measured for them.

    Measuring a claim again replaces the first measurement, so that a cell can be run twice.
    """

    def __init__(self, *papers: str):
        self._claims = {c["id"]: c for paper in papers for c in claims_of(paper)}
        self._records: dict[str, dict] = {}

    def add(self, id: str, statement: str, where: str) -> None:
        """Enter a claim of the notebook itself, e.g. `add("start-01", "...", "section 3")`."""
        prefixes = {c["id"].partition("-")[0] for paper in PAPERS for c in claims_of(paper)}
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", id) or id.partition("-")[0] in prefixes:
            raise SettingError(f"claim id {id!r}", where="Claims.add", do="write the notebook's "
                               "own prefix and a number, such as 'start-01'")  # fmt: skip
        self._claims[id] = {"statement": statement, "where": where, "direction": "-"}

    def measure(self, id: str, values: Sequence[float], *, claimed: int, unit: str, setting: str,
                stand_in: bool, paper: str | float | None = None, recorded: bool = False,
                says: str = "", exact: bool = False) -> None:  # fmt: skip
        """Enter one value per seed for a claim, and judge it (see `verdict`).

        `claimed` is the sign that the claim gives to the values; `paper` the paper's number
        (default: the claim's own words); `recorded` says that the values come from committed
        results; with `stand_in` data a claim can be consistent or inconsistent with what was
        measured, and no more.

        `says` is the sentence of the claim's card (see `cards`), in which "{value}" is the mean
        with its sign and ± the standard deviation. `exact` is for a fact without spread, such as a
        number of bytes: it holds if every value has the claimed sign, one value is enough, and in
        place of a mean the ledger says "exact"; "{value}" is then the value, if all are equal.
        Raises `SettingError` for exact values of which some hold and some do not.
        """
        said = _of_a_fact(id, values, claimed) if exact else verdict(values, claimed)
        values = [float(value) for value in values]
        mean, seeds = spread(values, None, signed=True), f"{len(values)} seed"
        measured = f"{mean} {unit} ({seeds}{'s' * (len(values) > 1)})"
        if exact:
            mean = spread(values[:1], None)
            whole = len(set(values)) == 1 and values[0].is_integer() and unit
            measured = f"exact: {mean} {unit}" if whole else "exact"
        for name in re.findall(r"\{(.*?)\}", says):
            known = [] if exact and len(set(values)) > 1 else ["value"]
            choose(name, known, kind="number", where=f"what the card of {id} says")
        self._enter(
            id, paper, measured=measured, verdict=FOR_STAND_IN[said] if stand_in else said,
            setting=f"{setting}; {'recorded' if recorded else 'measured here'}", live=not recorded,
            values=[float(f"{value:.6g}") for value in values], unit=unit, claimed=claimed,
            sentence=says.replace("{value}", mean), exact=exact,
        )  # fmt: skip

    def not_testable(self, id: str, why: str) -> None:
        """Enter that a claim cannot be tested here: only where a data set is absent; name it."""
        if not why.strip():
            raise SettingError(f"claim {id} without a reason", where="Claims.not_testable",
                               do="name the data set that is absent")  # fmt: skip
        self._enter(id, measured="-", verdict=f"{NOT_TESTABLE}: {why}", setting="-", live=False,
                    values=[], unit="", claimed=0, sentence="", exact=False)  # fmt: skip

    def records(self) -> list[dict]:
        """One entry per claim that was measured or set aside, in the order of the ledger.

        `id` and the columns of `table` in words; `live`: computed by this notebook, so that another
        processor may turn the verdict; `values`: one per seed, at six digits; `unit`; `claimed`:
        the sign that the claim gives to the values, 0 where nothing was measured; `sentence`: what
        its card says, "" where nobody wrote it; `exact`: a fact without spread.
        """
        return [self._records[id] for id in self._claims if id in self._records]

    def table(self) -> pd.DataFrame:
        """claim | where | paper | measured | verdict | setting of all measured claims, by id.

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
        self._records[id] = {"id": id, "claim": claim["statement"], "where": claim["where"],
                             "paper": said, **found}  # fmt: skip


def _of_a_fact(id: str, values: Sequence[float], claimed: int) -> str:
    """The verdict on a fact without spread; one value may stand for all."""
    values = list(values)
    verdict(values, claimed)  # refuses what is no number
    right = {claimed * float(value) > 0 for value in values}
    if len(right) > 1:
        raise SettingError(f"values = {values!r} of an exact claim", where=f"claim {id}",
                           do="leave out exact=True: these seeds disagree")  # fmt: skip
    return HOLDS if right == {True} else FAILS


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
