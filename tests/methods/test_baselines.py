"""solo, central, fedavg, fedprox: limits, hand-computed numbers, golden numbers."""

from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
import pytest
import torch
from pydantic import Field
from support.federations import (
    assert_same_bits,
    federation,
    images,
    played,
    tiny_scenario,
    weights_of,
)
from support.golden_federation import golden_federation
from support.loops import GOLDEN

from fedtutor import evaluation, losses
from fedtutor.errors import SettingError
from fedtutor.images import Images
from fedtutor.measures import weight_distance
from fedtutor.methods import Method, make, parameters, register
from fedtutor.methods.fedavg import average
from fedtutor.methods.fedprox import FedProx
from fedtutor.scenarios.base import ClientData

# The contract's table


def test_unknown_method_and_parameter():
    with pytest.raises(SettingError, match="did you mean 'fedavg'"):
        make("fedavgg")
    with pytest.raises(SettingError, match="did you mean 'mu'"):
        make("fedprox", mmu=0.1)


@pytest.mark.parametrize("value", ["0.1", None, True, [0.1]])
def test_a_parameter_of_the_wrong_type_is_refused(value):
    with pytest.raises(SettingError, match="mu = "):
        make("fedprox", mu=value)


def test_whole_numbers_stand_for_fractions():
    assert make("fedprox", mu=0).mu == 0


def test_wrong_choices_are_refused():
    with pytest.raises(SettingError, match="weighting"):
        make("fedavg", weighting="sample")
    with pytest.raises(SettingError, match="evaluate"):
        make("fedavg", evaluate="servr")


def test_a_class_that_is_no_method_is_refused():
    with pytest.raises(SettingError, match="not a method"):
        register("wrong")(object)


def test_a_parameter_needs_a_default():
    with pytest.raises(SettingError, match="'mu' of 'mine' has no default"):

        @register("mine")
        @dataclass
        class Mine(Method):
            mu: float


def test_a_readers_method_joins_the_table(own_tables):
    @register("mine")
    @dataclass
    class Mine(Method):
        strength: float = 1.0

        def local_loss(self, client, x, y):
            return self.strength * super().local_loss(client, x, y)

    assert parameters("mine") == {"strength": 1.0}
    assert make("mine", strength=2.0).strength == 2.0


# Averaging


def test_average_by_hand():
    states = [
        {"w": torch.tensor([1.0, 2.0]), "steps": torch.tensor(4)},
        {"w": torch.tensor([5.0, 10.0]), "steps": torch.tensor(9)},
    ]
    mean = average(states, [3, 1])
    assert mean["w"].tolist() == [2.0, 4.0]
    assert mean["steps"] == 4
    assert states[0]["w"].tolist() == [1.0, 2.0]  # untouched


def test_fedavg_weights_clients_by_images_or_equally():
    scenario = tiny_scenario(clients=2, count=8)
    scenario = replace(scenario, clients=(
        ClientData("a", "domain0", images(8, seed=1)),
        ClientData("b", "domain1", images(24, seed=2)),
    ))  # fmt: skip
    for weighting, shares in (("samples", (0.25, 0.75)), ("uniform", (0.5, 0.5))):
        fed = played(scenario=scenario, rounds=1, parameters={"weighting": weighting})
        local = [c.model.classifier.weight for c in fed.clients]
        expected = shares[0] * local[0] + shares[1] * local[1]
        assert torch.allclose(fed.server.model.classifier.weight, expected, atol=1e-7)


def test_batch_norm_statistics_are_averaged_too():
    fed = played(models=["noisy"], rounds=1)
    shares = torch.tensor([float(len(c.data)) for c in fed.clients])
    local = torch.stack([c.model.body[1].running_mean for c in fed.clients])
    expected = (shares / shares.sum()) @ local
    assert torch.allclose(fed.server.model.body[1].running_mean, expected, atol=1e-6)


def test_one_client_and_one_local_step_is_centralized_sgd():
    scenario = tiny_scenario(clients=1, count=24)
    fed = played(scenario=scenario, rounds=6, local_epochs=1, batch_size=100)
    start = federation(scenario=scenario)
    w = start.clients[0].model.classifier.weight.detach().double()
    b = start.clients[0].model.classifier.bias.detach().double()
    data = scenario.clients[0].private
    x = scenario.normalize(data.x).flatten(1).double()
    for _ in range(6):
        p = torch.softmax(x @ w.T + b, 1)
        p[torch.arange(len(p)), data.y] -= 1
        w, b = w - 0.05 * p.T @ x / len(x), b - 0.05 * p.mean(0)
    assert torch.allclose(fed.server.model.classifier.weight.double(), w, atol=1e-6)
    assert torch.allclose(fed.server.model.classifier.bias.double(), b, atol=1e-6)


def test_central_is_solo_on_the_union():
    scenario = tiny_scenario()
    union = Images(
        torch.cat([c.private.x for c in scenario.clients]),
        torch.cat([c.private.y for c in scenario.clients]), source="union",
    )  # fmt: skip
    alone = replace(scenario, clients=(ClientData("domain0", "domain0", union),))
    assert torch.equal(
        played("central", scenario=scenario).clients[0].model.classifier.weight,
        played("solo", scenario=alone).clients[0].model.classifier.weight,
    )


