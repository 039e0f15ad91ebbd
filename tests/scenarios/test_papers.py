"""The scenarios of the papers, on small trees of their sets."""

import numpy as np
import pytest
import torch
from support import trees

from fedtutor import scenarios
from fedtutor.datasets.catalog import CORRUPTIONS, SETS
from fedtutor.errors import DataError, FedtutorError, SettingError
from fedtutor.images import NO_LABEL
from fedtutor.scenarios import corrupted, digits, photos
from fedtutor.scenarios.base import SCENARIOS, build
from fedtutor.scenarios.common import public_images
from fedtutor.scenarios.photos import stratified

REAL = [name for name in SCENARIOS if not name.endswith("-mini")]


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    import socket

    def blocked(*_, **__):
        raise OSError("the network is blocked")

    monkeypatch.setenv("FEDTUTOR_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("FEDTUTOR_CACHE", str(tmp_path / "cache"))
    for part in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, part, blocked)
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def put(data, name: str, count: int, size: int, channels: int = 3, classes: int = 10) -> None:
    """A train and a test set whose first two pixels number the images of both."""
    for start, split in ((0, "train"), (count, "test")):
        shape = (size, size, 3) if channels == 3 else (size, size)
        images = trees.pixels(count, *shape, seed=start)
        number = start + np.arange(count)
        images[:, 0, 0], images[:, 0, 1] = (
            (n[:, None] if channels == 3 else n) for n in (number // 256, number % 256)
        )
        trees.npz(data, name, split, images, trees.ten(count, classes))


def numbers(images) -> list[int]:
    return (images.x[:, 0, 0, 0].long() * 256 + images.x[:, 0, 0, 1]).tolist()


@pytest.fixture
def small_is_whole(monkeypatch):
    trees.small_is_whole(monkeypatch)


def test_without_data_and_network_each_fails_with_one_helpful_error():
    for name in REAL:
        with pytest.raises(DataError) as error:
            build(name)
        words = str(error.value)
        assert "get it from" in words and "FEDTUTOR_DATA" in words, name
        assert error.value.__cause__ is None and len(words.splitlines()) == 3, name
    for name in set(SCENARIOS) - set(REAL):
        assert build(name).clients


def test_the_table_of_the_papers():
    assert set(REAL) >= {
        "digits", "digits-partial", "digits-five", "office-caltech", "office31", "office-home",
        "cifar100-skew", "femnist-skew", "cifar10", "fashion-mnist", "mnist", "cifar10-c", "retina",
    }  # fmt: skip
    assert digits.SIZES["paper"] == (150, 80, 5000, 1800)  # FCCL+ Table V


def test_digits(data, small_is_whole, monkeypatch):
    monkeypatch.setitem(digits.SIZES, "paper", (15, 8, 50, 18))
    for name, size, channels in (("mnist", 28, 1), ("usps", 16, 1), ("svhn", 32, 3)):
        put(data, name, 60, size, channels)
    for folder in ("imgs_train", "imgs_valid"):
        trees.folders(data / "synthetic_digits" / folder, "0123456789", each=3)
    put(data, "cifar100", 200, 32, classes=100)
    scenario = build("digits", public_size=77)
    assert [c.id for c in scenario.clients] == ["mnist", "usps", "svhn", "syn"]
    assert [len(c.private) for c in scenario.clients] == [15, 8, 50, 18]
    assert [len(t) for t in scenario.tests.values()] == [60, 60, 60, 30]
    assert (scenario.channels, scenario.image_size) == (3, 32) and not scenario.stand_in
    assert len(scenario.public) == 77 and set(scenario.public.y.tolist()) == {NO_LABEL}
    assert scenario.title == "MNIST, USPS, SVHN, SYN; public CIFAR-100"
    svhn = scenario.clients[2].private
    assert len({*numbers(svhn), *numbers(scenario.tests["svhn"])}) == 110  # private is not test
    assert build("digits", public="none").public is None
    drawn = [build("digits", public_size=77, test_size=20, split_seed=seed) for seed in (0, 1)]
    one, other = ([c.private.fingerprint for c in scenario.clients] for scenario in drawn)
    assert not {*one} & {*other}  # every client draws others, tests and public images stay
    one, other = ([t.fingerprint for t in [*s.tests.values(), s.public]] for s in drawn)
    assert one == other


def test_digits_refuses_samples_and_digits_partial_says_what_they_are(data):
    for name, size, channels in (("mnist", 28, 1), ("usps", 16, 1), ("svhn", 32, 3)):
        put(data, name, 5000 if name == "svhn" else 160, size, channels)
    with pytest.raises(DataError, match=r"\n.*what is there is sample: 160 of 60,000"):
        build("digits")
    scenario = build("digits-partial", public="none")
    assert [len(c.private) for c in scenario.clients] == [150, 80, 5000, 500]
    assert scenario.stand_in and scenario.title.startswith("stand-in for digits")
    assert "SVHN (sample: 5,000 official test images)" in scenario.title
    assert list(scenario.tests) == ["mnist", "usps", "svhn", "synthetic"]


def test_digits_five(data, small_is_whole):
    for name, size, channels in (("mnist", 28, 1), ("usps", 16, 1), ("svhn", 32, 3),
                                 ("synth_digits", 32, 3), ("mnist_m", 32, 3)):  # fmt: skip
        put(data, name, 60, size, channels)
    scenario = build("digits-five")
    assert [c.id for c in scenario.clients] == ["mnist", "svhn", "usps", "synth_digits", "mnist_m"]
    assert {len(c.private) for c in scenario.clients} == {60} and scenario.image_size == 28
    assert scenario.mean == scenario.std == (0.5,) * 3 and not scenario.stand_in
    partial = build("digits-five-partial", private_size=20)
    assert list(partial.tests) == ["mnist", "svhn", "usps", "synthetic", "mnist_m"]
    assert {len(c.private) for c in partial.clients} == {20} and partial.stand_in


@pytest.mark.parametrize(
    ("name", "data_name", "options", "channels"),
    [
        ("cifar100-skew", "cifar100", {}, 3), ("cifar10", "cifar10", {"private_size": 300}, 3),
        ("mnist", "mnist", {"private_size": 300, "partition": "dirichlet"}, 1),
        ("mnist", "mnist", {"private_size": 300, "partition": "shards"}, 1),
        ("fashion-mnist", "fashion_mnist", {"private_size": None}, 1),
        ("femnist-skew", "emnist_digits", {"data": "emnist-digits"}, 1),
    ],
)  # fmt: skip
def test_one_set_dealt_to_clients(data, small_is_whole, name, data_name, options, channels):
    size, classes = (28, 10) if channels == 1 else (32, SETS[data_name].num_classes)
    put(data, data_name, 400, size, channels, classes)
    scenario = build(name, **{"num_clients": 4, **options})
    held = [i for client in scenario.clients for i in numbers(client.private)]
    assert len(held) == len(set(held)) == (options.get("private_size") or 400)
    assert max(held) < 400 <= min(numbers(scenario.tests[name]))
    assert len(scenario.tests[name]) == 400 and scenario.num_classes == classes
    assert (scenario.channels, scenario.image_size) == (channels, size)
    assert scenario.stand_in == (name == "femnist-skew")


def test_fewer_test_images_on_request(data, small_is_whole):
    put(data, "mnist", 400, 28, 1)
    scenario = build("mnist", private_size=300, test_size=50)
    assert len(scenario.tests["mnist"]) == 50 and "at most 50 test images" in scenario.title
    assert min(numbers(scenario.tests["mnist"])) >= 400
    assert len(build("mnist", private_size=300, test_size=500).tests["mnist"]) == 400
    with pytest.raises(SettingError, match="test_size = 0"):
        build("mnist", private_size=300, test_size=0)


def test_pixels_of_mnist_as_the_option_says(data, small_is_whole):
    put(data, "mnist", 400, 28, 1)
    x = torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1, 1)
    for norm, low, high in (("none", 0, 1), ("half", -1, 1), ("mnist", -0.4242, 2.8215)):
        scenario = build("mnist", private_size=300, norm=norm)
        assert scenario.normalize(x).flatten().tolist() == pytest.approx([low, high], abs=1e-4)
    with pytest.raises(SettingError, match="unknown norm 'halv'"):
        build("mnist", private_size=300, norm="halv")


