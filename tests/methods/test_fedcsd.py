"""FedCSD: teacher, prototypes, mask, its ablations, its code's variant, and Fig. 1 in small."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from support.federations import (
    assert_same_bits,
    by_hand,
    federation,
    local_loss,
    played,
    skewed,
    weights_of,
)
from support.loops import close, cosine_loop, prototypes_loop, soft_cross_entropy_loop, softmax_loop

from fedtutor import losses, rounds
from fedtutor.errors import SettingError
from fedtutor.measures import divergence, weight_distance
from fedtutor.methods import make
from fedtutor.methods.fedcsd import MASKS, TEACHERS
from fedtutor.scenarios.base import Scenario

# Three pixels of an image are its three logits: networks that copy them can be followed by hand.
HELD = (
    {0: ((3, 0, 0), (5, 2, 0)), 1: ((0, 4, 0),)},  # means (4, 1, 0) and (0, 4, 0); no class 2
    {0: ((2, 2, 0),), 1: ((0, 2, 4), (4, 0, 2))},  # means (2, 2, 0) and (2, 1, 3); no class 2
)
LOCAL = ([[4, 1, 0], [0, 4, 0], [0, 0, 0]], [[2, 2, 0], [2, 1, 3], [0, 0, 0]])
GLOBAL = [[3, 1.5, 0], [1, 2.5, 1.5], [0, 0, 0]]  # their mean over both


def three_pixels(*rows: tuple[int, int, int]) -> torch.Tensor:
    """One black image of 4 x 4 pixels per row, which its first three pixels are."""
    x = torch.zeros(len(rows), 1, 4, 4, dtype=torch.uint8)
    x[:, 0, 0, :3] = torch.tensor(rows, dtype=torch.uint8)
    return x


def copied(held=HELD) -> Scenario:
    return by_hand(*held, draw=three_pixels)


def copy_pixels(network) -> None:
    network.classifier.weight.data.zero_()
    network.classifier.bias.data.zero_()
    network.classifier.weight.data[:, :3] = torch.eye(3)


def started(**changes):
    """Round 1 has begun; the teacher copies pixels, the student copies them in reverse order."""
    fed = federation("fedcsd", scenario=copied(), parameters=changes)
    fed.method.start(fed)
    fed.begin_round(1)
    for network in (*fed.server.models.values(), *(c.model for c in fed.clients)):
        copy_pixels(network)
    fed.method.collaborate(fed, fed.clients)
    for client in fed.clients:
        copy_pixels(client.models["teacher"])
        weight = client.model.classifier.weight
        weight.data[:, :3] = weight.data[:, :3].flip(0)
    return fed


def logits_of(client) -> tuple[list, list]:
    """Teacher's and student's logits of the client's images."""
    rows = client.data.x[:, 0, 0, :3].tolist()
    return rows, [row[::-1] for row in rows]


def by_loops(client, prototypes, *, tau=10.0, mask="adaptive", owned=(0, 1, 2)) -> tuple:
    """Masked cross-entropy and refined logits of Eq. 8-11, 13, 14 and 16 in plain loops."""
    teacher, student = logits_of(client)
    refined, kept = [], []
    for t, z, y in zip(teacher, student, client.data.y.tolist(), strict=True):
        scores = softmax_loop([cosine_loop(z, prototypes[c]) for c in owned])
        full = [dict(zip(owned, scores, strict=True)).get(c, 0.0) for c in range(3)]
        refined.append([t[c] * full[c] for c in range(3)])
        p = softmax_loop(t)
        best = p.index(max(p)) == y
        kept.append({"adaptive": p[y] > 1 / 3, "forcible": best, "none": True}[mask])
    return soft_cross_entropy_loop(student, torch.tensor(refined), tau, kept), refined, kept


def cross_entropy_of(client) -> float:
    _, student = logits_of(client)
    y = client.data.y.tolist()
    return -sum(math.log(softmax_loop(z)[c]) for z, c in zip(student, y, strict=True)) / len(y)


# ------------------------------------------------------------------------ by hand: two clients


