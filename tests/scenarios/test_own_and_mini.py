import socket
import time
from dataclasses import replace

import pytest
import torch

from fedtutor.datasets import bundled as datasets
from fedtutor.errors import DataError, SettingError
from fedtutor.images import NO_LABEL, Images
from fedtutor.scenarios import mini
from fedtutor.scenarios.base import ClientData, Scenario, build

ALL = (
    ("digits-mini", {}),
    ("mnist-mini", {}),
    ("mnist-mini", {"partition": "dirichlet"}),
    ("mnist-mini", {"partition": "shards"}),
)


def some(count: int = 6, *, seed: int = 0, size: int = 4) -> Images:
    own = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 256, (count, 1, size, size), generator=own).to(torch.uint8)
    return Images(x, torch.arange(count) % 3, f"images {seed}")


def tiny(**changes) -> Scenario:
    parts = {
        "name": "tiny", "title": "noise", "num_classes": 3,
        "clients": (ClientData("a", "here", some(5, seed=1)), ClientData("b", "there", some(9))),
        "tests": {"here": some(seed=2), "there": some(seed=3)}, "public": some(4, seed=4),
        "mean": (0.5,), "std": (0.25,), "stand_in": True, "class_names": ("x", "y", "z"),
    }  # fmt: skip
    return Scenario(**{**parts, **changes})


# The two scenarios


def test_digits_mini():
    scenario = build("digits-mini")
    names = ["mnist", "optical", "street", "synthetic"]
    assert [client.id for client in scenario.clients] == names == list(scenario.tests)
    assert [client.domain for client in scenario.clients] == names
    assert (scenario.channels, scenario.image_size, scenario.num_classes) == (3, 32, 10)
    assert [client.private.counts(10) for client in scenario.clients] == [[32] * 10] * 4
    assert [test.counts(10) for test in scenario.tests.values()] == [[50] * 10] * 4
    assert len(scenario.public) == 512
    assert scenario.stand_in and "stand-in" in scenario.title
    assert scenario.mean == (0.485, 0.456, 0.406)  # ImageNet's, as in the papers' code


def test_mnist_mini():
    scenario = build("mnist-mini", num_clients=7, private_size=1000)
    assert [len(client.private) for client in scenario.clients] == [143] * 6 + [142]
    assert len({client.id for client in scenario.clients}) == 7
    assert scenario.tests["mnist"].counts(10) == [100] * 10
    assert scenario.public is None and not scenario.stand_in
    assert "5,000-image" in scenario.title and (scenario.channels, scenario.image_size) == (1, 28)


@pytest.mark.parametrize(
    ("name", "options", "fingerprint"),
    [
        ("digits-mini", {}, "550846c46bc2"),
        ("mnist-mini", {}, "3da876c0dbc5"),
        ("mnist-mini", {"partition": "dirichlet", "beta": 0.1, "num_clients": 5}, "448eb959c2e6"),
    ],
)
def test_known_fingerprints(name, options, fingerprint):
    assert build(name, **options).fingerprint == fingerprint


@pytest.mark.parametrize(("name", "options"), ALL)
def test_describe_is_one_short_line(name, options):
    scenario = build(name, **options)
    line = scenario.describe()
    assert line.startswith(f"{name}: {len(scenario.clients)} clients x ")
    assert scenario.title in line and line.endswith(scenario.fingerprint)
    assert "\n" not in line and len(line) <= 100


def test_describe_shows_the_range_of_unequal_clients():
    assert "2 clients x 5 to 9 · noise" in tiny().describe()


@pytest.mark.parametrize(("name", "options"), ALL)
def test_no_image_is_in_two_places(name, options):
    scenario = build(name, **options)
    parts = [client.private for client in scenario.clients] + list(scenario.tests.values())
    parts += [scenario.public] if scenario.public is not None else []
    pixels = [{image.numpy().tobytes() for image in part.x} for part in parts]
    assert len(set.union(*pixels)) == sum(len(part) for part in parts)


def numbered(images: Images) -> Images:
    """The same labels; the first two pixels of image i say i."""
    x = torch.zeros(len(images), 3, 32, 32, dtype=torch.uint8)
    x[:, 0, 0, 0], x[:, 0, 0, 1] = torch.arange(len(x)) // 256, torch.arange(len(x)) % 256
    return Images(x, images.y, images.source)


