"""Real data sets: where they are looked for, what is accepted, how to get them.

A set is looked for in the folder that the environment variable FEDTUTOR_DATA names, then in the
cache, then, where torchvision knows a server and a checksum, on the network. `open_set` returns a
`Source`: the labels at once, pixels when they are asked for. It refuses labels and class counts
that cannot be right, and says in words what it found: a sample of a set is not the set.
"""

import os
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ..engine.files import shown
from ..errors import DataError, choose
from ..images import Images
from . import arrays, cache
from .arrays import Pixels
from .catalog import SETS, DataSet

_unread: ContextVar[bool] = ContextVar("unread", default=False)  # see `without_pixels`


@contextmanager
def without_pixels():
    """Scenarios are built and no pixel is read, to see whether their data are here.

    The images that this thread gets meanwhile have a shape and labels and no pixels
    (`Images.read`), and nobody can train on them. Other threads read as always.
    """
    before = _unread.set(True)
    try:
        yield
    finally:
        _unread.reset(before)


@contextmanager
def offline(yes: bool = True):
    """Nothing is downloaded meanwhile, not by child processes either; with False, it may be."""
    before = os.environ.get("FEDTUTOR_OFFLINE", "")
    os.environ["FEDTUTOR_OFFLINE"] = "1" if yes else ""
    try:
        yield
    finally:
        os.environ["FEDTUTOR_OFFLINE"] = before


@dataclass(frozen=True, eq=False)
class Source:
    """One split of a data set. words: what it is; whole: all of it is here, pixels unchanged."""

    name: str
    words: str
    pixels: Pixels
    whole: bool

    @property
    def y(self) -> torch.Tensor:
        return torch.from_numpy(self.pixels.y)

    def __len__(self) -> int:
        return len(self.pixels.y)

    def take(self, index: torch.Tensor | None = None, *, size: int, channels: int = 3) -> Images:
        """The images at `index` (default: all), in this order: uint8 [n, channels, size, size].

        Other sizes are resized bilinearly (PIL, as in the papers' code), gray is repeated. Needs
        little more memory than the result.
        """
        index = np.arange(len(self)) if index is None else np.asarray(index)
        if _unread.get():
            x = torch.empty(len(index), channels, size, size, dtype=torch.uint8, device="meta")
            return Images(x, torch.from_numpy(self.pixels.y[index]), self.words)
        order = np.argsort(index, kind="stable")
        x, start = torch.empty(len(index), channels, size, size, dtype=torch.uint8), 0
        out = x.numpy()
        for block in self.pixels.blocks(index[order], size):
            block = arrays.fitted(block, size)
            if block.shape[1] > channels:
                raise DataError("the images have colors, the scenario has none", where=self.words,
                                do="ask for channels=3")  # fmt: skip
            out[order[start : start + len(block)]] = block  # one gray channel is repeated
            start += len(block)
        if start != len(index):
            raise DataError(f"{len(index) - start} of {len(index)} images are not there",
                            where=self.words, do="fetch the set again")  # fmt: skip
        return Images(x, torch.from_numpy(self.pixels.y[index]), self.words)


def open_set(name: str, split: str, *, whole: bool = False) -> Source:
    """A split of a data set, e.g. `open_set("svhn", "test")` or `open_set("office31", "dslr")`.

    `whole` refuses samples and altered copies. Nothing is downloaded where the environment variable
    FEDTUTOR_OFFLINE is set. Raises `DataError` for a set that is nowhere, is
    damaged, lies in another tree, or has labels or counts that cannot be right.
    """
    known = SETS[choose(name, SETS, kind="data set", where="data sets")]
    choose(split, known.splits, kind="split", where=known.title)
    roots, given, sample = folders_of_data(), os.environ.get("FEDTUTOR_DATA"), ""
    for root in roots:
        source, note = _found(root, name, split)
        if source and not (whole and note):
            return source
        sample = f"; what is there is {note}" if source else sample
    looked = "looked in " + " and ".join(shown(root / name) for root in roots)
    looked += sample or ("" if given else "; FEDTUTOR_DATA is not set")
    downloads = [] if os.environ.get("FEDTUTOR_OFFLINE") else known.downloads(split)
    for urls, path, md5 in downloads:
        cache.fetch(urls, roots[-1] / path, md5, where=looked, do=known.by_hand())
    if downloads and (source := _found(roots[-1], name, split)[0]):
        return source
    raise DataError(f"{known.title}, {split}, is not here{' as a whole' if sample else ''}",
                    where=looked, do=known.by_hand())  # fmt: skip


