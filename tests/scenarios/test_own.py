"""`scenarios.of`: the same pixels whatever they come in, one clear error per mistake, one page."""

import io
import re
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset
from torchvision.datasets import ImageFolder

from fedtutor import Federation, Settings, methods, models, run, scenarios
from fedtutor.engine.files import ROOT
from fedtutor.errors import DataError, SettingError
from fedtutor.images import NO_LABEL, Images
from fedtutor.scenarios.partitions import held_out

pytestmark = pytest.mark.filterwarnings("ignore:.*among the training images")

PAGE = (ROOT / "fedtutor" / "scenarios" / "README.md").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch, own_tables):
    """An empty folder to work in, and a cache of its own."""
    monkeypatch.setenv("FEDTUTOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def drawn(count=12, height=9, width=9, color=False, classes=3, seed=0):
    """uint8 [n, h, w] or [n, h, w, 3] with a white pixel, and ascending labels."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 256, (count, height, width, *([3] if color else [])), dtype=np.uint8)
    x[:, 0, 0] = 255
    return x, np.sort(np.arange(count) % classes)


def last(scenario) -> Images:
    return scenario.clients[-1].private


# --- the same pixels, whatever they come in


class Samples(Dataset):
    """A Dataset as torchvision's: pictures of PIL, and `classes`."""

    classes = ("0", "1", "2")

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return Image.fromarray(self.x[i]), int(self.y[i])


class Table:
    """A table as Hugging Face's `datasets` (5.2.0) has it, as far as we look at it."""

    def __init__(self, x, y, names=None, image="img"):
        self.column_names = ["id", image, "label"]
        self.rows = [{"id": i, image: Image.fromarray(p), "label": int(c)}
                     for i, (p, c) in enumerate(zip(x, y, strict=True))]  # fmt: skip
        self.features = {"label": SimpleNamespace(names=names) if names else None}

    def __iter__(self):
        return iter(self.rows)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, key):
        return self.rows[key] if isinstance(key, int) else [row[key] for row in self.rows]


def encoded(pixels, kind="PNG") -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def in_folders(home: Path, x, y, *, end=".png") -> Path:
    for i, (pixels, label) in enumerate(zip(x, y, strict=True)):
        path = home / str(label) / f"{i:03d}{end}"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
    return home


def first(x):
    """Channels first."""
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2)) if x.ndim == 4 else x[:, None]


CONTAINERS = {
    "bytes": lambda x, y: (x, y),
    "a list of labels": lambda x, y: (x, y.tolist()),
    "texts": lambda x, y: (x, y.astype(str)),
    "channels first": lambda x, y: (first(x), y),
    "a tensor": lambda x, y: (torch.from_numpy(first(x)), torch.from_numpy(y)),
    "a tensor to 1": lambda x, y: (torch.from_numpy(first(x)) / 255, torch.from_numpy(y)),
    "half precision": lambda x, y: (torch.from_numpy(first(x) / 255).half(), y),
    "floats to 1": lambda x, y: (x / 255, y),
    "floats to 255": lambda x, y: (x.astype(np.float32), y),
    "whole numbers": lambda x, y: (x.astype(np.int64), y),
    "16 bit": lambda x, y: (x.astype(np.uint16) * 257, y),
    "32 bit to 65535": lambda x, y: (x.astype(np.int32) * 257, y),
    "12 bit": lambda x, y: (np.rint(x * (4095 / 255)).astype(np.uint16), y),
    "other bytes first": lambda x, y: ((x.astype(np.uint16) * 257).astype(">u2"), y),
    "Images": lambda x, y: Images(torch.from_numpy(first(x)), torch.from_numpy(y), "mine"),
    "a list of arrays": lambda x, y: (list(x), list(y)),
    "pairs": lambda x, y: list(zip(x, y, strict=True)),
    "pictures": lambda x, y: [(Image.fromarray(p), c) for p, c in zip(x, y, strict=True)],
    "a Dataset": Samples,
    "a Dataset of tensors":
        lambda x, y: TensorDataset(torch.from_numpy(first(x)) / 255, torch.from_numpy(y)),
    "a subset": lambda x, y: Subset(Samples(x, y), range(len(y))),
    "rows": lambda x, y: [{"image": p, "label": c} for p, c in zip(x, y, strict=True)],
    "a generator": lambda x, y: ((p, c) for p, c in zip(x, y, strict=True)),
    "a table of Hugging Face": Table,
    "a table with names": lambda x, y: Table(x, y, names=["0", "1", "2"], image="image"),
    "a table of pandas": lambda x, y: pd.DataFrame({"image": list(x), "label": y}),
    "a table of encoded images":
        lambda x, y: pd.DataFrame({"image": [{"bytes": encoded(p), "path": None} for p in x],
                                   "label": y}),
}  # fmt: skip


@pytest.mark.parametrize("kind", CONTAINERS)
@settings(max_examples=6)
@given(
    height=st.integers(6, 12), width=st.integers(6, 12), color=st.booleans(),
    seed=st.integers(0, 99), fit=st.sampled_from(["crop", "resize"]),
)  # fmt: skip
def test_equal_pixels_in_every_container(kind, height, width, color, seed, fit):
    x, y = drawn(9, height, width, color, seed=seed)
    options = {"size": 7, "fit": fit, "tests": (x, y), "classes": ["0", "1", "2"]}
    expected = scenarios.of({"a": (x, y)}, **options)
    white = {"white": 4095} if kind == "12 bit" else {}
    found = scenarios.of({"a": CONTAINERS[kind](x, y)}, **options, **white)
    assert torch.equal(last(found).x, last(expected).x)
    assert torch.equal(last(found).y, torch.from_numpy(y))
    assert found.fingerprint == expected.fingerprint


