"""What a method's class can get wrong: one clear error each, where it is registered or made."""

from dataclasses import MISSING, fields
from difflib import get_close_matches
from inspect import get_annotations, signature

from ..errors import SettingError, choose


def require_limits(method) -> None:
    """Raise `SettingError` for a parameter that is not what its class, or one above it, says."""
    from .base import LIMITS

    where = f"method {method.name}"
    for said in map(vars, type(method).__mro__):
        for name, known in said.get("choices", {}).items():
            choose(getattr(method, name), known, kind=name, where=where)
        for limit, (right, words) in LIMITS.items():
            for name in said.get(limit, ()):
                if not right(value := getattr(method, name)):
                    raise SettingError(f"{name} = {value!r}", where=where, do=f"give {words}")


def _check_hooks(cls, name: str) -> None:
    """Raise `SettingError` for a misspelt hook, and for one that cannot be called as it will be."""
    from .base import HOOKS

    plain = {hook.replace("_", ""): hook for hook in HOOKS}
    for own, value in vars(cls).items():
        inherited = any(own in vars(base) for base in cls.__mro__[1:])
        if own in HOOKS:
            _check_call(cls, own, name)
        elif callable(value) and not own.startswith("_") and not inherited:
            close = get_close_matches(own.lower().replace("_", ""), plain, n=1, cutoff=0.8)
            if close:
                raise SettingError(
                    f"{own!r} is no hook, and nobody would call it", where=f"method {name!r}",
                    do=f"did you mean {plain[close[0]]!r}? A helper needs a name less like it",
                )  # fmt: skip


def _check_call(cls, hook: str, name: str) -> None:
    from .base import Method

    asked = list(signature(getattr(Method, hook)).parameters)
    try:
        found = getattr(cls, hook)
        bound = isinstance(vars(cls)[hook], staticmethod | classmethod)
        signature(found).bind(*asked[1 if bound else 0 :])
    except (TypeError, ValueError):
        raise SettingError(
            f"{hook} cannot be called with ({', '.join(asked)})", where=f"method {name!r}",
            do=f"write def {hook}({', '.join(asked)})",
        ) from None  # fmt: skip


def _check_parameters(cls, name: str) -> None:
    """Raise `SettingError` for a parameter without a default, and for one that is none."""
    from .base import HOOKS, SET_BY_CLASS

    for f in fields(cls):
        if f.default is MISSING and f.default_factory is MISSING:
            raise SettingError(
                f"parameter {f.name!r} of {name!r} has no default", where="register",
                do=f"write one, such as {f.name}: float = 1.0",
            )  # fmt: skip
        if f.name in (*HOOKS, *SET_BY_CLASS):  # the value would stand in the place of the hook
            raise SettingError(f"parameter {f.name!r} of {name!r} has the name of a hook",
                               where="register", do="give it another name")  # fmt: skip
    annotated, known = get_annotations(cls), (*HOOKS, *SET_BY_CLASS)
    for own, value in vars(cls).items():
        plain = isinstance(value, int | float | str | list | tuple | dict | None)
        if plain and not own.startswith("_") and own not in (*annotated, *known):
            kind = "float" if isinstance(value, float) else type(value).__name__
            raise SettingError(
                f"{own} = {value!r} is no parameter: it has no type", where=f"method {name!r}",
                do=f"write {own}: {kind} = {value!r}, or {own} above the class if it is fixed",
            )  # fmt: skip
