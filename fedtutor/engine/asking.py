"""What crosses when a method asks its clients for something: a name, and plain values both ways.

A client may live in another process. So a method asks it by the name of a function, never by a
closure over what lies here.
"""

import sys
from collections.abc import Callable

from torch import Tensor

from ..errors import SettingError

PLAIN = (int, float, str, bool, type(None))


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
    if type(value) is dict:
        return {key: plain(part, function, where) for key, part in value.items()}
    raise SettingError(
        f"a {type(value).__name__} cannot leave a process", where=f"{function.__name__}, {where}",
        do="give and return tensors, numbers, texts, and lists and dicts of them; keep anything "
        "else in client.held until the client is asked again",
    )  # fmt: skip
