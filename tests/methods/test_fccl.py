"""FCCL, the methods it is compared with, and the public phase that they share."""

import copy
import math
import re
from dataclasses import replace

import pytest
import torch
from support.federations import (
    assert_same_bits,
    federation,
    images,
    played,
    tiny_scenario,
    weights_of,
)
from support.runs import MIXED, colored, resumed

from fedtutor import losses
from fedtutor.errors import DataError, DivergenceError, ModelError, SettingError
from fedtutor.images import Images
from fedtutor.methods import make
from fedtutor.methods.fedmatch import nearest_others, shift_and_flip
from fedtutor.methods.shared.augment import augment
from fedtutor.methods.shared.public import OPTIMIZERS, teacher_logits
from fedtutor.randomness import generator
from fedtutor.rounds import run, run_round

PUBLIC = (  # learn on public images
    "kd", "fedmd", "feddf", "rhfl", "rcfl", "fedmatch", "fccl", "fccl+", "ewc",
)  # fmt: skip
ALL = (*PUBLIC, "fml")
SHORT = {"fccl": {"pretrain_epochs": 2}, "fml": {"meme": "linear"},
         "fedmatch": {"threshold": 0.4}}  # fmt: skip


def short(method: str, **parameters) -> dict:
    return {**SHORT.get(method, {}), **parameters}


# Every method


@pytest.mark.parametrize("stopped", [0, 1, 3])
@pytest.mark.parametrize("method", ALL)
def test_a_resumed_run_has_the_same_bits(method, stopped, tmp_path):
    own = {} if method == "fml" else {"public_optimizer": "adam-kept"}
    options = {**MIXED, "keep_optimizer": True, "rounds": 4,
               "parameters": short(method, pretrain_epochs=1, **own)}  # fmt: skip
    resumed(method, tmp_path, stopped, **options)


@pytest.mark.parametrize("method", ALL)
def test_one_client_alone_and_clients_that_sit_out(method):
    parameters = short(method, pretrain_epochs=1)
    played(method, scenario=tiny_scenario(clients=1), parameters=parameters, rounds=3)
    fed = played(method, parameters=parameters, participation=0.6, rounds=6)
    seated = {sum(v is not None for v in row["values"]) for row in fed.history["loss"]}
    assert seated == {2}


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("kd", {"public_lr": 0.0}),
        ("fedmd", {"public_lr": 0.0, "public_optimizer": "sgd"}),
        ("feddf", {"public_lr": 0.0, "public_optimizer": "adam-kept"}),
        ("fedmatch", {"public_lr": 0.0}),
        ("rhfl", {"public_lr": 0.0, "alpha": 1.0, "beta": 0.0}),
        ("rcfl", {"public_lr": 0.0}),
        ("rcfl", {"alpha": 1.0}),
        ("fml", {"alpha": 1.0}),
        ("fccl", {"public_lr": 0.0, "teachers": "none", "pretrain_epochs": 0}),
        ("fccl", {"public_lr": 0.0, "teachers": "previous", "lambda_loc": 0.0,
                  "pretrain_epochs": 0}),
        ("fccl", {"public_lr": 0.0, "lambda_loc": 0.0, "public_optimizer": "adam-fresh",
                  "pretrain_epochs": 0, "teachers": "none", "code_target": True}),
        ("fccl+", {"public_lr": 0.0, "fntd": "none"}),
        ("fccl+", {"fccm": False, "fisl": False, "fntd": "none"}),
        ("ewc", {"public_lr": 0.0, "lambda_ewc": 0.0}),
    ],
)  # fmt: skip
def test_switched_off_it_is_solo_bit_for_bit(method, parameters):
    solo = weights_of(played("solo"))
    other = weights_of(played(method, parameters={**short(method), **parameters}))
    assert_same_bits(solo, {name: other[name] for name in solo})


@pytest.mark.parametrize("method", ALL)
def test_switched_on_it_is_not_solo(method):
    solo = weights_of(played("solo"))
    other = weights_of(played(method, parameters=short(method)))
    assert not all(torch.equal(solo[name], other[name]) for name in solo)


# What crosses: 20 public images in batches of 8, 8, 4; 3 classes; float32


