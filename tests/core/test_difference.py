"""What may be said of a difference: against scipy, by hand, and how often it is wrong."""

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.power import TTestPower
from statsmodels.stats.weightstats import DescrStatsW

from fedtutor.difference import (
    AGREES,
    EXCLUDED,
    NO_DIFFERENCE,
    NOT_EXCLUDED,
    TOO_CLOSE,
    Difference,
    against_reported,
    decided,
)
from fedtutor.errors import SettingError

SAMPLES = [
    (1.9, 2.4, 0.8, 2.2, 1.6),
    (-0.56, 1.4, -2.3),
    (0.1, -0.2, 0.05, 0.15, -0.1, 0.0),
    (12.0, -7.0),
    (0.4, 0.5, 0.45, 0.48),
]
MANY = st.lists(st.integers(-400, 400).map(lambda k: k / 100), min_size=2, max_size=12)


# --- the numbers, against others who compute them


@pytest.mark.parametrize("values", SAMPLES)
def test_interval_p_and_equivalence_are_those_of_scipy_and_statsmodels(values):
    d, other = Difference(values), DescrStatsW(values)
    assert (d.low, d.high) == pytest.approx(other.tconfint_mean(0.05), rel=1e-9)
    assert d.interval(0.9) == pytest.approx(other.tconfint_mean(0.1), rel=1e-9)
    assert d.p == pytest.approx(other.ttest_mean(0)[1], rel=1e-9)
    assert d.small == (other.ttost_mean(-1.0, 1.0)[0] < 0.05)
    above = stats.ttest_1samp(values, 1.0, alternative="less").pvalue
    below = stats.ttest_1samp(values, -1.0, alternative="greater").pvalue
    assert d.small == (max(above, below) < 0.05)


@pytest.mark.parametrize("values", SAMPLES)
def test_the_prediction_interval_is_that_of_one_more_value_in_a_regression(values):
    from statsmodels.api import OLS

    found = OLS(values, np.ones(len(values))).fit().get_prediction([[1.0]])
    assert Difference(values).prediction == pytest.approx(
        tuple(found.conf_int(obs=True, alpha=0.05)[0]), rel=1e-9
    )


def test_by_hand():
    """Mean 2, deviation 1; t at 97.5 % with two degrees of freedom is 4.303, at 95 % 2.920."""
    d = Difference((1, 2, 3))
    half = 4.30265 / math.sqrt(3)
    assert (d.n, d.mean, d.sd) == (3, 2, 1)
    assert d.interval() == pytest.approx((2 - half, 2 + half), abs=1e-4)
    assert d.interval(0.9)[0] == pytest.approx(2 - 2.91999 / math.sqrt(3), abs=1e-4)
    assert d.prediction[1] == pytest.approx(2 + 4.30265 * math.sqrt(4 / 3), abs=1e-4)
    assert d.verdict == TOO_CLOSE  # the interval begins at -0.48


# --- what is said


@pytest.mark.parametrize(
    ("values", "about", "verdict"),
    [
        ((1.9, 2.4, 0.8, 2.2, 1.6), {}, "ahead"),
        ((-1.9, -2.4, -0.8, -2.2, -1.6), {}, "behind"),
        ((0.4, 0.5, 0.45, 0.48), {}, "ahead by less than a point"),
        ((-0.4, -0.5, -0.45, -0.48), {"margin": 0.6}, "behind by less than 0.6 points"),
        ((0.4, 0.5, 0.45, 0.48), {"margin": 0.5}, "ahead"),  # the interval passes the margin
        ((0.4, 0.5, 0.45, 0.48), {"margin": None}, "ahead"),
        ((0.1, -0.2, 0.05, 0.15, -0.1, 0.0), {}, NO_DIFFERENCE),
        ((0.1, -0.2, 0.05, 0.15, -0.1, 0.0), {"margin": None}, TOO_CLOSE),
        ((-0.56, 1.4, -2.3), {}, TOO_CLOSE),
        ((3.0, 3.1, 2.9), {"words": ("rises", "falls"), "unit": "dB"}, "rises"),
        ((-0.3, -0.31), {"words": ("rises", "falls"), "unit": "MB"}, "falls by less than 1 MB"),
    ],
)
def test_verdicts(values, about, verdict):
    assert Difference(values, **about).verdict == verdict


