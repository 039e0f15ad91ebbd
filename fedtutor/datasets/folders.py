"""Readers for data sets that are published as folders of images, like those of `arrays.py`.

Images are decoded and resized once, then read from the cache.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..engine.files import shown
from ..errors import DataError
from .arrays import Pixels, decode, from_cache
from .cache import reading

SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff"}


def class_folders(folder: Path, num_classes: int, inner: str = "") -> Pixels:
    """A folder of images per class, classes in alphabetical order: <class>/<inner>/*.jpg."""
    names = sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    if len(names) != num_classes:
        shortened = ", ".join(names[:4]) + (" ..." if len(names) > 4 else "")
        raise DataError(
            f"{folder.name} has {len(names)} class folders ({shortened or 'none'}), not "
            f"{num_classes}", where=shown(folder),
            do="put the images of each class into one folder, see data/README.md",
        )  # fmt: skip
    return image_files([(file, label) for label, name in enumerate(names)
                        for file in _images_in(folder / name / inner)], folder)  # fmt: skip


def _images_in(folder: Path) -> list[Path]:
    files = folder.iterdir() if folder.is_dir() else ()
    return sorted(p for p in files if p.suffix.lower() in SUFFIXES and not p.name.startswith("."))


def image_files(files: Sequence[tuple[Path, int]], folder: Path) -> Pixels:
    """Image files of any size with their labels; decoded and resized once, then cached."""
    if not files:
        raise DataError("there is no image", where=shown(folder),
                        do="see the expected tree in data/README.md")  # fmt: skip
    y = np.array([label for _, label in files], np.int64)

    def blocks(rows, size):
        digest = hashlib.sha256(repr(y.tolist()).encode())
        for path, _ in files:
            state = path.stat()
            digest.update(f"{path}{state.st_size}{state.st_mtime_ns}".encode())
        name = f"{folder.name}-{size}-{digest.hexdigest()[:16]}"

        def image(path):
            with reading(path, do="delete the image or replace it"):
                return decode(path, size)

        return from_cache(name, len(files), rows, size, (image(path) for path, _ in files))

    return Pixels(y, blocks)


def listed(folder: Path) -> Pixels:
    """MNIST-M: images; beside their folder <folder>_labels.txt, `<file name> <label>` a line."""
    table = folder.with_name(f"{folder.name}_labels.txt")
    with reading(table):
        rows = [line.split() for line in table.read_text(encoding="utf-8").splitlines() if line]
        files = [(folder / name, int(label)) for name, label in rows]
    missing = [path for path, _ in files if not path.is_file()]
    if missing:
        raise DataError(f"{missing[0].name} is listed and not there ({len(missing)} of "
                        f"{len(files)})", where=shown(table), do="unpack it again")  # fmt: skip
    return image_files(files, folder)


def tiny_validation(folder: Path) -> Pixels:
    """Tiny-ImageNet's val: images in one folder, classes only in val_annotations.txt."""
    wnids = sorted(p.name for p in (folder.parent / "train").iterdir() if p.is_dir())
    table = folder / "val_annotations.txt"
    with reading(table, do="unpack the archive again: without this table no image has a class"):
        lines = [line.split("\t") for line in table.read_text(encoding="utf-8").splitlines()]
        files = [(folder / "images" / line[0], wnids.index(line[1])) for line in lines]
    return image_files(files, folder)


def acrima(folder: Path) -> Pixels:
    """ACRIMA: Database/Images; `_g_` in a file name says glaucoma."""
    return image_files([(p, int("_g_" in p.name)) for p in _images_in(folder)], folder)


def glaucoma(folder: Path, within: str = "") -> Pixels:
    """Images in folders whose name says glaucoma (1) or normal (0), below one called `within`.

    Drishti-GS1: {Training,Test}/Images/{NORMAL,GLAUCOMA}/*.png; RIM-ONE DL: partitioned_randomly/
    {training_set,test_set}/{glaucoma,normal}/*.png; REFUGE: {Training400,...}/{Glaucoma,...}/*.jpg.
    """
    label = {"glaucoma": 1, "normal": 0, "non-glaucoma": 0}
    files = [(path, label[path.parent.name.lower()]) for path in sorted(folder.rglob("*"))
             if path.suffix.lower() in SUFFIXES and path.parent.name.lower() in label
             and (not within or within in path.parts)]  # fmt: skip
    return image_files(files, folder)
