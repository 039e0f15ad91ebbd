"""RepShare and FD: what is sent, drawn and learned, by hand; limits; privacy; equal bits."""

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from support.federations import (
    TWO,
    assert_same_bits,
    by_hand,
    federation,
    played,
    tiny_scenario,
    weights_of,
)
from support.loops import close, cross_entropy_loop, discriminator_loop, to_means_loop
from support.runs import resumed

from fedtutor import losses
from fedtutor.errors import DivergenceError, ModelError, SettingError
from fedtutor.methods import make
from fedtutor.methods.repshare import READINGS, TOPOLOGIES
from fedtutor.methods.shared.first_round import FIRST
from fedtutor.methods.shared.observations import DRAWS
from fedtutor.scenarios.base import Scenario

FD_AS_BASELINE = {"loss": "mse", "exclude_self": False, "weighting": "samples", "lambda_": 10.0}
VARIANTS = [
    ("repshare", {}),
    (
        "repshare",
        {
            "reading": "code",
            "first": "networks",
            "draw": "client",
            "m_up": 2,
            "m_down": 3,
            "n_avg": 2,
            "exclude_self": False,
        },
    ),
    ("repshare", {"topology": "peer", "m_down": 2, "reading": "code"}),
    ("repshare", {"clip": 1.0, "noise": 0.5, "levels": [1.0, 0.25], "reading": "code"}),
    ("fd", {}),
    ("fd", FD_AS_BASELINE),
]
OPTIONS = {"models": ["noisy"], "rounds": 4, "lr": 0.01, "common_init": False}


THREE = by_hand({0: (2, 4), 1: (8,)}, {0: (9,), 1: (1, 3)}, {1: (5, 6), 2: (7,)})


def started(method="repshare", *, scenario=TWO, share=True, **parameters):
    """Networks of round 0 have been shared (`share`), and round 1 has collaborated."""
    if method == "repshare":
        parameters = {"first": "nothing", **parameters}
    fed = federation(method, scenario=scenario, parameters=parameters)
    fed.method.start(fed)
    if share:
        fed.method.aggregate(fed, fed.clients)
    fed.begin_round(1)
    fed.method.collaborate(fed, fed.clients)
    return fed


def received(fed, index=0) -> dict:
    return fed.clients[index].state["received"]


def values(rows: torch.Tensor) -> list:
    """The value of each row of equal features."""
    assert torch.equal(rows, rows[..., :1].expand_as(rows))
    return (rows[..., 0].double().round(decimals=4) + 0.0).tolist()


def bytes_of(fed, round_=None) -> dict:
    """(direction, name) -> (bytes, messages), of one round or of all."""
    found = {}
    for row in fed.channel.table():
        if round_ in (None, row["round"]):
            old = found.get((row["direction"], row["name"]), (0, 0))
            found[row["direction"], row["name"]] = (old[0] + row["bytes"], old[1] + row["messages"])
    return found


# --------------------------------------------------------------------------- what is exchanged


@pytest.mark.parametrize("weighting", ["samples", "uniform"])
def test_the_global_means_by_hand(weighting):
    """Class 0: 2, 4 and 9; class 1: 8 and 1, 3; class 2: nobody."""
    fed = started(weighting=weighting)
    expected = {"samples": [5.0, 4.0, 0.0], "uniform": [6.0, 5.0, 0.0]}[weighting]
    for k in range(2):
        close(values(received(fed, k)["means"]), expected, 1e-6)
        assert received(fed, k)["owned"].tolist() == [True, True, False]


def test_observations_are_means_of_n_avg_images_drawn_without_replacement():
    scenario = by_hand({0: (1, 2, 4, 8, 16), 1: (32,)}, {2: (5,)})
    seen = set()
    for seed in range(12):
        fed = federation(
            "repshare", scenario=scenario, seed=seed, parameters={"n_avg": 2, "m_up": 2}
        )
        fed.method.start(fed)
        fed.method.aggregate(fed, fed.clients)
        sent = fed.server.state["observations"]["c0"]
        assert sent["observations"].shape == (2, 3, 16)
        assert sent["owned"].tolist() == [True, True, False]
        for row in sent["observations"]:
            two, one, none = values(row)
            seen.add(round(2 * two))
            assert (one, none) == (32.0, 0.0)  # all images where there are fewer
    sums = {a + b for a in (1, 2, 4, 8, 16) for b in (1, 2, 4, 8, 16) if a < b}
    assert seen <= sums and len(seen) > 5