@pytest.mark.parametrize("end", [".png", ".bmp", ".tif", ".webp"])
@pytest.mark.parametrize("color", [False, True])
@pytest.mark.parametrize("size", [None, 6])
def test_a_folder_has_the_same_pixels(tmp_path, end, color, size):
    x, y = drawn(color=color or end == ".webp")
    home = tmp_path / "photos"
    if end == ".webp":
        for i, (pixels, label) in enumerate(zip(x, y, strict=True)):
            (home / str(label)).mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(home / str(label) / f"{i:03d}.webp", lossless=True)
    else:
        in_folders(home, x, y, end=end)
    expected = scenarios.of({"a": (x, y)}, size=size)
    for given_ in (home, str(home), home):  # the second and third time out of the cache
        assert scenarios.of({"a": given_}, size=size).fingerprint == expected.fingerprint
    assert len(list((tmp_path / "cache").rglob("*.npy"))) == (1 if size else 0)


def test_a_folder_that_changed_is_read_again(tmp_path):
    x, y = drawn()
    home = in_folders(tmp_path / "photos", x, y)
    read = [scenarios.of({"a": home}, tests=(x, y), size=6)]
    Image.fromarray(255 - x[0]).save(home / "0" / "000.png")
    read.append(scenarios.of({"a": home}, tests=(x, y), size=6))
    Image.fromarray(x[0]).save(home / "2" / "new.png")
    read.append(scenarios.of({"a": home}, tests=(x, y), size=6))
    assert [len(last(scenario)) for scenario in read] == [12, 12, 13]
    assert len({scenario.fingerprint for scenario in read}) == 3


def test_a_folder_of_16_bit_and_a_gray_one_beside_colors(tmp_path):
    x, y = drawn()
    deep = in_folders(tmp_path / "deep", x.astype(np.uint16) * 257, y)
    flat = scenarios.of({"a": (x, y)}, size=6)
    assert scenarios.of({"a": deep}, size=6).fingerprint == flat.fingerprint
    assert flat.channels == 1
    colored = scenarios.of({"a": deep, "b": drawn(color=True)}, size=6)
    first_, second = (client.private.x for client in colored.clients)
    assert colored.channels == 3 and not torch.equal(second[:, 0], second[:, 1])
    for channel in range(3):
        assert torch.equal(first_[:, channel], last(flat).x[:, 0])


def test_gray_and_color_in_one_list():
    gray, y = drawn()
    color, _ = drawn(color=True)
    mixed = [(gray[0], 0), (color[1], 1), (gray[2], 0), (color[3], 1)]
    x = last(scenarios.of({"a": mixed}, tests=(color, y))).x
    assert torch.equal(x[0], torch.from_numpy(gray[0]).expand(3, -1, -1))
    assert torch.equal(x[1], torch.from_numpy(color[1]).permute(2, 0, 1))


def test_a_photograph_is_turned_as_the_camera_was_held(tmp_path):
    x = np.zeros((8, 8), np.uint8)
    x[:, 0] = 200
    picture = Image.fromarray(x)
    marks = picture.getexif()
    marks[0x0112] = 6  # the camera was turned: left is up
    picture.save(tmp_path / "turned.png", exif=marks)
    pairs = [(tmp_path / "turned.png", 0), (x, 1)]
    turned, plain = last(scenarios.of({"a": pairs}, tests=pairs)).x[:, 0]
    assert (turned[0] == 200).all() and not turned[1:].any() and (plain[:, 0] == 200).all()


@pytest.mark.parametrize(
    ("mode", "color", "brightest"),
    [("1", False, 255), ("L", False, 255), ("LA", False, 255), ("P", True, 255),
     ("RGBA", True, 255), ("CMYK", True, 255), ("F", False, 255), ("I", False, 255)],
)  # fmt: skip
def test_every_mode_of_pil(mode, color, brightest):
    x, y = drawn(color=color)
    pairs = [(Image.fromarray(p).convert(mode), c) for p, c in zip(x, y, strict=True)]
    for white in (None, 255):
        scenario = scenarios.of({"a": pairs}, tests=pairs, white=white)
        assert scenario.channels == (3 if color else 1) and last(scenario).x.max() == brightest


# --- which value is white

