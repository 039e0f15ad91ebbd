"""What methods share that exchange class prototypes: the mean of something over each class.

A client computes its prototypes in one pass over its images, network in evaluation mode; the server
averages them over the clients that own the class.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from ... import losses
from ...engine.batches import all_of
from ...engine.checks import one_of_a_kind
from ...errors import ModelError


def require_equal_features(fed) -> int:
    """How many features the networks have; `ModelError` where the clients' differ in number."""
    clients = one_of_a_kind(fed.clients)
    sizes = {c.id: c.layout["features"] for c in clients}
    if len(set(sizes.values())) > 1:
        raise ModelError(
            f"{fed.method.name} compares features, the networks have {sizes}",
            where="setting 'models'",
            do="choose networks with equally many features",
        )
    return sizes[clients[0].id]


def over_owners(means: Tensor, weights: Tensor) -> dict:
    """`means` [classes, d], averaged over the owners of each class, and `owned` bool [classes].

    means: [clients, classes, d], weights: [clients, classes], 0 where a client lacks the class.
    """
    average = losses.mean_prototypes(means, weights.to(means.dtype))
    return {"means": average, "owned": (weights > 0).any(0)}


@torch.no_grad()
def own_prototypes(client, compute: Callable) -> Tensor:
    """Mean of compute(x) [batch, d] over each class of the client's images: [classes, d].

    A class that the client lacks gets zeros.
    """
    h = torch.cat([compute(x) for x in all_of(client, client.data)])
    return losses.class_prototypes(h, client.data.y, num_classes=client.scenario.num_classes)


def collect(fed, clients, *, weighting: str) -> None:
    """Feature prototypes and images per class go up; the server keeps the average.

    `weighting`: a client counts by its images of the class ("samples") or like any other owner
    ("uniform"). A class that none of these clients owns has no prototype until the next time.
    """
    sent = fed.upload(clients, "prototypes", measured)
    means, counts = (torch.stack([s[key] for s in sent]) for key in ("prototypes", "counts"))
    weights = counts if weighting == "samples" else (counts > 0)
    fed.server.state["prototypes"] = over_owners(means, weights)


def measured(client) -> dict:
    """What a client tells of its classes: mean features and numbers of images."""
    network = client.model.eval()
    prototypes = own_prototypes(client, network.features)
    network.train()
    return {"prototypes": prototypes, "counts": class_counts(client, len(prototypes))}


def distribute(fed, clients) -> None:
    """The averaged prototypes go down, into `client.state["prototypes"]`, once there are any."""
    if "prototypes" in fed.server.state:
        fed.download(clients, "prototypes", keep_prototypes, fed.server.state["prototypes"])


def keep_prototypes(client, known: dict) -> None:
    client.state["prototypes"] = known


def class_counts(client, num_classes: int) -> Tensor:
    """The client's images per class, int64 [classes]."""
    return torch.bincount(client.data.y, minlength=num_classes)