@pytest.mark.parametrize("method", PUBLIC)
def test_bytes_by_counting(method):
    options = {"public_batch_size": 8, "public_epochs": 2, "rounds": 2}
    fed = played(method, parameters=short(method), **options)
    one, batches = 20 * 3 * 4, 3 * 2
    answer = {"rhfl": ("other logits", 2 * one), "rcfl": ("mean scores", one),
              "fedmatch": ("helper logits", 2 * one)}.get(method, ("mean logits", one))  # fmt: skip
    expected = {}
    for round_ in (1, 2):
        expected[round_, "up", "logits"] = (3 * 2 * one, 3 * batches)
        expected[round_, "down", answer[0]] = (3 * 2 * answer[1], 3 * batches)
        if method == "rhfl":
            expected[round_, "down", "confidence"] = (3 * 2 * 4, 3)
        if method in ("fccl+", "ewc"):  # to the other images only: 8 x 7, 8 x 7, 4 x 3
            square = 3 * 2 * (8 * 7 + 8 * 7 + 4 * 3) * 4
            expected[round_, "up", "similarities"] = (square, 3 * batches)
            expected[round_, "down", "mean similarities"] = (square, 3 * batches)
    if method == "rhfl":  # of round 1
        expected[2, "up", "loss"] = (3 * 8, 3)
    if method == "rcfl":
        expected[0, "up", "labels"] = (3 * 3, 3)
    table = {(r["round"], r["direction"], r["name"]): (r["bytes"], r["messages"])
             for r in fed.history["bytes"]}  # fmt: skip
    assert table == expected


def test_bytes_of_fml_and_of_averaging():
    weights = (16 * 3 + 3) * 4
    for method, name in (("fml", "meme"), ("kd", "weights")):
        own = {} if method == "fml" else {"average": True}
        fed = played(method, parameters=short(method, **own), rounds=2)
        rows = [(r["round"], r["direction"], r["bytes"]) for r in fed.history["bytes"]
                if r["name"] == name]  # fmt: skip
        assert rows == [(r, d, 3 * weights) for r in (1, 2) for d in ("down", "up")]


def test_public_batches_are_the_same_images_for_all_clients():
    fed = played("kd", parameters={"public_lr": 0.0}, models=["linear"], rounds=1,
                 record={"names": ["logits"]})  # fmt: skip
    sent = {m.source: m.payload for m in fed.channel.messages}
    index = torch.cat(fed.public_batches(1))
    start = federation("kd").clients  # equal networks and a common start: equal logits
    expected = start[0].model(fed.scenario.normalize(fed.scenario.public.x[index]))
    for z in sent.values():
        assert torch.allclose(z, expected, atol=1e-6)


# The public phase


def test_a_public_step_by_hand():
    """One batch, SGD: w - lr times the gradient of the distance to the mean logits."""
    parameters = {"public_optimizer": "sgd", "public_lr": 0.5}
    fed = federation("kd", parameters=parameters, common_init=False)
    x = fed.scenario.normalize(fed.scenario.public.x)
    before = [c.model.classifier.weight.detach().clone() for c in fed.clients]
    z = [c.model(x) for c in fed.clients]
    mean = torch.stack(z).mean(0).detach()
    slopes = [torch.autograd.grad(losses.logit_mse(own, mean), c.model.classifier.weight)[0]
              for own, c in zip(z, fed.clients, strict=True)]  # fmt: skip
    fed.begin_round(1)
    fed.method.collaborate(fed, fed.clients)
    for client, w, slope in zip(fed.clients, before, slopes, strict=True):
        assert torch.allclose(client.model.classifier.weight, w - 0.5 * slope, atol=1e-6)


def test_a_fresh_adam_descends_by_signs():
    def moved(optimizer: str, rounds: int = 1):
        parameters = {"public_optimizer": optimizer, "public_lr": 1e-3}
        fed = federation("kd", parameters=parameters, common_init=False, public_batch_size=5)
        before = fed.clients[0].model.classifier.weight.detach().clone()
        for round_ in range(1, rounds + 1):
            fed.begin_round(round_)
            fed.method.collaborate(fed, fed.clients)
        return ((fed.clients[0].model.classifier.weight.detach() - before) / 1e-3).flatten()

    steps = moved("adam-fresh")  # four steps of +-1 each
    assert torch.allclose(steps, steps.round(), atol=1e-2)
    assert set(steps.round().abs().tolist()) <= {0.0, 2.0, 4.0}
    assert not torch.allclose(moved("adam"), steps, atol=1e-2)
    assert torch.equal(moved("adam"), moved("adam-kept"))  # the first round
    assert not torch.equal(moved("adam", rounds=2), moved("adam-kept", rounds=2))


