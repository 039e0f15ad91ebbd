"""FCCL+ and EWC in its place; what every public method must keep is in `test_fccl.py`."""

import math

import pytest
import torch
from support.federations import assert_same_bits, federation, played, tiny_scenario, weights_of
from support.runs import MIXED, Stop, colored, plain, stop_after
from torch import nn
from torch.nn.functional import log_softmax

from fedtutor import losses, models
from fedtutor.errors import DataError, SettingError
from fedtutor.methods import make
from fedtutor.methods.ewc import trained
from fedtutor.methods.fccl_plus import MEMORY
from fedtutor.methods.shared.public import teacher_logits
from fedtutor.models import Architecture
from fedtutor.models.layers import Unused
from fedtutor.rounds import local_update, run


@pytest.fixture(autouse=True)
def networks_of_other_widths(monkeypatch):
    def hidden(width: int):
        def features(channels, size):
            return nn.Sequential(nn.Flatten(), nn.Linear(channels * size**2, width), nn.ReLU())

        return features

    for name, width in (("narrow", 5), ("wide", 24)):
        network = Architecture(hidden(width), f"one hidden layer of {width}", 1)
        monkeypatch.setitem(models.MODELS, name, network)
    half = Architecture(
        lambda channels, size: nn.Sequential(nn.Flatten(), Unused(nn.Linear(16, 16)),
                                             nn.Linear(16, 5)), "half used", 1)  # fmt: skip
    monkeypatch.setitem(models.MODELS, "half_used", half)


WIDTHS = {"models": ["narrow", "noisy", "wide"], "common_init": False}


def started(method="fccl+", **options):
    fed = federation(method, **options)
    fed.method.start(fed)
    fed.begin_round(1)
    return fed


def states(fed) -> list[dict]:
    return [{k: v.clone() for k, v in c.model.state_dict().items()} for c in fed.clients]


def a_batch(fed, client=0, count=6):
    data = fed.clients[client].data
    return fed.scenario.normalize(data.x[:count]), data.y[:count]


# It extends FCCL


@pytest.mark.parametrize("method", ["fccl+", "ewc"])
@pytest.mark.parametrize("without", [{"omega": 0.0}, {"fisl": False}])
def test_without_its_parts_it_is_fccl_bit_for_bit(method, without):
    options = {**MIXED, "public_batch_size": 7, "rounds": 3}
    own = {"lambda_ewc": 0.0} if method == "ewc" else {}
    for teachers, epochs in (("none", 0), ("both", 2)):
        fccl = {"teachers": teachers, "pretrain_epochs": epochs}
        plus = {**fccl, **own, **without, "fntd": "none"}
        one, two = (played(m, parameters=p, **options) for m, p in (("fccl", fccl), (method, plus)))
        assert_same_bits(weights_of(one), weights_of(two))
        assert one.history["accuracy"] == two.history["accuracy"]


def test_the_default_is_the_papers():
    plus = make("fccl+")
    assert (plus.lambda_col, plus.mu, plus.omega, plus.tau) == (0.0051, 0.02, 3.0, 3.0)
    assert (plus.fntd, plus.teacher, plus.teachers) == ("printed", "previous", "none")
    assert plus.pretrain_epochs == 0 and plus.fccm and plus.fisl
    fed = federation("fccl+")
    assert set(fed.clients[0].models) == {"model", "previous"}  # Table III: two networks


# The collaborative phase


