"""What methods share that exchange class prototypes: the mean of something over each class.

A client computes its prototypes in one pass over its images, network in evaluation mode; the server
averages them over the clients that own the class.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from ... import losses
from ...errors import ModelError

WEIGHTING = ("samples", "uniform")


def require_equal_features(clients, *, method: str) -> None:
    """Raise `ModelError` where the clients' features differ in number."""
    sizes = {c.id: c.model.feature_size for c in clients}
    if len(set(sizes.values())) > 1:
        raise ModelError(
            f"{method} compares features, the networks have {sizes}", where="setting 'models'",
            do="choose networks with equally many features",
        )  # fmt: skip


def over_owners(means: Tensor, weights: Tensor) -> dict:
    """`means` [classes, d], averaged over the owners of each class, and `owned` bool [classes].

    means: [clients, classes, d], weights: [clients, classes], 0 where a client lacks the class.
    """
    average = losses.mean_prototypes(means, weights.to(means.dtype))
    return {"means": average, "owned": (weights > 0).any(0)}


@torch.no_grad()
def own_prototypes(fed, client, compute: Callable) -> Tensor:
    """Mean of compute(x) [batch, d] over each class of the client's images: [classes, d].

    A class that the client lacks gets zeros.
    """
    size, data = fed.settings.eval_batch_size, client.data
    parts = [compute(fed.scenario.inputs(part)) for part in data.x.split(size)]
    return losses.class_prototypes(torch.cat(parts), data.y, num_classes=fed.scenario.num_classes)


def collect(fed, clients, *, weighting: str) -> None:
    """Feature prototypes and images per class go up; the server keeps the average.

    `weighting`: a client counts by its images of the class ("samples") or like any other owner
    ("uniform"). A class that none of these clients owns has no prototype until the next time.
    """

    def measured(client):
        network = client.model.eval()
        prototypes = own_prototypes(fed, client, network.features)
        network.train()
        return {"prototypes": prototypes, "counts": class_counts(client, len(prototypes))}

    sent = [fed.channel.up(c, "prototypes", own)
            for c, own in zip(clients, fed.each(clients, measured), strict=True)]  # fmt: skip
    means, counts = (torch.stack([s[key] for s in sent]) for key in ("prototypes", "counts"))
    weights = counts if weighting == "samples" else (counts > 0)
    fed.server.state["prototypes"] = over_owners(means, weights)


def distribute(fed, clients) -> None:
    """The averaged prototypes go down, into `client.state["prototypes"]`, once there are any."""
    for client in clients if "prototypes" in fed.server.state else ():
        client.state["prototypes"] = fed.channel.down(
            client, "prototypes", fed.server.state["prototypes"]
        )


def class_counts(client, num_classes: int) -> Tensor:
    """The client's images per class, int64 [classes]."""
    return torch.bincount(client.data.y, minlength=num_classes)
