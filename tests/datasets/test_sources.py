import io
import os
import re
import shutil
import socket
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from support import trees

from fedtutor.datasets import arrays as formats
from fedtutor.datasets import folders, sources
from fedtutor.datasets.catalog import CORRUPTIONS, SETS
from fedtutor.datasets.sources import open_set
from fedtutor.engine.files import ROOT
from fedtutor.errors import DataError, SettingError
from fedtutor.scenarios.base import SCENARIOS

PAPERS = {name for name in SCENARIOS if not name.endswith("-mini")}


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    """Empty folders for data and cache, and no network."""
    monkeypatch.setenv("FEDTUTOR_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("FEDTUTOR_CACHE", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()

    def blocked(*_, **__):
        raise OSError("the network is blocked")

    for part in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, part, blocked)


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


def grays(images) -> list[int]:
    """The mean of each image."""
    return images.x.float().mean((1, 2, 3)).round().long().tolist()


# What is read


def test_npz(data):
    images, labels = trees.pixels(20, 28, 28), trees.ten()
    trees.npz(data, "mnist", "train", images, labels)
    source = open_set("mnist", "train")
    assert source.y.tolist() == labels.tolist() and not source.whole
    assert source.words == "MNIST (sample: 20 of 60,000 images)"
    index = torch.tensor([17, 3, 4])
    taken = source.take(index, size=28, channels=1)
    assert np.array_equal(taken.x[:, 0].numpy(), images[index])
    assert taken.y.tolist() == [7, 3, 4]


def test_blocks_smaller_than_the_file(data, monkeypatch):
    monkeypatch.setattr(formats, "BLOCK", 3 * 28 * 28)
    images = trees.pixels(20, 28, 28)
    trees.npz(data, "mnist", "train", images, trees.ten())
    order = torch.randperm(20, generator=torch.Generator().manual_seed(0))
    taken = open_set("mnist", "train").take(order, size=28)
    assert list(taken.x.shape) == [20, 3, 28, 28]
    assert all(np.array_equal(taken.x[:, c].numpy(), images[order]) for c in range(3))


def test_resizing_is_that_of_pil(data):
    images = trees.pixels(20, 32, 32, 3)
    trees.npz(data, "svhn", "test", images, trees.ten())
    taken = open_set("svhn", "test").take(size=28)
    for ours, image in zip(taken.x, images, strict=True):
        by_pil = Image.fromarray(image).resize((28, 28), Image.Resampling.BILINEAR)
        assert np.array_equal(ours.permute(1, 2, 0).numpy(), np.asarray(by_pil))


@pytest.mark.parametrize("many", [10, 100])
def test_jpeg_npz(data, tmp_path, monkeypatch, many):
    monkeypatch.setattr(formats, "MANY", many)  # 20 images: with and without the cache
    files = []
    for i in range(20):
        file = io.BytesIO()
        Image.fromarray(np.full((32, 32, 3), 12 * i, np.uint8)).save(file, "JPEG")
        files.append(file.getvalue())
    (data / "cifar10").mkdir()
    np.savez_compressed(
        data / "cifar10" / "train_jpeg.npz", labels=trees.ten(),
        jpeg=np.frombuffer(b"".join(files), np.uint8), offsets=np.cumsum([0, *map(len, files)]),
    )  # fmt: skip
    source = open_set("cifar10", "train")
    assert "JPEG copy" in source.words and not source.whole
    for _ in range(2):
        assert grays(source.take(torch.tensor([5, 19, 2]), size=32)) == [60, 228, 24]
    assert len(list((tmp_path / "cache").rglob("*.npy"))) == (many == 10)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("name", "home", "prefix"),
    [("mnist", "MNIST/raw", "t10k"), ("fashion_mnist", "FashionMNIST/raw", "t10k")],
)
def test_idx_in_torchvisions_tree(data, name, home, prefix, packed):
    images = trees.pixels(20, 28, 28)
    trees.idx(data, home, prefix, images, trees.ten(), packed=packed)
    taken = open_set(name, "test").take(size=28, channels=1)
    assert np.array_equal(taken.x[:, 0].numpy(), images) and taken.y.tolist() == [*range(10)] * 2


