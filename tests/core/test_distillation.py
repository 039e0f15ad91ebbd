"""Virtual images: where they begin, how they move, skewed clients, stops, pictures and files."""

import math
from dataclasses import replace
from statistics import mean, stdev

import pytest
import torch
from support.every import ON
from support.federations import (
    assert_same_bits,
    by_hand,
    federation,
    images,
    pixels,
    played,
    skewed,
    tiny_scenario,
    weights_of,
)
from support.loops import close, distance_loop, matching_loop
from support.runs import NoGlobalRandomness, Stop, plain, resumed

from fedtutor import distillation, losses, models
from fedtutor.distillation import (
    VirtualImages,
    class_statistics,
    distilled,
    initial,
    match_distributions,
    match_gradients,
    prepare,
    virtual_images,
)
from fedtutor.engine import siamese as changes
from fedtutor.engine.siamese import siamese
from fedtutor.errors import DataError, FedtutorError, ModelError, SettingError, TrainingError
from fedtutor.images import Images
from fedtutor.measures import accuracy
from fedtutor.models import networks
from fedtutor.randomness import generator
from fedtutor.scenarios.base import build
from fedtutor.settings import VIRTUAL_INITS, Settings

BASELINES = ("fedavg", "fedprox", "fednova", "scaffold", "moon", "fedproto", "vhl", "fedlgd")


def numbers(step: int, purpose: str) -> torch.Generator:
    return generator(0, "test", step, purpose)


def flat_network(seed: int = 0, network: str = "linear"):
    return models.build(
        network, num_classes=3, in_channels=1, image_size=4, generator=generator(seed)
    )


def matched(private, virtual, scenario, extractor=None, **options):
    given = {"steps": 5, "lr": 0.4, "momentum": 0.0, "numbers": numbers, **options}
    return match_distributions(
        scenario.inputs(virtual.x),
        virtual.y,
        private,
        scenario,
        extractor or flat_network(),
        **given,
    )


# ------------------------------------------------------------------------------ the beginning


def test_class_statistics_by_hand():
    """Class 0: squares of 2 and 4, mean 3, deviation 1; class 1: one of 9; class 2: none."""
    scenario = by_hand({0: (2, 4), 1: (9,)})
    found = class_statistics(scenario.clients[0].private, scenario)
    close(found["mean"], [[3], [9], [0]])
    close(found["std"], [[1], [0], [0]])
    assert found["owned"].tolist() == [True, True, False]


def test_the_codes_statistics_are_divided_by_all_images():
    """Sums of class 0: 6 and 4 + 16; three images: mean 2, mean square 20 / 3."""
    scenario = by_hand({0: (2, 4), 1: (9,)})
    found = class_statistics(scenario.clients[0].private, scenario, reading="code")
    close(found["mean"], [[2], [3], [0]], 1e-5)
    close(found["std"], [[math.sqrt(20 / 3 - 4)], [math.sqrt(27 - 9)], [0]], 1e-5)
    assert found["owned"].tolist() == [True, True, False]


def test_the_codes_statistics_shrink_towards_what_a_network_sees_as_0():
    scenario = tiny_scenario()  # mean 0.5, std 0.25
    found = class_statistics(scenario.clients[0].private, scenario, reading="code")
    full = class_statistics(scenario.clients[0].private, scenario)
    middle = 127.5
    close((found["mean"] - middle) / (full["mean"] - middle), torch.full((3, 1), 1 / 3), 1e-4)


@pytest.mark.parametrize("init", VIRTUAL_INITS)
def test_every_class_that_is_owned_gets_ipc_images(init):
    scenario = skewed()
    own = [
        initial(c.private, scenario, ipc=4, init=init, own=generator(0)) for c in scenario.clients
    ]
    assert own[0].y.tolist() == [0] * 4 + [1] * 4
    assert own[1].y.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    for virtual in own:
        assert virtual.x.shape == (len(virtual.y), 1, 4, 4) and virtual.x.dtype == torch.float32
        assert torch.isfinite(virtual.x).all()


