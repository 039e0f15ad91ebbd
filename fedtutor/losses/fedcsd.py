"""FedCSD (Yan et al. 2025): class prototypes of logits, a refined teacher, masks."""

from torch import Tensor
from torch.nn.functional import log_softmax, normalize, one_hot

from .basic import cross_entropy


def logit_distillation(z: Tensor, z_global: Tensor, *, tau: float = 10.0) -> Tensor:
    """Plain logit distillation from the global model (FedCSD Eq. 4).

    -(1/B) sum_b tau^2 sum_c q_global[b, c] log q[b, c], q = softmax(z / tau), q_global likewise.
    z, z_global: [batch, classes]. A cross-entropy: tau^2 times the divergence plus a constant, so
    it is not 0 where both agree. Where tau is large against the logits, its gradient for z is
    (z - z_global) / (B C), each row less its mean: the logits are matched, whatever tau is. Derived
    in notebook 03.
    """
    return _soft_cross_entropy(z, z_global, tau).mean()


def feature_distillation(h: Tensor, h_global: Tensor) -> Tensor:
    """Distance to the features of the global model (FedCSD Eq. 5).

    (1/(B d)) sum_b sum_i (h[b, i] - h_global[b, i])^2; features [batch, d]. The equation prints
    neither sum nor mean; the text calls it the MSE loss, hence the mean over both. Derived in
    notebook 03.
    """
    return ((h - h_global) ** 2).mean()


def class_prototypes(v: Tensor, y: Tensor, *, num_classes: int) -> Tensor:
    """The mean of v over each class (FedCSD Eq. 6, where v are the teacher's logits).

    P[c] = sum_i v[i] [y_i = c] / |{i: y_i = c}|. v: [n, d], y: [n]; P: [num_classes, d]. A class
    without an image gets zeros, as in the official code; the paper leaves it open. FedProto's and
    FedProc's prototypes are the same of features. Derived in notebook 03.
    """
    member = one_hot(y, num_classes).to(v.dtype)
    return (member.T @ v) / member.sum(0).clamp(min=1)[:, None]


def global_prototypes(prototypes: Tensor) -> Tensor:
    """The average of all clients' prototypes (FedCSD Eq. 7).

    P_G = (1/K) sum_k P_k; [clients, classes, d] to [classes, d]. Divides by all clients, also by
    those without the class: the row is then shorter, not turned, and Eq. 8 asks for the direction
    only. Official code: no average, every client keeps its own. Derived in notebook 03.
    """
    return prototypes.mean(0)


def prototype_similarity(z: Tensor, prototypes: Tensor) -> Tensor:
    """How much the logits of an image point where each prototype points (FedCSD Eq. 8).

    delta[b, c] = z[b] . P[c] / (|z[b]| |P[c]|), in [-1, 1]. z: [batch, d], prototypes:
    [classes, d]. A row of zeros gets 0. The printed denominator is one norm of the whole matrix;
    read row by row, as the cosine of the text and the official code. Derived in notebook 03.
    """
    return normalize(z, dim=1) @ normalize(prototypes, dim=1).T


def similarity_scores(delta: Tensor, owned: Tensor | None = None) -> Tensor:
    """Similarities that sum to 1 (FedCSD Eq. 9).

    softmax over the classes of delta [batch, classes]. Because delta lies in [-1, 1], every score
    lies within a factor e^2 of every other: near 1 / C, not near 0 or 1. `owned` (bool [classes],
    ours) leaves classes without a prototype out: they score 0. Derived in notebook 03.
    """
    return (delta if owned is None else delta.masked_fill(~owned, -float("inf"))).softmax(1)


def refined_logits(z_teacher: Tensor, scores: Tensor) -> Tensor:
    """The teacher's logits, each times the score of its class (FedCSD Eq. 10).

    z_teacher, scores: [batch, classes]. The scores sum to 1, so that the refined logits are about
    1 / C of the teacher's. Derived in notebook 03.
    """
    return z_teacher * scores