def test_emnist_images_are_turned(data):
    images = trees.pixels(20, 28, 28)
    trees.idx(data, "EMNIST/raw", "emnist-digits-train", images, trees.ten())
    taken = open_set("emnist_digits", "train").take(size=28, channels=1)
    assert np.array_equal(taken.x[:, 0].numpy(), images.transpose(0, 2, 1))


def test_usps_as_torchvision_reads_it(data):
    from torchvision.datasets import USPS

    values = np.random.default_rng(0).uniform(-1, 1, (20, 16, 16)).round(4)
    trees.usps(data, "usps.t.bz2", values, trees.ten())
    taken = open_set("usps", "test").take(size=16, channels=1)
    theirs = USPS(data, train=False)
    assert np.array_equal(taken.x[:, 0].numpy(), theirs.data)
    assert taken.y.tolist() == theirs.targets == trees.ten().tolist()


def test_svhn_and_synth_digits(data):
    images, labels = trees.pixels(20, 32, 32, 3), trees.ten()
    trees.mat(data, "train_32x32.mat", images, np.where(labels == 0, 10, labels))
    trees.mat(data / "SynthDigits", "synth_test_32x32.mat", images, labels)
    for name, split in (("svhn", "train"), ("synth_digits", "test")):
        taken = open_set(name, split).take(size=32)
        assert np.array_equal(taken.x.permute(0, 2, 3, 1).numpy(), images)
        assert taken.y.tolist() == labels.tolist()


def test_without_scipy_a_mat_file_is_one_clear_error(data, monkeypatch):
    trees.mat(data, "train_32x32.mat", trees.pixels(20, 32, 32, 3), trees.ten())
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    with pytest.raises(DataError, match=r"train_32x32\.mat needs a package.*\n.*\n.*scipy"):
        open_set("svhn", "train")


def test_cifar(data):
    images, labels = trees.pixels(200, 32, 32, 3), trees.ten(200, 100)
    names = [f"data_batch_{i}" for i in range(1, 6)]
    trees.cifar(data / "cifar-10-batches-py", names, images, labels % 10, "labels")
    trees.cifar(data / "cifar-100-python", ["test"], images, labels, "fine_labels")
    for name, split in (("cifar10", "train"), ("cifar100", "test")):
        taken = open_set(name, split).take(torch.tensor([199, 0, 57]), size=32)
        assert np.array_equal(taken.x.permute(0, 2, 3, 1).numpy(), images[[199, 0, 57]])
    assert open_set("cifar100", "test").y.tolist() == labels.tolist()


def test_mnist_m(data):
    trees.listed(data, "test", trees.ten())
    taken = open_set("mnist_m", "test").take(size=32)
    assert grays(taken) == [10 * y + 5 for y in taken.y.tolist()]


def test_tiny_imagenet_and_its_validation_images(data):
    trees.tiny_imagenet(data)
    for split in ("train", "test"):
        taken = open_set("tiny_imagenet", split).take(size=32)
        assert sorted(taken.y.tolist()) == list(range(200))
        assert all(abs(a - b) <= 1 for a, b in zip(grays(taken), taken.y.tolist(), strict=True))


@pytest.mark.parametrize(
    ("name", "split", "home", "classes", "inner"),
    [
        ("office_caltech10", "caltech", "office_caltech_10/caltech10", 10, ""),
        ("office_caltech10", "dslr", "office_caltech10/dslr", 10, ""),
        ("office31", "amazon", "domain_adaptation_images/amazon/images", 31, ""),
        ("office31", "webcam", "office31/webcam", 31, ""),
        ("office_home", "real_world", "OfficeHomeDataset_10072016/Real World", 65, ""),
        ("syn", "train", "synthetic_digits/imgs_train", 10, ""),
        ("syn", "test", "syn/imgs_valid", 10, ""),
    ],
)
def test_folders_of_classes(data, name, split, home, classes, inner):
    trees.folders(data / home, [f"class {c:02d}" for c in range(classes)], inner=inner)
    source = open_set(name, split)
    assert source.y.tolist() == [c for c in range(classes) for _ in range(2)]
    taken = source.take(torch.tensor([4, 1]), size=32)
    assert taken.y.tolist() == [2, 0] and grays(taken) == [25, 5]