SHOWN = [(3.0, 8.0, 0.0), (9.0, 2.0, 0.0), (0.0, 5.5, 7.0)]  # by the clients of THREE


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("exclude_self", [True, False])
def test_every_client_gets_one_observation_per_class_of_somebody(draw, exclude_self):
    """Of "client" all classes of one client; of "classes" every class of one who has it."""
    own = {"draw": draw, "exclude_self": exclude_self, "first": "networks"}
    got = {k: set() for k in range(3)}
    for seed in range(24):
        fed = federation("repshare", scenario=THREE, seed=seed, parameters=own)
        fed.method.start(fed)
        fed.begin_round(1)
        fed.method.collaborate(fed, fed.clients)
        for k in range(3):
            observed, known = received(fed, k)["observed"], received(fed, k)["known"]
            assert observed.shape == (1, 3, 16) and known.shape == (1, 3)
            row = values(observed[0])
            assert known[0].tolist() == [value > 0 for value in row]
            got[k].add(tuple(row))
    for k in range(3):
        others = [row for j, row in enumerate(SHOWN) if not (exclude_self and j == k)]
        if draw == "classes":
            each = [{row[c] for row in others if row[c]} or {0.0} for c in range(3)]
            others = itertools.product(*each)
        assert got[k] == set(others)


def test_by_default_an_observation_is_all_of_another_client():
    """Section 4; the other readings are named options."""
    method = make("repshare")
    assert (method.exclude_self, method.draw, method.weighting) == (True, "client", "samples")


def test_several_observations_come_without_replacement_and_then_again():
    for m_down, draw in ((3, "classes"), (3, "client"), (2, "classes")):
        fed = started(scenario=THREE, m_down=m_down, draw=draw, exclude_self=False)
        observed, known = received(fed)["observed"], received(fed)["known"]
        ones = [row[1] for row in values(observed)]
        assert len(set(ones)) == m_down and set(ones) <= {8.0, 2.0, 5.5}
        if draw == "classes":
            assert known.all() and [row[2] for row in values(observed)] == [7.0] * m_down
            assert {row[0] for row in values(observed)} == {3.0, 9.0}
        else:
            assert known.sum(0).tolist() == [2, 3, 1]


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_client_can_leave_its_own_observations_out(topology):
    for seed in range(8):
        fed = federation(
            "repshare",
            scenario=TWO,
            seed=seed,
            parameters={"exclude_self": True, "topology": topology, "first": "networks"},
        )
        fed.method.start(fed)
        fed.begin_round(1)
        fed.method.collaborate(fed, fed.clients)
        assert values(received(fed, 0)["observed"]) == [[9.0, 2.0, 0.0]]
        assert values(received(fed, 1)["observed"]) == [[3.0, 8.0, 0.0]]
        assert received(fed, 0)["known"].tolist() == [[True, True, False]]


def test_peers_send_to_each_other_and_average_what_arrives():
    algorithm_1 = {"exclude_self": False, "draw": "classes"}
    fed = started(scenario=THREE, topology="peer", m_down=3, **algorithm_1)
    for k in range(3):
        got = received(fed, k)
        close(
            values(got["means"]),
            [torch.tensor([row[c] for row in values(got["observed"])]).mean() for c in range(3)],
            1e-4,
        )
        assert got["owned"].all()
    sent = bytes_of(fed)
    assert sent.keys() == {("peer", "observations"), ("up", "classes")}
    assert sent["up", "classes"] == (3 * 3, 3)  # once, for the directory
    assert fed.server.state.keys() == {"classes"}
    held = ((3.0, 8.0), (9.0, 2.0), (5.5, 7.0))
    foreign = [
        v
        for k in range(3)
        for row in values(received(fed, k)["observed"])
        for v in row
        if v not in held[k]
    ]
    assert sent["peer", "observations"][0] == len(foreign) * 16 * 4  # one's own do not cross