@given(MANY, st.sampled_from([0.01, 0.5, 1.0, 3.0]))
def test_the_rule_in_words(values, margin):
    """The direction first; equivalence where there is none; else nobody knows."""
    d = Difference(values, margin=margin)
    low, high = d.interval(0.95)
    inner = d.interval(0.9)
    if low > 0 or high < 0:
        assert d.verdict.startswith("ahead" if low > 0 else "behind")
        assert ("by less than" in d.verdict) == (-margin < low and high < margin)
    elif -margin < inner[0] and inner[1] < margin:
        assert d.verdict == NO_DIFFERENCE
    else:
        assert d.verdict == TOO_CLOSE


@given(MANY)
def test_without_a_margin_no_difference_is_ever_called_small(values):
    verdict = Difference(values, margin=None).verdict
    assert verdict in ("ahead", "behind", TOO_CLOSE)


@given(MANY)
def test_the_negated_difference_says_the_opposite(values):
    mirror = {"ahead": "behind", "behind": "ahead"}
    here, there = Difference(values), Difference([-v for v in values])
    first, space, rest = here.verdict.partition(" ")
    assert there.verdict == mirror.get(first, first) + space + rest
    assert (here.low, here.high) == (-there.high, -there.low)
    assert here.seeds_needed == there.seeds_needed


@given(MANY, st.sampled_from([-1, 1]))
def test_a_shift_beyond_the_interval_is_a_direction(values, side):
    d = Difference(values)
    assume(d.verdict == TOO_CLOSE)
    width = d.high - d.low
    moved = Difference([v + side * 1.01 * width for v in values])
    assert moved.verdict == ("ahead" if side > 0 else "behind") or "by less" in moved.verdict
    assert moved.direction == side


@given(MANY, st.sampled_from([0.125, 4.0, 1024.0]), st.sampled_from([0.5, 1.0, 2.0]))
def test_another_unit_changes_no_verdict(values, scale, margin):
    here = Difference(values, margin=margin, unit="m")
    there = Difference([scale * v for v in values], margin=scale * margin, unit="m")
    assert there.direction == here.direction and there.small == here.small
    assert there.verdict.split(" by ")[0] == here.verdict.split(" by ")[0]
    assert there.seeds_needed == here.seeds_needed


def test_one_seed_says_nothing():
    d = Difference([7.3], reported=7.0)
    assert d.verdict == TOO_CLOSE and d.p == 1 and d.direction == 0
    assert d.interval() == d.prediction == (-math.inf, math.inf)
    assert math.isnan(d.sd) and d.seeds_needed is None and d.size == ""
    assert d.estimate == "+7.3" and "1 seed:" in str(d)
    assert against_reported([7.3], 7.3) == "one seed"


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        (0.0, NO_DIFFERENCE),
        (0.3, "ahead by less than a point"),
        (-0.3, "behind by less than a point"),
        (4.2, "ahead"),
        (-83.1, "behind"),
    ],
)
def test_equal_values_have_no_spread(value, verdict):
    d = Difference([value + 0.1 - 0.1] * 3 + [value])  # last digits differ
    assert d.sd == 0 and d.seeds_needed is None
    assert d.low == d.high == pytest.approx(value)
    assert d.verdict == verdict


@pytest.mark.parametrize(
    "values", [[], [1.0, math.nan], [math.inf], [-math.inf, 1.0], ["high", "low"], "text", None,
               [None], 3.0, [1 + 2j]],
)  # fmt: skip
def test_what_is_no_number_is_one_error(values):
    with pytest.raises(SettingError, match="finite number per seed"):
        Difference(values)


@pytest.mark.parametrize("margin", [0, -1.0, math.nan])
def test_a_margin_is_above_zero(margin):
    with pytest.raises(SettingError, match="margin"):
        Difference([1.0, 2.0], margin=margin)


# --- what is shown


def test_a_difference_below_zero_is_printed_with_its_minus():
    """The README once called -0.56 ± 1.28 a lead of 0.6."""
    d = Difference((-0.56, 1.4, -2.52), "fccl+", "rhfl", on="own domain")
    assert d.mean == pytest.approx(-0.56)
    assert d.estimate.startswith("-0.6 [-5.4, +4.3]")
    assert str(d).startswith("fccl+ minus rhfl, own domain: -0.6 [-5.4, +4.3] points, 3 seeds: too")


@given(st.lists(st.integers(-(10**7), 10**7).map(lambda k: k / 1000), min_size=1, max_size=8))
def test_no_number_is_shown_with_the_wrong_sign(values):
    d = Difference(values)
    shown = [word.strip("[],").replace(",", "") for word in d.estimate.split()]
    assert d.estimate in str(d)
    numbers = [d.mean] if d.n == 1 else [d.mean, d.low, d.high]
    assert len(shown) == len(numbers)
    for text, number in zip(shown, numbers, strict=True):
        assert float(text) == pytest.approx(number, abs=0.051)
        if float(text):
            assert text[0] == ("+" if number > 0 else "-")
        else:
            assert text[0] == "0"  # a zero has no sign


