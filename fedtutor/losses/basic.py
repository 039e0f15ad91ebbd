"""What several papers use: labels, and one network as the teacher of another."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import kl_div, log_softmax


def cross_entropy(z: Tensor, y: Tensor) -> Tensor:
    """Mean cross-entropy of logits `z` [batch, classes] and labels `y` [batch] (FCCL Eq. 3).

    Also FCCL+ Eq. 9. -(1/B) sum_b log softmax(z_b)[y_b]. Equal logits give log(classes). Derived in
    notebook 00.
    """
    return torch.nn.functional.cross_entropy(z, y)


def proximal_term(w: Sequence[Tensor], w_global: Sequence[Tensor], *, mu: float) -> Tensor:
    """FedProx's pull towards the global weights (Li et al. 2020, Eq. 2).

    (mu/2) ||w - w_global||^2, summed over all trainable tensors. Its gradient is
    mu (w - w_global); mu = 0 gives FedAvg. Derived in notebook 00.
    """
    return 0.5 * mu * sum(((a - b) ** 2).sum() for a, b in zip(w, w_global, strict=True))


def distillation(z: Tensor, z_teacher: Tensor, *, tau: float = 1.0) -> Tensor:
    """Divergence of a student from a teacher (FCCL Eq. 4 and 5; FCCL+ Eq. 7 and 8; FedDF; FML).

    (1/B) sum_b KL(softmax(z_teacher / tau) || softmax(z / tau)), no factor tau^2. z, z_teacher:
    [batch, classes]. At least 0, and 0 where the two differ by a constant per image; the gradient
    for z is (softmax(z / tau) - softmax(z_teacher / tau)) / (tau B). The teacher gets a gradient
    too unless it is detached. Official code: the same, tau = 1. Derived in notebook 01.
    """
    return _kl(log_softmax(z_teacher / tau, dim=1), log_softmax(z / tau, dim=1))


def score_distillation(z: Tensor, p: Tensor) -> Tensor:
    """Divergence of a student from given probabilities.

    (1/B) sum_b KL(p[b] || softmax(z[b])), 0 log 0 = 0. z, p: [batch, classes]. At least 0.
    """
    return (torch.xlogy(p, p) - p * log_softmax(z, dim=1)).sum(1).mean()


def _kl(log_p: Tensor, log_q: Tensor) -> Tensor:
    return kl_div(log_q, log_p, reduction="batchmean", log_target=True)
