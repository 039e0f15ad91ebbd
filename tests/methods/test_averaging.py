"""The averaging methods that FedCSD is compared with, and what they do to each other's limits."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from support.federations import (
    TWO,
    assert_same_bits,
    by_hand,
    federation,
    images,
    local_loss,
    played,
    skewed,
    tiny_scenario,
    weights_of,
)
from support.golden_federation import golden_federation
from support.loops import GOLDEN
from support.runs import resumed
from torch import nn

from fedtutor import evaluation, losses, rounds
from fedtutor.errors import ModelError, SettingError
from fedtutor.methods import make, parameters
from fedtutor.methods.shared.prototypes import own_prototypes
from fedtutor.scenarios.base import Scenario

ALL = ("fednova", "scaffold", "fedavgm", "moon", "fedproto", "fedproc", "fedrs", "fedgkd",
       "logit-distillation", "feature-distillation", "fedcsd")  # fmt: skip
STRONG = {  # so that a tiny run shows the difference
    "logit-distillation": {"mu": 0.5}, "feature-distillation": {"mu": 0.5}, "fedgkd": {"mu": 0.5},
    "fedcsd": {"mu": 0.5},
}  # fmt: skip
OPTIONS = {"models": ["noisy"], "rounds": 4, "momentum": 0.5}


def started(method: str, *, scenario=TWO, **options):
    fed = federation(method, scenario=scenario, **options)
    fed.method.start(fed)
    fed.begin_round(1)
    fed.method.collaborate(fed, fed.clients)
    return fed


def fill(network: nn.Module, value: float) -> None:
    for p in network.parameters():
        p.data.fill_(value)


def weight(holder) -> list[float]:
    """The distinct values of a network's weights."""
    return sorted({round(v, 5) for p in holder.model.parameters() for v in p.flatten().tolist()})


# -------------------------------------------------------------------------------- every method


@pytest.mark.parametrize("stopped", [0, 1, 3])
@pytest.mark.parametrize("method", ALL)
def test_a_resumed_run_has_the_same_bits(method, stopped, tmp_path):
    options = {**OPTIONS, "participation": 0.7, "threads": 1}
    whole, fed = resumed(method, tmp_path, stopped, **options)
    for one, other in zip([whole.server, *whole.clients], [fed.server, *fed.clients], strict=True):
        assert_same_state(one.state, other.state)


def assert_same_state(a, b) -> None:
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        a, b = list(a.values()), [b[key] for key in a]
    if isinstance(a, list):
        for one, other in zip(a, b, strict=True):
            assert_same_state(one, other)
    elif isinstance(a, torch.Tensor):
        assert torch.equal(a, b)
    else:
        assert a == b


@pytest.mark.parametrize("method", ALL)
def test_one_client_alone_and_clients_that_sit_out(method):
    played(method, scenario=tiny_scenario(clients=1), rounds=3)
    fed = played(method, participation=0.6, rounds=6, parameters=STRONG.get(method))
    seated = {sum(v is not None for v in row["values"]) for row in fed.history["loss"]}
    assert seated == {2}


@pytest.mark.parametrize("method", ALL)
def test_different_networks_are_refused(method):
    with pytest.raises(ModelError, match=f"{method} averages weights"):
        played(method, models=["linear", "noisy", "linear"])


@pytest.mark.parametrize("method", ALL)
def test_it_is_fedavg_with_its_options(method):
    defaults = parameters(method)
    assert defaults["weighting"] == ("uniform" if method == "scaffold" else "samples")
    assert (defaults["evaluate"], defaults["start_from"]) == ("server", "server")
    for wrong in ({"weighting": "sample"}, {"evaluate": "serve"}, {"start_from": "clients"}):
        with pytest.raises(SettingError, match="did you mean"):
            make(method, **wrong)


# ----------------------------------------------------------------------- limits that are FedAvg


@pytest.mark.parametrize("network", ["noisy", "hidden"])
@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("moon", {"mu": 0.0}),
        ("fedgkd", {"mu": 0.0}),
        ("fedproto", {"lambda_": 0.0}),
        ("fedproc", {"schedule": "constant", "alpha": 0.0}),
        ("fedrs", {"alpha": 1.0}),
        ("fedrs", {"alpha": 1.0, "scale": "continuous"}),
        ("fedrs", {"scale": "binary"}),  # every client has every class
        ("logit-distillation", {"mu": 0.0}),
        ("feature-distillation", {"mu": 0.0}),
        ("fedcsd", {"mu": 0.0}),
        ("fedcsd", {"mu": 0.0, "loss": "code", "prototypes": "local"}),
    ],
)
def test_switched_off_it_is_fedavg_bit_for_bit(method, changes, network):
    """Weights and the running statistics of batch norm alike."""
    options = {"models": [network], "momentum": 0.5}
    base = weights_of(played("fedavg", **options))
    other = weights_of(played(method, parameters=changes, **options))
    assert_same_bits(base, {name: other[name] for name in base})