def test_a_collaborative_step_by_hand():
    """One batch, SGD, networks of different width: w - lr times the gradient of Eq. 6."""
    for fccm, fisl in ((True, True), (True, False), (False, True)):
        parameters = {"public_optimizer": "sgd", "public_lr": 0.1, "fccm": fccm, "fisl": fisl,
                      "omega": 0.7, "mu": 0.1, "lambda_col": 0.2}  # fmt: skip
        fed = started(parameters=parameters, **{**WIDTHS, "models": ["narrow", "wide", "narrow"]})
        x = fed.scenario.normalize(fed.scenario.public.x)
        z, h = ([f(x) for f in fs] for fs in ([c.model for c in fed.clients],
                                              [c.model.features for c in fed.clients]))  # fmt: skip
        s = [losses.without_diagonal(losses.instance_similarity(f, mu=0.1)) for f in h]
        z_mean, s_mean = (torch.stack(v).mean(0).detach() for v in (z, s))
        expected = []
        for i, client in enumerate(fed.clients):
            m = losses.cross_correlation(z[i], z_mean)
            loss = fccm * losses.collaborative_loss(m, lambda_=0.2)
            loss = loss + 0.7 * fisl * losses.instance_similarity_loss(s[i], s_mean)
            w = client.model.body[1].weight
            expected.append((w - 0.1 * torch.autograd.grad(loss, w)[0]).detach())
        fed.method.collaborate(fed, fed.clients)
        for client, w in zip(fed.clients, expected, strict=True):
            assert torch.allclose(client.model.body[1].weight, w, atol=1e-6)


@pytest.mark.parametrize(
    ("parameters", "names"),
    [
        ({}, {"logits", "mean logits", "similarities", "mean similarities"}),
        ({"fisl": False}, {"logits", "mean logits"}),
        ({"fccm": False}, {"similarities", "mean similarities"}),
        ({"fccm": False, "fisl": False}, set()),
    ],
)
def test_only_what_is_used_crosses(parameters, names):
    fed = played("fccl+", parameters=parameters, rounds=1, public_batch_size=8, **WIDTHS)
    assert {row["name"] for row in fed.history["bytes"]} == names
    square = 3 * (8 * 7 + 8 * 7 + 4 * 3) * 4  # three clients, batches of 8, 8, 4; float32
    assert all(row["bytes"] == square for row in fed.history["bytes"] if "sim" in row["name"])


def test_what_crosses_is_the_mean_of_similarities():
    fed = played("fccl+", parameters={"public_lr": 0.0, "fntd": "none"}, rounds=1, lr=1e-30,
                 record={"names": ["similarities", "mean similarities"]},
                 **{**WIDTHS, "models": ["narrow", "wide", "narrow"]})  # fmt: skip
    sent = [m.payload for m in fed.channel.messages if m.name == "similarities"]
    mean = [m.payload for m in fed.channel.messages if m.name == "mean similarities"]
    x = fed.scenario.normalize(fed.scenario.public.x[fed.public_batches(1)[0]])
    for client, s, received in zip(fed.clients, sent, mean, strict=True):
        own = losses.instance_similarity(client.model.features(x))
        assert s.shape == (20, 19)
        assert torch.allclose(s, losses.without_diagonal(own), atol=1e-3)
        assert torch.allclose(received, torch.stack(sent).mean(0), atol=1e-5)
        assert not received.requires_grad


def test_networks_of_different_width_see_more_alike_with_fisl():
    fed = started(parameters={"public_lr": 0.01, "fccm": False, "mu": 0.2},
                  **{**WIDTHS, "models": ["narrow", "wide", "wide"]})  # fmt: skip
    x = fed.scenario.normalize(fed.scenario.public.x)

    @torch.no_grad()
    def apart() -> float:
        s = [losses.without_diagonal(losses.instance_similarity(c.model.features(x), mu=0.2))
             for c in fed.clients]  # fmt: skip
        mean = torch.stack(s).mean(0)
        return float(torch.stack([losses.instance_similarity_loss(own, mean) for own in s]).mean())

    before = apart()
    with fed.workers():
        for round_ in range(1, 31):
            fed.begin_round(round_)
            fed.method.collaborate(fed, fed.clients)
    assert apart() < 0.5 * before


