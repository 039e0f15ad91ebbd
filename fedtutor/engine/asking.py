"""What crosses when a method asks its clients for something: a name, and plain values both ways.

A client may live in another process. So a method asks it by the name of a function, never by a
closure over what lies here.
"""

import sys
from collections.abc import Callable, Sequence

from torch import Tensor

from ..errors import SettingError

PLAIN = (int, float, str, bool, type(None))


def ask(fed, clients: Sequence, function: Callable, *arguments, own=None) -> list:
    """`[function(client, *arguments) for client in clients]`, where each client runs.

    `function` has a name, such as `self.forward`; arguments and answers are plain: tensors,
    which lose their gradient, numbers, texts, lists and dicts of them. `own`: one more argument
    for each client, in their order, or a function client -> argument. What is not plain, such
    as a graph between forward and step, stays in `client.held` until the client is asked again
    in this round.
    """
    require_named(fed.method, function)
    arguments = plain(arguments, function, "arguments")
    if own is not None and not callable(own):
        own = dict(zip((c.id for c in clients), own, strict=True))

    def answer(client):
        last = []
        if own is not None:
            last = [plain(own(client) if callable(own) else own[client.id], function, "own")]
        return plain(function(client, *arguments, *last), function, "answer")

    return fed.each(clients, answer)


def download(fed, clients: Sequence, name: str, receive: Callable, payload=None, *,
             own: Sequence | None = None) -> None:  # fmt: skip
    """The server sends `payload` to each client, where receive(client, what arrives) takes it.

    `own`: a payload for each client, in their order, instead of one for all.
    """
    each = dict(zip((c.id for c in clients), own, strict=True)) if own is not None else {}
    fed.ask(clients, receive,
            own=lambda c: fed.channel.down(c, name, each.get(c.id, payload)))  # fmt: skip


def upload(fed, clients: Sequence, name: str, tell: Callable, *arguments) -> list:
    """Each client sends tell(client, *arguments) to the server; what arrives, in their order."""
    told = fed.ask(clients, tell, *arguments)
    return [fed.channel.up(c, name, own) for c, own in zip(clients, told, strict=True)]


def require_named(method, function: Callable) -> str:
    """Where another process finds the function: a name of the method, or module:name.

    Raises `SettingError` for a lambda, a closure, and whatever else only this process has.
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
    """`value` without gradient; raises `SettingError` where it is no plain value.

    Plain are tensors, numbers, texts and None, and lists, tuples and dicts of them.
    """
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, PLAIN):
        return value
    if type(value) in (list, tuple):
        return type(value)(plain(part, function, where) for part in value)
    if isinstance(value, dict):
        return {key: plain(part, function, where) for key, part in value.items()}
    raise SettingError(
        f"a {type(value).__name__} cannot leave a process", where=f"{function.__name__}, {where}",
        do="give and return tensors, numbers, texts, and lists and dicts of them; keep anything "
        "else in client.held until the client is asked again",
    )  # fmt: skip
