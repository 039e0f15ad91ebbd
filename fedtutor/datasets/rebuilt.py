"""Two data sets made anew from their definition, for where the published files are absent.

MNIST-M (Ganin and Lempitsky 2015): the absolute difference of a digit and a patch of a photograph,
channel by channel. CIFAR-10-C (Hendrycks and Dietterich 2019): CIFAR-10's test images under 19
corruptions. Neither equals the published pixels: MNIST-M's photographs are others (there BSDS500).
The corruptions come from `imagecorruptions-imaug`, which has the strengths of ImageNet-C. The
published CIFAR-10-C has weaker ones, so here a severity hurts more. Scenarios say "rebuilt".
"""

import hashlib
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from ..errors import DataError, SettingError, choose
from ..images import Images
from . import cache
from .arrays import resized
from .bundled import packaged, unread
from .catalog import CORRUPTIONS

PHOTOS = ("astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg")  # shipped with scikit-image


def mnist_m(digits: Images, *, seed: int = 0) -> Images:
    """|patch - digit| for gray digits [n, 1, 32, 32]: uint8 [n, 3, 32, 32], labels unchanged.

    Image i has a patch of its own that depends on `seed` and i only.
    """
    photos = [packaged("skimage", f"data/{name}", _photograph) for name in PHOTOS]
    size = digits.x.shape[-1]
    words = f"MNIST-M rebuilt: {digits.source} on patches of {len(photos)} photographs"
    if not digits.read:
        return unread(digits, 3, size, words)
    out = torch.empty(len(digits), 3, size, size, dtype=torch.uint8)
    rng = np.random.default_rng([seed, 77])
    draws = rng.random((len(digits), 3))
    for i, (which, top, left) in enumerate(draws):
        photo = photos[int(which * len(photos))]
        row = int(top * (photo.shape[1] - size + 1))
        column = int(left * (photo.shape[2] - size + 1))
        patch = photo[:, row : row + size, column : column + size].to(torch.int16)
        out[i] = (patch - digits.x[i]).abs().to(torch.uint8)
    return Images(out, digits.y, words)


def _photograph(file: Path) -> torch.Tensor:
    with Image.open(file) as photo:
        return torch.from_numpy(np.array(photo.convert("RGB"))).permute(2, 0, 1)


def corrupted(images: Images, corruption: str, *, severity: int, rows: np.ndarray,
              size: int = 32) -> Images:  # fmt: skip
    """`images` [n, 3, 32, 32] under one of the 19 corruptions at a severity from 1 to 5, resized.

    Noise depends on the corruption, the severity and the number in `rows` (the image's place in
    CIFAR-10's test set) only, so a selection does not change an image. Made once, then cached.
    """
    choose(corruption, CORRUPTIONS, kind="corruption", where="CIFAR-10-C")
    require_severity(severity, "CIFAR-10-C")
    words = f"{images.source}, {corruption} rebuilt"
    if not images.read:
        return unread(images, 3, size, words)
    digest = hashlib.sha256(f"{images.fingerprint}{rows.tolist()}".encode()).hexdigest()[:16]
    x = images.x.permute(0, 2, 3, 1).numpy()

    def fill(array):
        for i, row in enumerate(rows.tolist()):
            array[i] = resized(Image.fromarray(_corrupt(x[i], corruption, severity, row)), size)

    name = f"cifar10-c-rebuilt-{corruption}-{severity}-{size}-{digest}"
    made = cache.prepared(name, (len(x), size, size, 3), fill)
    out = torch.from_numpy(np.ascontiguousarray(made.transpose(0, 3, 1, 2)))
    return Images(out, images.y, words)


def require_severity(severity, where: str) -> None:
    if severity not in (1, 2, 3, 4, 5) or isinstance(severity, bool):
        raise SettingError(f"severity = {severity!r}", where=where,
                           do="give a whole number from 1 to 5")  # fmt: skip


def _corrupt(image: np.ndarray, corruption: str, severity: int, row: int) -> np.ndarray:
    """One image [32, 32, 3]; numpy's global state, which the library reads, is put back."""
    try:
        from imagecorruptions import corrupt
    except ImportError:
        raise DataError(
            "the corruptions need a package that is not installed", where="imagecorruptions",
            do="install it: pip install imagecorruptions-imaug (see requirements.txt)",
        ) from None  # fmt: skip
    words = f"{corruption}/{severity}/{row}".encode()
    seed = int.from_bytes(hashlib.sha256(words).digest()[:4])
    own = {"seed": seed} if corruption in ("glass_blur", "impulse_noise") else {}
    before = np.random.get_state()
    np.random.seed(seed)
    try:
        return corrupt(image, corruption_name=corruption, severity=severity, **own)
    finally:
        np.random.set_state(before)