def test_batch_norm_sees_every_public_batch_once():
    """Once, unlike the official code; its running statistics stay with their client."""
    fed = started(models=["noisy"], public_batch_size=5)
    norms = [c.model.body[1] for c in fed.clients]
    fed.method.collaborate(fed, fed.clients)
    assert [int(n.num_batches_tracked) for n in norms] == [4, 4, 4]
    for c in fed.clients:
        local_update(fed, c)
    assert not torch.allclose(norms[0].running_mean, norms[1].running_mean, atol=1e-3)


def test_no_public_phase_without_its_two_parts():
    fed = started(parameters={"fccm": False, "fisl": False}, models=["noisy"])
    before = states(fed)
    fed.method.collaborate(fed, fed.clients)
    for client, state in zip(fed.clients, before, strict=True):
        assert_same_bits(client.model.state_dict(), state)


def test_averaging_comes_between_the_phases():
    for teacher in ("previous", "current"):
        fed = started(parameters={"average": True, "teacher": teacher}, models=["narrow"],
                      common_init=False)  # fmt: skip
        before = states(fed)
        fed.method.collaborate(fed, fed.clients)
        for client, state in zip(fed.clients, before, strict=True):
            assert_same_bits(client.model.state_dict(), fed.clients[0].model.state_dict())
            expected = state if teacher == "previous" else client.model.state_dict()
            assert_same_bits(client.models[teacher].state_dict(), expected)


# The local phase


@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("teachers", ["none", "pretrained"])
def test_the_local_loss_by_hand(memory, teachers):
    parameters = {"fntd": memory, "teachers": teachers, "tau": 2.0, "pretrain_epochs": 1,
                  "lambda_loc": 0.3}  # fmt: skip
    fed = started(parameters=parameters, **WIDTHS)
    client, (x, y) = fed.clients[0], a_batch(fed)
    others = {role: model for role, model in client.models.items() if role != "model"}
    assert set(others) == {r for r, on in (("previous", memory != "none"),
                                           ("pretrained", teachers != "none")) if on}  # fmt: skip
    for model in others.values():
        model.classifier.weight.data += 0.5 * torch.randn(
            3, 5, generator=torch.Generator().manual_seed(len(others))
        )
    z = client.model(x)
    expected = losses.cross_entropy(z, y)
    if teachers == "pretrained":
        expected = expected + 0.3 * losses.distillation(z, others["pretrained"](x))
    if memory != "none":
        t = others["previous"](x)
        expected = (
            expected
            + {
                "printed": losses.non_target_distillation(z, y, t, tau=2.0),
                "tau2": 4 * losses.non_target_distillation(z, y, t, tau=2.0),
                "renormalized": losses.renormalized_non_target_distillation(z, y, t, tau=2.0),
                "fedntd": 4 * losses.renormalized_non_target_distillation(z, y, t, tau=2.0),
                "kd": 4 * losses.distillation(z, t, tau=2.0),
            }[memory]
        )
    loss = fed.method.local_loss(client, x, y)
    assert torch.allclose(loss, expected, atol=1e-6)
    if teachers == "none" and memory in ("printed", "kd"):
        whole = losses.non_target_loss if memory == "printed" else losses.distilled_loss
        assert torch.allclose(loss, whole(z, y, t, tau=2.0), atol=1e-6)  # Eq. 14, Eq. 10


def test_the_teacher_of_a_round():
    """theta^{e-1} is what the last local update left, theta^e what this public phase left."""
    for teacher in ("previous", "current"):
        fed = federation(parameters={"teacher": teacher}, method="fccl+", **WIDTHS)
        run(fed)
        before = states(fed)
        fed.begin_round(4)
        fed.method.collaborate(fed, fed.clients)
        for client, state in zip(fed.clients, before, strict=True):
            expected = state if teacher == "previous" else client.model.state_dict()
            assert_same_bits(client.models[teacher].state_dict(), expected)
            assert not torch.equal(client.model.classifier.weight, state["classifier.weight"])
        local_update(fed, fed.clients[0])
        kept = fed.clients[0].models[teacher].classifier.weight
        assert torch.equal(kept, before[0]["classifier.weight"]) == (teacher == "previous")
        assert not torch.equal(kept, fed.clients[0].model.classifier.weight)
        ours = {id(p) for p in fed.clients[0].parameters()}
        assert ours == {id(p) for p in fed.clients[0].model.parameters()}


