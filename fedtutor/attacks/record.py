"""What an attacker holds: the messages that crossed the channel.

Every function of this package that plays an attacker takes `messages` (`channel.messages`, of a run
with the setting `record`) or numbers made of them; none takes a federation, a client or a scenario.
What it may know besides is what everybody who takes part knows, and is a parameter of its own: the
network's layers, the loss, learning rate and batch size, and how pixels are scaled.
"""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..channel import SERVER, Message
from ..errors import DataError, SettingError, choose


def crossed(messages: Sequence[Message], name: str, *, client: str, round_: int, way: str = "up"):
    """The payload of the message `name` between `client` and the server in `round_`.

    `way` is "up" or "down". Raises `DataError` where no such message was recorded, and
    `SettingError` where `messages` is anything but recorded messages.
    """
    require_messages(messages)
    ends = {"up": (client, SERVER), "down": (SERVER, client)}
    ends = ends[choose(way, ends, kind="way", where="attacks.crossed")]
    found = [m for m in messages
             if (m.name, m.round_, m.source, m.target) == (name, round_, *ends)]  # fmt: skip
    if len(found) != 1:
        names = sorted({m.name for m in messages if m.round_ == round_})
        raise DataError(
            f"{len(found)} messages {name!r} {way} for {client} in round {round_}",
            where="the channel's record",
            do=f"set record = {{'rounds': [{round_}]}}; names in that round: {names}",
        )  # fmt: skip
    return copy.deepcopy(found[0].payload)


def require_messages(messages) -> None:
    """Refuse a federation, a channel, a client: whatever holds more than what crossed."""
    if not (isinstance(messages, (list, tuple)) and all(isinstance(m, Message) for m in messages)):
        raise SettingError(
            f"a {type(messages).__name__} is no record", where="attacks",
            do="give fed.channel.messages: an attack reads what crossed, and nothing else",
        )  # fmt: skip


def before_and_after(messages, *, client: str, round_: int,
                     name: str = "weights") -> tuple[dict, dict]:  # fmt: skip
    """State dicts that `client` received and sent back in `round_`."""
    return tuple(crossed(messages, name, client=client, round_=round_, way=way)
                 for way in ("down", "up"))  # fmt: skip


def with_weights(network: nn.Module, state: dict, *, training: bool = True) -> nn.Module:
    """A copy of `network` with recorded weights, in the mode in which the client computed."""
    found = copy.deepcopy(network)
    found.load_state_dict(state)
    return found.train(training)


def way_of(network: nn.Module, before: dict, after: dict) -> list[Tensor]:
    """before - after for every trainable weight of `network`, in its order.

    One step of plain SGD from `before` is lr times the gradient.
    """
    names = [name for name, p in network.named_parameters() if p.requires_grad]
    return [before[name] - after[name] for name in names]


def inventory(messages: Sequence[Message]) -> list[dict]:
    """direction | name | what it is | bytes, one row per kind of message."""
    require_messages(messages)
    rows = {}
    for m in messages:
        direction = "up" if m.target == SERVER else "down" if m.source == SERVER else "peer"
        row = {"direction": direction, "name": m.name, "holds": _words(m.payload), "bytes": m.bytes}
        rows.setdefault((direction, m.name), row)
    return [rows[key] for key in sorted(rows, key=lambda key: (key[0] != "up", key))]


def _words(payload) -> str:
    """Shapes in words: "float32 [512, 10]", "6,634 numbers in 14 tensors"."""
    if isinstance(payload, (int, float)):
        return "one number"
    leaves = _leaves(payload)
    if len(leaves) == 1:
        return f"{str(leaves[0].dtype).removeprefix('torch.')} {list(leaves[0].shape)}"
    return f"{sum(t.numel() for t in leaves):,} numbers in {len(leaves)} tensors"


def _leaves(payload) -> list[Tensor]:
    if isinstance(payload, (Tensor, int, float)):
        return [torch.as_tensor(payload)]
    parts = payload.values() if isinstance(payload, dict) else payload or ()
    return [leaf for part in parts for leaf in _leaves(part)]