@pytest.mark.parametrize("m", [(1, 1), (2, 3)])
def test_bytes_are_those_of_the_paper(m):
    """Up (M_up + 1) C d', down (M_down + 1) C d' numbers per client, whatever the network."""
    up, down = m
    fed = played("repshare", parameters={"m_up": up, "m_down": down}, models=["hidden"], rounds=3)
    c, d, clients = 3, 5, 3
    for round_ in (2, 3):
        sent = bytes_of(fed, round_)
        assert sent["up", "means"] == (clients * c * d * 4, clients)
        assert sent["up", "observations"] == (clients * (up * c * d * 4 + c), clients)  # + owned
        assert sent["down", "global means"] == (clients * (c * d * 4 + c), clients)
        assert sent["down", "observations"] == (clients * (down * c * d * 4 + down * c), clients)
        assert len(sent) == 4
    assert bytes_of(fed, 1)["up", "images per class"] == (clients * c * 4, clients)  # once


def test_nothing_is_sent_that_no_term_needs():
    names = {name for _, name in bytes_of(started(lambda_disc=0.0))}
    assert names == {"means", "images per class", "global means"}
    assert {name for _, name in bytes_of(started(lambda_kd=0.0))} == {"observations"}
    assert bytes_of(started(lambda_kd=0.0, lambda_disc=0.0)) == {}


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_round_1_starts_as_the_option_says(topology):
    random = started(share=False, first="random", topology=topology, m_up=2, m_down=2)
    observed = received(random)["observed"]
    assert observed.abs().max() <= 1 and observed.std() > 0.3
    assert received(random)["known"].all() and received(random)["owned"].all()
    assert torch.equal(*[received(random, k)["means"] for k in (0, 1)]) or topology == "peer"
    nothing = started(share=False, first="nothing", topology=topology)
    assert received(nothing) == {}
    networks = started(share=False, first="networks", topology=topology)
    assert set(values(networks.clients[0].state["received"]["observed"])[0]) <= {3, 9, 8, 2, 0}
    assert {*FIRST} == {"random", "nothing", "networks"}


def test_random_vectors_are_gone_after_round_1():
    fed = played("repshare", rounds=1, models=["hidden"], participation=0.5)
    trained = {c.id for c in fed.clients if c.steps}
    assert fed.server.state["observations"].keys() == fed.server.state["means"].keys() == trained
    assert len(trained) == 2 and "random" not in fed.server.state


def test_whoever_sits_out_is_represented_by_what_it_sent_last():
    fed = started(scenario=THREE)
    fed.method.aggregate(fed, fed.clients[:1])
    fed.begin_round(2)
    before = bytes_of(fed)
    fed.method.collaborate(fed, fed.clients[1:])
    close(values(received(fed, 1)["means"]), [5.0, 23 / 5, 7.0], 1e-6)
    after = bytes_of(fed)
    assert after["down", "observations"][1] == before["down", "observations"][1] + 2
    played("repshare", participation=0.4, models=["hidden"], rounds=4)  # two of three clients
    peers = played(
        "repshare",
        participation=0.4,
        models=["hidden"],
        rounds=4,
        parameters={"topology": "peer", "exclude_self": True},
    )
    assert all(math.isfinite(v) for row in peers.history["loss"] for v in row["values"] if v)


# ------------------------------------------------------------------------------- the local loss