def test_the_teachers_mode():
    for mode in ("eval", "train"):
        fed = started(parameters={"teacher_mode": mode}, models=["noisy"])
        client, (x, y) = fed.clients[0], a_batch(fed)
        teacher = client.models["previous"]
        before = int(teacher.body[1].num_batches_tracked)
        fed.method.local_loss(client, x, y)
        assert teacher.training == (mode == "train")
        assert int(teacher.body[1].num_batches_tracked) - before == (mode == "train")
        assert client.model.training
        assert not teacher_logits(teacher, x, train=True).requires_grad
        fed.method.remember(client, "previous")
        assert_same_bits(teacher.state_dict(), client.model.state_dict())


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 1.0])
def test_a_share_of_the_local_steps_starts_with_kd(share, monkeypatch):
    seen = []
    for name in ("distillation", "non_target_distillation"):
        real = getattr(losses, name)

        def noted(*args, name=name, real=real, **options):
            seen.append(name)
            return real(*args, **options)

        if name == "distillation":
            monkeypatch.setattr(losses, name, noted)
        else:
            from fedtutor.methods import fccl_plus

            monkeypatch.setitem(fccl_plus.NON_TARGET, "printed", (noted, 0))
    fed = federation("fccl+", parameters={"kd_share": share}, local_epochs=5,
                     scenario=tiny_scenario(clients=1, count=16), models=["narrow"])  # fmt: skip
    run(fed)  # 3 rounds of 5 epochs of 2 steps
    kd = round(10 * share)
    assert seen == (["distillation"] * kd + ["non_target_distillation"] * (10 - kd)) * 3


def test_kd_first_and_kd_throughout_agree():
    one, two = (played("fccl+", parameters=p, **WIDTHS) for p in ({"kd_share": 1.0},
                                                                  {"fntd": "kd"}))  # fmt: skip
    assert_same_bits(weights_of(one), weights_of(two))


def test_drop_last_counts_in_the_share_too():
    fed = started(parameters={"kd_share": 0.5}, drop_last=True, local_epochs=3)
    fed.method.collaborate(fed, fed.clients)
    assert [c.state["kd_until"] for c in fed.clients] == [round(0.5 * 3 * n) for n in (3, 3, 3)]


def test_a_teacher_keeps_the_client_nearer_to_what_it_was():
    def drift(memory: str) -> float:
        options = {"parameters": {"fntd": memory, "fccm": False, "fisl": False}, "rounds": 1,
                   "models": ["narrow"], "local_epochs": 20}  # fmt: skip
        before = federation("fccl+", **options).clients[0].model
        fed = played("fccl+", **options)
        x = fed.scenario.normalize(fed.clients[0].data.x)
        with torch.no_grad():
            return float(losses.distillation(fed.clients[0].model(x), before(x)))

    free = drift("none")
    assert drift("kd") < drift("fedntd") < 0.9 * free  # FedNTD leaves the true class free
    assert drift("kd") < 0.5 * free


def test_every_option_changes_the_result():
    def weights(method="fccl+", **parameters):
        fed = played(method, parameters={"pretrain_epochs": 1, **parameters}, rounds=2,
                     public_batch_size=5, scenario=colored(tiny_scenario(), 16),
                     models=["noisy"])  # fmt: skip
        return fed.clients[0].model.classifier.weight

    base, held = weights(), weights("ewc")
    changes = [
        {"correlation": "code"}, {"code_target": True}, {"off_diagonal": 0.0}, {"lambda_col": 0.5},
        {"teachers": "both"}, {"teachers": "both", "lambda_loc": 0.3}, {"pretrain_epochs": 2},
        {"public_lr": 2e-3}, {"average": True}, {"public_optimizer": "adam-fresh"},
        {"public_augment": "weak"}, {"fccm": False}, {"fisl": False}, {"mu": 0.2}, {"omega": 1.0},
        {"tau": 1.0}, {"teacher": "current"}, {"teacher_mode": "train"}, {"kd_share": 0.5},
        *({"fntd": name} for name in MEMORY if name != "printed"),
    ]  # fmt: skip
    results = [base, *(weights(**change) for change in changes)]
    for i, one in enumerate(results):
        for j in range(i):
            assert not torch.equal(one, results[j]), (changes[i - 1], changes[j - 1])
    assert not torch.equal(held, weights("ewc", lambda_ewc=0.1))
    assert not torch.equal(held, weights("ewc", fccm=False, fisl=False))


