"""Finished stages that several runs share, such as pretrained networks and distilled images."""

from collections.abc import Callable
from pathlib import Path

from .files import key_of, load_tensors, locked, save_tensors


def artifact(holder, name: str, key, fn: Callable):
    """The value of `fn()`, made once per (name, key, data, seed).

    `holder` is the federation or one of its clients. The value is kept in its `artifacts`, a
    folder or a dict that several runs can share: nested dicts and lists of tensors and plain
    values; whoever gets it must not change it.
    """
    label = f"{name}-{key_of(key, holder.scenario.fingerprint, holder.seed)}"
    if isinstance(kept := holder.artifacts, dict):
        return kept[label] if label in kept else kept.setdefault(label, fn())
    path = Path(kept) / f"{label}.pt"
    if not path.exists():
        with locked(path):  # where several processes want it, one makes it
            if not path.exists():
                save_tensors(path, fn())
    return load_tensors(path, holder.device)
