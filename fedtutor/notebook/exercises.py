"""Exercises: an answer is marked by the hash of the right one, which the cell does not show.

The stubs in a lesson are made from its solutions by `python -m tools.course exercises`.
`exercises.code("2 · worst", 0.6)` gives the code that a check cell needs for this answer.
"""

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress

from ..errors import SettingError

RIGHT, WRONG, OPEN = "right", "not yet", "not answered yet"
_said: list[str] = []  # by `mark`, since the last `earned`


def mark(name: str, answer, code: str, *, of: Callable | None = None) -> None:
    """Print one line: *right*, *not yet*, or *not answered yet* for an untouched stub.

    Compares the hash of `answer`, or of `of(answer)`, with `code`, so that the cell does not show
    the solution. Numbers count to five significant digits, texts without regard to case and outer
    spaces; tensors, arrays, lists and tuples entry by entry.
    """
    said = WRONG
    if not _answered(answer):
        said = OPEN
    else:
        with suppress(Exception):  # an answer of another kind is a wrong answer
            said = RIGHT if _hash(name, of(answer) if of else answer) == code else WRONG
    _said.append(said)
    print(f"{name:<32} {said}")


def mark_each(name: str, answers: Mapping, codes: Mapping[str, str]) -> None:
    """`mark` one answer per entry of `codes`; an entry that `answers` lacks is *not answered yet*.

    name: with {} where the key stands, as "1 · does {} change it".
    """
    given = answers if isinstance(answers, Mapping) else {}
    for key, code in codes.items():
        mark(name.format(key), given.get(key, ...), code)


def earned(points: float) -> float:
    """Of `points`, the share that was right in all calls of `mark` since the last `earned`.

    The last line of a check in an nbgrader assignment; 0 where nothing was marked. It is the first
    line, too, because an earlier check may have ended with an error.
    """
    share = _said.count(RIGHT) / len(_said) if _said else 0.0
    _said.clear()
    return round(points * share, 2)


def code(name: str, answer) -> str:
    """The eight hex digits by which `mark` knows the right answer of exercise `name`.

    Raises `SettingError` for an answer that is missing or of a kind that cannot be compared.
    """
    try:
        if _answered(answer):
            return _hash(name, answer)
    except TypeError:
        pass
    raise SettingError(
        f"{answer!r} cannot be marked", where=f"exercise {name!r}",
        do="give a number, a text, True or False, a tensor, or a list of them",
    )  # fmt: skip


def _answered(answer) -> bool:
    """Whether anything stands where `...` stood."""
    if isinstance(answer, dict):
        answer = list(answer.values())
    if isinstance(answer, (list, tuple)) and answer:
        return any(_answered(part) for part in answer)
    return answer is not ... and answer is not None


def _hash(name: str, answer) -> str:
    return hashlib.sha256(f"fedtutor exercise {name}: {_text(answer)}".encode()).hexdigest()[:8]


def _text(answer) -> str:
    if hasattr(answer, "tolist"):  # tensors, arrays and their numbers
        answer = answer.tolist()
    if isinstance(answer, (list, tuple)):
        return f"[{', '.join(map(_text, answer))}]"
    if isinstance(answer, bool):
        return str(answer)
    if isinstance(answer, (int, float)):
        return f"{answer + 0.0:.5g}"  # + 0.0 makes zero of minus zero
    if isinstance(answer, str):
        return answer.strip().lower()
    raise TypeError(type(answer).__name__)
