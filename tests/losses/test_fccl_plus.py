"""FCCL+ and the EWC penalty: golden numbers, plain loops, limits."""

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

NON_TARGET = (losses.non_target_distillation, losses.renormalized_non_target_distillation)


def case(seed: int, batch: int = 7, classes: int = 5):
    """Student, labels, teacher."""
    z, z_teacher = logits(batch, classes, seed=seed), logits(batch, classes, seed=50 + seed)
    return z, labels(batch, classes, seed=seed), z_teacher


def probabilities(z: torch.Tensor, tau: float) -> list[list[float]]:
    return [softmax_loop([v / tau for v in row]) for row in z.tolist()]


# Eq. 3 to 6


def similarity_loop(h: torch.Tensor, mu: float) -> list[list[float]]:
    rows = h.tolist()
    length = [math.sqrt(sum(v * v for v in row)) for row in rows]
    return [
        [sum(a * b for a, b in zip(rows[b], rows[c], strict=True)) / (mu * length[b] * length[c])
         for c in range(len(rows))]
        for b in range(len(rows))
    ]  # fmt: skip


def similarities(h: torch.Tensor, mu: float = 0.02) -> torch.Tensor:
    return losses.without_diagonal(losses.instance_similarity(h, mu=mu))


def test_golden_collaborative():
    g = golden("fcclplus_collaborative")
    z, h = g["Z"], [g[f"H{i}"] for i in range(4)]
    assert len({x.shape[1] for x in h}) == 4  # four widths
    mean = torch.stack([similarities(x, float(g["mu"])) for x in h]).mean(0)
    for i in range(4):

        def fisl(own, mu=float(g["mu"]), mean=mean):
            return losses.instance_similarity_loss(similarities(own, mu), mean)

        def fccm(own):
            m = losses.cross_correlation_code(own, z.mean(0))
            return losses.collaborative_loss(m, lambda_=float(g["lam"]))

        omega = float(g["omega"])
        total = losses.communication_loss(fccm(z[i]), fisl(h[i]), omega=omega)
        close(fccm(z[i]), g["loss_fccm"][i], 1e-9)
        close(fisl(h[i]), g["loss_fisl"][i], 1e-9)
        close(total, g["loss_total"][i], 1e-9)
        close(gradient(fccm, z[i]), g["grad_Z"][i], 1e-9)
        close(gradient(lambda x, f=fisl, w=omega: w * f(x), h[i]), g[f"grad_H{i}"], 1e-9)
        rows = [losses.instance_similarity_loss(similarities(h[i])[b : b + 1], mean[b : b + 1])
                for b in range(16)]  # fmt: skip
        close(torch.stack(rows), g["fisl_per_row_derived"][i], 1e-9)
        sharp = torch.stack([similarities(x, 0.002) for x in h]).mean(0)
        close(fisl(h[i], 0.002, sharp), g["loss_fisl_mu_0_002"][i], 1e-9)


def test_similarities_against_plain_loops():
    for seed in SEEDS:
        h, other = logits(6, 4, seed=seed), logits(6, 9, seed=30 + seed)
        full = similarity_loop(h, 0.3)
        close(losses.instance_similarity(h, mu=0.3), full, 1e-11)
        cut = [[full[b][c] for c in range(6) if c != b] for b in range(6)]
        s = losses.without_diagonal(losses.instance_similarity(h, mu=0.3))
        close(s, cut, 1e-11)
        mean = (s + similarities(other, 0.3)) / 2
        close(losses.instance_similarity_loss(s, mean), kl_loop(mean, s), 1e-11)
        close(losses.communication_loss(torch.tensor(1.5), torch.tensor(0.25), omega=3.0), 2.25)


