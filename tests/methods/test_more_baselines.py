"""FedDyn, FedAdam, FedYogi, FedBN, FedPer, FedRep, Ditto: plain loops, limits, what crosses."""

import numpy as np
import pytest
import torch
from support.federations import (
    TWO,
    assert_same_bits,
    federation,
    played,
    skewed,
    tiny_scenario,
)
from support.runs import sized

from fedtutor import rounds
from fedtutor.errors import ModelError, SettingError
from fedtutor.methods import make, parameters

ALL = ("feddyn", "fedadam", "fedyogi", "fedbn", "fedper", "fedrep", "ditto")
PARTLY = ("fedbn", "fedper", "fedrep")  # a part of the network stays with the client
BODY, HEAD = "body.1.weight", "classifier.weight"  # of "hidden"
WEIGHTS, CLASSIFIER = 4 * (16 * 5 + 5 + 5 * 3 + 3), 4 * (5 * 3 + 3)  # its bytes


def kept(tensors) -> np.ndarray:
    """All numbers in a row, in float64."""
    return torch.cat([t.detach().double().flatten() for t in tensors]).numpy()


def numbers(network) -> np.ndarray:
    return kept(network.parameters())


def steps(fed, client, *, pull, start: np.ndarray, count: int) -> np.ndarray:
    """`count` steps on all the client's images in float64: softmax regression, gradient + pull(w).

    The gradient of the mean cross-entropy is (softmax(z) - one-hot) x^T / n, in plain NumPy.
    """
    x = fed.scenario.normalize(client.data.x).double().flatten(1).numpy()
    hot = np.eye(3)[client.data.y.numpy()]
    w = start.copy()
    for _ in range(count):
        z = x @ w[:48].reshape(3, 16).T + w[48:]
        p = np.exp(z - z.max(1, keepdims=True))
        error = (p / p.sum(1, keepdims=True) - hot) / len(x)
        slope = np.concatenate([(error.T @ x).ravel(), error.sum(0)])
        w = w - fed.settings.lr * (slope + pull(w))
    return w


WHOLE = {"batch_size": 100, "local_epochs": 3, "lr": 0.1}  # an epoch is a step on all images


# --- FedDyn


@pytest.mark.parametrize("participation", [1.0, 0.5])
def test_feddyn_against_plain_numpy(participation):
    """Losses, g_k, h and the server's step of Algorithm 1, over three rounds."""
    alpha, scenario = 0.3, tiny_scenario(clients=4)
    options = {"parameters": {"alpha": alpha}, "participation": participation, **WHOLE}
    fed = federation("feddyn", scenario=scenario, **options)
    theta = numbers(federation("fedavg", scenario=scenario).make())
    g = {c.id: np.zeros_like(theta) for c in fed.clients}
    h, seen = np.zeros_like(theta), []

    def follow(_):
        nonlocal theta, h
        losses = fed.history["loss"][-1]["values"]
        took_part = [c for c, loss in zip(fed.clients, losses, strict=True) if loss is not None]
        new = {}
        for c in took_part:

            def pull(w, id=c.id):
                return alpha * (w - theta) - g[id]

            new[c.id] = steps(fed, c, pull=pull, start=theta, count=3)
            assert np.allclose(numbers(c.model), new[c.id], atol=1e-5)
        for id, w in new.items():
            g[id] = g[id] - alpha * (w - theta)
        h = h - alpha / 4 * sum(w - theta for w in new.values())
        theta = sum(new.values()) / len(new) - h / alpha
        for c in fed.clients:
            assert np.allclose(kept(c.state["g"]), g[c.id], atol=1e-5)
        assert np.allclose(kept(fed.server.state["h"].values()), h, atol=1e-5)
        assert np.allclose(numbers(fed.server.model), theta, atol=1e-5)
        seen.append(len(took_part))

    rounds.run(fed, on_round=follow)
    assert seen == [4 * participation] * 3 and np.abs(h).max() > 0.01


def test_feddyn_goes_as_far_again_after_its_first_round():
    """h / alpha is minus the mean change, whatever alpha is: no alpha makes it FedAvg."""
    start = numbers(federation().make())
    for alpha in (1e-4, 1.0):
        fed = played("feddyn", parameters={"alpha": alpha}, rounds=1)
        mean = np.mean([numbers(c.model) for c in fed.clients], axis=0)
        assert np.allclose(numbers(fed.server.model), 2 * mean - start, atol=1e-5)
    weak, base = played("feddyn", parameters={"alpha": 1e-8}, rounds=1), played(rounds=1)
    for one, other in zip(weak.clients, base.clients, strict=True):  # clients train as FedAvg's
        assert np.allclose(numbers(one.model), numbers(other.model), atol=1e-6)