def equal_clients(count: int = 24) -> Scenario:
    """Three clients with equally many images."""
    scenario = tiny_scenario()
    held = [replace(c, private=images(count, seed=k)) for k, c in enumerate(scenario.clients)]
    return replace(scenario, clients=tuple(held))


@pytest.mark.parametrize(
    ("method", "changes", "options"),
    [
        ("fedavgm", {"beta": 0.0}, {"rounds": 3}),
        ("fedavgm", {"beta": 0.0, "damped": True}, {"rounds": 3}),
        ("fednova", {}, {"rounds": 3, "scenario": equal_clients()}),  # equally many steps
        ("scaffold", {"weighting": "samples"}, {"rounds": 1}),  # zero control variates
        ("scaffold", {}, {"rounds": 4, "local_epochs": 1, "batch_size": 100,
                          "scenario": equal_clients()}),  # one step: corrections cancel
    ],
)  # fmt: skip
def test_in_the_limit_it_is_fedavg(method, changes, options):
    options = {"models": ["hidden"], **options}
    ours = played(method, parameters=changes, **options).server.model.state_dict()
    base = played("fedavg", **options).server.model.state_dict()
    for name, value in base.items():
        assert torch.allclose(ours[name], value, atol=2e-6), name


@pytest.mark.parametrize("method", ALL)
def test_switched_on_it_is_not_fedavg(method):
    options = {"models": ["hidden"], "scenario": skewed()}
    base = weights_of(played("fedavg", **options))
    other = weights_of(played(method, parameters=STRONG.get(method), **options))
    assert not torch.equal(base["server/model/classifier.weight"],
                           other["server/model/classifier.weight"])  # fmt: skip


# ------------------------------------------------------------------------------ golden numbers


@pytest.mark.parametrize("rho", ["0", "0.9"])
def test_golden_fednova(rho, monkeypatch):
    golden = np.load(GOLDEN / f"toy_federation_rho{rho}.npz")
    fed = golden_federation(golden, make("fednova"), monkeypatch)
    linear = fed.server.model.linear
    assert np.allclose(linear.weight.detach(), golden["fednova_W_global"], rtol=1e-6)
    assert np.allclose(linear.bias.detach(), golden["fednova_b_global"], rtol=1e-6)


@pytest.mark.parametrize("rho", ["0", "0.9"])
def test_golden_scaffold_over_two_rounds(rho, monkeypatch):
    golden = np.load(GOLDEN / f"toy_federation_rho{rho}.npz")
    fed = golden_federation(golden, make("scaffold", weighting="samples"), monkeypatch)
    for round_ in (1, 2):
        if round_ == 2:
            rounds.run_round(fed, 2)
        key = f"scaffold_r{round_}"
        linear, c = fed.server.model.linear, fed.server.state["c"]
        assert np.allclose(linear.weight.detach(), golden[f"{key}_W_global"], rtol=1e-6)
        assert np.allclose(linear.bias.detach(), golden[f"{key}_b_global"], rtol=1e-6)
        assert np.allclose(c[0], golden[f"{key}_c_W"], rtol=1e-6)
        assert np.allclose(c[1], golden[f"{key}_c_b"], rtol=1e-6)
        for k, client in enumerate(fed.clients):
            local = client.model.linear.weight.detach()
            assert np.allclose(local, golden[f"{key}_W_local"][k], rtol=1e-6)
            assert np.allclose(client.state["c_k"][0], golden[f"{key}_ck_W"][k], rtol=1e-6)


