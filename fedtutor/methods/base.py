"""The contract of a method, and the table of all methods.

A method is a small dataclass: its fields are its parameters (mu, tau, ...), its hooks say what
happens at the moments of a round. Every hook has a sensible default, so a method writes down only
what makes it different. To add one, write a class, decorate it with `@register("name")`, and it
is available wherever methods are named.
"""

import math
import re

from ..engine.kinds import check_fields, checked, kinds_of, warn_if_replaced
from ..errors import SettingError, choose
from ..losses import cross_entropy
from .checks import defaults_of, hooks_of, require_contract

METHODS: dict[str, type] = {}


class Method:
    """One round calls, in this order: select, collaborate, the local update, aggregate.

    `fed` is the federation (`federation.py`): clients, server, channel, public images. `client` has
    `id`, `domain`, `data`, `models`, `model`, `optimizer`, `state`, `steps`, `generator(purpose)`,
    and `fixed(role, what, compute, x)` for a teacher that stays as it is while the client trains.
    `start`, `select`, `collaborate` and `aggregate` are the server's, which holds nothing of a
    client. What a client does for them is a part of the method, called by
    `fed.ask(clients, self.part, x)`, which returns nothing. What crosses is sent and counted,
    `fed.download(clients, "name", self.receive, x)` and `fed.upload(clients, "name", self.tell)`.
    Tensors and plain values that a method keeps go to `client.state` and `fed.server.state`,
    networks to `client.models` and `fed.server.models`: all of it is in every checkpoint, except
    the networks that `remade` names.

    What a parameter can be says its annotation, such as `mu: NonNegativeFloat = 0.01` or
    `weighting: Literal["samples", "uniform"] = "samples"`; any other value is a `SettingError`. A
    class may annotate anew what it inherits.
    """

    name = ""
    remade = ()  # roles of networks that are made anew before they are used
    # what to do about a loss or weights that are no numbers any more
    if_diverged = "lower the learning rate, or the weight of the method's own loss term"

    def __post_init__(self):
        check_fields(self, f"method {self.name}")

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

    def before_step(self, client) -> None:
        """Between a batch's gradients and the optimizer's step, for example to clip gradients."""

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


HOOKS = hooks_of(Method)


def register(name: str):
    """Class decorator: make a method available under `name`.

    A later definition under the same name replaces the earlier one, so that a notebook cell can
    be run again; for a method of the suite that is a warning. Raises `SettingError` if the class is
    no dataclass that extends `Method` or has another name already, for a hook that is misspelt or
    takes other arguments, and for a parameter that `make` could not set.
    """
    if not (isinstance(name, str) and re.fullmatch(r"[\w+-]+", name) and name != "scenario"):
        raise SettingError(
            f"{name!r} cannot be the name of a method",
            where="register",
            do='write letters, digits, + and - as in @register("my-method")',
        )

    def enter(cls):
        if not (isinstance(cls, type) and issubclass(cls, Method)):
            raise SettingError(
                f"{name!r} is not a method",
                where="register",
                do="write @register(...) above @dataclass above a class that extends Method",
            )
        if "__dataclass_params__" not in vars(cls):  # that of the class it extends does not count
            raise SettingError(
                f"the class {cls.__name__} has no @dataclass of its own",
                where=f"method {name!r}",
                do=f'write @register("{name}") above @dataclass above class {cls.__name__}',
            )
        other = next((own for own, kept in METHODS.items() if kept is cls and own != name), None)
        if other is not None:  # a class has one name: it stands in checkpoints and results
            raise SettingError(
                f"the class {cls.__name__} is the method {other!r} already",
                where="register",
                do=f"extend it: class Mine({cls.__name__})",
            )
        require_contract(cls, name, Method)
        warn_if_replaced("method", name, METHODS.get(name), cls)
        cls.name = name
        METHODS[name] = cls
        return cls

    return enter


def parameters(name: str) -> dict:
    """The parameters of a method with their defaults."""
    return defaults_of(METHODS[choose(name, METHODS, kind="method", where="methods")])


def make(name: str, **given) -> Method:
    """Build a registered method, e.g. `make("fedprox", mu=0.1)`.

    Raises `SettingError` for an unknown method or parameter, and for a value that the parameter's
    annotation does not take.
    """
    cls = METHODS[choose(name, METHODS, kind="method", where="methods")]
    return cls(**checked(given, kinds_of(cls), f"method {name}", called="parameter"))
