"""A client in a process of its own: what the server may call there.

The process holds a federation with this client alone (`place`): its data, networks, optimizer and
random numbers. Nothing of them leaves it but what a method's own parts return, and what the
round loop asks every client: losses, and accuracies on the test sets.
"""

import copy
import io
import sys
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import torch

from .. import evaluation, rounds
from ..engine import checkpoints
from ..engine.files import load_tensors, write_atomically
from ..errors import StorageError
from ..federation import Federation

KEPT = 4  # states that a client keeps: two checkpoints of the server, and what came after them


class Site:
    """One client of `scenario`, by its id; the other arguments are those of `Federation`.

    `folder` keeps the client's states for a run that goes on later (None: in memory alone). Every
    public method is a call that the server makes. Arguments and answers are plain: tensors,
    numbers, texts, and lists and dicts of them.
    """

    def __init__(
        self,
        id: str,
        scenario,
        method,
        settings,
        *,
        seed: int = 0,
        device="cpu",
        artifacts=None,
        folder: Path | None = None,
    ):
        self.folder, self.kept = folder, {}
        at = [c.id for c in scenario.clients].index(id)
        self.fingerprint = scenario.fingerprint
        networks = settings.models
        epochs = settings.client_epochs[at : at + 1]
        alone = replace(scenario, clients=[scenario.clients[at]])
        self.place = Federation(
            alone,
            method,
            replace(settings, models=[networks[at % len(networks)]], client_epochs=epochs),
            seed=seed,
            device=device,
            artifacts=artifacts,
        )
        (self.client,) = self.place.clients

    def ready(self, code: str, data: str) -> dict:
        """What this process would train with; the server refuses one that differs from its own."""
        return {"id": self.client.id, "code": code, "data": data}

    def layout(self) -> dict:
        """What the client's network looks like (`Client.layout`)."""
        return self.client.layout

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

    def packed(self) -> str:
        """Keep the client's networks, state, steps and optimizer; returns the name of that state.

        The state itself stays here: a server that saves a checkpoint keeps the name alone.
        """
        packed, file = checkpoints.pack(self.client, self.place), io.BytesIO()
        torch.save(packed, file)
        name = sha256(file.getvalue()).hexdigest()[:24]
        self.kept.pop(name, None)  # the newest is the last
        self.kept[name] = copy.deepcopy(packed)
        while len(self.kept) > 1:
            del self.kept[next(iter(self.kept))]
        if self.folder and not self._file(name).exists():
            write_atomically(self._file(name), lambda at: Path(at).write_bytes(file.getvalue()))
            files = sorted(self.folder.glob("state-*.pt"), key=lambda path: path.stat().st_mtime_ns)
            for old in files[:-KEPT]:
                old.unlink(missing_ok=True)
        return name

    def unpacked(self, name: str) -> None:
        """The client stands where it stood when `packed` gave this name."""
        if name not in self.kept and not (self.folder and self._file(name).exists()):
            raise StorageError(
                f"client {self.client.id} no longer has its state {name}",
                where="its own folder",
                do="begin with another checkpoint folder, or give the client's folder back to it",
            )
        packed = copy.deepcopy(self.kept.get(name)) or load_tensors(self._file(name), "cpu")
        for p in self.client.parameters() if self.client.has_networks else ():
            p.grad = None
        self.client.optimizer, self.client.once, self.client.held = None, None, {}
        checkpoints.unpack(self.client, packed, self.place)

    def _file(self, name: str) -> Path:
        return self.folder / f"state-{name}.pt"

    def _found(self, name: str) -> Callable:
        module, _, own = name.rpartition(":")
        return getattr(sys.modules[module] if module else self.place.method, own)