def test_small_numbers_keep_a_digit():
    assert Difference([0.0004, 0.0005, 0.0006]).estimate == "+0.00050 [+0.00025, +0.00075]"
    assert Difference([-0.02, -0.021]).estimate.startswith("-0.0")
    assert Difference([0.68, 0.69, 0.70]).estimate == "+0.69 [+0.67, +0.71]"
    assert Difference([0.679, 0.68, 0.681]).estimate == "+0.680 [+0.678, +0.682]"
    assert Difference([0.1, 0.1, 0.1]).estimate == "+0.10 [+0.10, +0.10]"
    assert Difference([0.0]).estimate == "0.0"


# --- a printed number


@pytest.mark.parametrize(
    ("values", "reported", "size", "word"),
    [
        ((5.0, 5.1, 4.9, 5.0), 5.5, AGREES, "agrees"),
        ((5.0, 5.1, 4.9, 5.0), 6.95, EXCLUDED, "below"),  # the 90 % interval passes ± 2
        ((5.0, 5.1, 4.9, 5.0), 3.05, EXCLUDED, "above"),
        ((5.0, 5.1, 4.9, 5.0), -7.2, EXCLUDED, "above"),
        ((9.0, 1.0, 5.0, -2.0), 5.0, NOT_EXCLUDED, "open"),
        ((9.0, 1.0, 5.0, -2.0), 40.0, EXCLUDED, "below"),
    ],
)
def test_a_printed_number_agrees_only_by_equivalence(values, reported, size, word):
    d = Difference(values, reported=reported)
    low, high = stats.t.interval(0.9, d.n - 1, d.mean, stats.sem(values))
    assert (size == AGREES) == (reported - 2 < low and high < reported + 2)
    half = stats.t.ppf(0.975, d.n - 1) * np.std(values, ddof=1) * math.sqrt(1 + 1 / d.n)
    assert (size == EXCLUDED) == (abs(d.mean - reported) > half and size != AGREES)
    assert d.size == size and against_reported(values, reported) == word
    assert f"the reported {reported:+g}: {size}" in str(d)


def test_nothing_reported_nothing_said():
    assert Difference([1.0, 2.0]).size == "" and "reported" not in str(Difference([1.0, 2.0]))


# --- ahead of all, behind some


def with_p(p: float, sign: int, n: int = 5) -> Difference:
    """A difference whose two-sided p-value is `p`."""
    base = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    t = stats.t.ppf(1 - p / 2, n - 1) * np.std(base, ddof=1) / math.sqrt(n)
    found = Difference(base + sign * t)
    assert found.p == pytest.approx(p, rel=1e-9)
    return found


def test_ahead_of_all_is_decided_by_the_largest_p():
    others = {"a": with_p(0.001, 1), "b": with_p(0.04, 1), "c": with_p(0.02, 1)}
    assert decided(others)[0] == "b" and decided(others)[1].direction == 1
    others["d"] = with_p(0.3, 1)
    assert decided(others)[0] == "d" and decided(others)[1].direction == 0
    others["e"] = with_p(0.3, -1)  # on the other side, but nobody can say so
    assert decided(others)[0] == "e" and decided(others)[1].direction == 0


def test_behind_some_is_asked_after_the_correction_of_holm():
    """Four comparisons: the smallest p counts four times."""
    level = {"a": with_p(0.5, 1), "b": with_p(0.6, -1), "c": with_p(0.7, 1)}
    name, found = decided({**level, "d": with_p(0.012, -1)})
    assert (name, found.direction) == ("d", -1) and found.corrected == pytest.approx(0.048)
    assert found.verdict.startswith("behind")
    name, found = decided({**level, "d": with_p(0.013, -1)})  # 0.052
    assert found.direction == 0 and not found.verdict.startswith(("ahead", "behind"))
    assert Difference(found.values).direction == (-1 if name == "d" else 0)


def test_a_lead_over_the_rest_does_not_hide_that_one_is_better():
    found = decided({**{k: with_p(1e-4, 1) for k in "abc"}, "d": with_p(0.001, -1)})
    assert found[0] == "d" and found[1].direction == -1