# --- FedAdam and FedYogi


@pytest.mark.parametrize("method", ["fedadam", "fedyogi"])
@pytest.mark.parametrize("given", [{}, {"eta": 0.3, "beta_1": 0.5, "beta_2": 0.8, "tau": 0.05}])
def test_the_servers_step_against_a_plain_loop(method, given):
    """Number by number, over three rounds of FedAvg's own changes."""
    fed = federation(method, parameters=given, lr=0.5)
    values = {**parameters(method), **given}
    w = numbers(federation().make()).tolist()
    m, v = [0.0] * len(w), [values["tau"] ** 2] * len(w)
    signs = set()

    def follow(_):
        mean = np.mean([numbers(c.model) for c in fed.clients], axis=0).tolist()
        for j in range(len(w)):
            delta = mean[j] - w[j]
            m[j] = values["beta_1"] * m[j] + (1 - values["beta_1"]) * delta
            if method == "fedadam":
                v[j] = values["beta_2"] * v[j] + (1 - values["beta_2"]) * delta**2
            elif v[j] != delta**2:
                sign = 1 if v[j] > delta**2 else -1
                v[j] -= (1 - values["beta_2"]) * delta**2 * sign
                signs.add(sign)
            w[j] += values["eta"] * m[j] / (v[j] ** 0.5 + values["tau"])
        assert np.allclose(numbers(fed.server.model), w, atol=1e-5)
        assert np.allclose(kept(fed.server.state["m"].values()), m, atol=1e-6)
        assert np.allclose(kept(fed.server.state["v"].values()), v, rtol=1e-3, atol=1e-9)
        w[:] = numbers(fed.server.model).tolist()  # float32 from here on, too

    rounds.run(fed, on_round=follow)
    assert method == "fedadam" or signs == {1, -1}


def test_one_known_change():
    """Everybody moves by 3 from 0: m = 0.3, v = 1e-6 + ..., computed on paper."""
    for method, v in (("fedadam", 0.99e-6 + 0.09), ("fedyogi", 1e-6 + 0.09)):
        fed = federation(method, scenario=TWO, parameters={"eta": 0.5})
        fed.method.start(fed)
        for holder, value in ((fed.server, 0.0), *((client, 3.0) for client in fed.clients)):
            for p in holder.model.parameters():
                p.data.fill_(value)
        fed.method.aggregate(fed, fed.clients)
        assert np.allclose(numbers(fed.server.model), 0.5 * 0.3 / (v**0.5 + 1e-3), rtol=1e-5)


def test_without_memory_and_with_a_large_tau_it_is_fedavg():
    """m is the change, v stays at tau^2, and eta / (sqrt(v) + tau) is 1."""
    given = {"beta_1": 0.0, "beta_2": 1 - 1e-9, "eta": 2e4, "tau": 1e4}
    base = played("fedavg", parameters={"weighting": "uniform"}, models=["hidden"])
    for method in ("fedadam", "fedyogi"):
        fed = played(method, parameters=given, models=["hidden"])
        assert np.allclose(numbers(fed.server.model), numbers(base.server.model), atol=1e-5)


# --- FedBN, FedPer, FedRep


@pytest.mark.parametrize("participation", [1.0, 0.7])
def test_fedbn_without_batch_norm_is_fedavg_bit_for_bit(participation):
    options = {"models": ["hidden"], "momentum": 0.5, "participation": participation}
    options |= {"parameters": {"weighting": "uniform"}}
    base, other = played("fedavg", **options), played("fedbn", **options)
    if participation == 1.0:  # whoever sits out is tested with an older average
        assert base.history["accuracy"] == other.history["accuracy"]
    assert base.history["loss"] == other.history["loss"]
    assert_same_bits(base.server.model.state_dict(), other.server.model.state_dict())


