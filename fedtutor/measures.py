"""Numbers out of models: accuracies and distances.

The accuracy matrix A has one row per client and one column per test set: A[i, j] is the share of
test set j that client i's model gets right. The column of a client's own domain is its
intra-domain accuracy (FCCL+ Eq. 21), the mean of the others its inter-domain accuracy (Eq. 22).
"""

from collections.abc import Callable, Sequence

import torch

from .errors import ModelError, SettingError


@torch.no_grad()
def accuracy(predict: Callable, images, scenario, *, batch_size: int = 500, top: int = 1) -> float:
    """Share of `images` whose label is among the `top` largest logits of `predict(x)`.

    `predict(x)` is [batch, num_classes]; of equal logits, that of the first class goes before.
    Raises `ModelError` where the logits do not have one column per class.
    """
    right = 0
    for start in range(0, len(images), batch_size):
        z = predict(scenario.normalize(images.x[start : start + batch_size]))
        tensor = isinstance(z, torch.Tensor)
        if not tensor or z.ndim != 2 or z.shape[1] != scenario.num_classes:
            found = tuple(z.shape) if tensor else f"a {type(z).__name__}"
            raise ModelError(
                f"the network returns {found}, not [batch, {scenario.num_classes}]",
                where=f"evaluation on {scenario.name}",
                do=f"build it with num_classes={scenario.num_classes}, or slice in `predict`",
            )
        largest = z.argsort(dim=1, descending=True, stable=True)[:, :top]
        right += (largest == images.y[start : start + batch_size, None]).sum()
    return float(right) / len(images)


@torch.no_grad()
def mean_loss(predict: Callable, images, scenario, *, batch_size: int = 500) -> float:
    """Mean cross-entropy of `predict(x)` [batch, num_classes] over `images`, in nats."""
    total = 0.0
    for start in range(0, len(images), batch_size):
        z = predict(scenario.normalize(images.x[start : start + batch_size])).double()
        y = images.y[start : start + batch_size]
        total += float(torch.nn.functional.cross_entropy(z, y, reduction="sum"))
    return total / len(images)


def intra(matrix: Sequence[Sequence[float]], own: Sequence[int]) -> list[float]:
    """Each client's accuracy on its own domain, `matrix[i][own[i]]` (FCCL+ Eq. 21)."""
    return [row[j] for row, j in zip(matrix, own, strict=True)]


def inter(matrix: Sequence[Sequence[float]], own: Sequence[int]) -> list[float] | None:
    """Each client's mean accuracy on the other domains (FCCL+ Eq. 22); None with one test set."""
    if len(matrix[0]) < 2:
        return None
    others = [[a for j, a in enumerate(row) if j != o] for row, o in zip(matrix, own, strict=True)]
    return [sum(row) / len(row) for row in others]


@torch.no_grad()
def weight_distance(a: dict, b: dict) -> float:
    """Euclidean distance between two sets of weights (state dicts with equal names)."""
    squares = [((a[n].double() - b[n].double()) ** 2).sum() for n in a if a[n].is_floating_point()]
    return float(torch.stack(squares).sum().sqrt())


def divergence(z: torch.Tensor, z_other: torch.Tensor) -> float:
    """Mean over images of KL(p || q), p = softmax(z), q = softmax(z_other), in nats.

    The logit distance of FedCSD (section III-B, Fig. 1a); z, z_other [batch, classes].
    """
    p, q = z.double().log_softmax(1), z_other.double().log_softmax(1)
    return float((p.exp() * (p - q)).sum(1).mean())


def mmd(h: torch.Tensor, g: torch.Tensor, *, bandwidth: float) -> float:
    """Maximum mean discrepancy of two sets of features, h [n, d] and g [m, d].

    Root of the biased estimate of Gretton et al. 2012 (JMLR 13), Eq. 5, with the kernel
    k(a, b) = exp(-|a - b|^2 / (2 bandwidth^2)): 0 for equal sets, at most sqrt(2). Two samples of
    one distribution are a little above 0, the more so the smaller they are.
    """
    if not bandwidth > 0 or h.shape[1:] != g.shape[1:] or not (len(h) and len(g)):
        raise SettingError(
            f"bandwidth {bandwidth}, features {list(h.shape)} and {list(g.shape)}",
            where="mmd",
            do="give a bandwidth above 0 and two sets [n, d] and [m, d]",
        )
    h, g = h.double(), g.double()

    def kernel(a, b):
        return (-(torch.cdist(a, b) ** 2) / (2 * bandwidth**2)).exp().mean()

    return float((kernel(h, h) + kernel(g, g) - 2 * kernel(h, g)).clamp(min=0).sqrt())


def median_distance(h: torch.Tensor) -> float:
    """Median distance between different rows of h [n, d]: the usual bandwidth of `mmd`."""
    return float(torch.pdist(h.double()).median())


def neighbors_abroad(h: torch.Tensor, of: torch.Tensor, *, nearest: int = 5) -> float:
    """How well groups mix: the share of each row's `nearest` neighbors that are of another group.

    h: features [n, d]; of: group of each row [n]. 0 where groups lie apart; for two equal groups
    that cannot be told apart about one half.
    """
    distance = torch.cdist(h, h).fill_diagonal_(float("inf"))
    near = distance.topk(nearest, largest=False).indices
    return float((of[near] != of[:, None]).double().mean())


def class_abroad(h: torch.Tensor, y: torch.Tensor, of: torch.Tensor) -> float:
    """How often the nearest row of *another* group has the same label.

    h: features [n, d]; y: labels [n]; of: group of each row [n], two groups at least.
    """
    abroad = torch.cdist(h, h).masked_fill(of[:, None] == of, float("inf"))
    return float((y[abroad.argmin(1)] == y).double().mean())


def class_distance(
    h: torch.Tensor, y: torch.Tensor, g: torch.Tensor, y_other: torch.Tensor, *, bandwidth: float
) -> float:
    """Mean over the classes that both have of `mmd` between the features of a class.

    h: [n, d], y: [n]; g: [m, d], y_other: [m]. The last term of FedLGD's Lemma 1, with MMD for d.
    """
    both = [c for c in y.unique() if (y_other == c).any()]
    if not both:
        raise SettingError(
            "no class in common", where="class_distance", do="give two sets that share a class"
        )
    found = [mmd(h[y == c], g[y_other == c], bandwidth=bandwidth) for c in both]
    return sum(found) / len(found)