def test_similarities_by_hand():
    h = torch.tensor([[3.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    half = math.sqrt(0.5)
    close(losses.instance_similarity(h, mu=0.5), [[2, 2 * half, 0], [2 * half, 2, 2 * half],
                                                  [0, 2 * half, 2]], 1e-6)  # fmt: skip
    close(similarities(h, 0.5), [[2 * half, 0], [2 * half, 2 * half], [0, 2 * half]], 1e-6)
    # "S != 0" would have dropped the images 0 and 2, which have no feature in common


def test_only_angles_count():
    h = logits(8, 5, seed=4)
    s = similarities(h)
    turn = torch.linalg.qr(logits(5, 5, seed=5))[0]
    wider = torch.cat([h @ turn, torch.zeros(8, 3, dtype=h.dtype)], 1)
    close(similarities(wider), s, 1e-10)
    close(similarities(h * torch.arange(1, 9)[:, None]), s, 1e-10)
    full = losses.instance_similarity(h)
    close(full, full.T)
    close(full.diagonal(), torch.full((8,), 50.0), 1e-10)
    assert full.abs().max() <= 50 + 1e-9


def test_the_diagonal_would_take_almost_everything():
    full = losses.instance_similarity(logits(16, 12, seed=0)).softmax(1)
    assert full.diagonal().min() > 0.99


def test_fisl_limits():
    h, other = logits(8, 5, seed=0), logits(8, 9, seed=1)
    close(losses.instance_similarity_loss(similarities(h), similarities(h) + 7), 0.0)
    mean = (similarities(h) + similarities(other)) / 2
    assert losses.instance_similarity_loss(similarities(h), mean) > 0
    soft = (similarities(h, 1e6) + similarities(other, 1e6)) / 2
    close(losses.instance_similarity_loss(similarities(h, 1e6), soft), 0.0, 1e-9)
    two = [similarities(x[:2]) for x in (h, other)]  # one other image: nothing to compare
    close(losses.instance_similarity_loss(two[0], two[1]), 0.0)


def test_an_image_without_features_gives_numbers():
    h = torch.relu(logits(6, 4, seed=2).float())
    h[3] = 0
    s = similarities(h)
    close(s[3], torch.zeros(5))
    z = gradient(lambda x: losses.instance_similarity_loss(similarities(torch.relu(x)), 0 * s), h)
    assert torch.isfinite(z).all() and z[3].abs().max() == 0


def test_the_gradient_of_fisl():
    mean = similarities(logits(5, 3, seed=8), 0.5)

    def loss(own):
        return losses.instance_similarity_loss(similarities(own, 0.5), mean)

    assert torch.autograd.gradcheck(loss, logits(5, 4, seed=7).requires_grad_())


# Eq. 10 to 14


def parts_loop(z, y, z_teacher, tau: float) -> tuple[float, float]:
    """Target and non-target sums of Eq. 11."""
    target = others = 0.0
    for b, (p_s, p_t) in enumerate(
        zip(probabilities(z, tau), probabilities(z_teacher, tau), strict=True)
    ):
        for u in range(len(p_s)):
            term = p_t[u] * math.log(p_t[u] / p_s[u]) / len(z)
            if u == int(y[b]):
                target += term
            else:
                others += term
    return target, others


def test_golden_fntd():
    g = golden("fcclplus_fntd")
    z, y, teacher = g["logits_student"], g["labels"], g["logits_teacher"]
    close(losses.cross_entropy(z, y), g["ce"], 1e-9)
    for i, tau in enumerate(g["tau"].tolist()):
        fntd = losses.non_target_distillation(z, y, teacher, tau=tau)
        close(fntd, g["fntd_unscaled"][i], 1e-9)
        close(tau**2 * fntd, g["fntd_tau2"][i], 1e-9)
        close(losses.distillation(z, teacher, tau=tau), g["kd_unscaled"][i], 1e-9)
        mended = losses.renormalized_non_target_distillation(z, y, teacher, tau=tau)
        close(tau**2 * mended, g["fedntd_renormalised_tau2"][i], 1e-9)

        def official(w, tau=tau):
            own = g["x"] @ w
            fntd = losses.non_target_distillation(own, y, teacher, tau=tau)
            return losses.cross_entropy(own, y) + tau**2 * fntd

        close(official(g["W"]), g["loss_total"][i], 1e-9)
        close(gradient(official, g["W"]), g[f"grad_W_tau{tau}"], 1e-9)


def test_golden_fedntd():
    g = golden("fedntd")
    y, tau, beta = g["labels"], float(g["tau"]), float(g["beta"])

    def total(z):
        ntd = losses.renormalized_non_target_distillation(z, y, g["logits_teacher"], tau=tau)
        return losses.cross_entropy(z, y) + beta * tau**2 * ntd

    close(total(g["logits_student"]), g["loss_total"], 1e-9)
    close(total(g["logits_student"]) - losses.cross_entropy(g["logits_student"], y), g["ntd"], 1e-9)
    close(gradient(total, g["logits_student"]), g["grad_logits"], 1e-9)


def test_parts_of_distillation_against_plain_loops():
    for seed in SEEDS:
        z, y, teacher = case(seed)
        for tau in (1.0, 3.0):
            target, others = parts_loop(z, y, teacher, tau)
            close(losses.target_distillation(z, y, teacher, tau=tau), target)
            close(losses.non_target_distillation(z, y, teacher, tau=tau), others)
            close(losses.distillation(z, teacher, tau=tau), target + others)  # Eq. 11
            ce = cross_entropy_loop(z, y)
            whole = ce + tau**2 * (target + others)
            close(losses.distilled_loss(z, y, teacher, tau=tau), whole)
            close(losses.non_target_loss(z, y, teacher, tau=tau), ce + others)


def test_the_renormalized_form_against_a_plain_loop():
    for seed in SEEDS:
        z, y, teacher = case(seed)
        rest = [[u for u in range(5) if u != int(y[b])] for b in range(7)]
        own = torch.stack([z[b, rest[b]] for b in range(7)])
        taught = torch.stack([teacher[b, rest[b]] for b in range(7)])
        for tau in (1.0, 3.0):
            ours = losses.renormalized_non_target_distillation(z, y, teacher, tau=tau)
            close(ours, kl_loop(taught, own, tau))


def test_by_hand():
    """Three classes, the first is true; the teacher is sure of nothing."""
    z = torch.tensor([[math.log(2.0), 0.0, 0.0]], dtype=torch.float64)  # 1/2, 1/4, 1/4
    y, teacher = torch.tensor([0]), torch.zeros(1, 3, dtype=torch.float64)
    close(losses.non_target_distillation(z, y, teacher, tau=1.0), 2 / 3 * math.log(4 / 3))
    close(losses.target_distillation(z, y, teacher, tau=1.0), 1 / 3 * math.log(2 / 3))
    close(losses.renormalized_non_target_distillation(z, y, teacher, tau=1.0), 0.0)
    close(losses.target_logit_gradient(z, y, teacher, tau=1.0)[:, 0], [-1 / 2, -1 / 6, 1 / 3])


def test_gradients_on_the_target_logit():
    """Eq. 12: only the sum of its last two terms is as printed."""
    for seed in SEEDS:
        z, y, teacher = case(seed)
        for tau in (1.0, 3.0):
            terms = losses.target_logit_gradient(z, y, teacher, tau=tau)

            def slope(part, z=z, y=y, teacher=teacher, tau=tau):
                full = gradient(lambda s: part(s, y, teacher, tau=tau), z)
                return 7 * tau**2 * full.gather(1, y[:, None])[:, 0]  # 7: mean over the batch

            for b in range(7):
                t = int(y[b])
                one, own = probabilities(z, 1.0)[b][t], probabilities(z, tau)[b][t]
                taught = probabilities(teacher, tau)[b][t]
                close(terms[0, b], one - 1)
                close(terms[1, b], -tau * taught * (1 - own))
                close(terms[2, b], tau * own * (1 - taught))
                close(terms[1, b] + terms[2, b], tau * (own - taught))  # as printed
            close(terms[1], slope(losses.target_distillation), 1e-10)
            close(terms[2], slope(losses.non_target_distillation), 1e-10)
            assert (terms[0] < 0).all() and (terms[1] < 0).all() and (terms[2] > 0).all()


def test_only_the_renormalized_form_leaves_the_target_logit_alone():
    for seed in range(5):
        z, y, teacher = case(seed)
        printed, mended = (
            gradient(lambda s, f=f, y=y, teacher=teacher: f(s, y, teacher), z) for f in NON_TARGET
        )
        assert torch.equal(mended.gather(1, y[:, None]), torch.zeros(7, 1, dtype=z.dtype))
        assert (printed.gather(1, y[:, None]) > 0).all()
        assert (mended != 0).sum() == 7 * 4


def test_eq_13_is_no_divergence():
    """Its least value is (1 - p) log(1 - p), p the teacher's probability of the true class."""
    for seed in SEEDS:
        z, y, teacher = case(seed)
        p = (teacher / 3).softmax(1).gather(1, y[:, None])[:, 0]
        least = ((1 - p) * (1 - p).log()).mean()
        assert least < 0
        assert losses.non_target_distillation(z, y, teacher) > least
        none_left = teacher.scatter(1, y[:, None], -1e4)  # agrees on the others, denies the label
        close(losses.non_target_distillation(none_left, y, teacher), least)
        close(losses.non_target_distillation(teacher, y, teacher), 0.0)
        assert losses.renormalized_non_target_distillation(z, y, teacher) > 0
        close(losses.renormalized_non_target_distillation(none_left, y, teacher), 0.0)


def test_eq_13_is_a_divergence_and_a_push():
    z, y, teacher = case(3, batch=1)
    p_s, p_t = ((v / 3).softmax(1)[0, int(y[0])] for v in (z, teacher))
    mended = losses.renormalized_non_target_distillation(z, y, teacher)
    push = (1 - p_t) * ((1 - p_t) / (1 - p_s)).log()
    close(losses.non_target_distillation(z, y, teacher), (1 - p_t) * mended + push)


def test_high_temperatures():
    """tau^2 KD and tau^2 of the mended form tend to a distance; tau^2 FNTD grows with tau."""
    z, y, teacher = case(1, classes=10)
    tau, apart = 1e4, z - teacher
    centered = apart - apart.mean(1, keepdim=True)
    kd = (centered**2).sum(1).mean() / (2 * 10)
    close(tau**2 * losses.distillation(z, teacher, tau=tau), kd, 1e-3)
    rest = apart[torch.arange(10) != y[:, None]].view(7, 9)
    rest = rest - rest.mean(1, keepdim=True)
    mended = losses.renormalized_non_target_distillation(z, y, teacher, tau=tau)
    close(tau**2 * mended, (rest**2).sum(1).mean() / (2 * 9), 1e-3)
    printed = losses.non_target_distillation(z, y, teacher, tau=tau)
    close(tau * printed, centered.gather(1, y[:, None]).mean() / 10, 1e-3)
    slope = gradient(lambda s: losses.non_target_distillation(s, y, teacher, tau=tau), z)
    target = 7 * tau * slope.gather(1, y[:, None])  # the same push for every image and teacher
    close(target, torch.full((7, 1), (1 - 1 / 10) / 10), 1e-3)


def test_certain_students_give_numbers_in_float32():
    """The official code takes the logarithm of a softmax, which is -inf here."""
    z = torch.tensor([[200.0, 0.0, -1.0]], requires_grad=True)
    y, teacher = torch.tensor([0]), torch.tensor([[1.0, 0.5, 0.0]])
    assert z.softmax(1).log().isinf().any()
    for function in (*NON_TARGET, losses.target_distillation):
        value = function(z, y, teacher, tau=1.0)
        slope = torch.autograd.grad(value, z)[0]
        assert torch.isfinite(value) and torch.isfinite(slope).all()
    sure = losses.non_target_distillation(teacher, y, z.detach(), tau=1.0)
    close(sure, 0.0, 1e-6)  # a certain teacher has no opinion of the others


@pytest.mark.parametrize("function", NON_TARGET)
def test_the_gradient_of_fntd(function):
    z, y, teacher = case(0)
    assert torch.autograd.gradcheck(lambda s: function(s, y, teacher), z.requires_grad_())


# EWC


def test_ewc_penalty_against_a_plain_loop():
    w, before = [logits(3, 2, seed=1), logits(4, seed=2)], [logits(3, 2, seed=3), logits(4, seed=4)]
    fisher = [logits(3, 2, seed=5) ** 2, logits(4, seed=6) ** 2]
    total = 0.0
    for layer, old, f in zip(w, before, fisher, strict=True):
        for a, b, c in zip(
            layer.flatten().tolist(), old.flatten().tolist(), f.flatten().tolist(), strict=True
        ):
            total += c * (a - b) ** 2
    close(losses.ewc_penalty(w, before, fisher, lambda_=0.7), 0.35 * total)


def test_ewc_limits():
    w, before = [logits(3, 2, seed=1)], [logits(3, 2, seed=3)]
    ones, fisher = [torch.ones(3, 2)], [logits(3, 2, seed=5) ** 2]
    pull = gradient(lambda v: losses.ewc_penalty([v], before, fisher, lambda_=0.7), w[0])
    close(pull, 0.7 * fisher[0] * (w[0] - before[0]))
    same = losses.proximal_term(w, before, mu=0.3)
    close(losses.ewc_penalty(w, before, ones, lambda_=0.3), same)
    assert losses.ewc_penalty(w, w, fisher, lambda_=5.0) == 0
    assert losses.ewc_penalty(w, before, fisher, lambda_=0.0) == 0
