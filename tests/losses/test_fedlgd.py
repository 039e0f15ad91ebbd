"""FedLGD's equations and VHL's alignment: golden numbers, plain loops, cases by hand, limits."""

import math

import pytest
import torch
from support.loops import (
    close,
    contrast_loop,
    cross_entropy_loop,
    distance_loop,
    golden,
    gradient,
    labels,
    logits,
    matching_loop,
    mmd_loop,
    unit,
)

from fedtutor import losses


def gradients(seed: int) -> list[torch.Tensor]:
    return [logits(*shape, seed=seed + i)
            for i, shape in enumerate([(3, 2, 2, 2), (3,), (4, 5), (4,)])]  # fmt: skip


# ------------------------------------------------------------------------------ golden numbers


def test_golden_distribution_matching():
    g = golden("dm_loss")
    count, ipc = g["real"].shape[1], int(g["ipc"])
    y, y_virtual = (torch.arange(3).repeat_interleave(n) for n in (count, ipc))
    h = torch.tanh(g["real"].flatten(0, 1).flatten(1) @ g["We"])

    def loss(x):
        h_virtual = torch.tanh(x.flatten(1) @ g["We"])
        return losses.distribution_matching(h, y, h_virtual, y_virtual, num_classes=3)

    close(loss(g["syn"]), g["loss"], 1e-9)
    close(gradient(loss, g["syn"]), g["grad_syn"], 1e-9)


def test_golden_gradient_distance():
    g = golden("gradient_matching")
    real, virtual = ([g[f"{kind}{i}"] for i in range(8)] for kind in ("g_real", "g_syn"))
    close(losses.gradient_distance(virtual, real), g["paper_skip_1d"], 1e-9)
    close(losses.gradient_distance(virtual, real, vectors="row"), g["paper_all_tensors"], 1e-9)
    close(losses.gradient_distance_code(virtual, real), g["fedlgd_ours"], 1e-9)
    for i in range(8):
        if virtual[i].ndim == 1:
            assert not g[f"grad{i}"].any()  # the code gives them none either
            continue

        def moved(v, i=i):
            return losses.gradient_distance_code([*virtual[:i], v, *virtual[i + 1 :]], real)

        close(gradient(moved, virtual[i]), g[f"grad{i}"], 1e-9)


def test_golden_contrast_and_alignment():
    g = golden("supcon_fedlgd_vhl")
    h, h_server = g["features_client"], g["features_server"]
    y, y_server = g["labels_client"], g["labels_server"]
    both, labels_ = torch.cat([h, h_server]), torch.cat([y, y_server])
    tau, weight = float(g["temperature"]), float(g["vhl_noise_weight"])
    close(losses.supervised_contrastive_code(both, labels_, tau=tau), g["loss"], 1e-9)
    slope = gradient(lambda v: losses.supervised_contrastive_code(v, labels_, tau=tau), both)
    close(slope, torch.cat([g["grad_client"], g["grad_server"]]), 1e-9)
    close(losses.supervised_contrastive(both, labels_, tau=tau),
          g["loss_literal_eq4_unnormalised_sum"], 1e-9)  # fmt: skip
    close(losses.mmd_regularizer(h, h_server), g["mmd_rbf"], 1e-9)

    def aligned(v):
        return losses.noise_alignment(v[: len(h)], y, v[len(h) :], y_server, tau=tau,
                                      weight=weight)  # fmt: skip

    close(aligned(both), g["vhl_total"], 1e-9)
    close(gradient(aligned, both), g["vhl_grad"], 1e-9)


# --------------------------------------------------------------------------------- plain loops


def test_distribution_matching_against_plain_loops():
    for seed in range(3):
        h, g = logits(20, 4, seed=seed), logits(9, 4, seed=10 + seed)
        y, y_virtual = labels(20, 4, seed=seed), labels(9, 5, seed=20 + seed)  # no class 4 in y
        value = losses.distribution_matching(h, y, g, y_virtual, num_classes=6)
        close(value, matching_loop(h, y, g, y_virtual, 6))


def test_the_contrast_against_plain_loops():
    for seed, tau in ((0, 1.0), (1, 0.5), (2, 2.0)):
        h, y = logits(9, 3, seed=seed, scale=1.0), labels(9, 4, seed=seed)
        y[0] = 7  # alone in its class
        own = contrast_loop(h.tolist(), y, tau)
        assert own[0] == 0
        close(losses.supervised_contrastive(h, y, tau=tau), sum(own))
        scaled = contrast_loop(unit(h), y, tau)
        close(losses.supervised_contrastive_code(h, y, tau=tau), sum(scaled) / 9)


def test_the_local_objective_against_plain_loops():
    z, y = logits(6, 4, seed=0), labels(6, 4, seed=0)
    h = logits(6, 3, seed=1, scale=1.0)
    regularizer = losses.supervised_contrastive(h, y, tau=0.7)
    value = losses.fedlgd_loss(z, y, regularizer, lambda_=0.3)
    close(value, cross_entropy_loop(z, y) + 0.3 * sum(contrast_loop(h.tolist(), y, 0.7)))