@pytest.mark.parametrize("parameters", [
    {"teacher": "current", "kd_share": 0.3, "teacher_mode": "train"},
    {"fntd": "fedntd", "public_augment": "weak", "average": True},
    {"fntd": "none", "teachers": "both", "pretrain_epochs": 1},
])  # fmt: skip
def test_options_resume_bit_for_bit_on_any_number_of_threads(parameters, tmp_path):
    options = {**MIXED, "parameters": parameters, "rounds": 4, "public_batch_size": 4,
               "scenario": colored(tiny_scenario(), 16)}  # fmt: skip
    if parameters.get("average"):
        options["models"] = ["noisy"]
    whole = played("fccl+", **options)
    with pytest.raises(Stop):
        run(federation("fccl+", **options), checkpoint=tmp_path, every=0, progress=stop_after(2))
    fed = federation("fccl+", threads=2, **options)
    run(fed, checkpoint=tmp_path, every=0)
    assert_same_bits(weights_of(whole), weights_of(fed))
    assert plain(whole) == plain(fed)


@pytest.mark.parametrize(
    ("method", "wrong", "message"),
    [
        ("fccl+", {"fntd": "printd"}, "did you mean 'printed'"),
        ("fccl+", {"teacher": "currant"}, "did you mean 'current'"),
        ("fccl+", {"teacher_mode": "trian"}, "did you mean 'train'"),
        ("fccl+", {"mu": 0.0}, "mu = 0"),
        ("fccl+", {"tau": -1.0}, "tau = -1"),
        ("fccl+", {"tau": float("nan")}, "tau = nan"),
        ("fccl+", {"omega": -1.0}, "omega = -1"),
        ("fccl+", {"kd_share": 1.5}, "kd_share = 1.5"),
        ("fccl+", {"fisl": 1}, "fisl = 1"),
        ("fccl+", {"teachers": "both"}, "the pretrained network is to teach"),
        ("ewc", {"lambda_ewc": -0.1}, "lambda_ewc = -0.1"),
        ("ewc", {"mu": 0.0}, "mu = 0"),
    ],
)
def test_wrong_parameters_are_refused(method, wrong, message):
    with pytest.raises(SettingError, match=message) as caught:
        make(method, **wrong)
    assert caught.value.do


def test_public_images_are_asked_for_even_where_a_part_is_off():
    with pytest.raises(DataError, match="there are none"):
        played("fccl+", scenario=tiny_scenario(public=False))


# EWC


def test_fisher_information_against_a_plain_loop():
    fed = started("ewc", **WIDTHS)
    for i, client in enumerate(fed.clients):
        fed.method.look_back(client)
        model, data = client.model.eval(), client.data
        expected = [torch.zeros_like(w) for w in trained(model).values()]
        for b in range(len(data)):
            z = model(fed.scenario.normalize(data.x[b : b + 1]))
            likelihood = log_softmax(z, 1)[0, data.y[b]]
            for f, slope in zip(
                expected,
                torch.autograd.grad(likelihood, list(trained(model).values())),
                strict=True,
            ):
                f += slope**2 / len(data)
        for f, e in zip(client.state["fisher"], expected, strict=True):
            assert torch.allclose(f, e, atol=1e-7), i
        assert client.state["fisher"][0].abs().max() > 0


