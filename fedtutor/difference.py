"""The difference of two methods, seed by seed: how large it is, and what may be said of it.

    Difference([1.9, 2.4, 0.8, 2.2, 1.6], "fccl+", "fccl").verdict      # "ahead"

The direction comes first. Where the 95 % interval of the mean (Student's t) lies on one side of
zero, one method is ahead. Where it does not, two one-sided tests ask whether the difference is
smaller than a margin that matters. Where they cannot say so either, it is too close to call, and
`seeds_needed` says how many seeds would be likely to settle it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy

from .errors import SettingError

LEVEL = 0.05  # of every test
MARGIN = 1.0  # points of accuracy below which a difference does not matter
AGREES_WITHIN = 2.0  # points between a measured and a reported number
POWER = 0.8  # of the number of seeds that a difference would take

NO_DIFFERENCE, TOO_CLOSE = "no difference that matters", "too close to call"
AGREES, EXCLUDED, NOT_EXCLUDED = "agrees", "excluded here", "not excluded here"


@dataclass(frozen=True)
class Difference:
    """One number per seed, such as the accuracy of `a` minus that of `b` with the same seed.

    values: finite numbers, one per seed, in `unit`. words: what a positive and a negative mean are
    called, such as ("rises", "falls"). margin: differences within ± margin do not matter; None
    where nobody can name one, and then no difference is ever called small. reported: the number
    that a paper prints for the same difference. corrected: a p-value that stands in the place of
    this difference's own before it is called *behind*, because it was picked among several (see
    `decided`). setting: images and rounds, in words; stand_in: whether the images are not those of
    the paper. Raises `SettingError` for values that are no finite numbers.
    """

    values: Sequence[float]
    a: str = "a"
    b: str = "b"
    on: str = ""
    unit: str = "points"
    words: tuple[str, str] = ("ahead", "behind")
    margin: float | None = MARGIN
    reported: float | None = None
    corrected: float | None = None
    setting: str = ""
    stand_in: bool = False

    def __post_init__(self):
        try:
            values = tuple(float(value) for value in self.values)
        except (TypeError, ValueError):
            values = ()
        if not values or not all(map(math.isfinite, values)):
            raise SettingError(
                f"values = {self.values!r}", where="Difference", do="give a finite number per seed"
            )
        if self.margin is not None and not self.margin > 0:
            raise SettingError(
                f"margin = {self.margin!r}", where="Difference", do="give a number above 0, or None"
            )
        object.__setattr__(self, "values", values)

    @property
    def n(self) -> int:
        """The number of seeds."""
        return len(self.values)

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))

    @property
    def sd(self) -> float:
        """Sample standard deviation over seeds (divisor n - 1); nan for one seed.

        Last digits count as zero, so that equal numbers have no spread.
        """
        if self.n == 1:
            return math.nan
        sd = float(np.std(self.values, ddof=1))
        return sd if sd > 1e-12 * max(map(abs, self.values)) else 0.0

    def interval(self, level: float = 1 - LEVEL) -> tuple[float, float]:
        """The t interval of the mean; without end for one seed."""
        return self._around(level, math.sqrt(1 / self.n))

    @property
    def low(self) -> float:
        """Lower end of the 95 % interval."""
        return self.interval()[0]

    @property
    def high(self) -> float:
        """Upper end of the 95 % interval."""
        return self.interval()[1]

    @property
    def prediction(self) -> tuple[float, float]:
        """Where one more run would lie with 95 %: a printed number is often one run."""
        return self._around(1 - LEVEL, math.sqrt(1 + 1 / self.n))

    @property
    def p(self) -> float:
        """Two-sided p-value of a mean of zero (paired t-test); 1 for one seed."""
        if self.n == 1:
            return 1.0
        if self.sd == 0:
            return 0.0 if self.mean else 1.0
        return float(scipy.stats.ttest_1samp(self.values, 0.0).pvalue)

    @property
    def direction(self) -> int:
        """+1 or -1 where the 95 % interval lies on that side of zero, else 0."""
        if self.p >= LEVEL:
            return 0
        if self.mean > 0:
            return 1
        return -1 if self.corrected is None or self.corrected < LEVEL else 0

    @property
    def small(self) -> bool:
        """Whether the mean lies within ± margin, by two one-sided tests at 5 % each."""
        return self.margin is not None and self._within(0.0, self.margin)

    @property
    def verdict(self) -> str:
        """What may be said: see the head of this file."""
        if self.direction:
            word = self.words[0 if self.direction > 0 else 1]
            low, high = self.interval()
            tiny = self.margin is not None and -self.margin < low and high < self.margin
            return f"{word} by less than {_amount(self.margin, self.unit)}" if tiny else word
        return NO_DIFFERENCE if self.small else TOO_CLOSE

    @property
    def seeds_needed(self) -> int | None:
        """Seeds after which a verdict is likely (80 %), if mean and deviation are what they seem.

        It is the smaller number of two: for a direction, and for a difference that does not
        matter. None with one seed, and where the mean is zero and there is no margin.
        """
        if self.n == 1 or self.sd == 0:
            return None
        found, effect = [], abs(self.mean) / self.sd
        if effect > 1e-3:
            found.append(_seeds_for_direction(effect))
        room = 0.0 if self.margin is None else (self.margin - abs(self.mean)) / self.sd
        if room > 1e-3:
            found.append(_seeds_for_equivalence(self.mean / self.sd, self.margin / self.sd))
        return max(min(found), self.n + 1) if found else None

    @property
    def size(self) -> str:
        """Whether the reported number is met here: *agrees*, *excluded here*, *not excluded here*.

        It agrees only where the mean lies within two points of it, by two one-sided tests. It is
        excluded where it lies outside the prediction interval. "" where nothing is reported, or
        there is one seed.
        """
        if self.reported is None or self.n == 1:
            return ""
        if self._within(self.reported, AGREES_WITHIN):
            return AGREES
        low, high = self.prediction
        return NOT_EXCLUDED if low <= self.reported <= high else EXCLUDED

    def __str__(self) -> str:
        place = f", {self.on}" * bool(self.on)
        text = f"{self.a} minus {self.b}{place}: {self.estimate} {self.unit}".rstrip()
        text += f", {self.n} seed{'s' * (self.n > 1)}: {self.verdict}"
        if self.verdict == TOO_CLOSE and (needed := self.seeds_needed):
            text += f" (about {needed:,} seeds might tell)"
        if self.size:
            text += f"; the reported {self.reported:+g}: {self.size}"
        return text

    @property
    def estimate(self) -> str:
        """Mean and 95 % interval as text, each with its sign: "+1.8 [+0.9, +2.7]"."""
        digits = self._digits()
        mean, low, high = (_signed(value, digits) for value in (self.mean, *self.interval()))
        return mean if self.n == 1 else f"{mean} [{low}, {high}]"

    def _digits(self) -> int:
        """At least one; as many as show the interval's width and the side of 0 of each end."""
        ends = [self.mean] if self.n == 1 else [self.mean, *self.interval()]
        least = min((abs(value) for value in ends if value), default=1.0)
        wanted = (
            1
            if max(map(abs, ends)) >= 0.5
            else 1 - math.floor(math.log10(max(map(abs, ends)) or 1))
        )
        if (width := max(ends) - min(ends)) > 1e-9:
            wanted = max(wanted, -math.floor(math.log10(width)))
        return min(9, wanted if round(least, wanted) else wanted + 1)

    def _around(self, level: float, width: float) -> tuple[float, float]:
        if self.n == 1:
            return -math.inf, math.inf
        half = float(scipy.stats.t.ppf((1 + level) / 2, self.n - 1)) * self.sd * width
        return self.mean - half, self.mean + half

    def _within(self, center: float, margin: float) -> bool:
        """Two one-sided tests: does the mean lie within `center` ± `margin`?"""
        low, high = self.interval(1 - 2 * LEVEL)
        return center - margin < low and high < center + margin


