"""The averaging methods FedCSD is compared with: golden numbers, plain loops, limits."""

import math

import numpy as np
import pytest
import torch
from support.loops import (
    GOLDEN,
    close,
    cosine_loop,
    cross_entropy_loop,
    golden,
    gradient,
    kl_loop,
    labels,
    logits,
)

from fedtutor import losses

# ------------------------------------------------------------------------------ golden numbers


@pytest.mark.parametrize("rho", ["0", "0.9"])
def test_golden_fednova(rho):
    g = {k: torch.from_numpy(np.asarray(v))
         for k, v in np.load(GOLDEN / f"toy_federation_rho{rho}.npz").items()}  # fmt: skip
    a = [losses.nova_normalizer(steps, float(g["momentum"])) for steps in (4, 8, 6)]
    close(a, g["fednova_a"], 1e-9)
    p = g["n_k"] / g["n_k"].sum()
    close(p @ torch.tensor(a, dtype=torch.float64), g["fednova_tau_eff"], 1e-9)
    for name in ("W", "b"):
        each = g[f"fedavg_{name}_local"]
        new = losses.nova_step(g[f"{name}0"], each, p, g["fednova_a"])
        close(new, g[f"fednova_{name}_global"], 1e-9)


def test_golden_server_momentum():
    g = golden("toy_federation_rho0")
    w, v = g["W0"], torch.zeros_like(g["W0"])
    for step in range(3):
        average = w + (step + 1) * g["fedavgm_step"]
        v = losses.server_momentum(v, w - average, beta=float(g["fedavgm_beta"]), damped=True)
        w = w - v
        close(w, g["fedavgm_W"][step], 1e-9)


def test_golden_moon():
    g = golden("moon")
    tau, mu, ce = float(g["temperature"]), float(g["mu"]), float(g["ce"])
    assert float(losses.cross_entropy(g["logits"], g["labels"])) == pytest.approx(ce, rel=1e-9)
    for count in (1, 2):
        previous = g["proj_prev"][:count]

        def loss(wp, previous=previous):
            h = g["x"] @ wp
            con = losses.model_contrastive(h, g["proj_global"], previous, tau=tau)
            return losses.cross_entropy(h @ g["Wo"], g["labels"]) + mu * con

        con = losses.model_contrastive(g["proj_local"], g["proj_global"], previous, tau=tau)
        close(con, g[f"con_{count}prev"], 1e-9)
        close(ce + mu * con, g[f"loss_{count}prev"], 1e-9)
        close(gradient(loss, g["Wp"]), g[f"grad_Wp_{count}prev"], 1e-9)


def test_golden_fedproto():
    g = golden("fedproto")
    y, owned = g["labels"], g["has_proto"]
    away = losses.prototype_distance(g["features"], y, g["protos"], owned)
    close(away, g["loss_proto_mse"], 1e-9)
    assert float(losses.cross_entropy(g["logits"], y) + g["ld"] * away) == pytest.approx(
        float(g["loss_total"]), rel=1e-9
    )

    def loss(wp):
        h = g["x"] @ wp
        away = losses.prototype_distance(h, y, g["protos"], owned)
        return losses.cross_entropy(h @ g["Wo"], y) + g["ld"] * away

    close(gradient(loss, g["Wp"]), g["grad_Wp"], 1e-9)
    present = ~g["local_protos"].isnan().any(2)
    mean = losses.mean_prototypes(g["local_protos"].nan_to_num(0.0), present.double())
    close(mean, g["global_protos"].nan_to_num(0.0), 1e-9)


def test_golden_fedproc():
    g = golden("fedproc_derived")
    con = losses.prototype_contrastive(g["features"], g["labels"], g["protos"], g["has_proto"])
    close(con, g["con"], 1e-9)
    alpha, ce = float(g["alpha"]), losses.cross_entropy(g["logits"], g["labels"])
    close(alpha * con + (1 - alpha) * ce, g["loss"], 1e-9)


def test_golden_fedrs():
    g = golden("fedrs")
    alpha, y = float(g["alpha"]), g["labels"]
    scale = losses.continuous_restriction(g["class_counts"], alpha=alpha)
    close(scale, g["scale_code"], 1e-9)

    def loss(w):
        return losses.restricted_cross_entropy(g["features"] @ w.T, y, scale)

    close(loss(g["weight"]), g["loss_code"], 1e-6)  # the authors' scale is float32
    close(gradient(loss, g["weight"]), g["grad_weight_code"], 1e-6)
    binary = losses.restriction(g["class_counts"], alpha=alpha)
    z = g["features"] @ g["weight"].T
    close(losses.restricted_cross_entropy(z, y, binary), g["loss_paper_binary"], 1e-6)