def test_prototypes_by_hand():
    for which, expected in (("global", (GLOBAL, GLOBAL)), ("local", LOCAL)):
        fed = started(prototypes=which)
        for client, rows in zip(fed.clients, expected, strict=True):
            close(client.state["prototypes"], rows, 1e-5)
            z = client.data.x[:, 0, 0, :3].double()
            own = LOCAL[fed.clients.index(client)]
            assert prototypes_loop(z, client.data.y, 3) == own


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("which", ["global", "local"])
def test_the_local_loss_by_hand(mask, which):
    fed = started(mask=mask, prototypes=which, mu=0.5, tau=4.0)
    for client, own in zip(fed.clients, LOCAL, strict=True):
        prototypes = GLOBAL if which == "global" else own
        csd, _, kept = by_loops(client, prototypes, tau=4.0, mask=mask)
        expected = cross_entropy_of(client) + 0.5 * csd
        assert local_loss(fed, client) == pytest.approx(expected, rel=1e-5)
        wrong = [
            row.index(max(row)) != y
            for row, y in zip(logits_of(client)[0], client.data.y.tolist(), strict=True)
        ]
        both = sum(k and w for k, w in zip(kept, wrong, strict=True))
        counts = [3, sum(kept), sum(wrong), both]
        assert client.state["soft_labels"][-1].tolist() == counts


def test_the_masks_differ_by_hand():
    """(2, 2, 0) of class 0: p = 0.47 > 1/3 and first of equals; (0, 2, 4) of class 1: neither."""
    fed = started(mask="adaptive")
    teacher = torch.tensor([[2.0, 2.0, 0.0], [0.0, 2.0, 4.0], [4.0, 0.0, 2.0], [2.0, 2.1, 0.0]])
    y = torch.tensor([0, 1, 1, 0])
    assert losses.adaptive_mask(teacher, y).tolist() == [1, 0, 0, 1]
    assert losses.forcible_mask(teacher, y).tolist() == [1, 0, 0, 0]
    assert len(fed.clients[0].state["soft_labels"]) == 1


def test_absent_classes_can_be_left_out():
    zero, out = (started(absent=absent, mu=0.5) for absent in ("zero", "left out"))
    for which, fed in (("zero", zero), ("left out", out)):
        owned = (0, 1, 2) if which == "zero" else (0, 1)
        csd, refined, _ = by_loops(fed.clients[0], GLOBAL, owned=owned)
        expected = cross_entropy_of(fed.clients[0]) + 0.5 * csd
        assert local_loss(fed, fed.clients[0]) == pytest.approx(expected, rel=1e-5)
        assert which == "zero" or not any(row[2] for row in refined)
    assert local_loss(zero, zero.clients[1]) != local_loss(out, out.clients[1])


def test_the_teachers_of_the_controls_by_hand():
    client = started().clients[0]
    teacher, student = logits_of(client)
    kept = by_loops(client, GLOBAL)[2]
    targets = {
        "plain": teacher,
        "divided": [[v / 3 for v in row] for row in teacher],
        "uniform": [[0.0] * 3 for _ in teacher],
    }
    for name, target in targets.items():
        fed = started(teacher=name, mu=0.5)
        csd = soft_cross_entropy_loop(student, target, 10.0, kept)
        expected = cross_entropy_of(client) + 0.5 * csd
        assert local_loss(fed, fed.clients[0]) == pytest.approx(expected, rel=1e-5), name
        assert "prototypes" not in fed.clients[0].state  # nobody asks for them
        assert {k[2] for k in fed.channel.counts} == {"weights", "teacher"}
    fed = started(teacher="penalty", mu=0.5)
    penalty = -soft_cross_entropy_loop(student, student, 10.0, kept)
    expected = cross_entropy_of(client) + 0.5 * penalty
    assert local_loss(fed, fed.clients[0]) == pytest.approx(expected, rel=1e-5)
    assert {*targets, "refined", "penalty"} == set(TEACHERS)


def test_the_code_by_hand():
    """(1 - mu) CE + mu KL, mask on refined logits, and a gradient through the target."""
    fed = started(loss="code", prototypes="local", mu=0.5, tau=4.0)
    for client, own in zip(fed.clients, LOCAL, strict=True):
        student = logits_of(client)[1]
        _, refined, _ = by_loops(client, own)
        y = client.data.y.tolist()
        kept = [softmax_loop(row)[c] > 1 / 3 for row, c in zip(refined, y, strict=True)]
        kl = soft_cross_entropy_loop(student, refined, 4.0, kept)
        kl -= soft_cross_entropy_loop(refined, refined, 4.0, kept)
        expected = 0.5 * cross_entropy_of(client) + 0.5 * kl
        assert local_loss(fed, client) == pytest.approx(expected, rel=1e-5)


def gradient_of(fed) -> torch.Tensor:
    client = fed.clients[0]
    x, y = fed.scenario.normalize(client.data.x), client.data.y
    return torch.autograd.grad(fed.method.local_loss(client, x, y), client.model.classifier.bias)[0]


