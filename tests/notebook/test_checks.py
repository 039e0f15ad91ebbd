"""`check` passes what agrees, and fails for every way in which two values can differ."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedtutor.errors import FedtutorError, SettingError
from fedtutor.notebook.check import CheckError, check

numbers = st.floats(-1e6, 1e6)


def test_prints_one_aligned_line_that_says_what_was_asked(capsys):
    check("Eq. 2", torch.tensor(0.1), 0.1 + 1e-8)
    check("Eq. 2, smaller", 0.1, 0.1, tolerance=1e-12)
    check("shape", (3, 4), [3, 4])
    check("mu = 0 is FedAvg", torch.tensor(0.25), 0.25, tolerance=0)
    check("domains", ["mnist", "usps"], ["mnist", "usps"])
    lines = capsys.readouterr().out.splitlines()
    assert [line[33:] for line in lines] == [
        "within 1e-6", "within 1e-12", "equal", "equal", "equal"
    ]  # fmt: skip
    assert lines[0].startswith("Eq. 2 ")


def test_the_line_is_the_same_whether_equal_by_luck_or_not(capsys):
    check("Eq. 2", 0.3, 0.3)
    check("Eq. 2", 0.1 + 0.2, 0.3)
    first, second = capsys.readouterr().out.splitlines()
    assert first == second


@pytest.mark.parametrize(
    "value",
    [
        1.5, 3, True, "text", np.float32(0.5), np.arange(6).reshape(2, 3), torch.eye(3),
        torch.tensor([1, 2], dtype=torch.uint8), torch.tensor(0.5, dtype=torch.bfloat16),
        torch.ones(2, requires_grad=True), [[1.0, 2.0], [3.0, 4.0]], [torch.eye(2), torch.ones(3)],
        {"w": torch.eye(2), "b": [0.5, 1.0], "steps": 3}, float("inf"), [1.0, [2.0, 3.0]],
    ],
)  # fmt: skip
def test_a_value_agrees_with_itself(value):
    check("same", value, value)
    check("same", value, value, tolerance=0)


def test_a_tensor_agrees_with_the_nested_list_of_a_plain_loop():
    z = torch.arange(6.0).reshape(2, 3) / 7
    check("loop", z, [[float(v) for v in row] for row in z.double()])
    check("loop of tensors", z, [list(row) for row in z])


@pytest.mark.parametrize(
    "ours, reference",
    [
        (1.0, 1.00001),
        (1, 2),
        (True, False),
        ("solo", "central"),
        (float("nan"), float("nan")),
        (float("nan"), 1.0),
        (1.0, float("nan")),
        (1.0, float("inf")),
        (float("inf"), 1.0),
        (float("inf"), -float("inf")),
        (torch.eye(2), torch.eye(3)),
        (torch.ones(3), torch.ones(3, 1)),
        (torch.ones(1), 1.0),
        ({"a": 1.0}, {"b": 1.0}),
        ({"a": 1.0}, [1.0]),
        ([torch.eye(2), 1.0], [torch.eye(2)]),
        ([torch.eye(2), 1.0], [torch.eye(2), 2.0]),
        ("1.0", 1.0),
        (2**53 + 1, 2**53),
        (torch.tensor([1, 2, 3], dtype=torch.uint8), torch.tensor([1, 2, 4], dtype=torch.uint8)),
    ],
)
def test_a_difference_fails(ours, reference):
    with pytest.raises(CheckError):
        check("differ", ours, reference)


def test_the_failure_shows_both_values_and_the_largest_difference_with_its_place():
    ours, reference = torch.zeros(2, 3), torch.zeros(2, 3)
    ours[1, 2], ours[0, 0], reference[1, 1] = 0.5, 0.1, 1e-3
    with pytest.raises(CheckError) as failure:
        check("Eq. 5", {"M": ours}, {"M": reference})
    text = str(failure.value)
    assert "Eq. 5" in text and "ours['M'][1, 2] = 0.5" in text
    assert "reference['M'][1, 2] = 0.0" in text and "0.5, is there; 3 of 6" in text


def test_a_failure_is_an_assertion_and_one_of_our_errors():
    with pytest.raises(AssertionError) as failure:
        check("Eq. 1", 1.0, 2.0)
    assert isinstance(failure.value, FedtutorError)
    assert "CheckError" in failure.value._render_traceback_()[0]


def test_nan_beside_a_large_difference_is_named_first():
    with pytest.raises(CheckError, match=re.escape("ours[1] = nan")):
        check("nan", [100.0, float("nan")], [0.0, 0.0])


@pytest.mark.parametrize(
    "ours, reference",
    [
        ([], []),
        ({}, {}),
        (torch.zeros(0), torch.zeros(0)),
        (1e-9, 2e-9),
        ([0.0, 1e-8], [0.0, 1e-8]),
    ],
)
def test_a_check_that_could_not_fail_is_refused(ours, reference):
    with pytest.raises(CheckError):
        check("vacuous", ours, reference)


def test_what_must_vanish_is_compared_with_zero():
    check("gradient", 1e-9, 0.0)
    with pytest.raises(CheckError):
        check("gradient", 1e-5, 0.0)


@pytest.mark.parametrize("tolerance", [-1e-6, 1.0, float("nan"), float("inf")])
def test_a_tolerance_that_means_nothing_is_refused(tolerance):
    with pytest.raises(SettingError):
        check("tolerance", 1.0, 1.0, tolerance=tolerance)


@pytest.mark.parametrize("value", [None, object(), {1, 2}, 1j])
def test_what_cannot_be_compared_is_refused(value):
    with pytest.raises(SettingError):
        check("type", value, value)


@given(st.lists(numbers, min_size=1, max_size=8), st.data())
def test_one_changed_number_in_an_array_fails(values, data):
    at = data.draw(st.integers(0, len(values) - 1))
    size = (
        data.draw(st.floats(2e-6, 10))
        * max(1.0, abs(values[at]))
        * data.draw(st.sampled_from([-1, 1]))
    )
    changed = list(values)
    changed[at] += size
    with pytest.raises(CheckError):
        check("changed", changed, values)


@given(st.lists(numbers, min_size=1, max_size=8), st.data())
def test_a_change_below_the_tolerance_passes(values, data):
    values = [*values, 1.0]
    share = data.draw(st.floats(-0.9e-6, 0.9e-6))
    check("rounded", [v + share * max(1.0, abs(v)) for v in values], values)


def test_what_is_left_out_is_not_compared_and_all_else_is():
    ours = {"a.weight": torch.ones(2), "a.bias": torch.zeros(2)}
    other = {"a.weight": torch.ones(2), "a.bias": torch.ones(2)}
    check("weights", ours, other, without="bias")
    with pytest.raises(CheckError, match=r"a\.weight"):
        check("weights", ours, {**other, "a.weight": torch.zeros(2) + 2}, without="bias")
    with pytest.raises(CheckError, match=r"a\.bias"):
        check("weights", ours, other)
    with pytest.raises(CheckError, match="nothing to compare"):
        check("weights", {"a.bias": torch.zeros(2)}, {"a.bias": torch.zeros(2)}, without="bias")
