"""What notebook 04 sees inside a federation of clients that show each other mean features.

`reading` is a look (`run.looks("repshare", seen.reading)`); `through` to `miscalibrated` read what
it saw, `points` to `beside` read results, and `gaussian` to `by_class` are pairs of features whose
mutual information is known. h are features [images, d], images in the same order at every client.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch

from .. import losses
from ..experiments import accuracies
from .seen_fedcsd import silhouette

IMAGES = 200  # test images whose features are compared
SHOWN = 100  # of these, images whose features are kept for a map
LOOKS = 20  # how often features are compared through a run, beside before round 1
EDGES = (0.1, 0.3, 0.5, 0.7, 0.9, 1.0)  # of the bins in which h is compared with a frequency


@torch.no_grad()
def reading(fed) -> dict:
    """How clients read each other's features; nothing between the `LOOKS` rounds.

    On the first IMAGES test images: "read", per client the share of the next client's features
    that its classifier names rightly; "groups", the silhouette of the classes in all clients'
    features, pooled; "neighbors", how often an image's nearest feature at the second client is of
    its class. After the last round also "bins" (see `bins`) of what each client's classifier says
    of its features and the next client's class means (Eq. 5), and of the first SHOWN images "h",
    127 times the features, rounded, [clients, SHOWN, d], and "y", their labels.
    """
    if fed.round_ % max(1, fed.settings.rounds // LOOKS):
        return {}
    images = next(iter(fed.scenario.tests.values()))[torch.arange(IMAGES)]
    x, y = fed.scenario.normalize(images.x.to(fed.device)), images.y.to(fed.device)
    networks = [client.model.eval() for client in fed.clients]
    h = [network.features(x) for network in networks]
    read = [
        float((network.classifier(theirs).argmax(1) == y).double().mean())
        for network, theirs in zip(networks, [*h[1:], h[0]], strict=True)
    ]
    nearest = torch.cdist(h[0], h[1]).argmin(1)
    found = {
        "read": read,
        "groups": silhouette(torch.cat(h), y.repeat(len(h))),
        "neighbors": float((y[nearest] == y).double().mean()),
    }
    if fed.round_ == fed.settings.rounds:
        told = [
            losses.same_class(network.classifier(own), network.classifier(_class_means(other)))
            for network, own, other in zip(
                networks, h, [*fed.clients[1:], fed.clients[0]], strict=True
            )
        ]
        found["bins"] = bins(torch.cat(told), y.repeat(len(h)))
        found["h"] = (127 * torch.stack(h)[:, :SHOWN]).round().to(torch.int8).cpu()
        found["y"] = y[:SHOWN].cpu()
    for network in networks:
        network.train()
    return found


def _class_means(client) -> torch.Tensor:
    """The client's mean feature of each class, [classes, d]."""
    h = client.model.features(client.scenario.normalize(client.data.x))
    return losses.class_prototypes(h, client.data.y, num_classes=client.scenario.num_classes)


