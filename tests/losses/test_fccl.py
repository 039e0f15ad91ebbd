"""FCCL and the methods it is compared with: golden numbers, plain loops, limits."""

import math

import pytest
import torch
from support.loops import (
    SEEDS,
    close,
    cross_entropy_loop,
    golden,
    gradient,
    kl_loop,
    labels,
    logits,
    softmax_loop,
)

from fedtutor import losses

# Plain loops: indices named as in the papers, Python floats only


def cross_correlation_loop(z: torch.Tensor, z_mean: torch.Tensor) -> torch.Tensor:
    batch, classes = z.shape
    m = torch.zeros(classes, classes, dtype=torch.float64)
    for u in range(classes):
        for v in range(classes):
            mean_u = sum(float(z[b, u]) for b in range(batch)) / batch
            mean_v = sum(float(z_mean[b, v]) for b in range(batch)) / batch
            top = left = right = 0.0
            for b in range(batch):
                top += (float(z[b, u]) - mean_u) * (float(z_mean[b, v]) - mean_v)
                left += (float(z[b, u]) - mean_u) ** 2
                right += (float(z_mean[b, v]) - mean_v) ** 2
            m[u, v] = top / math.sqrt(left) / math.sqrt(right)
    return m


# FCCL Eq. 1 and 2


def test_golden_cross_correlation():
    g = golden("fccl_cross_correlation")
    z, mean, lambda_ = g["Z"], g["Z"].mean(0), float(g["lam"])
    for i in range(len(z)):
        paper, code = (
            losses.cross_correlation(z[i], mean),
            losses.cross_correlation_code(z[i], mean),
        )
        close(paper, g["M_paper"][i], 1e-9)
        close(code, g["M_code"][i], 1e-9)
        close(losses.collaborative_loss(paper, lambda_=lambda_), g["loss_paper"][i], 1e-9)
        close(losses.collaborative_loss(code, lambda_=lambda_), g["loss_code"][i], 1e-9)

        def code_loss(own):
            return losses.collaborative_loss(
                losses.cross_correlation_code(own, mean),
                lambda_=lambda_,
            )

        close(gradient(code_loss, z[i]), g["grad_Z_code"][i], 1e-9)


def test_golden_target_of_the_conference_code():
    g = golden("fccl_cross_correlation")
    z, frozen = g["Z"], g["Z_progressive"]
    for i in range(len(z)):
        mean = z.mean(0) + (frozen[i] - z[i]) / len(z)  # as FCCL.exchange computes it

        def loss(own, mean=mean):
            return losses.collaborative_loss(losses.cross_correlation_code(own, mean))

        close(loss(z[i]), g["loss_conference_code"][i], 1e-9)
        close(gradient(loss, z[i]), g["grad_Z_conference_code"][i], 1e-9)


def test_cross_correlation_against_a_plain_loop():
    for seed in SEEDS:
        z, mean = logits(9, 5, seed=seed), logits(9, 5, seed=10 + seed)
        expected = cross_correlation_loop(z, mean)
        close(losses.cross_correlation(z, mean), expected)
        close(losses.cross_correlation_code(z, mean), expected * 8 / 9)


def test_collaborative_loss_against_a_plain_loop():
    m = logits(6, 6, seed=1)
    for lambda_, target in ((0.0051, -1.0), (0.3, 0.0), (1.0, -0.25)):
        expected = 0.0
        for u in range(6):
            for v in range(6):
                if u == v:
                    expected += (1 - float(m[u, u])) ** 2
                else:
                    expected += lambda_ * (float(m[u, v]) - target) ** 2
        close(losses.collaborative_loss(m, lambda_=lambda_, off_diagonal=target), expected)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_correlations_lie_between_minus_one_and_one(seed, scale):
    m = losses.cross_correlation(logits(7, 10, seed=seed, scale=scale), logits(7, 10, seed=99))
    assert m.abs().max() <= 1 + 1e-12
    close(losses.cross_correlation(*[logits(7, 10, seed=seed)] * 2).diagonal(), torch.ones(10))