def loss_by_loops(fed, client, m: int = 0) -> float:
    """Algorithm 2 for all images of the client, in the reading of the method."""
    network, data, got = client.model, client.data, client.state["received"]
    h = network.features(fed.scenario.normalize(data.x)).detach().double()
    w, b = (p.detach().double() for p in network.classifier.parameters())
    z, z_observed = h @ w.T + b, got["observed"][m].double() @ w.T + b
    kd = 0.0
    if "means" in got:
        kd = to_means_loop(h, data.y, got["means"].double(), got["owned"])
    disc = discriminator_loop(z, data.y, z_observed, got["known"][m])
    if fed.method.reading == "code":
        kd, disc = kd / h.shape[1], disc / z.shape[1]
    total = cross_entropy_loop(z, data.y)
    return total + fed.method.lambda_kd * kd + fed.method.lambda_disc * disc


def dim(scenario: Scenario) -> Scenario:
    """The same with pixels of 0 to 0.04, so that no classifier is certain."""
    return replace(scenario, std=(1.0,))


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_the_local_loss_by_hand(reading, topology):
    fed = started(
        scenario=dim(TWO), reading=reading, topology=topology, lambda_kd=0.7, lambda_disc=0.3
    )
    for client in fed.clients:
        x, y = fed.scenario.normalize(client.data.x), client.data.y
        loss = fed.method.local_loss(client, x, y).item()
        assert loss == pytest.approx(loss_by_loops(fed, client), rel=1e-5)


def test_every_image_meets_one_of_the_observations():
    fed = started(scenario=dim(THREE), m_down=3, exclude_self=False, lambda_kd=0.0)
    client = fed.clients[0]
    x, y = fed.scenario.normalize(client.data.x), client.data.y
    with torch.no_grad():
        z = client.model(x)
        z_observed = client.model.classifier(client.state["received"]["observed"])
    known = client.state["received"]["known"]
    own = [
        [
            losses.discriminator_loss(z[i : i + 1], y[i : i + 1], z_observed[m], known[m]).item()
            for m in range(3)
        ]
        for i in range(len(y))
    ]
    ce, possible = losses.cross_entropy(z, y).item(), set()
    for a in own[0]:
        for b in own[1]:
            possible |= {round(ce + (a + b + c) / 3, 4) for c in own[2]}
    seen = {round(fed.method.local_loss(client, x, y).item(), 4) for _ in range(40)}
    assert seen <= possible and len(seen) > 4


def test_the_gradient_passes_through_both_arguments_of_the_discriminator():
    fed = started(scenario=dim(TWO), lambda_kd=0.0)
    client = fed.clients[0]
    x, y = fed.scenario.normalize(client.data.x), client.data.y
    bias = client.model.classifier.bias
    given = torch.autograd.grad(fed.method.local_loss(client, x, y), bias)[0]
    step, slopes = 1e-2, []
    for c in range(3):
        values_ = []
        for sign in (1, -1):
            bias.data[c] += sign * step
            values_.append(loss_by_loops(fed, client))
            bias.data[c] -= sign * step
        slopes.append((values_[0] - values_[1]) / 2 / step)
    close(given, slopes, 1e-3)


def test_absent_classes_add_nothing():
    scenario = by_hand({0: (2, 4), 1: (8,), 2: (6,)}, {0: (9,), 1: (1, 3)})
    fed = started(scenario=dim(scenario), exclude_self=True)
    got = received(fed)
    assert got["known"].tolist() == [[True, True, False]] and got["owned"].all()
    client = fed.clients[0]
    x, y = fed.scenario.normalize(client.data.x), client.data.y
    before = fed.method.local_loss(client, x, y).item()
    got["observed"][:, 2] = 1e3
    assert fed.method.local_loss(client, x, y).item() == before
    assert before == pytest.approx(loss_by_loops(fed, client), rel=1e-5)


# ------------------------------------------------------------------------------------------- FD


def fd_loss_of(fed, client) -> float:
    x, y = fed.scenario.normalize(client.data.x), client.data.y
    return fed.method.local_loss(client, x, y).item()


def outputs_of(fed) -> list[dict]:
    """Per client: class -> list of logits, in float64."""
    found = []
    for client in fed.clients:
        w, b = (p.detach().double() for p in client.model.classifier.parameters())
        rows = {}
        h = fed.scenario.normalize(client.data.x).flatten(1).double()
        for z, y in zip(h @ w.T + b, client.data.y.tolist(), strict=True):
            rows.setdefault(y, []).append(z)
        found.append(rows)
    return found


