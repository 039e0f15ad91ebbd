"""Stop anywhere, go on later: checkpoints of a run, and stages that several runs share.

A checkpoint holds tensors and plain values only. Random numbers need no place in it, because every
round has generators of its own (`randomness.py`).
"""

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch

from .errors import StorageError
from .storage import load_tensors, save_tensors, shown

PLAIN = (torch.Tensor, int, float, str, bool, type(None))


def key_of(*parts) -> str:
    """12 hex digits that identify settings, data and seed."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def identity(fed) -> str:
    """What must be equal for a checkpoint to fit: method, settings, data, seed."""
    method = (fed.method.name, asdict(fed.method))
    return key_of(method, asdict(fed.settings), fed.scenario.fingerprint, fed.seed)


class Checkpoints:
    """The last two checkpoints of one run in `folder` (None: nothing is kept)."""

    def __init__(self, folder, every: float):
        self.folder = Path(folder) if folder else None
        self.every = every  # seconds
        self._saved = time.monotonic()

    def files(self) -> list[Path]:
        """Oldest first."""
        return sorted(self.folder.glob("round-*.pt")) if self.folder else []

    def save(self, fed, *, last: bool) -> None:
        """Save after a round, if it is time to or the run ends."""
        if not self.folder or not (last or time.monotonic() - self._saved >= self.every):
            return
        self._saved = time.monotonic()
        holders = {"server": fed.server, **{c.id: c for c in fed.clients}}
        value = {
            "identity": identity(fed),
            "round": fed.round_,
            "history": fed.history,
            "channel": fed.channel.state(),
            "holders": {name: _pack(holder, name) for name, holder in holders.items()},
        }
        save_tensors(self.folder / f"round-{fed.round_:06d}.pt", value)
        for old in self.files()[:-2]:
            old.unlink(missing_ok=True)

    def restore(self, fed, new_optimizer: Callable) -> bool:
        """Bring `fed` to the newest checkpoint; False if there is none.

        Raises `StorageError` for a damaged checkpoint and for one of another run.
        """
        for unfinished in self.folder.glob(".round-*") if self.folder else ():
            unfinished.unlink(missing_ok=True)  # what a killed run was writing
        if not self.files():
            return False
        path = self.files()[-1]
        value = load_tensors(path, fed.device)
        if value.get("identity") != identity(fed):
            raise StorageError(
                f"{path.name} belongs to another run (other settings, data or seed)",
                where=shown(path),
                do="choose another checkpoint folder, or delete this one to start afresh",
            )
        fed.round_, fed.history = value["round"], value["history"]
        fed.channel.restore(value["channel"])
        for name, holder in {"server": fed.server, **{c.id: c for c in fed.clients}}.items():
            _unpack(holder, value["holders"][name], lambda c: new_optimizer(c, fed.settings))
        return True


def artifact(fed, name: str, key, fn: Callable):
    """The value of `fn()`, made once per (name, key, data, seed).

    It is kept in `fed.artifacts`, a folder or a dict that several runs can share. The value is
    nested dicts and lists of tensors and plain values; whoever gets it must not change it.
    """
    label = f"{name}-{key_of(key, fed.scenario.fingerprint, fed.seed)}"
    if isinstance(kept := fed.artifacts, dict):
        return kept[label] if label in kept else kept.setdefault(label, fn())
    path = Path(fed.artifacts) / f"{label}.pt"
    if not path.exists():
        save_tensors(path, fn())
    return load_tensors(path, fed.device)


def _pack(holder, name: str) -> dict:
    _require_plain(holder.state, name)
    optimizer = getattr(holder, "optimizer", None)
    return {
        "models": {key: model.state_dict() for key, model in holder.models.items()},
        "state": holder.state,
        "steps": getattr(holder, "steps", 0),
        "optimizer": optimizer.state_dict() if optimizer else None,
    }


def _unpack(holder, packed: dict, new_optimizer: Callable) -> None:
    for key, state in packed["models"].items():
        holder.models[key].load_state_dict(state)
    holder.state = packed["state"]
    holder.steps = packed["steps"]
    if packed["optimizer"] is not None:
        holder.optimizer = new_optimizer(holder)
        holder.optimizer.load_state_dict(packed["optimizer"])


def _require_plain(value, name: str) -> None:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for part in value:
            _require_plain(part, name)
    elif not isinstance(value, PLAIN):
        raise StorageError(
            f"a {type(value).__name__} cannot be kept in a checkpoint",
            where=f"state of {name}",
            do="keep tensors and plain values in `state`, networks in `models`",
        )