def decided(comparisons: Mapping[str, Difference]) -> tuple[str, Difference]:
    """Which of several comparisons decides the claim that a method is ahead of all others.

    It is ahead of all only if it is ahead in each comparison, so the largest p-value decides, and
    no correction is needed. It is behind some if one comparison says so after Holm's correction for
    looking at several. Returns its name and the comparison, with the corrected p-value.
    """
    if not comparisons:
        raise SettingError("no comparisons", where="decided", do="give at least one")
    p = _holm({name: found.p for name, found in comparisons.items()})

    def lead(name: str) -> tuple:
        found = comparisons[name]
        behind = found.mean < 0 and p[name] < LEVEL and found.p < LEVEL
        one_sided = found.p / 2 if found.mean > 0 else 1 - found.p / 2
        return (not behind, p[name] if behind else -one_sided, found.mean)

    name = min(comparisons, key=lead)
    return name, replace(comparisons[name], corrected=p[name])


def _holm(p: Mapping[str, float]) -> dict[str, float]:
    """Holm's adjusted p-values: the smallest times their number, the next times one less, ..."""
    adjusted, largest = {}, 0.0
    for place, name in enumerate(sorted(p, key=p.get)):
        largest = max(largest, min(1.0, (len(p) - place) * p[name]))
        adjusted[name] = largest
    return adjusted


def against_reported(values: Sequence[float], reported: float) -> str:
    """What measured numbers say about a printed one: *agrees*, *above*, *below*, *open*.

    Agreement is equivalence within two points; above and below mean that the printed number lies
    outside the prediction interval. With one seed nothing can be said: "one seed".
    """
    found = Difference(values, reported=reported)
    if found.n == 1:
        return "one seed"
    if found.size == EXCLUDED:
        return "above" if found.mean > reported else "below"
    return {AGREES: "agrees", NOT_EXCLUDED: "open"}[found.size]


def _seeds_for_direction(effect: float) -> int:
    """Seeds with which a two-sided t-test finds a mean of `effect` deviations."""

    def power(n: int) -> float:
        t, shift = scipy.stats.t.ppf(1 - LEVEL / 2, n - 1), math.sqrt(n) * effect
        return scipy.stats.nct.sf(t, n - 1, shift)  # what the other side adds is no right verdict

    return _least(power)


def _seeds_for_equivalence(mean: float, margin: float) -> int:
    """Seeds with which two one-sided tests find a mean within the margin; both in deviations."""

    def power(n: int) -> float:
        df, root = n - 1, math.sqrt(n)
        t = scipy.stats.t.ppf(1 - LEVEL, df)
        above = scipy.stats.nct.sf(t, df, root * (mean + margin))
        below = scipy.stats.nct.cdf(-t, df, root * (mean - margin))
        return above + below - 1

    return _least(power)


def _least(power: Callable[[int], float]) -> int:
    """The smallest number of seeds, from 3, with enough power."""
    low, high = 2, 4
    while power(high) < POWER:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    return high


def _signed(value: float, digits: int) -> str:
    """A rounded number with its sign; a zero has none."""
    text = f"{value:+,.{digits}f}"
    return text[1:] if not float(text.replace(",", "")) else text


def _amount(margin: float, unit: str) -> str:
    return "a point" if margin == 1 and unit.startswith("points") else f"{margin:g} {unit}"