@pytest.mark.parametrize("method", ["kd", "fedmd", "feddf", "rhfl", "rcfl", "fccl", "fccl+"])
def test_the_public_loss_falls(method):
    parameters = short(method, public_lr=0.01, **({"alpha": 0.0} if method == "rcfl" else {}))
    fed = federation(method, parameters=parameters, common_init=False, models=["linear"])
    fed.method.start(fed)
    for round_ in range(1, 41):
        fed.begin_round(round_)
        fed.method.collaborate(fed, fed.clients)
    for client in fed.clients:
        seen = client.state["public_loss"]
        assert len(seen) == 40
        assert seen[-1] < 0.8 * seen[0]


def test_a_lone_last_public_image_joins_the_batch_before():
    fed = played("fccl", parameters={"pretrain_epochs": 1}, models=["noisy"], public_batch_size=19)
    sent = [row for row in fed.history["bytes"] if row["name"] == "logits"]
    assert [(row["bytes"], row["messages"]) for row in sent] == [(3 * 20 * 3 * 4, 3)] * 3
    fed = federation("kd", public_batch_size=3, public_epochs=2)
    assert [len(index) for index in fed.public_batches(1)] == [3, 3, 3, 3, 3, 3, 2] * 2
    fed = federation("kd", public_batch_size=19)
    assert sorted(torch.cat(fed.public_batches(1)).tolist()) == list(range(20))


def test_a_public_batch_of_one_image_is_the_one_error():
    with pytest.raises(SettingError, match="single image") as caught:
        played("kd", public_batch_size=1)
    assert "public_batch_size" in caught.value.where


@pytest.mark.parametrize("kind", ["none", "weak", "strong", "conference"])
def test_all_clients_see_the_same_view_of_the_public_images(kind):
    parameters = {"public_augment": kind, "public_lr": 0.0}
    fed = played("kd", scenario=colored(tiny_scenario(), 16), models=["linear"], rounds=2,
                 public_batch_size=4, parameters=parameters, record={"names": ["logits"]},
                 lr=1e-30)  # fmt: skip
    sent = {}
    for m in fed.channel.messages:
        sent.setdefault((m.round_, m.source), []).append(m.payload)
    one, two, three = (torch.cat(sent[1, c.id]) for c in fed.clients)
    assert torch.equal(one, two) and torch.equal(one, three)  # equal networks, equal views
    public = fed.scenario.public.x
    own = generator(fed.seed, "server", 1, "augment")
    model = federation("kd", scenario=colored(tiny_scenario(), 16)).clients[0].model
    expected = [model(fed.scenario.normalize(augment(kind, public[i], own)))
                for i in fed.public_batches(1)]  # fmt: skip
    assert torch.allclose(one, torch.cat(expected), atol=1e-5)
    again = torch.cat(sent[2, fed.clients[0].id])  # the next round draws anew
    order = [torch.cat(fed.public_batches(r)).argsort() for r in (1, 2)]
    assert torch.allclose(one[order[0]], again[order[1]], atol=1e-5) == (kind == "none")


@pytest.mark.parametrize("method", PUBLIC)
def test_no_public_images_is_the_one_error(method):
    fed = federation(method, scenario=tiny_scenario(public=False),
                     parameters=short(method, pretrain_epochs=10**9))  # fmt: skip
    with pytest.raises(DataError, match=rf"{re.escape(method)} learns .* and there are none"):
        run(fed)  # at once, before any pretraining


def test_a_public_loss_that_is_no_number_is_one_error():
    parameters = {"public_lr": 1e30, "public_optimizer": "sgd"}
    with pytest.raises(DivergenceError, match="public loss of client domain0 is inf") as caught:
        played("kd", parameters=parameters, common_init=False, public_batch_size=5)
    assert "public_lr" in caught.value.do


def test_wrong_parameters_are_refused():
    for wrong, message in (
        ({"public_optimizer": "adan"}, "did you mean 'adam'"),
        ({"public_lr": -1.0}, "public_lr = -1"),
        ({"public_lr": float("nan")}, "public_lr = nan"),
        ({"public_augment": "week"}, "did you mean 'weak'"),
        ({"correlation": "papr"}, "did you mean 'paper'"),
        ({"teachers": "all"}, "teachers"),
        ({"pretrain_epochs": 0}, "the pretrained network is to teach"),
    ):
        with pytest.raises(SettingError, match=message):
            make("fccl", **wrong)
    with pytest.raises(SettingError, match=r"alpha = 1\.5"):
        make("rcfl", alpha=1.5)
    with pytest.raises(SettingError, match="pretrain_epochs = -1"):
        played("kd", parameters={"pretrain_epochs": -1})


