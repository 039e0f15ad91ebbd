"""A client in a process of its own: what the server may call there.

The process holds a federation with this client alone (`place`): its data, networks, optimizer and
random numbers. Nothing of them leaves it but what a method's own parts return, and what the
round loop asks every client: losses, and accuracies on the test sets.
"""

import sys
from collections.abc import Callable
from dataclasses import replace

from .. import evaluation, rounds
from ..engine import checkpoints
from ..federation import Federation


class Site:
    """One client of `scenario`, by its id; the other arguments are those of `Federation`.

    Every public method is a call that the server makes. Arguments and answers are plain: tensors,
    numbers, texts, and lists and dicts of them.
    """

    def __init__(self, id: str, scenario, method, settings, *, seed: int = 0, device="cpu",
                 artifacts=None):  # fmt: skip
        at = [c.id for c in scenario.clients].index(id)
        self.fingerprint = scenario.fingerprint
        networks = settings.models
        epochs = settings.client_epochs[at : at + 1]
        alone = replace(scenario, clients=[scenario.clients[at]])
        self.place = Federation(
            alone, method,
            replace(settings, models=[networks[at % len(networks)]], client_epochs=epochs),
            seed=seed, device=device, artifacts=artifacts,
        )  # fmt: skip
        (self.client,) = self.place.clients

    def ready(self, code: str, data: str) -> dict:
        """What this process would train with; the server refuses one that differs from its own."""
        return {"id": self.client.id, "code": code, "data": data}

    def begin_round(self, round_: int) -> None:
        self.place.begin_round(round_)

    def ask(self, name: str, arguments: list):
        """The answer of the method's part `name`, or of module:name, to plain arguments."""
        with self.place.workers():
            return self._found(name)(self.client, *arguments)

    def local_update(self) -> list:
        """Mean loss of the last epoch, and a row of accuracies per epoch where that is asked."""
        self.place.inside_round = True
        with self.place.workers():
            return list(rounds.local_update(self.place, self.client))

    def row(self, inside_round: bool) -> list[float]:
        """Accuracy on every test set of the network that stands for this client."""
        self.place.inside_round = inside_round
        with self.place.workers():
            return evaluation.row(self.place, self.client)

    def packed(self) -> dict:
        """What a checkpoint keeps of this client."""
        return checkpoints.pack(self.client, self.place)

    def unpacked(self, packed: dict) -> None:
        """The client stands where `packed` says."""
        for p in self.client.parameters() if self.client.has_networks else ():
            p.grad = None
        self.client.optimizer, self.client.once, self.client.held = None, None, {}
        checkpoints.unpack(self.client, packed, self.place)

    def _found(self, name: str) -> Callable:
        module, _, own = name.rpartition(":")
        return getattr(sys.modules[module] if module else self.place.method, own)
