"""RepShare's equations: golden numbers, plain loops, by hand, and what Theorem 1 really says."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.loops import (
    close,
    cross_entropy_loop,
    discriminator_loop,
    golden,
    gradient,
    labels,
    logits,
    same_class_loop,
    softmax_loop,
    to_means_loop,
)

from fedtutor import losses


def some(classes: int, seed: int) -> torch.Tensor:
    return labels(classes, 2, seed=seed).bool()


# ------------------------------------------------------------------------------ golden numbers


def golden_terms(g, h, w, b):
    every = torch.ones(10, dtype=torch.bool)
    z, z_observed, y = h @ w.T + b, g["t_obs"] @ w.T + b, g["labels"]
    return z, y, z_observed, every


def test_golden_both_readings():
    g = golden("berdoz")
    h, weights = g["features"], (float(g["lambda_kd"]), float(g["lambda_disc"]))
    z, y, z_observed, every = golden_terms(g, h, g["W"], g["b"])
    close(losses.same_class(z, z_observed), g["h"], 1e-9)
    close(losses.cross_entropy(z, y), g["ce"], 1e-9)
    paper = (losses.representation_distance(h, y, g["t_bar"], every),
             losses.discriminator_loss(z, y, z_observed))  # fmt: skip
    code = (losses.prototype_distance(h, y, g["t_bar"], every),
            losses.discriminator_loss_code(z, y, z_observed))  # fmt: skip
    close(paper[0], g["paper_kd_squared_norm"], 1e-9)
    close(paper[1], g["paper_disc_sum_over_classes"], 1e-9)
    close(code[0], g["code_kd_mean_over_elements"], 1e-9)
    close(code[1], g["code_disc_mean_over_pairs"], 1e-9)
    for terms, name in ((paper, "paper"), (code, "code")):
        total = losses.repshare_loss(z, y, *terms, lambda_kd=weights[0], lambda_disc=weights[1])
        close(total, g[f"{name}_total"], 1e-9)


@pytest.mark.parametrize("of", ["features", "W", "b"])
def test_golden_gradients_reach_the_classifier_through_both_arguments(of):
    g = golden("berdoz")

    def total(value):
        parts = {"features": g["features"], "W": g["W"], "b": g["b"], of: value}
        z, y, z_observed, every = golden_terms(g, parts["features"], parts["W"], parts["b"])
        kd = losses.prototype_distance(parts["features"], y, g["t_bar"], every)
        disc = losses.discriminator_loss_code(z, y, z_observed)
        return losses.repshare_loss(z, y, kd, disc, lambda_kd=10.0, lambda_disc=1.0)

    close(gradient(total, g[of]), g[f"code_grad_{of}"], 1e-9)


# --------------------------------------------------------------------------------- plain loops


def test_the_discriminator_against_plain_loops():
    for seed in range(3):
        z, observed = logits(6, 4, seed=seed), logits(5, 4, seed=10 + seed)
        close(losses.same_class(z, observed), same_class_loop(z, observed))
        each = logits(6, 5, 4, seed=20 + seed)
        close(losses.same_class(z, each), same_class_loop(z, each))


def test_the_discriminator_loss_against_plain_loops():
    for seed in range(3):
        z, y = logits(6, 4, seed=seed), labels(6, 4, seed=seed)
        known, each_known = some(4, seed), torch.stack([some(4, 50 + b + seed) for b in range(6)])
        observed, each = logits(4, 4, seed=10 + seed), logits(6, 4, 4, seed=20 + seed)
        for t, mask in ((observed, None), (each, None), (observed, known), (each, each_known)):
            expected = discriminator_loop(z, y, t, mask)
            close(losses.discriminator_loss(z, y, t, mask), expected, 1e-10)
            close(losses.discriminator_loss_code(z, y, t, mask), expected / 4, 1e-10)


def test_the_distance_and_the_objective_against_plain_loops():
    for seed in range(3):
        h, y, means = logits(7, 3, seed=seed), labels(7, 4, seed=seed), logits(4, 3, seed=9 + seed)
        owned = torch.tensor([True, True, False, True])
        expected = to_means_loop(h, y, means, owned)
        close(losses.representation_distance(h, y, means, owned), expected)
        close(losses.prototype_distance(h, y, means, owned), expected / 3)
        z = logits(7, 4, seed=30 + seed)
        total = cross_entropy_loop(z, y) + 0.3 * expected + 0.7 * 1.25
        close(losses.repshare_loss(z, y, losses.representation_distance(h, y, means, owned), 1.25,
                                   lambda_kd=0.3, lambda_disc=0.7), total)  # fmt: skip


def test_the_bound_against_plain_loops():
    for seed, k in ((0, 1), (1, 4), (2, 9)):
        joint, product = logits(30, seed=seed).sigmoid(), logits(40, seed=9 + seed).sigmoid()
        loss = -sum(math.log(v) for v in joint.tolist()) / 30
        loss -= k * sum(math.log(1 - v) for v in product.tolist()) / 40
        close(losses.contrastive_objective(joint, product, negatives=k), loss)
        close(losses.information_bound(torch.tensor(loss), negatives=k), math.log(k) - loss, 1e-6)
        ratio = logits(20, seed=20 + seed)
        expected = [math.exp(r) / (math.exp(r) + k) for r in ratio.tolist()]
        close(losses.best_discriminator(ratio, negatives=k), expected)


def test_fd_against_plain_loops():
    for seed in range(3):
        z, y = logits(6, 4, seed=seed), labels(6, 4, seed=seed)
        p, owned = logits(4, 4, seed=9 + seed).softmax(1), some(4, 3 + seed)
        total = 0.0
        for b in range(6):
            q, own = softmax_loop(z[b].tolist()), p[int(y[b])].tolist()
            if owned[int(y[b])]:
                total -= sum(own[c] * math.log(q[c]) for c in range(4)) / 6
        close(losses.fd_loss(z, y, p, owned), total)


# ----------------------------------------------------------------------- by hand, and the limits


def test_two_classes_by_hand():
    """p = (3/4, 1/4); observations (1/2, 1/2) and (1/4, 3/4): h = 1/2 and 3/8."""
    z = torch.tensor([[math.log(3.0), 0.0]], dtype=torch.float64)
    observed = torch.tensor([[0.0, 0.0], [0.0, math.log(3.0)]], dtype=torch.float64)
    close(losses.same_class(z, observed), [[1 / 2, 3 / 8]])
    y = torch.tensor([0])
    close(losses.discriminator_loss(z, y, observed), -math.log(1 / 2) - math.log(5 / 8))
    close(losses.discriminator_loss(z, 1 - y, observed), -math.log(3 / 8) - math.log(1 / 2))
    only = torch.tensor([True, False])
    close(losses.discriminator_loss(z, y, observed, only), -math.log(1 / 2))
    h, means = torch.tensor([[1.0, 2.0, 2.0]]), torch.zeros(2, 3)
    assert float(losses.representation_distance(h, y, means, only)) == pytest.approx(9)
    assert float(losses.representation_distance(h, 1 - y, means, only)) == 0


def test_equal_logits_are_right_once_in_c():
    for classes in (2, 10):
        z, y = torch.zeros(3, classes, dtype=torch.float64), torch.arange(3) % classes
        loss = math.log(classes) - (classes - 1) * math.log(1 - 1 / classes)
        close(losses.discriminator_loss(z, y, torch.zeros(classes, classes).double()), loss)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [50.0, 1e4])
def test_the_loss_is_finite_where_the_classifier_is_certain(dtype, size):
    """h rounds to 1 for the wrong class: log(1 - h) would be minus infinity."""
    z = torch.tensor([[size, 0.0, 0.0]], dtype=dtype, requires_grad=True)
    observed = size * torch.eye(3, dtype=dtype)
    loss = losses.discriminator_loss(z, torch.tensor([1]), observed)
    loss.backward()
    expected = (size - math.log(4)) + (size - math.log(2))  # wrong class 0, right class 1
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    assert torch.isfinite(z.grad).all()


def test_terms_of_0_leave_the_labels():
    z, y = logits(5, 4, seed=0), labels(5, 4, seed=0)
    assert torch.equal(losses.repshare_loss(z, y, 0.0, 0.0), losses.cross_entropy(z, y))


def test_the_readings_differ_by_the_sizes():
    """84 features and 10 classes: the printed sums are 84 and 10 times the author's means."""
    h, y, means = logits(32, 84, seed=0), labels(32, 10, seed=0), logits(10, 84, seed=1)
    every = torch.ones(10, dtype=torch.bool)
    far, near = (f(h, y, means, every)
                 for f in (losses.representation_distance, losses.prototype_distance))  # fmt: skip
    assert float(far / near) == pytest.approx(84)
    z, observed = logits(32, 10, seed=2), logits(10, 10, seed=3)
    long = losses.discriminator_loss(z, y, observed)
    short = losses.discriminator_loss_code(z, y, observed)
    assert float(long / short) == pytest.approx(10)