def test_real_images_are_drawn_without_repeats_while_they_last():
    private = Images(pixels(1, 2, 3, 9), torch.tensor([0, 0, 0, 1]), "by hand")
    scenario = by_hand({0: (1,)})
    for seed in range(5):
        for ipc, first in ((2, 2), (3, 3), (5, 3)):
            virtual = initial(private, scenario, ipc=ipc, init="real", own=generator(seed))
            values = virtual.x[:, 0, 0, 0].tolist()
            assert len({*values[:ipc]}) == first and {*values[:ipc]} <= {1.0, 2.0, 3.0}
            assert values[ipc:] == [9.0] * ipc


def test_noise_is_standard_normal_to_the_network():
    scenario = tiny_scenario()
    virtual = initial(
        scenario.clients[0].private, scenario, ipc=400, init="noise", own=generator(0)
    )
    seen = scenario.inputs(virtual.x)
    assert abs(float(seen.mean())) < 0.02 and abs(float(seen.std()) - 1) < 0.02


def test_statistics_have_the_mean_and_spread_of_each_class():
    scenario = tiny_scenario(count=300)
    private = scenario.clients[0].private
    virtual = initial(private, scenario, ipc=2000, own=generator(0))
    for c in range(3):
        real, drawn = private.x[private.y == c].float(), virtual.x[virtual.y == c]
        assert float(drawn.mean()) == pytest.approx(float(real.mean()), abs=1)
        assert float(drawn.std()) == pytest.approx(float(real.std()), abs=1)


def test_floats_are_normalized_only_where_a_client_trains():
    scenario, x = tiny_scenario(), images(5, seed=0).x
    assert torch.allclose(scenario.inputs(x.float()), scenario.normalize(x))
    assert torch.equal(scenario.inputs(x), scenario.normalize(x))
    kept = x.float()
    scenario.inputs(kept)
    assert torch.equal(kept, x.float())  # nothing is changed in place
    close(scenario.pixels(scenario.inputs(kept)), kept, 1e-4)
    for wrong in (kept.double(), kept[0], kept.expand(-1, 3, -1, -1)):
        with pytest.raises(DataError, match="cannot normalize"):
            scenario.inputs(wrong)
    with pytest.raises(DataError, match="cannot normalize"):
        scenario.normalize(kept)


# ------------------------------------------------------------------------ distribution matching


def test_one_step_by_hand():
    """Features are pixels: the mean of two images moves by lr 2 (mean difference) / 2 each."""
    scenario = by_hand({0: (10, 20), 1: (8,)})
    private = scenario.clients[0].private
    virtual = VirtualImages(pixels(1, 3, 6).float(), torch.tensor([0, 0, 1]))
    new = matched(private, virtual, scenario, steps=1, lr=0.25)
    # class 0: means 15 and 2, slope per image 2 (2 - 15) / 2 = -13; class 1: 2 (6 - 8) / 1 = -4
    close(new["x"][:, 0, 0, 0], [1 + 0.25 * 13, 3 + 0.25 * 13, 6 + 0.25 * 4], 1e-5)
    close(new["losses"], [16 * (13**2 + 2**2)], 1e-5)
    two = matched(private, virtual, scenario, steps=2, lr=0.25, momentum=0.5)
    first = [13.0, 13.0, 4.0]
    mean = 2 + 0.25 * 13
    second = [0.5 * 13 + (15 - mean)] * 2 + [0.5 * 4 + 2 * (8 - 7)]
    close(
        two["x"][:, 0, 0, 0],
        [s + 0.25 * (a + b) for s, a, b in zip((1, 3, 6), first, second, strict=True)],
        1e-5,
    )