def test_one_comparison_is_that_comparison():
    for p, sign in ((0.049, -1), (0.049, 1), (0.051, -1)):
        alone = with_p(p, sign)
        assert decided({"x": alone})[1].verdict == alone.verdict
    with pytest.raises(SettingError, match="at least one"):
        decided({})


# --- how many seeds

N_DRAWS = 20_000


def draws(n: int, mean: float = 0.0, sd: float = 1.0, count: int = N_DRAWS, seed: int = 0):
    return np.random.default_rng([seed, n]).normal(mean, sd, (count, n))


def of_rows(x, level: float):
    """Ends of the t interval of every row."""
    n = x.shape[1]
    half = stats.t.ppf((1 + level) / 2, n - 1) * x.std(1, ddof=1) / math.sqrt(n)
    return x.mean(1) - half, x.mean(1) + half


def directions(x) -> np.ndarray:
    low, high = of_rows(x, 0.95)
    return (low > 0).astype(int) - (high < 0)


def within(x, center: float, margin: float) -> np.ndarray:
    low, high = of_rows(x, 0.9)
    return (center - margin < low) & (high < center + margin)


def said(x, margin: float = 1.0) -> np.ndarray:
    """+1, -1; 0 for a difference that does not matter; 9 for too close."""
    found = directions(x)
    return np.where(found != 0, found, np.where(within(x, 0.0, margin), 0, 9))


def excluded(x, reported) -> np.ndarray:
    n = x.shape[1]
    half = stats.t.ppf(0.975, n - 1) * x.std(1, ddof=1) * math.sqrt(1 + 1 / n)
    return abs(x.mean(1) - reported) > half


@pytest.mark.parametrize("n", [2, 3, 5, 30])
def test_the_rows_of_the_simulations_are_judged_as_differences_are(n):
    x = draws(n, 0.4, 1.3, count=80)
    numbers = {"ahead": 1, "behind": -1, NO_DIFFERENCE: 0, TOO_CLOSE: 9}
    alone = [Difference(row, reported=2.2) for row in x]
    assert said(x).tolist() == [numbers[d.verdict.split(" by ")[0]] for d in alone]
    sizes = np.where(within(x, 2.2, 2.0), AGREES,
                     np.where(excluded(x, 2.2), EXCLUDED, NOT_EXCLUDED))  # fmt: skip
    assert sizes.tolist() == [d.size for d in alone]


@pytest.mark.parametrize(
    ("mean", "sd", "margin"),
    [(1.0, 2.0, None), (0.8, 2.0, 1.0), (0.0, 1.0, 1.0), (0.2, 2.0, 1.0), (2.0, 1.5, 1.0)],
)
def test_as_many_seeds_as_are_needed_reach_a_verdict_in_four_of_five_cases(mean, sd, margin):
    base = np.array([-1.0, 0.0, 1.0])
    d = Difference(mean + sd * base, margin=margin)
    assert (d.mean, d.sd) == (pytest.approx(mean), pytest.approx(sd))
    n, wide = d.seeds_needed, math.inf if margin is None else margin
    x = draws(n, mean, sd, count=4000)
    direction = (directions(x) > 0).mean()
    small = within(x, 0.0, wide).mean() if margin else 0.0
    assert 0.72 <= max(direction, small) <= 0.9


@pytest.mark.parametrize("effect", [0.02, 0.1, 0.35, 0.8, 1.0, 1.7])
def test_seeds_for_a_direction_are_those_of_statsmodels(effect):
    d = Difference(effect + np.array([-1.0, 0.0, 1.0]), margin=None)
    wanted = TTestPower().solve_power(effect, power=0.8, alpha=0.05)
    assert d.seeds_needed == max(4, math.ceil(wanted))


def test_the_smaller_number_of_seeds_counts():
    base = np.array([-1.0, 0.0, 1.0])
    near, far = Difference(0.1 + base), Difference(0.1 + base, margin=None)
    assert near.seeds_needed < 20 < 700 < far.seeds_needed
    assert "about 788 seeds" in str(far) or "about 787 seeds" in str(far)
    assert Difference(base, margin=None).seeds_needed is None  # no mean, no margin: never


@given(st.floats(-5, 5), st.floats(-4, 3), st.integers(2, 6), st.sampled_from([1.0, None, 0.01]))
def test_seeds_needed_is_a_whole_number_above_n_or_none(power, log_sd, n, margin):
    """Also where the mean is thousands of deviations away from zero."""
    values = np.random.default_rng(n).normal(10**power, 10**log_sd, n)
    d = Difference(values, margin=margin)
    needed = d.seeds_needed
    assert needed is None or (type(needed) is int and needed > n)
    assert str(d)


