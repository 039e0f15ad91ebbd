"""Changes of images that a gradient passes through, for distillation under augmentation."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F


def siamese(parts: Sequence[Tensor], own: torch.Generator) -> list[Tensor]:
    """One random change, the same for all images of all parts (Zhao and Bilen 2021, DSA).

    One of: color (brightness, saturation, contrast), shift by up to an eighth, a square of 0 over
    a quarter, mirror, zoom by up to 1.2 along each axis, rotation by up to 15 degrees. All are
    differentiable; x [n, c, h, w] in the scale that networks see, and 0 comes in at the border.
    """
    kind = int(torch.randint(6, (1,), generator=own))
    u = torch.rand(4, generator=own).tolist()
    return [_CHANGES[kind](x, u) for x in parts]


def siamese_by_class(
    x_private: Tensor, y_private: Tensor, x: Tensor, y: Tensor, own: torch.Generator
) -> list[Tensor]:
    """[x_private, x] under `siamese`, each class with a change of its own.

    x_private: [m, c, h, w], y_private: [m], x: [n, c, h, w], y: [n]; every label of y_private is
    one of y.
    """
    parts, places = ([], []), ([], [])
    for label in y.unique():
        rows = [(labels == label).nonzero()[:, 0] for labels in (y_private, y)]
        for i, part in enumerate(siamese([x_private[rows[0]], x[rows[1]]], own)):
            parts[i].append(part)
            places[i].append(rows[i])
    return [torch.cat(p)[torch.cat(r).argsort()] for p, r in zip(parts, places, strict=True)]


def _color(x, u):
    x = x + (u[0] - 0.5)
    gray = x.mean(1, keepdim=True)
    x = gray + (x - gray) * 2 * u[1]
    middle = x.mean((1, 2, 3), keepdim=True)
    return middle + (x - middle) * (u[2] + 0.5)


def _shift(x, u):
    height, width = x.shape[2:]
    down, right = round((2 * u[0] - 1) * height / 8), round((2 * u[1] - 1) * width / 8)
    padded = F.pad(x, (max(right, 0), max(-right, 0), max(down, 0), max(-down, 0)))
    top, left = max(-down, 0), max(-right, 0)
    return padded[:, :, top : top + height, left : left + width]


def _square(x, u):
    height, width = x.shape[2:]
    top, left = round((u[0] - 0.25) * height), round((u[1] - 0.25) * width)
    mask = torch.ones(height, width, dtype=x.dtype, device=x.device)
    mask[max(top, 0) : top + height // 2, max(left, 0) : left + width // 2] = 0
    return x * mask


def _mirror(x, u):
    return x.flip(3) if u[0] < 0.5 else x


def _zoom(x, u):
    return _turned(x, [[1.2 ** (2 * u[0] - 1), 0.0, 0.0], [0.0, 1.2 ** (2 * u[1] - 1), 0.0]])


def _rotate(x, u):
    angle = math.radians(15) * (2 * u[0] - 1)
    sine, cosine = math.sin(angle), math.cos(angle)
    return _turned(x, [[cosine, -sine, 0.0], [sine, cosine, 0.0]])


_CHANGES = (_color, _shift, _square, _mirror, _zoom, _rotate)


def _turned(x, theta):
    theta = torch.tensor(theta, dtype=x.dtype, device=x.device).expand(len(x), 2, 3)
    return sampled(x, theta)


def sampled(x: Tensor, theta: Tensor, **how: str) -> Tensor:
    """x [n, c, h, w] moved by the affine maps theta [n, 2, 3]; `how` is for `grid_sample`."""
    grid = F.affine_grid(theta, list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, align_corners=False, **how)
