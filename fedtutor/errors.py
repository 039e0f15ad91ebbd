"""One family of errors. Each says what is wrong, where, and what to do about it."""

from difflib import get_close_matches
from functools import partial, wraps
from inspect import signature


class FedtutorError(Exception):
    """Base of all errors that `fedtutor` raises on purpose.

    Parameters: `what` is wrong, `where` it was found, what to `do`. In a notebook only this
    message is shown, without a stack trace.
    """

    def __init__(self, what: str, *, where: str, do: str):
        super().__init__(what, where, do)
        self.what, self.where, self.do = what, where, do

    def __str__(self) -> str:
        return f"{self.what}\n  where: {self.where}\n  do:    {self.do}"

    def __reduce__(self):
        return partial(type(self), self.what, where=self.where, do=self.do), ()

    def _render_traceback_(self) -> list[str]:  # the hook by which IPython shows an exception
        return [f"{type(self).__name__}: {self}"]


class SettingError(FedtutorError):
    """An unknown or ill-typed setting: profile, scenario, method, recipe key, device."""


class DataError(FedtutorError):
    """Images or labels that are missing, damaged, empty or out of range."""


class ModelError(FedtutorError):
    """A network that does not exist, does not fit the data, or cannot be averaged."""


class TrainingError(FedtutorError):
    """Training that cannot go on, such as a loss that is no longer a number."""


class DivergenceError(TrainingError, ModelError):
    """Training that ended in nan or infinity; a comparison notes it as the outcome of the run."""


class StorageError(FedtutorError):
    """A result or checkpoint that cannot be written or read."""


FAILURES = (TrainingError, RuntimeError, MemoryError, OSError)  # of a client, not of the code
MANY = 50  # of more choices than these, only what is near is named


def choose(name: str, choices, *, kind: str, where: str, error=SettingError) -> str:
    """Return `name` if it is one of `choices`, else raise `error` with the nearest one."""
    choices = sorted(choices)
    if isinstance(name, str) and name in choices:
        return name
    near = _parts_of(str(name), choices) or get_close_matches(str(name), choices, n=1)
    near = near or [choice for choice in choices if choice.lower() == str(name).lower()]
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    few = not near or len(choices) <= MANY
    do = f"choose one of: {', '.join(choices)}" if few else f"It is one of {len(choices)}"
    raise error(f"unknown {kind} {name!r}", where=where, do=hint + do)


def whole(name: str, value, minimum: int, where: str, error=SettingError) -> None:
    """Raise `error` unless `value` is a whole number from `minimum`."""
    if type(value) is not int or value < minimum:
        raise error(
            f"{name} = {value!r}", where=where, do=f"give a whole number, {minimum} or more"
        )


def strict(error):
    """Decorator above @dataclass: an unknown or missing part is our `error`, not a TypeError."""

    def change(cls):
        own = cls.__init__
        known = signature(own)

        @wraps(own)
        def __init__(self, *given, **named):
            parts = list(known.parameters)[1:]
            where = cls.__name__
            for name in named:
                choose(name, parts, kind="part", where=where, error=error)
            try:
                known.bind(self, *given, **named)
            except TypeError as wrong:
                raise error(
                    str(wrong),
                    where=where,
                    do=f"give each part once, by name: {', '.join(parts)}",
                ) from None
            own(self, *given, **named)

        cls.__init__ = __init__
        return cls

    return change


def _parts_of(name: str, choices) -> list[str]:
    """At most three choices that go on behind a whole `name`, such as X-inter and X-intra for X."""
    longer = [c for c in choices if name and c.startswith(name) and not c[len(name)].isalnum()]
    return longer if len(longer) <= 3 else []
