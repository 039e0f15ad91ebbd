"""FedCSD's equations: golden numbers, plain loops, limits, and what they imply for the teacher."""

import math

import pytest
import torch
from support.loops import (
    close,
    cosine_loop,
    cross_entropy_loop,
    golden,
    gradient,
    kl_loop,
    labels,
    logits,
    prototypes_loop,
    soft_cross_entropy_loop,
    softmax_loop,
)

from fedtutor import losses


def mask_of(count: int, seed: int) -> torch.Tensor:
    return labels(count, 2, seed=seed).double()


# ------------------------------------------------------------------------------ golden numbers


def fedcsd_numbers():
    g = golden("fedcsd")
    x, tau = g["x"], float(g["T"])
    batch, y = x[:8], g["batch_labels"]
    return g, x @ g["W_teacher"], batch @ g["W_teacher"], batch @ g["W_local"], y, tau


def test_golden_paper():
    g, everything, z_teacher, z, y, tau = fedcsd_numbers()
    ends = g["paper_client_sizes"].cumsum(0).tolist()
    held = [slice(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    own = torch.stack([
        losses.class_prototypes(everything[k], g["paper_client_labels"][k], num_classes=5)
        for k in held
    ])  # fmt: skip
    close(own, g["paper_P_k"].nan_to_num(0.0), 1e-9)
    close(losses.global_prototypes(own), g["paper_P_G_divide_by_K"], 1e-9)
    by_owners = losses.mean_prototypes(own, g["paper_has_class"].double())
    close(by_owners, g["paper_P_G_divide_by_present"].nan_to_num(0.0), 1e-9)
    delta = losses.prototype_similarity(z, g["paper_P_G_divide_by_K"])
    scores = losses.similarity_scores(delta)
    refined = losses.refined_logits(z_teacher, scores)
    close(delta, g["paper_cos"], 1e-9)
    close(scores, g["paper_delta_hat"], 1e-9)
    close(refined, g["paper_z_refined"], 1e-9)
    adaptive, forcible = losses.adaptive_mask(z_teacher, y), losses.forcible_mask(z_teacher, y)
    close(adaptive, g["paper_mask13"])
    close(forcible, g["paper_mask16"])
    csd = losses.class_similarity_distillation
    close(csd(z, refined, tau=tau), g["paper_csd_eq11"], 1e-9)
    close(csd(z, refined, adaptive, tau=tau), g["paper_csd_eq14"], 1e-9)
    close(csd(z, refined, forcible, tau=tau), g["paper_csd_eq14_mask16"], 1e-9)
    mu = float(g["mu"])
    full = losses.fedcsd_loss(z, y, refined, adaptive, mu=mu, tau=tau)
    close(full, g["ce"] + mu * g["paper_csd_eq14"], 1e-9)


def test_golden_code():
    g, everything, z_teacher, _, y, tau = fedcsd_numbers()
    prototypes = losses.class_prototypes(everything, g["labels"], num_classes=5)
    close(prototypes, g["code_prototype_local"], 1e-9)
    assert not prototypes[2].any()  # the class that is absent

    def loss(w):
        z = g["x"][:8] @ w
        scores = losses.similarity_scores(losses.prototype_similarity(z, prototypes))
        refined = losses.refined_logits(z_teacher, scores)
        mask = losses.adaptive_mask(refined, y)
        return losses.fedcsd_loss_code(z, y, refined, mask, mu=float(g["mu"]), tau=tau)

    close(loss(g["W_local"]), g["code_loss"], 1e-7)  # the code's mask is float32
    close(gradient(loss, g["W_local"]), g["code_grad_W_local"], 1e-7)


# --------------------------------------------------------------------------------- plain loops


def test_distillation_from_the_global_model_against_plain_loops():
    for seed, tau in ((0, 10.0), (1, 1.0), (2, 3.0)):
        z, teacher = logits(6, 4, seed=seed), logits(6, 4, seed=10 + seed)
        close(losses.logit_distillation(z, teacher, tau=tau),
              soft_cross_entropy_loop(z, teacher, tau))  # fmt: skip
        total = 0.0
        for b in range(6):
            for i in range(4):
                total += (float(z[b, i]) - float(teacher[b, i])) ** 2 / 24
        close(losses.feature_distillation(z, teacher), total)


def test_prototypes_against_plain_loops():
    for seed in range(3):
        v, y = logits(20, 5, seed=seed), labels(20, 4, seed=seed)  # class 4 is absent
        p = losses.class_prototypes(v, y, num_classes=5)
        close(p, prototypes_loop(v, y, 5))
        others = logits(3, 5, 5, seed=20 + seed)
        expected = [
            [sum(float(others[k, c, i]) for k in range(3)) / 3 for i in range(5)] for c in range(5)
        ]
        close(losses.global_prototypes(others), expected)
        z = logits(7, 5, seed=30 + seed)
        delta = losses.prototype_similarity(z, p)
        close(delta, [[cosine_loop(z[b], p[c]) for c in range(5)] for b in range(7)])
        scores = losses.similarity_scores(delta)
        close(scores, [softmax_loop(row.tolist()) for row in delta])
        owned = p.any(1)
        some = [[*softmax_loop(row[:4].tolist()), 0.0] for row in delta]
        close(losses.similarity_scores(delta, owned), some)
        teacher = logits(7, 5, seed=40 + seed)
        refined = [[float(teacher[b, c]) * float(scores[b, c]) for c in range(5)] for b in range(7)]
        close(losses.refined_logits(teacher, scores), refined)


def test_masks_against_plain_loops():
    for seed in range(4):
        z, y = logits(40, 5, seed=seed), labels(40, 5, seed=seed)
        adaptive, forcible = [], []
        for b in range(40):
            p = softmax_loop(z[b].tolist())
            adaptive.append(1.0 if p[int(y[b])] > 1 / 5 else 0.0)
            forcible.append(1.0 if p.index(max(p)) == int(y[b]) else 0.0)
        close(losses.adaptive_mask(z, y), adaptive)
        close(losses.forcible_mask(z, y), forcible)
        assert 0 < sum(forcible) < sum(adaptive) < 40


def test_the_distillation_loss_against_plain_loops():
    for seed, tau in ((0, 10.0), (1, 4.0), (2, 1.0)):
        z, refined = logits(6, 4, seed=seed), logits(6, 4, seed=10 + seed)
        y, mask = labels(6, 4, seed=seed), mask_of(6, seed)
        csd = losses.class_similarity_distillation
        close(csd(z, refined, tau=tau), soft_cross_entropy_loop(z, refined, tau))
        masked = soft_cross_entropy_loop(z, refined, tau, mask)
        close(csd(z, refined, mask, tau=tau), masked)
        ce = cross_entropy_loop(z, y)
        close(losses.fedcsd_loss(z, y, refined, mask, mu=0.3, tau=tau), ce + 0.3 * masked)
        unmasked = soft_cross_entropy_loop(z, refined, tau)
        close(losses.fedcsd_loss(z, y, refined, mu=0.3, tau=tau), ce + 0.3 * unmasked)
        kl = masked - soft_cross_entropy_loop(refined, refined, tau, mask)
        close(losses.fedcsd_loss_code(z, y, refined, mask, mu=0.3, tau=tau), 0.7 * ce + 0.3 * kl)
        whole = tau**2 * kl_loop(refined, z, tau)
        close(losses.fedcsd_loss_code(z, y, refined, mu=0.3, tau=tau), 0.7 * ce + 0.3 * whole)
        close(losses.confidence_penalty(z, mask, tau=tau),
              -soft_cross_entropy_loop(z, z, tau, mask))  # fmt: skip
        close(losses.confidence_penalty(z, tau=tau), -soft_cross_entropy_loop(z, z, tau))


def test_the_moving_average_against_a_plain_loop():
    w, new = logits(3, 4, seed=0), logits(3, 4, seed=1)
    for alpha in (0.9, 0.25, 0.0):
        expected = [[alpha * float(w[i, j]) + (1 - alpha) * float(new[i, j]) for j in range(4)]
                    for i in range(3)]  # fmt: skip
        close(losses.moving_average(w, new, alpha=alpha), expected)


# ----------------------------------------------------------------------- by hand, and the limits


def test_one_image_by_hand():
    """Two classes, integers: similarity 1 and 0, scores e/(e + 1) and 1/(e + 1)."""
    z, teacher = torch.tensor([[2.0, 0.0]]), torch.tensor([[4.0, 8.0]])
    prototypes = torch.tensor([[3.0, 0.0], [0.0, 5.0]])
    delta = losses.prototype_similarity(z, prototypes)
    assert delta.tolist() == [[1.0, 0.0]]
    e = math.e
    scores = losses.similarity_scores(delta)
    close(scores, [[e / (e + 1), 1 / (e + 1)]], 1e-6)
    close(losses.refined_logits(teacher, scores), [[4 * e / (e + 1), 8 / (e + 1)]], 1e-6)
    y = torch.tensor([0])
    assert losses.adaptive_mask(teacher, y).tolist() == [0.0]  # the teacher says class 1
    assert losses.adaptive_mask(teacher, 1 - y).tolist() == [1.0]


def test_mu_0_leaves_the_labels():
    z, y, refined = logits(5, 4, seed=0), labels(5, 4, seed=0), logits(5, 4, seed=1)
    assert torch.equal(losses.fedcsd_loss(z, y, refined, mu=0.0), losses.cross_entropy(z, y))
    assert torch.equal(losses.fedcsd_loss_code(z, y, refined, mu=0.0), losses.cross_entropy(z, y))


def test_a_teacher_of_equal_probabilities_is_filtered_out():
    for classes in (2, 3, 7, 10, 62, 100):
        for dtype in (torch.float32, torch.float64):
            z, y = torch.full((4, classes), 1.5, dtype=dtype), labels(4, classes, seed=0)
            assert not losses.adaptive_mask(z, y).any()


@pytest.mark.parametrize("classes", [10, 100])
def test_the_forcible_mask_keeps_a_subset(classes):
    z, y = logits(5000, classes, seed=classes), labels(5000, classes, seed=0)
    adaptive, forcible = losses.adaptive_mask(z, y), losses.forcible_mask(z, y)
    assert (forcible <= adaptive).all() and forcible.sum() < adaptive.sum()


@pytest.mark.parametrize("classes", [2, 10, 100])
def test_scores_lie_near_one_over_c(classes):
    z, p = logits(50, classes, seed=1), logits(classes, classes, seed=2)
    p[0], p[1] = z[0], -z[0]  # similarity 1 and -1: the widest range
    scores = losses.similarity_scores(losses.prototype_similarity(z, p))
    close(scores.sum(1), torch.ones(50))
    assert scores.max() / scores.min() <= math.e**2 + 1e-9
    assert scores.min() >= math.e**-2 / classes and scores.max() <= math.e**2 / classes


def test_the_divisor_of_equation_7_cannot_matter():
    own = logits(3, 5, 5, seed=0)
    owns = torch.tensor([[1, 1, 0, 1, 0], [1, 0, 0, 1, 0], [1, 1, 0, 0, 0]], dtype=torch.float64)
    own = own * owns[:, :, None]
    z = logits(9, 5, seed=1)
    by_all = losses.prototype_similarity(z, losses.global_prototypes(own))
    by_owners = losses.prototype_similarity(z, losses.mean_prototypes(own, owns))
    close(by_all, by_owners)
    assert not by_all[:, 2].any() and not by_all[:, 4].any()  # nobody has them


def entropy(z, tau: float) -> float:
    q = (z / tau).softmax(1)
    return float(-(q * q.log()).sum(1).mean())


@pytest.mark.parametrize(("classes", "least"), [(10, 0.998), (100, 0.99999)])
def test_the_refined_teacher_is_almost_uniform(classes, least):
    z, teacher = logits(200, classes, seed=0, scale=5.0), logits(200, classes, seed=1, scale=5.0)
    p = losses.class_prototypes(teacher, labels(200, classes, seed=0), num_classes=classes)
    scores = losses.similarity_scores(losses.prototype_similarity(z, p))
    refined = losses.refined_logits(teacher, scores)
    missing, before = (1 - entropy(t, 10.0) / math.log(classes) for t in (refined, teacher))
    assert 0 < missing < 1 - least
    assert missing < before / (classes**2 / 4)


def test_a_uniform_teacher_is_a_penalty_on_the_variance_of_the_logits():
    """Where tau is large: tau^2 log C + Var(z) / 2, and mu alone is its weight."""
    z = logits(30, 10, seed=0)
    for tau in (100.0, 1000.0):
        uniform = losses.class_similarity_distillation(z, torch.zeros_like(z), tau=tau)
        penalty = losses.confidence_penalty(z, tau=tau)
        half = float(z.var(1, unbiased=False).mean()) / 2
        assert float(uniform) - tau**2 * math.log(10) == pytest.approx(half, rel=10 / tau)
        assert float(penalty) + tau**2 * math.log(10) == pytest.approx(half, rel=10 / tau)
        slope = gradient(
            lambda s, tau=tau: losses.class_similarity_distillation(s, 0 * s, tau=tau), z
        )
        close(slope, (z - z.mean(1, keepdim=True)) / 10 / 30, 10 / tau)


def test_at_high_temperature_distillation_matches_logits():
    z, teacher = logits(30, 10, seed=0), logits(30, 10, seed=1)
    slope = gradient(lambda s: losses.logit_distillation(s, teacher, tau=1000.0), z)
    apart = z - teacher
    close(slope, (apart - apart.mean(1, keepdim=True)) / 10 / 30, 1e-2)


def test_filtered_images_stay_in_the_mean():
    z, refined = logits(4, 3, seed=0), logits(4, 3, seed=1)
    csd = losses.class_similarity_distillation
    mask = torch.tensor([1.0, 0.0, 1.0, 0.0], dtype=torch.float64)
    close(csd(z, refined, mask), csd(z[::2], refined[::2]) / 2)
    assert float(csd(z, refined, torch.zeros(4))) == 0


def test_the_order_of_images_does_not_matter():
    v, y = logits(30, 4, seed=0), labels(30, 4, seed=0)
    order = torch.randperm(30, generator=torch.Generator().manual_seed(0))
    close(losses.class_prototypes(v, y, num_classes=4),
          losses.class_prototypes(v[order], y[order], num_classes=4))  # fmt: skip