# --- how often it is wrong


NS = (3, 5, 10, 30)
SLACK = 3 * math.sqrt(0.05 * 0.95 / N_DRAWS)  # three standard errors of a rate of 5 %


@pytest.mark.parametrize("n", NS)
def test_a_direction_is_wrong_in_at_most_five_percent(n):
    rate = (directions(draws(n, 0.0, 2.0)) != 0).mean()
    assert 0.05 - SLACK <= rate <= 0.05 + SLACK


@pytest.mark.parametrize("n", NS)
@pytest.mark.parametrize("sd", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("side", [-1, 1])
def test_a_difference_as_large_as_the_margin_is_seldom_called_small(n, sd, side):
    assert (said(draws(n, side * 1.0, sd)) == 0).mean() <= 0.05 + SLACK
    assert within(draws(n, side * 1.0, sd), 0.0, 1.0).mean() <= 0.05 + SLACK


@pytest.mark.parametrize("n", NS)
def test_one_more_run_of_the_same_is_excluded_in_five_percent(n):
    x = draws(n + 1, 4.0, 5.0, seed=1)
    rate = excluded(x[:, 1:], x[:, 0]).mean()
    assert 0.05 - SLACK <= rate <= 0.05 + SLACK


@pytest.mark.parametrize("n", NS)
@pytest.mark.parametrize("sd", [0.5, 2.0])
@pytest.mark.parametrize("side", [-1, 1])
def test_a_printed_number_two_points_off_seldom_agrees(n, sd, side):
    rate = within(draws(n, 10.0 + side * 2.0, sd), 10.0, 2.0).mean()
    assert rate <= 0.05 + SLACK


def test_more_seeds_see_more():
    """shared/reviews/statistics.md: the rule before this one went from 25 % to 0."""
    power = [(directions(draws(n, 1.0, 1.0)) > 0).mean() for n in NS]
    assert power == pytest.approx([0.18, 0.40, 0.81, 1.00], abs=0.025)
    assert power == sorted(power)
    small = [(said(draws(n, 0.0, 0.8)) == 0).mean() for n in NS]
    assert small == sorted(small) and small[0] < 0.25 and small[-1] > 0.9


def of_many(runs) -> np.ndarray:
    """runs [experiments, methods, seeds]: +1 ahead of all, -1 behind some, else 0, of the first."""
    x = runs[:, :1] - runs[:, 1:]
    mean, p = x.mean(2), stats.ttest_1samp(x, 0.0, axis=2).pvalue
    order = p.argsort(1)
    steps = np.take_along_axis(p, order, 1) * np.arange(p.shape[1], 0, -1)
    holm = np.empty_like(p)
    np.put_along_axis(holm, order, np.maximum.accumulate(steps, 1), 1)
    behind = ((mean < 0) & (holm < 0.05)).any(1)
    return ((mean > 0) & (p < 0.05)).all(1).astype(int) - behind


def one_by_one(runs) -> Difference:
    return decided({str(j): Difference(runs[0] - other) for j, other in enumerate(runs[1:])})[1]


@pytest.mark.parametrize("lead", [-3.0, 0.0, 1.5, 3.0])
def test_many_are_judged_in_the_simulation_as_one_by_one(lead):
    runs = np.random.default_rng(3).normal(70.0, 1.5, (6, 5, 4))
    runs[:, 0] += lead
    assert of_many(runs).tolist() == [one_by_one(each).direction for each in runs]


@pytest.mark.parametrize("k", [5, 9])
@pytest.mark.parametrize("n", [3, 5, 10])
def test_among_equal_methods_hardly_one_is_ahead_of_all_or_behind_some(k, n):
    """All are compared with the same runs; the rule before this one failed in 15 and 23 %."""
    found = of_many(np.random.default_rng([k, n]).normal(70.0, 1.5, (N_DRAWS, k, n)))
    assert (found == 1).mean() <= 0.05
    assert 0.001 < (found == -1).mean() <= 0.05 + SLACK


def test_a_method_that_is_better_than_all_is_seen_as_such():
    runs = np.random.default_rng(4).normal(70.0, 1.0, (N_DRAWS, 5, 10))
    runs[:, 0] += 2.5
    assert (of_many(runs) == 1).mean() > 0.9
    worse = partial(Difference, on="x")
    assert decided({"a": worse([-3, -3.5, -2.8, -3.1]), "b": worse([5, 5.2, 4.9, 5.3])})[0] == "a"