# Averaging between the two phases


@pytest.mark.parametrize("method", PUBLIC)
def test_averaging_follows_the_public_phase(method):
    fed = federation(method, parameters=short(method, average=True), models=["noisy"])
    fed.method.start(fed)
    fed.begin_round(1)
    fed.method.collaborate(fed, fed.clients)
    states = [c.model.state_dict() for c in fed.clients]
    for state in states[1:]:
        assert_same_bits(states[0], state)
    if method == "fccl":  # the teacher is what was there before
        previous = [c.models["previous"].classifier.weight for c in fed.clients]
        assert not torch.equal(previous[0], previous[1])


@pytest.mark.parametrize("method", PUBLIC)
def test_averaging_refuses_different_networks(method):
    with pytest.raises(ModelError, match=rf"{re.escape(method)} with average = true"):
        played(method, parameters=short(method, average=True), models=["linear", "noisy", "linear"])


# Pretraining


def test_all_methods_start_from_the_same_pretrained_networks(tmp_path):
    feds = []
    for method in ALL:
        parameters = short(method, pretrain_epochs=3)
        feds.append(federation(method, parameters=parameters, artifacts=tmp_path, **MIXED))
        feds[-1].method.start(feds[-1])
    assert len(list(tmp_path.glob("pretrained-*.pt"))) == 3  # one per client
    for fed in feds[1:]:
        for client, first in zip(fed.clients, feds[0].clients, strict=True):
            assert_same_bits(client.model.state_dict(), first.model.state_dict())
    other = federation("kd", parameters={"pretrain_epochs": 3}, artifacts=tmp_path,
                       **{**MIXED, "lr": 0.02})  # fmt: skip
    other.method.start(other)
    assert len(list(tmp_path.glob("pretrained-*.pt"))) == 6


def test_pretraining_is_solo_for_as_many_epochs():
    scenario = tiny_scenario(count=24)
    alone = played("solo", scenario=scenario, rounds=1, local_epochs=12, batch_size=100)
    fed = federation("kd", scenario=scenario, parameters={"pretrain_epochs": 12}, batch_size=100)
    fed.method.start(fed)
    for client, other in zip(fed.clients, alone.clients, strict=True):  # one batch: any order
        assert torch.allclose(
            client.model.classifier.weight, other.model.classifier.weight, atol=1e-6
        )


def test_pretraining_that_diverges_is_one_error():
    with pytest.raises(DivergenceError, match="domain0") as caught:
        played("kd", parameters={"pretrain_epochs": 5}, lr=1e38)
    assert caught.value.where == "kd, pretraining"


# FCCL


def fccl(**options):
    parameters = {"pretrain_epochs": 2, **options.pop("parameters", {})}
    fed = federation("fccl", parameters=parameters, **options)
    fed.method.start(fed)
    return fed


def test_the_two_teachers_of_a_round():
    fed = fccl(models=["noisy"])
    pretrained = [{k: v.clone() for k, v in c.model.state_dict().items()} for c in fed.clients]
    run(fed)
    before = [{k: v.clone() for k, v in c.model.state_dict().items()} for c in fed.clients]
    fed.begin_round(4)
    fed.method.collaborate(fed, fed.clients)
    for client, theta_star, theta in zip(fed.clients, pretrained, before, strict=True):
        assert_same_bits(client.models["pretrained"].state_dict(), theta_star)
        assert_same_bits(client.models["previous"].state_dict(), theta)
        assert not torch.equal(client.model.classifier.weight, theta["classifier.weight"])
        assert {id(p) for p in client.parameters()} == {id(p) for p in client.model.parameters()}


def test_teachers_teach_in_evaluation_mode_and_forget_nothing():
    fed = fccl(models=["noisy"])
    fed.begin_round(1)
    client = fed.clients[0]
    teacher = client.models["pretrained"]
    assert teacher.training  # a round has begun
    x = fed.scenario.normalize(client.data.x[:8])
    before = {k: v.clone() for k, v in teacher.state_dict().items()}
    first, second = teacher_logits(teacher, x), teacher_logits(teacher, x)
    assert torch.equal(first, second) and not first.requires_grad
    assert torch.allclose(
        first[:3], teacher_logits(teacher, x[:3]), atol=1e-6
    )  # no batch statistics
    assert_same_bits(teacher.state_dict(), before)