def test_means_meet_and_the_loss_is_eq_1():
    scenario = tiny_scenario()
    private = scenario.clients[0].private
    virtual = initial(private, scenario, ipc=2, init="noise", own=generator(0))
    new = matched(private, virtual, scenario, steps=40, lr=0.4)
    h, g = (scenario.inputs(v.x).flatten(1).double() for v in (private, virtual))
    close(new["losses"][0], matching_loop(h, private.y, g, virtual.y, 3), 1e-5)
    assert new["losses"][-1] < 1e-6 * new["losses"][0]
    for c in range(3):
        close(
            new["x"][virtual.y == c].mean(0),
            scenario.inputs(private.x[private.y == c]).mean(0),
            1e-3,
        )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch": 2},
        {"augment": "siamese"},
        {"batch": 2, "augment": "siamese", "momentum": 0.5},
    ],
)
def test_a_later_call_goes_on(options):
    scenario = tiny_scenario()
    private = scenario.clients[0].private
    virtual = initial(private, scenario, ipc=2, own=generator(0))

    def another(step):
        return flat_network(step, "hidden") if step else flat_network(99, "hidden")

    for extractor in (another, flat_network(5, "hidden")):
        whole = matched(private, virtual, scenario, extractor, steps=6, **options)
        half = matched(private, virtual, scenario, extractor, steps=4, **options)
        rest = match_distributions(
            half["x"],
            virtual.y,
            private,
            scenario,
            extractor,
            numbers=numbers,
            lr=0.4,
            steps=2,
            first=4,
            velocity=half["velocity"],
            **{"momentum": 0.0, **options},
        )
        assert torch.equal(whole["x"], rest["x"])
        assert whole["losses"] == half["losses"] + rest["losses"]


def test_the_extractor_is_left_as_it_was():
    scenario, network = tiny_scenario(), flat_network(0, "noisy")
    private = scenario.clients[0].private
    before = {k: v.clone() for k, v in network.state_dict().items()}
    virtual = initial(private, scenario, ipc=2, own=generator(0))
    for batch in (0, 3):
        matched(private, virtual, scenario, network, batch=batch)
    assert_same_bits(before, network.state_dict())
    assert all(p.grad is None for p in network.parameters())


def test_a_learning_rate_that_is_too_high_is_one_clear_error():
    scenario = tiny_scenario()
    private = scenario.clients[0].private
    virtual = initial(private, scenario, ipc=1, own=generator(0))
    with pytest.raises(TrainingError, match=r"in step \d+"):
        matched(private, virtual, scenario, steps=80, lr=1e9)
    with pytest.raises(SettingError, match="siamese"):
        matched(private, virtual, scenario, augment="siamse")


# -------------------------------------------------------------------------------- augmentation


def test_siamese_changes_are_one_for_all_images():
    own = generator(0)
    x = torch.randn(1, 3, 16, 16, generator=own)
    several = x.expand(4, -1, -1, -1)
    kinds = set()
    for seed in range(60):
        a, b = siamese([several, x], generator(seed))
        assert a.shape == several.shape
        assert torch.allclose(a, b.expand_as(a), atol=1e-6)
        kinds.add(int(torch.randint(6, (1,), generator=generator(seed))))
    assert kinds == set(range(6))


@pytest.mark.parametrize("kind", range(6))
def test_siamese_changes_can_be_differentiated(kind):
    seed = next(
        s for s in range(100) if int(torch.randint(6, (1,), generator=generator(s))) == kind
    )
    x = torch.randn(2, 3, 8, 8, generator=generator("x"), requires_grad=True)
    (slope,) = torch.autograd.grad((siamese([x], generator(seed))[0] ** 2).sum(), x)
    assert torch.isfinite(slope).all() and slope.any()


def test_shift_moves_by_whole_pixels():
    x = torch.arange(64.0).view(1, 1, 8, 8)
    moved = changes._shift(x, [1.0, 0.0])  # down by 1, left by 1
    assert torch.equal(moved[0, 0, 1:, :-1], x[0, 0, :-1, 1:])
    assert not moved[0, 0, 0].any() and not moved[0, 0, :, -1].any()


def test_no_turn_and_no_zoom_leave_the_image():
    x = torch.randn(2, 1, 8, 8, generator=generator(0))
    for change in (changes._rotate, changes._zoom):
        close(change(x, [0.5, 0.5]), x, 1e-5)


# ---------------------------------------------------------------------------- gradient matching


