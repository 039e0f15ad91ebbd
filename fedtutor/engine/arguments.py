"""What the words of a command line stand for, for argparse."""

import argparse
import math


def count(text: str) -> int:
    """A whole number from 1."""
    return _number(text, int, 1, "a whole number from 1")


def amount(text: str) -> float:
    """A number from 0."""
    return _number(text, float, 0, "a number from 0")


def names(text: str) -> list[str]:
    """What stands between commas."""
    found = [name.strip() for name in text.split(",")]
    if "" in found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of names such as solo,fedavg")
    return list(dict.fromkeys(found))


def _number(text: str, kind: type, least: int, words: str):
    try:
        value = kind(text)
    except ValueError:
        value = math.nan
    if not value >= least:
        raise argparse.ArgumentTypeError(f"{text!r} is not {words}")
    return value
