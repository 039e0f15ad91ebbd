"""The rule by which a claim is judged, and the ledger of what a notebook measured for each."""

import re
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, isfinite, log10

import pandas as pd

from ..errors import SettingError, choose
from .printed import claims, claims_of

HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"
FOR_STAND_IN = {HOLDS: "consistent with", FAILS: "inconsistent with", UNDECIDED: UNDECIDED}
NOT_TESTABLE = "not testable here"
LIVE = " (live)"  # behind a verdict that another processor may turn; `tests/nbval.cfg` knows it


def spread(values: Sequence[float], digits: int | None = 2, *, signed: bool = False) -> str:
    """Like `87.3 ± 1.2`: mean and standard deviation over seeds (divisor n - 1); "-" for none.

    One value has no deviation. With `digits` None there are as many as the deviation allows.
    """
    values = [float(value) for value in values]
    if not values:
        return "-"
    mean, sd, plus = statistics.fmean(values), None, "+" if signed else ""
    if len(values) > 1:
        sd = statistics.stdev(values)
    if digits is None and not sd:
        whole = mean == round(mean) and abs(mean) < 1e12
        return f"{mean:{plus}{',.0f' if whole else '.4g'}}" + " ± 0" * (sd is not None)
    if digits is None:
        digits = min(9, max(0, 1 - floor(log10(sd))))
    return f"{mean:{plus},.{digits}f}" + ("" if sd is None else f" ± {sd:,.{digits}f}")


def verdict(values: Sequence[float], claimed: int) -> str:
    """What the seeds say about a claim that a quantity is positive (+1) or negative (-1).

    "holds": every seed has the claimed sign and the mean is more than two standard deviations
    (divisor n - 1) from zero. "does not hold": the same with the other sign. "undecided":
    neither; one seed alone is undecided. Raises `SettingError` for values that are no numbers.
    """
    if claimed not in (1, -1) or isinstance(claimed, bool):
        raise SettingError(
            f"claimed = {claimed!r}", where="verdict", do="give +1 (positive) or -1 (negative)"
        )
    try:
        signed = [claimed * float(value) for value in values]
    except (TypeError, ValueError):
        signed = []
    if not signed or not all(isfinite(value) for value in signed):
        raise SettingError(
            f"values = {values!r}", where="verdict", do="give one finite number per seed"
        )
    if len(signed) == 1:
        return UNDECIDED
    mean, sd = statistics.fmean(signed), statistics.stdev(signed)
    if abs(mean) > 2 * sd and all(value > 0 for value in signed):
        return HOLDS
    if abs(mean) > 2 * sd and all(value < 0 for value in signed):
        return FAILS
    return UNDECIDED


@dataclass(frozen=True)
class Measurement:
    """What was measured for one claim."""

    paper: str  # the paper's number
    measured: str  # ours: mean ± standard deviation, seeds
    verdict: str
    live: bool  # computed by this notebook: another processor may turn the verdict
    setting: str


class Claims:
    """The ledger of one notebook: the claims of `papers` and its own, with our measurements.

    A notebook's own claims are entered with `add`. Measuring a claim again replaces the first
    measurement, so that a cell can be run twice.
    """

    def __init__(self, *papers: str):
        self._claims = {c["id"]: c for paper in papers for c in claims_of(paper)}
        self._measured: dict[str, Measurement] = {}

    def add(self, id: str, statement: str, where: str) -> None:
        """Enter a claim of the notebook itself, e.g. `add("start-01", "...", "section 3")`."""
        prefix = id.partition("-")[0]
        papers = {c["id"].partition("-")[0] for c in claims()}
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", id) or prefix in papers:
            raise SettingError(
                f"claim id {id!r}", where="Claims.add",
                do="write the notebook's own prefix and a number, such as 'start-01'",
            )  # fmt: skip
        self._claims[id] = {"id": id, "statement": statement, "where": where, "direction": "-"}

    def measure(self, id: str, values: Sequence[float], *, claimed: int, unit: str, setting: str,
                stand_in: bool, paper: str | float | None = None,
                recorded: bool = False) -> None:  # fmt: skip
        """Enter one value per seed for a claim, and judge it (see `verdict`).

        `claimed` is the sign that the claim gives to the values; `paper` the paper's number
        (default: the claim's own words); `recorded` says that the values come from committed
        results; with `stand_in` data a claim can be consistent or inconsistent with what was
        measured, and no more.
        """
        claim = self._claim(id)
        said = verdict(values, claimed)
        values = [float(value) for value in values]
        self._measured[id] = Measurement(
            paper=str(claim["direction"] if paper is None else paper),
            measured=_measured(values, unit), verdict=FOR_STAND_IN[said] if stand_in else said,
            live=not recorded,
            setting=f"{setting}; {'recorded' if recorded else 'measured here'}",
        )  # fmt: skip

    def not_testable(self, id: str, why: str) -> None:
        """Enter that a claim cannot be tested here: only where a data set is absent; name it."""
        if not why.strip():
            raise SettingError(
                f"claim {id} without a reason", where="Claims.not_testable",
                do="name the data set that is absent",
            )  # fmt: skip
        said = f"{NOT_TESTABLE}: {why}"
        self._measured[id] = Measurement(self._claim(id)["direction"], "-", said, False, "-")

    def missing(self) -> list[str]:
        """Ids of the claims that have neither been measured nor set aside."""
        return [id for id in self._claims if id not in self._measured]

    def table(self) -> pd.DataFrame:
        """claim | where | paper | measured | verdict | setting of all measured claims, by id."""
        rows = {}
        for id, claim in self._claims.items():
            if m := self._measured.get(id):
                start = (claim["statement"], claim["where"])
                rows[id] = (*start, m.paper, m.measured, m.verdict, m.setting)
        columns = ["claim", "where", "paper", "measured", "verdict", "setting"]
        return pd.DataFrame.from_dict(rows, orient="index", columns=columns)

    def verdicts(self) -> None:
        """Print one line per measured claim: id and verdict, and whether it was measured live.

        A live verdict may be another one on another processor. So the validation of the notebooks
        compares that the line is there, and not what it says.
        """
        shown = {id: self._measured[id] for id in self._claims if id in self._measured}
        for id, m in shown.items():
            print(f"{id:<14} {m.verdict}{LIVE * m.live}")
        if any(m.live for m in shown.values()):
            print("(live: measured here; another processor may come to another verdict)")

    def _claim(self, id: str) -> dict:
        return self._claims[choose(id, self._claims, kind="claim", where="this ledger")]


def verdicts_in(notebook) -> dict[str, int]:
    """How often each verdict was printed by the `claims` cells of an executed notebook."""
    known = [NOT_TESTABLE, *FOR_STAND_IN, *FOR_STAND_IN.values()]
    line = re.compile(rf"^[a-z0-9]+(?:-[a-z0-9]+)+ +({'|'.join(map(re.escape, known))})(?:$|:| )")
    cells = [c for c in notebook["cells"] if "claims" in c["metadata"].get("tags", [])]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    printed = "".join("".join(output.get("text", "")) for output in outputs).splitlines()
    return dict(Counter(match[1] for match in map(line.match, printed) if match))


def _measured(values: list[float], unit: str) -> str:
    """Like `+3.21 ± 0.40 points (3 seeds)`."""
    return (
        f"{spread(values, None, signed=True)} {unit} ({len(values)} seed{'s' * (len(values) > 1)})"
    )