def test_the_distance_is_eq_6_of_the_gradients():
    scenario, network = tiny_scenario(), flat_network(0, "hidden")
    private = scenario.clients[0].private
    x, y = scenario.inputs(private.x[:6].float()), private.y[:6]
    other = scenario.clients[1].private
    loss = torch.nn.functional.cross_entropy(network(scenario.inputs(other.x)), other.y)
    target = list(torch.autograd.grad(loss, list(network.parameters())))
    own = torch.autograd.grad(
        torch.nn.functional.cross_entropy(network(x), y), list(network.parameters())
    )
    new = match_gradients(x, y, network, target, steps=30, lr=0.5)
    close(new["losses"][0], distance_loop(own, target, single=False), 1e-5)
    assert new["losses"][-1] < 0.7 * new["losses"][0]
    scaled = match_gradients(x, y, network, [1e-3 * t for t in target], steps=30, lr=0.5)
    close(scaled["x"], new["x"], 1e-2)  # only directions count


def test_the_network_is_left_as_it_was():
    network = flat_network(0, "noisy")
    before = {k: v.clone() for k, v in network.state_dict().items()}
    x, y = torch.randn(4, 1, 4, 4, generator=generator(0)), torch.tensor([0, 1, 2, 0])
    target = [torch.ones_like(p) for p in network.parameters()]
    match_gradients(x, y, network, target, steps=2)
    assert_same_bits(before, network.state_dict())
    assert network.training
    assert torch.equal(match_gradients(x, y, network, target, steps=0)["x"], x)


# ------------------------------------------------------------------------ in place of private ones


def test_without_the_setting_nothing_changes():
    fed = federation()
    prepare(fed)
    assert all(c.data is c.private for c in fed.clients)
    with pytest.raises(DataError, match="set virtual_ipc"):
        virtual_images(fed)


def test_virtual_images_take_the_place_of_private_ones():
    fed = played("fedavg", scenario=skewed(), **ON)
    assert [len(c.data) for c in fed.clients] == [4, 6, 6]
    assert all(isinstance(c.data, VirtualImages) for c in fed.clients)
    assert all(isinstance(c.private, Images) for c in fed.clients)
    assert fed.clients[1].steps == 3 * 2  # rounds, epochs: one batch of six images
    sent = {row["name"] for row in fed.history["bytes"]}
    assert sent == {"weights", "number of images"}  # no pixel crosses


def test_no_steps_leave_the_beginning():
    for init in VIRTUAL_INITS:
        fed = federation(virtual_ipc=2, virtual_steps=0, virtual_init=init)
        client = fed.clients[0]
        start = initial(
            client.private,
            fed.scenario,
            ipc=2,
            init=init,
            own=generator(0, client.id, "distillation", 0, "initial"),
        )
        assert torch.equal(distilled(client).x, start.x)


def test_all_methods_of_a_comparison_train_on_the_same_images():
    shared = {}
    first = played("fedavg", artifacts=shared, rounds=1, **ON)
    for method in BASELINES:
        parameters = {"selected": 0} if method == "fedlgd" else {}
        fed = federation(method, artifacts=shared, parameters=parameters, **ON)
        prepare(fed)
        for a, b in zip(first.clients, fed.clients, strict=True):
            assert torch.equal(a.data.x, b.data.x)
        alone = federation(method, parameters=parameters, **ON)
        prepare(alone)  # whatever lies in store
        assert all(
            torch.equal(a.data.x, b.data.x)
            for a, b in zip(first.clients, alone.clients, strict=True)
        )
    other = federation("fedavg", seed=1, **ON)
    prepare(other)
    assert not torch.equal(other.clients[0].data.x, first.clients[0].data.x)


@pytest.mark.parametrize("method", BASELINES)
def test_every_method_of_table_1_runs_on_virtual_images(method):
    options = {"models": ["noisy"], "rounds": 2, **ON}
    with NoGlobalRandomness():
        one = played(method, **options)
    two = played(method, threads=2, **options)
    assert_same_bits(weights_of(one), weights_of(two))
    assert plain(one) == plain(two)
    assert all(math.isfinite(v) for v in one.history["loss"][-1]["values"])