def test_fedbn_leaves_batch_norm_at_home():
    fed = played("fedbn", models=["noisy"], momentum=0.5, record={"names": ["weights"]})
    norm = {f"body.1.{name}" for name in fed.server.model.body[1].state_dict()}
    assert not [m for m in fed.channel.messages if norm & m.payload.keys()]
    states = [c.model.state_dict() for c in fed.clients]
    for name, w in fed.server.model.state_dict().items():
        others = [state[name] for state in states]
        if name not in norm:
            assert all(torch.equal(w, other) for other in others)
        elif name != "body.1.num_batches_tracked":
            assert not any(torch.equal(others[0], other) for other in others[1:])


@pytest.mark.parametrize("network", ["small_mobile", "small_resnet", "small_cnn", "small_mixer"])
def test_fedbn_keeps_each_layer_that_has_running_statistics(network):
    scenario = sized(tiny_scenario(), 16)
    made = federation("fedbn", models=[network], scenario=scenario).make()
    running = {name.rpartition(".")[0] for name, _ in made.named_buffers()}
    names = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    assert make("fedbn").stays(made) == {f"{layer}.{name}" for layer in running for name in names}
    assert bool(running) == (network in ("small_mobile", "small_resnet"))


@pytest.mark.parametrize("method", ["fedper", "fedrep"])
def test_classifiers_stay_at_home(method):
    fed = played(method, models=["hidden"], record={"names": ["weights"]})
    for message in fed.channel.messages:
        assert message.payload and not [n for n in message.payload if n.startswith("classifier")]
    first, *others = [c.model.state_dict() for c in fed.clients]
    for other in others:
        assert torch.equal(first[BODY], other[BODY])
        assert not torch.equal(first[HEAD], other[HEAD])
    assert torch.equal(first[BODY], fed.server.model.state_dict()[BODY])


@pytest.mark.parametrize("method", PARTLY)
def test_what_is_tested_is_the_average_with_the_own_part_or_what_was_just_trained(method):
    options = {"models": ["noisy"], "scenario": skewed(), "rounds": 2, "observe": ["after_local"]}
    own = played(method, lr=0.01, **options)
    after, end = (row["matrix"] for row in own.history["accuracy"][-2:])
    last = played(method, lr=0.01, parameters={"evaluate": "client"}, **options)
    assert [row["matrix"] for row in last.history["accuracy"][-2:]] == [after, after]
    assert after != end and own.history["loss"] == last.history["loss"]
    assert_same_bits(own.server.model.state_dict(), last.server.model.state_dict())


def test_a_download_goes_to_whom_has_an_older_average():
    fed = played("fedbn", models=["hidden"], participation=0.6, rounds=4)
    sent = {(r["round"], r["name"]): r for r in fed.history["bytes"] if r["direction"] == "down"}
    before = set()
    for round_, row in enumerate(fed.history["loss"], start=1):
        now = {k for k, loss in enumerate(row["values"]) if loss is not None}
        assert sent[round_, "average"]["bytes"] == WEIGHTS * len(now)
        assert sent.get((round_, "weights"), {"messages": 0})["messages"] == len(now - before)
        before = now


def test_fedrep_trains_the_classifier_first_and_then_the_features():
    """Four epochs, half of them for each; 24 images in batches of eight are three steps."""
    fed = federation("fedrep", models=["hidden"], local_epochs=4, momentum=0.9, weight_decay=0.1)
    before, moved = {}, []
    usual = fed.method.after_step

    def after_step(client):
        if client.id == "domain0" and fed.round_ == 1:
            now = {n: w.clone() for n, w in client.model.state_dict().items()}
            moved.append({n for n, w in now.items() if not torch.equal(w, before[n])})
            before.update(now)
        usual(client)

    fed.method.after_step = after_step
    before.update({n: w.clone() for n, w in fed.make().state_dict().items()})
    rounds.run(fed)
    head, body = ({f"{part}.{n}" for n in ("weight", "bias")} for part in ("classifier", "body.1"))
    assert moved == [head] * 6 + [body] * 6


@pytest.mark.parametrize(("share", "trained"), [(0.0, {BODY}), (1.0, {HEAD}), (0.5, {BODY, HEAD})])
def test_fedrep_may_train_one_part_alone_and_divides_a_single_epoch(share, trained):
    given = {"head_share": share}
    fed = played("fedrep", models=["hidden"], parameters=given, local_epochs=1)
    fresh = fed.make().state_dict()
    for client in fed.clients:
        own = client.model.state_dict()
        moved = {n for n in (BODY, HEAD) if not torch.allclose(own[n], fresh[n], atol=1e-6)}
        assert moved == trained