def test_the_papers_target_carries_no_gradient_and_the_codes_does():
    fed = started(mu=0.5, mask="none")
    client = fed.clients[0]
    teacher, student = (torch.tensor(rows).float() for rows in logits_of(client))
    refined = torch.tensor(by_loops(client, GLOBAL)[1])
    z = student.clone().requires_grad_()
    loss = losses.fedcsd_loss(z, client.data.y, refined, mu=0.5)
    close(gradient_of(fed), torch.autograd.grad(loss, z)[0].sum(0), 1e-5)

    code = started(mu=0.5, mask="none", loss="code")
    p = code.clients[0].state["prototypes"]
    values = []
    for move in (True, False):
        z = student.clone().requires_grad_()
        delta = losses.prototype_similarity(z if move else z.detach(), p)
        target = losses.refined_logits(teacher, losses.similarity_scores(delta))
        loss = losses.fedcsd_loss_code(z, client.data.y, target, mu=0.5, tau=10.0)
        values.append(torch.autograd.grad(loss, z)[0].sum(0))
    close(gradient_of(code), values[0], 1e-5)
    assert not torch.allclose(values[0], values[1], rtol=1e-3)


# ------------------------------------------------------------------------------ moving average


def test_the_teacher_by_hand():
    """From 0, averages 10 and 20: 0.5 x 0 + 0.5 x 10 = 5, then 0.5 x 5 + 0.5 x 20 = 12.5."""
    fed = started(alpha=0.5)
    fed.server.models["teacher"].classifier.bias.data.fill_(0.0)
    for value, expected in ((10.0, 5.0), (20.0, 12.5)):
        for client in fed.clients:
            client.model.classifier.bias.data.fill_(value)
        fed.method.aggregate(fed, fed.clients)
        assert fed.server.models["teacher"].classifier.bias.tolist() == [expected] * 3
        fed.method.collaborate(fed, fed.clients)
        assert fed.clients[1].models["teacher"].classifier.bias.tolist() == [expected] * 3
        assert fed.clients[1].model.classifier.bias.tolist() == [value] * 3


@pytest.mark.parametrize("network", ["linear", "noisy"])
def test_clients_can_keep_the_teacher_themselves(network):
    """Sec. V-E: the same bits, and nothing but prototypes beside the weights."""
    options = {"models": [network], "rounds": 4}
    server, client = (
        played("fedcsd", parameters={"mu": 0.5, "teacher_at": who}, **options)
        for who in ("server", "client")
    )
    kept = weights_of(client)
    assert_same_bits({n: w for n, w in weights_of(server).items() if n in kept}, kept)
    assert {r["name"] for r in server.history["bytes"]} - {
        r["name"] for r in client.history["bytes"]
    } == {"teacher"}


def test_statistics_of_the_teacher_move_as_its_weights():
    fed = played("fedcsd", models=["noisy"], rounds=1, parameters={"alpha": 0.75})
    start, now = federation("fedcsd", models=["noisy"]).make(), fed.server.model
    teacher = fed.server.models["teacher"]
    for name in ("running_mean", "running_var", "weight"):
        old, new, moved = (getattr(m.body[1], name) for m in (start, now, teacher))
        assert torch.allclose(moved, 0.75 * old + 0.25 * new, atol=1e-7)
    assert teacher.body[1].num_batches_tracked == now.body[1].num_batches_tracked
    assert not torch.equal(teacher.body[1].running_mean, start.body[1].running_mean)


# ----------------------------------------------------------------------------------- ablations


def test_base_of_table_iii_is_plain_logit_distillation():
    options = {"models": ["noisy"], "rounds": 4}
    base = {"teacher": "plain", "mask": "none", "alpha": 0.0, "mu": 0.5, "tau": 3.0}
    ours = weights_of(played("fedcsd", parameters=base, **options))
    other = weights_of(played("logit-distillation", parameters={"mu": 0.5, "tau": 3.0}, **options))
    shared = {n: w for n, w in other.items() if "/model/" in n}
    assert_same_bits({n: ours[n] for n in shared}, shared)


