"""Images of any numbers, shape and size become bytes of one size: 0 is black, 255 is white.

Which value of theirs is white is decided by the type and the brightest pixel, image by image, and
all images of one type have to agree:

| type | white |
|---|---|
| bool | True |
| uint8 | 255 |
| uint16 | 65535 |
| other whole numbers | 255 where no pixel is above it, else 65535 |
| floats | 1 where no pixel is above it, else 255 |

Refused, because they can be read in two ways: values below 0; uint8 of 0 and 1 only; images of
another type whose white is not 1 and of which no pixel reaches half of it. `white` says it then.
"""

from typing import NamedTuple

import numpy as np
import torch

from ..errors import DataError
from .arrays import fitted

FITS = ("crop", "resize")


class Form(NamedTuple):
    """How images are to be. size: height and width in pixels; None leaves them as they are.

    fit: "crop" cuts the largest square out of the middle, "resize" makes a square of the whole,
    which changes its proportions; then both resize bilinearly, as PIL does it. white: see above.
    """

    size: int | None = None
    fit: str = "crop"
    white: float | None = None


def upright(images: np.ndarray, where: str) -> np.ndarray:
    """[b, h, w] or [b, h, w, 3], of images whose channels come first, last, or are not written."""
    if images.ndim == 3:
        return images
    first, last = (images.ndim == 4 and images.shape[axis] in (1, 3) for axis in (1, 3))
    if first == last:
        what = "can be read both ways" if first else "have neither one channel nor three"
        raise DataError(f"images {list(images.shape[1:])} {what}", where=where,
                        do="give [height, width], or 1 or 3 channels, last or first")  # fmt: skip
    images = images if last else np.moveaxis(images, 1, 3)
    return images[..., 0] if images.shape[3] == 1 else images


class Scale:
    """Which value is white, for the images of one part; see the table above."""

    def __init__(self, white: float | None, where: str):
        self.given, self.where = white, where
        self.top: dict[np.dtype, dict[float, float]] = {}  # type -> white -> brightest pixel

    def to_bytes(self, images: np.ndarray) -> np.ndarray:
        """uint8 of the shape of `images`, [b, h, w] or [b, h, w, 3]."""
        if images.dtype.kind not in "buif":
            self._refuse(f"the pixels are {images.dtype}", "give numbers")
        if not images.size:
            return images.astype(np.uint8)
        if images.dtype.kind == "f" and not np.isfinite(images).all():
            self._refuse("a pixel is nan or infinite", "correct or leave out such images")
        if images.min() < 0:
            self._refuse(f"a pixel is {images.min():g}", "give pixels from 0, as they were before "
                         "any normalization: mean and deviation are computed here")  # fmt: skip
        white = self._white(images)
        if images.dtype == np.uint8 and white == 255:
            return images
        return np.rint(images.astype(np.float64) * 255 / white).astype(np.uint8)

    def _white(self, images: np.ndarray) -> float:
        tops, kind = images.reshape(len(images), -1).max(1), images.dtype
        seen = self.top.setdefault(kind, {})
        for top in np.unique(tops[tops > 0]).tolist():  # a black image fits every scale
            white = self._white_of(kind, top)
            seen[white] = max(seen.get(white, 0), top)
            if top > white:
                self._refuse(f"a pixel is {top:g}, above white, which is {white:g}",
                             "give a larger white=, or clip such pixels")  # fmt: skip
            if len(seen) > 1:
                (low, a), (high, b) = sorted(seen.items())
                self._refuse(
                    f"some images reach {a:g} and others {b:g}: white is {low:g} or {high:g}",
                    f"say it: white={high:g} for all, or bring them to one scale",
                )
        return next(iter(seen), 1)

    def _white_of(self, kind: np.dtype, top: float) -> float:
        if self.given and kind != np.bool_ and (kind != np.uint8 or self.given <= 255):
            return self.given
        if kind.kind == "f":
            return 1 if top <= 1 else 255
        if kind in (np.bool_, np.uint8):
            return 1 if kind == np.bool_ else 255
        unsigned = kind.kind == "u" and kind.itemsize == 2  # whichever byte comes first
        return 255 if top <= 255 and not unsigned else 65535

    def check(self) -> None:
        """Raise `DataError` where the brightest pixel of all leaves two readings."""
        for kind, seen in self.top.items():
            for white, top in seen.items():
                dark = top <= 1 if kind == np.uint8 else top < white / 2
                if dark and white > 1 and not self.given:
                    self._refuse(
                        f"the brightest pixel is {top:g}: dark images of 0 to {white:g} ({kind}), "
                        f"or another scale",
                        f"say what white is, such as white={white:g} or white={top:g}",
                    )  # fmt: skip

    def _refuse(self, what: str, do: str):
        raise DataError(what, where=self.where, do=do)


def squared(images: np.ndarray, form: Form) -> np.ndarray:
    """uint8 [b, channels, size, size] of uint8 [b, h, w] or [b, h, w, 3]."""
    height, width = images.shape[1:3]
    side = min(height, width)
    if form.fit == "crop":
        top, left = (height - side) // 2, (width - side) // 2
        images = images[:, top : top + side, left : left + side]
    return fitted(np.ascontiguousarray(images), form.size)


def planes(images: np.ndarray) -> np.ndarray:
    """uint8 [b, channels, h, w] of uint8 [b, h, w] or [b, h, w, 3]."""
    return images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)


def joined(blocks: list[np.ndarray], where: str) -> torch.Tensor:
    """One tensor of all; gray becomes three equal channels where another image has colors."""
    shapes = {block.shape[2:] for block in blocks}
    if len(shapes) > 1:
        few = " and ".join(f"{height} x {width}" for height, width in sorted(shapes)[:2])
        raise DataError(f"the images have {len(shapes)} sizes, such as {few} pixels", where=where,
                        do="say how large they shall be, such as size=32")  # fmt: skip
    shape = (sum(map(len, blocks)), max(block.shape[1] for block in blocks), *shapes.pop())
    out, start = torch.empty(shape, dtype=torch.uint8), 0
    for block in blocks:
        out.numpy()[start : start + len(block)] = block
        start += len(block)
    return out