AMBIGUOUS = [
    ("below 0", np.linspace(-1, 1, 64), "a pixel is -1.*\n.*\n.*before any normalization"),
    ("not a number", np.array([0.5, np.nan] * 32), "nan or infinite"),
    ("infinite", np.array([0.5, np.inf] * 32), "nan or infinite"),
    ("a little above 1", np.linspace(0, 1.5, 64), "brightest pixel is 1.5.*\n.*\n.*white=1.5"),
    ("counted to 16", np.linspace(0, 16, 64), "brightest pixel is 16.*\n.*\n.*white=16"),
    ("floats of 12 bit", np.linspace(0, 4095, 64), "a pixel is 4095, above white, which is 255"),
    ("12 bit", np.arange(64, dtype=np.uint16) * 65, "brightest pixel is 4095.*\n.*\n.*white=4095"),
    ("bytes in 16 bit", np.arange(64, dtype=np.uint16) * 4, "brightest pixel is 252"),
    ("the same, other byte first", (np.arange(64) * 4).astype(">u2"), "brightest pixel is 252"),
    ("above 16 bit", np.arange(64) * 9999, "above white, which is 65535"),
    ("0 and 1", np.arange(64) % 2, "brightest pixel is 1"),
    ("bytes of 0 and 1", (np.arange(64) % 2).astype(np.uint8), "brightest pixel is 1"),
    ("texts", np.full(64, "0"), "the pixels are <U1"),
]


@pytest.mark.parametrize(("values", "message"), [row[1:] for row in AMBIGUOUS],
                         ids=[row[0] for row in AMBIGUOUS])  # fmt: skip
def test_what_can_be_read_in_two_ways_is_refused(values, message):
    x = np.broadcast_to(values.reshape(8, 8), (6, 8, 8))
    with pytest.raises(DataError, match=message) as raised:
        scenarios.of({"ann": (x, np.arange(6) % 2)})
    assert raised.value.where == "images of ann"


@pytest.mark.parametrize(
    ("values", "white"),
    [(np.arange(64) % 2, 1), (np.linspace(0, 1.5, 64), 1.5), (np.arange(64) % 17, 16),
     (np.arange(64, dtype=np.uint16) * 65, 4095), (np.linspace(0, 1, 64), 255),
     ((np.arange(64) % 2).astype(np.uint8), 255), (np.arange(64, dtype=np.uint16) * 4, 65535)],
)  # fmt: skip
def test_white_says_it(values, white):
    x = np.broadcast_to(values.reshape(8, 8), (6, 8, 8)).copy()
    x[:, 0, 0] = white if white < 256 and x.dtype != np.uint16 else x[0, 0, 0]
    found = last(scenarios.of({"ann": (x, np.arange(6) % 2)}, white=white)).x[0, 0]
    assert torch.equal(found, torch.from_numpy(np.rint(x[0] / white * 255)).byte())


def test_images_of_one_container_have_to_agree():
    x, y = drawn()
    floats = x.astype(np.float32)
    floats[3] /= 255
    with pytest.raises(DataError, match=r"some images reach 1 and others 255.*\n.*\n.*white=255"):
        scenarios.of({"a": (floats, y)})
    floats[3] = 0  # a black image fits both
    assert not last(scenarios.of({"a": (floats, y)}, tests=(x, y))).x[3].any()
    eight_and_sixteen = [(x[0], 0), (x[0].astype(np.uint16) * 257, 1)]
    one, two = last(scenarios.of({"a": eight_and_sixteen}, tests=(x, y))).x
    assert torch.equal(one, two)


# --- size


def test_crop_cuts_the_middle_and_resize_keeps_the_borders():
    x = np.zeros((4, 8, 14), np.uint8)
    x[:, :, 0], x[:, :, 13], x[:, :, 3], x[:, :, 10] = 200, 200, 90, 90
    held = {"a": (x, [0, 0, 1, 1])}
    cut = last(scenarios.of(held, size=8)).x[0, 0]
    assert cut.shape == (8, 8) and (cut[:, 0] == 90).all() and (cut[:, 7] == 90).all()
    assert not cut[:, 1:7].any()
    whole = last(scenarios.of(held, size=8, fit="resize")).x[0, 0]
    expected = np.asarray(Image.fromarray(x[0]).resize((8, 8), Image.Resampling.BILINEAR))
    assert torch.equal(whole, torch.from_numpy(expected.copy())) and (whole[:, 0] > 90).all()
    upright = scenarios.of({"a": (x.transpose(0, 2, 1), [0, 0, 1, 1])}, size=8)
    assert torch.equal(last(upright).x[0, 0], cut.T)


def test_photographs_of_many_sizes_become_one():
    rng = np.random.default_rng(0)
    shapes = [(40, 30), (30, 40), (17, 17), (5, 60)]
    pairs = [(rng.integers(0, 256, s, dtype=np.uint8), i % 2) for i, s in enumerate(shapes)]
    assert last(scenarios.of({"a": pairs}, tests=pairs, size=12)).x.shape == (4, 1, 12, 12)
    with pytest.raises(DataError, match=r"4 sizes, such as 5 x 60 and 17 x 17.*\n.*\n.*size=32"):
        scenarios.of({"a": pairs})


# --- mean and deviation, public images, what a Scenario is


def test_mean_and_deviation_are_those_of_the_training_images():
    x, y = drawn(color=True)
    bright = np.full_like(x, 250)
    scenario = scenarios.of({"a": (x[:7], y[:7]), "b": (x[7:], y[7:])}, tests=(bright, y),
                            public=bright)  # fmt: skip
    pixels = x.reshape(-1, 3) / 255
    assert np.allclose(scenario.mean, pixels.mean(0), atol=1e-6)
    assert np.allclose(scenario.std, pixels.std(0), atol=1e-6)
    seen = torch.cat([scenario.normalize(client.private.x) for client in scenario.clients])
    assert seen.mean().abs() < 1e-4 and abs(seen.std() - 1) < 1e-3