@given(st.integers(2, 6), st.integers(1, 5), st.floats(0.1, 30), st.integers(0, 99))
@settings(deadline=None, max_examples=40)
def test_a_probability_and_a_loss_that_the_order_of_images_does_not_change(c, batch, scale, seed):
    z, y = logits(batch, c, seed=seed, scale=scale), labels(batch, c, seed=seed)
    observed = logits(c, c, seed=seed + 1, scale=scale)
    h = losses.same_class(z, observed)
    assert (h >= 0).all() and (h <= 1 + 1e-12).all()
    close(h, losses.same_class(z + 3.0, observed - 2.0), 1e-9)  # constants do not count
    loss = losses.discriminator_loss(z, y, observed)
    assert float(loss) >= 0
    turned = torch.arange(batch).flip(0)
    close(loss, losses.discriminator_loss(z[turned], y[turned], observed), 1e-9)
    each = observed.expand(batch, c, c)
    close(loss, losses.discriminator_loss(z, y, each), 1e-9)


# -------------------------------------------------------------------------------------- theorem


def discrete(seed: int, size: int = 4) -> torch.Tensor:
    """A joint distribution of two features with `size` values each."""
    p = logits(size, size, seed=seed).exp()
    return p / p.sum()


def expected_loss(p: torch.Tensor, h: torch.Tensor, k: int) -> float:
    """Eq. 3 for a known joint distribution, as a sum instead of a mean."""
    both = p.sum(1, keepdim=True) * p.sum(0, keepdim=True)
    return float(-(p * h.log()).sum() - k * (both * (1 - h).log()).sum())


@pytest.mark.parametrize("k", [1, 3, 9])
@pytest.mark.parametrize("seed", range(4))
def test_the_bound_holds_and_is_no_equality_at_the_posterior(seed, k):
    p = discrete(seed)
    ratio = p.log() - (p.sum(1, keepdim=True) * p.sum(0, keepdim=True)).log()
    information = float((p * ratio).sum())
    best = losses.best_discriminator(ratio, negatives=k)
    loss = expected_loss(p, best, k)
    bound = float(losses.information_bound(torch.tensor(loss), negatives=k))
    assert bound < information - 0.1  # Theorem 1: "with equality iff h = q"
    assert bound <= math.log(k)
    for other in range(3):  # any other discriminator is worse
        h = (ratio + logits(4, 4, seed=50 + other)).sigmoid()
        assert expected_loss(p, h, k) > loss


def test_independent_features_get_a_bound_below_minus_1():
    for k in (1, 9, 99):
        h = losses.best_discriminator(torch.zeros(5), negatives=k)
        loss = losses.contrastive_objective(h, h, negatives=k)
        bound = losses.information_bound(loss, negatives=k)
        assert float(bound) == pytest.approx(-(k + 1) * math.log(1 + 1 / k), rel=1e-4)
        assert float(bound) < -1
