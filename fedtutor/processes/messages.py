"""A call as bytes, and a rehearsal of the processes inside one.

What crosses is written by torch and read without running any code of the sender: nothing but
tensors, numbers, texts, and lists and dicts of them comes out.
"""

import copy
import io

import torch

from .site import Site
from .stage import RemoteFederation


def written(value) -> bytes:
    """A plain value as bytes; of a tensor that is part of a larger one, its own numbers alone."""
    file = io.BytesIO()
    torch.save(_apart(value), file)
    return file.getvalue()


def _apart(value):
    """The same value, each tensor with a storage of its own.

    torch writes a tensor's whole storage: one image of a client would take all others along.
    """
    if isinstance(value, torch.Tensor):
        larger = value.untyped_storage().nbytes() > value.numel() * value.element_size()
        return value.clone() if larger else value
    if isinstance(value, dict):
        return {key: _apart(part) for key, part in value.items()}
    return type(value)(map(_apart, value)) if type(value) in (list, tuple) else value


def read(message: bytes):
    """What `written` wrote."""
    return torch.load(io.BytesIO(message), weights_only=True)


def rehearsed(
    scenario, method, settings, *, seed: int = 0, leave_out: bool = False
) -> RemoteFederation:
    """A federation whose clients are elsewhere, all of them in this process after all.

    Every call crosses as bytes, as it would between processes, so a method that breaks the contract
    is refused here as it is there. `.sites` are the clients' sides by their ids; `.crossed` lists
    what has crossed: {"round", "client", "call", "down", "up"}, the last two in bytes.
    """
    now = {"round": 0}
    sites = {
        c.id: Site(c.id, scenario, copy.deepcopy(method), settings, seed=seed)
        for c in scenario.clients
    }
    crossed = []

    def calls(id: str, name: str, *arguments):
        down = written([id, name, list(arguments)])
        _, name, arguments = read(down)
        up = written({"value": getattr(sites[id], name)(*arguments)})
        if name == "begin_round":
            (now["round"],) = arguments
        shown = arguments[0] if name == "ask" else name
        crossed.append({**now, "client": id, "call": shown, "down": len(down), "up": len(up)})
        return read(up)["value"]

    fed = RemoteFederation(scenario, method, settings, calls=calls, seed=seed, leave_out=leave_out)
    fed.sites, fed.crossed = sites, crossed
    return fed