@pytest.mark.parametrize("kind", ["array", "pair", "folder", "dataset", "list", "table"])
def test_public_images_have_no_label(tmp_path, kind):
    x, y = drawn(seed=1)
    flat = tmp_path / "flat"
    flat.mkdir()
    for i, pixels in enumerate(x):
        Image.fromarray(pixels).save(flat / f"{i:02d}.png")
    public = {"array": x, "pair": (x, -np.ones(12, int)), "folder": flat, "dataset": Samples(x, y),
              "list": list(x), "table": pd.DataFrame({"image": list(x)})}[kind]  # fmt: skip
    found = scenarios.of({"a": drawn()}, public=public).public
    assert torch.equal(found.x[:, 0], torch.from_numpy(x)) and (found.y == NO_LABEL).all()


def test_the_words_of_a_scenario_say_what_it_is():
    x, y = drawn(60)
    scenario = scenarios.of((x, y), clients=3, partition="dirichlet", beta=0.5, public=x[:5],
                            name="mine")  # fmt: skip
    assert scenario.title == "own images, Dirichlet(0.5) split, 20 % held out; public own images"
    assert scenario.name == "mine" and not scenario.stand_in
    assert [client.id for client in scenario.clients] == ["client-0", "client-1", "client-2"]
    assert {client.domain for client in scenario.clients} == set(scenario.tests) == {"test"}
    assert sum(len(client.private) for client in scenario.clients) == 48
    assert scenario.tests["test"].counts(3) == [4, 4, 4]


# --- labels


def labels_of(y, **options):
    x, _ = drawn(len(y))
    scenario = scenarios.of({"a": (x, y)}, tests=(x, y), **options)
    return scenario.class_names, last(scenario).y.tolist()


def test_labels_that_occur_are_the_classes():
    assert labels_of([3, 0, 1, 3]) == (("0", "1", "3"), [2, 0, 1, 2])
    assert labels_of([10, 9, 100]) == (("9", "10", "100"), [1, 0, 2])
    assert labels_of(["dog", "cat", "dog"]) == (("cat", "dog"), [1, 0, 1])
    assert labels_of(["10", "9", "x"]) == (("9", "10", "x"), [1, 0, 2])
    assert labels_of(np.array([True, False])) == (("0", "1"), [1, 0])
    x, _ = drawn(2)
    both = scenarios.of({"a": (x, ["10", "3"]), "b": (x, [3, 10])}, tests=(x, [3, 5]))
    assert both.class_names == ("3", "5", "10") and last(both).y.tolist() == [0, 2]


def test_given_classes_count_what_does_not_occur():
    names = ["bird", "cat", "dog"]
    assert labels_of([2, 0], classes=names) == (tuple(names), [2, 0])
    assert labels_of(["dog", "bird"], classes=names) == (tuple(names), [2, 0])
    assert labels_of(["dog", "bird"], classes=["dog", "bird"])[1] == [0, 1]


def test_names_that_come_with_a_set_keep_their_order():
    x, _ = drawn(4)
    names = ["zebra", "ant", "bear"]
    scenario = scenarios.of({"a": Table(x, [0, 2, 0, 2], names)}, tests=(x, [2, 0, 0, 2]))
    assert scenario.class_names == tuple(names) and last(scenario).y.tolist() == [0, 2, 0, 2]
    assert scenario.tests["test"].y.tolist() == [2, 0, 0, 2]


def test_a_subset_has_the_names_of_its_set():
    x, y = drawn()
    named = Samples(x, y)
    named.classes = ("zebra", "ant", "bear", "cow")  # more than occur
    twice = Subset(Subset(named, range(12)), [0, 11])
    scenario = scenarios.of({"a": twice}, tests=twice)
    assert scenario.class_names == named.classes and last(scenario).y.tolist() == [0, 2]


def test_equal_numbers_of_other_names_are_other_classes():
    """Each owner's ImageFolder counts its own sub-folders from 0."""
    x, _ = drawn(2)
    held = {"a": Table(x, [0, 1], ["cat", "dog"]), "b": Table(x, [0, 1], ["bird", "cat"])}
    scenario = scenarios.of(held, tests=(x, ["dog", "cat"]))
    assert scenario.class_names == ("bird", "cat", "dog")
    assert [client.private.y.tolist() for client in scenario.clients] == [[1, 2], [0, 1]]
    with pytest.raises(DataError, match=r"labels are numbers, those of others have names"):
        scenarios.of(held, tests=(x, [0, 1]))
    for texts in (["cat", "dog"], ["00", "01"]):
        with pytest.raises(DataError, match=r"labels are numbers, those of others have names"):
            scenarios.of({"a": (x, texts), "b": (x, [0, 1])}, tests=(x, texts))


# --- test sets


def test_a_share_is_held_out_of_each_client():
    x, y = drawn(60)
    held = {"a": (x, y), "b": (x[:30], y[:30])}
    scenario = scenarios.of(held, tests=0.25)
    assert list(scenario.tests) == ["a", "b"]
    assert [client.domain for client in scenario.clients] == ["a", "b"]
    for client, count in zip(scenario.clients, (60, 30), strict=True):
        test = scenario.tests[client.id]
        assert len(test) == round(count / 4) and len(client.private) == count - len(test)
        both = torch.cat([client.private.x, test.x]).flatten(1)
        assert len(both.unique(dim=0)) == count  # each image is in one of the two
        whole = np.bincount(held[client.id][1], minlength=3)
        assert np.abs(np.array(test.counts(3)) - whole / 4).max() < 1