def test_every_setting_of_the_distillation_changes_its_result():
    def made(**changes):
        fed = federation("fedavg", **{"models": ["hidden"], **ON, **changes})
        return distilled(fed.clients[0]).x

    base = made()
    for key, value in (
        ("virtual_steps", 4),
        ("virtual_init", "noise"),
        ("virtual_lr", 0.5),
        ("virtual_batch", 1),
        ("virtual_momentum", 0.0),
        ("virtual_augment", "siamese"),
        ("virtual_network", "linear"),
        ("virtual_clip", 0.1),
        ("models", ["linear"]),
    ):
        assert not torch.equal(made(**{key: value}), base), key


def test_another_network_can_distill_before_round_1():
    """FedLGD's code distills with ConvNet, whatever is trained; each by itself here."""
    by_another = federation("fedavg", models=["hidden"], virtual_network="linear", **ON)
    trained = federation("fedavg", models=["linear"], **ON)
    named = federation("fedavg", models=["linear"], virtual_network="linear", **ON)
    found = [distilled(fed.clients[0]).x for fed in (by_another, trained, named)]
    assert torch.equal(found[0], found[1]) and torch.equal(found[1], found[2])
    assert by_another.clients[0].model.body is not None  # and still trains its own
    assert by_another.clients[0].network == "hidden"
    with pytest.raises(ModelError, match="unknown network 'convnett'"):
        distilled(federation("fedavg", virtual_network="convnett", **ON).clients[0])


# ------------------------------------------------------------------------ DP-SGD while distilling


def private_step(scenario, private, virtual, *, lr, clip, drawn=None):
    """One step in plain float64 loops: Abadi et al., Algorithm 1; features are pixels.

    Private image i of a class has the gradient (2 / ipc) (m - h_i) for each virtual image.
    """
    h, x = (scenario.inputs(v.x).flatten(1).double() for v in (private, virtual))
    new = x.clone()
    for label in virtual.y.unique():
        rows = [v for v in range(len(x)) if virtual.y[v] == label]
        own = [i for i in range(len(h)) if private.y[i] == label]
        m = sum(x[v] for v in rows) / len(rows)
        total = 0 if drawn is None else drawn[int(label)].flatten(1).double()
        for i in own:
            g = torch.stack([2 / len(rows) * (m - h[i])] * len(rows))
            length = math.sqrt(float((g**2).sum()))
            total = total + g * min(1.0, clip / length)
        for place, v in enumerate(rows):
            new[v] = x[v] - lr * total[place] / len(own)
    return new


@pytest.mark.parametrize("clip", [0.5, 20.0, 1e6])
def test_a_step_of_dp_sgd_in_plain_loops(clip):
    scenario = tiny_scenario()
    private = scenario.clients[0].private
    virtual = initial(private, scenario, ipc=2, own=generator(0))
    new = matched(private, virtual, scenario, steps=1, lr=0.3, clip=clip)
    by_hand_ = private_step(scenario, private, virtual, lr=0.3, clip=clip)
    close(new["x"].flatten(1), by_hand_, 1e-4)
    plain_ = matched(private, virtual, scenario, steps=1, lr=0.3)
    close(new["losses"], plain_["losses"], 1e-5)
    assert clip < 1e6 or (new["x"] - plain_["x"]).abs().max() < 1e-4  # then it is Eq. 1 itself


def test_its_noise_is_the_multiplier_times_the_clip_and_shared_by_the_images():
    scenario = tiny_scenario()
    private = scenario.clients[0].private
    virtual = initial(private, scenario, ipc=2, own=generator(0))
    own, shape = numbers(0, "privacy"), (2, *virtual.x.shape[1:])
    drawn = {c: 3.0 * 0.5 * torch.randn(shape, generator=own) for c in virtual.y.unique().tolist()}
    new = matched(private, virtual, scenario, steps=1, lr=0.3, clip=0.5, noise=3.0)
    by_hand_ = private_step(scenario, private, virtual, lr=0.3, clip=0.5, drawn=drawn)
    close(new["x"].flatten(1), by_hand_, 1e-4)


