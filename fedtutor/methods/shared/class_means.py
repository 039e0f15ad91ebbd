"""What methods share that exchange one mean per class and leave the networks alone.

After local training every client sends means over its images of each class. The server keeps the
last ones of every client, so that a client that sits out a round still counts. What a client has
computed waits in `client.held`: "means" [classes, d], and "weights" [classes], what each counts.
"""

import torch
from torch import Tensor

from .prototypes import over_owners


def collect_means(fed, clients, *, weighting: str) -> None:
    """The clients' means go up, and, once, what they count.

    That is images of the class (weighting "samples"), or whether there are any ("uniform").
    """
    means, weights = (fed.server.state.setdefault(key, {}) for key in ("means", "weights"))
    new = [c for c in clients if c.id not in weights]
    name = "images per class" if weighting == "samples" else "classes"
    told = fed.upload(new, name, told_weights, weighting)
    weights |= {c.id: own for c, own in zip(new, told, strict=True)}
    told = fed.upload(clients, "means", told_means)
    means |= {c.id: own for c, own in zip(clients, told, strict=True)}


def told_weights(client, weighting: str) -> Tensor:
    weights = client.held["weights"]
    return weights if weighting == "samples" else weights > 0


def told_means(client) -> Tensor:
    del client.held["weights"]
    return client.held.pop("means")


def global_means(fed, *, without: str = "") -> dict | None:
    """The means that the server knows, averaged over the owners of each class.

    `means` [classes, d] and `owned` bool [classes]; client `without` is left out. None if nothing
    is left.
    """
    kept = fed.server.state.get("means", {})
    ids = [c.id for c in fed.clients if c.id in kept and c.id != without]
    if not ids:
        return None
    means = torch.stack([kept[i] for i in ids])
    weights = torch.stack([fed.server.state["weights"][i] for i in ids])
    return over_owners(means, weights)