def numbers(images: Images) -> list[int]:
    return (images.x[:, 0, 0, 0].long() * 256 + images.x[:, 0, 0, 1]).tolist()


@pytest.mark.parametrize("split_seed", [0, 1])
def test_private_and_test_indices_are_disjoint(monkeypatch, split_seed):
    bundled = datasets.bundled
    monkeypatch.setattr(datasets, "to_rgb", numbered)
    monkeypatch.setattr(datasets, "bundled", lambda name: numbered(bundled(name)))
    scenario = build("digits-mini", private_size=500, split_seed=split_seed)
    for client, test in zip(scenario.clients, scenario.tests.values(), strict=True):
        assert len({*numbers(client.private), *numbers(test)}) == 1000

    sample = datasets.mnist_sample
    monkeypatch.setattr(datasets, "mnist_sample", lambda: numbered(sample()))
    monkeypatch.setattr(mini, "MNIST", mini.IMAGENET)
    scenario = build("mnist-mini", private_size=4000, split_seed=split_seed)
    everywhere = [i for client in scenario.clients for i in numbers(client.private)]
    assert sorted(everywhere + numbers(scenario.tests["mnist"])) == list(range(5000))


@pytest.mark.serial
@pytest.mark.parametrize(("name", "options"), ALL)
def test_loads_offline_and_fast(monkeypatch, name, options):
    def blocked(*_, **__):
        raise AssertionError("a scenario touched the network")

    for part in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, part, blocked)
    datasets._packaged_table.cache_clear()
    start = time.perf_counter()
    build(name, **options)
    assert time.perf_counter() - start < 2


@pytest.mark.parametrize("name", ["mnist-mini", "digits-mini"])
def test_a_split_seed_draws_private_images_and_leaves_the_others(name):
    def built(**options):
        return build(name, private_size=120, **options)

    torch.manual_seed(1)
    zero, one = built(split_seed=0), built(split_seed=1)
    assert built().fingerprint == zero.fingerprint != one.fingerprint
    for this, other in zip(zero.clients, one.clients, strict=True):
        assert this.private.fingerprint != other.private.fingerprint
    for test in zero.tests:
        assert zero.tests[test].fingerprint == one.tests[test].fingerprint
    if zero.public:
        assert zero.public.fingerprint == one.public.fingerprint


def test_digits_mini_stays_balanced_in_every_draw():
    for seed in range(3):
        for client in build("digits-mini", private_size=100, split_seed=seed).clients:
            assert client.private.y.bincount(minlength=10).tolist() == [10] * 10


def test_a_smaller_client_holds_the_first_images_of_a_larger_one():
    small, large = (build("digits-mini", private_size=size) for size in (100, 200))
    for a, b in zip(small.clients, large.clients, strict=True):
        assert torch.equal(a.private.x, b.private.x[:100])
    assert [test.fingerprint for test in small.tests.values()] == [
        test.fingerprint for test in large.tests.values()
    ]


# Names and options


def test_unknown_scenario_and_option():
    with pytest.raises(SettingError, match=r"unknown scenario 'digit-mini'.*\n.*\n.*digits-mini"):
        build("digit-mini")
    with pytest.raises(SettingError, match=r"'num_client'.*\n.*\n.*did you mean 'num_clients'"):
        build("mnist-mini", num_client=3)
    with pytest.raises(SettingError, match="unknown partition 'dirichlett'"):
        build("mnist-mini", partition="dirichlett")


@pytest.mark.parametrize("value", [0, -1, 2.0, "300", True, None])
def test_sizes_must_be_whole_numbers(value):
    for name, option in (("digits-mini", "private_size"), ("mnist-mini", "num_clients")):
        with pytest.raises(SettingError, match=rf"{option} = .*\n.*\n.*(integer|1 or more)"):
            build(name, **{option: value})


def test_fewer_images_than_asked():
    with pytest.raises(DataError, match="asked for 501 private images, 500 are left"):
        build("digits-mini", private_size=501)
    with pytest.raises(DataError, match="set private_size to at most 4000"):
        build("mnist-mini", private_size=4001)