def test_one_private_image_moves_a_class_by_at_most_the_clip():
    """What the noise has to hide: another image in its place moves the sum by two clips."""
    scenario = tiny_scenario()
    private = scenario.clients[0].private
    virtual = initial(private, scenario, ipc=2, own=generator(0))
    x = private.x.clone()
    x[0] = 255 - x[0]
    other = Images(x, private.y, "another image in one place")
    options = {"steps": 1, "lr": 1.0, "extractor": flat_network(3, "hidden")}
    for clip in (0.01, 0.05):
        one, two = (
            matched(v, virtual, scenario, clip=clip, **options)["x"] for v in (private, other)
        )
        away = (one - two).flatten(1)
        of_class = virtual.y == private.y[0]
        count = int((private.y == private.y[0]).sum())
        assert 0 < float(away[of_class].norm()) <= 2 * clip / count + 1e-6
        assert float(away[~of_class].abs().max()) == 0


def test_private_steps_run_with_augmentation_batches_and_batch_norm():
    options = {"models": ["noisy"], "virtual_batch": 2, "virtual_augment": "siamese", **ON}
    private = {"virtual_clip": 1.0, "virtual_noise": 0.5, "virtual_init": "noise"}
    with NoGlobalRandomness():
        one = played("fedavg", **options, **private)
    assert_same_bits(weights_of(one), weights_of(played("fedavg", threads=2, **options, **private)))


def test_noise_without_a_clip_is_refused():
    fed = federation("fedavg", virtual_noise=1.0, **ON)
    with pytest.raises(SettingError, match="noise needs a clip above 0"):
        distilled(fed.clients[0])


# -------------------------------------------------------------------------------- stop and go on


@pytest.mark.parametrize("killed", [1, 2, 3])
def test_a_killed_distillation_goes_on_where_it_was_kept(killed, tmp_path, monkeypatch):
    monkeypatch.setattr(distillation, "REST", 2)
    options = {"models": ["hidden"], "virtual_ipc": 2, "virtual_steps": 7}
    fed = federation("fedavg", **options)
    whole = distilled(fed.clients[0]).x
    matching, calls = distillation.match_distributions, []

    def counted(*args, **kwargs):
        calls.append(kwargs["first"])
        if len(calls) > killed:
            raise Stop
        return matching(*args, **kwargs)

    monkeypatch.setattr(distillation, "match_distributions", counted)
    first = federation("fedavg", artifacts=tmp_path, **options)
    with pytest.raises(Stop):
        distilled(first.clients[0])
    monkeypatch.setattr(
        distillation,
        "match_distributions",
        lambda *a, **k: calls.append(k["first"]) or matching(*a, **k),
    )
    again = federation("fedavg", artifacts=tmp_path, **options)
    assert torch.equal(distilled(again.clients[0]).x, whole)
    steps = [0, 2, 4, 6]
    assert calls == steps[: killed + 1] + steps[killed:]


def test_more_steps_go_on_from_fewer(tmp_path, monkeypatch):
    monkeypatch.setattr(distillation, "REST", 2)
    options = {"models": ["hidden"], "virtual_ipc": 2}
    short = federation("fedavg", artifacts=tmp_path, virtual_steps=4, **options)
    distilled(short.clients[0])
    assert len(list(tmp_path.glob("virtual-*.pt"))) == 2
    long = federation("fedavg", artifacts=tmp_path, virtual_steps=6, **options)
    found = distilled(long.clients[0]).x
    assert len(list(tmp_path.glob("virtual-*.pt"))) == 3
    fresh = federation("fedavg", virtual_steps=6, **options)
    assert torch.equal(found, distilled(fresh.clients[0]).x)


@pytest.mark.parametrize("stopped", [0, 1, 2])
def test_a_resumed_run_has_the_same_bits(stopped, tmp_path):
    resumed("fedavg", tmp_path, stopped, models=["noisy"], **ON)


# ------------------------------------------------------------------------------- pictures, files