def test_images_of_folders_are_decoded_once(data, tmp_path, monkeypatch):
    trees.folders(data / "office31" / "dslr", [f"{c:02d}" for c in range(31)])
    first = open_set("office31", "dslr").take(size=16)
    monkeypatch.setattr(folders, "decode", lambda *_: pytest.fail("decoded again"))
    again = open_set("office31", "dslr").take(size=16)
    assert again.fingerprint == first.fingerprint
    monkeypatch.undo()
    monkeypatch.setenv("FEDTUTOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FEDTUTOR_DATA", str(data))
    trees.image(data / "office31" / "dslr" / "00" / "frame_0000.jpg", color=200)
    assert grays(open_set("office31", "dslr").take(size=16))[0] == 200


def test_cifar10_c(data):
    labels = trees.cifar10_c(data, CORRUPTIONS)
    for number in (0, 18):
        source = open_set("cifar10_c", CORRUPTIONS[number])
        assert source.y.tolist() == labels.tolist()
        assert grays(source.take(torch.tensor([0, 99]), size=28)) == [10 + number, 50 + number]


def test_leaf_keeps_digits_and_turns_the_ink(data):
    trees.leaf(data, "train")
    source = open_set("femnist", "train")
    assert sorted(set(source.y.tolist())) == list(range(10)) and len(source) == 30
    assert sorted(set(grays(source.take(size=28, channels=1)))) == [0, 64, 128]


def test_retina(data):
    trees.retina(data, 3)
    for split, count in (("drishti", 12), ("acrima", 6), ("rim", 12), ("refuge", 6)):
        source = open_set("retina", split)
        assert source.y.sum() == count // 2 and len(source) == count
        assert list(source.take(size=96).x.shape) == [count, 3, 96, 96]


def test_archives_are_unpacked_into_the_cache(data, tmp_path):
    trees.folders(tmp_path / "t" / "domain_adaptation_images" / "dslr" / "images",
                  [f"{c:02d}" for c in range(31)], each=1)  # fmt: skip
    with tarfile.open(data / "domain_adaptation_images.tar.gz", "w:gz") as file:
        file.add(tmp_path / "t" / "domain_adaptation_images", "domain_adaptation_images")
    (data / "syn").mkdir()
    trees.folders(tmp_path / "s" / "imgs_train", list("0123456789"), each=1)
    with zipfile.ZipFile(data / "syn" / "synthetic_digits.zip", "w") as file:
        for path in (tmp_path / "s").rglob("*.jpg"):
            file.write(path, path.relative_to(tmp_path / "s"))
    assert len(open_set("office31", "dslr")) == 31 and len(open_set("syn", "train")) == 10
    assert len(list((tmp_path / "cache" / "unpacked").glob("[!.]*"))) == 2


# Where it is looked for


def test_the_folder_comes_before_the_cache(data, tmp_path):
    for root, count in ((data, 10), (tmp_path / "cache", 20)):
        trees.npz(root, "usps", "test", trees.pixels(count, 16, 16), trees.ten(count))
    assert len(open_set("usps", "test")) == 10
    os.rename(data / "usps", data / "elsewhere")
    assert len(open_set("usps", "test")) == 20


def test_a_sample_in_the_folder_does_not_hide_the_whole_in_the_cache(data, tmp_path, monkeypatch):
    monkeypatch.setitem(SETS["usps"].counts, "test", (2,) * 10)
    for root, count in ((data, 10), (tmp_path / "cache", 20)):
        trees.npz(root, "usps", "test", trees.pixels(count, 16, 16), trees.ten(count))
    assert len(open_set("usps", "test")) == 10
    assert len(open_set("usps", "test", whole=True)) == 20