@pytest.mark.parametrize("weighting", ["samples", "uniform"])
@pytest.mark.parametrize("exclude_self", [True, False])
@pytest.mark.parametrize("loss", ["cross-entropy", "mse"])
def test_the_loss_of_fd_by_hand(loss, exclude_self, weighting):
    fed = started(
        "fd",
        scenario=dim(THREE),
        loss=loss,
        exclude_self=exclude_self,
        weighting=weighting,
        lambda_=0.5,
    )
    found = outputs_of(fed)
    for k, client in enumerate(fed.clients):
        pull, ce, count = 0.0, 0.0, len(client.data)
        for c, own in found[k].items():
            means, weights = [], []
            for j, rows in enumerate(found):
                if c in rows and not (exclude_self and j == k):
                    shown = [z.softmax(0) if loss == "cross-entropy" else z for z in rows[c]]
                    means.append(sum(shown) / len(shown))
                    weights.append(len(shown) if weighting == "samples" else 1)
            for z in own:
                ce -= float(z.log_softmax(0)[c]) / count
                if means:
                    mean = sum(m * w for m, w in zip(means, weights, strict=True)) / sum(weights)
                    pull += (
                        float(
                            -(mean * z.log_softmax(0)).sum()
                            if loss == "cross-entropy"
                            else ((z - mean) ** 2).mean()
                        )
                        / count
                    )
        assert fd_loss_of(fed, client) == pytest.approx(ce + 0.5 * pull, rel=1e-5)


def test_fd_sends_one_vector_of_outputs_per_class():
    fed = played("fd", rounds=3)
    assert bytes_of(fed, 1).keys() == {("up", "means"), ("up", "classes")}
    assert bytes_of(fed, 3) == {("up", "means"): (3 * 9 * 4, 3), ("down", "means"): (3 * 39, 3)}
    baseline = played("fd", rounds=2, parameters=FD_AS_BASELINE)
    assert ("up", "images per class") in bytes_of(baseline, 1)


def test_fd_works_between_networks_of_any_kind():
    fed = played("fd", models=["linear", "hidden", "noisy"])
    assert len(fed.server.state["means"]) == 3


# -------------------------------------------------------------------------------------- limits


@pytest.mark.parametrize(
    ("method", "off"),
    [
        ("repshare", {"lambda_kd": 0.0, "lambda_disc": 0.0}),
        ("fd", {"lambda_": 0.0}),
    ],
)
def test_weights_of_0_are_training_alone(method, off):
    """Bit for bit, running statistics of batch norm included."""
    own = played(method, parameters=off, **OPTIONS)
    assert_same_bits(weights_of(own), weights_of(played("solo", **OPTIONS)))


@pytest.mark.parametrize(("method", "parameters"), VARIANTS)
def test_running_statistics_stay_at_home(method, parameters):
    """Computing what is shared leaves networks, their mode and their statistics as they are."""
    fed = federation(method, parameters=parameters, models=["noisy"], common_init=False)
    fed.method.start(fed)
    fed.begin_round(1)
    before = {name: w.clone() for name, w in weights_of(fed).items()}
    fed.method.collaborate(fed, fed.clients)
    fed.method.aggregate(fed, fed.clients)
    assert_same_bits(before, weights_of(fed))
    assert all(m.training for c in fed.clients for m in c.model.modules())


@pytest.mark.parametrize("parameters", [{}, {"reading": "code"}])
def test_features_of_a_class_come_together(parameters):
    """Between-client distance of class means, against training alone."""

    def apart(method, own):
        fed = played(method, parameters=own, models=["hidden"], rounds=12, common_init=False)
        fed.method = make("repshare")
        for c in fed.clients:
            c.state |= {"levels": torch.ones(len(c.data)), "releases": 0}
        fed.ask(fed.clients, fed.method.average_features)
        means = torch.stack([c.held["means"] for c in fed.clients])
        return float((means - means.mean(0)).norm())

    assert apart("repshare", parameters) < 0.5 * apart("solo", {})