def test_gradient_distance_against_plain_loops():
    for seed in (0, 10, 20):
        g, other = gradients(seed), gradients(100 + seed)
        close(losses.gradient_distance(g, other), distance_loop(g, other, single=False))
        close(losses.gradient_distance(g, other, vectors="row"),
              distance_loop(g, other, single=True))  # fmt: skip
        short = [v * 1e-3 for v in g]  # so that the small number shows
        other = [v * 1e-3 for v in other]
        close(losses.gradient_distance_code(short, other),
              distance_loop(short, other, single=False, small=1e-6))  # fmt: skip


def test_mmd_against_a_plain_loop():
    for seed in range(3):
        h, g = logits(5, 3, seed=seed), logits(4, 3, seed=10 + seed) + 1
        close(losses.mmd_regularizer(h, g), mmd_loop(h, g))


def test_the_alignment_against_plain_loops():
    for seed in range(2):
        h, g = logits(5, 3, seed=seed), logits(6, 3, seed=10 + seed)
        y, y_noise = labels(5, 3, seed=seed), labels(6, 3, seed=10 + seed)
        both = contrast_loop(unit(torch.cat([h, g])), torch.cat([y, y_noise]), 0.5)
        alone = contrast_loop(unit(g), y_noise, 0.5)
        value = losses.noise_alignment(h, y, g, y_noise, tau=0.5, weight=0.2)
        close(value, sum(both) / 11 + 0.2 * sum(alone) / 6)


# ----------------------------------------------------------------------- by hand, and the limits


def test_matching_by_hand():
    """Class 0: means (2, 0) and (1, 1), squared distance 2; class 1: (0, 3) and (0, 3)."""
    h, y = torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 3.0]]), torch.tensor([0, 0, 1])
    g, k = torch.tensor([[1.0, 1.0], [0.0, 2.0], [0.0, 4.0]]), torch.tensor([0, 1, 1])
    assert float(losses.distribution_matching(h, y, g, k, num_classes=2)) == 2
    assert float(losses.distribution_matching(h, y, h, y, num_classes=5)) == 0
    none = losses.distribution_matching(h, y, g, 2 + k, num_classes=4)
    assert float(none) == 0  # no class in common


def test_the_contrast_by_hand():
    """Four equal features of two classes: each anchor log 3, whatever tau is."""
    h, y = torch.ones(4, 2), torch.tensor([0, 0, 1, 1])
    for tau in (0.07, 1.0):
        close(losses.supervised_contrastive(h, y, tau=tau), 4 * math.log(3), 1e-6)
        close(losses.supervised_contrastive_code(h, y, tau=tau), math.log(3), 1e-6)


def test_nobody_has_a_partner():
    h, y = logits(4, 3, seed=0), torch.arange(4)
    assert float(losses.supervised_contrastive(h, y)) == 0
    assert not gradient(lambda v: losses.supervised_contrastive_code(v, y), h).any()


def test_the_codes_contrast_is_the_papers_for_unit_features():
    h, y = logits(12, 5, seed=0), labels(12, 3, seed=0)
    paper = losses.supervised_contrastive(torch.nn.functional.normalize(h, dim=1), y)
    close(losses.supervised_contrastive_code(h, y), paper / 12)
    close(losses.supervised_contrastive_code(3 * h, y), paper / 12)


def test_lambda_0_is_cross_entropy():
    z, y = logits(5, 4, seed=0), labels(5, 4, seed=0)
    loss = losses.fedlgd_loss(z, y, torch.tensor(3.0), lambda_=0.0)
    assert torch.equal(loss, losses.cross_entropy(z, y))


@pytest.mark.parametrize("vectors", ["skip", "row"])
def test_directions_count_and_lengths_do_not(vectors):
    g = gradients(0)
    rows = 3 + 4 + (2 if vectors == "row" else 0)
    distance = losses.gradient_distance
    close(distance(g, [0.001 * v for v in g], vectors=vectors), 0.0)
    close(distance(g, [-7 * v for v in g], vectors=vectors), 2.0 * rows)
    zeros = [torch.zeros_like(v) for v in g]
    close(distance(g, zeros, vectors=vectors), float(rows))
    slope = torch.autograd.grad(
        distance(v := [z.requires_grad_() for z in zeros], g, vectors=vectors), v[0]
    )[0]
    assert torch.isfinite(slope).all()


def test_tiny_gradients_keep_their_direction_and_lose_it_in_the_code():
    g = [torch.tensor([[3e-12, 4e-12]])]
    assert float(losses.gradient_distance(g, g)) == pytest.approx(0, abs=1e-6)
    assert float(losses.gradient_distance_code(g, g)) == pytest.approx(1)


def test_mmd_of_equal_batches_is_0_and_grows_with_distance():
    h = logits(8, 3, seed=0)
    near, far = (losses.mmd_regularizer(h, h + shift) for shift in (0.5, 5.0))
    close(losses.mmd_regularizer(h, h), 0.0)
    assert 0 < float(near) < float(far)
    assert float(losses.mmd_regularizer(torch.ones(2, 3), torch.ones(2, 3))) == 0  # all rows equal


def test_noise_stays_where_it_is_without_its_own_contrast():
    h, g = logits(5, 3, seed=0), logits(6, 3, seed=1)
    y, k = labels(5, 3, seed=0), labels(6, 3, seed=1)
    assert not gradient(lambda v: losses.noise_alignment(h, y, v, k, weight=0.0), g).any()
    assert gradient(lambda v: losses.noise_alignment(v, y, g, k, weight=0.0), h).any()