def test_shifts_and_positive_scales_of_a_class_do_not_matter():
    z, mean = logits(8, 4, seed=0), logits(8, 4, seed=1)
    moved = z * torch.tensor([0.1, 3.0, 7.0, 1.0]) + torch.tensor([5.0, -2.0, 0.0, 1.0])
    close(losses.cross_correlation(moved, mean), losses.cross_correlation(z, mean), 1e-10)
    close(losses.cross_correlation(-z, mean), -losses.cross_correlation(z, mean))


def test_equal_clients_have_no_diagonal_loss():
    z = logits(16, 10, seed=3)
    m = losses.cross_correlation(z, torch.stack([z, z, z]).mean(0))
    close(losses.collaborative_loss(m, lambda_=0.0), 0.0)
    code = losses.cross_correlation_code(z, z)
    close(losses.collaborative_loss(code, lambda_=0.0), 10 * (1 / 16) ** 2)  # never reaches 1


def floor(classes: int, lambda_: float = 0.0051) -> float:
    return lambda_ * classes * (classes - 1) * (1 - 1 / (classes - 1)) ** 2


@pytest.mark.parametrize("classes", [2, 3, 10, 31])
def test_agreement_cannot_undercut_the_floor(classes):
    """M is then a correlation matrix, and its off-diagonals average at least -1 / (C - 1)."""
    for seed in range(20):
        z = logits(12, classes, seed=seed)
        loss = losses.collaborative_loss(losses.cross_correlation(z, z))
        assert loss >= floor(classes) - 1e-12
    one_hot = torch.eye(classes, dtype=torch.float64)  # each class alone once: the floor is reached
    loss = losses.collaborative_loss(losses.cross_correlation(one_hot, one_hot))
    close(loss, floor(classes), 1e-9)


def test_the_floors_that_the_design_names():
    assert [round(floor(c), n) for c, n in ((10, 3), (31, 2), (65, 1))] == [0.363, 4.43, 20.6]


def test_a_constant_class_gives_numbers_and_gradients():
    z, mean = logits(6, 3, seed=0), logits(6, 3, seed=1)
    z[:, 1] = 4.0
    m = losses.cross_correlation(z, mean)
    close(m[1], torch.zeros(3))

    def loss(own):
        return losses.collaborative_loss(losses.cross_correlation(own, mean))

    assert torch.isfinite(gradient(loss, z)).all()


def test_the_gradient_of_the_collaborative_loss():
    mean = logits(5, 3, seed=8)

    def loss(own):
        return losses.collaborative_loss(losses.cross_correlation(own, mean), lambda_=0.2)

    assert torch.autograd.gradcheck(loss, logits(5, 3, seed=7).requires_grad_())


# FCCL Eq. 4 to 7


def test_golden_local_loss():
    g = golden("fccl_dual_kd")

    def local(z):
        return losses.dual_domain_loss(z, g["labels"], g["logits_previous"], g["logits_pretrained"])

    close(local(g["logits"]), g["loss"], 1e-9)
    grad_w = gradient(lambda w: local(g["x"] @ w), g["W"])
    close(grad_w, g["grad_W"], 1e-9)


def test_local_losses_against_plain_loops():
    for seed in SEEDS:
        z, previous, pretrained = (logits(7, 5, seed=3 * seed + i) for i in range(3))
        y = labels(7, 5, seed=seed)
        inter, intra = kl_loop(previous, z), kl_loop(pretrained, z)
        close(losses.distillation(z, previous), inter)
        close(losses.distillation(z, previous, tau=3.0), kl_loop(previous, z, 3.0))
        close(losses.dual_distillation(z, previous, pretrained), inter + intra)
        close(
            losses.dual_domain_loss(z, y, previous, pretrained, lambda_=0.3),
            cross_entropy_loop(z, y) + 0.3 * (inter + intra),
        )


