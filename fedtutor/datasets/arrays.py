"""Readers: one function per way in which the data sets are published.

Each takes a path and returns `Pixels`: all labels, and a function that yields the images of chosen
rows in blocks, so that a scenario never holds more than it asked for. Nothing is unpickled, except
that the Python files of CIFAR are read by an unpickler that can build numbers, texts, lists and
numpy arrays and nothing else. A damaged file is one `DataError` that says which.
"""

import bz2
import gzip
import io
import json
import math
import pickle
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from ..engine.files import shown
from ..errors import DataError
from .cache import prepared, reading

BLOCK = 2**18  # bytes of images that are in memory at once beside the result
MANY = 20_000  # JPEG images of a file that are worth keeping decoded in the cache


class Pixels(NamedTuple):
    """y: int64 [n]; blocks(rows, size): uint8 [b, height, width(, 3)] for ascending rows."""

    y: np.ndarray
    blocks: Callable[[np.ndarray, int], Iterator[np.ndarray]]


def npz(path: Path) -> Pixels:
    """`images` (uint8 [n, h, w] or [n, h, w, 3]) and `labels`, as data/README.md describes.

    A packed file (`packing.py`) has an array `rows`, too: only these images are in it.
    """
    with reading(path):
        y = _int64(_small(path, "labels"), path)
        count, place = packed(path, len(y))

    def blocks(rows, size):
        with reading(path):
            yield from _chosen(_stored(path, count), place(rows))

    return Pixels(y, blocks)


def jpeg_npz(path: Path) -> Pixels:
    """`jpeg` (the files, one after the other), `offsets` [n + 1] and `labels`."""
    with reading(path):
        y = _int64(_small(path, "labels"), path)
        offsets = _int64(_small(path, "offsets"), path)
        count, place = packed(path, len(y))
        if len(offsets) != count + 1 or (np.diff(offsets) <= 0).any():
            raise ValueError("offsets and labels do not fit")

    def decoded(rows, size):
        with reading(path), _opened_member(path, "jpeg") as (file, _, dtype):
            if dtype != np.uint8:
                raise ValueError("jpeg is not bytes")
            at = 0
            for part in parts(place(rows)):
                images = []
                for start, end in zip(offsets[part], offsets[part + 1], strict=True):
                    file.read(int(start) - at)
                    images.append(decode(io.BytesIO(file.read(int(end - start))), size))
                    at = int(end)
                yield np.stack(images)
            _to_the_end(file)

    def fill(array):
        start = 0
        for block in decoded(np.arange(len(y)), array.shape[1]):
            array[start : start + len(block)] = block
            start += len(block)

    def blocks(rows, size):
        if len(y) < MANY or count < len(y):
            return decoded(rows, size)
        state = path.stat()
        name = f"{path.parent.name}-{path.stem}-{size}-{state.st_size:x}-{state.st_mtime_ns:x}"
        return from_cache(name, len(y), rows, size, fill)

    return Pixels(y, blocks)


def packed(path: Path, total: int) -> tuple[int, Callable[[np.ndarray], np.ndarray]]:
    """How many images a file holds, and a function from row numbers to places in it."""
    with zipfile.ZipFile(path) as archive:
        if "rows.npy" not in archive.namelist():
            return total, lambda rows: rows
    held = _int64(_small(path, "rows"), path)
    if (np.diff(held) <= 0).any() or (len(held) and not 0 <= held[0] <= held[-1] < total):
        raise ValueError("rows are not ascending numbers of images")

    def place(rows):
        missing = np.setdiff1d(rows, held)
        if len(missing):
            raise DataError(
                f"{path.name} was packed for other runs: {len(missing)} of {len(rows)} images, "
                f"such as number {missing[0]}, are not in it", where=shown(path),
                do="pack again with the runs that you want (python -m fedtutor queue pack)",
            )  # fmt: skip
        return np.searchsorted(held, rows)

    return len(held), place


def _small(path: Path, name: str) -> np.ndarray:
    """A short array of an .npz file."""
    with _opened_member(path, name) as (file, shape, dtype):
        return np.frombuffer(file.read(), dtype).reshape(shape)


@contextmanager
def _opened_member(path: Path, name: str):
    """An array of an .npz file as (its bytes to be read, shape, type); objects are refused."""
    with zipfile.ZipFile(path) as archive:
        try:
            file = archive.open(f"{name}.npy")
        except KeyError:
            held = ", ".join(n.removesuffix(".npy") for n in archive.namelist())
            raise DataError(f"{path.name} has no array {name!r}", where=shown(path),
                            do=f"it holds: {held}; see data/README.md") from None  # fmt: skip
        with file:
            old = np.lib.format.read_magic(file) == (1, 0)
            read = np.lib.format.read_array_header_1_0 if old else (
                np.lib.format.read_array_header_2_0)  # fmt: skip
            shape, fortran, dtype = read(file)
            if dtype.hasobject:
                raise ValueError("Object arrays are never loaded")
            if fortran and len(shape) > 1:
                raise ValueError("columns first")
            yield file, shape, dtype