@pytest.mark.parametrize("name", ("mnist", "fashion-mnist"))
def test_repshares_sets_can_take_the_first_images_of_the_file(name, data, small_is_whole):
    put(data, name.replace("-", "_"), 400, 28, 1)
    first = build(name, private_size=300, num_clients=2, draw="first")
    held = [number for client in first.clients for number in numbers(client.private)]
    assert sorted(held) == list(range(300)) and held != list(range(300))
    assert "its first images" in first.title
    with pytest.raises(SettingError, match="unknown draw 'last'"):
        build(name, private_size=300, draw="last")


def test_leaf_femnist(data):
    for split in ("train", "test"):
        trees.leaf(data, split, users=9)
    scenario = build("femnist-skew", num_clients=3, beta=5.0, min_per_client=2)
    assert scenario.num_classes == 10 and len(scenario.clients) == 3


def put_office(data, home: str, counts: dict, classes: int) -> None:
    for domain, each in counts.items():
        trees.folders(data / home / domain, [f"{c:02d}" for c in range(classes)], each=each)


@pytest.mark.parametrize(
    ("name", "home", "domains", "classes"),
    [
        ("office-caltech", "office_caltech_10", ("amazon", "caltech10", "dslr", "webcam"), 10),
        ("office31", "office31", ("amazon", "dslr", "webcam"), 31),
    ],
)
def test_office_splits(data, small_is_whole, name, home, domains, classes):
    put_office(data, home, dict.fromkeys(domains, 5), classes)
    total = 5 * classes
    pool = sum(i % 10 <= 7 for i in range(total))
    clean = build(name, public="none")
    leaky = build(name, public="none", split="leaky")
    assert len(clean.clients) == len(domains) and not clean.stand_in
    for scenario, tested in ((clean, total - pool), (leaky, total)):
        assert {len(c.private) for c in scenario.clients} == {int(0.48 * pool)}
        assert {len(t) for t in scenario.tests.values()} == {tested}
    for client in leaky.clients:  # the back of the sorted files is never trained on
        assert client.private.y.max() < classes - 1
    assert "LEAKY" in leaky.title and "clean" in clean.title


