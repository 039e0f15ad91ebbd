"""What a user gives as images: a torch Dataset, arrays, a folder, a table. One door for all.

Whatever the container, equal images become equal pixels: `uniform.py` says which value is white,
and how images become square.
"""

import hashlib
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image, ImageOps
from torch.utils.data import DataLoader

from ..engine.files import shown
from ..engine.kinds import in_short
from ..errors import DataError
from ..images import Images
from . import cache
from .arrays import parts
from .uniform import Form, Scale, joined, planes, squared, upright

IMAGE, LABEL = ("image", "img"), ("label",)  # columns of a table
PLAIN = ("1", "L", "I", "F", "I;16", "I;16L", "I;16B")  # gray modes of PIL that numpy takes
GRAY = (*PLAIN, "LA", "La")
RAW = {".heic", ".heif", ".dng", ".cr2", ".nef", ".arw"}  # photographs that PIL cannot open
ARRAYS = np.ndarray | torch.Tensor


class Given(NamedTuple):
    """x: uint8 [n, channels, height, width], 1 or 3 channels; labels: [n] whole numbers or texts,
    empty where there are none; names: what the numbers mean, where that is known; where: words."""

    x: torch.Tensor
    labels: list
    names: tuple[str, ...]
    where: str


def read(data, form: Form, where: str, *, labeled: bool = True) -> Given:
    """All images of `data`, once. labeled: whether each must have a label, else none is kept.

    Files are decoded and resized once, where a size is given, and then read from the cache.
    Raises `DataError` for what is neither of the four kinds, holds no image, or is ambiguous.
    """
    if not isinstance(data, str | Path):
        return _together(*opened(data, where, labeled), form, where)
    home = Path(data).expanduser()
    files = image_paths(home, where, labeled)
    if files and form.size:
        return _kept(home, files, form, where, labeled)
    return _together(folder(home, files, labeled), (), form, where)


def _kept(home: Path, files: list[Path], form: Form, where: str, labeled: bool) -> Given:
    """The images of a folder out of the cache; made there, where files or form are new to it."""
    digest = hashlib.sha256(repr((str(home.resolve()), form)).encode())
    for file in files:
        state = (home / file).stat()
        digest.update(f"{file} {state.st_size} {state.st_mtime_ns} ".encode())
    colors = not all(_decoded(home / file, file.name, shown(home), is_gray) for file in files)
    shape = len(files), 3 if colors else 1, form.size, form.size

    def fill(array):
        array[:] = _together(folder(home, files, False), (), form, where).x.numpy()

    held = cache.prepared(f"{home.name}-{form.size}-{digest.hexdigest()[:16]}", shape, fill)
    labels = [file.parts[0] for file in files] if labeled else []
    return Given(torch.from_numpy(np.array(held)), labels, (), where)


def _together(pairs: Iterator, names: tuple[str, ...], form: Form, where: str) -> Given:
    """Blocks of images, as they are, with their labels, as one `Given`."""
    scale, blocks, labels = Scale(form.white, where), [], []
    for images, own in pairs:
        images = scale.to_bytes(upright(images, where))
        blocks.append(squared(images, form) if form.size else planes(images))
        labels += own
    scale.check()
    if not sum(map(len, blocks)):
        raise DataError("there is no image", where=where, do="give one or more, or leave it out")
    return Given(joined(blocks, where), [plain(label, where) for label in labels], names, where)


# --- the four kinds: each as blocks (images of one shape, their labels), and the names of classes


def opened(data, where: str, labeled: bool) -> tuple[Iterator, tuple[str, ...]]:
    """(images [b, ...], labels [b] or nothing) after each other, and the names of the labels."""
    if isinstance(data, Images):
        return _pair(data.x, data.y, where, labeled), ()
    if isinstance(data, tuple) and len(data) == 2 and not _is_sample(data):
        return _pair(*data, where, labeled), ()
    if isinstance(data, ARRAYS):
        return _pair(data, None, where, labeled), ()
    if hasattr(data, "column_names") or hasattr(data, "columns") or isinstance(data, Mapping):
        return table(data, where, labeled)
    if isinstance(data, DataLoader):
        raise DataError("a DataLoader gives batches in an order of chance", where=where,
                        do="give its Dataset: loader.dataset")  # fmt: skip
    if isinstance(data, Iterable) or (hasattr(data, "__getitem__") and hasattr(data, "__len__")):
        return _samples(data, where, labeled), _names_of(data)
    raise DataError(
        f"{in_short(data)} holds no images that we know", where=where,
        do="give a torch Dataset, a pair (images, labels), a folder, or a table of images",
    )  # fmt: skip