def test_golden_fedavgm_damped(monkeypatch):
    golden = np.load(GOLDEN / "toy_federation_rho0.npz")
    method = make("fedavgm", beta=float(golden["fedavgm_beta"]), damped=True)
    fed = golden_federation(golden, make("fedavg"), monkeypatch)
    method.start(fed)
    for step in range(3):
        w = fed.server.model.state_dict()["linear.weight"]
        for client in fed.clients:
            client.model.load_state_dict(fed.server.model.state_dict())
            client.model.linear.weight.data = w + (step + 1) * torch.tensor(golden["fedavgm_step"])
        method.aggregate(fed, fed.clients)
        new = fed.server.model.linear.weight.detach()
        assert np.allclose(new, golden["fedavgm_W"][step], rtol=1e-6)


def test_golden_feddyn_over_three_rounds(monkeypatch):
    toy, golden = (np.load(GOLDEN / f"{name}.npz") for name in ("toy_federation_rho0", "feddyn"))
    method = make("feddyn", alpha=float(golden["alpha"]))
    fed = golden_federation(toy, method, monkeypatch)
    for round_ in (1, 2, 3):
        if round_ > 1:
            rounds.run_round(fed, round_)
        networks = [*(client.model for client in fed.clients), fed.server.model]
        expected = [*golden[f"r{round_}_local"], golden[f"r{round_}_server"]]
        for network, weights in zip(networks, expected, strict=True):
            ours = torch.cat([p.detach().flatten() for p in network.parameters()])
            assert np.allclose(ours, weights, rtol=1e-6)


@pytest.mark.parametrize("name", ["fedadam", "fedyogi"])
def test_golden_adaptive_server_over_four_rounds(name, monkeypatch):
    toy, golden = (np.load(GOLDEN / f"{n}.npz") for n in ("toy_federation_rho0", "fedopt"))
    method = make(name, **{k: float(golden[k]) for k in ("eta", "tau", "beta_1", "beta_2")})
    fed = golden_federation(toy, make("fedavg"), monkeypatch)
    method.start(fed)
    linear = fed.server.model.linear
    linear.weight.data, linear.bias.data = (torch.tensor(golden[key]) for key in ("W0", "b0"))
    for step, moves in enumerate(zip(golden["move_W"], golden["move_b"], strict=True)):
        for client, w, b in zip(fed.clients, *map(torch.tensor, moves), strict=True):
            client.model.linear.weight.data = linear.weight.detach() + w
            client.model.linear.bias.data = linear.bias.detach() + b
        method.aggregate(fed, fed.clients)
        assert np.allclose(linear.weight.detach(), golden[f"{name}_W"][step], rtol=1e-6)
        assert np.allclose(linear.bias.detach(), golden[f"{name}_b"][step], rtol=1e-6)


# --------------------------------------------------------- by hand: two clients, small integers


def test_fedavg_from_the_clients_own_weights():
    """Nothing goes down before the first average; then everything is FedAvg."""
    own = {"parameters": {"start_from": "client"}, "record": {"names": ["weights"]}}
    fed = played("fedavg", common_init=False, rounds=2, **own)
    down = [r["round"] for r in fed.history["bytes"] if r["direction"] == "down"]
    assert down == [2]
    first = {c.id: c.model.classifier.weight for c in federation(common_init=False).clients}
    assert len({tuple(w.flatten().tolist()) for w in first.values()}) == 3
    fed = started("fedavg", scenario=tiny_scenario(), common_init=False, **own)
    for client in fed.clients:
        assert torch.equal(client.model.classifier.weight, first[client.id])
    fill(fed.clients[0].model, 1.0)
    fed.begin_round(2)
    fed.method.collaborate(fed, fed.clients)
    assert torch.equal(fed.clients[0].model.classifier.weight, fed.server.model.classifier.weight)


def test_with_a_common_start_it_does_not_matter_who_begins():
    server, client = (weights_of(played(parameters={"start_from": who}, models=["noisy"]))
                      for who in ("server", "client"))  # fmt: skip
    assert_same_bits(server, client)


def test_fednova_by_hand():
    """From 0, three images each: 1 step to 2 and 2 steps to 6, hence 1.5 steps of (2 + 3) / 2."""
    fed = started("fednova")
    fill(fed.server.model, 0.0)
    for client, value, steps in zip(fed.clients, (2.0, 6.0), (1, 2), strict=True):
        fill(client.model, value)
        client.steps += steps
    fed.method.aggregate(fed, fed.clients)
    assert weight(fed.server) == [3.75]