def test_the_split_depends_on_the_seed_and_on_no_other_client():
    x, y = drawn(60)
    one = scenarios.of({"a": (x, y)})
    two = scenarios.of({"b": (x[::-1].copy(), y), "a": (x, y)})
    assert one.tests["a"].fingerprint == two.tests["a"].fingerprint
    assert two.tests["a"].fingerprint != two.tests["b"].fingerprint
    assert scenarios.of({"a": (x, y)}, split_seed=1).fingerprint != one.fingerprint
    for tests in (0.2, (x, y)):
        dealt = [scenarios.of((x, y), tests=tests, clients=4, split_seed=seed).fingerprint
                 for seed in (0, 0, 1)]  # fmt: skip
        assert dealt[0] == dealt[1] != dealt[2]


def test_a_class_of_one_image_stays_to_be_learned():
    x, y = drawn(21)
    y[:] = 0
    y[20] = 1
    scenario = scenarios.of({"a": (x, y)}, tests=0.5)
    assert last(scenario).counts(2) == [10, 1] and scenario.tests["a"].counts(2) == [10, 0]


@given(st.lists(st.integers(0, 5), max_size=60), st.floats(0.01, 0.99))
def test_held_out_is_in_proportion(labels, share):
    y = torch.tensor(labels, dtype=torch.int64)
    kept, held = held_out(y, share, np.random.default_rng(0))
    assert sorted([*kept.tolist(), *held.tolist()]) == list(range(len(y)))
    assert (kept.diff() > 0).all() and (held.diff() > 0).all()
    for label in y.unique():
        count, out = int((y == label).sum()), int((y[held] == label).sum())
        assert out < count and abs(out - share * count) <= 1
    assert len(held) <= round(share * len(y))
    roomy = all(share * c < c - 1 for c in y.unique(return_counts=True)[1].tolist())
    assert not roomy or len(held) == round(share * len(y))


def test_a_clients_own_column_is_that_of_its_name_or_the_only_one():
    x, y = drawn()
    held = {"a": (x, y), "b": (x, y)}
    named = scenarios.of(held, tests={"c": (x, y), "b": (x, y), "a": (x, y)})
    assert [client.domain for client in named.clients] == ["a", "b"]
    assert list(named.tests) == ["c", "b", "a"]
    only = scenarios.of(held, tests={"all": (x, y)})
    assert [client.domain for client in only.clients] == ["all", "all"]
    assert list(scenarios.of(held, tests=(x, y)).tests) == ["test"]
    with pytest.raises(DataError, match=r"unknown test set 'b'.*\n.*client b\n.*choose.*a, c"):
        scenarios.of(held, tests={"a": (x, y), "c": (x, y)})


def test_label_skew_by_one_word():
    x, y = drawn(300)
    counts = {}
    for beta in (0.05, 1000.0):
        dealt = scenarios.of((x, y), clients=5, partition="dirichlet", beta=beta)
        counts[beta] = np.array([client.private.counts(3) for client in dealt.clients])
        assert counts[beta].sum(0).tolist() == [80, 80, 80]
    assert counts[0.05].std(0).min() > 3 * counts[1000.0].std(0).max()


def test_shards_of_a_set_of_ones_own():
    x, y = drawn(60)
    dealt = scenarios.of((x, y), clients=3, partition="shards", shards_per_client=1)
    assert sorted(client.private.counts(3) for client in dealt.clients) == [
        [0, 0, 16],
        [0, 16, 0],
        [16, 0, 0],
    ]
    assert "1 shard per client" in dealt.title


# --- mistakes, each with one clear error