def image_paths(home: Path, where: str, labeled: bool) -> list[Path]:
    """<class>/*.jpg and whatever PIL opens, at any depth; without labels the tree is free."""
    if not home.is_dir():
        kind = "with one sub-folder of images per class" if labeled else "of images, or the images"
        raise DataError(f"{home.name} is no folder", where=f"{where}, {shown(home)}",
                        do=f"give a folder {kind}")  # fmt: skip
    files = [path.relative_to(home) for path in sorted(home.rglob("*")) if path.is_file()]
    files = [path for path in files if not any(part.startswith(".") for part in path.parts)]
    raw = [path for path in files if path.suffix.lower() in RAW]
    if raw:
        raise DataError(f"{raw[0]} cannot be opened ({len(raw)} files)", where=shown(home),
                        do="save such photographs as JPEG or PNG")  # fmt: skip
    known = {end for end, kind in Image.registered_extensions().items() if kind in Image.OPEN}
    files = [path for path in files if path.suffix.lower() in known]
    loose = [path for path in files if len(path.parts) == 1]
    if labeled and loose:
        raise DataError(
            f"{loose[0]} lies in no folder of a class ({len(loose)} of {len(files)} images)",
            where=shown(home), do="put the images of each class into a sub-folder of its own",
        )  # fmt: skip
    if labeled:
        _no_owners(files, home)
    return files


def _no_owners(files: Sequence[Path], home: Path) -> None:
    """Refuses owner/class/image, which would make a class of every owner."""
    inner: dict[str, set[str]] = {}
    for path in files:
        inner.setdefault(path.parts[0], set()).add(path.parts[1] if len(path.parts) > 2 else "")
    sets = list(inner.values())
    same = len(sets) > 1 and all(names == sets[0] for names in sets)
    if same and len(sets[0]) > 1 and "" not in sets[0]:
        raise DataError(
            f"{' and '.join(sorted(inner)[:2])} have the same sub-folders, "
            f"{' and '.join(sorted(sets[0])[:2])}: owners, not classes?", where=shown(home),
            do="name the owners: {folder.name: folder for folder in Path(...).iterdir()}; or put "
               "the images of each class into one folder",
        )  # fmt: skip


def folder(home: Path, files: Sequence[Path], labeled: bool) -> Iterator:
    """One block per file; its label is the sub-folder of `home` in which it lies."""
    for file in files:
        yield _file(home / file)[None], [file.parts[0]] if labeled else []


def _decoded(file, name: str, where: str, use: Callable | None = None):
    """use(image) of an encoded image; by default its pixels."""
    try:
        with Image.open(file) as image:
            return (use or picture)(image)
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
        what = "is not there" if isinstance(error, FileNotFoundError) else "is damaged, or no image"
        raise DataError(f"{name} {what}", where=where,
                        do="leave it out, or replace it") from None  # fmt: skip


def _file(path: Path) -> np.ndarray:
    return _decoded(path, path.name, shown(path))


def table(data, where: str, labeled: bool) -> tuple[Iterator, tuple[str, ...]]:
    """Columns "image" or "img", and "label"; rows may be images, encoded bytes, or paths."""
    found = getattr(data, "column_names", None)
    columns = list(data) if isinstance(data, Mapping) else list(found or data.columns)
    image = _column(columns, IMAGE, where)
    label = _column(columns, LABEL, where) if labeled else None
    rows = ((row[image], row.get(label)) for row in data) if found else zip(
        data[image], data[label] if labeled else data[image], strict=True)  # fmt: skip
    names = getattr((getattr(data, "features", None) or {}).get(label), "names", None)
    blocks = ((pixels(cell, where)[None], [value] if labeled else []) for cell, value in rows)
    return blocks, tuple(names or ())


def _column(columns: list, wanted: Sequence[str], where: str) -> str:
    found = [name for name in wanted if name in columns]
    if not found:
        raise DataError(
            f"the table has no column {' or '.join(map(repr, wanted))}", where=where,
            do=f"rename one of its columns: {', '.join(map(str, columns))}",
        )  # fmt: skip
    return found[0]


