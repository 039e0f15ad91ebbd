"""Small data sets in the exact trees in which the official ones are published."""

import bz2
import gzip
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedtutor.datasets.catalog import SETS


def pixels(count: int, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)


def ten(count: int = 20, classes: int = 10) -> np.ndarray:
    return np.arange(count) % classes


def small_is_whole(monkeypatch) -> None:
    """Small sets pass for whole ones."""
    for known in SETS.values():
        for split in list(known.counts):
            monkeypatch.delitem(known.counts, split)


def npz(root: Path, name: str, split: str, images: np.ndarray, labels: np.ndarray) -> None:
    (root / name).mkdir(parents=True, exist_ok=True)
    np.savez_compressed(root / name / f"{split}.npz", images=images, labels=labels)


def idx(root: Path, home: str, prefix: str, images, labels, *, packed: bool = False) -> None:
    folder = root / home
    folder.mkdir(parents=True, exist_ok=True)
    for kind, values in (("images-idx3", images), ("labels-idx1", labels)):
        values = np.asarray(values, np.uint8)
        content = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">i4").tobytes()
        content += values.tobytes()
        name = f"{prefix}-{kind}-ubyte" + (".gz" if packed else "")
        (folder / name).write_bytes(gzip.compress(content) if packed else content)


def usps(root: Path, name: str, values: np.ndarray, labels: np.ndarray) -> None:
    lines = [" ".join([str(y + 1), *(f"{i + 1}:{v:.4f}" for i, v in enumerate(row))])
             for row, y in zip(values.reshape(len(labels), -1), labels, strict=True)]  # fmt: skip
    (root / name).write_bytes(bz2.compress(("\n".join(lines) + "\n").encode()))


def mat(root: Path, name: str, images: np.ndarray, labels: np.ndarray) -> None:
    from scipy.io import savemat

    root.mkdir(parents=True, exist_ok=True)
    savemat(root / name, {"X": images.transpose(1, 2, 3, 0), "y": labels[:, None]})


def cifar(folder: Path, names, images: np.ndarray, labels: np.ndarray, key: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in zip(names, np.array_split(np.arange(len(labels)), len(names)), strict=True):
        data = images[part].transpose(0, 3, 1, 2).reshape(len(part), -1)
        content = {"data": data, key: labels[part].tolist(), "filenames": ["a"] * len(part)}
        (folder / name).write_bytes(pickle.dumps(content, protocol=2))


def image(path: Path, size: tuple[int, int] = (12, 9), *, color=None, seed: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    values = pixels(1, size[1], size[0], 3, seed=seed)[0]
    values = values if color is None else np.full_like(values, color)
    Image.fromarray(values).save(path)


def folders(root: Path, classes, *, inner: str = "", each: int = 2, suffix: str = "jpg") -> None:
    """Class number c has `each` images of gray level 10 c + 5 (up to 255)."""
    for c, name in enumerate(classes):
        for i in range(each):
            image(root / name / inner / f"frame_{i:04d}.{suffix}", color=min(10 * c + 5, 255))


def listed(root: Path, split: str, labels) -> None:
    (root / "mnist_m").mkdir(parents=True, exist_ok=True)
    lines = []
    for i, y in enumerate(labels):
        image(root / "mnist_m" / f"mnist_m_{split}" / f"{i:08d}.png", (32, 32), color=10 * y + 5)
        lines.append(f"{i:08d}.png {y}")
    table = root / "mnist_m" / f"mnist_m_{split}_labels.txt"
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")


def tiny_imagenet(root: Path) -> list[str]:
    """200 classes, one training and one validation image each."""
    home, wnids = root / "tiny-imagenet-200", [f"n{i:08d}" for i in range(200)]
    lines = []
    for c, wnid in enumerate(wnids):
        image(home / "train" / wnid / "images" / f"{wnid}_0.JPEG", (8, 8), color=c)
        image(home / "val" / "images" / f"val_{c}.JPEG", (8, 8), color=c)
        lines.append(f"val_{c}.JPEG\t{wnid}\t0\t0\t7\t7")
    (home / "val" / "val_annotations.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (home / "wnids.txt").write_text("\n".join(wnids) + "\n", encoding="utf-8")
    return wnids


def cifar10_c(root: Path, corruptions, count: int = 20) -> np.ndarray:
    """Pixels of severity s have the value 10 s plus the number of the corruption."""
    (root / "CIFAR-10-C").mkdir(parents=True)
    labels = np.tile(ten(count), 5)
    np.save(root / "CIFAR-10-C" / "labels.npy", labels)
    for number, name in enumerate(corruptions):
        images = np.repeat(10 * np.arange(1, 6) + number, count).astype(np.uint8)
        images = np.broadcast_to(images[:, None, None, None], (5 * count, 32, 32, 3))
        np.save(root / "CIFAR-10-C" / f"{name}.npy", images)
    return labels


def leaf(root: Path, split: str, users: int = 3, each: int = 14) -> None:
    folder = root / "femnist" / "data" / split
    folder.mkdir(parents=True)
    held = {
        f"f{u:04d}_00": {
            "x": (np.ones((each, 784)) - 0.25 * u).tolist(),
            "y": [(u + i) % 14 for i in range(each)],
        }
        for u in range(users)
    }
    content = {"users": list(held), "num_samples": [each] * users, "user_data": held}
    (folder / "all_data_0_niid_0_keep_0.json").write_text(json.dumps(content), encoding="utf-8")


def retina(root: Path, each: int) -> None:
    """`each` images of each kind of each of the four sets."""
    home, n = root / "retina", range(each)
    for i in n:
        for part in ("Training", "Test"):
            for kind in ("GLAUCOMA", "NORMAL"):
                image(home / "Drishti-GS1_files" / part / "Images" / kind / f"drishtiGS_{i}.png")
        image(home / "Drishti-GS1_files" / "Training" / "GT" / "NORMAL" / f"mask_{i}.png")
        image(home / "Database" / "Images" / f"Im{i:03d}_g_ACRIMA.jpg")
        image(home / "Database" / "Images" / f"Im{i:03d}_ACRIMA.jpg")
        for part in ("training_set", "test_set"):
            for kind in ("glaucoma", "normal"):
                for way in ("partitioned_randomly", "partitioned_by_hospital"):
                    image(home / "RIM-ONE_DL_images" / way / part / kind / f"{i}.png")
        for kind in ("Glaucoma", "Non-Glaucoma"):
            image(home / "REFUGE" / "Training400" / kind / f"{i}.jpg")


class Trap:
    """Whoever unpickles it fails the test."""

    def __reduce__(self):
        return (pytest.fail, ("the pickle was loaded",))
