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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
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
    """`images` (uint8 [n, h, w] or [n, h, w, 3]) and `labels`, as data/README.md describes."""
    with reading(path):
        y = _int64(array(path, "labels"), path)

    def blocks(rows, size):
        with reading(path), member(path, "images") as file:
            shape, dtype = _header(file)
            if dtype != np.uint8 or shape[0] != len(y) or shape[3:] not in ((), (1,), (3,)):
                raise DataError(
                    f"the images are {dtype} {list(shape)}, with {len(y)} labels",
                    where=shown(path),
                    do="store uint8 images [n, h, w] or [n, h, w, 3]",
                )
            shape = shape[:3] if shape[3:] == (1,) else shape
            yield from _selected(file, shape, rows)

    return Pixels(y, blocks)


def jpeg_npz(path: Path) -> Pixels:
    """`jpeg` (the files, one after the other), `offsets` [n + 1] and `labels`."""
    with reading(path):
        y = _int64(array(path, "labels"), path)
        offsets = _int64(array(path, "offsets"), path)
        if len(offsets) != len(y) + 1 or (np.diff(offsets) <= 0).any():
            raise ValueError("offsets and labels do not fit")

    def decoded(rows, size):
        with reading(path), member(path, "jpeg") as file:
            if _header(file)[1] != np.uint8:
                raise ValueError("jpeg is not bytes")
            at = 0
            for part in parts(rows):
                images = []
                for start, end in zip(offsets[part], offsets[part + 1], strict=True):
                    file.read(int(start) - at)
                    images.append(decode(io.BytesIO(file.read(int(end - start))), size))
                    at = int(end)
                yield np.stack(images)

    def blocks(rows, size):
        if len(y) < MANY:
            return decoded(rows, size)
        state = path.stat()
        name = f"{path.parent.name}-{path.stem}-{size}-{state.st_size:x}-{state.st_mtime_ns:x}"
        every = (image for block in decoded(np.arange(len(y)), size) for image in block)
        return from_cache(name, len(y), rows, size, every)

    return Pixels(y, blocks)


@contextmanager
def member(path: Path, name: str):
    """An array of an .npz file, open to be read; at the end its checksum is compared."""
    with zipfile.ZipFile(path) as archive:
        names = [known.removesuffix(".npy") for known in archive.namelist()]
        if f"{name}.npy" not in archive.namelist():
            raise DataError(f"{path.name} has no array {name!r}", where=shown(path),
                            do=f"it holds: {', '.join(names)}; see data/README.md")  # fmt: skip
        with archive.open(f"{name}.npy") as file:
            yield file
            while file.read(BLOCK):
                pass


def array(path: Path, name: str) -> np.ndarray:
    """A whole array of an .npz file; nothing is unpickled."""
    with member(path, name) as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def _header(file) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and type of the array whose bytes come next in `file`; objects are refused."""
    old = np.lib.format.read_magic(file) == (1, 0)
    read = np.lib.format.read_array_header_1_0 if old else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("Object arrays are never loaded")
    if fortran and len(shape) > 1:
        raise ValueError("columns first")
    return shape, dtype


def _selected(file, shape: tuple[int, ...], rows: np.ndarray) -> Iterator[np.ndarray]:
    """The ascending `rows` of the uint8 images whose bytes come next in `file`, in blocks."""
    one = math.prod(shape[1:])
    step = max(1, BLOCK // one)
    for start in range(0, shape[0], step):
        count = min(step, shape[0] - start)
        block = np.frombuffer(file.read(count * one), np.uint8).reshape(count, *shape[1:])
        here = rows[np.searchsorted(rows, start) : np.searchsorted(rows, start + count)]
        if len(here):
            yield block[here - start]


def from_cache(name: str, count: int, rows: np.ndarray, size: int,
               every: Iterable[np.ndarray]) -> Iterator[np.ndarray]:  # fmt: skip
    """Blocks of the images, of which all are prepared once; mapped anew for each, to give memory
    back. every: all `count` images, uint8 [size, size, 3], made when they are asked for."""

    def fill(array):
        for i, image in enumerate(every):
            array[i] = image

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


def decode(file, size: int) -> np.ndarray:
    """An image file as uint8 [size, size, 3]."""
    with Image.open(file) as image:
        return resized(image.convert("RGB"), size)


def resized(image: Image.Image, size: int) -> np.ndarray:
    """An image at `size` x `size` pixels, bilinearly, as PIL does it and the papers' code."""
    same = image.size == (size, size)
    return np.asarray(image if same else image.resize((size, size), Image.Resampling.BILINEAR))


def fitted(images: np.ndarray, size: int) -> np.ndarray:
    """uint8 [b, h, w] or [b, h, w, 3] as [b, channels, size, size]."""
    if images.shape[1:3] != (size, size):
        images = np.stack([resized(Image.fromarray(image), size) for image in images])
    return images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)


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

    def blocks(rows, size):
        with reading(path), _opened(path) as file:
            shape = _idx_header(file, dims=3)
            if shape[0] != len(y):
                raise ValueError("images and labels differ in number")
            for images in _selected(file, shape, rows):
                yield images.transpose(0, 2, 1) if path.name.startswith("emnist") else images
            file.read(1)

    return Pixels(y, blocks)


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
    images, classes = [], []
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
            images.append(data)
            classes.append(y)
    x = np.concatenate(images).transpose(0, 2, 3, 1)
    return Pixels(np.concatenate(classes), lambda rows, size: (x[part] for part in parts(rows)))


def corrupted(path: Path) -> Pixels:
    """A file of CIFAR-10-C: uint8 [50000, 32, 32, 3], five severities after another."""
    with reading(path):
        images = np.load(path, mmap_mode="r", allow_pickle=False)
        y = _int64(np.load(path.with_name("labels.npy"), allow_pickle=False), path)
        if images.dtype != np.uint8 or images.shape != (len(y), 32, 32, 3):
            raise ValueError("not a file of CIFAR-10-C")
    return Pixels(y, lambda rows, size: (np.asarray(images[part]) for part in parts(rows)))


def leaf(folder: Path) -> Pixels:
    """LEAF's FEMNIST: *.json with `user_data`; ink is dark there, and bright here. 28 x 28.

    Only labels below 10 are kept: these are the digits.
    """
    images, labels = [], []
    for path in sorted(folder.glob("*.json")):
        with reading(path):
            try:
                for held in json.loads(path.read_text(encoding="utf-8"))["user_data"].values():
                    y = np.asarray(held["y"], np.int64)
                    x = 1 - np.asarray(held["x"], np.float32).reshape(-1, 28, 28)
                    images.append((x[y < 10] * 255 + 0.5).astype(np.uint8))
                    labels.append(y[y < 10])
            except (TypeError, AttributeError):
                raise ValueError("not a file of LEAF") from None
    if not labels:
        raise DataError("there is no .json file", where=shown(folder),
                        do="run LEAF's preprocess.sh for FEMNIST first")  # fmt: skip
    x = np.concatenate(images)
    return Pixels(np.concatenate(labels), lambda rows, size: iter([x[rows]]))