def bins(same: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """[bins, 3]: mean h, share of pairs that are of one class, share of all pairs.

    same [images, classes]: h of an image and an observation of each class; y [images]. Pairs below
    the first of `EDGES` are in no bin: the many that are near 0 would hide the rest.
    """
    h = same.double().cpu().numpy()
    told = np.eye(h.shape[1])[y.cpu().numpy()].ravel()
    h = h.ravel()
    place = np.digitize(h, EDGES[:-1])
    rows = [
        [h[place == k].mean(), told[place == k].mean(), (place == k).mean()]
        if (place == k).any()
        else [0.0, 0.0, 0.0]
        for k in range(1, len(EDGES))
    ]
    return torch.tensor(rows, dtype=torch.float64)


def through(looks: Sequence, what: str) -> np.ndarray:
    """[seeds, looks]: "read" (mean over clients), "groups" or "neighbors" through the rounds."""
    return np.array([[np.mean(found[what]) for found in seen if found] for seen in looks])


def calibration(looks: Sequence) -> np.ndarray:
    """[seeds, bins, 3] after the last round, see `bins`."""
    return np.array([seen[-1]["bins"].numpy() for seen in looks])


def miscalibrated(looks: Sequence) -> np.ndarray:
    """Per seed the mean distance of h from the frequency, over the pairs in the bins."""
    mean_h, frequency, share = np.moveaxis(calibration(looks), -1, 0)
    return (np.abs(mean_h - frequency) * share).sum(1) / share.sum(1)


def points(results: Sequence) -> np.ndarray:
    """Accuracy at the end in points, one per result."""
    return np.array([100 * result.headline["intra"] for result in results])


def curve(results: Sequence) -> np.ndarray:
    """[seeds, evaluations]: accuracy after each evaluated round, 0 to 1."""
    return np.array([[a["intra"] for a in accuracies(r.history)] for r in results])


def rounds_to(results: Sequence, share: float, *, every: int = 10) -> np.ndarray:
    """Per seed the first evaluated round with that accuracy; `every` behind the last if none has.

    every: rounds between two evaluations.
    """
    return every * (1 + first_look(curve(results), share))


def first_look(values: np.ndarray, line: float) -> np.ndarray:
    """Per row of [seeds, looks] the place of the first value on the line; one behind the last."""
    return np.array([np.append(row >= line, True).argmax() for row in values])


def beside(value: dict, printed: dict) -> dict:
    """Row -> column -> "printed → measured"; a star where they are two deviations apart.

    value: row -> column -> points per seed; printed: row -> column -> points.
    """
    table = {}
    for row, columns in value.items():
        table[row] = {}
        for column, runs in columns.items():
            known, several = printed[row][column], len(runs) > 1
            sd = runs.std(ddof=1) if several else 0.0
            far = several and abs(runs.mean() - known) > 2 * sd
            measured = f"{runs.mean():.1f} ± {sd:.1f}" if several else f"{runs.mean():.1f}"
            table[row][column] = f"{known:.2f} → {measured}{' *' if far else ''}"
    return table


# --- pairs of features whose mutual information is known


def gaussian(n_avg: int, features: int, seed: int, *, negatives: Sequence[int] = (9, 99),
             pairs: int = 20_000) -> dict:  # fmt: skip
    """Exact information in nats, and what the best discriminator's bound says for each K.

    In each feature a class is a number y, an own feature is y plus noise, an observation is y plus
    the mean of n_avg noises; all have variance 1.
    """
    g = torch.Generator().manual_seed(seed)
    y, e, m = torch.randn(3, pairs, features, generator=g, dtype=torch.float64)
    rho2 = 1 / (2 * (1 + 1 / n_avg))
    own = (y + e) / 2**0.5
    observed = (y + m / n_avg**0.5) / (1 + 1 / n_avg) ** 0.5  # variance 1, both

    def log_ratio(other):
        odd = rho2 * (own**2 + other**2) - 2 * rho2**0.5 * own * other
        return (-math.log(1 - rho2) / 2 - odd / (2 * (1 - rho2))).sum(1)

    found = {"mutual information": -features / 2 * math.log(1 - rho2)}
    ratios = log_ratio(observed), log_ratio(observed.roll(1, 0))
    for K in negatives:
        h = [losses.best_discriminator(ratio, negatives=K) for ratio in ratios]
        loss = losses.contrastive_objective(*h, negatives=K)
        found[f"bound, K = {K}"] = float(losses.information_bound(loss, negatives=K))
    return found


def table_of(p: torch.Tensor, *, sharp: float = 1.0, negatives: int = 9) -> tuple[float, float]:
    """(information, bound) of a joint distribution p [values of s, values of t], in nats.

    The discriminator is the best one, its logits times `sharp`: 1 is the best, 0 says nothing.
    """
    both = p.sum(1, keepdim=True) * p.sum(0)
    ratio = (p / both).log()
    q = losses.best_discriminator(ratio, negatives=negatives)
    h = (sharp * q.logit()).sigmoid()
    loss = -(p * h.log()).sum() - negatives * (both * (1 - h).log()).sum()
    information = float((p * ratio).sum())
    return information, float(losses.information_bound(loss, negatives=negatives))


def random_table(seed: int, size: int = 4) -> torch.Tensor:
    """A joint distribution of two features with `size` values each."""
    g = torch.Generator().manual_seed(seed)
    p = torch.randn(size, size, generator=g).double().exp()
    return p / p.sum()


def by_class(seed: int, clear: float, *, classes: int = 10, values: int = 40) -> torch.Tensor:
    """A joint distribution of two features that share nothing but their class.

    Given the class, each takes one of `values` values by a softmax of its own; the larger `clear`,
    the more surely a value tells its class.
    """
    g = torch.Generator().manual_seed(seed)
    told = torch.arange(values) % classes == torch.arange(classes)[:, None]
    s, t = (torch.randn(2, classes, values, generator=g).double() + clear * told).softmax(-1)
    return s.T @ t / classes
