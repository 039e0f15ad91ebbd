"""Is a value of the kind that an annotation names? One answer for settings and options.

A whole number may stand for a number. True and False are neither. A number is finite. Also here:
what a user hands over in a few words, whether it is ours, and a number as it is printed.
"""

import math
import warnings
from types import NoneType
from typing import get_args, get_origin

WORDS = {bool: "true or false", int: "a whole number", float: "a finite number", str: "a text",
         dict: "a table", NoneType: "None"}  # fmt: skip
MANY = {int: "whole numbers", float: "numbers", str: "texts", dict: "tables"}


def is_known(kind) -> bool:
    """Whether `is_a` can decide about this annotation."""
    if get_origin(kind) is list:
        return get_args(kind)[0] in MANY
    return all(part in WORDS for part in _parts(kind))


def is_a(value, kind) -> bool:
    """Whether `value` is of `kind`: a plain type, a list of one, or one of several."""
    if get_origin(kind) is list:
        return type(value) is list and all(is_a(part, get_args(kind)[0]) for part in value)
    return any(_is_plain(value, part) for part in _parts(kind))


def words_of(kind, value=None) -> str:
    """`kind` in words; where one text stands for a list of them, how a list is written."""
    if get_origin(kind) is list:
        part = get_args(kind)[0]
        example = f", such as [{value!r}]" if is_a(value, part) else ""
        return f"a list of {MANY[part]}{example}"
    return " or ".join(WORDS[part] for part in _parts(kind))


def in_short(value) -> str:
    """What stands where something else should, in a few words."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    text = repr(value)
    return f"a {type(value).__name__}" + (f", {text}" if len(text) <= 60 else "")


def is_ours(made) -> bool:
    """Whether a class or function is of this package; else it is the reader's."""
    return getattr(made, "__module__", "").partition(".")[0] == __name__.partition(".")[0]


def warn_if_replaced(kind: str, name: str, before, now) -> None:
    """For a decorator: a warning where what is ours gives its name to what is the reader's."""
    if is_ours(before) and not is_ours(now):
        warnings.warn(f"{name!r} is a {kind} of the suite; from now on it is yours. Choose another "
                      "name to have both", UserWarning, stacklevel=3)  # fmt: skip


def is_finite(value) -> bool:
    """Whether no nan and no infinity is in `value`: a number, or lists and tables of some."""
    if isinstance(value, dict):
        return all(map(is_finite, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def _parts(kind) -> tuple:
    """int | None as (int, NoneType), int as (int,)."""
    return get_args(kind) if get_origin(kind) not in (None, dict, list) else (kind,)


def _is_plain(value, kind) -> bool:
    if isinstance(value, bool) or kind is bool:
        return isinstance(value, bool) and kind is bool
    if kind is float:
        return isinstance(value, int | float) and is_finite(value)
    return isinstance(value, kind)


def twelve_digits(value: float) -> float:
    """A number before it is rounded for print: last digits, which differ with the processor and
    Python's version, must not decide at a half."""
    return float(f"{value:.12g}")
