"""What methods share that exchange one mean per class and leave the networks alone.

After local training every client sends means over its images of each class. The server keeps the
last ones of every client, so that a client that sits out a round still counts.
"""

import torch
from torch import Tensor

from .prototypes import over_owners


def keep_means(fed, client, means: Tensor, weights: Tensor, *, weighting: str) -> None:
    """Send the client's class means [classes, d] up; `weights` [classes], told once, say what each
    counts: images of the class ("samples") or owned or not ("uniform")."""
    state = fed.server.state
    told = state.setdefault("weights", {})
    if client.id not in told:
        name, own = "images per class", weights
        if weighting == "uniform":
            name, own = "classes", weights > 0
        told[client.id] = fed.channel.up(client, name, own)
    state.setdefault("means", {})[client.id] = fed.channel.up(client, "means", means)


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