def _stored(path: Path, expected: int) -> Iterator[np.ndarray]:
    """The images of an .npz file in blocks."""
    with _opened_member(path, "images") as (file, shape, dtype):
        colored = len(shape) == 3 or (len(shape) == 4 and shape[3] in (1, 3))
        if dtype != np.uint8 or not colored or shape[0] != expected:
            raise DataError(
                f"the images are {dtype} {list(shape)}, with {expected} labels",
                where=shown(path), do="store uint8 images [n, h, w] or [n, h, w, 3]",
            )  # fmt: skip
        shape = shape[:3] if shape[3:] == (1,) else shape
        one = math.prod(shape[1:])
        step = max(1, BLOCK // one)
        for start in range(0, shape[0], step):
            count = min(step, shape[0] - start)
            block = np.frombuffer(file.read(count * one), np.uint8)
            yield block.reshape(count, *shape[1:])
        _to_the_end(file)


def _to_the_end(file) -> None:
    """An archive's checksum is compared at its end."""
    while file.read(BLOCK):
        pass


def _chosen(blocks: Iterator[np.ndarray], rows: np.ndarray) -> Iterator[np.ndarray]:
    """The ascending `rows` out of consecutive blocks."""
    start = 0
    for block in blocks:
        here = rows[np.searchsorted(rows, start) : np.searchsorted(rows, start + len(block))]
        if len(here):
            yield block[here - start]
        start += len(block)


def from_cache(name: str, count: int, rows: np.ndarray, size: int, fill) -> Iterator[np.ndarray]:
    """Blocks of an array that `fill` prepares once; mapped anew for each, to give memory back."""
    for part in parts(rows, 3 * size * size):
        yield np.asarray(prepared(name, (count, size, size, 3), fill)[part])


def parts(rows: np.ndarray, bytes_each: int = 3072) -> list[np.ndarray]:
    """The rows in parts of about `BLOCK` bytes."""
    return np.array_split(rows, max(1, len(rows) * bytes_each // BLOCK)) if len(rows) else []


def _int64(values, path: Path) -> np.ndarray:
    values = np.asarray(values)
    if values.dtype.kind not in "iu" or values.ndim != 1:
        raise DataError(f"the labels are {values.dtype} {list(values.shape)}", where=shown(path),
                        do="store whole-number labels [n]")  # fmt: skip
    return values.astype(np.int64)


def decode(file, size: int | None) -> np.ndarray:
    """An image file as uint8 [h, w, 3], brought to `size` if one is given."""
    with Image.open(file) as image:
        rgb = image if image.mode == "RGB" else image.convert("RGB")
        if size is not None and rgb.size != (size, size):
            rgb = rgb.resize((size, size), Image.Resampling.BILINEAR)
        return np.asarray(rgb)


def idx(path: Path) -> Pixels:
    """MNIST's format: `...-images-idx3-ubyte`, gzipped or not, its labels beside it.

    EMNIST's images lie transposed in the file and are turned here.
    """
    labels = path.with_name(path.name.replace("images-idx3", "labels-idx1"))
    with reading(labels), _opened(labels) as file:
        count = _idx_header(file, dims=1)[0]
        y = np.frombuffer(file.read(), np.uint8).astype(np.int64)
        if len(y) != count:
            raise EOFError

    def stored():
        with reading(path), _opened(path) as file:
            shape = _idx_header(file, dims=3)
            if shape[0] != len(y):
                raise ValueError("images and labels differ in number")
            one = shape[1] * shape[2]
            step = max(1, BLOCK // one)
            for start in range(0, len(y), step):
                count = min(step, len(y) - start)
                images = np.frombuffer(file.read(count * one), np.uint8)
                images = images.reshape(count, *shape[1:])
                yield images.transpose(0, 2, 1) if path.name.startswith("emnist") else images
            file.read(1)

    return Pixels(y, lambda rows, size: _chosen(stored(), rows))


def _opened(path: Path):
    packed = path.with_name(path.name + ".gz")
    path = path if path.exists() or not packed.exists() else packed
    return gzip.open(path) if path.suffix == ".gz" else open(path, "rb")


def _idx_header(file, dims: int) -> list[int]:
    if file.read(4) != bytes([0, 0, 8, dims]):
        raise ValueError("not an idx file of bytes")
    return np.frombuffer(file.read(4 * dims), ">i4").tolist()


def usps(path: Path) -> Pixels:
    """usps.bz2: a digit (1 to 10) and 256 values from -1 to 1 a line; bytes as torchvision's."""
    with reading(path), bz2.open(path, "rt", encoding="ascii") as file:
        table = [line.split() for line in file]
        y = np.array([int(row[0]) for row in table], np.int64) - 1
        values = np.array([[v.partition(":")[2] for v in row[1:]] for row in table], np.float32)
        images = ((values + 1) / 2 * 255).astype(np.uint8).reshape(-1, 16, 16)
    return Pixels(y, lambda rows, size: iter([images[rows]]))


def mat(path: Path) -> Pixels:
    """SVHN's and SynthDigits' .mat: X uint8 [32, 32, 3, n]; SVHN writes the digit 0 as 10."""
    try:
        from scipy.io import loadmat
    except ImportError:
        raise DataError(
            f"{path.name} needs a package that is not installed", where=shown(path),
            do="install it: pip install scipy (see requirements.txt)",
        ) from None  # fmt: skip
    with reading(path):
        try:
            y = loadmat(path, variable_names=["y"])["y"].reshape(-1).astype(np.int64) % 10
        except (TypeError, NotImplementedError):
            raise ValueError("not a file of this kind") from None

    def blocks(rows, size):
        with reading(path):
            images = loadmat(path, variable_names=["X"])["X"]
            if images.shape[-1] != len(y):
                raise ValueError("images and labels differ in number")
            for part in parts(rows):
                yield images[..., part].transpose(3, 0, 1, 2)

    return Pixels(y, blocks)


class _Foreign(Exception):
    """A pickle asks for something that is neither a plain value nor an array."""


class _Arrays(pickle.Unpickler):
    """An unpickler that can build numpy arrays and plain values, and call nothing else."""

    ALLOWED = ("_reconstruct", "ndarray", "dtype", "encode")

    def find_class(self, module: str, name: str):
        if module.split(".")[0] in ("numpy", "_codecs") and name in self.ALLOWED:
            return super().find_class(module.replace("numpy.core", "numpy._core"), name)
        raise _Foreign(f"{module}.{name}")


def cifar(folder: Path, names: Sequence[str], labels: str) -> Pixels:
    """The "Python version" of CIFAR: files with `data` uint8 [n, 3072] and a list `labels`."""
    files = []
    for name in names:
        with reading(folder / name), open(folder / name, "rb") as file:
            try:
                content = _Arrays(file, encoding="latin1").load()
                data = np.asarray(content["data"], np.uint8).reshape(-1, 3, 32, 32)
                y = np.asarray(content[labels], np.int64)
            except _Foreign as foreign:
                raise DataError(f"{name} holds more than arrays ({foreign})", where=shown(folder),
                                do="do not trust it; fetch it again") from None  # fmt: skip
            except (pickle.UnpicklingError, TypeError, AttributeError, ImportError):
                raise ValueError("not a CIFAR file") from None
            if len(y) != len(data):
                raise ValueError("images and labels differ in number")
            files.append((data, y))
    ends = np.cumsum([0, *(len(data) for data, _ in files)])

    def blocks(rows, size):
        for (data, _), (start, end) in zip(files, pairwise(ends), strict=True):
            here = rows[(rows >= start) & (rows < end)] - start
            yield data[here].transpose(0, 2, 3, 1)

    return Pixels(np.concatenate([y for _, y in files]), blocks)


def corrupted(path: Path) -> Pixels:
    """A file of CIFAR-10-C: uint8 [50000, 32, 32, 3], five severities after another."""
    with reading(path):
        images = np.load(path, mmap_mode="r", allow_pickle=False)
        y = _int64(np.load(path.with_name("labels.npy"), allow_pickle=False), path)
        if images.dtype != np.uint8 or images.shape != (len(y), 32, 32, 3):
            raise ValueError("not a file of CIFAR-10-C")
    return Pixels(y, lambda rows, size: (np.asarray(images[part]) for part in parts(rows)))


def leaf(folder: Path, classes: int = 10) -> Pixels:
    """LEAF's FEMNIST: *.json with `user_data`; ink is dark there, and bright here. 28 x 28.

    Only labels below `classes` are kept: 0 to 9 are the digits.
    """
    images, labels = [], []
    for path in sorted(folder.glob("*.json")):
        with reading(path):
            try:
                for held in json.loads(path.read_text(encoding="utf-8"))["user_data"].values():
                    y = np.asarray(held["y"], np.int64)
                    x = 1 - np.asarray(held["x"], np.float32).reshape(-1, 28, 28)
                    images.append((x[y < classes] * 255 + 0.5).astype(np.uint8))
                    labels.append(y[y < classes])
            except (TypeError, AttributeError):
                raise ValueError("not a file of LEAF") from None
    if not labels:
        raise DataError("there is no .json file", where=shown(folder),
                        do="run LEAF's preprocess.sh for FEMNIST first")  # fmt: skip
    x = np.concatenate(images)
    return Pixels(np.concatenate(labels), lambda rows, size: iter([x[rows]]))