def folders_of_data() -> list[Path]:
    """Where sets are looked for: what FEDTUTOR_DATA names, then the cache."""
    given = os.environ.get("FEDTUTOR_DATA")
    return [*([Path(given)] if given else []), cache.folder()]


def place(what: str) -> list[str]:
    """Of a `DataError`'s "MNIST, train, is not here": where the set belongs, and whence it is."""
    about = what.partition(", is not here")[0]
    for name, known in SETS.items():
        if about.startswith(f"{known.title}, "):
            split, given = about.removeprefix(f"{known.title}, "), os.environ.get("FEDTUTOR_DATA")
            paths = dict.fromkeys(f"{name}/{path}" for path, *_ in known.trees(split))
            where = f"FEDTUTOR_DATA, which is {given or 'not set'}"
            return [
                f"    its place: {' or '.join(paths)} in the folder {where}",
                f"    its page: {known.page}",
            ]
    return []


def _found(root: Path, name: str, split: str) -> tuple[Source | None, str]:
    """The split that lies below `root`, and what of it is missing or altered."""
    pixels, note = _find(root, name, split) or (None, "")
    if pixels is None:
        return None, ""
    note = _note(name, split, pixels.y, note, shown(root))
    words = SETS[name].title + (f" ({note})" if note else "")
    return Source(f"{name}/{split}", words, pixels, whole=not note), note


def _find(root: Path, name: str, split: str) -> tuple[Pixels, str] | None:
    """What lies below `root`, and what is to be said about it."""
    known, own = SETS[name], root / name
    for file, reader, kind in (
        (own / f"{split}.npz", arrays.npz, "npz"),
        (own / f"{split}_jpeg.npz", arrays.jpeg_npz, "jpeg"),
    ):
        if file.is_file():
            return reader(file), known.copy[kind]
    for home in (own, *(root / home for home in known.homes)):
        if pixels := _tree(home, known, split):
            return pixels, ""
    for archive in known.archives:
        for file in (root / archive, own / archive):
            if file.is_file():
                unpacked = cache.unpack(file)
                for home in ("", name, *known.homes):
                    if pixels := _tree(unpacked / home, known, split):
                        return pixels, ""
                raise DataError(
                    f"{file.name} does not hold {known.title}", where=shown(file),
                    do=known.by_hand(),
                )  # fmt: skip
    return None


def _tree(home: Path, known: DataSet, split: str) -> Pixels | None:
    """The split in the official tree below `home`, if that is there."""
    for path, reader, options in known.trees(split):
        if home.is_dir() and any((home / p).exists() for p in (path, f"{path}.gz")):
            return reader(home / path, **options)
    return None


def _note(name: str, split: str, y: np.ndarray, note: str, where: str) -> str:
    """What the labels say about the split; labels that cannot be right are refused."""
    known = SETS[name]
    wrong = y[(y < 0) | (y >= known.num_classes)]
    if len(wrong):
        raise DataError(
            f"label {wrong[0]} is out of range in {known.title}, {split} ({len(wrong)} labels)",
            where=where, do=f"store labels from 0 to {known.num_classes - 1} (some files count "
            f"from 1, or write the digit 0 as 10)",
        )  # fmt: skip
    counts, total = np.bincount(y, minlength=known.num_classes), known.total(split)
    limits = np.broadcast_to(known.counts.get(split) or len(y), counts.shape)
    odd = np.flatnonzero((counts == 0) | (counts > limits))
    if len(odd) or len(y) > (total or len(y)):
        what = f"{counts[odd[0]]} images of class {odd[0]}" if len(odd) else f"{len(y)} images"
        raise DataError(
            f"{known.title}, {split}, cannot have {what}", where=where,
            do="group the images by class as published, see data/README.md",
        )  # fmt: skip
    if total and len(y) < total:
        part = "sample: " + known.samples.get(len(y), f"{len(y):,} of {total:,} images")
        return f"{part}, {note}" if note else part
    return note
