"""What a user gives, held against an annotation: pydantic decides, and its error becomes ours.

Settings, parameters of methods, options of scenarios and tables of files go through `typed`. A
whole number may stand for a number, and a list for a tuple. True and False are no numbers, nor is
a text; a number is finite. Also here: what a user hands over in a few words, whether it is ours,
and a number as it is printed.
"""

import math
import re
import warnings
from functools import cache
from inspect import Parameter, signature
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from ..errors import SettingError, choose

Share = Annotated[float, Field(ge=0, le=1)]
Momentum = Annotated[float, Field(ge=0, lt=1)]
STRICT = ConfigDict(strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)
SHAPES = {"list_type": list, "tuple_type": tuple}  # pydantic's errors where one is as good


def typed(name: str, value, kind, where: str, error=SettingError):
    """`value` as `kind` takes it, such as 1.0 for 1 where that is a number.

    Raises `error` for a value that is not of this kind; it says what `name` must be.
    """
    try:
        return _adapter(kind).validate_python([value])[0]
    except ValidationError as found:
        wrong = found.errors()[0]
    shape, inside = SHAPES.get(wrong["type"]), wrong["loc"][1:]
    if shape and not inside and type(value) in SHAPES.values():
        return typed(name, shape(value), kind, where, error)
    at, given = name + "".join(f"[{part!r}]" for part in _path(value, inside)), wrong["input"]
    if wrong["type"] == "literal_error":
        words = re.findall(r"'(.*?)'", wrong["ctx"]["expected"])
        choose(given, words, kind=at, where=where, error=error)
    _, should, rule = wrong["msg"].replace(" after validation", "").partition(" should ")
    do = f"{at} must {rule}" if should else wrong["msg"].removeprefix("Value error, ")
    if shape and not inside and is_a(shape([value]), kind):
        do += f", such as {shape([value])!r}"
    text = f"{at} = {given!r}"
    raise error(text if len(text) <= 200 else f"{at} is {in_short(given)}", where=where, do=do)


def is_a(value, kind) -> bool:
    """Whether `typed` takes this value."""
    try:
        typed("", value, kind, "")
    except SettingError:
        return False
    return True


def checked(
    given: dict, kinds: dict, where: str, *, called: str = "key", needed=(), error=SettingError
) -> dict:
    """A table as its `kinds` take it; raises `error` for a key that is unknown, or missing."""
    for key in given:
        choose(key, kinds, kind=called, where=where, error=error)
    for key in needed:
        if key not in given:
            raise error(f"no {key!r}", where=where, do=f"give it: {', '.join(needed)}")
    return {key: typed(key, value, kinds[key], where, error) for key, value in given.items()}


def check_fields(made, where: str, error=SettingError) -> None:
    """For `__post_init__` of a dataclass: each field becomes what its annotation takes it for."""
    kinds = kinds_of(type(made))
    given = {name: value for name, value in vars(made).items() if name in kinds}
    vars(made).update(checked(given, kinds, where, error=error))


@cache
def kinds_of(made) -> dict:
    """Name -> annotation: of the parameters of a function, or the fields of a dataclass."""
    try:
        known = signature(made, eval_str=True).parameters
    except (NameError, AttributeError):  # a text that names what is not there
        known = signature(made).parameters
    kinds = {name: about.annotation for name, about in known.items()}
    return {k: Any if v is Parameter.empty or isinstance(v, str) else v for k, v in kinds.items()}


@cache
def _adapter(kind) -> TypeAdapter:
    """Of a list of one: pydantic takes no configuration for a dataclass alone."""
    return TypeAdapter(list[kind], config=STRICT)


def _path(value, parts: tuple):
    """The keys and indices that lead into `value`; pydantic names kinds among them."""
    for part in parts:
        try:
            value = value[part]
        except (LookupError, TypeError):
            continue
        yield part


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
        warnings.warn(
            f"{name!r} is a {kind} of the suite; from now on it is yours. Choose another "
            "name to have both",
            UserWarning,
            stacklevel=3,
        )


def is_finite(value) -> bool:
    """Whether no nan and no infinity is in `value`: a number, or lists and tables of some."""
    if isinstance(value, dict):
        return all(map(is_finite, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def twelve_digits(value: float) -> float:
    """A number before it is rounded for print: last digits, which differ with the processor and
    Python's version, must not decide at a half."""
    return float(f"{value:.12g}")