def test_equal_teachers_leave_the_gradient_of_the_labels():
    z, y = logits(7, 5, seed=0), labels(7, 5, seed=0)
    teacher = z + 2.0  # the same probabilities
    full = gradient(lambda s: losses.dual_domain_loss(s, y, teacher, z, lambda_=5.0), z)
    close(full, gradient(lambda s: losses.cross_entropy(s, y), z))
    close(losses.dual_distillation(z, teacher, z), 0.0)


def test_distillation_limits():
    z, teacher = logits(6, 4, seed=1), logits(6, 4, seed=2)
    assert losses.distillation(z, teacher) > 0
    close(losses.distillation(z, z - 3), 0.0)
    expected = (torch.softmax(z / 2, 1) - torch.softmax(teacher / 2, 1)) / 2 / 6
    close(gradient(lambda s: losses.distillation(s, teacher, tau=2.0), z), expected)


# On public images


def test_distances_of_logits_against_plain_loops():
    for seed in SEEDS:
        z, mean = logits(4, 3, seed=seed), logits(4, 3, seed=20 + seed)
        pairs = [(float(z[b, u]), float(mean[b, u])) for b in range(4) for u in range(3)]
        close(losses.logit_l1(z, mean), sum(abs(a - b) for a, b in pairs) / 12)
        close(losses.logit_mse(z, mean), sum((a - b) ** 2 for a, b in pairs) / 12)
        close(gradient(lambda s, mean=mean: losses.logit_mse(s, mean), z), 2 * (z - mean) / 12)
        close(gradient(lambda s, mean=mean: losses.logit_l1(s, mean), z), torch.sign(z - mean) / 12)


def test_golden_public_losses():
    g = golden("distillation_baselines")
    z = g["Z"]
    for i in range(len(z)):
        others = [j for j in range(len(z)) if j != i]
        close(losses.logit_l1(z[i], z.mean(0)), g["fedmd_l1"][i], 1e-9)
        close(losses.distillation(z[i], z.mean(0)), g["feddf_kl"][i], 1e-9)
        hhf = losses.hhf_loss(z[i], z[others], g["rhfl_weights"][others])
        close(hhf, g["rhfl_hhf_loss"][i], 1e-9)


def test_golden_rhfl():
    g = golden("distillation_baselines")
    sce = losses.symmetric_cross_entropy(
        g["student"], g["labels"], alpha=float(g["sce_alpha"]), beta=float(g["sce_beta"])
    )
    close(sce, g["rhfl_sce"], 1e-6)  # the official one-hot is float32
    weights = losses.client_confidence(g["rhfl_last_loss"], g["rhfl_cur_loss"])
    close(weights, g["rhfl_weights"], 1e-9)


def test_rhfl_against_plain_loops():
    z, y = logits(6, 4, seed=5), labels(6, 4, seed=5)
    others, weights = logits(3, 6, 4, seed=6), torch.tensor([0.2, 0.5, 0.1], dtype=torch.float64)
    expected = sum(float(weights[j]) * kl_loop(others[j], z) for j in range(3))
    close(losses.hhf_loss(z, others, weights), expected)

    reverse = 0.0
    for b in range(6):
        p = softmax_loop(z[b].tolist())
        for c in range(4):
            reverse -= p[c] * math.log(min(max(float(c == int(y[b])), 1e-4), 1.0)) / 6
    expected = 0.4 * cross_entropy_loop(z, y) + 2.0 * reverse
    close(losses.symmetric_cross_entropy(z, y, alpha=0.4, beta=2.0), expected)

    before, now = [1.0, 2.0, 0.7], [0.8, 1.9, 0.6]
    q = [(b - n) / n for b, n in zip(before, now, strict=True)]
    f = [math.exp(1 / 2 + 0.5 * v / sum(q)) for v in q]
    ours = losses.client_confidence(*(torch.tensor(v, dtype=torch.float64) for v in (before, now)))
    close(ours, [v / sum(f) for v in f])