X, Y = drawn()
ONE = {"a": (X, Y)}
MISTAKES = [
    ("nobody", lambda: scenarios.of({}), "the table is empty"),
    ("a client's name as a number", lambda: scenarios.of({1: (X, Y)}), "1 is no name"),
    ("a client without a name", lambda: scenarios.of({" ": (X, Y)}), "is no name"),
    ("the server", lambda: scenarios.of({"server": (X, Y)}), "another id"),
    ("one set for nobody", lambda: scenarios.of((X, Y)), "clients=10"),
    ("no client", lambda: scenarios.of((X, Y), clients=0), "clients = 0"),
    ("clients said twice", lambda: scenarios.of(ONE, clients=3), "leave them out"),
    ("skew of owners", lambda: scenarios.of(ONE, partition="dirichlet"), "leave them out"),
    ("a partition that is none",
     lambda: scenarios.of((X, Y), clients=2, partition="dirichlett"), "did you mean 'dirichlet'"),
    ("beta of 0", lambda: scenarios.of((X, Y), clients=2, beta=0), "beta = 0"),
    ("no shard", lambda: scenarios.of((X, Y), clients=2, shards_per_client=0), "1 or more"),
    ("too many shards",
     lambda: scenarios.of((X, Y), clients=5, partition="shards", shards_per_client=9), "more im"),
    ("beta as a text", lambda: scenarios.of((X, Y), clients=2, beta="0.5"), "beta = '0.5'"),
    ("too many clients", lambda: scenarios.of((X, Y), clients=99), "99 clients"),
    ("a skew that cannot be",
     lambda: scenarios.of((X, Y), clients=5, partition="dirichlet", beta=1e-4, min_per_client=2),
     "raise beta"),
    ("a minimum of 0", lambda: scenarios.of((X, Y), clients=2, min_per_client=0), "1 or more"),
    ("columns for clients", lambda: scenarios.of({"image": X, "label": Y}), "a pair"),
    ("splits for clients",
     lambda: scenarios.of({"train": (X, Y), "test": (X, Y)}), 'tests=data["test"]'),
    ("an empty client", lambda: scenarios.of({"a": (X, Y), "b": (X[:0], Y[:0])}), "no image"),
    ("an empty list", lambda: scenarios.of({"a": []}), "no image"),
    ("an empty test set", lambda: scenarios.of(ONE, tests=(X[:0], Y[:0])), "no image"),
    ("no test set", lambda: scenarios.of(ONE, tests={}), "the table is empty"),
    ("tests that are nothing", lambda: scenarios.of(ONE, tests=None), "None holds no images"),
    ("a share of 0", lambda: scenarios.of(ONE, tests=0.0), "tests = 0.0"),
    ("a share in percent", lambda: scenarios.of(ONE, tests=20), "such as 0.2"),
    ("a share that is true", lambda: scenarios.of(ONE, tests=True), "tests = True"),
    ("a share that holds nothing", lambda: scenarios.of(ONE, tests=0.01), "is none"),
    ("a share of single images",
     lambda: scenarios.of({"a": (X[:3], [0, 1, 2])}, tests=0.5), "3 images is none"),
    ("a size of 0", lambda: scenarios.of(ONE, size=0), "size = 0"),
    ("a size of two numbers", lambda: scenarios.of(ONE, size=(32, 32)), "size = (32, 32)"),
    ("an unknown fit", lambda: scenarios.of(ONE, size=8, fit="corp"), "did you mean 'crop'"),
    ("white of 0", lambda: scenarios.of(ONE, white=0), "white = 0"),
    ("white as a text", lambda: scenarios.of(ONE, white="255"), "white = '255'"),
    ("a white too dark", lambda: scenarios.of(ONE, white=100), "larger white"),
    ("a seed below 0", lambda: scenarios.of(ONE, split_seed=-1), "split_seed = -1"),
    ("one class", lambda: scenarios.of({"a": (X, Y * 0)}), "two classes"),
    ("classes as one text", lambda: scenarios.of(ONE, classes="012"), "classes = '012'"),
    ("a class as a number", lambda: scenarios.of(ONE, classes=("a", "b", 2)), "different names"),
    ("one class named", lambda: scenarios.of(ONE, classes=["a"]), "different names"),
    ("a class named twice", lambda: scenarios.of(ONE, classes=["a", "b", "a"]), "different names"),
    ("too few classes", lambda: scenarios.of(ONE, classes=["a", "b"]), "label 2 is behind"),
    ("a misspelt class",
     lambda: scenarios.of({"a": (X, ["cat", "dgo"] * 6)}, classes=["cat", "dog"]), "mean 'dog'"),
    ("a label below 0", lambda: scenarios.of({"a": (X, Y - 1)}), "label -1"),
    ("labels as floats", lambda: scenarios.of({"a": (X, Y / 2)}), "a label is a float, 0.0"),
    ("one-hot labels", lambda: scenarios.of({"a": (X, np.eye(3)[Y])}), "labels.argmax(1)"),
    ("a vector for a label",
     lambda: scenarios.of({"a": [(X[0], np.eye(3)[0]), (X[1], np.eye(3)[1])]}), "a whole number"),
    ("texts and numbers", lambda: scenarios.of({"a": [(X[0], 0), (X[1], "cat")]}), "all as texts"),
    ("no labels", lambda: scenarios.of({"a": X}), "give (images, labels)"),
    ("a Dataset of images", lambda: scenarios.of({"a": list(X)}), "without a label"),
    ("a Dataset of single tensors",
     lambda: scenarios.of({"a": TensorDataset(torch.tensor(X))}), "without a label"),
    ("a label too few", lambda: scenarios.of({"a": (X, Y[1:])}), "12 images and 11 labels"),
    ("a DataLoader", lambda: scenarios.of({"a": DataLoader(Samples(X, Y))}), "loader.dataset"),
    ("a number for images", lambda: scenarios.of({"a": 3}), "a torch Dataset, a pair"),
    ("a scenario", lambda: scenarios.of({"a": scenarios.build("mnist-mini")}), "holds no images"),
    ("a folder that is not there", lambda: scenarios.of({"a": "nowhere"}), "nowhere is no folder"),
    ("a table without images",
     lambda: scenarios.of({"a": pd.DataFrame({"pixels": list(X), "label": Y})}),
     "rename one of its columns: pixels, label"),
    ("a table without labels",
     lambda: scenarios.of({"a": pd.DataFrame({"image": list(X), "fine_label": Y})}), "'label'"),
    ("rows without images", lambda: scenarios.of({"a": [{"x": X[0], "label": 0}]}), "'image' or"),
    ("a missing image",
     lambda: scenarios.of({"a": pd.DataFrame({"image": [None] * 12, "label": Y})}), "a NoneType"),
    ("a path to nothing", lambda: scenarios.of({"a": [("a.png", 0)]}), "a.png is not there"),
    ("bytes of something else", lambda: scenarios.of({"a": [(b"hello", 0)]}), "no image"),
    ("two channels", lambda: scenarios.of({"a": (np.zeros((4, 8, 8, 2), "u1"), [0] * 4)}),
     "neither one channel nor three"),
    ("four channels", lambda: scenarios.of({"a": (np.zeros((4, 8, 8, 4), "u1"), [0] * 4)}),
     "1 or 3 channels"),
    ("three or three", lambda: scenarios.of({"a": (np.zeros((4, 3, 9, 3), "u1"), [0] * 4)}),
     "can be read both ways"),
    ("flat images", lambda: scenarios.of({"a": (np.zeros((4, 64), "u1"), [0] * 4)}), "[4, 64]"),
    ("a flat image", lambda: scenarios.of({"a": [(np.zeros(64), 0)]}), "images [64]"),
    ("not square", lambda: scenarios.of({"a": (X[:, :6], Y)}), "6 x 9"),
    ("two owners of two sizes",
     lambda: scenarios.of({"a": (X, Y), "b": (X[:, :6, :6], Y)}), "6 x 6 (images of b)"),
    ("public images of another size", lambda: scenarios.of(ONE, public=X[:, :6, :6]), "size="),
    ("images of one brightness", lambda: scenarios.of({"a": (X * 0, Y)}), "one brightness"),
]  # fmt: skip