def test_fednova_counts_steps_of_this_round_and_their_momentum():
    fed = played("fednova", momentum=0.9, rounds=2, record={"names": ["normalizer"]})
    sent = {(m.round_, m.source): m.payload for m in fed.channel.messages}
    for client, epoch in zip(fed.clients, (3, 4, 4), strict=True):  # 24, 27, 30 images in eights
        for round_ in (1, 2):
            expected = losses.nova_normalizer(2 * epoch, 0.9)
            assert sent[round_, client.id] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("method", "changes", "message"),
    [
        ("fednova", {"optimizer": "adam"}, "fednova with adam"),
        ("fednova", {"momentum": 0.9, "keep_optimizer": True}, "momentum kept"),
        ("fednova", {"parameters": {"start_from": "client"}}, "start_from"),
        ("scaffold", {"optimizer": "adam"}, "scaffold with adam"),
    ],
)
def test_what_needs_plain_steps_refuses_others(method, changes, message):
    with pytest.raises(SettingError, match=message):
        played(method, **changes)


def test_scaffold_by_hand():
    fed = started("scaffold", lr=0.5)
    client, other = fed.clients
    fed.server.state["c"] = [torch.full_like(c, 2.0) for c in fed.server.state["c"]]
    for c, own in ((client, 4.0), (other, 1.0)):
        c.state["c_k"] = [torch.full_like(v, own) for v in c.state["c_k"]]
        c.state["c"] = fed.server.state["c"]
        c.state["w"] = [torch.full_like(w, 7.0) for w in c.state["w"]]
        c.optimizer = rounds.new_optimizer(c, fed.settings)
        fill(c.model, 7.0)
    fed.method.after_step(client)  # 7 - 0.5 (2 - 4)
    assert weight(client) == [8.0]
    fed.method.after_step(other)  # 7 - 0.5 (2 - 1)
    assert weight(other) == [6.5]
    client.steps, other.steps = 2, 1
    for c in fed.clients:
        fed.method.after_local(c)
    assert float(client.state["c_k"][1][0]) == 4 - 2 + (7 - 8) / (2 * 0.5)  # 1
    assert float(other.state["c_k"][1][0]) == 1 - 2 + (7 - 6.5) / 0.5  # 0
    fed.method.aggregate(fed, fed.clients)
    assert float(fed.server.state["c"][1][0]) == 2 + ((1 - 4) + (0 - 1)) / 2  # 0
    assert weight(fed.server) == [7.25]


def test_scaffold_moves_the_control_by_the_share_that_takes_part():
    fed = played("scaffold", rounds=1, participation=0.6)
    trained = [c for c in fed.clients if "change" in c.state]
    assert len(trained) == 2
    total = sum(c.state["c_k"][0] for c in trained)
    assert torch.allclose(fed.server.state["c"][0], total / 3, atol=1e-6)


def test_scaffold_brings_clients_together():
    def spread(method):
        fed = played(method, rounds=8, local_epochs=4)
        return torch.stack([c.model.classifier.weight for c in fed.clients]).std(0).mean()

    assert spread("scaffold") < spread("fedavg")


@pytest.mark.parametrize(("damped", "expected"), [(False, (4.0, 6.0)), (True, (2.0, 3.0))])
def test_fedavgm_by_hand(damped, expected):
    """From 0, the clients' average is 4 above the server, then equal to it."""
    fed = started("fedavgm", parameters={"beta": 0.5, "damped": damped})
    fill(fed.server.model, 0.0)
    for change, new in zip((4.0, 0.0), expected, strict=True):
        now = weight(fed.server)[0]
        fill(fed.clients[0].model, now + change - 1)
        fill(fed.clients[1].model, now + change + 1)
        fed.method.aggregate(fed, fed.clients)
        assert weight(fed.server) == [new]


def test_moon_by_hand():
    """Features (1, 0), global (1, 0), previous (0, 1): cosines 1 and 0."""
    fed = started("moon", models=["hidden"], parameters={"mu": 2.0, "tau": 1.0})
    client = fed.clients[0]
    for role, row in (("model", 0), ("received", 0), ("previous", 1)):
        network = client.models[role]
        fill(network, 0.0)
        network.body[1].weight.data[row, 0] = 1.0
    ce = math.log(3)
    assert local_loss(fed, client) == pytest.approx(ce, rel=1e-6)  # no previous
    client.state["trained"] = True
    con = math.log(1 + math.exp(-1))
    assert local_loss(fed, client) == pytest.approx(ce + 2 * con, rel=1e-6)