def test_bytes_of_each_method_by_counting():
    weights = (16 * 3 + 3) * 4
    for method, up, down in (("solo", 0, 0), ("fedavg", 3 * weights, 3 * weights)):
        fed = played(method, rounds=2)
        table = [row for row in fed.history["bytes"] if row["name"] == "weights"]
        for direction, expected in (("up", up), ("down", down)):
            measured = [r["bytes"] for r in table if r["direction"] == direction]
            assert measured == ([expected] * 2 if expected else [])
    counts = [r for r in played("fedavg").history["bytes"] if r["name"] == "number of images"]
    assert counts == [{"round": 1, "direction": "up", "name": "number of images", "bytes": 24,
                       "messages": 3}]  # once, and not for equal shares  # fmt: skip
    equal = played("fedavg", parameters={"weighting": "uniform"}).history["bytes"]
    assert {row["name"] for row in equal} == {"weights"}
    sent = played("central").history["bytes"]
    others = sum(len(c.private) for c in tiny_scenario().clients[1:])
    assert sent == [{"round": 0, "direction": "up", "name": "images", "messages": 2,
                     "bytes": others * (16 + 8)}]  # fmt: skip


def test_fedavg_can_be_evaluated_after_local_training():
    server, client = played(), played(parameters={"evaluate": "client"})
    assert_same_bits(weights_of(server), weights_of(client))
    last = client.history["accuracy"][-1]["matrix"]
    expected = [evaluation.row(client, c) for c in client.clients]
    assert last == expected
    assert (
        server.history["accuracy"][-1]["matrix"][0] == server.history["accuracy"][-1]["matrix"][1]
    )


# FedProx


def test_proximal_term_against_a_plain_loop():
    own = torch.Generator().manual_seed(0)
    w = [torch.randn(4, 3, generator=own, dtype=torch.float64).requires_grad_(),
         torch.randn(3, generator=own, dtype=torch.float64).requires_grad_()]  # fmt: skip
    w_global = [torch.randn(t.shape, generator=own, dtype=torch.float64) for t in w]
    term = losses.proximal_term(w, w_global, mu=0.7)
    total = 0.0
    for a, b in zip(w, w_global, strict=True):
        for i, j in zip(a.flatten().tolist(), b.flatten().tolist(), strict=True):
            total += (i - j) ** 2
    assert float(term.detach()) == pytest.approx(0.7 / 2 * total, rel=1e-12)
    term.backward()
    for a, b in zip(w, w_global, strict=True):
        assert torch.allclose(a.grad, 0.7 * (a.detach() - b), rtol=1e-12)


def test_cross_entropy_limits():
    assert float(losses.cross_entropy(torch.zeros(5, 10), torch.arange(5))) == pytest.approx(
        np.log(10), rel=1e-6
    )


@pytest.mark.parametrize("network", ["linear", "noisy"])
def test_fedprox_with_mu_0_is_fedavg_bit_for_bit(network):
    prox = weights_of(played("fedprox", parameters={"mu": 0.0}, models=[network]))
    assert_same_bits(prox, weights_of(played("fedavg", models=[network])))


def test_a_strong_pull_keeps_clients_near_the_global_weights():
    def moved(mu):
        fed = played("fedprox", parameters={"mu": mu}, rounds=1)
        client = fed.clients[0]
        return weight_distance(
            {"w": client.model.classifier.weight}, {"w": client.state["w_global"][0]}
        )

    assert moved(10.0) < 0.6 * moved(0.0)


# Golden numbers: softmax regression, three clients, two epochs, batches visited in order


@pytest.mark.parametrize("rho", ["0", "0.9"])
@pytest.mark.parametrize("method", ["fedavg", "fedprox"])
def test_golden_federation(rho, method, monkeypatch):
    golden = np.load(GOLDEN / f"toy_federation_rho{rho}.npz")
    built = make(method, **({"mu": float(golden["fedprox_mu"])} if method == "fedprox" else {}))
    fed = golden_federation(golden, built, monkeypatch)
    for k, client in enumerate(fed.clients):
        assert np.allclose(
            client.model.linear.weight.detach(), golden[f"{method}_W_local"][k], rtol=1e-6
        )
    assert np.allclose(
        fed.server.model.linear.weight.detach(), golden[f"{method}_W_global"], rtol=1e-6
    )
    assert np.allclose(
        fed.server.model.linear.bias.detach(), golden[f"{method}_b_global"], rtol=1e-6
    )


def test_gathering_all_images_twice_gathers_them_once():
    fed = federation("central")
    fed.begin()
    x = fed.clients[0].data.x
    fed.begin()
    assert torch.equal(fed.clients[0].data.x, x)


def test_an_annotation_holds_for_a_class_that_extends_until_it_says_another(own_tables):
    @register("mine")
    @dataclass
    class Mine(FedProx):
        mu: Annotated[float, Field(ge=0, lt=1)] = 0.5
        pull: Literal["soft", "hard"] = "soft"
        start_from: Literal["server"] = "server"

        def __post_init__(self):
            """Even where it does not call the one above."""

    for wrong, said in (
        ({"mu": -1.0}, "greater than or equal to 0"),
        ({"mu": 1.0}, "less than 1"),
        ({"pull": "sof"}, "did you mean 'soft'"),
        ({"weighting": "sample"}, "did you mean 'samples'"),
        ({"start_from": "client"}, "choose one of: server"),
    ):
        with pytest.raises(SettingError, match=said):
            make("mine", **wrong)
    assert make("mine", mu=0, pull="hard").mu == 0.0 and make("fedprox", mu=2).mu == 2
    assert list(parameters("mine"))[:3] == ["weighting", "evaluate", "start_from"]
