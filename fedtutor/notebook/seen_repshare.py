"""What notebook 04 sees inside a federation of clients that show each other mean features.

`reading` is a look (`run.looks("repshare", seen.reading)`); the other functions read what it saw.
h are features [images, d], in the same order of images at every client.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch

from .. import losses
from .seen_fedcsd import silhouette

IMAGES = 200  # test images whose features are kept
LOOKS = 20  # how often features are kept through a run, beside before round 1
EDGES = (0.1, 0.3, 0.5, 0.7, 0.9, 1.0)  # of the bins in which h is compared with a frequency


@torch.no_grad()
def reading(fed) -> dict:
    """How clients read each other's features; nothing between the `LOOKS` rounds.

    "h": features of the first IMAGES test images, one [images, d] per client. "read": per client
    the share of the next client's features of them that its classifier names rightly. "same":
    per client the estimate of Eq. 5 for its features and the next client's class means, [images,
    classes]. "y": labels.
    """
    if fed.round_ % max(1, fed.settings.rounds // LOOKS):
        return {}
    images = next(iter(fed.scenario.tests.values()))[torch.arange(IMAGES)]
    x, y = fed.scenario.normalize(images.x.to(fed.device)), images.y.to(fed.device)
    found = {"h": [], "read": [], "same": [], "y": y.cpu()}
    for me, other in zip(fed.clients, [*fed.clients[1:], fed.clients[0]], strict=True):
        own, theirs = me.model.eval(), other.model.eval()
        h = own.features(x)
        right = own.classifier(theirs.features(x)).argmax(1) == y
        private = theirs.features(fed.scenario.normalize(other.data.x))
        t = losses.class_prototypes(private, other.data.y, num_classes=fed.scenario.num_classes)
        found["h"].append(h.cpu())
        found["read"].append(float(right.double().mean()))
        found["same"].append(losses.same_class(own.classifier(h), own.classifier(t)).cpu())
        own.train()
        theirs.train()
    return found


def kept(looks: Sequence) -> list[list[dict]]:
    """Per seed what `reading` saw, without the rounds between."""
    return [[found for found in seen if found] for seen in looks]


def read(looks: Sequence) -> np.ndarray:
    """[seeds, looks]: share of foreign features that are named rightly, mean over clients."""
    return np.array([[np.mean(found["read"]) for found in seen] for seen in kept(looks)])


def groups(looks: Sequence, place: int) -> np.ndarray:
    """Per seed the silhouette of the classes in all clients' features, pooled."""
    pooled = [(torch.cat(seen[place]["h"]), seen[place]["y"].repeat(len(seen[place]["h"])))
              for seen in kept(looks)]  # fmt: skip
    return np.array([silhouette(h, y) for h, y in pooled])


def neighbors(looks: Sequence) -> np.ndarray:
    """Per seed how often an image's nearest feature at the second client is of its class."""
    found = []
    for last in (seen[-1] for seen in kept(looks)):
        nearest = torch.cdist(*last["h"][:2]).argmin(1)
        found.append(float((last["y"][nearest] == last["y"]).double().mean()))
    return np.array(found)


def calibration(looks: Sequence) -> np.ndarray:
    """[seeds, bins, 3]: mean h, share of pairs that are of one class, share of all pairs.

    Pairs below the first of `EDGES` are in no bin: the many that are near 0 would hide the rest.
    """
    rows = []
    for last in (seen[-1] for seen in kept(looks)):
        h = torch.cat(last["same"]).double().numpy()
        same = np.eye(h.shape[1])[np.tile(last["y"].numpy(), len(last["same"]))]
        h, same = h.ravel(), same.ravel()
        place = np.digitize(h, EDGES[:-1])
        rows.append([
            [h[place == k].mean(), same[place == k].mean(), (place == k).mean()]
            if (place == k).any() else [math.nan, math.nan, 0.0]
            for k in range(1, len(EDGES))
        ])  # fmt: skip
    return np.array(rows)


def miscalibrated(looks: Sequence) -> np.ndarray:
    """Per seed the mean distance of h from the frequency, over the pairs in the bins."""
    mean_h, frequency, share = np.moveaxis(calibration(looks), -1, 0)
    return np.nansum(np.abs(mean_h - frequency) * share, 1) / share.sum(1)


def points(results: Sequence) -> np.ndarray:
    """Accuracy at the end in points, one per result."""
    return np.array([100 * result.headline["intra"] for result in results])
