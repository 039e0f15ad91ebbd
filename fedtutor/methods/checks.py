"""What a method's class can get wrong: one clear error each, where it is registered or made.

Nothing here decides a number: it says no, or nothing.
"""

from dataclasses import MISSING, fields
from difflib import get_close_matches
from inspect import get_annotations, isroutine, signature

from ..errors import SettingError, choose

LIMITS = {
    "at_least_0": (lambda value: value >= 0, "0 or a number above it"),
    "at_least_1": (lambda value: value >= 1, "a number of at least 1"),
    "above_0": (lambda value: value > 0, "a number above 0"),
    "below_1": (lambda value: value < 1, "a number below 1"),
    "from_0_to_1": (lambda value: 0 <= value <= 1, "a number from 0 to 1"),
}
SET_BY_CLASS = ("name", "remade", "choices", *LIMITS)  # what a class says that is no parameter


def hooks_of(contract: type) -> tuple[str, ...]:
    """Names of the hooks, in the order in which `contract` (`Method`) has them."""
    return tuple(n for n, value in vars(contract).items() if isroutine(value) and n[0] != "_")


def require_contract(cls: type, name: str, contract: type) -> None:
    """Raise `SettingError` for a class that breaks the contract of a method (`Method`).

    It may have a parameter without a default, of another kind than its default, named like a hook,
    or hidden by a function; a limit for what is no parameter; a hook that is misspelt, or that
    cannot be called as it will be.
    """
    _check_parameters(cls, name, (*hooks_of(contract), *SET_BY_CLASS))
    _check_limits(cls, name)
    _check_hooks(cls, name, contract)


def require_limits(method) -> None:
    """Raise `SettingError` for a parameter that is not what its class, or one above it, says."""
    where = f"method {method.name}"
    for said in map(vars, type(method).__mro__):
        for name, known in said.get("choices", {}).items():
            choose(getattr(method, name), known, kind=name, where=where)
        for limit, (right, words) in LIMITS.items():
            for name in said.get(limit, ()):
                if not right(value := getattr(method, name)):
                    raise SettingError(f"{name} = {value!r}", where=where, do=f"give {words}")


def _check_parameters(cls, name: str, taken: tuple[str, ...]) -> None:
    for f in fields(cls):
        if f.default is MISSING and f.default_factory is MISSING:
            raise SettingError(
                f"parameter {f.name!r} of {name!r} has no default", where="register",
                do=f"write one, such as {f.name}: float = 1.0",
            )  # fmt: skip
        if f.name in taken:  # the value would stand in the place of the hook
            raise SettingError(f"parameter {f.name!r} of {name!r} has the name of a hook",
                               where="register", do="give it another name")  # fmt: skip
        plain = f.default is not MISSING and f.type in (bool, int, float, str)
        if plain and type(f.default) is not f.type:
            raise SettingError(  # a value is asked to be of the default's kind, as with 0 and 0.5
                f"{f.name} = {f.default!r} is no {f.type.__name__}", where=f"method {name!r}",
                do=_typed(f.name, f.type, f.default),
            )  # fmt: skip
        if isroutine(vars(cls).get(f.name)):
            raise SettingError(
                f"{f.name!r} is a parameter and a function of {name!r}: nobody can call it",
                where="register", do="give one of them another name",
            )  # fmt: skip
    annotated = get_annotations(cls)
    for own, value in vars(cls).items():
        plain = isinstance(value, int | float | str | list | tuple | dict | None)
        if plain and not own.startswith("_") and own not in (*annotated, *taken):
            kind = "float" if isinstance(value, float) else type(value).__name__
            raise SettingError(
                f"{own} = {value!r} is no parameter: it has no type", where=f"method {name!r}",
                do=f"write {own}: {kind} = {value!r}, or {own} above the class if it is fixed",
            )  # fmt: skip


def _typed(name: str, kind: type, default) -> str:
    """How a parameter is written whose default is not of its kind."""
    if kind is float and type(default) is int:
        return f"write {name}: float = {float(default)}"
    return f"write {name}: {type(default).__name__} = {default!r}, or another default"


def _check_limits(cls, name: str) -> None:
    known = [f.name for f in fields(cls)]
    for limit in ("choices", *LIMITS):
        named = vars(cls).get(limit, ())
        if isinstance(named, str):  # a bracket of one name, without its comma
            raise SettingError(f"{limit} = {named!r}", where=f"method {name!r}",
                               do=f"write {limit} = ({named!r},)")  # fmt: skip
        for own in named:
            choose(own, known, kind="parameter", where=f"{limit} of method {name!r}")


def _check_hooks(cls, name: str, contract: type) -> None:
    plain = {hook.replace("_", ""): hook for hook in hooks_of(contract)}
    for own, value in vars(cls).items():
        inherited = any(own in vars(base) for base in cls.__mro__[1:])
        if own in plain.values():
            _check_call(cls, own, name, contract)
        elif callable(value) and not own.startswith("_") and not inherited:
            close = get_close_matches(own.lower().replace("_", ""), plain, n=1, cutoff=0.8)
            if close:
                raise SettingError(
                    f"{own!r} is no hook, and nobody would call it", where=f"method {name!r}",
                    do=f"did you mean {plain[close[0]]!r}? A helper needs a name less like it",
                )  # fmt: skip


def _check_call(cls, hook: str, name: str, contract: type) -> None:
    asked = list(signature(getattr(contract, hook)).parameters)
    try:
        found = getattr(cls, hook)
        bound = isinstance(vars(cls)[hook], staticmethod | classmethod)
        signature(found).bind(*asked[1 if bound else 0 :])
    except (TypeError, ValueError):
        raise SettingError(
            f"{hook} cannot be called with ({', '.join(asked)})", where=f"method {name!r}",
            do=f"write def {hook}({', '.join(asked)})",
        ) from None  # fmt: skip
