"""What the words of a command line stand for, for argparse."""

import argparse
import math


def count(text: str) -> int:
    """A whole number from 1."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return value


def amount(text: str) -> float:
    """A number from 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0")
    return value


def names(text: str) -> list[str]:
    """What stands between commas."""
    found = [name.strip() for name in text.split(",")]
    if "" in found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of names such as solo,fedavg")
    return list(dict.fromkeys(found))