def test_office_sizes_are_those_of_table_v(monkeypatch):
    """The rule gives the printed numbers from the official counts."""
    printed = {"office_caltech10": (368, 431, 60, 113), "office31": (1082, 192, 305)}
    for name, sizes in printed.items():
        for domain, size in zip(SETS[name].splits, sizes, strict=True):
            total = SETS[name].counts[domain]
            assert int(0.48 * sum(i % 10 <= 7 for i in range(total))) == size
    fifths = [-(-SETS["office_caltech10"].counts[d] // 5) for d in SETS["office_caltech10"].splits]
    assert fifths == [192, 225, 32, 59]
    for domain, size in photos.OFFICE_HOME.items():
        assert size <= SETS["office_home"].counts[domain] - round(
            0.3 * SETS["office_home"].counts[domain])  # fmt: skip


def test_office_fedcsd_and_partial(data, small_is_whole):
    domains = ("amazon", "caltech", "dslr", "webcam")
    put_office(data, "office_caltech_10", dict.fromkeys(domains, 5), 10)
    scenario = build("office-caltech", split="fedcsd", image_size=16)
    assert [len(c.private) for c in scenario.clients] == [40] * 4 and scenario.public is None
    assert [t.counts(10) for t in scenario.tests.values()] == [[1] * 10] * 4
    partial = build("office-caltech-partial", public="none")
    assert partial.stand_in and partial.title.startswith("stand-in")


def test_office_home(data, small_is_whole, monkeypatch):
    names = {"art": 8, "clipart": 9, "product": 10, "real_world": 11}
    monkeypatch.setattr(photos, "OFFICE_HOME", dict.fromkeys(names, 260))
    home = "OfficeHomeDataset_10072016"
    put_office(data, home, {"Art": 6, "Clipart": 6, "Product": 6, "Real World": 6}, 65)
    clean, leaky = (build("office-home", public="none", split=s) for s in ("clean", "leaky"))
    for scenario in (clean, leaky):
        assert [len(c.private) for c in scenario.clients] == [260] * 4
        assert list(scenario.tests) == list(names)
    assert {len(t) for t in clean.tests.values()} == {117}
    assert {len(t) for t in leaky.tests.values()} == {390}
    drawn = build("office-home", public="none", split_seed=1)
    for client, other, domain in zip(clean.clients, drawn.clients, names, strict=True):
        assert client.private.fingerprint != other.private.fingerprint
        assert clean.tests[domain].fingerprint == drawn.tests[domain].fingerprint
    monkeypatch.setattr(photos, "OFFICE_HOME", dict.fromkeys(names, 280))
    with pytest.raises(DataError, match="art asks for 280 private images of 273"):
        build("office-home", public="none")


def test_cifar10_c(data):
    trees.cifar10_c(data, CORRUPTIONS, count=90)
    scenario = build("cifar10-c", severity=3, private_size=60, test_size=20, min_per_client=2)
    assert len(scenario.clients) == 57 and list(scenario.tests) == list(CORRUPTIONS)
    assert scenario.clients[4].id == "shot_noise-1" and scenario.clients[4].domain == "shot_noise"
    for number, name in enumerate(CORRUPTIONS):
        own = [c.private for c in scenario.clients if c.domain == name]
        assert sum(map(len, own)) == 60 and len(scenario.tests[name]) == 20
        assert {int(p.x.min()) for p in own} == {30 + number}  # severity 3, this corruption
    assert scenario.image_size == 28 and scenario.normalize(scenario.tests["fog"].x).max() <= 1
    with pytest.raises(DataError, match="asked for 80 private and 20 test images of 90"):
        build("cifar10-c", private_size=80, test_size=20)
    for wrong in (0, 6, "5", True):
        with pytest.raises(SettingError, match="severity = "):
            build("cifar10-c", severity=wrong)


def test_corrupted_test_images_are_the_same_for_every_draw():
    rows = [corrupted._rows(100, 60, 20, seed, "here") for seed in (0, 1, 2)]
    assert len({tuple(private.tolist()) for private, _ in rows}) == 3
    for private, test in rows:
        assert test.tolist() == rows[0][1].tolist()
        assert len({*private.tolist(), *test.tolist()}) == 80


def test_retina(data, monkeypatch):
    trees.retina(data, 10)
    sizes = dict.fromkeys(photos.RETINA_TESTS, 6)
    monkeypatch.setattr(photos, "RETINA_TESTS", sizes)
    scenario = build("retina")
    assert [c.id for c in scenario.clients] == ["drishti", "acrima", "rim", "refuge"]
    assert [t.counts(2) for t in scenario.tests.values()] == [[3, 3]] * 4
    assert scenario.image_size == 96 and scenario.class_names == ("normal", "glaucoma")


def test_stratified_splits():
    y = torch.tensor([0] * 50 + [1] * 30 + [2] * 7)
    rest, part = stratified(y, 29, np.random.default_rng(0))
    assert sorted([*rest.tolist(), *part.tolist()]) == list(range(87)) and len(part) == 29
    assert torch.bincount(y[part]).tolist() == [17, 10, 2]
    for count in (0, 87):
        with pytest.raises(DataError, match=f"asked for {count} of 87 images"):
            stratified(y, count, np.random.default_rng(0))


def test_public_images(data):
    put(data, "cifar10", 50, 32)
    a, b = (public_images("cifar10", 20, size=32) for _ in range(2))
    assert len(a) == 20 and set(a.y.tolist()) == {NO_LABEL} and a.fingerprint == b.fingerprint
    assert max(numbers(a)) < 50  # training images
    assert public_images("none", 20, size=32) is None
    with pytest.raises(DataError, match="asked for 51 images, there are 50"):
        public_images("cifar10", 51, size=32)
    with pytest.raises(SettingError, match="unknown public data 'cifar-100'"):
        public_images("cifar-100", 20, size=32)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("digits", {"sizes": "papers"}, "did you mean 'paper'"),
        ("office31", {"split": "clen"}, "did you mean 'clean'"),
        ("femnist-skew", {"data": "mnist"}, "unknown data"),
        ("digits-five-partial", {"mnist_m": "made"}, "unknown mnist_m"),
        ("mnist", {"betta": 1}, "did you mean 'beta'"),
        ("mnist", {"split_seed": -1}, "split_seed = -1"),
        ("office31", {"image_size": 0}, "image_size = 0"),
    ],
)
def test_wrong_options(name, options, message):
    with pytest.raises(FedtutorError, match=message):
        build(name, **options)


def test_more_than_there_is(data):
    put(data, "mnist", 40, 28, 1)
    with pytest.raises(DataError, match="asked for 1200 images, there are 40"):
        build("mnist")
    with pytest.raises(SettingError, match="40 images cannot give 50 clients 1 each"):
        build("mnist", private_size=40, num_clients=50, min_per_client=1)
    with pytest.raises(SettingError, match=r"beta = 0.*\n.*\n.*above 0"):
        build("mnist", private_size=40, num_clients=2, partition="dirichlet", beta=0)


def test_registering_another(own_tables):
    scenarios.register("mine")(SCENARIOS["mnist-mini"])
    assert scenarios.build("mine", num_clients=3).name == "mnist-mini"