def test_different_networks_need_equally_many_features():
    played("repshare", models=["linear", "noisy", "linear"])
    with pytest.raises(ModelError, match="compares features"):
        played("repshare", models=["linear", "hidden", "linear"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reading": "papr"}, "did you mean 'paper'"),
        ({"draw": "clients"}, "did you mean 'client'"),
        ({"topology": "peers"}, "did you mean 'peer'"),
        ({"first": "randon"}, "did you mean 'random'"),
        ({"weighting": "sample"}, "did you mean 'samples'"),
        ({"n_avg": 0}, "n_avg = 0"),
        ({"m_up": 0}, "m_up = 0"),
        ({"m_down": -1}, "m_down = -1"),
        ({"lambda_kd": -1.0}, r"lambda_kd = -1\.0"),
        ({"lambda_disc": math.nan}, "lambda_disc = nan"),
        ({"noise": 1.0}, "noise needs a clip"),
        ({"clip": -1.0}, r"clip = -1\.0"),
        ({"levels": []}, r"levels = \[\]"),
        ({"levels": [1.5]}, r"levels = \[1\.5\]"),
        ({"levels": ["1"]}, "levels"),
    ],
)
def test_wrong_parameters_are_refused(changes, message):
    with pytest.raises(SettingError, match=message):
        make("repshare", **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": "mae"}, "did you mean 'mse'"),
        ({"weighting": "sample"}, "did you mean 'samples'"),
        ({"lambda_": -1.0}, r"lambda_ = -1\.0"),
        ({"lambda_": math.nan}, "lambda_ = nan"),
    ],
)
def test_wrong_parameters_of_fd_are_refused(changes, message):
    with pytest.raises(SettingError, match=message):
        make("fd", **changes)


def test_more_observations_than_there_can_be_are_refused():
    own_too = {"exclude_self": False}
    played("repshare", parameters={"m_down": 2}, rounds=1)
    played("repshare", parameters={"m_down": 3, **own_too}, rounds=1)
    with pytest.raises(SettingError, match="there are 2 observations of a class by other clients"):
        played("repshare", parameters={"m_down": 3}, rounds=1)
    with pytest.raises(SettingError, match="there are 3 observations of a class\n"):
        played("repshare", parameters={"m_down": 4, **own_too}, rounds=1)


def test_a_client_that_is_alone_has_nobody_to_hear():
    alone = tiny_scenario(clients=1)
    with pytest.raises(
        SettingError, match="there are 0 observations of a class by other"
    ) as caught:
        played("repshare", scenario=alone, rounds=1)
    assert "set exclude_self = False" in caught.value.do
    played("repshare", scenario=alone, rounds=1, parameters={"exclude_self": False})
    played("repshare", scenario=alone, rounds=1, parameters={"lambda_disc": 0.0})  # needs none


def test_while_nobody_else_has_sent_anything_the_discriminator_waits():
    """Two clients, one of them in each round; it has only itself to remember in round 2."""
    fed = started(scenario=TWO)
    del fed.server.state["observations"]["c1"]
    fed.begin_round(2)
    fed.method.collaborate(fed, fed.clients)
    assert received(fed, 0).keys() == {"means", "owned"}
    assert values(received(fed, 1)["observed"]) == [[3.0, 8.0, 0.0]]


@pytest.mark.parametrize("reading", READINGS)
def test_who_diverges_hears_of_the_means_of_the_code(reading, monkeypatch):
    """The printed sums are the usual reason; where they are means already, they are none."""
    monkeypatch.setitem(READINGS, reading, (lambda *given: math.nan, losses.discriminator_loss))
    with pytest.raises(DivergenceError, match="the loss of client domain0 is nan") as caught:
        played("repshare", rounds=1, parameters={"reading": reading})
    assert "lambda_kd" in caught.value.do
    assert ('reading = "code"' in caught.value.do) == (reading == "paper")