def test_every_option_changes_the_result():
    def weights(**changes):
        parameters = {"mu": 0.5, "tau": 3.0, **changes}
        fed = played("fedcsd", scenario=skewed(), models=["noisy"], parameters=parameters, rounds=3)
        return fed.server.model.classifier.weight

    base = weights()
    for change in (
        {"mu": 0.3},
        {"tau": 1.0},
        {"alpha": 0.0},
        {"teacher": "plain"},
        {"teacher": "divided"},
        {"teacher": "uniform"},
        {"teacher": "penalty"},
        {"mask": "none"},
        {"mask": "forcible"},
        {"prototypes": "local"},
        {"loss": "code"},
    ):
        assert not torch.equal(base, weights(**change)), change
    local = weights(prototypes="local")  # with the average, somebody has every class
    assert torch.equal(base, weights(absent="left out"))
    assert not torch.equal(local, weights(prototypes="local", absent="left out"))


def test_the_filter_rate_is_noted_for_every_round():
    fed = played("fedcsd", rounds=3, local_epochs=2, parameters={"mu": 0.1})
    for client in fed.clients:
        rows = client.state["soft_labels"]
        assert [int(row[0]) for row in rows] == [2 * len(client.data)] * 3
        for seen, kept, wrong, both in (row.tolist() for row in rows):
            assert both <= min(kept, wrong) and max(kept, wrong) <= seen
    first, last = (fed.clients[0].state["soft_labels"][i] for i in (0, -1))
    assert last[1] > first[1]  # a better teacher is filtered less


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"teacher": "refine"}, "did you mean 'refined'"),
        ({"mask": "adaptiv"}, "did you mean 'adaptive'"),
        ({"prototypes": "globl"}, "did you mean 'global'"),
        ({"absent": "zeros"}, "did you mean 'zero'"),
        ({"teacher_at": "serve"}, "did you mean 'server'"),
        ({"loss": "papr"}, "did you mean 'paper'"),
        ({"loss": "code", "teacher": "uniform"}, "masks on logits"),
        ({"loss": "code", "teacher": "penalty"}, "masks on logits"),
        ({"alpha": 1.1}, r"alpha = 1\.1"),
        ({"alpha": float("nan")}, "alpha = nan"),
        ({"tau": 0.0}, r"tau = 0\.0"),
        ({"mu": -0.1}, r"mu = -0\.1"),
    ],
)
def test_wrong_parameters_are_refused(changes, message):
    with pytest.raises(SettingError, match=message):
        make("fedcsd", **changes)


# ------------------------------------------------------------ the exploratory experiment, Fig. 1


def drift(method: str, **parameters) -> list[tuple]:
    """Logit and weight distance to the received network after each of 6 epochs, first client."""
    fed = federation(method, parameters=parameters, scenario=skewed(), lr=0.1)
    x = fed.scenario.normalize(fed.scenario.tests["domain0"].x)
    trained = played(rounds=4).server.model.state_dict()
    fed.method.start(fed)
    fed.server.model.load_state_dict(trained)
    seen = []

    @torch.no_grad()
    def look(client):
        if client.id == "domain0":
            z, z_global = (network.eval()(x) for network in (client.model, fed.server.model))
            client.train()
            apart = weight_distance(client.model.state_dict(), trained)
            seen.append((divergence(z_global, z), apart))

    fed.method.after_epoch = look
    fed.settings = replace(fed.settings, local_epochs=6)
    rounds.run_round(fed, 1)
    return seen


def test_logits_drift_with_local_epochs_and_distillation_holds_them():
    free, held = drift("fedavg"), drift("logit-distillation", mu=1.0)
    assert len(free) == len(held) == 6
    assert all(b > a for now, then in pairwise(free) for a, b in zip(now, then, strict=True))
    assert all(
        h < f
        for there, here in zip(free, held, strict=True)
        for f, h in zip(there, here, strict=True)
    )
    assert held[-1][0] < 0.3 * free[-1][0]


@pytest.mark.parametrize(
    "method", ["fedavg", "logit-distillation", "feature-distillation", "fedcsd"]
)
def test_a_round_can_begin_with_a_network_that_is_trained_already(method):
    """Fig. 1 and 7: what one federation has trained is handed on to another, of any method."""
    trained = played("fedcsd", scenario=skewed(), rounds=4)
    options = {"rounds": 1, "local_epochs": 3, "observe": ["local_epoch"]}
    fed = federation(method, scenario=skewed(), seed=1, lr=1e-8, **options)
    fed.begin()
    for role, network in fed.server.models.items():
        network.load_state_dict(trained.server.models[role].state_dict())
    rounds.run_round(fed, 1)
    assert [row["moment"] for row in fed.history["accuracy"]] == ["local_epoch"] * 3 + ["end"]
    for name, w in trained.server.model.state_dict().items():
        close(fed.server.model.state_dict()[name], w, 1e-5)  # at this rate nobody leaves the start