def test_pictures_are_rounded_and_cut_off():
    x = torch.tensor([-40.0, 0.4, 99.6, 300.0]).view(4, 1, 1, 1).expand(-1, 1, 2, 2)
    virtual = VirtualImages(x.contiguous(), torch.tensor([0, 0, 1, 1]))
    assert virtual.images().x[:, 0, 0, 0].tolist() == [0, 0, 100, 255]


# -------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"virtual_ipc": -1}, "virtual_ipc"),
        ({"virtual_steps": -1}, "virtual_steps"),
        ({"virtual_batch": -1}, "virtual_batch"),
        ({"virtual_lr": -0.1}, "virtual_lr"),
        ({"virtual_lr": float("nan")}, "virtual_lr"),
        ({"virtual_momentum": 1.0}, "virtual_momentum"),
        ({"virtual_init": "statistic"}, "did you mean 'statistics'"),
        ({"virtual_augment": "dsa"}, "unknown virtual_augment"),
    ],
)
def test_wrong_settings_are_refused(changes, message):
    with pytest.raises(SettingError) as error:
        Settings(**changes)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "x, y",
    [
        (torch.zeros(2, 1, 4, 4, dtype=torch.uint8), torch.zeros(2)),
        (torch.zeros(2, 1, 4, 4), torch.zeros(3)),
        (torch.zeros(2, 4, 4), torch.zeros(2)),
    ],
)
def test_what_is_no_virtual_image_is_refused(x, y):
    with pytest.raises(DataError, match="give float32"):
        VirtualImages(x, y.long())


def test_no_images_per_class_are_refused():
    scenario = tiny_scenario()
    with pytest.raises(SettingError, match="at least 1"):
        initial(scenario.clients[0].private, scenario, ipc=0, own=generator(0))


def test_central_training_refuses_virtual_images_clearly():
    with pytest.raises(FedtutorError, match="give uint8"):
        played("central", **ON)


def test_a_client_of_one_image_can_be_distilled():
    scenario = tiny_scenario()
    few = replace(scenario.clients[0], private=scenario.clients[0].private[:1])
    fed = played(
        "fedavg",
        scenario=replace(scenario, clients=(few, *scenario.clients[1:])),
        virtual_batch=2,
        virtual_augment="siamese",
        **ON,
    )
    assert fed.clients[0].data.y.tolist() == [0, 0]


# -------------------------------------------------------------------------------- with real data


@pytest.mark.data
def test_distilled_digits_teach_more_than_as_many_real_ones():
    """MNIST, 10 images per class: networks from scratch on random real images, and after DM.

    Five draws of real images, of the network that learns and of its batches; each draw is also
    where DM begins. The mean gain is more than two standard deviations from zero.
    """
    try:
        scenario = build("mnist", num_clients=1, private_size=None, test_size=1000)
    except DataError as missing:
        pytest.skip(str(missing))
    private, network = scenario.clients[0].private, networks.convnet(width=16)

    def fresh(seed):
        return models.build(
            network,
            num_classes=10,
            in_channels=1,
            image_size=28,
            generator=generator(seed, "network"),
        )

    def reached(virtual, seed) -> float:
        own, model, x = generator(seed, "batches"), fresh(seed), scenario.inputs(virtual.x)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        for _ in range(32):
            for index in torch.randperm(100, generator=own).split(50):
                loss = losses.cross_entropy(model(x[index]), virtual.y[index])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        return accuracy(model.eval(), scenario.tests["mnist"], scenario)

    gains = []
    for seed in range(5):
        real = initial(private, scenario, ipc=10, init="real", own=generator(seed, "images"))
        new = match_distributions(
            scenario.inputs(real.x),
            real.y,
            private,
            scenario,
            lambda step, seed=seed: fresh(f"{seed}, step {step}"),
            steps=24,
            lr=20.0,
            batch=64,
            numbers=lambda step, purpose, seed=seed: generator(seed, step, purpose),
        )
        virtual = VirtualImages(scenario.pixels(new["x"]), real.y)
        gains.append(reached(virtual, seed) - reached(real, seed))
    assert mean(gains) > 2 * stdev(gains) > 0, gains
