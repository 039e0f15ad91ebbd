import numpy as np
import pytest
import torch
from support import trees

from fedtutor import scenarios
from fedtutor.datasets import rebuilt
from fedtutor.datasets.catalog import CORRUPTIONS
from fedtutor.errors import DataError, SettingError
from fedtutor.images import Images


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDTUTOR_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("FEDTUTOR_CACHE", str(tmp_path / "cache"))


def digits(count: int = 12) -> Images:
    x = torch.zeros(count, 1, 32, 32, dtype=torch.uint8)
    x[:, :, 8:24, 12:20] = 255
    return Images(x, torch.arange(count) % 10, "bars")


def photos(count: int = 3) -> Images:
    x = np.random.default_rng(0).integers(60, 200, (count, 3, 32, 32), dtype=np.uint8)
    return Images(torch.from_numpy(x), torch.arange(count), "noise")


def test_mnist_m_is_the_difference_of_digit_and_patch():
    pytest.importorskip("skimage")
    paper, made = digits(), rebuilt.mnist_m(digits())
    nothing = Images(torch.zeros_like(paper.x), paper.y, "bars")
    patch = rebuilt.mnist_m(nothing).x.long()  # |patch - 0|
    assert torch.equal(made.x.long(), (patch - paper.x.long()).abs())
    ink = paper.x.expand(-1, 3, -1, -1) == 255
    assert torch.equal(made.x.long()[ink], 255 - patch[ink])
    assert torch.equal(made.y, paper.y) and "rebuilt" in made.source
    assert len({image.numpy().tobytes() for image in patch.byte()}) == 12  # one patch each
    assert torch.equal(made.x[:5], rebuilt.mnist_m(paper[:5]).x)
    assert not torch.equal(made.x, rebuilt.mnist_m(paper, seed=1).x)


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_each_corruption_changes_the_image_and_depends_on_its_row_only(name):
    pytest.importorskip("imagecorruptions")
    images, rows = photos(), np.array([7, 3, 9000])
    np.random.seed(5)
    before = np.random.get_state()[1].copy()
    made = rebuilt.corrupted(images, name, severity=4, rows=rows)
    assert np.array_equal(np.random.get_state()[1], before)
    assert made.x.shape == images.x.shape and torch.equal(made.y, images.y)
    assert (made.x.int() - images.x.int()).abs().float().mean() > 1
    again = rebuilt.corrupted(images[[2, 0]], name, severity=4, rows=rows[[2, 0]])
    assert torch.equal(again.x, made.x[[2, 0]])


def test_severity_orders_the_damage():
    pytest.importorskip("imagecorruptions")
    images, rows = photos(), np.arange(3)
    damage = [(rebuilt.corrupted(images, "gaussian_noise", severity=s, rows=rows).x.int()
               - images.x.int()).abs().float().mean() for s in (1, 3, 5)]  # fmt: skip
    assert damage == sorted(damage)


def test_what_is_refused():
    with pytest.raises(SettingError, match=r"unknown corruption 'foggy'.*\n.*\n.*'fog'"):
        rebuilt.corrupted(photos(), "foggy", severity=1, rows=np.arange(3))
    with pytest.raises(SettingError, match="severity = 6"):
        rebuilt.corrupted(photos(), "fog", severity=6, rows=np.arange(3))


def test_a_missing_package_is_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "imagecorruptions", None)
    with pytest.raises(DataError, match="pip install imagecorruptions-imaug"):
        rebuilt.corrupted(photos(), "fog", severity=1, rows=np.arange(3))


def test_the_rebuilt_scenario(tmp_path):
    pytest.importorskip("imagecorruptions")
    trees.npz(tmp_path / "data", "cifar10", "test", trees.pixels(60, 32, 32, 3), trees.ten(60))
    options = {"private_size": 20, "test_size": 5, "min_per_client": 1}
    scenario = scenarios.build("cifar10-c-rebuilt", **options)
    assert len(scenario.clients) == 57 and len(scenario.tests) == 19 and scenario.stand_in
    assert "rebuilt" in scenario.title and scenario.image_size == 28
    assert scenario.fingerprint == scenarios.build("cifar10-c-rebuilt", **options).fingerprint


def test_rebuilt_mnist_m_in_digits_five(tmp_path):
    pytest.importorskip("skimage")
    for name, size, channels in (("mnist", 28, 1), ("usps", 16, 1), ("svhn", 32, 3)):
        for split in ("train", "test"):
            count = 900 if name == "mnist" else 60
            shape = (size, size, 3) if channels == 3 else (size, size)
            trees.npz(tmp_path / "data", name, split, trees.pixels(count, *shape), trees.ten(count))
    with pytest.raises(DataError, match="asked for 5000 images, there are 900"):
        scenarios.build("digits-five-partial", mnist_m="rebuilt")