@pytest.mark.parametrize(("do", "message"), [row[1:] for row in MISTAKES],
                         ids=[row[0] for row in MISTAKES])  # fmt: skip
def test_a_mistake_is_one_clear_error(do, message):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises((DataError, SettingError)) as raised:
            do()
    error = raised.value
    assert message in str(error)
    assert error.what and error.where and error.do and len(str(error)) < 500


def test_a_folder_of_owners_is_no_set_of_classes(tmp_path):
    for owner in ("anna", "ben"):
        (tmp_path / owner).mkdir()
        in_folders(tmp_path / owner, X, Y)
    with pytest.raises(DataError, match=r"anna and ben have the same sub-folders.*owners, not"):
        scenarios.of(tmp_path, clients=2)
    assert len(scenarios.of({k: tmp_path / k for k in ("anna", "ben")}).clients) == 2
    (tmp_path / "ben" / "0").rename(tmp_path / "ben" / "other")
    assert scenarios.of(tmp_path, clients=2).class_names == ("anna", "ben")  # of classes, deeper


@pytest.mark.parametrize("where, change, words", [
    ("test", {"tests": (X[:2], Y[:2])}, "test set test: 2 of 2 images"),
    ("public", {"public": X[3:6]}, "public: 3 of 3 images"),
    ("none", {"public": 255 - X}, None),
])  # fmt: skip
def test_images_on_both_sides_are_told(where, change, words):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scenarios.of({"a": (X, Y)}, **{"tests": (255 - X, Y)} | change)
    told = [str(w.message) for w in caught if "among the training images" in str(w.message)]
    assert [words in text for text in told] == ([True] if words else [])
    assert all(w.filename == __file__ for w in caught if "among" in str(w.message))


def test_public_images_need_no_classes():
    with pytest.raises(DataError, match=r"cifar100 is no folder[\s\S]*give a folder of images"):
        scenarios.of({"a": (X, Y)}, public="cifar100")


@pytest.mark.parametrize("size", [None, 8])
def test_mistakes_in_a_folder(tmp_path, size):
    def refused(message):
        with pytest.raises(DataError, match=message):
            scenarios.of({"a": home}, size=size)

    home = tmp_path / "photos"
    home.mkdir()
    refused("there is no image")
    in_folders(home, X, Y)
    (home / "0" / ".hidden.jpg").write_bytes(b"no image")
    (home / "notes.txt").write_text("taken in May")
    assert len(last(scenarios.of({"a": home}, size=size))) == 10
    Image.fromarray(X[0]).save(home / "loose.png")
    refused(r"loose.png lies in no folder of a class \(1 of 13 images\)")
    (home / "loose.png").rename(home / "0" / "loose.HEIC")
    refused(r"loose.HEIC cannot be opened \(1 files\).*\n.*\n.*JPEG or PNG")
    (home / "0" / "loose.HEIC").unlink()
    whole = (home / "0" / "000.png").read_bytes()
    (home / "0" / "000.png").write_bytes(whole[:60])
    refused("000.png is damaged, or no image")


# --- a network of one's own, and the examples of the page


def test_a_network_is_split_and_drawn_from_our_generator(own_tables):
    """A network of torchvision without its last layer, as most people bring one."""
    from torchvision.models import squeezenet1_1

    def features(in_channels, image_size):
        network = squeezenet1_1()
        network.classifier = torch.nn.Identity()
        return network

    models.register("mine", models.Architecture(features, "torchvision", smallest=32))
    before = torch.get_rng_state()
    made = [models.build("mine", num_classes=5, generator=torch.Generator().manual_seed(seed))
            for seed in (0, 0, 1)]  # fmt: skip
    assert torch.equal(before, torch.get_rng_state())
    one, two, other = (network.eval() for network in made)
    x = torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    assert one.features(x).shape == (3, one.feature_size) == (3, 512)
    assert torch.equal(one(x), one.classifier(one.features(x))) and one(x).shape == (3, 5)
    assert torch.equal(one(x), two(x)) and not torch.equal(one(x), other(x))
    assert {name for name, _ in one.named_children()} == {"body", "classifier"}