# --- Ditto


def test_ditto_against_plain_numpy():
    """The own network is pulled to what was received in the round; the global one is FedAvg's."""
    fed = federation("ditto", parameters={"lambda_": 0.7}, **WHOLE)
    base = federation("fedavg", **WHOLE)
    w = numbers(base.make())
    v = {c.id: w for c in fed.clients}

    def follow(_):
        nonlocal w
        for c in fed.clients:
            v[c.id] = steps(fed, c, pull=lambda own: 0.7 * (own - w), start=v[c.id], count=3)
            assert np.allclose(numbers(c.model), v[c.id], atol=1e-5)
        w = numbers(fed.server.model)

    rounds.run(fed, on_round=follow)
    rounds.run(base)
    assert_same_bits(base.server.model.state_dict(), fed.server.model.state_dict())
    for c, other in zip(fed.clients, base.clients, strict=True):
        assert_same_bits(c.models["global"].state_dict(), other.model.state_dict())


def test_ditto_without_a_pull_is_training_alone_bit_for_bit():
    options = {"models": ["hidden"], "momentum": 0.9}
    alone = played("solo", **options)
    fed = played("ditto", parameters={"lambda_": 0.0}, **options)
    assert fed.history["accuracy"] == alone.history["accuracy"]
    for c, other in zip(fed.clients, alone.clients, strict=True):
        assert_same_bits(c.model.state_dict(), other.model.state_dict())


def test_ditto_may_be_tested_with_its_global_network():
    ditto = played("ditto", models=["hidden"], parameters={"evaluate": "server"})
    assert ditto.history["accuracy"] == played(models=["hidden"]).history["accuracy"]


# --- what crosses, and bad input


@pytest.mark.parametrize("method", ALL)
def test_bytes_by_counting(method):
    """FedAvg's, less what stays; where rounds end with a download, only round 1 begins with one."""
    bytes_ = WEIGHTS - CLASSIFIER * (method in ("fedper", "fedrep"))
    for evaluate in ("client", "server"):
        fed = played(method, models=["hidden"], parameters={"evaluate": evaluate})
        late = evaluate == "server" and method in PARTLY
        down = [(1, "weights"), *((r, "average") for r in (1, 2, 3))]
        down = down if late else [(r, "weights") for r in (1, 2, 3)]
        wanted = {(r, "down", name) for r, name in down} | {(r, "up", "weights") for r in (1, 2, 3)}
        rows = {(r["round"], r["direction"], r["name"]): r for r in fed.history["bytes"]}
        assert rows.keys() - {(1, "up", "number of images")} == wanted
        assert {(rows[key]["bytes"], rows[key]["messages"]) for key in wanted} == {(3 * bytes_, 3)}


@pytest.mark.parametrize("method", ALL)
def test_networks_that_cannot_be_averaged_are_refused(method):
    with pytest.raises(ModelError, match=f"{method} averages weights"):
        played(method, models=["linear", "noisy", "linear"])
    if method in ("fedper", "fedrep"):  # of softmax regression
        with pytest.raises(ModelError, match=f"{method} leaves nothing"):
            played(method)


@pytest.mark.parametrize("method", ALL)
def test_one_client_alone_and_clients_that_sit_out(method):
    played(method, models=["hidden"], scenario=tiny_scenario(clients=1), rounds=3)
    fed = played(method, models=["hidden"], participation=0.6, rounds=6)
    assert {sum(v is not None for v in row["values"]) for row in fed.history["loss"]} == {2}


@pytest.mark.parametrize(
    ("method", "changes", "message"),
    [
        ("feddyn", {"alpha": 0.0}, r"alpha = 0\.0"),
        ("feddyn", {"weighting": "samples"}, "uniform"),
        ("fedadam", {"beta_2": 1.0}, r"beta_2 = 1\.0"),
        ("fedyogi", {"tau": 0.0}, r"tau = 0\.0"),
        ("fedrep", {"head_share": 1.5}, r"head_share = 1\.5"),
        ("ditto", {"lambda_": -1.0}, r"lambda_ = -1\.0"),
        ("fedbn", {"evaluate": "clients"}, "did you mean 'client'"),
    ],
)
def test_wrong_parameters_are_refused(method, changes, message):
    with pytest.raises(SettingError, match=message):
        make(method, **changes)
