"""Stop anywhere, go on later: checkpoints of a run.

A checkpoint holds tensors and plain values only, and only what the next round needs: equal tensors
once, no optimizer where every round has a new one, no network that is made anew before it is used
(`Method.remade`). Random numbers need no place in it, because every round has generators of its own
(`randomness.py`).
"""

import hashlib
import os
import time
import warnings
from dataclasses import asdict
from pathlib import Path

import torch

from ..channel import SERVER
from ..errors import SettingError, StorageError
from .calls import PLAIN
from .files import DATA, damaged, key_of, load_tensors, save_tensors, shown
from .kinds import is_a
from .optimizers import new_optimizer

TENSOR = "number of the tensor"  # key of the dict that stands for one inside a checkpoint


def identity(fed) -> str:
    """What must be equal for a checkpoint to fit: method, settings, data, seed."""
    method, settings = (fed.method.name, asdict(fed.method)), asdict(fed.settings)
    return key_of(method, settings, fed.scenario.fingerprint, fed.seed)


def described(fed) -> dict[str, str]:
    """The same in words: name -> value."""
    own = {f"{fed.method.name}.{key}": value for key, value in asdict(fed.method).items()}
    known = {"method": fed.method.name, "seed": fed.seed, "data": fed.scenario.fingerprint}
    return {key: str(value) for key, value in {**known, **asdict(fed.settings), **own}.items()}


def folder_to_write(folder, name: str) -> Path:
    """`folder` as a path; raises an error where nothing may be written.

    That is the project's `data/`, whose files are committed; only the cache in it is free.
    """
    if not isinstance(folder, str | os.PathLike) or not os.fspath(folder):
        raise SettingError(f"{name} = {folder!r}", where=name, do="give the path of a folder")
    path, data = Path(folder), DATA
    if path.exists() and not path.is_dir():
        raise StorageError(f"{path.name} is a file", where=shown(path), do="give a folder")
    inside = path.resolve().is_relative_to(data)
    if inside and not path.resolve().is_relative_to(data / "cache"):
        raise StorageError(
            f"{name} = {shown(path)}, where the project keeps its data",
            where=name,
            do="choose another folder, such as build/checkpoints",
        )
    return path


class Checkpoints:
    """The last two checkpoints of one run in `folder` (None: nothing is kept)."""

    def __init__(self, folder, every: float):
        if not (is_a(every, float) and every >= 0):
            raise SettingError(
                f"every = {every!r}", where="checkpoints", do="give a number of seconds, 0 or more"
            )
        self.folder = None if folder is None else folder_to_write(folder, "checkpoint")
        self.every = every  # seconds
        self.code: str | None = None
        self._saved = time.monotonic()

    def files(self) -> list[Path]:
        """One for each checkpoint, oldest first."""
        return sorted(self.folder.glob("round-*.pt")) if self.folder else []

    def save(self, fed, *, last: bool) -> None:
        """Save after a round, if it is time to or the run ends."""
        due = last or time.monotonic() - self._saved >= self.every
        if not self.folder or not due:
            return
        self._saved = time.monotonic()
        found = {}
        value = _take_out(
            {
                "identity": identity(fed),
                "described": described(fed),
                "code": self.code,
                "round": fed.round_,
                "history": dict(fed.history),
                "channel": fed.channel.state(),
                "holders": {name: pack(holder, fed) for name, holder in holders(fed).items()},
            },
            found,
        )
        tensors = [tensor for _, tensor in found.values()]
        value |= {"sum": _sum(value, tensors), "tensors": tensors}
        save_tensors(self.folder / f"round-{fed.round_:06d}.pt", value)
        for old in self.files()[:-2]:
            old.unlink(missing_ok=True)

    def restore(self, fed) -> bool:
        """Bring `fed` to the newest checkpoint that is whole; False if there is none at all.

        False, too, with a warning, where other code left them: the run begins anew. Raises
        `StorageError` for one of another run, and where all are damaged.
        """
        value = self._newest(fed)
        if value is None:
            return False
        fed.round_, fed.history = value["round"], type(fed.history)(value["history"])
        fed.channel.restore(value["channel"])
        for name, holder in holders(fed).items():
            unpack(holder, value["holders"][name], fed)
        return True

    def catch_up(self, fed) -> None:
        """Save where `fed` is ahead of the newest checkpoint; raises what `restore` raises."""
        value = self._newest(fed)
        if value is None or value["round"] < fed.round_:
            self.save(fed, last=True)

    def _newest(self, fed) -> dict | None:
        """The newest checkpoint that is whole, if there is any."""
        for unfinished in self.folder.glob(".*.pt.*") if self.folder else ():
            unfinished.unlink(missing_ok=True)  # what a killed run was writing
        faults = []
        for path in reversed(self.files()):
            try:
                value = self._read(path, fed.device)
                break
            except StorageError as error:
                faults.append(error)
        else:
            if faults:
                raise faults[0]
            return None
        if value.get("identity") != identity(fed):
            raise self._other(path, value, fed)
        if self.code and value.get("code") and value["code"] != self.code:
            warnings.warn(
                f"{path.name} is of other code: the run begins anew", RuntimeWarning, stacklevel=2
            )
            for old in self.files():
                old.unlink(missing_ok=True)
            return None
        for fault in faults:
            warnings.warn(
                f"{fault.what}; the run goes on from {path.name}", RuntimeWarning, stacklevel=3
            )
        return value

    def _read(self, path: Path, device) -> dict:
        value = load_tensors(path, device)
        if not isinstance(value, dict) or not {"sum", "tensors"} <= value.keys():
            raise damaged(path, ValueError("it is not a checkpoint of this fedtutor"))
        tensors, written = value.pop("tensors"), value.pop("sum")
        if written != _sum(value, tensors):
            raise damaged(path, ValueError("its content is not what was written"))
        return _put_back(value, tensors)

    def _other(self, path: Path, value: dict, fed) -> StorageError:
        theirs, ours = value.get("described", {}), described(fed)
        differ = [
            f"{key} = {theirs[key]}, here {ours.get(key, 'not there')}"
            for key in theirs
            if theirs[key] != ours.get(key)
        ]
        what = "; ".join(differ[:3]) or "other settings, data or seed"
        return StorageError(
            f"{path.name} belongs to another run ({what})",
            where=shown(path),
            do="choose another checkpoint folder, or delete this one to start afresh",
        )


