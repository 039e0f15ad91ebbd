"""A set of images with labels, held whole in memory as 8-bit numbers."""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import torch

from .engine.workers import device_of
from .errors import DataError, strict, whole

NO_LABEL = -1  # label of public images: a loss that tries to learn from it fails


@strict(DataError)
@dataclass(frozen=True, eq=False, repr=False)
class Images:
    """Images with labels, held whole in memory.

    x: uint8 [n, channels, height, width]; y: int64 [n]; source: where they are from, in words.
    Raises `DataError` for another type or shape, or if x and y differ in length.
    """

    x: torch.Tensor
    y: torch.Tensor
    source: str

    def __post_init__(self):
        if not isinstance(self.source, str):
            raise DataError(
                f"source = {self.source!r}",
                where="Images",
                do="say in words where the images are from",
            )
        if not (isinstance(self.x, torch.Tensor) and isinstance(self.y, torch.Tensor)):
            self._refuse("images and labels are not tensors", "convert them with torch.as_tensor")
        if self.x.dtype != torch.uint8 or self.x.ndim != 4 or 0 in self.x.shape[1:]:
            scaled = "; of values from 0 to 1: (x * 255).round().to(torch.uint8)"
            self._refuse(
                f"the images are {self.x.dtype} {list(self.x.shape)}",
                "give uint8 [n, channels, height, width], values 0 to 255"
                + scaled * self.x.is_floating_point(),
            )
        if self.y.dtype != torch.int64 or self.y.ndim != 1:
            self._refuse(f"the labels are {self.y.dtype} {list(self.y.shape)}", "give int64 [n]")
        if len(self.x) != len(self.y):
            self._refuse(f"{len(self.x)} images and {len(self.y)} labels", "give one label each")
        if self.read and self.x.device != self.y.device:
            self._refuse(
                f"images on {self.x.device}, labels on {self.y.device}", "bring both to one device"
            )

    def _refuse(self, what: str, do: str):
        raise DataError(what, where=self.source, do=do)

    def __repr__(self) -> str:
        return f"Images({len(self)} x {list(self.x.shape[1:])}, {self.source})"

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index) -> "Images":
        """The images at an index tensor, a mask or a slice."""
        if isinstance(index, int):
            self._refuse(f"[{index}] names one image", f"take a slice: [{index} : {index + 1}]")
        try:
            return Images(self.x[index], self.y[index], self.source)
        except (IndexError, TypeError) as error:
            self._refuse(
                f"these are {len(self)} images, and the index does not fit ({error})",
                "give a slice, a mask of that length, or whole numbers below it",
            )

    @property
    def read(self) -> bool:
        """Whether the pixels are here; inside `sources.without_pixels` no pixel is read."""
        return not self.x.is_meta

    def must_be_read(self) -> None:
        """Raise `DataError` where the pixels are not here."""
        if not self.read:
            self._refuse(
                "the pixels of these images were never read",
                "build the scenario again, outside of sources.without_pixels()",
            )

    def to(self, device) -> "Images":
        """The same images on `device`; nothing is copied if they are already there."""
        self.must_be_read()
        device = device_of(device)
        return Images(self.x.to(device), self.y.to(device), self.source)

    @cached_property
    def fingerprint(self) -> str:
        """12 hex digits: the start of SHA-256 over shape, pixels and labels."""
        self.must_be_read()
        digest = hashlib.sha256(repr(tuple(self.x.shape)).encode())
        digest.update(self.x.cpu().contiguous().numpy())
        digest.update(self.y.cpu().numpy().astype("<i8").tobytes())
        return digest.hexdigest()[:12]

    def check_labels(self, num_classes: int) -> "Images":
        """Return the images; raise `DataError` if a label is outside 0 .. num_classes - 1."""
        whole("num_classes", num_classes, 1, self.source, DataError)
        wrong = self.y[(self.y < 0) | (self.y >= num_classes)]
        if len(wrong):
            self._refuse(
                f"label {int(wrong[0])} is out of range ({len(wrong)} of {len(self)} labels)",
                f"labels must be 0 to {num_classes - 1}: set num_classes, or correct the labels",
            )
        return self

    def counts(self, num_classes: int) -> list[int]:
        """How many images each class has; raises `DataError` for a label out of range."""
        return torch.bincount(self.check_labels(num_classes).y, minlength=num_classes).tolist()