def test_a_split_that_cannot_be_is_refused():
    with pytest.raises(SettingError, match="2000 images cannot give 300 clients 10 each"):
        build("mnist-mini", num_clients=300)
    for beta, rule in ((0, "above 0"), (-0.5, "above 0"), ("0.5", "a valid number")):
        with pytest.raises(SettingError, match=rf"beta = .*\n.*\n.*{rule}"):
            build("mnist-mini", partition="dirichlet", beta=beta)


def test_shards_by_one_word():
    scenario = build("mnist-mini", partition="shards", shards_per_client=1)
    assert "1 shard per client" in scenario.title
    assert [sum(n > 0 for n in client.private.counts(10)) for client in scenario.clients] == [
        1
    ] * 10
    other = build("mnist-mini", partition="shards", shards_per_client=2, split_seed=1)
    assert {len(client.private) for client in other.clients} == {200}
    with pytest.raises(SettingError, match="shards_per_client = 0"):
        build("mnist-mini", shards_per_client=0)


# What a scenario refuses

NOTHING = some(6)[:0]
RENAMED = (ClientData("a", "elsewhere", some(5)),)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clients": ()}, "no client or no test set"),
        ({"tests": {}}, "no client or no test set|channels"),
        ({"clients": (ClientData("a", "here", NOTHING),)}, "client a holds no image"),
        ({"clients": (ClientData("a", "here", some(5)),) * 2}, "two clients of one name"),
        ({"clients": RENAMED}, "domain of client a 'elsewhere'"),
        ({"tests": {"here": some(), "there": NOTHING}}, "test set there is empty"),
        ({"num_classes": 2}, "3 class names for 2 classes"),
        ({"num_classes": 2, "class_names": ("x", "y")}, "label 2 is out of range"),
        ({"mean": (0.5, 0.5)}, "for 1 channels"),
        ({"std": (0.0,)}, "std above 0"),
        ({"public": some(4, size=5)}, r"images \[1, 5, 5\], others \[1, 4, 4\]"),
    ],
)
def test_parts_that_do_not_fit(changes, message):
    with pytest.raises(DataError, match=message):
        tiny(**changes)


def test_public_images_need_no_label():
    unlabeled = Images(some().x, torch.full((6,), NO_LABEL), "public")
    assert len(tiny(public=unlabeled).public) == 6


def test_fingerprint_sees_every_part():
    scenario = tiny()
    a, b = scenario.clients
    others = [
        replace(scenario, clients=(b, a)), replace(scenario, public=None),
        replace(scenario, clients=(a, replace(b, domain="here"))),
        replace(scenario, tests=dict(reversed(scenario.tests.items()))),
        replace(scenario, public=some(4, seed=9)),
    ]  # fmt: skip
    assert len({scenario.fingerprint, *(other.fingerprint for other in others)}) == 6
    assert replace(scenario, title="other words").fingerprint == scenario.fingerprint
    assert scenario.to("cpu").fingerprint == scenario.fingerprint


# Normalization


def test_normalize_equals_the_formula():
    scenario = build("digits-mini")
    x = scenario.public.x[:3]
    before, out = x.clone(), scenario.normalize(x)
    assert out.dtype == torch.float32 and torch.equal(x, before)
    for channel in range(3):
        mean, std = scenario.mean[channel], scenario.std[channel]
        expected = (x[:, channel].double() / 255 - mean) / std
        assert (out[:, channel] - expected).abs().max() < 1e-5


def test_mnist_is_near_zero_mean_and_unit_variance():
    scenario = build("mnist-mini")
    out = scenario.normalize(scenario.tests["mnist"].x)
    assert abs(out.mean()) < 0.05 and abs(out.std() - 1) < 0.05


@pytest.mark.parametrize(
    "x",
    [
        torch.zeros(2, 1, 4, 4),
        torch.zeros(2, 3, 4, 4, dtype=torch.uint8),
        torch.zeros(4, 4).byte(),
    ],
)
def test_normalize_refuses_other_inputs(x):
    with pytest.raises(DataError, match=r"give uint8 \[batch, 1, height, width"):
        tiny().normalize(x)