def test_golden_fedgkd():
    g = golden("distillation_baselines")
    for tau, expected in zip(g["fedgkd_T"].tolist(), g["fedgkd_div"], strict=True):
        close(losses.tempered_distillation(g["student"], g["teacher"], tau=tau), expected, 1e-9)


# --------------------------------------------------------------------------------- plain loops


def momentum_loop(steps: int, rho: float) -> float:
    """How often SGD with momentum adds each gradient to the weights, summed over the gradients."""
    memory, moved = [0.0] * steps, [0.0] * steps
    for step in range(steps):
        memory = [rho * m for m in memory]
        memory[step] += 1.0
        moved = [a + b for a, b in zip(moved, memory, strict=True)]
    return sum(moved)


def test_fednova_against_plain_loops():
    for steps, rho in ((1, 0.9), (4, 0.9), (7, 0.5), (7, 0.0)):
        assert losses.nova_normalizer(steps, rho) == pytest.approx(momentum_loop(steps, rho))
    w, each = logits(2, 3, seed=0), logits(4, 2, 3, seed=1)
    p, a = torch.tensor([0.1, 0.2, 0.3, 0.4]).double(), torch.tensor([1.0, 2.0, 5.0, 3.0]).double()
    far = sum(float(p[k]) * float(a[k]) for k in range(4))
    expected = torch.zeros(2, 3, dtype=torch.float64)
    for i in range(2):
        for j in range(3):
            d = sum(float(p[k]) * float(w[i, j] - each[k, i, j]) / float(a[k]) for k in range(4))
            expected[i, j] = float(w[i, j]) - far * d
    close(losses.nova_step(w, each, p, a), expected)


def test_control_variates_against_a_plain_loop():
    c_k, c, w, w_k = (logits(2, 3, seed=i) for i in range(4))
    expected = [
        [float(c_k[i, j]) - float(c[i, j]) + (float(w[i, j]) - float(w_k[i, j])) / (5 * 0.1)
         for j in range(3)]
        for i in range(2)
    ]  # fmt: skip
    close(losses.control_variate(c_k, c, w, w_k, steps=5, lr=0.1), expected)


def test_server_momentum_against_a_plain_loop():
    changes, v, damped = [3.0, -1.0, 2.0], 0.0, 0.0
    ours, ours_damped = torch.zeros(1).double(), torch.zeros(1).double()
    for change in changes:
        v, damped = 0.8 * v + change, 0.8 * damped + 0.2 * change
        now = torch.tensor([change]).double()
        ours = losses.server_momentum(ours, now, beta=0.8)
        ours_damped = losses.server_momentum(ours_damped, now, beta=0.8, damped=True)
    close(ours, [v])
    close(ours_damped, [damped])


def test_model_contrastive_against_a_plain_loop():
    for seed in range(3):
        h, h_global = logits(6, 4, seed=seed), logits(6, 4, seed=10 + seed)
        previous = logits(2, 6, 4, seed=20 + seed)
        total = 0.0
        for b in range(6):
            good = math.exp(cosine_loop(h[b], h_global[b]) / 0.7)
            bad = sum(math.exp(cosine_loop(h[b], previous[p, b]) / 0.7) for p in range(2))
            total -= math.log(good / (good + bad)) / 6
        close(losses.model_contrastive(h, h_global, previous, tau=0.7), total)


def test_prototype_losses_against_plain_loops():
    h, prototypes, y = logits(9, 4, seed=0), logits(5, 4, seed=1), labels(9, 5, seed=2)
    owned = torch.tensor([True, True, False, True, True])
    assert 2 in y.tolist()
    distance = contrast = 0.0
    for b in range(9):
        c = int(y[b])
        if owned[c]:
            distance += sum((float(h[b, i]) - float(prototypes[c, i])) ** 2 for i in range(4)) / 36
            powers = {d: math.exp(cosine_loop(h[b], prototypes[d]) / 0.6)
                      for d in range(5) if owned[d]}  # fmt: skip
            contrast -= math.log(powers[c] / sum(powers.values())) / 9
    close(losses.prototype_distance(h, y, prototypes, owned), distance)
    close(losses.prototype_contrastive(h, y, prototypes, owned, tau=0.6), contrast)