@pytest.mark.parametrize("name", SETS)
def test_a_missing_set_is_one_helpful_error(name, data):
    with pytest.raises(DataError) as error:
        open_set(name, SETS[name].splits[0])
    words = str(error.value)
    assert str(data) in words and "cache" in words  # where it was looked for
    assert "get it from" in words and "FEDTUTOR_DATA" in words and "data/README.md" in words
    if SETS[name].downloads(SETS[name].splits[0]):
        assert "cannot be downloaded: no answer (the network is blocked)" in words


def test_the_page_marks_what_a_reader_gets_by_hand():
    """In the table of scenarios, sets that no program fetches are bold."""
    text = (ROOT / "data" / "README.md").read_text(encoding="utf-8").replace("`", "")
    table = re.search(r"^\| scenario \| paper .*\n(?:\|.*\n)+", text, re.M)[0].splitlines()
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    rows = [dict(zip(lines[0], line, strict=True)) for line in lines[2:]]
    assert {name for row in rows for name in row["scenario"].split(", ")} == PAPERS
    cells = [cell for row in rows for cell in re.split("[,;] ", row["reads"])]
    cells += [row["public (default)"].partition(",")[0] for row in rows]
    for cell in set(cells) - {"-"}:
        data = SETS[cell.strip("*")]
        assert cell.startswith("**") == (not data.downloads(data.splits[0])), cell


def test_a_download_arrives_where_it_is_read(tmp_path, monkeypatch):
    asked = []

    def download(url, root, name, md5):
        asked.append((url.rpartition("/")[2], md5))
        trees.idx(tmp_path / "server", ".", "t10k", trees.pixels(20, 28, 28), trees.ten(),
                  packed=True)  # fmt: skip
        Path(root).mkdir(parents=True, exist_ok=True)
        shutil.copy(tmp_path / "server" / name, root)

    monkeypatch.setattr("torchvision.datasets.utils.download_url", download)
    for _ in range(2):
        assert len(open_set("mnist", "test")) == 20
    assert [name for name, _ in asked] == ["t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"]
    assert asked[0][1] == "9fb629c4189551a2d022fa330f9573f3"


def test_a_forgotten_variable_is_named(monkeypatch):
    monkeypatch.delenv("FEDTUTOR_DATA")
    with pytest.raises(DataError, match="FEDTUTOR_DATA is not set"):
        open_set("office31", "dslr")


def test_unknown_names():
    with pytest.raises(SettingError, match=r"unknown data set 'mnits'.*\n.*\n.*'mnist'"):
        open_set("mnits", "train")
    with pytest.raises(SettingError, match="unknown split 'amazn'"):
        open_set("office31", "amazn")


# What is refused


@pytest.mark.parametrize(
    ("name", "labels", "message"),
    [
        ("svhn", trees.ten() + 1, "label 10 is out of range in SVHN.*\n.*\n.*digit 0 as 10"),
        ("usps", np.where(trees.ten() == 0, 10, trees.ten()), "label 10 is out of range"),
        ("mnist", trees.ten() - 1, "label -1 is out of range"),
        ("mnist", np.zeros(20, int), "cannot have 0 images of class 1"),
        ("tiny_imagenet", np.zeros(20, int), "cannot have 0 images of class 1"),
    ],
)
def test_labels_that_cannot_be_right(data, name, labels, message):
    trees.npz(data, name, "test", trees.pixels(20, 16, 16), labels)
    with pytest.raises(DataError, match=message):
        open_set(name, "test")


def test_more_images_than_there_are(data, monkeypatch):
    monkeypatch.setitem(SETS["usps"].counts, "test", (3,) * 9 + (1,))
    trees.npz(data, "usps", "test", trees.pixels(20, 16, 16), trees.ten())
    with pytest.raises(DataError, match="cannot have 2 images of class 9"):
        open_set("usps", "test")
    monkeypatch.setitem(SETS["office31"].counts, "dslr", 61)
    trees.folders(data / "office31" / "dslr", [f"{c:02d}" for c in range(31)])
    with pytest.raises(DataError, match="cannot have 62 images"):
        open_set("office31", "dslr")


def test_ungrouped_validation_images(data):
    trees.tiny_imagenet(data)
    (data / "tiny-imagenet-200" / "val" / "val_annotations.txt").unlink()
    with pytest.raises(DataError, match=r"val_annotations.txt is missing.*\n.*\n.*no image has a"):
        open_set("tiny_imagenet", "test")