def test_weights_that_a_network_brings_are_drawn_anew(own_tables):
    """The page says so; PyTorch warns that nothing is copied."""
    kept = torch.nn.Conv2d(3, 4, 3).state_dict()

    def features(in_channels, image_size):
        first_ = torch.nn.Conv2d(in_channels, 4, 3)
        first_.load_state_dict(kept)
        return torch.nn.Sequential(first_, models.layers.GlobalAverage())

    with pytest.warns(UserWarning, match="no-op"):
        models.register("mine", models.Architecture(features, "ours", smallest=4))
        made = models.build("mine", num_classes=2, generator=torch.Generator())
    assert not torch.equal(made.body[0].weight, kept["weight"])


def photographs(home: Path, count: int, classes, rng, *, height=36, width=48) -> None:
    """Learnable color photographs: a class is a brighter channel."""
    for i in range(count):
        label = i % len(classes)
        x = rng.integers(0, 120, (height + i % 5, width, 3), dtype=np.uint8)
        x[..., label] += 130
        (home / classes[label]).mkdir(parents=True, exist_ok=True)
        Image.fromarray(x).save(home / classes[label] / f"{i}.jpg")


def what_the_examples_need() -> None:
    rng = np.random.default_rng(0)
    for owner in ("alice", "bob", "carol"):
        photographs(Path("photos", owner), 200, ("cat", "dog", "fox"), rng)
    photographs(Path("street"), 64, ("a", "b", "c"), rng)
    for part, count in (("train", 150), ("test", 30)):
        photographs(Path("flowers", part), count, ("rose", "tulip", "iris"), rng,
                    height=40, width=40)  # fmt: skip
    rows = []
    for hospital in ("north", "south"):
        for i in range(24):
            x = rng.integers(0, 2000, (30, 20)).astype(np.uint16) + np.uint16(2000 * (i % 2))
            path = Path("scans", f"{hospital}-{i}.png")
            path.parent.mkdir(exist_ok=True)
            Image.fromarray(x).save(path)
            rows.append((hospital, str(path), i % 2))
    pd.DataFrame(rows, columns=["hospital", "image", "label"]).to_csv("scans.csv", index=False)


def test_the_examples_of_the_page(capsys):
    what_the_examples_need()
    examples = re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)
    assert len(examples) == 5
    spaces = []
    for number, example in enumerate(examples):
        path = Path(f"example_{number}.py").resolve()
        path.write_text(example, encoding="utf-8")
        if not example.startswith("@"):  # else it goes on from the one before
            spaces.append({"__name__": path.stem})
        exec(compile(example, path, "exec"), spaces[-1])

    digits, photos, flowers, scans = spaces
    assert len(digits["mine"].clients) == 5 and digits["mine"].image_size == 16
    assert np.mean(digits["accuracy"]) > 0.3  # a tenth is chance
    scenario = photos["scenario"]
    assert [client.id for client in scenario.clients] == ["alice", "bob", "carol"]
    assert [len(client.private) for client in scenario.clients] == [160] * 3
    assert scenario.class_names == ("cat", "dog", "fox") and len(scenario.public) == 64
    assert (scenario.channels, scenario.image_size) == (3, 32)
    for name in ("fedavg", "fccl", "calm"):
        assert np.min(photos["accuracy"][name]) > 0.6, name  # a third is chance

    skewed, even = (
        np.array([c.private.counts(3) for c in flowers["flowers"](beta=beta).clients])
        for beta in (0.1, 100.0)
    )
    assert skewed.sum() == even.sum() == 150 and skewed.std() > 2 * even.std()
    assert isinstance(flowers["ImageFolder"]("flowers/train"), ImageFolder)
    assert flowers["result"].scenario["name"] == "flowers"
    assert flowers["result"].environment["torch"]

    scenario, fed = scans["scenario"], scans["fed"]
    assert scenario.class_names == ("healthy", "ill") and set(scenario.tests) == {"north", "south"}
    assert (scenario.channels, scenario.image_size) == (1, 24)
    assert fed.clients[0].model.feature_size == 32
    assert np.min(scans["history"]["accuracy"][-1]["matrix"]) > 0.7  # a half is chance
    printed = capsys.readouterr().out
    assert "own: 3 clients x 160" in printed and "fccl [[" in printed
    assert "half [[" in printed and issubclass(photos["Half"], photos["FedAvg"])


def test_own_data_in_few_lines(tmp_path):
    """As a new user would, with arrays: local training and a method that needs public images."""
    held = {name: drawn(30, 16, 16, color=True, seed=seed) for seed, name in enumerate("ab")}
    scenario = scenarios.of(held, public=drawn(20, 16, 16, color=True, seed=9)[0])
    for name in ("solo", "fedmd"):
        fed = Federation(scenario, methods.make(name), Settings(rounds=1), seed=0)
        assert np.shape(run(fed)["accuracy"][-1]["matrix"]) == (2, 2)