def test_fisher_information_by_hand():
    """Softmax regression: the gradient of log p is (onehot - p) x^T, image by image."""
    fed = started("ewc", models=["linear"])
    client = fed.clients[0]
    fed.method.look_back(client)
    x = fed.scenario.normalize(client.data.x)
    p = client.model(x).softmax(1)
    miss = nn.functional.one_hot(client.data.y, 3) - p
    expected = (miss**2).T @ x.flatten(1) ** 2 / len(x)
    assert torch.allclose(client.state["fisher"][0], expected, atol=1e-5)
    assert torch.allclose(client.state["fisher"][1], (miss**2).mean(0), atol=1e-6)


def test_looking_back_touches_neither_statistics_nor_chance():
    fed, other = (started("ewc", models=["noisy"]) for _ in range(2))
    before = states(fed)
    fed.method.look_back(fed.clients[0])
    assert_same_bits(fed.clients[0].model.state_dict(), before[0])
    assert fed.clients[0].model.training
    x, _ = a_batch(fed)
    assert torch.equal(fed.clients[0].model(x), other.clients[0].model(x))  # the same dropout


def test_the_reference_is_what_the_last_local_update_left():
    fed = federation("ewc", **WIDTHS)
    run(fed)
    before = states(fed)
    fed.begin_round(4)
    fed.method.collaborate(fed, fed.clients)
    for client, state in zip(fed.clients, before, strict=True):
        kept = dict(zip(trained(client.model), client.state["w_previous"], strict=True))
        assert_same_bits(kept, {name: state[name] for name in kept})
        assert not torch.equal(client.model.classifier.weight, state["classifier.weight"])
    client, (x, y) = fed.clients[0], a_batch(fed)
    pull = sum((f * (w - v) ** 2).sum() for f, w, v in zip(
        client.state["fisher"], client.model.parameters(), client.state["w_previous"], strict=True
    ))  # fmt: skip
    expected = losses.cross_entropy(client.model(x), y) + 0.35 * pull
    assert torch.allclose(fed.method.local_loss(client, x, y), expected, atol=1e-6)
    assert pull > 0


def test_a_strong_penalty_holds_the_weights_that_count():
    def moved(lambda_: float) -> torch.Tensor:
        fed = played("ewc", parameters={"lambda_ewc": lambda_, "fccm": False, "fisl": False},
                     models=["linear"], lr=0.01, local_epochs=20, rounds=1)  # fmt: skip
        client = fed.clients[0]
        apart = client.model.classifier.weight - client.state["w_previous"][0]
        return (client.state["fisher"][0] * apart**2).sum()

    assert moved(100.0) < 0.1 * moved(0.0)


def test_frozen_weights_have_no_fisher_information():
    """EfficientNet owns weights that it never calls."""
    fed = started("ewc", models=["half_used"])
    fed.method.look_back(fed.clients[0])
    model = fed.clients[0].model
    assert len(fed.clients[0].state["fisher"]) == 4 < len(list(model.parameters())) == 6
    assert torch.isfinite(fed.method.local_loss(fed.clients[0], *a_batch(fed)))


def test_the_papers_four_networks_meet():
    networks = ["resnet10", "resnet12", "efficientnet_b0", "mobilenetv2"]
    fed = started(scenario=colored(tiny_scenario(clients=4), 16), models=networks,
                  parameters={"fntd": "none", "public_optimizer": "sgd"})  # fmt: skip
    assert [c.model.feature_size for c in fed.clients] == [512, 512, 320, 1280]
    fed.method.collaborate(fed, fed.clients)
    table = {(r["direction"], r["name"]): r["bytes"] for r in fed.channel.table()}
    assert table["up", "similarities"] == table["down", "mean similarities"] == 4 * 8 * 7 * 4
    assert table["up", "logits"] == table["down", "mean logits"] == 4 * 8 * 3 * 4
    assert all(math.isfinite(c.state["public_loss"][0]) for c in fed.clients)