def class_similarity_distillation(
    z: Tensor, z_refined: Tensor, mask: Tensor | None = None, *, tau: float = 10.0
) -> Tensor:
    """Distillation from the refined teacher (FedCSD Eq. 11; with a mask Eq. 14).

    -(1/B) sum_b M[b] tau^2 sum_c q_refined[b, c] log q[b, c], softmaxes at temperature tau. Logits
    [batch, classes], mask [batch] of 0 and 1; images that it filters out stay in the mean. For
    refined logits of 0 the teacher is uniform, and the loss is tau^2 log C plus, where tau is
    large, half the variance of z over the classes: mu weights that penalty, not mu tau^2. Derived
    in notebook 03.
    """
    each = _soft_cross_entropy(z, z_refined, tau)
    return (each if mask is None else mask * each).mean()


def confidence_penalty(z: Tensor, mask: Tensor | None = None, *, tau: float = 10.0) -> Tensor:
    """No teacher: the student's own certainty (Pereyra et al. 2017), at FedCSD's temperature.

    (1/B) sum_b M[b] tau^2 sum_c q[b, c] log q[b, c], q = softmax(z / tau): minus the entropy. Where
    tau is large it is -tau^2 log C plus half the variance of z over the classes, the same penalty
    as distillation from a uniform teacher. z: [batch, classes], mask [batch]. Ours as a control.
    """
    each = -_soft_cross_entropy(z, z, tau)
    return (each if mask is None else mask * each).mean()


def moving_average(w: Tensor, w_new: Tensor, *, alpha: float = 0.9) -> Tensor:
    """The teacher's weights after a round (FedCSD Eq. 12).

    alpha w + (1 - alpha) w_new, of any shape. alpha = 0 takes the last global model. Official code:
    the same. Derived in notebook 03.
    """
    return alpha * w + (1 - alpha) * w_new


def adaptive_mask(z_teacher: Tensor, y: Tensor) -> Tensor:
    """Which soft labels are worth something (FedCSD Eq. 13).

    M[b] = 1 where softmax(z_teacher[b])[y[b]] > 1 / C, else 0. z_teacher: [batch, classes], not
    refined; y: [batch]. The printed denominator sums over y_i; read over the classes. Official
    code: the same rule on the refined logits. Derived in notebook 03.
    """
    p = z_teacher.softmax(1).gather(1, y[:, None])[:, 0]
    return (p > 1 / z_teacher.shape[1]).to(z_teacher.dtype)


def forcible_mask(z_teacher: Tensor, y: Tensor) -> Tensor:
    """Only soft labels that name the right class (FedCSD Eq. 16).

    M[b] = 1 where the largest of z_teacher[b] is that of class y[b], else 0. Keeps a subset of what
    `adaptive_mask` keeps on the same logits (but for exact ties), because a largest probability is
    at least 1 / C. Derived in notebook 03.
    """
    return (z_teacher.argmax(1) == y).to(z_teacher.dtype)


def fedcsd_loss(
    z: Tensor,
    y: Tensor,
    z_refined: Tensor,
    mask: Tensor | None = None,
    *,
    mu: float = 0.001,
    tau: float = 10.0,
) -> Tensor:
    """FedCSD's local objective (FedCSD Eq. 15).

    CE + mu L_CSD, L_CSD of Eq. 14. Logits [batch, classes], y [batch], mask [batch]. mu = 0 is
    FedAvg. Official code: `fedcsd_loss_code`. Derived in notebook 03.
    """
    return cross_entropy(z, y) + mu * class_similarity_distillation(z, z_refined, mask, tau=tau)


def fedcsd_loss_code(
    z: Tensor,
    y: Tensor,
    z_refined: Tensor,
    mask: Tensor | None = None,
    *,
    mu: float = 0.5,
    tau: float = 4.0,
) -> Tensor:
    """FedCSD Eq. 15 as its code has it: (1 - mu) CE + mu KL.

    KL = (1/B) sum_b M[b] tau^2 KL(q_refined[b] || q[b]). Shapes as in `fedcsd_loss`. The code's
    refined logits carry a gradient, because their scores come from z: a divergence and a
    cross-entropy then pull differently. Derived in notebook 03.
    """
    each = _soft_cross_entropy(z, z_refined, tau) - _soft_cross_entropy(z_refined, z_refined, tau)
    divergence = (each if mask is None else mask * each).mean()
    return (1 - mu) * cross_entropy(z, y) + mu * divergence


def _soft_cross_entropy(z: Tensor, z_teacher: Tensor, tau: float) -> Tensor:
    q_teacher = (z_teacher / tau).softmax(1)
    return -(tau**2) * (q_teacher * log_softmax(z / tau, dim=1)).sum(1)