def test_wrong_tree(data):
    trees.folders(data / "office31" / "dslr", ["bike", "mug"])
    with pytest.raises(DataError, match=r"2 class folders \(bike, mug\), not 31"):
        open_set("office31", "dslr")
    (data / "synthetic_digits.zip").write_bytes(b"")
    with zipfile.ZipFile(data / "synthetic_digits.zip", "w") as file:
        file.writestr("readme.txt", "nothing")
    with pytest.raises(DataError, match=r"synthetic_digits.zip does not hold SYN"):
        open_set("syn", "train")


def test_unreadable_image(data, tmp_path):
    trees.folders(data / "office31" / "dslr", [f"{c:02d}" for c in range(31)])
    bad = data / "office31" / "dslr" / "07" / "frame_0001.jpg"
    for content in (b"not an image", bad.read_bytes()[:300], b""):
        bad.write_bytes(content)
        with pytest.raises(DataError, match=r"frame_0001.jpg is damaged.*\n.*dslr.07"):
            open_set("office31", "dslr").take(size=16)
    assert not [p for p in (tmp_path / "cache").rglob("*") if "half" in p.name]
    assert not list((tmp_path / "cache").rglob("*.npy"))


def test_listed_image_that_is_not_there(data):
    trees.listed(data, "test", trees.ten())
    (data / "mnist_m" / "mnist_m_test" / "00000003.png").unlink()
    with pytest.raises(DataError, match=r"00000003.png is listed and not there \(1 of 20\)"):
        open_set("mnist_m", "test")


@pytest.mark.parametrize("keep", [0, 30, 0.5, 0.98])
def test_truncated_npz(data, keep):
    trees.npz(data, "mnist", "train", trees.pixels(20, 28, 28), trees.ten())
    file = data / "mnist" / "train.npz"
    content = file.read_bytes()
    file.write_bytes(content[: int(keep * len(content)) if isinstance(keep, float) else keep])
    with pytest.raises(DataError, match=r"train.npz is damaged or truncated"):
        open_set("mnist", "train").take(size=28)


def test_a_changed_byte_is_noticed(data):
    trees.npz(data, "mnist", "train", trees.pixels(20, 28, 28), trees.ten())
    file = data / "mnist" / "train.npz"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 255
    file.write_bytes(content)
    with pytest.raises(DataError, match="damaged"):
        open_set("mnist", "train").take(torch.tensor([0]), size=28)


def test_pickled_arrays_are_refused(data):
    trees.npz(data, "mnist", "train", np.array([trees.Trap()] * 20, dtype=object), trees.ten())
    with pytest.raises(DataError, match="pickled objects, which are never loaded"):
        open_set("mnist", "train").take(size=28)
    traps = np.array([trees.Trap()], dtype=object)
    trees.npz(data, "mnist", "train", trees.pixels(20, 28, 28), traps)
    with pytest.raises(DataError, match="pickled objects"):
        open_set("mnist", "train")


