"""RepShare (Berdoz et al. 2022): averaged class representations as teachers, and FD beside it.

h are features [batch, d], z logits [batch, classes]. An observation is the mean feature of a few
images of one class at one client; the local classifier turns it into the logits `z_observed`.
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from .averaging import prototype_distance
from .basic import cross_entropy


def contrastive_objective(h_joint: Tensor, h_product: Tensor, *, negatives: int) -> Tensor:
    """How badly a discriminator tells pairs apart (RepShare Eq. 3).

    L_disc = -mean(log h_joint) - K mean(log(1 - h_product)), K = negatives. h_joint and h_product
    are the discriminator's values, from 0 to 1 and of any shape, on pairs drawn together and on
    pairs drawn independently. Derived in notebook 04.
    """
    return -h_joint.log().mean() - negatives * (1 - h_product).log().mean()


def information_bound(loss: Tensor, *, negatives: int) -> Tensor:
    """What that loss says about the mutual information, in nats (RepShare Eq. 4).

    I >= log K - L_disc, K = negatives: never above log K. "Equality iff h = q" does not hold: two
    more steps of the proof (Eq. 10 and 15) lose something, so that the best discriminator only
    gives the best bound. If the two features are independent, it gives minus (K + 1) log(1 + 1 / K)
    instead of 0. Derived in notebook 04.
    """
    return math.log(negatives) - loss


def best_discriminator(log_ratio: Tensor, *, negatives: int) -> Tensor:
    """The h that minimizes Eq. 3: was this pair drawn together (RepShare Eq. 14)?

    1 / (1 + K p_s p_t / p_st), K = negatives; log_ratio = log p_st - log(p_s p_t), any shape.
    Derived in notebook 04.
    """
    return 1 / (1 + negatives * (-log_ratio).exp())


def same_class(z: Tensor, z_observed: Tensor) -> Tensor:
    """The discriminator made of the classifier: same class or not (RepShare Eq. 5).

    h[b, k] = sum_c softmax(z[b])[c] softmax(z_observed[k])[c], the probability that two
    independent draws from the two softmaxes agree. z: [batch, classes]; z_observed: [k, classes],
    or [batch, k, classes] where every image has observations of its own; h: [batch, k]. Official
    code: the same; both logits carry a gradient to the classifier. Derived in notebook 04.
    """
    return (z.softmax(1)[:, None] * z_observed.softmax(-1)).sum(-1)


def representation_distance(h: Tensor, y: Tensor, means: Tensor, owned: Tensor) -> Tensor:
    """Distillation of features: near the global mean of the own class (L_KD of RepShare Eq. 6).

    (1/B) sum_b owned[y[b]] |h[b] - means[y[b]]|^2, summed over the d features (Algorithm 2). h:
    [batch, d], y: [batch], means: [classes, d], owned: bool [classes]; images of a class without
    a mean add 0 and count in the batch. Official code: the mean over the d features too, 1/d of
    this (`prototype_distance`). Derived in notebook 04.
    """
    return prototype_distance(h, y, means, owned) * h.shape[1]


def discriminator_loss(
    z: Tensor, y: Tensor, z_observed: Tensor, known: Tensor | None = None
) -> Tensor:
    """One observation of every class, of which one is of the own (RepShare Eq. 7, Algorithm 2).

    (1/B) sum_b (-log h[b, y[b]] - sum_{c != y[b]} log(1 - h[b, c])), h of Eq. 5. z: [batch,
    classes]; z_observed: [classes, classes], row c an observation of class c, or [batch, classes,
    classes]; known: bool [classes] or [batch, classes], pairs without an observation add 0.
    Computed from logarithms, so it is finite where h rounds to 1 (official code: log of at least
    -100). Derived in notebook 04.
    """
    log_p, log_q = log_softmax(z, 1)[:, None], log_softmax(z_observed, -1)
    same = (log_p + log_q).logsumexp(-1)
    other = (log_p + _log_rest(log_q)).logsumexp(-1)  # 1 - h = sum_c p[c] (1 - q[c])
    own = y[:, None] == torch.arange(z.shape[1], device=y.device)
    each = torch.where(own, same, other)
    return -(each if known is None else torch.where(known, each, 0)).sum(1).mean()


def discriminator_loss_code(
    z: Tensor, y: Tensor, z_observed: Tensor, known: Tensor | None = None
) -> Tensor:
    """RepShare Eq. 7 as the author's code has it: the mean over all pairs, 1/C of the sum.

    Shapes as in `discriminator_loss`; pairs without an observation count in the mean.
    Derived in notebook 04.
    """
    return discriminator_loss(z, y, z_observed, known) / z.shape[1]


def repshare_loss(
    z: Tensor,
    y: Tensor,
    distance: Tensor | float,
    contrast: Tensor | float,
    *,
    lambda_kd: float = 10.0,
    lambda_disc: float = 1.0,
) -> Tensor:
    """RepShare's local objective (RepShare Eq. 6).

    L_CE + lambda_kd L_KD + lambda_disc L_disc. z: [batch, classes], y: [batch], distance = L_KD
    and contrast = L_disc as above. Both 0: training alone. In the official code L_KD is divided by
    d and L_disc by C: its weights 10 and 1 are 10/84 and 1/10 of the printed sums for LeNet5.
    Derived in notebook 04.
    """
    return cross_entropy(z, y) + lambda_kd * distance + lambda_disc * contrast


def fd_loss(z: Tensor, y: Tensor, p: Tensor, owned: Tensor) -> Tensor:
    """FD's regularizer: mean softmax output of the class as a soft label (Jeong et al. 2018).

    -(1/B) sum_b owned[y[b]] sum_c p[y[b], c] log softmax(z[b])[c]. z: [batch, classes], y:
    [batch], p: [classes, classes], row c the mean output for class c, owned: bool [classes]. In
    RepShare's code logits are averaged, and their distance is `prototype_distance`.
    """
    each = (p[y] * log_softmax(z, 1)).sum(1)
    return -torch.where(owned[y], each, 0).mean()


def _log_rest(log_q: Tensor) -> Tensor:
    """log(1 - q[c]) from log q [..., classes], whose probabilities sum to 1."""
    own = torch.eye(log_q.shape[-1], dtype=torch.bool, device=log_q.device)
    return log_q[..., None, :].masked_fill(own, -float("inf")).logsumexp(-1)
