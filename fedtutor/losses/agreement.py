"""The methods that FCCL is compared with: agreement on outputs, or with single other networks."""

import math

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from .basic import cross_entropy, distillation


def logit_mse(z: Tensor, z_mean: Tensor) -> Tensor:
    """Plain logit distillation: mean squared distance to the average logits.

    (1/(B C)) sum_b sum_u (z[b, u] - z_mean[b, u])^2. Logits [batch, classes]. The gradient for z is
    2 (z - z_mean) / (B C). This is the high-temperature limit of distillation up to a constant per
    image (Hinton et al. 2015, Sec. 2.1). Ours as a baseline.
    """
    return ((z - z_mean) ** 2).mean()


def logit_l1(z: Tensor, z_mean: Tensor) -> Tensor:
    """FedMD's digest: mean absolute distance to the average logits (Li and Wang 2019, Algorithm 1).

    (1/(B C)) sum_b sum_u |z[b, u] - z_mean[b, u]|. Logits [batch, classes]. Each logit feels the
    same pull, however far away it is. The paper names no distance; its code and FCCL's use this
    one, while FCCL's text speaks of the mean square.
    """
    return (z - z_mean).abs().mean()


def hhf_loss(z: Tensor, z_others: Tensor, weights: Tensor) -> Tensor:
    """RHFL's agreement with each other client (Fang and Ye 2022, "HHF" term).

    sum_j weights[j] (1/B) sum_b KL(softmax(z_others[j]) || softmax(z)). z: [batch, classes],
    z_others: [clients - 1, batch, classes], weights: [clients - 1]. Unlike a divergence from the
    mean, it stays above 0 where the others disagree. Official code: the same.
    """
    each = [w * distillation(z, other) for w, other in zip(weights, z_others, strict=True)]
    return torch.stack(each).sum() if each else 0 * z.sum()


def client_confidence(loss_before: Tensor, loss_now: Tensor, *, beta: float = 0.5) -> Tensor:
    """RHFL's weight of each client: small loss, fast drop (Fang and Ye 2022, "CCR").

    softmax_k(1 / (K - 1) + beta Q_k / sum_j Q_j), Q_k = (loss_before_k - loss_now_k) / loss_now_k.
    All [clients]; the weights sum to 1, and beta = 0 or equal Q give 1 / K each. Losses that rise
    on some clients can bring sum_j Q_j near 0 and the weights to 0 and 1; a sum of exactly 0
    counts as equal Q. Official code: the same, and 1 / (K - 1) before there are two losses.
    """
    q = (loss_before - loss_now) / loss_now
    share = torch.where(q.sum() == 0, torch.full_like(q, 1 / len(q)), q / q.sum())
    return (1 / max(len(q) - 1, 1) + beta * share).softmax(0)


def symmetric_cross_entropy(
    z: Tensor, y: Tensor, *, alpha: float = 0.1, beta: float = 1.0
) -> Tensor:
    """RHFL's local loss, robust to wrong labels (Wang et al. 2019; Fang and Ye 2022, "SCE").

    alpha CE + beta RCE, RCE = -(1/B) sum_b sum_c p[b, c] log(max(onehot(y[b])[c], 1e-4)), p the
    softmax of z. z: [batch, classes], y: [batch]. RCE is log(1e4) times the mean probability of all
    wrong classes, so it never exceeds 9.21. Official code: the same.
    """
    wrong = 1 - z.softmax(1).gather(1, y[:, None]).mean()
    return alpha * cross_entropy(z, y) + beta * math.log(1e4) * wrong


def mean_scores(z: Tensor, owns: Tensor) -> Tensor:
    """RCFL's average over the clients that own a label (inferred, see `methods/rcfl.py`).

    p[b, c] = sum_k owns[k, c] softmax(z[k, b])[c] / sum_k owns[k, c], then divided by its sum over
    the classes. z: [clients, batch, classes], owns: [clients, classes] of 0 and 1; p: [batch,
    classes]. A class that nobody owns gets 0.
    """
    total = (z.softmax(2) * owns[:, None]).sum(0) / owns.sum(0).clamp(min=1)
    return total / total.sum(1, keepdim=True)


def mutual_loss(z: Tensor, z_other: Tensor, y: Tensor, *, alpha: float) -> Tensor:
    """FML: labels, and what the other network of this client thinks (Shen et al. 2020).

    alpha CE(z, y) + (1 - alpha) (1/B) sum_b KL(softmax(z_other) || softmax(z)). Logits [batch,
    classes], y [batch]. alpha = 1 is training without the other.
    """
    return alpha * cross_entropy(z, y) + (1 - alpha) * distillation(z, z_other)


def helper_consistency(z: Tensor, z_helpers: Tensor) -> Tensor:
    """FedMatch's inter-client consistency (Jeong et al., ICLR 2021).

    (1/H) sum_h (1/B) sum_b KL(softmax(z_helpers[h]) || softmax(z)). z: [batch, classes],
    z_helpers: [helpers, batch, classes]; 0 without helpers. Official code: the same.
    """
    count = max(len(z_helpers), 1)
    return hhf_loss(z, z_helpers, z.new_full((len(z_helpers),), 1 / count))


def agreement_labels(z: Tensor, z_helpers: Tensor) -> Tensor:
    """FedMatch's pseudo-labels: the class that most of own and helpers' networks name.

    z: [batch, classes], z_helpers: [helpers, batch, classes]; returns int64 [batch]. A tie goes to
    the smaller class number, as in the official code.
    """
    named = torch.cat([z[None], z_helpers]).argmax(2)
    return one_hot(named, z.shape[1]).sum(0).argmax(1)