def test_moon_remembers_what_it_trained_and_what_it_received():
    fed = played("moon", models=["noisy"], rounds=2)
    local = [{k: v.clone() for k, v in c.model.state_dict().items()} for c in fed.clients]
    now = fed.server.model.state_dict()
    fed.begin_round(3)
    fed.method.collaborate(fed, fed.clients)
    for client, before in zip(fed.clients, local, strict=True):
        assert_same_bits(client.models["previous"].state_dict(), before)
        assert_same_bits(client.models["received"].state_dict(), now)


def test_prototypes_by_hand():
    fed = started("fedproto")
    first = own_prototypes(fed.clients[0], fed.clients[0].model.features)
    assert first[:, 0].tolist() == pytest.approx([3, 8, 0])
    for weighting, expected in (("samples", (5, 4)), ("uniform", (6, 5))):
        fed = started("fedproto", parameters={"prototype_weighting": weighting})
        assert "prototypes" not in fed.clients[0].state  # round 1
        fed.method.aggregate(fed, fed.clients)
        fed.method.collaborate(fed, fed.clients)
        for client in fed.clients:
            known = client.state["prototypes"]
            assert known["means"][:2, 7].tolist() == pytest.approx(expected)
            assert known["owned"].tolist() == [True, True, False]


def test_prototypes_do_not_depend_on_how_images_are_batched():
    whole, small = (started("fedproto", models=["noisy"], eval_batch_size=size)
                    for size in (500, 2))  # fmt: skip
    a, b = (own_prototypes(f.clients[1], f.clients[1].model.eval().features)
            for f in (whole, small))  # fmt: skip
    assert torch.allclose(a, b, atol=1e-6) and a.any()


def test_fedproto_by_hand():
    """Client 0 has 2, 4 (class 0, prototype 5) and 8 (class 1, prototype 4): (9 + 1 + 16) / 3."""
    fed = started("fedproto", parameters={"lambda_": 0.5})
    client = fed.clients[0]
    fill(client.model, 0.0)
    assert local_loss(fed, client) == pytest.approx(math.log(3), rel=1e-6)
    fed.method.aggregate(fed, fed.clients)
    fed.method.collaborate(fed, fed.clients)
    fill(client.model, 0.0)
    expected = math.log(3) + 0.5 * 26 / 3
    assert local_loss(fed, client) == pytest.approx(expected, rel=1e-6)


def test_fedproto_as_in_the_original_leaves_networks_where_they_are():
    options = {"rounds": 1, "parameters": {"average": False, "lambda_": 0.0}}
    assert_same_bits(
        weights_of(played("solo", rounds=1)), weights_of(played("fedproto", **options))
    )
    options = {"models": ["linear", "noisy", "linear"], "parameters": {"average": False}}
    fed = played("fedproto", **options)
    assert {r["name"] for r in fed.history["bytes"]} == {"prototypes"}
    assert fed.history["accuracy"][-1]["matrix"] == [evaluation.row(fed, c) for c in fed.clients]
    with pytest.raises(ModelError, match="fedproto compares features"):
        played("fedproto", models=["linear", "hidden", "linear"], parameters={"average": False})


def test_fedproto_gathers_features():
    def spread(strength):
        fed = played("fedproto", models=["hidden"], rounds=12, lr=0.02,
                     parameters={"lambda_": strength})  # fmt: skip
        client = fed.clients[0]
        h = client.model.features(fed.scenario.normalize(client.data.x)).detach()
        center = losses.class_prototypes(h, client.data.y, num_classes=3)[client.data.y]
        return float(((h - center) ** 2).mean() / h.var())

    assert spread(1.0) < spread(0.0)


def test_fedproc_by_hand():
    """alpha falls from 1 to 0; features (v, v, ...) point the same way: log 2 among two classes."""
    fed = started("fedproc", rounds=3)
    client, seen = fed.clients[0], []
    for round_ in (1, 2, 3):
        fed.begin_round(round_)
        fed.method.collaborate(fed, fed.clients)
        fill(client.model, 0.0)
        seen.append(local_loss(fed, client))
        fed.method.aggregate(fed, fed.clients)
    ce, con = math.log(3), math.log(2)
    assert seen == pytest.approx([ce, 0.5 * con + 0.5 * ce, ce], rel=1e-6)
    fed = started("fedproc", parameters={"schedule": "constant", "alpha": 0.25})
    fed.method.aggregate(fed, fed.clients)
    fed.method.collaborate(fed, fed.clients)
    fill(fed.clients[0].model, 0.0)
    loss = local_loss(fed, fed.clients[0])
    assert loss == pytest.approx(0.25 * con + 0.75 * ce, rel=1e-6)


