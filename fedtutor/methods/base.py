"""The contract of a method, and the table of all methods.

A method is a small dataclass: its fields are its parameters (mu, tau, ...), its hooks say what
happens at the moments of a round. Every hook has a sensible default, so a method writes down only
what makes it different. To add one, write a class, decorate it with `@register("name")`, and it
is available wherever methods are named.
"""

import math
from dataclasses import MISSING, fields, is_dataclass

from ..errors import SettingError, choose
from ..losses import cross_entropy

METHODS: dict[str, type] = {}


class Method:
    """One round calls, in this order: select, collaborate, the local update, aggregate.

    `fed` is the federation (`rounds.py`): clients, server, channel, public images. `client` has
    `id`, `domain`, `data`, `models`, `model`, `optimizer`, `state`, `steps`, `generator(purpose)`,
    and `fixed(role, compute, x)` for a teacher that stays as it is while the client trains.
    Tensors and plain values that a method keeps go to `client.state` and `fed.server.state`,
    networks to `client.models` and `fed.server.models`: all of it is in every checkpoint, except
    the networks that `remade` names.
    """

    name = ""
    remade = ()  # roles of networks that start or each round makes anew before they are used

    def build(self, client, make) -> dict:
        """The client's networks by name; `make(num_classes=..., role=...)` builds one."""
        return {"model": make()}

    def start(self, fed) -> None:
        """Once, before round 1; must be repeatable. Long work goes through `fed.artifact`."""

    def select(self, fed) -> list:
        """The clients that take part in this round."""
        count = max(1, math.ceil(fed.settings.participation * len(fed.clients) - 1e-9))
        return fed.sample(count)

    def collaborate(self, fed, clients) -> None:
        """Learn from others: download, exchange on public batches, average."""

    def local_data(self, client):
        """The images that the client trains on."""
        return client.data

    def local_loss(self, client, x, y):
        """Scalar loss of one batch: x [batch, channels, height, width], y [batch]."""
        return cross_entropy(client.model(x), y)

    def after_step(self, client) -> None:
        """After each optimizer step."""

    def after_epoch(self, client) -> None:
        """After each local epoch; runs in parallel, touch only this client."""

    def after_local(self, client) -> None:
        """After the client's last local epoch; runs in parallel, touch only this client."""

    def aggregate(self, fed, clients) -> None:
        """Upload and combine what the clients learned."""

    def evaluated(self, fed, client):
        """The network that stands for this client in evaluation; one that is shared is run once."""
        return client.model

    def predict(self, fed, client, x):
        """Logits [batch, num_classes] of the evaluated network."""
        return self.evaluated(fed, client)(x)


def register(name: str):
    """Class decorator: make a method available under `name`.

    A later definition under the same name replaces the earlier one, so that a notebook cell can
    be run again. Raises `SettingError` if the class is no dataclass that extends `Method`.
    """

    def enter(cls):
        if not (isinstance(cls, type) and issubclass(cls, Method) and is_dataclass(cls)):
            raise SettingError(
                f"{name!r} is not a method",
                where="register",
                do="write @register(...) above @dataclass above a class that extends Method",
            )
        for f in fields(cls):
            if f.default is MISSING and f.default_factory is MISSING:
                raise SettingError(
                    f"parameter {f.name!r} of {name!r} has no default", where="register",
                    do=f"write one, such as {f.name}: float = 1.0",
                )  # fmt: skip
        cls.name = name
        METHODS[name] = cls
        return cls

    return enter


def parameters(name: str) -> dict:
    """The parameters of a method with their defaults."""
    cls = METHODS[choose(name, METHODS, kind="method", where="methods")]
    defaults = {}
    for f in fields(cls):
        defaults[f.name] = f.default_factory() if f.default is MISSING else f.default
    return defaults


def make(name: str, **given) -> Method:
    """Build a registered method, e.g. `make("fedprox", mu=0.1)`.

    Raises `SettingError` for an unknown method or parameter and for a value of the wrong type.
    """
    known = parameters(name)
    for key, value in given.items():
        choose(key, known, kind="parameter", where=f"method {name}")
        kinds = (int, float) if isinstance(known[key], float) else type(known[key])
        if not isinstance(value, kinds) or isinstance(value, bool) != isinstance(known[key], bool):
            raise SettingError(
                f"{key} = {value!r}",
                where=f"method {name}",
                do=f"give a {type(known[key]).__name__}, such as {known[key]!r}",
            )
    return METHODS[name](**given)
