"""The channel between clients and server: every message goes through `Channel.send`.

It delivers a detached copy, so that a receiver never trains on the sender's tensors, and it always
counts bytes. It keeps the payload only where the setting `record` asks for it, for a reader and for
the attacks of notebook 06. Filters can change a message on its way, for example by adding noise for
differential privacy, or by compressing it.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .errors import SettingError
from .randomness import generator

SERVER = "server"


@dataclass(frozen=True)
class Message:
    """One payload that crossed: who sent what to whom, in which round, and its size in bytes."""

    round_: int
    source: str
    target: str
    name: str
    payload: Any
    bytes: int


def size(payload) -> int:
    """Bytes of all tensors in `payload`; a bare number counts 8, a name (dict key) nothing."""
    if isinstance(payload, torch.Tensor):
        return payload.numel() * payload.element_size()
    return 8 if isinstance(payload, (int, float)) else sum(size(part) for part in _parts(payload))


def copy(payload):
    """A detached copy of `payload`: tensor, number, None, or dict, list, tuple of these."""
    if isinstance(payload, torch.Tensor):
        return payload.detach().clone()
    if payload is None or isinstance(payload, (int, float)):
        return payload
    if isinstance(payload, dict):
        return {name: copy(part) for name, part in payload.items()}
    return type(payload)(copy(part) for part in _parts(payload))


class Channel:
    """Counts, and where asked records, everything that is sent.

    `record` is a dict with any of the keys `names`, `rounds`, `clients`: a message is kept if it
    matches each list that is given (an empty dict keeps nothing). `filters` are functions
    `(message, generator) -> payload` that see a message before it is counted and delivered.
    """

    def __init__(self, *, record: dict | None = None, seed: int = 0):
        self.record = dict(record or {})
        self.seed = seed
        self.round_ = 0
        self.filters: list[Callable] = []
        self.counts: dict[tuple[int, str, str], list[int]] = {}  # (round, direction, name)
        self._messages: list[Message] = []
        self._lock = threading.Lock()

    def up(self, client, name: str, payload):
        """Client to server."""
        return self.send(client.id, SERVER, name, payload)

    def down(self, client, name: str, payload):
        """Server to client."""
        return self.send(SERVER, client.id, name, payload)

    def send(self, source: str, target: str, name: str, payload):
        """Return what `target` receives; raises `SettingError` for what cannot be sent."""
        payload = copy(payload)
        for change in self.filters:
            own = generator(self.seed, "channel", self.round_, source, target, name)
            message = Message(self.round_, source, target, name, payload, size(payload))
            payload = change(message, own)
        message = Message(self.round_, source, target, name, payload, size(payload))
        direction = "up" if target == SERVER else "down" if source == SERVER else "peer"
        with self._lock:
            count = self.counts.setdefault((self.round_, direction, name), [0, 0])
            count[0] += message.bytes
            count[1] += 1
            if self._asked_for(message):
                self._messages.append(Message(**{**vars(message), "payload": copy(payload)}))
        return payload

    @property
    def messages(self) -> list[Message]:
        """The recorded messages, in an order that does not depend on threads."""
        return sorted(self._messages, key=lambda m: (m.round_, m.source, m.target, m.name))

    def table(self) -> list[dict]:
        """Bytes and number of messages per round, direction and name."""
        return [
            {"round": key[0], "direction": key[1], "name": key[2], "bytes": b, "messages": n}
            for key, (b, n) in sorted(self.counts.items())
        ]

    def state(self) -> dict:
        """What a checkpoint keeps."""
        return {"counts": self.table(), "messages": [vars(m) for m in self._messages]}

    def restore(self, state: dict) -> None:
        self.counts = {
            (row["round"], row["direction"], row["name"]): [row["bytes"], row["messages"]]
            for row in state["counts"]
        }
        self._messages = [Message(**fields) for fields in state["messages"]]

    def _asked_for(self, message: Message) -> bool:
        wanted = self.record
        ends = (message.source, message.target)
        return bool(wanted) and (
            message.name in wanted.get("names", [message.name])
            and message.round_ in wanted.get("rounds", [message.round_])
            and any(end in wanted.get("clients", ends) for end in ends)
        )


def _parts(payload):
    if payload is None:
        return ()
    if isinstance(payload, dict):
        return payload.values()
    if isinstance(payload, (list, tuple)):
        return payload
    raise SettingError(
        f"a {type(payload).__name__} cannot be sent",
        where="channel.send",
        do="send tensors, numbers, or dicts, lists and tuples of them",
    )