def _pair(images, labels, where: str, labeled: bool) -> Iterator:
    """An array [n, ...] and its labels, or a list of images and theirs."""
    if labels is None and labeled:
        raise DataError("the images have no labels", where=where, do="give (images, labels)")
    labels = _listed(labels, where) if labeled else []
    if labeled and len(images) != len(labels):
        raise DataError(f"{len(images)} images and {len(labels)} labels", where=where,
                        do="give one label each")  # fmt: skip
    if isinstance(images, ARRAYS):
        images = _array(images)
        if images.ndim < 3:
            raise DataError(f"the images are an array {list(images.shape)}", where=where,
                            do="give [n, height, width], or [n, height, width, 3]")  # fmt: skip
        blocks = parts(np.arange(len(images)), max(1, images[:1].nbytes))
        return ((images[b[0] : b[-1] + 1], labels[b[0] : b[-1] + 1]) for b in blocks)
    own = ([label] for label in labels) if labeled else ([] for _ in images)
    return ((pixels(image, where)[None], label) for image, label in zip(images, own, strict=True))


def _listed(labels, where: str) -> list:
    """Labels [n] as a list."""
    found = _array(labels) if isinstance(labels, ARRAYS) else np.asarray(labels)
    if found.ndim != 1:
        raise DataError(f"the labels are {list(found.shape)}", where=where,
                        do="give one whole number or text per image; of one-hot vectors: "
                        "labels.argmax(1)")  # fmt: skip
    return found.tolist()


def _samples(data, where: str, labeled: bool) -> Iterator:
    """The samples of a Dataset, or of any list: (image, label), or a row {"image", "label"}."""
    by_number = hasattr(data, "__getitem__") and hasattr(data, "__len__")
    for sample in (data[i] for i in range(len(data))) if by_number else data:
        image, label = sample, None
        if isinstance(sample, Mapping):
            image = sample[_column(list(sample), IMAGE, where)]
            label = sample[_column(list(sample), LABEL, where)] if labeled else None
        elif isinstance(sample, tuple | list) and sample:
            image, label = sample[0], sample[1] if len(sample) > 1 else None
        if labeled and label is None:
            raise DataError(f"a sample is a {type(sample).__name__} without a label", where=where,
                            do="give pairs (image, label)")  # fmt: skip
        yield pixels(image, where)[None], [label] if labeled else []


def _is_sample(data: tuple) -> bool:
    """Whether a tuple of two is two samples rather than images and labels."""
    return all(isinstance(part, tuple) for part in data)


def _names_of(data) -> tuple[str, ...]:
    """`classes` of a Dataset, or of the one that it is a subset of."""
    while not hasattr(data, "classes") and hasattr(data, "dataset"):
        data = data.dataset
    names = getattr(data, "classes", ())
    right = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    return tuple(names) if right else ()


# --- one image, one label


def pixels(image, where: str) -> np.ndarray:
    """A picture of PIL, an array, encoded bytes, {"bytes": ...} or a path, as an array."""
    if isinstance(image, Mapping):  # a table of images that were not decoded
        image = image.get("bytes") or image.get("path")
    if isinstance(image, str | Path):
        return _file(Path(image))
    if isinstance(image, bytes):
        return _decoded(io.BytesIO(image), "an encoded image", where)
    if isinstance(image, Image.Image):
        return picture(image)
    if isinstance(image, ARRAYS | list):
        return _array(image)
    raise DataError(f"an image is {in_short(image)}", where=where,
                    do="give an array, a tensor or a PIL image")  # fmt: skip


def picture(image: Image.Image) -> np.ndarray:
    """[h, w] or [h, w, 3], turned as the camera was held; what is transparent becomes opaque."""
    image = ImageOps.exif_transpose(image)
    if image.mode not in PLAIN:
        image = image.convert("L" if is_gray(image) else "RGB")
    return np.asarray(image)


def is_gray(image: Image.Image) -> bool:
    return image.mode in GRAY


def _array(values) -> np.ndarray:
    return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)


def plain(label, where: str) -> int | str:
    """A label as a whole number from 0 or a text."""
    if isinstance(label, ARRAYS | np.generic) and np.ndim(label) == 0:
        label = label.item()
    if not isinstance(label, int | str):
        raise DataError(f"a label is {in_short(label)}", where=where,
                        do="give a whole number or a text per image")  # fmt: skip
    if not isinstance(label, str) and label < 0:
        raise DataError(f"label {label} means that nobody knows the class", where=where,
                        do="leave such images out, or give them as public images")  # fmt: skip
    return label if isinstance(label, str) else int(label)