# -------------------------------------------------------------------------------------- privacy


def shared(fed, index=0) -> dict:
    state = fed.server.state
    client = fed.clients[index].id
    return {"means": state["means"][client], **state["observations"][client]}


def test_levels_weigh_images_and_0_hides_them():
    fed = started(levels=[1.0, 0.0])
    for k, client in enumerate(fed.clients):
        level, y = client.state["levels"], client.data.y
        assert sorted(level.tolist()) == [0.0, 1.0, 1.0]  # dealt in turn, at random
        for c in range(3):
            kept = [float(v[0, 0, 0]) for v in client.data.x[(y == c) & (level > 0)]]
            assert bool(shared(fed, k)["owned"][c]) == bool(kept)
            expected = sum(kept) / len(kept) if kept else 0.0
            assert values(shared(fed, k)["means"])[c] == expected
            assert values(shared(fed, k)["observations"])[0][c] == expected


def test_features_are_clipped_before_they_are_averaged():
    fed = started(clip=8.0)  # 16 equal features: length 4 times the value
    close(values(shared(fed)["means"]), [2.0, 2.0, 0.0], 1e-6)
    close(values(shared(fed)["observations"])[0], [2.0, 2.0, 0.0], 1e-6)
    close(values(shared(started(clip=12.0))["means"]), [2.5, 3.0, 0.0], 1e-6)


def test_noise_is_the_clients_own_and_repeats():
    parameters = {"clip": 1.0, "noise": 0.5}
    a, b = (shared(started(**parameters)) for _ in range(2))
    assert_same_bits(a, b)
    clean = shared(started(clip=1.0))
    assert not torch.equal(a["means"], clean["means"])
    assert not a["means"][2].any() and not a["observations"][:, 2].any()  # nothing to hide
    turned = by_hand({0: (9,), 1: (1, 3)}, {0: (2, 4), 1: (8,)})  # one image of class 0, not two
    noisy, still = (shared(started(scenario=turned, clip=1.0, noise=n)) for n in (0.5, 0.0))
    added = noisy["means"][0] - still["means"][0]
    close(added, 2 * (a["means"][0] - clean["means"][0]), 1e-5)


def test_what_was_spent_grows_with_every_round_and_falls_with_the_level():
    parameters = {"clip": 1.0, "noise": 4.0, "levels": [1.0, 0.5, 0.0], "m_up": 2}
    spent = []
    for rounds_ in (1, 2, 4):
        fed = played("repshare", parameters=parameters, rounds=rounds_, models=["hidden"])
        assert all(c.state["releases"] == 3 * rounds_ for c in fed.clients)
        spent.append(fed.method.spent(fed.clients[0], delta=1e-2))
    assert all(s[1.0] > s[0.5] > s[0.0] == 0 for s in spent)
    assert spent[0][1.0] < spent[1][1.0] < spent[2][1.0]
    assert spent[0][0.5] < spent[1][0.5] < spent[2][0.5]
    quieter = make("repshare", clip=1.0, noise=8.0, levels=[1.0])
    client = SimpleNamespace(state={"releases": 12})
    assert quieter.spent(client, delta=1e-2)[1.0] < spent[2][1.0]
    assert make("repshare").spent(client, delta=1e-2) == {1.0: math.inf}
    offline = played(
        "repshare", parameters=parameters, rounds=2, models=["hidden"], participation=0.3
    )
    assert sum(c.state["releases"] for c in offline.clients) == 2 * 3


# ---------------------------------------------------------------------------------- equal bits


@pytest.mark.parametrize("stopped", [0, 1, 3])
@pytest.mark.parametrize(("method", "parameters"), VARIANTS)
def test_a_resumed_run_has_the_same_bits(method, parameters, stopped, tmp_path):
    options = {**OPTIONS, "keep_optimizer": True, "optimizer": "adam", "participation": 0.6}
    resumed(method, tmp_path, stopped, parameters=parameters, **options)
