"""The averaging methods that papers are compared with: local losses, and what the server computes.

FedNova, SCAFFOLD, FedAvgM, FedAdam and FedYogi change what is averaged, the others what a client
minimizes; FedDyn does both.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize

from .basic import cross_entropy, distillation, proximal_term


def nova_normalizer(steps: int, momentum: float = 0.0) -> float:
    """How many plain steps a client's `steps` with momentum are worth (FedNova, Sec. 4).

    |a|_1 = (t - rho (1 - rho^t) / (1 - rho)) / (1 - rho), t steps, rho momentum: the sum of the
    factors with which SGD counts the gradients, first to last, if its memory is empty at the start.
    rho = 0 gives t. Derived in notebook 03b.
    """
    rho = momentum
    return (steps - rho * (1 - rho**steps) / (1 - rho)) / (1 - rho)


def nova_step(w: Tensor, w_clients: Tensor, shares: Tensor, normalizers: Tensor) -> Tensor:
    """FedNova's global step: average directions, then go as far as the clients went on average.

    w - (sum_k p_k a_k) sum_k p_k (w - w_k) / a_k. w of any shape, w_clients [clients, *shape],
    shares p and normalizers a [clients], the shares summing to 1. Equal normalizers give the
    average of w_k. Derived in notebook 03b.
    """
    shape = [len(shares)] + [1] * w.ndim
    direction = ((shares / normalizers).view(shape) * (w - w_clients)).sum(0)
    return w - (shares * normalizers).sum() * direction


def control_variate(
    c_k: Tensor, c: Tensor, w: Tensor, w_k: Tensor, *, steps: int, lr: float
) -> Tensor:
    """SCAFFOLD's new control variate of a client (Karimireddy et al. 2020, option II).

    c_k - c + (w - w_k) / (steps lr), w the weights received, w_k those after local training. For
    plain SGD, corrected by c - c_k at each step, it is the mean gradient along the client's path.
    All of one shape. Derived in notebook 03b.
    """
    return c_k - c + (w - w_k) / (steps * lr)


def server_momentum(
    v: Tensor, change: Tensor, *, beta: float = 0.9, damped: bool = False
) -> Tensor:
    """FedAvgM's memory of past rounds (Hsu et al. 2019).

    beta v + change, where `change` is the old global weights minus the average; the new weights are
    the old ones minus the result. In the long run a constant change counts 1 / (1 - beta) times.
    `damped`: beta v + (1 - beta) change, as in MOON's code; then it counts once. Derived in
    notebook 03b.
    """
    return beta * v + ((1 - beta) * change if damped else change)


def adam_squares(v: Tensor, delta: Tensor, *, beta: float = 0.99) -> Tensor:
    """FedAdam's memory of squared changes (Reddi et al. 2021, Algorithm 2).

    beta v + (1 - beta) delta^2, delta the clients' mean change of the weights. All of one shape.
    """
    return beta * v + (1 - beta) * delta**2


def yogi_squares(v: Tensor, delta: Tensor, *, beta: float = 0.99) -> Tensor:
    """FedYogi's memory of squared changes (Reddi et al. 2021, Algorithm 2).

    v - (1 - beta) delta^2 sign(v - delta^2). It moves towards delta^2 as FedAdam's does, but by an
    amount that does not depend on v; v > 0 stays above 0. All of one shape.
    """
    return v - (1 - beta) * delta**2 * torch.sign(v - delta**2)


def adaptive_step(w: Tensor, m: Tensor, v: Tensor, *, eta: float, tau: float = 1e-3) -> Tensor:
    """The server's step of FedAdam and FedYogi (Reddi et al. 2021, Algorithm 2).

    w + eta m / (sqrt(v) + tau), m the moving mean of the changes and v that of their squares. Where
    tau is far above sqrt(v) it is eta / tau of m, FedAvgM's step. All of one shape.
    """
    return w + eta * m / (v.sqrt() + tau)


def dynamic_regularizer(
    w: Sequence[Tensor], w_global: Sequence[Tensor], g: Sequence[Tensor], *, alpha: float
) -> Tensor:
    """FedDyn's addition to a client's loss (Acar et al. 2021, Algorithm 1).

    -<g, w> + (alpha / 2) ||w - w_global||^2, summed over all trainable tensors, g the gradient of
    the client's own loss where it last stopped. Its gradient is -g + alpha (w - w_global), so a
    client that stands at w_global with gradient g stays there.
    """
    linear = sum((a * b).sum() for a, b in zip(g, w, strict=True))
    return proximal_term(w, w_global, mu=alpha) - linear


def gradient_memory(g: Tensor, w: Tensor, w_global: Tensor, *, alpha: float) -> Tensor:
    """FedDyn's gradient of a client's own loss at its new weights (Acar et al. 2021, Algorithm 1).

    g - alpha (w - w_global): at the minimum of the regularized loss, exactly that gradient. The
    server's h is the same sum, averaged over all clients. All of one shape.
    """
    return g - alpha * (w - w_global)


def model_contrastive(
    h: Tensor, h_global: Tensor, h_previous: Tensor, *, tau: float = 0.5
) -> Tensor:
    """MOON: nearer to the global model's features, away from one's own last (Li et al. 2021).

    (1/B) sum_b -log(e_global[b] / (e_global[b] + sum_p e_p[b])), e = exp(cos(h[b], .) / tau).
    h, h_global: [batch, d]; h_previous: [previous models, batch, d], none of which gives 0. Equal
    features everywhere give log 2 with one previous model. Official code: the same. Derived in
    notebook 03b.
    """
    compared = torch.cat([h_global[None], h_previous])
    return -(cosine_similarity(h, compared, dim=2) / tau).log_softmax(0)[0].mean()


def mean_prototypes(prototypes: Tensor, weights: Tensor) -> Tensor:
    """Prototypes averaged over the clients that own the class (Tan et al. 2022, FedProto).

    P[c] = sum_k weights[k, c] prototypes[k, c] / sum_k weights[k, c]; 0 where nobody has weight.
    prototypes: [clients, classes, d]; weights: [clients, classes], images per class or, as in
    FedProto's code, 0 and 1. Derived in notebook 03b.
    """
    total = (weights[:, :, None] * prototypes).sum(0)
    sums = weights.sum(0)
    return total / torch.where(sums > 0, sums, 1)[:, None]


def prototype_distance(h: Tensor, y: Tensor, prototypes: Tensor, owned: Tensor) -> Tensor:
    """FedProto: distance of features to the prototype of their class (Tan et al. 2022).

    (1/(B d)) sum_b owned[y[b]] |h[b] - P[y[b]]|^2. h: [batch, d], y: [batch], prototypes:
    [classes, d], owned: bool [classes]; images of a class without a prototype add 0 and count in
    the mean. Official code: the same. Derived in notebook 03b.
    """
    return (owned[y][:, None] * (h - prototypes[y]) ** 2).mean()


def prototype_contrastive(
    h: Tensor, y: Tensor, prototypes: Tensor, owned: Tensor, *, tau: float = 1.0
) -> Tensor:
    """FedProc: nearer to the own class's prototype than to the others' (Mu et al. 2023).

    (1/B) sum_b -owned[y[b]] log(e[b, y[b]] / sum_c e[b, c]), e = exp(cos(h[b], P[c]) / tau), c over
    the classes that have a prototype. Shapes as in `prototype_distance`. No author code was found;
    a re-implementation (MarsFL) has the same, without temperature. Derived in notebook 03b.
    """
    cosine = normalize(h, dim=1) @ normalize(prototypes, dim=1).T
    scores = (cosine / tau).masked_fill(~owned, -float("inf")).log_softmax(1)
    own = scores.gather(1, y[:, None])[:, 0]
    return -torch.where(owned[y], own, 0).sum() / len(y)


def restriction(counts: Tensor, *, alpha: float = 0.5) -> Tensor:
    """FedRS: classes that a client lacks count less (Li and Zhan 2021).

    1 for a class with images, alpha for one without; counts: images per class, [classes]. Derived
    in notebook 03b.
    """
    return torch.where(counts > 0, 1.0, alpha)


def continuous_restriction(counts: Tensor, *, alpha: float = 0.5) -> Tensor:
    """FedRS as its authors' code has it: the rarer a class, the less it counts.

    alpha + (1 - alpha) counts[c] / max(counts), so it differs from 1 wherever classes are unequal.
    counts: [classes]. Derived in notebook 03b.
    """
    return alpha + (1 - alpha) * counts / counts.max()


def restricted_cross_entropy(z: Tensor, y: Tensor, scale: Tensor) -> Tensor:
    """FedRS's local loss: cross-entropy of logits that are scaled class by class.

    CE(scale z, y); z: [batch, classes], scale: [classes] of `restriction`. A scale of 1 is FedAvg's
    loss. Derived in notebook 03b.
    """
    return cross_entropy(scale * z, y)


def tempered_distillation(z: Tensor, z_teacher: Tensor, *, tau: float = 1.0) -> Tensor:
    """FedGKD's divergence from its teacher, with the factor tau^2 (Yao et al. 2023).

    (1/B) sum_b tau^2 KL(softmax(z_teacher / tau) || softmax(z / tau)); logits [batch, classes]. The
    factor keeps the gradient's size when tau grows. Official code: the same. Derived in notebook
    03b.
    """
    return tau**2 * distillation(z, z_teacher, tau=tau)