def test_mean_prototypes_against_a_plain_loop():
    p = logits(3, 4, 2, seed=0)
    weights = torch.tensor([[3, 0, 1, 0], [1, 0, 0, 2], [0, 0, 5, 2]], dtype=torch.float64)
    expected = torch.zeros(4, 2, dtype=torch.float64)
    for c in range(4):
        total = sum(float(weights[k, c]) for k in range(3))
        for i in range(2):
            added = sum(float(weights[k, c]) * float(p[k, c, i]) for k in range(3))
            expected[c, i] = added / total if total else 0.0
    close(losses.mean_prototypes(p, weights), expected)


def test_restricted_softmax_against_plain_loops():
    counts = torch.tensor([4, 0, 2, 0, 1])
    close(losses.restriction(counts, alpha=0.3), [1, 0.3, 1, 0.3, 1], 1e-6)
    expected = [0.3 + 0.7 * n / 4 for n in counts.tolist()]
    close(losses.continuous_restriction(counts, alpha=0.3), expected, 1e-6)
    z, y, scale = logits(6, 5, seed=0), labels(6, 5, seed=0), torch.tensor(expected).double()
    scaled = torch.tensor([[float(z[b, c]) * float(scale[c]) for c in range(5)] for b in range(6)])
    close(losses.restricted_cross_entropy(z, y, scale), cross_entropy_loop(scaled.double(), y),
          1e-6)  # fmt: skip


def test_tempered_distillation_against_a_plain_loop():
    z, teacher = logits(6, 4, seed=0), logits(6, 4, seed=1)
    for tau in (1.0, 2.0, 5.0):
        close(losses.tempered_distillation(z, teacher, tau=tau),
              tau**2 * kl_loop(teacher, z, tau))  # fmt: skip


# -------------------------------------------------------------------------------------- limits


def test_equal_normalizers_are_the_average():
    w, each = logits(2, 3, seed=0), logits(4, 2, 3, seed=1)
    p = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    same = torch.full((4,), 7.0).double()
    close(losses.nova_step(w, each, p, same), (p[:, None, None] * each).sum(0))


def test_fednova_by_hand():
    """From 0, one client makes 1 step to 2 and the other 2 steps to 6: directions 2 and 3."""
    new = losses.nova_step(torch.tensor([0.0]), torch.tensor([[2.0], [6.0]]),
                           torch.tensor([0.5, 0.5]), torch.tensor([1.0, 2.0]))  # fmt: skip
    assert new.tolist() == [3.75]  # 1.5 steps of 2.5


def test_a_control_variate_is_the_mean_gradient():
    g1, g2, lr = torch.tensor([1.0, 2.0]), torch.tensor([3.0, -2.0]), 0.5
    w, c_k, c = torch.tensor([8.0, 8.0]), torch.tensor([4.0, 1.0]), torch.tensor([2.0, 3.0])
    w_k = w - lr * (g1 - c_k + c) - lr * (g2 - c_k + c)
    close(losses.control_variate(c_k, c, w, w_k, steps=2, lr=lr), [2.0, 0.0])


def test_feddyn_against_plain_loops():
    w, w_t, g = ([logits(3, 2, seed=s), logits(4, seed=s + 9)] for s in (0, 1, 2))
    total = 0.0
    for a, b, c in zip(w, w_t, g, strict=True):
        rows = (part.flatten().tolist() for part in (a, b, c))
        for a_i, b_i, c_i in zip(*rows, strict=True):
            total += 0.3 / 2 * (a_i - b_i) ** 2 - c_i * a_i
    close(losses.dynamic_regularizer(w, w_t, g, alpha=0.3), total)
    slope = gradient(lambda x: losses.dynamic_regularizer([x], w_t[:1], g[:1], alpha=0.3), w[0])
    close(slope, 0.3 * (w[0] - w_t[0]) - g[0])
    new = losses.gradient_memory(g[0], w[0], w_t[0], alpha=0.3)
    rows = (part.flatten().tolist() for part in (g[0], w[0], w_t[0]))
    expected = [c_i - 0.3 * (a_i - b_i) for c_i, a_i, b_i in zip(*rows, strict=True)]
    close(new.flatten(), expected)
    close(new, -slope)  # at a minimum the gradient of L_k is minus that of the regularizer


