"""FCCL+ (Huang, Ye, Shi and Du, "Generalizable Heterogeneous Federated Cross-Correlation and
Instance Similarity Learning"), and the EWC penalty that it is compared with.

Its Eq. 1 and 2 are FCCL's (`cross_correlation`, `collaborative_loss`), Eq. 7 and 8 are
`distillation`, Eq. 9 is `cross_entropy`, Eq. 19 is `dual_domain_loss`.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, normalize

from .basic import cross_entropy, distillation

# On public images


def instance_similarity(h: Tensor, *, mu: float = 0.02) -> Tensor:
    """How similar the images of a batch look to one client (FCCL+ Eq. 3).

    S[b, c] = h[b] . h[c] / (mu |h[b]| |h[c]|). h: features [batch, d] of any width; S: [batch,
    batch], symmetric, entries in [-1/mu, 1/mu], diagonal 1/mu. Rotating all features, or scaling
    one of them by a positive number, changes nothing. An image without any feature (all 0) is
    similar to none. Official code: the same, mu = 0.02 as in Sec. 4.1; Table VII's 0.002 is a
    misprint. Derived in notebook 02.
    """
    h = normalize(h, dim=1)
    return h @ h.T / mu


def without_diagonal(s: Tensor) -> Tensor:
    """Similarities to the other images only (FCCL+ Eq. 4).

    s: [batch, batch]; returns [batch, batch - 1], row b without s[b, b]. The paper prints
    (batch - 1) x (batch - 1), and keeps "S != 0" after zeroing the diagonal, which would also drop
    pairs that have no feature in common. Official code: as here. Derived in notebook 02.
    """
    return s.gather(1, _others(torch.arange(len(s), device=s.device), len(s)))


def instance_similarity_loss(s: Tensor, s_mean: Tensor) -> Tensor:
    """FISL: see the images related as the average client does (FCCL+ Eq. 5).

    (1/B) sum_b KL(softmax(s_mean[b]) || softmax(s[b])). s, s_mean: [batch, batch - 1] of Eq. 4; the
    average over clients is taken before the softmax, the own similarities included. At least 0, and
    0 for equal similarities. Eq. 5 prints neither sum nor mean; the official code sums over a row
    and takes the mean over rows. Derived in notebook 02.
    """
    return distillation(s, s_mean)


def communication_loss(
    fccm: Tensor | float, fisl: Tensor | float, *, omega: float = 3.0
) -> Tensor | float:
    """FCCL+'s collaborative objective (FCCL+ Eq. 6): L_FCCM (Eq. 2) + omega L_FISL (Eq. 5).

    Official code: the same, omega = 3 (1 on Office-Home). Derived in notebook 02.
    """
    return fccm + omega * fisl


# On private images


def distilled_loss(z: Tensor, y: Tensor, z_teacher: Tensor, *, tau: float = 3.0) -> Tensor:
    """Labels and one teacher, the objective that FCCL+ argues against (FCCL+ Eq. 10).

    L_CE (Eq. 9) + tau^2 L_KD (Eq. 7 and 8). Logits [batch, classes], y [batch]. The local loss of
    the conference version (Eq. 19) has no tau^2, and tau = 1. Derived in notebook 02.
    """
    return cross_entropy(z, y) + tau**2 * distillation(z, z_teacher, tau=tau)


def target_distillation(z: Tensor, y: Tensor, z_teacher: Tensor, *, tau: float = 3.0) -> Tensor:
    """The part of distillation that looks at the true class (FCCL+ Eq. 11, TD).

    (1/B) sum_b p_T[t] log(p_T[t] / p_S[t]), t = y[b], p = softmax(logits / tau). Logits [batch,
    classes], y [batch]. With `non_target_distillation` it adds up to `distillation`.
    Derived in notebook 02.
    """
    return _terms(z, z_teacher, tau).gather(1, y[:, None]).mean()


def non_target_distillation(z: Tensor, y: Tensor, z_teacher: Tensor, *, tau: float = 3.0) -> Tensor:
    """FNTD: the part of distillation that looks at the other classes (FCCL+ Eq. 13).

    (1/B) sum_b sum_{u != t} p_T[u] log(p_T[u] / p_S[u]), t = y[b], p = softmax(logits / tau) over
    all classes. Logits [batch, classes], y [batch]. Not a divergence: down to (1 - p_T[t])
    log(1 - p_T[t]), which is below 0, and it pushes the logit of the true class down, because p_S
    holds it (`target_logit_gradient`). As tau grows it falls like 1 / tau, not 1 / tau^2.
    Official code: times tau^2, and the logarithm of a softmax, which is -inf once a probability
    is below 1e-45; here log-softmax, which is finite. Derived in notebook 02.
    """
    return _terms(z, z_teacher, tau).scatter(1, y[:, None], 0).sum(1).mean()


def renormalized_non_target_distillation(
    z: Tensor, y: Tensor, z_teacher: Tensor, *, tau: float = 3.0
) -> Tensor:
    """FCCL+ Eq. 13 with probabilities that sum to 1 over the other classes, as in FedNTD.

    (1/B) sum_b KL(q_T || q_S), q = softmax(logits[u != t] / tau), t = y[b]. Logits [batch,
    classes], y [batch]. A divergence, and its gradient on the logit of the true class is exactly
    0, as Eq. 12 claims. Eq. 13 is (1 - p_T[t]) times the divergence of an image, plus (1 - p_T[t])
    log((1 - p_T[t]) / (1 - p_S[t])). FedNTD (Lee et al., NeurIPS 2022; code the same) multiplies
    by tau^2. Derived in notebook 02.
    """
    others = _others(y, z.shape[1])
    return distillation(z.gather(1, others), z_teacher.gather(1, others), tau=tau)


def non_target_loss(z: Tensor, y: Tensor, z_teacher: Tensor, *, tau: float = 3.0) -> Tensor:
    """FCCL+'s local objective (FCCL+ Eq. 14): L_CE (Eq. 9) + L_FNTD (Eq. 13).

    Logits [batch, classes], y [batch]. Official code: L_FNTD times tau^2. Derived in notebook
    02.
    """
    return cross_entropy(z, y) + non_target_distillation(z, y, z_teacher, tau=tau)


def target_logit_gradient(z: Tensor, y: Tensor, z_teacher: Tensor, *, tau: float = 3.0) -> Tensor:
    """What each part of Eq. 10 does to the logit of the true class (FCCL+ Eq. 12).

    Rows of the result [3, batch], for one image with t = y[b]:

        labels                d CE / d z[t]          p(1)_S[t] - 1
        target part           tau^2 d TD / d z[t]    -tau p_T[t] (1 - p_S[t])
        other classes         tau^2 d NTD / d z[t]    tau p_S[t] (1 - p_T[t])

    with p(1) at temperature 1 and p at temperature tau. Eq. 12 prints tau (p_S[t] - p_T[t]) for the
    target part and 0 for the others: only their sum is right. The target part always helps the
    labels, and it is the others that fight them. Logits [batch, classes]. Derived in notebook 02.
    """
    labels = z.softmax(1).gather(1, y[:, None])[:, 0] - 1
    p_s = (z / tau).softmax(1).gather(1, y[:, None])[:, 0]
    p_t = (z_teacher / tau).softmax(1).gather(1, y[:, None])[:, 0]
    return torch.stack([labels, -tau * p_t * (1 - p_s), tau * p_s * (1 - p_t)])


def ewc_penalty(
    w: Sequence[Tensor], w_previous: Sequence[Tensor], fisher: Sequence[Tensor], *, lambda_: float
) -> Tensor:
    """Elastic weight consolidation (Kirkpatrick et al., PNAS 2017, Eq. 3).

    (lambda/2) sum_j F_j (w_j - w_previous_j)^2 over all trainable tensors, F the diagonal of the
    Fisher information. Its gradient is lambda F (w - w_previous). F = 1 is FedProx's pull. FCCL+
    Table XVI names no factor 1/2. Derived in notebook 02b.
    """
    parts = zip(w, w_previous, fisher, strict=True)
    return 0.5 * lambda_ * sum((f * (a - b) ** 2).sum() for a, b, f in parts)


def _terms(z: Tensor, z_teacher: Tensor, tau: float) -> Tensor:
    """p_T log(p_T / p_S) of every image and class; 0 where p_T underflows."""
    log_s, log_t = log_softmax(z / tau, dim=1), log_softmax(z_teacher / tau, dim=1)
    return log_t.exp() * (log_t - log_s)


def _others(left_out: Tensor, count: int) -> Tensor:
    """Row b: the numbers 0 to count - 1 without left_out[b]; [rows, count - 1]."""
    u = torch.arange(count - 1, device=left_out.device)
    return u + (u >= left_out[:, None])
