"""Membership inference: the authors' numbers, plain loops, what must and what cannot be found."""

import copy
import math
import statistics
from functools import partial

import numpy as np
import pytest
import torch
from support.federations import assert_same_bits, federation, images, tiny_scenario
from support.loops import close, golden

from fedtutor import attacks, models, rounds, scenarios
from fedtutor.datasets import bundled
from fedtutor.errors import DataError, SettingError
from fedtutor.randomness import generator


def drawn(*shape, seed=0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def log_normal(x: float, mu: float, sd: float) -> float:
    return -((x - mu) ** 2) / (2 * sd**2) - math.log(sd * math.sqrt(2 * math.pi))


def lira_loop(target, shadow, keep, *, online, fixed=False, code=False) -> list[float]:
    """Algorithm 1, image by image and view by view."""
    networks, count, views = shadow.shape
    least = [
        min(sum(bool(keep[m, i]) == side for m in range(networks)) for i in range(count))
        for side in (True, False)
    ]
    found = {}
    for i in range(count):
        for v in range(views):
            for side in (True, False):
                found[i, v, side] = [
                    float(shadow[m, i, v]) for m in range(networks) if bool(keep[m, i]) == side
                ][: least[not side]]
    common = {
        side: statistics.pstdev([x for (_, _, s), xs in found.items() if s == side for x in xs])
        for side in (True, False)
    }
    scores = []
    for i in range(count):
        views_of_i = []
        for v in range(views):
            x, (inside, outside) = float(target[i, v]), (found[i, v, True], found[i, v, False])
            sd_in = common[True] if fixed else statistics.pstdev(inside)
            sd_out = common[False] if fixed else statistics.pstdev(outside)
            mu_in, mu_out = statistics.median(inside), statistics.median(outside)
            if online:
                sd = sd_in if fixed and code else sd_out
                views_of_i.append(log_normal(x, mu_in, sd_in) - log_normal(x, mu_out, sd))
            elif code:
                views_of_i.append(-log_normal(x, mu_out, sd_out))
            else:
                above = 0.5 * math.erfc((x - mu_out) / sd_out / math.sqrt(2))
                views_of_i.append(-math.log(above))
        scores.append(sum(views_of_i) / views)
    return scores


# ------------------------------------------------------------------------------ golden numbers


def authors():
    g = golden("lira")
    z, labels = g["logits"][:, :, 0], g["labels"]
    phi = torch.stack([attacks.confidence(z[m], labels) for m in range(len(z))])
    return g, phi[-1], phi[:-1], g["keep"][:-1].bool(), g["keep"][-1].bool()


def test_golden_confidence():
    g, target, shadow, *_ = authors()
    close(torch.cat([shadow, target[None]]), g["scores"])


@pytest.mark.parametrize(
    "name, options",
    [
        ("online", {}),
        ("online_fixvar", {"fixed_variance": True, "reading": "code"}),
        ("offline", {"online": False, "reading": "code"}),
        ("offline_fixvar", {"online": False, "fixed_variance": True, "reading": "code"}),
    ],
)
def test_golden_likelihood_ratios(name, options):
    g, target, shadow, keep, member = authors()
    scores = attacks.lira(target, shadow, keep, **options)
    close(-scores, g[f"{name}_prediction"])
    close(attacks.auc(scores, member), g[f"{name}_auc"])
    false, true = attacks.roc(scores, member)
    close((true + 1 - false).max() / 2, g[f"{name}_acc"])  # what that code calls accuracy


def test_golden_one_threshold_for_all():
    g, target, _, _, member = authors()
    close(-target.mean(1), g["global_prediction"])
    close(attacks.auc(target.mean(1), member), g["global_auc"])


# --------------------------------------------------------------------------------- plain loops


@pytest.mark.parametrize("online", [True, False])
@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize("reading", ["paper", "code"])
def test_ratio_against_a_loop(online, fixed, reading):
    keep = attacks.coins(8, 5, seed=1)
    keep[0, 0] = ~keep[0, 0]  # one image has fewer of one kind: all are cut to its number
    target, shadow = drawn(5, 2), 2 * drawn(8, 5, 2, seed=1)
    ours = attacks.lira(target, shadow, keep, online=online, fixed_variance=fixed, reading=reading)
    loop = lira_loop(target, shadow, keep, online=online, fixed=fixed, code=reading == "code")
    close(ours, torch.tensor(loop, dtype=torch.float64))


def test_confidence_against_a_loop_and_far_from_it():
    z, y = 3 * drawn(6, 4), torch.tensor([0, 1, 2, 3, 0, 1])
    for i, value in enumerate(attacks.confidence(z, y).tolist()):
        others = sum(math.exp(float(z[i, c])) for c in range(4) if c != int(y[i]))
        assert value == pytest.approx(float(z[i, y[i]]) - math.log(others), abs=1e-9)
    sure = attacks.confidence(torch.tensor([[2000.0, 0.0, 0.0]]), torch.tensor([0]))
    assert float(sure) == pytest.approx(2000 - math.log(2))  # where log(1 - p) would be -inf


def test_kernel_ratio_against_a_loop():
    members, others, asked = drawn(7, 2), drawn(5, 2, seed=1) + 1, drawn(3, 2, seed=2)
    known = torch.cat([members, others])
    scale = [statistics.stdev(known[:, k].tolist()) for k in range(2)]
    loop = []
    for row in asked.tolist():
        logs = []
        for part in (members, others):
            width, total = len(part) ** (-1 / 6), 0.0
            for point in part.tolist():
                away = sum(((a - b) / s) ** 2 for a, b, s in zip(row, point, scale, strict=True))
                total += math.exp(-away / (2 * width**2)) / (2 * math.pi * width**2)
            logs.append(math.log(total / len(part)))
        loop.append(logs[0] - logs[1])
    close(attacks.kernel_ratio(members, others, asked), torch.tensor(loop, dtype=torch.float64))


def test_gradient_norms_are_those_of_single_images():
    scenario = tiny_scenario()
    network = models.build(
        "noisy", num_classes=3, in_channels=1, image_size=4, generator=generator("n")
    )
    data = images(7, seed=3)
    x, before = scenario.normalize(data.x), {k: v.clone() for k, v in network.state_dict().items()}
    found = attacks.gradient_norms(network, x, data.y)
    assert network.training
    assert all(torch.equal(v, before[k]) for k, v in network.state_dict().items())
    network.eval()
    for i in range(7):
        loss = torch.nn.functional.cross_entropy(network(x[i : i + 1]), data.y[i : i + 1])
        slopes = torch.autograd.grad(loss, list(network.parameters()))
        squares = [float(g.double().square().sum()) for g in slopes]
        assert float(found[i]) == pytest.approx(math.log(sum(squares)) / 2, abs=1e-5)


def test_an_image_leans_towards_the_mean_that_it_is_in():
    h = drawn(40, 64)
    mean = h[:10].mean(0)
    scores = attacks.in_mean(h, mean, torch.zeros(64))
    member = torch.arange(40) < 10
    assert attacks.auc(scores, member) > 0.95
    away = mean - 1.0
    loop = [sum((float(h[i, k]) - 1) * float(away[k]) for k in range(64)) for i in range(40)]
    length = math.sqrt(sum(float(v) ** 2 for v in away))
    close(
        attacks.in_mean(h, mean, torch.ones(64)), torch.tensor(loop, dtype=torch.float64) / length
    )


# ----------------------------------------------------------------------------------- measures


def test_area_and_rates_by_hand():
    scores, member = [0.9, 0.8, 0.8, 0.1], [1, 0, 1, 0]
    assert attacks.auc(scores, member) == (1 + 1 + 0.5 + 1) / 4
    false, true = attacks.roc(scores, member)
    assert false.tolist() == [0, 0, 0.5, 1] and true.tolist() == [0, 0.5, 1, 1]


def test_found_at_one_percent():
    others, member = np.arange(1000) / 1000, np.arange(1100) >= 1000
    low, high = (np.concatenate([others, np.full(100, value)]) for value in (0.9885, 0.9895))
    assert attacks.tpr_at(high, member, 0.01) == 1  # ten of a thousand lie above: just allowed
    assert attacks.tpr_at(low, member, 0.01) == 0  # eleven do
    assert attacks.tpr_at(low, member, 0.011) == 1


@pytest.mark.parametrize("fpr, others", [(0.01, 499), (0.001, 9999)])
def test_too_few_others_for_a_small_rate_are_refused(fpr, others):
    scores = torch.rand(others + 10, generator=torch.Generator().manual_seed(0))
    member = torch.arange(others + 10) < 10
    with pytest.raises(DataError, match="too few"):
        attacks.tpr_at(scores, member, fpr)
    more = torch.cat([scores, torch.zeros(1)])
    assert 0 <= attacks.tpr_at(more, torch.cat([member, torch.zeros(1)]), fpr) <= 1


# ------------------------------------------------------------------------------ shadow networks


def test_coins_are_fair_for_every_image():
    keep = attacks.coins(6, 50, seed=0)
    assert keep.sum(0).tolist() == [3] * 50
    assert not torch.equal(keep, attacks.coins(6, 50, seed=1))


def small_shadows(threads: int) -> torch.Tensor:
    scenario, data = tiny_scenario(), images(30, seed=7)
    x = scenario.normalize(data.x)

    def train(index, number):
        network = models.build(
            "noisy", num_classes=3, in_channels=1, image_size=4, generator=generator("n", number)
        )
        models.use_generator(network, generator("dropout", number))
        attacks.imitate(
            network,
            x[index],
            data.y[index],
            epochs=2,
            batch_size=4,
            lr=0.1,
            own=generator("b", number),
        )
        return attacks.confidences(network, x, data.y, mirrored=True)

    return attacks.shadows(attacks.coins(4, 30, seed=0), train, threads=threads)


def test_the_same_bits_for_any_number_of_threads(two_threads):
    one = small_shadows(1)
    assert one.shape == (4, 30, 2)
    assert torch.equal(one, small_shadows(2))
    assert torch.get_num_threads() == 2


def test_a_shadow_trains_as_a_client_does():
    """From the same weights, in the same order, `imitate` ends where the round loop ends."""
    from support.federations import federation

    from fedtutor.rounds import local_update

    fed = federation("fedavg", local_epochs=2, batch_size=8)
    fed.begin_round(1)
    client = fed.clients[0]
    copy = models.build(
        "linear", num_classes=3, in_channels=1, image_size=4, generator=generator("any")
    )
    copy.load_state_dict(client.model.state_dict())
    local_update(fed, client)
    attacks.imitate(
        copy,
        fed.scenario.normalize(client.data.x),
        client.data.y,
        epochs=2,
        batch_size=8,
        lr=fed.settings.lr,
        own=generator(fed.seed, client.id, 1, "batches"),
    )
    assert all(
        torch.equal(a, b) for a, b in zip(copy.parameters(), client.model.parameters(), strict=True)
    )


@pytest.fixture(scope="module")
def overfitted():
    """Street digits: 8 shadow networks, then five targets and one that saw no image."""
    data = bundled.bundled("street")
    x = scenarios.build("digits-mini", private_size=1).normalize(data.x)

    def make(*who):
        return models.build(
            "small_cnn", num_classes=10, in_channels=3, image_size=32, generator=generator(*who)
        )

    def trained(index, *who):
        return attacks.imitate(
            make(*who),
            x[index],
            data.y[index],
            epochs=12,
            batch_size=32,
            lr=0.01,
            momentum=0.9,
            own=generator(*who, "batches"),
        )

    def answers(index, who, number):
        return attacks.confidences(trained(index, who, number), x, data.y)

    keep = attacks.coins(8, len(data), seed=0)
    order = [torch.randperm(len(data), generator=generator("halves", k)) for k in range(5)]
    halves = torch.stack([half < len(data) // 2 for half in order])
    phi = attacks.shadows(keep, lambda index, n: answers(index, "shadow", n))
    targets = attacks.shadows(halves, lambda index, n: answers(index, "target", n))
    blank = attacks.shadows(
        halves, lambda index, n: attacks.confidences(make("blank", n), x, data.y)
    )
    lira = partial(attacks.lira, shadow=phi, keep=keep, fixed_variance=True)
    return [
        (member, lira(own), own[:, 0], lira(other))
        for member, own, other in zip(halves, targets, blank, strict=True)
    ]


def test_an_overfitted_network_gives_its_members_away(overfitted):
    """AUC of at least 0.7; at 1 % false positives on average three times what a threshold finds."""
    areas = [attacks.auc(scores, member) for member, scores, *_ in overfitted]
    assert min(areas) >= 0.7
    lira = [attacks.tpr_at(scores, member) for member, scores, *_ in overfitted]
    plain = [attacks.tpr_at(own, member) for member, _, own, _ in overfitted]
    assert all(a > b for a, b in zip(lira, plain, strict=True)), (lira, plain)
    assert sum(lira) >= 3 * sum(plain), (lira, plain)


def test_a_network_that_never_saw_the_images_gives_nothing_away(overfitted):
    areas = [attacks.auc(blank, member) for member, *_, blank in overfitted]
    assert abs(statistics.fmean(areas) - 0.5) <= 0.05
    assert all(abs(area - 0.5) <= 0.08 for area in areas)  # one: sampling error 0.018


# -------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    "error, words, change",
    [
        (SettingError, "unknown reading", {"reading": "both"}),
        (SettingError, "shapes", {"shadow": drawn(4, 5)}),
        (SettingError, "shapes", {"keep": torch.ones(4, 4)}),
        (DataError, "shadow networks with it", {"keep": torch.ones(4, 5)}),
    ],
)
def test_bad_input_of_the_ratio_is_one_clear_error(error, words, change):
    good = {"target": drawn(5, 1), "shadow": drawn(4, 5, 1), "keep": attacks.coins(4, 5, seed=0)}
    with pytest.raises(error, match=words):
        attacks.lira(**{**good, **change})


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: attacks.coins(3, 5, seed=0), "3 shadow networks"),
        (lambda: attacks.auc([1.0, 2.0], [1, 1]), "images of both kinds"),
        (lambda: attacks.auc([1.0, float("nan")], [1, 0]), "one finite score"),
        (lambda: attacks.kernel_ratio(drawn(1, 2), drawn(3, 2), drawn(2, 2)), "fewer than two"),
    ],
)
def test_other_bad_input_is_one_clear_error(call, words):
    with pytest.raises((DataError, SettingError), match=words):
        call()