def test_the_local_loss_by_hand():
    for teachers, weights in (
        ("both", (1, 1)), ("previous", (1, 0)), ("pretrained", (0, 1)), ("none", (0, 0)),
    ):  # fmt: skip
        fed = fccl(parameters={"teachers": teachers, "lambda_loc": 0.7})
        client, other = fed.clients[:2]
        x, y = fed.scenario.normalize(client.data.x[:6]), client.data.y[:6]
        z = client.model(x)
        expected = losses.cross_entropy(z, y)
        for role, weight, source in zip(
            ("previous", "pretrained"), weights, (other.model, fed.clients[2].model), strict=True
        ):
            if weight:
                client.models[role].load_state_dict(source.state_dict())
                expected = expected + 0.7 * losses.distillation(z, source(x).detach())
        assert torch.allclose(fed.method.local_loss(client, x, y), expected, atol=1e-6)
        assert set(client.models) == {"model"} | {
            role for role, w in zip(("previous", "pretrained"), weights, strict=True) if w
        }


def test_the_conference_target_replaces_the_own_logits():
    fed = fccl(parameters={"code_target": True, "teachers": "none"}, common_init=False)
    for client in fed.clients:
        client.models["previous"].load_state_dict(fed.make(role="other").state_dict())
    x = fed.scenario.normalize(fed.scenario.public.x)
    z = [c.model(x).detach() for c in fed.clients]
    frozen = fed.clients[0].models["previous"](x).detach()
    for i, client in enumerate(fed.clients):
        client.held = {"clients": 3}
        parts = [frozen if j == i else own for j, own in enumerate(z)]
        m = losses.cross_correlation(z[i], torch.stack(parts).mean(0))
        loss = fed.method.public_loss(client, x, z[i], torch.stack(z).mean(0))
        assert torch.allclose(loss, losses.collaborative_loss(m, lambda_=0.0051), rtol=1e-4)


def test_every_option_changes_the_result():
    def weights(**parameters):
        fed = played("fccl", parameters={"pretrain_epochs": 1, **parameters}, models=["noisy"],
                     rounds=2, public_batch_size=5)  # fmt: skip
        return fed.clients[0].model.classifier.weight

    base = weights()
    for change in (
        {"correlation": "code"}, {"code_target": True}, {"off_diagonal": 0.0},
        {"lambda_col": 0.5}, {"lambda_loc": 0.3}, {"teachers": "previous"},
        {"teachers": "pretrained"}, {"teachers": "none"}, {"pretrain_epochs": 2},
        {"public_lr": 2e-3}, {"average": True}, {"public_optimizer": "sgd"},
        {"public_optimizer": "adam-fresh"}, {"public_optimizer": "adam-kept"},
    ):  # fmt: skip
        assert not torch.equal(base, weights(**change)), change


def test_collaboration_brings_the_correlations_of_different_networks_together():
    fed = fccl(parameters={"public_lr": 0.01}, models=["linear", "noisy", "linear"])
    x = fed.scenario.normalize(fed.scenario.public.x)

    def diagonal() -> float:
        with torch.no_grad():
            z = [teacher_logits(c.model, x) for c in fed.clients]
            mean = torch.stack(z).mean(0)
            rows = [losses.cross_correlation(own, mean).diagonal() for own in z]
        return float(torch.stack(rows).mean())

    before = diagonal()
    for round_ in range(1, 31):
        fed.begin_round(round_)
        fed.method.collaborate(fed, fed.clients)
    assert diagonal() > before + 0.5 * (1 - before)


# The others


def test_rhfl_trusts_small_losses_that_fall():
    fed = played("rhfl", rounds=4, record={"names": ["confidence"]})
    rows = [torch.tensor(row["values"]) for row in fed.history["loss"]]
    for round_ in range(1, 5):
        expected = torch.full((3,), 0.5)
        if round_ > 2:
            expected = losses.client_confidence(rows[round_ - 3], rows[round_ - 2])
        for i, client in enumerate(fed.clients):
            message = next(m for m in fed.channel.messages
                           if m.round_ == round_ and m.target == client.id)  # fmt: skip
            others = torch.cat([expected[:i], expected[i + 1 :]])
            assert torch.allclose(message.payload, others, atol=1e-6)
    assert {r["name"] for r in fed.history["bytes"] if r["round"] == 3} >= {"loss"}


