"""What `checking.py` notes about a run: values as they are at one moment, and how they differ."""

import random

import joblib
import numpy as np
import torch
from torch import Tensor, nn

from .. import rounds
from ..federation import Federation
from ..methods import Method


def watched(fed: Federation) -> list[str]:
    """Run `fed`; in sentences, what its last round began with, changed, and left in memory."""
    rounds.run(fed, progress=lambda numbers: list(numbers)[:-1])
    before = {client.id: (fixed(client.models), fixed(client.state)) for client in fed.clients}
    server, began, usual = fixed(fed.server.models), {}, fed.train

    def train(clients, *more):  # right after `collaborate`
        began.update({c: (fixed(c.models), fixed(c.state)) for c in clients})
        return usual(clients, *more)

    fed.train = train
    rounds.run(fed)
    client, (own, state) = next(iter(began.items()))
    own_before, memory = before[client.id]
    begins = "its own network, as it was" if own == own_before else "its own network, changed"
    if server and all(own.get(role) == weights for role, weights in server.items()):
        begins = "the server's network"
    ends = "stays as it was" if server == fixed(fed.server.models) else "changes"
    when = {key: "set anew" if key in memory else "made in this round" for key in client.state}
    when |= {key: "kept from round 1" for key in memory if memory[key] == state.get(key)}
    keeps = ", ".join(f"{key} ({when[key]})" for key in client.state)
    sent = sum(row["bytes"] for row in fed.history["bytes"])
    return [
        f"A client begins with {begins}.",
        f"The server's network {ends}." if server else "The server has no network.",
        f"Beside its networks a client keeps {keeps or 'nothing'}.",
        f"Between server and clients, {sent:,} bytes crossed in the two rounds.",
    ]


def living(fed: Federation) -> list[str]:
    """Where a client's `state` keeps tensors that its networks go on changing."""
    found = []
    for client in fed.clients:
        weights = [network.state_dict() for network in client.models.values()]
        places = {w.untyped_storage().data_ptr() for w in tensors_in(weights)}
        for key, value in client.state.items():
            if places & {w.untyped_storage().data_ptr() for w in tensors_in(value)}:
                found.append(f"state[{key!r}] of {client.id}")
    return found


def held(method: Method) -> dict[str, str]:
    """What lies on `self`, as hashes."""
    found = {}
    for name, value in vars(method).items():
        is_hook = callable(value) and not isinstance(value, nn.Module)
        found[f"self.{name}"] = joblib.hash(id(value) if is_hook else fixed(value))
    return found


def chance() -> dict[str, str]:
    """Where the global random numbers stand, as hashes."""
    numbers = {"torch": torch.get_rng_state().numpy(), "NumPy": np.random.get_state()}
    numbers |= {"the module random": random.getstate()}
    return {name: joblib.hash(state) for name, state in numbers.items()}


def differing(before: dict, after: dict) -> str:
    """The names of what is new, gone or changed."""
    return " and ".join(k for k in before | after if before.get(k) != after.get(k))


def weights(*places) -> list:
    """Those of the server and of clients, as they are now."""
    return [fixed(place.models) for place in places]


def fixed(value):
    """The same with bytes for tensors: it stays as it is now, and is compared to the last bit."""
    if isinstance(value, nn.Module):
        value = value.state_dict()
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(value)
    if isinstance(value, Tensor):
        plain = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        return str(value.dtype), value.shape, plain.numpy().tobytes()
    if isinstance(value, dict):
        return {key: fixed(part) for key, part in value.items()}
    return [fixed(part) for part in value] if isinstance(value, list | tuple) else value


def tensors_in(value) -> list[Tensor]:
    """All tensors in lists and dicts."""
    if isinstance(value, Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value
    inside = parts if isinstance(value, dict | list | tuple) else ()
    return [tensor for part in inside for tensor in tensors_in(part)]
