"""FedLGD (Huang et al. 2024): matching features, matching gradients, anchors; and VHL's alignment.

"Virtual" images are distilled ones: optimized pixels that stand in for many private images.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, log_softmax, normalize

from .basic import cross_entropy
from .fedcsd import class_prototypes


def distribution_matching(
    h: Tensor, y: Tensor, h_virtual: Tensor, y_virtual: Tensor, *, num_classes: int
) -> Tensor:
    """How far the virtual images of each class are from the private ones (FedLGD Eq. 1).

    sum_c ||mean of h over class c - mean of h_virtual over class c||^2, summed over the features.
    h: [n, d], y: [n]; h_virtual: [m, d], y_virtual: [m]. A class that one of the two lacks adds
    nothing. It is the squared MMD with a linear kernel, class by class: only means are matched.
    Official code: the same, on random batches of private images. Derived in notebook 05.
    """
    mean = class_prototypes(h, y, num_classes=num_classes)
    mean_virtual = class_prototypes(h_virtual, y_virtual, num_classes=num_classes)
    both = _owned(y, num_classes) & _owned(y_virtual, num_classes)
    return ((mean - mean_virtual) ** 2)[both].sum()


def fedlgd_loss(z: Tensor, y: Tensor, regularizer: Tensor, *, lambda_: float = 10.0) -> Tensor:
    """FedLGD's local objective in rounds without distillation (FedLGD Eq. 2 and 3).

    CE + lambda L_Con. z [batch, classes], y [batch]: virtual images of the client and of the
    server; `regularizer` is the value of Eq. 4, or of `mmd_regularizer` (Fig. 3a). lambda = 0
    leaves cross-entropy. Derived in notebook 05.
    """
    return cross_entropy(z, y) + lambda_ * regularizer


def supervised_contrastive(h: Tensor, y: Tensor, *, tau: float = 0.07) -> Tensor:
    """Features of a class together, those of other classes apart (FedLGD Eq. 4).

    sum_j (-1 / |P(j)|) sum_{p in P(j)} log(exp(h_j . h_p / tau) / sum_{a != j} exp(h_j . h_a /
    tau)), P(j) the other images of class y_j. h: [n, d], y: [n]; an image without another of its
    class adds nothing. The loss is Khosla et al.'s, where h has length 1; the equation prints no
    normalization and the text no tau. Official code: `supervised_contrastive_code`. Derived in
    notebook 05.
    """
    return _contrast(h, y, tau).sum()


def supervised_contrastive_code(h: Tensor, y: Tensor, *, tau: float = 0.07) -> Tensor:
    """FedLGD Eq. 4 as its code has it: h scaled to length 1, the mean over all n anchors.

    Anchors without another image of their class count in the mean, as zeros. Derived in
    notebook 05.
    """
    return _contrast(normalize(h, dim=1), y, tau).mean()


def mmd_regularizer(h: Tensor, g: Tensor) -> Tensor:
    """Maximum mean discrepancy between two batches of features: the alternative of FedLGD Fig. 3a.

    mean k(h, h') + mean k(g, g') - 2 mean k(h, g), k the sum of exp(-|a - b|^2 / (2^i s)) over
    i = -2 .. 2, s the mean squared distance between different rows of both (a constant for the
    gradient). h: [n, d], g: [m, d]. The paper names no kernel; this one is its code's, which
    ignores classes.
    """
    both = torch.cat([h, g])
    squared = ((both[:, None] - both[None]) ** 2).sum(2)
    n, count = len(h), len(both)
    s = (squared.detach().sum() / (count * (count - 1))).clamp(min=torch.finfo(h.dtype).tiny)
    k = sum(torch.exp(-squared / (2.0**i * s)) for i in range(-2, 3))
    return k[:n, :n].mean() + k[n:, n:].mean() - 2 * k[:n, n:].mean()


def gradient_distance(
    g: Sequence[Tensor], g_other: Sequence[Tensor], *, vectors: str = "skip"
) -> Tensor:
    """How differently two gradients point, output by output (FedLGD Eq. 6, the Dist of Eq. 5).

    sum over tensors and their rows i of 1 - cos(g[i], g_other[i]); a row is all weights into one
    output. Lengths do not matter: each row adds 0 (same direction) to 2 (opposite). A row of zeros
    points nowhere and adds 1. `vectors`: biases and norm scales are left out ("skip": official
    code, and that of Zhao et al. 2021, whose distance it is) or each is one row ("row"). Derived in
    notebook 05.
    """
    return torch.stack(
        [
            (1 - cosine_similarity(a, b, dim=1, eps=1e-30)).sum()
            for a, b in _rows(g, g_other, vectors)
        ]
    ).sum()


def gradient_distance_code(g: Sequence[Tensor], g_other: Sequence[Tensor]) -> Tensor:
    """FedLGD Eq. 6 as its code has it: 0.000001 is added to each product of lengths.

    Rows whose lengths multiply to much less than that add 1, however they point. Derived in
    notebook 05.
    """
    return torch.stack(
        [
            (1 - (a * b).sum(1) / (a.norm(dim=1) * b.norm(dim=1) + 1e-6)).sum()
            for a, b in _rows(g, g_other, "skip")
        ]
    ).sum()


def noise_alignment(
    h: Tensor,
    y: Tensor,
    h_noise: Tensor,
    y_noise: Tensor,
    *,
    tau: float = 0.07,
    weight: float = 0.1,
) -> Tensor:
    """VHL's calibration: features of a class go where noise images of that class are.

    L(h and h_noise) + weight L(h_noise), L = `supervised_contrastive_code`; in the first, h_noise
    carries no gradient: the noise stays, the images move. h: [n, d], h_noise: [m, d], labels y and
    y_noise of one set of classes. Tang et al. 2022; the form is that of VHL's code.
    """
    together = torch.cat([h, h_noise.detach()])
    pull = supervised_contrastive_code(together, torch.cat([y, y_noise]), tau=tau)
    return pull + weight * supervised_contrastive_code(h_noise, y_noise, tau=tau)


def _contrast(h: Tensor, y: Tensor, tau: float) -> Tensor:
    """The summand of Eq. 4 for each anchor, [n]."""
    self_ = torch.eye(len(h), dtype=torch.bool, device=h.device)
    log_p = log_softmax((h @ h.T / tau).masked_fill(self_, -float("inf")), dim=1)
    positive = (y[:, None] == y[None]) & ~self_
    total = torch.where(positive, log_p, 0).sum(1)
    return -total / positive.sum(1).clamp(min=1)


def _owned(y: Tensor, num_classes: int) -> Tensor:
    return torch.bincount(y, minlength=num_classes) > 0


def _rows(g: Sequence[Tensor], g_other: Sequence[Tensor], vectors: str) -> list[tuple]:
    """Pairs of matrices [outputs, weights into it]; 1-D tensors as one row, or not at all."""
    pairs = []
    for a, b in zip(g, g_other, strict=True):
        if a.ndim > 1:
            pairs.append((a.flatten(1), b.flatten(1)))
        elif vectors == "row":
            pairs.append((a[None], b[None]))
    return pairs