def test_client_confidence_limits():
    before, now = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.9, 1.0, 2.0])
    assert float(losses.client_confidence(before, now).sum()) == pytest.approx(1)
    close(losses.client_confidence(before, now, beta=0.0), torch.full((3,), 1 / 3), 1e-6)
    close(losses.client_confidence(now, now), torch.full((3,), 1 / 3), 1e-6)  # nothing has moved
    assert losses.client_confidence(before, now).argmax() == 1  # the fastest relative drop
    close(losses.client_confidence(before[:1], now[:1]), [1.0])


def test_symmetric_cross_entropy_limits():
    z, y = logits(5, 4, seed=0), labels(5, 4, seed=0)
    close(losses.symmetric_cross_entropy(z, y, alpha=1.0, beta=0.0), losses.cross_entropy(z, y))
    wrong = 1e3 * torch.nn.functional.one_hot((y + 1) % 4, 4).double()
    close(losses.symmetric_cross_entropy(wrong, y, alpha=0.0, beta=1.0), math.log(1e4))


def test_nobody_else_means_no_pull():
    z = logits(5, 4, seed=0)
    nobody = z[None, :0].new_zeros(0, 5, 4)
    close(losses.hhf_loss(z, nobody, torch.zeros(0)), 0.0)
    close(losses.helper_consistency(z, nobody), 0.0)
    assert torch.equal(losses.agreement_labels(z, nobody), z.argmax(1))


def test_rcfl_against_a_plain_loop():
    z = logits(3, 5, 4, seed=9)
    owns = torch.tensor([[1, 1, 0, 1], [1, 0, 0, 1], [1, 1, 0, 0]], dtype=torch.float64)
    expected = torch.zeros(5, 4, dtype=torch.float64)
    for b in range(5):
        scores = []
        for c in range(4):
            know = [k for k in range(3) if owns[k, c]]
            total = sum(softmax_loop(z[k, b].tolist())[c] for k in know)
            scores.append(total / len(know) if know else 0.0)
        expected[b] = torch.tensor(scores, dtype=torch.float64) / sum(scores)
    scores = losses.mean_scores(z, owns)
    close(scores, expected)

    student, total = logits(5, 4, seed=10), 0.0
    for b in range(5):
        q = softmax_loop(student[b].tolist())
        for c in range(4):
            p = float(scores[b, c])
            total += p * math.log(p / q[c]) / 5 if p else 0.0
    close(losses.score_distillation(student, scores), total)
    close(losses.score_distillation(student, student.softmax(1)), 0.0)


def test_rcfl_where_everybody_owns_every_label():
    z = logits(3, 5, 4, seed=9)
    close(losses.mean_scores(z, torch.ones(3, 4, dtype=torch.float64)), z.softmax(2).mean(0))


# From single others


def test_mutual_loss_against_a_plain_loop():
    z, other, y = logits(6, 4, seed=1), logits(6, 4, seed=2), labels(6, 4, seed=3)
    expected = 0.3 * cross_entropy_loop(z, y) + 0.7 * kl_loop(other, z)
    close(losses.mutual_loss(z, other, y, alpha=0.3), expected)
    close(losses.mutual_loss(z, other, y, alpha=1.0), losses.cross_entropy(z, y))


def test_fedmatch_against_plain_loops():
    z, helpers = logits(8, 4, seed=1), logits(2, 8, 4, seed=2)
    expected = sum(kl_loop(helpers[h], z) for h in range(2)) / 2
    close(losses.helper_consistency(z, helpers), expected)
    votes = losses.agreement_labels(z, helpers)
    for b in range(8):
        named = [int(z[b].argmax()), int(helpers[0, b].argmax()), int(helpers[1, b].argmax())]
        counts = [named.count(c) for c in range(4)]
        assert int(votes[b]) == counts.index(max(counts))


def test_a_vote_by_hand():
    own = torch.tensor([[9.0, 0.0, 0.0], [0.0, 0.0, 9.0]])
    helpers = torch.tensor([[[0.0, 9.0, 0.0], [0.0, 9.0, 0.0]], [[0.0, 9.0, 0.0], [9.0, 0.0, 0.0]]])
    assert losses.agreement_labels(own, helpers).tolist() == [1, 0]  # two of three; a tie