def test_fml_the_meme_travels_and_the_own_network_stays():
    fed = played("fml", parameters={"meme": "linear"}, models=["noisy"])
    mean = torch.stack([len(c.data) * c.models["meme"].classifier.weight for c in fed.clients])
    mean = mean.sum(0) / sum(len(c.data) for c in fed.clients)
    assert torch.allclose(fed.server.models["meme"].classifier.weight, mean, atol=1e-6)
    own = [c.model.classifier.weight for c in fed.clients]
    assert not torch.equal(own[0], own[1])


def test_fml_gives_each_network_its_own_gradient():
    fed = federation("fml", parameters={"meme": "linear", "alpha": 0.3, "beta": 0.8})
    client = fed.clients[0]
    x, y = fed.scenario.normalize(client.data.x[:6]), client.data.y[:6]
    fed.method.local_loss(client, x, y).backward()
    own, meme = client.model, client.models["meme"]
    z, m = own(x), meme(x)
    for network, mine, other, weight in ((own, z, m, 0.3), (meme, m, z, 0.8)):
        loss = losses.mutual_loss(mine, other.detach(), y, alpha=weight)
        expected = torch.autograd.grad(loss, network.classifier.weight, retain_graph=True)[0]
        assert torch.allclose(network.classifier.weight.grad, expected, atol=1e-6)


def test_rcfl_asks_only_those_who_own_a_label():
    scenario = tiny_scenario()
    data = scenario.clients[0].private
    keep = data.y != 2
    few = Images(data.x[keep], data.y[keep], source="two labels")
    clients = (replace(scenario.clients[0], private=few), *scenario.clients[1:])
    fed = federation("rcfl", scenario=replace(scenario, clients=clients), common_init=False,
                     public_batch_size=20, record={"names": ["mean scores"]})  # fmt: skip
    fed.method.start(fed)
    (index,) = fed.public_batches(0)
    x = fed.scenario.normalize(fed.scenario.public.x[index])
    z = [c.model(x) for c in fed.clients]
    fed.method.public_phase(fed, fed.clients)
    scores = fed.channel.messages[0].payload
    p = torch.stack(z).softmax(2)
    expected = torch.cat([p[:, :, :2].mean(0), p[1:, :, 2:].mean(0)], 1)
    expected = expected / expected.sum(1, keepdim=True)
    assert torch.allclose(scores, expected, atol=1e-6)


def test_rcfl_moves_part_of_the_way():
    def after(alpha: float):
        fed = federation("rcfl", parameters={"alpha": alpha}, common_init=False)
        fed.method.start(fed)
        fed.begin_round(1)
        fed.method.collaborate(fed, fed.clients)
        return fed.clients[0].model.classifier.weight.detach()

    assert torch.allclose(after(0.25), 0.75 * after(0.0) + 0.25 * after(1.0), atol=1e-6)


def test_fedmatch_asks_the_nearest():
    z = torch.tensor([0.0, 5.0, 0.3, 4.0]).view(4, 1, 1) * torch.tensor([[[1.0, 0.0]]])
    nearest = nearest_others(z, 2)
    assert [n.tolist() for n in nearest] == [[2, 3], [3, 2], [0, 3], [1, 2]]
    assert [len(n) for n in nearest_others(z[:1], 0)] == [0]


def test_fedmatch_learns_only_where_it_is_sure():
    fed = federation("fedmatch", parameters={"threshold": 1.1})
    before = {k: v.clone() for k, v in weights_of(fed).items()}
    fed.begin_round(1)
    fed.method.collaborate(fed, fed.clients)
    assert_same_bits(before, weights_of(fed))
    assert all(c.state["public_loss"] == [None] for c in fed.clients)


def test_shift_and_flip():
    x = images(64, seed=0, size=16).x.float()
    moved = shift_and_flip(x, torch.Generator().manual_seed(1))
    assert moved.shape == x.shape and moved.dtype == x.dtype
    assert torch.equal(moved, shift_and_flip(x, torch.Generator().manual_seed(1)))
    found = 0
    for one, new in zip(x, moved, strict=True):
        padded = torch.nn.functional.pad(one[None], (4, 4, 4, 4), mode="replicate")[0]
        views = [padded[:, a : a + 16, b : b + 16] for a in range(9) for b in range(9)]
        found += any(torch.equal(new, v) or torch.equal(new, v.flip(2)) for v in views)
    assert found == 64
    assert not torch.equal(moved, x)


