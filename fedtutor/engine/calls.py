"""Calls of a method's parts at clients: the name of a function, and plain values both ways.

A client may live in another process, so a method asks it by a name that exists there, too, never by
a closure over what lies here. Plain values are tensors, numbers, texts and None, and lists, tuples
and dicts of them.
"""

import sys
from collections.abc import Callable, Sequence

from torch import Tensor

from ..errors import FAILURES, SettingError

PLAIN = (int, float, str, bool, type(None))


def call(fed, clients: Sequence, function: Callable, arguments: Sequence, own=None) -> list:
    """What function(client, *arguments) answers at each client, plain, in the order of clients.

    own: one more argument for each client, in their order, or a function client -> argument.
    """
    require_named(fed.method, function)
    arguments = [plain(given, function, "arguments") for given in arguments]
    if own is not None and not callable(own):
        own = dict(zip((c.id for c in clients), own, strict=True))

    def answer(client):
        last = []
        if own is not None:
            last = [plain(own(client) if callable(own) else own[client.id], function, "own")]
        return plain(fed.run_at(client, function, [*arguments, *last]), function, "answer")

    return fed.each(clients, answer)


def naming_the_client(fn: Callable, round_: int) -> Callable:
    """fn(client), whose errors carry the client (`error.client`) and a note with its id."""

    def work(client):
        try:
            return fn(client)
        except FAILURES as error:
            if not hasattr(error, "client"):
                error.client = client
                error.add_note(f"client {client.id}, round {round_}")
            raise

    return work


def require_named(method, function: Callable) -> str:
    """Where another process finds the function: the name of a method's part, or module:name.

    Raises `SettingError` for a lambda, a closure, and whatever else exists in this process only.
    """
    name = getattr(function, "__name__", type(function).__name__)
    owner = getattr(function, "__self__", None)
    if owner is method and getattr(type(method), name, None) is function.__func__:
        return name
    module = getattr(function, "__module__", None)
    if owner is None and getattr(sys.modules.get(module), name, None) is function:
        return f"{module}:{name}"
    raise SettingError(
        f"a client cannot be asked for {name}: only this process knows it",
        where=f"method {method.name}, fed.ask",
        do="write a method of the class, def my_part(self, client, x), and give self.my_part",
    )


def plain(value, function: Callable, where: str):
    """`value` without gradient; raises `SettingError` where it is no plain value."""
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, PLAIN):
        return value
    if type(value) in (list, tuple):
        return type(value)(plain(part, function, where) for part in value)
    if isinstance(value, dict):
        return {key: plain(part, function, where) for key, part in value.items()}
    raise SettingError(
        f"a {type(value).__name__} cannot leave a process",
        where=f"{function.__name__}, {where}",
        do="give and return tensors, numbers, texts, and lists and dicts of them; keep anything "
        "else in client.held until the client is asked again",
    )
