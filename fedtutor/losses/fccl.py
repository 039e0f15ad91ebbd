"""FCCL (Huang, Ye and Du, CVPR 2022)."""

from torch import Tensor
from torch.nn.functional import normalize

from .basic import cross_entropy, distillation


def cross_correlation(z: Tensor, z_mean: Tensor) -> Tensor:
    """How each class of one client goes with each class of the average client (FCCL Eq. 1).

    M[u, v] = sum_b z~[b, u] z~_mean[b, v] / sqrt(sum_b z~[b, u]^2) / sqrt(sum_b z~_mean[b, v]^2),
    with z~ = z minus its mean over the batch. z, z_mean: [batch, classes]; M: [classes, classes].
    Every entry lies in [-1, 1]; adding a constant to a class, or scaling it by a positive number,
    changes nothing; z = z_mean gives a correlation matrix, so diagonal 1. A class whose logit is
    constant over the batch gets 0. The text of FCCL says "normalization along the batch dimension"
    and prints no subtraction of the mean; the journal version (FCCL+ Sec. 3.1) and the code have
    it. Official code: `cross_correlation_code`. Derived in notebook 01.
    """
    z, z_mean = z - z.mean(0), z_mean - z_mean.mean(0)
    return normalize(z, dim=0).T @ normalize(z_mean, dim=0)


def cross_correlation_code(z: Tensor, z_mean: Tensor) -> Tensor:
    """FCCL Eq. 1 as its code has it: unbiased deviations, yet a mean over the whole batch.

    (batch - 1) / batch times `cross_correlation`, so that the diagonal never reaches 1. Shapes as
    there. Derived in notebook 01.
    """
    return cross_correlation(z, z_mean) * ((len(z) - 1) / len(z))


def collaborative_loss(m: Tensor, *, lambda_: float = 0.0051, off_diagonal: float = -1.0) -> Tensor:
    """Same classes shall agree between clients, different classes part (FCCL Eq. 2).

    sum_u (1 - M[u, u])^2 + lambda sum_u sum_{v != u} (M[u, v] - off_diagonal)^2, with M
    [classes, classes] of Eq. 1. The target -1 is the paper's, 0 that of Barlow Twins. When the
    clients agree, the first sum is 0, but -1 cannot be reached by C > 2 classes: the loss is then
    at least lambda C (C - 1) (1 - 1 / (C - 1))^2, which is 0.363 for C = 10. Official code: the
    same. Derived in notebook 01.
    """
    own = m.diagonal()
    others = (m - off_diagonal) ** 2
    return ((1 - own) ** 2).sum() + lambda_ * (others.sum() - others.diagonal().sum())


def dual_distillation(z: Tensor, z_previous: Tensor, z_pretrained: Tensor) -> Tensor:
    """Two teachers, one that met the others and one that knows its own domain (FCCL Eq. 6).

    L_inter (Eq. 4, from the model of the last round) + L_intra (Eq. 5, from the pretrained one).
    All logits [batch, classes]. Equal teachers count twice; a student equal to both gives 0.
    Official code: the same. Derived in notebook 01.
    """
    return distillation(z, z_previous) + distillation(z, z_pretrained)


def dual_domain_loss(
    z: Tensor, y: Tensor, z_previous: Tensor, z_pretrained: Tensor, *, lambda_: float = 1.0
) -> Tensor:
    """FCCL's local objective (Eq. 7): labels and two teachers.

    L_CE (Eq. 3) + lambda L_dual (Eq. 6). Logits [batch, classes], y [batch]. lambda = 0 is plain
    training; where the student equals both teachers, its gradient is that of the cross-entropy.
    Official code: the same. Derived in notebook 01.
    """
    return cross_entropy(z, y) + lambda_ * dual_distillation(z, z_previous, z_pretrained)
