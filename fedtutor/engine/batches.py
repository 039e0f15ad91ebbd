"""Orders of images, dealt into batches. `holder` is a federation or a client: it has the settings,
the scenario and the device."""

from collections.abc import Iterator

import torch
from torch import Tensor

from ..randomness import on_device

AHEAD = 2**20  # numbers: 4 MB


def cut(order: Tensor, size: int) -> list[Tensor]:
    """An order of images, cut into one index tensor per batch of `size`.

    A lone last image joins the batch before it, because batch norm cannot train on one image.
    """
    *parts, last = order.split(size)
    if parts and len(last) == 1:
        return [*parts[:-1], torch.cat([parts[-1], last])]
    return [*parts, last]


def batches(holder, count: int, own: torch.Generator) -> list[Tensor]:
    """A fresh order of `count` images, one index tensor per batch; see `cut`."""
    size = holder.settings.batch_size
    order = on_device(torch.randperm(count, generator=own), holder.device)
    if holder.settings.drop_last and count > size:
        order = order[: count - count % size]
    return cut(order, size)


def loaded(holder, data, own: torch.Generator) -> Iterator[tuple[Tensor, ...]]:
    """One epoch: the index, x, as networks see it, and y of each batch, in a fresh order.

    Images are taken and normalized for several batches at once, up to AHEAD numbers.
    """
    parts = batches(holder, len(data), own)
    ahead = max(1, AHEAD // (holder.settings.batch_size * data.x[0].numel()))
    for some in (parts[i : i + ahead] for i in range(0, len(parts), ahead)):
        index, sizes = torch.cat(some), [len(part) for part in some]
        x, y = holder.scenario.inputs(data.x[index]), data.y[index]
        yield from zip(some, x.split(sizes), y.split(sizes), strict=True)


def all_of(holder, data) -> Iterator[Tensor]:
    """All images in their order, as networks see them, in batches of the evaluation's size."""
    size = holder.settings.eval_batch_size
    return (holder.scenario.inputs(part) for part in data.x.split(size))
