"""Augmentation of public images: a whole batch at once, every image with its own draws.

FCCL+ Sec. 4.1 augments the public images of its collaborative phase, "weak" or "strong":

    weak    RandomResizedCrop(scale 0.2 to 1), RandomHorizontalFlip(0.5)
    strong  weak, then ColorJitter(0.4, 0.4, 0.4, 0.1) with p = 0.8, RandomGrayscale(0.2)

Its code crops otherwise (`weak_code`, `strong_code`: RandomCrop(size, padding 4)), and the
conference code also rotates (`conference`: crop, flip, rotation up to 15 degrees; also FedCSD's
code for private images). All draws come from the generator that is handed in, always the same
number of them, so image i of a batch gets the same view wherever it runs.

    x = augment("weak", images.x[index], fed_generator)         # uint8 in, uint8 out

Differences from torchvision's transforms, which work on one image at a time: the box of a crop is
bounded by the image instead of drawn again (`_boxes`), color operations come in one order
(brightness, contrast, saturation, hue), and pixels are rounded to uint8 once, at the end.
"""

import math
from collections.abc import Callable

import torch
from torch.nn import functional as F

from ...engine.siamese import sampled
from ...errors import DataError, choose

GRAY = (0.2989, 0.587, 0.114)  # luminance of red, green, blue, as in torchvision


def augment(kind: str, x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """x uint8 [b, 1 or 3, h, w] under an augmentation of `KINDS`; same shape and type.

    Raises `SettingError` for an unknown kind and `DataError` for other images.
    """
    changes = KINDS[choose(kind, KINDS, kind="augmentation", where="augment")]
    if not changes:
        return x
    if x.dtype != torch.uint8 or x.ndim != 4 or x.shape[1] not in (1, 3):
        raise DataError(
            f"cannot augment {x.dtype} {list(x.shape)}",
            where="augment",
            do="give uint8 [batch, 1 or 3, height, width]",
        )
    x = x.float()
    for change in changes:
        x = change(x, generator)
    return x.round_().clamp_(0, 255).to(torch.uint8)


def _crop_and_flip(x, generator) -> torch.Tensor:
    """A box per image, mirrored or not, stretched to the full size."""
    center, half = _boxes(x, generator)
    mirror = 1 - 2 * (_uniform(x, generator) < 0.5).float()
    theta = torch.zeros(len(x), 2, 3, device=x.device)
    theta[:, 0, 0], theta[:, 1, 1] = half[0] * mirror, half[1]
    theta[:, 0, 2], theta[:, 1, 2] = center[0], center[1]
    return sampled(x, theta, mode="bilinear", padding_mode="border")


def _boxes(x, generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Centers and half sizes [2, b] (x, y) of the crops, in units where the image is -1 to 1.

    Area: uniform in 20 to 100 % of the image; ratio of the sides: log-uniform in 3/4 to 4/3,
    narrowed to what the area leaves room for; place: uniform.
    """
    area, ratio, right, down = (_uniform(x, generator) for _ in range(4))
    area = 0.2 + 0.8 * area
    limit = torch.minimum(torch.full_like(area, math.log(4 / 3)), -area.log())
    ratio = ((2 * ratio - 1) * limit).exp()
    half = torch.stack([(area * ratio).sqrt(), (area / ratio).sqrt()])
    return (2 * torch.stack([right, down]) - 1) * (1 - half), half


def _shift_and_flip(x, generator, pad: int = 4) -> torch.Tensor:
    """Move by up to `pad` pixels (black comes in) and mirror: an index per row and column."""
    size = x.shape[2], x.shape[3]
    moves = [(_uniform(x, generator) * (2 * pad + 1)).long().clamp(max=2 * pad) for _ in size]
    rows, columns = (
        torch.arange(n, device=x.device) + move[:, None]
        for n, move in zip(size, moves, strict=True)
    )
    mirror = _uniform(x, generator) < 0.5
    columns = torch.where(mirror[:, None], columns.flip(1), columns)
    padded = F.pad(x, (pad,) * 4)
    batch = torch.arange(len(x), device=x.device)[:, None, None]
    return padded[batch, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def _rotate(x, generator) -> torch.Tensor:
    """By up to 15 degrees, black corners."""
    angle = (2 * _uniform(x, generator) - 1) * math.radians(15)
    theta = torch.zeros(len(x), 2, 3, device=x.device)
    theta[:, 0, 0], theta[:, 0, 1] = angle.cos(), -angle.sin()
    theta[:, 1, 0], theta[:, 1, 1] = angle.sin(), angle.cos()
    return sampled(x, theta, mode="nearest", padding_mode="zeros")


def _color(x, generator) -> torch.Tensor:
    """Color jitter with p = 0.8 and gray with p = 0.2; a gray image keeps its one channel."""
    draws = [_uniform(x, generator) for _ in range(6)]
    chosen, gray = draws[0] < 0.8, draws[5] < 0.2
    factors = [
        torch.where(chosen, 0.6 + 0.8 * d, torch.ones_like(d))[:, None, None, None]
        for d in draws[1:4]
    ]
    turn = torch.where(chosen, 0.2 * draws[4] - 0.1, torch.zeros_like(draws[4]))
    x = (x * factors[0]).clamp(0, 255)
    x = _mixed(x, _luminance(x).mean((1, 2, 3), keepdim=True), factors[1])
    if x.shape[1] == 1:
        return x
    x = _hue(_mixed(x, _luminance(x), factors[2]), turn)
    return torch.where(gray[:, None, None, None], _luminance(x), x)


def _mixed(x, other, factor) -> torch.Tensor:
    return (factor * x + (1 - factor) * other).clamp(0, 255)


def _luminance(x) -> torch.Tensor:
    """[b, 1, h, w]"""
    if x.shape[1] == 1:
        return x
    return (x * torch.tensor(GRAY, device=x.device).view(1, 3, 1, 1)).sum(1, keepdim=True)


def _hue(x, turn) -> torch.Tensor:
    """Turn the hue [b] by a share of the circle; value and saturation (HSV) stay.

    A channel is value - chroma * k(n), n = 5, 3, 1 for red, green, blue, where k rises and falls
    with (n + 6 hue) mod 6: the inverse of the usual six cases in one line.
    """
    value, low = x.amax(1), x.amin(1)
    chroma = value - low
    r, g, b = x.unbind(1)
    safe = chroma.clamp(min=1e-6)
    other = torch.where(value == g, 2 + (b - r) / safe, 4 + (r - g) / safe)
    sixth = torch.where(value == r, (g - b) / safe, other)
    sixth = sixth + 6 * turn[:, None, None]
    n = torch.tensor([5.0, 3.0, 1.0], device=x.device).view(1, 3, 1, 1)
    k = (n + sixth[:, None]).remainder(6)
    return value[:, None] - chroma[:, None] * torch.minimum(k, 4 - k).clamp(0, 1)


def _uniform(x, generator) -> torch.Tensor:
    """One number from 0 to 1 per image. The generator may live on the CPU, x elsewhere."""
    draws = torch.rand(len(x), generator=generator, device=generator.device)
    return draws.to(x.device)


KINDS: dict[str, tuple[Callable, ...]] = {  # what happens, one after the other
    "none": (),
    "weak": (_crop_and_flip,),
    "strong": (_crop_and_flip, _color),
    "weak_code": (_shift_and_flip,),
    "strong_code": (_shift_and_flip, _color),
    "conference": (_shift_and_flip, _rotate),
}