def holders(fed) -> dict:
    """Who holds networks and state: "server" and the clients by their id."""
    return {SERVER: fed.server, **{c.id: c for c in fed.clients}}


def pack(holder, fed) -> dict:
    """What a checkpoint keeps of a client or of the server."""
    if hasattr(type(holder), "packed"):  # a client in another process
        return holder.packed()
    client = holder is not fed.server
    models = None  # of a client whose networks have not been built
    if not client or holder.has_networks:
        models = {
            role: network.state_dict()
            for role, network in holder.models.items()
            if role not in fed.method.remade
        }
    packed = {"models": models, "state": holder.state}
    if client:
        kept = holder.optimizer if fed.settings.keep_optimizer else None
        packed |= {"steps": holder.steps, "optimizer": kept.state_dict() if kept else None}
    return packed


def unpack(holder, packed: dict, fed) -> None:
    """The reverse of `pack`."""
    if hasattr(type(holder), "unpacked"):
        holder.unpacked(packed)
        return
    if packed["models"] is None:
        holder.models = None
    else:
        for role, state in packed["models"].items():
            holder.models[role].load_state_dict(state)
    holder.state = packed["state"]
    if holder is fed.server:
        return
    holder.steps = packed["steps"]
    if packed["optimizer"] is not None:
        holder.optimizer = new_optimizer(holder, fed.settings)
        holder.optimizer.load_state_dict(packed["optimizer"])


def _take_out(value, tensors: dict, *path: str):
    """`value` with a number in place of each tensor; equal tensors have one number.

    `tensors` is content -> (number, tensor), and grows. Raises `StorageError` for what is no plain
    value; `path` is where it stands.
    """
    if isinstance(value, torch.Tensor):
        plain = value.detach().cpu().contiguous()
        digest = hashlib.sha256(plain.reshape(-1).view(torch.uint8).numpy()).digest()
        found = tensors.setdefault(
            (str(plain.dtype), tuple(plain.shape), digest), (len(tensors), plain.clone())
        )
        return {TENSOR: found[0]}
    if isinstance(value, dict):
        return {key: _take_out(part, tensors, *path, key) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_take_out(part, tensors, *path) for part in value)
    if not isinstance(value, PLAIN):
        raise StorageError(
            f"a {type(value).__name__} cannot be kept in a checkpoint",
            where=" of ".join(reversed(path[1:3])),
            do="keep tensors and plain values in `state`, networks in `models`",
        )
    return value


def _sum(value, tensors: list) -> str:
    """A hash of a checkpoint's content: a flipped bit of a tensor is not seen when it is read."""
    digest = hashlib.sha256(repr(value).encode())
    for tensor in tensors:
        digest.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def _put_back(value, tensors: list):
    """The reverse of `_take_out`; every place gets a copy of its own."""
    if isinstance(value, dict):
        if value.keys() == {TENSOR}:
            return tensors[value[TENSOR]].clone()
        return {key: _put_back(part, tensors) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_put_back(part, tensors) for part in value)
    return value