def test_fedrs_by_hand():
    scenario = by_hand({0: (1, 2, 3, 4), 1: (5,)}, {2: (6, 7)})
    fed = started("fedrs", scenario=scenario, parameters={"alpha": 0.5})
    assert [c.state["scale"].tolist() for c in fed.clients] == [[1, 1, 0.5], [0.5, 0.5, 1]]
    other = started("fedrs", scenario=scenario, parameters={"scale": "continuous"})
    assert [c.state["scale"].tolist() for c in other.clients] == [[1, 0.625, 0.5], [0.5, 0.5, 1]]
    client = fed.clients[0]
    fill(client.model, 0.0)
    client.model.classifier.bias.data = torch.tensor([0.0, 0.0, 2.0])
    expected = math.log(2 + math.e)  # logits 0, 0 and 2 / 2; the class is one of the first two
    assert local_loss(fed, client) == pytest.approx(expected, rel=1e-6)
    assert "class" not in str(fed.history["bytes"])  # which classes it has stays with the client


def test_fedgkd_by_hand():
    """The teacher is the mean of the last global models, and there is none in round 1."""
    fed = started("fedgkd", parameters={"past": 2}, record={"names": ["teacher"]})
    assert not any(c.state["taught"] for c in fed.clients)
    expected = {2: 1.0, 3: 2.0, 4: 4.0}  # of 1; of 1 and 3; of 3 and 5
    for round_, value in zip((1, 2, 3), (1.0, 3.0, 5.0), strict=True):
        for client in fed.clients:
            fill(client.model, value)
        fed.method.aggregate(fed, fed.clients)
        fed.begin_round(round_ + 1)
        fed.method.collaborate(fed, fed.clients)
        for client in fed.clients:
            teacher = client.models["teacher"].classifier.weight
            assert client.state["taught"] and float(teacher[0, 0]) == expected[round_ + 1]
    assert sorted({m.round_ for m in fed.channel.messages}) == [3, 4]  # in round 2 it is received
    assert len(fed.server.state["past"]) == 2
    client = fed.clients[0]
    fill(client.model, 0.0)
    client.models["teacher"].classifier.bias.data = torch.tensor([3.0, 0.0, 0.0])
    client.models["teacher"].classifier.weight.data.fill_(0.0)
    p = torch.tensor([3.0, 0.0, 0.0]).softmax(0)
    kl = float((p * p.log()).sum()) + math.log(3)
    loss = local_loss(fed, client)
    assert loss == pytest.approx(math.log(3) + 0.01 * kl, rel=1e-6)


def test_distillation_from_the_received_network_by_hand():
    fed = started("logit-distillation", parameters={"mu": 0.5, "tau": 2.0})
    client = fed.clients[0]
    fill(client.model, 0.0)
    fill(client.models["received"], 0.0)
    client.models["received"].classifier.bias.data = torch.tensor([3.0, 0.0, 0.0])
    expected = math.log(3) + 0.5 * 4 * math.log(3)  # a cross-entropy with a uniform student
    assert local_loss(fed, client) == pytest.approx(expected, rel=1e-6)

    fed = started("feature-distillation", models=["hidden"], parameters={"mu": 0.5})
    client = fed.clients[0]
    fill(client.model, 0.0)
    fill(client.models["received"], 0.0)
    features = torch.tensor([0.6, 0.2, 0.0, 0.0, 0.0])  # of every image; the student's are 0
    client.models["received"].body[1].bias.data = features.atanh()
    expected = math.log(3) + 0.5 * (0.36 + 0.04) / 5
    assert local_loss(fed, client) == pytest.approx(expected, rel=1e-6)


# ---------------------------------------------------------------------------------- batch norm


@pytest.mark.parametrize("method", ALL)
def test_running_statistics_are_averaged_like_weights(method):
    fed = played(method, models=["noisy"], rounds=2, momentum=0.5, parameters=STRONG.get(method))
    equal = method == "scaffold"
    shares = torch.tensor([1.0 if equal else len(c.data) for c in fed.clients])
    for name in ("running_mean", "running_var"):
        local = torch.stack([getattr(c.model.body[1], name) for c in fed.clients])
        mean = (shares / shares.sum()) @ local
        assert torch.allclose(getattr(fed.server.model.body[1], name), mean, atol=1e-6)
    norm = fed.server.model.body[1]
    assert int(norm.num_batches_tracked) == int(fed.clients[0].model.body[1].num_batches_tracked)