def test_a_cifar_file_that_wants_more_than_arrays_is_refused(data):
    import pickle

    folder = data / "cifar-100-python"
    folder.mkdir()
    for content in ({"data": trees.Trap(), "fine_labels": [0]}, trees.Trap()):
        (folder / "test").write_bytes(pickle.dumps(content))
        with pytest.raises(DataError, match="holds more than arrays"):
            open_set("cifar100", "test")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"labels": trees.ten()}, "no array 'images'"),
        ({"images": trees.pixels(20, 28, 28)}, "no array 'labels'"),
        ({"images": trees.pixels(19, 28, 28), "labels": trees.ten()}, "with 20 labels"),
        ({"images": np.zeros((20, 28, 28)), "labels": trees.ten()}, "float64"),
        ({"images": trees.pixels(20, 28, 28), "labels": trees.ten() / 2}, "labels are float64"),
    ],
)
def test_wrong_arrays(data, arrays, message):
    (data / "mnist").mkdir()
    np.savez(data / "mnist" / "train.npz", **arrays)
    with pytest.raises(DataError, match=message):
        open_set("mnist", "train").take(size=28)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("train_32x32.mat", b"MATLAB 5.0 MAT-file, cut off"), ("usps.bz2", b"BZh91AY&SY"),
        ("MNIST/raw/train-images-idx3-ubyte", b"\x00\x00\x08\x03" + bytes(12)),
        ("FashionMNIST/raw/train-labels-idx1-ubyte.gz", b"\x1f\x8b\x08"),
        ("cifar-100-python/train", b"\x80\x02}q"),
    ],
)  # fmt: skip
def test_truncated_files_of_other_formats(data, file, content):
    name = {"train_": "svhn", "usps.b": "usps", "MNIST/": "mnist", "Fashio": "fashion_mnist",
            "cifar-": "cifar100"}[file[:6]]  # fmt: skip
    if "MNIST" in file:
        trees.idx(data, file.rpartition("/")[0], "train", trees.pixels(20, 28, 28), trees.ten(),
                  packed=file.endswith("gz"))  # fmt: skip
    (data / file).parent.mkdir(parents=True, exist_ok=True)
    (data / file).write_bytes(content)
    with pytest.raises(DataError, match="damaged or truncated"):
        open_set(name, "train").take(size=28)


def test_truncated_archive(data, tmp_path):
    trees.folders(tmp_path / "t" / "tiny", ["a"], each=30)
    with tarfile.open(data / "domain_adaptation_images.tar.gz", "w:gz") as file:
        file.add(tmp_path / "t")
    whole = (data / "domain_adaptation_images.tar.gz").read_bytes()
    for keep in (0, 20, len(whole) // 2):
        (data / "domain_adaptation_images.tar.gz").write_bytes(whole[:keep])
        with pytest.raises(DataError, match="damaged or truncated"):
            open_set("office31", "dslr")
    assert not [p for p in (tmp_path / "cache").rglob("*") if p.name != ".lock" and p.is_file()
                and not p.name.endswith(".lock")]  # fmt: skip


@pytest.mark.parametrize("member", ["../outside.txt", "/tmp/outside.txt", "a/../../outside.txt"])
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_a_path_that_escapes_the_archive(data, tmp_path, member, kind):
    name = {"zip": "synthetic_digits.zip", "tar": "domain_adaptation_images.tar.gz"}[kind]
    if kind == "zip":
        with zipfile.ZipFile(data / name, "w") as file:
            file.writestr("imgs_train/0/a.txt", "harmless")
            file.writestr(member, "harm")
    else:
        with tarfile.open(data / name, "w:gz") as file:
            info = tarfile.TarInfo(member)
            info.size = 4
            file.addfile(info, io.BytesIO(b"harm"))
    with pytest.raises(DataError, match="would write outside its folder"):
        open_set("syn" if kind == "zip" else "office31", "train" if kind == "zip" else "dslr")
    assert not list(tmp_path.rglob("outside.txt")) and not list(tmp_path.rglob("a.txt"))


@pytest.mark.parametrize("filters", [True, False])  # Python 3.11.3 has none
def test_a_link_in_an_archive_is_refused(data, monkeypatch, filters):
    if not filters:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    with tarfile.open(data / "domain_adaptation_images.tar.gz", "w:gz") as file:
        info = tarfile.TarInfo("dslr")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc"
        file.addfile(info)
    with pytest.raises(DataError, match="outside its folder: 'dslr'"):
        open_set("office31", "dslr")


def test_colors_do_not_fit_a_gray_scenario(data):
    trees.npz(data, "svhn", "test", trees.pixels(20, 32, 32, 3), trees.ten())
    with pytest.raises(DataError, match="the images have colors"):
        open_set("svhn", "test").take(size=28, channels=1)


def test_every_reader_is_used_and_every_set_says_where_it_is_from():
    for name, known in SETS.items():
        for split in known.splits:
            assert known.trees(split) and known.page and set(known.counts) <= {*known.splits}
            for urls, path, md5 in known.downloads(split):
                assert urls and len(md5) == 32 and not os.path.isabs(path), name
    assert sources.SETS is SETS