def test_a_client_at_rest_with_its_own_gradient_stays():
    w, g = logits(3, seed=0), logits(3, seed=1)
    slope = gradient(lambda x: losses.dynamic_regularizer([x], [w], [g], alpha=0.3), w)
    close(slope + g, torch.zeros(3))


def test_fedadam_and_fedyogi_against_plain_loops():
    delta, m = logits(40, seed=0), logits(40, seed=1)
    w, v = logits(40, seed=2), logits(40, seed=3) ** 2 + 1e-6
    adam, yogi, step, sides = [], [], [], set()
    for d, m_i, w_i, v_i in zip(*(t.tolist() for t in (delta, m, w, v)), strict=True):
        adam.append(0.8 * v_i + (1 - 0.8) * d * d)
        yogi.append(v_i - (1 - 0.8) * d * d if v_i > d * d else v_i + (1 - 0.8) * d * d)
        step.append(w_i + 0.3 * m_i / (math.sqrt(v_i) + 0.05))
        sides.add(v_i > d * d)
    close(losses.adam_squares(v, delta, beta=0.8), adam)
    close(losses.yogi_squares(v, delta, beta=0.8), yogi)
    close(losses.adaptive_step(w, m, v, eta=0.3, tau=0.05), step)
    assert sides == {True, False}


def test_constant_changes_are_what_the_squares_come_to():
    for squares in (losses.adam_squares, losses.yogi_squares):
        v = torch.tensor([1e-6, 4.0, 100.0], dtype=torch.float64)
        for _ in range(3000):
            v = squares(v, torch.full_like(v, 2.0))
        close(v, [4.0, 4.0, 4.0], 0.011)  # Yogi swings by (1 - beta) delta^2 around it


def test_constant_changes_count_ten_times_or_once():
    v = damped = torch.zeros(1)
    for _ in range(400):
        v = losses.server_momentum(v, torch.ones(1))
        damped = losses.server_momentum(damped, torch.ones(1), damped=True)
    close(v, [10.0], 1e-5)
    close(damped, [1.0], 1e-5)


def test_model_contrastive_limits():
    h = logits(5, 3, seed=0)
    close(losses.model_contrastive(h, h, h[None]), math.log(2))
    assert float(losses.model_contrastive(h, -h, h[None, :0].reshape(0, 5, 3))) == 0
    near, far = (losses.model_contrastive(h, side * h, -side * h[None]) for side in (1, -1))
    close(near, math.log(1 + math.exp(-4)))  # cosines 1 and -1, tau 0.5
    close(far, math.log(1 + math.exp(4)))
    for scale in (1e-3, 1e3):
        close(losses.model_contrastive(scale * h, h, -h[None]), near)


def test_prototype_loss_limits():
    p, y = logits(4, 3, seed=0), torch.tensor([0, 1, 2, 3, 0])
    owned = torch.tensor([True] * 4)
    close(losses.prototype_distance(p[y], y, p, owned), 0.0)
    assert float(losses.prototype_distance(p[y] + 1, y, p, ~owned)) == 0
    alone = torch.tensor([True, False, False, False])  # nothing to be far from
    close(losses.prototype_contrastive(p[y], y, p, alone), 0.0)
    slope = gradient(lambda h: losses.prototype_contrastive(h, y, p, alone), p[y] + 1)
    assert torch.isfinite(slope).all()


def test_a_scale_of_one_changes_nothing():
    z, y = logits(6, 5, seed=0), labels(6, 5, seed=0)
    counts = torch.tensor([4, 0, 2, 0, 1])
    for scale in (losses.restriction(counts, alpha=1.0),
                  losses.continuous_restriction(counts, alpha=1.0)):  # fmt: skip
        assert torch.equal(losses.restricted_cross_entropy(z, y, scale),
                           losses.cross_entropy(z, y))  # fmt: skip


def test_restricted_softmax_pushes_absent_classes_less():
    z, y = torch.zeros(1, 3), torch.tensor([0])

    def slope(alpha):
        scale = losses.restriction(torch.tensor([5, 0, 5]), alpha=alpha)
        return gradient(lambda s: losses.restricted_cross_entropy(s, y, scale), z)[0]

    close(slope(1.0), [-2 / 3, 1 / 3, 1 / 3], 1e-6)
    close(slope(0.5), [-2 / 3, 1 / 6, 1 / 3], 1e-6)
