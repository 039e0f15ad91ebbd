"""What a method's class can get wrong: one clear error each, where it is registered or made.

Nothing here decides a number: it says no, or nothing.
"""

from dataclasses import MISSING, fields
from difflib import get_close_matches
from inspect import get_annotations, isroutine, signature

from ..engine.kinds import checked, kinds_of
from ..errors import SettingError

SET_BY_CLASS = ("name", "remade", "if_diverged")  # what a class says that is no parameter


def hooks_of(contract: type) -> tuple[str, ...]:
    """Names of the hooks, in the order in which `contract` (`Method`) has them."""
    return tuple(n for n, value in vars(contract).items() if isroutine(value) and n[0] != "_")


def defaults_of(cls: type) -> dict:
    """The parameters of a method's class with their defaults."""
    return {f.name: f.default_factory() if f.default is MISSING else f.default for f in fields(cls)}


def require_contract(cls: type, name: str, contract: type) -> None:
    """Raise `SettingError` for a class that breaks the contract of a method (`Method`).

    It may have a parameter without a default, of another kind than its default, named like a hook,
    or hidden by a function; a hook that is misspelt, or that cannot be called as it will be.
    """
    _check_parameters(cls, name, (*hooks_of(contract), *SET_BY_CLASS))
    _check_hooks(cls, name, contract)


def _check_parameters(cls, name: str, taken: tuple[str, ...]) -> None:
    for f in fields(cls):
        if f.default is MISSING and f.default_factory is MISSING:
            raise SettingError(
                f"parameter {f.name!r} of {name!r} has no default",
                where="register",
                do=f"write one, such as {f.name}: float = 1.0",
            )
        if f.name in taken:  # the value would stand in the place of the hook
            raise SettingError(
                f"parameter {f.name!r} of {name!r} has the name of a hook",
                where="register",
                do="give it another name",
            )
        if isroutine(vars(cls).get(f.name)):
            raise SettingError(
                f"{f.name!r} is a parameter and a function of {name!r}: nobody can call it",
                where="register",
                do="give one of them another name",
            )
    checked(defaults_of(cls), kinds_of(cls), f"method {name!r}")
    annotated = get_annotations(cls)
    for own, value in vars(cls).items():
        plain = isinstance(value, int | float | str | list | tuple | dict | None)
        if plain and not own.startswith("_") and own not in (*annotated, *taken):
            kind = "float" if isinstance(value, float) else type(value).__name__
            raise SettingError(
                f"{own} = {value!r} is no parameter: it has no type",
                where=f"method {name!r}",
                do=f"write {own}: {kind} = {value!r}, or {own} above the class if it is fixed",
            )


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
                    f"{own!r} is no hook, and nobody would call it",
                    where=f"method {name!r}",
                    do=f"did you mean {plain[close[0]]!r}? A helper needs a name less like it",
                )


def _check_call(cls, hook: str, name: str, contract: type) -> None:
    asked = list(signature(getattr(contract, hook)).parameters)
    try:
        found = getattr(cls, hook)
        bound = isinstance(vars(cls)[hook], staticmethod | classmethod)
        signature(found).bind(*asked[1 if bound else 0 :])
    except (TypeError, ValueError):
        raise SettingError(
            f"{hook} cannot be called with ({', '.join(asked)})",
            where=f"method {name!r}",
            do=f"write def {hook}({', '.join(asked)})",
        ) from None