# The paper's four networks


def test_the_papers_four_networks_train_together():
    networks = ["resnet10", "resnet12", "efficientnet_b0", "mobilenetv2"]
    fed = federation(
        "fccl", scenario=colored(tiny_scenario(clients=4)), models=networks, rounds=1,
        parameters={"pretrain_epochs": 0, "teachers": "previous"}, local_epochs=1,
        optimizer="adam", lr=1e-3, public_batch_size=8,
    )  # fmt: skip
    before = [c.model.classifier.weight.detach().clone() for c in fed.clients]
    run(fed)
    for client, w in zip(fed.clients, before, strict=True):
        assert not torch.equal(client.model.classifier.weight, w)
        assert math.isfinite(client.state["public_loss"][0])
    assert all(math.isfinite(v) for v in fed.history["loss"][0]["values"])
    table = {(r["direction"], r["name"]): r["bytes"] for r in fed.history["bytes"]}
    assert table == {("up", "logits"): 4 * 8 * 3 * 4, ("down", "mean logits"): 4 * 8 * 3 * 4}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_optimizer_resumes_bit_for_bit(optimizer, tmp_path):
    options = {**MIXED, "rounds": 3, "public_batch_size": 7,
               "parameters": {"pretrain_epochs": 1, "public_optimizer": optimizer}}  # fmt: skip
    resumed("fccl", tmp_path, 2, **options)


# The control: the same steps on the same images, and nobody hears anybody

OWN_ANSWERS = ("kd", "fedmd", "feddf", "fccl", "fccl+", "ewc")


@pytest.mark.parametrize("method", OWN_ANSWERS)
def test_towards_ones_own_answers_nothing_crosses_and_others_do_not_matter(method):
    parameters = short(method, answers="own")
    fed = played(method, parameters=parameters, rounds=2)
    assert not fed.history["bytes"]
    solo, other = weights_of(played("solo", rounds=2)), weights_of(fed)
    assert not all(torch.equal(solo[name], other[name]) for name in solo)  # it learns from images
    whole = tiny_scenario()
    alone = replace(whole, clients=whole.clients[:1])
    one = weights_of(played(method, scenario=alone, parameters=parameters, rounds=2))
    assert_same_bits(one, {name: other[name] for name in one})


@pytest.mark.parametrize("method", OWN_ANSWERS)
def test_towards_ones_own_answers_a_resumed_run_has_the_same_bits(method, tmp_path):
    resumed(method, tmp_path, 1, **MIXED, rounds=3, parameters=short(method, answers="own"))


@pytest.mark.parametrize("method, distance", [
    ("kd", losses.logit_mse), ("fedmd", losses.logit_l1), ("feddf", losses.distillation),
])  # fmt: skip
def test_the_former_answer_is_that_after_the_last_public_phase(method, distance):
    parameters = {"answers": "own", "public_optimizer": "sgd", "public_lr": 0.1}
    fed = federation(method, parameters=parameters, public_batch_size=10)
    fed.begin()
    run_round(fed, 1)
    client = fed.clients[0]
    before, ours = copy.deepcopy(client.models["former"]), copy.deepcopy(client.model)
    pairs = zip(before.parameters(), ours.parameters(), strict=True)
    assert not all(torch.equal(a, b) for a, b in pairs)  # it trained since
    fed.begin_round(2)
    batches = fed.public_batches(2)
    x = [fed.scenario.normalize(fed.scenario.public.x[index]) for index in batches]
    for batch in x:
        loss = distance(ours(batch), before(batch).detach())
        ours.zero_grad()
        loss.backward()
        with torch.no_grad():
            for weight in ours.parameters():
                weight -= 0.1 * weight.grad
    fed.method.collaborate(fed, fed.clients)
    for mine, theirs in zip(ours.parameters(), client.model.parameters(), strict=True):
        assert torch.allclose(mine, theirs, atol=1e-6)


def test_two_readings_of_ones_own_logits_exclude_each_other():
    with pytest.raises(SettingError, match="code_target"):
        make("fccl", answers="own", code_target=True)