@pytest.mark.parametrize(
    ("method", "roles"),
    [("moon", ("received", "previous")), ("logit-distillation", ("received",)),
     ("feature-distillation", ("received",)), ("fedgkd", ("teacher",)), ("fedcsd", ("teacher",))],
)  # fmt: skip
def test_fixed_networks_keep_their_statistics_and_get_no_gradient(method, roles):
    fed = played(method, models=["noisy"], rounds=2)
    fed.begin_round(3)
    fed.method.collaborate(fed, fed.clients)
    client = fed.clients[0]
    before = {r: {k: v.clone() for k, v in client.models[r].state_dict().items()} for r in roles}
    client.optimizer = None
    x, y = fed.scenario.normalize(client.data.x[:8]), client.data.y[:8]
    fed.method.local_loss(client, x, y).backward()
    for role in roles:
        assert_same_bits(client.models[role].state_dict(), before[role])
        assert all(p.grad is None for p in client.models[role].parameters())
    assert {id(p) for p in client.parameters()} == {id(p) for p in client.model.parameters()}


@pytest.mark.parametrize("method", ["fedproto", "fedproc"])
def test_computing_prototypes_changes_no_statistics(method):
    fed = started(method, models=["noisy"])
    before = {k: v.clone() for k, v in fed.clients[0].model.state_dict().items()}
    fed.method.aggregate(fed, fed.clients)
    assert_same_bits(before, fed.clients[0].model.state_dict())
    assert fed.clients[0].model.training


# -------------------------------------------------------------------------------- what crosses


@pytest.mark.parametrize(
    ("method", "up", "down"),
    [
        ("fednova", {"normalizer": 8}, {}),
        ("scaffold", {"control": 204}, {"control": 204}),
        ("fedavgm", {}, {}),
        ("moon", {}, {}),
        ("fedrs", {}, {}),
        ("logit-distillation", {}, {}),
        ("feature-distillation", {}, {}),
        ("fedgkd", {}, {"teacher": 204}),
        ("fedproto", {"prototypes": 3 * 16 * 4 + 3 * 8}, {"prototypes": 3 * 16 * 4 + 3}),
        ("fedproc", {"prototypes": 3 * 16 * 4 + 3 * 8}, {"prototypes": 3 * 16 * 4 + 3}),
        ("fedcsd", {"prototypes": 36}, {"prototypes": 36, "teacher": 204}),
    ],
)
def test_bytes_by_counting(method, up, down):
    """Round 3, per client: 16 x 3 weights and 3 biases, float32."""
    fed = played(method)
    rows = [r for r in fed.history["bytes"] if r["round"] == 3]
    found = {(r["direction"], r["name"]): r["bytes"] for r in rows}
    expected = {("up", n): b for n, b in up.items()} | {("down", n): b for n, b in down.items()}
    expected |= {("up", "weights"): 204, ("down", "weights"): 204}
    assert found == {key: 3 * value for key, value in expected.items()}
    assert {r["messages"] for r in rows} == {3}


# ----------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("method", "changes", "message"),
    [
        ("fedavgm", {"beta": 1.0}, r"beta = 1\.0"),
        ("fedavgm", {"beta": float("nan")}, "beta = nan"),
        ("moon", {"tau": 0.0}, r"tau = 0\.0"),
        ("fedproto", {"prototype_weighting": "sample"}, "did you mean 'samples'"),
        ("fedproc", {"prototype_weighting": "sample"}, "did you mean 'samples'"),
        ("fedproc", {"schedule": "fall"}, "did you mean 'falling'"),
        ("fedproc", {"alpha": 1.5}, r"alpha = 1\.5"),
        ("fedproc", {"tau": 0.0}, r"tau = 0\.0"),
        ("fedrs", {"scale": "binari"}, "did you mean 'binary'"),
        ("fedrs", {"alpha": -0.1}, r"alpha = -0\.1"),
        ("fedgkd", {"tau": 0.0}, r"tau = 0\.0"),
        ("fedgkd", {"past": 0}, "past = 0"),
        ("logit-distillation", {"tau": 0.0}, r"tau = 0\.0"),
    ],
)
def test_wrong_parameters_are_refused(method, changes, message):
    with pytest.raises(SettingError, match=message):
        make(method, **changes)