def test_the_servers_network_is_what_goes_down_next_and_can_be_attacked():
    """FedLGD's Fig. 6 attacks the server's network, not what a client sends."""
    record = {"names": ["weights"], "rounds": [2]}
    fed = federation("fedavg", models=["hidden"], rounds=2, record=record)
    fed.begin()
    rounds.run_round(fed, 1)
    server = copy.deepcopy(fed.server.model)
    rounds.run_round(fed, 2)
    client = fed.clients[0]
    state = attacks.crossed(fed.channel.messages, "weights", client=client.id, round_=2, way="down")
    went_down = attacks.with_weights(fed.make(), state)
    assert_same_bits(server.state_dict(), went_down.state_dict())
    parts = client.private, fed.scenario.tests[client.domain]
    x = fed.scenario.inputs(torch.cat([part.x for part in parts]))
    y = torch.cat([part.y for part in parts])
    norms = [attacks.gradient_norms(network, x, y) for network in (server, went_down)]
    assert torch.equal(*norms) and norms[0].isfinite().all() and norms[0].std() > 0
    upload = attacks.crossed(fed.channel.messages, "weights", client=client.id, round_=2)
    other = attacks.gradient_norms(attacks.with_weights(fed.make(), upload), x, y)
    assert not torch.equal(norms[0], other)
