"""Orders of images, dealt into batches, and what is computed once for all of them.

`holder` is a federation or a client: it has the settings, the scenario and the device.
"""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from ..channel import SERVER
from ..errors import DataError, SettingError
from ..randomness import generator, on_device

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


def public_batches(fed, round_: int) -> list[Tensor]:
    """Index tensors into `fed.scenario.public`, the same for all clients."""
    if fed.scenario.public is None:
        raise DataError(
            f"{fed.method.name} learns on public images and there are none",
            where=f"scenario {fed.scenario.name}",
            do="choose a scenario with public data; of your own images: scenarios.of(public=...)",
        )
    own, s = generator(fed.seed, SERVER, round_, "public"), fed.settings
    orders = [
        torch.randperm(len(fed.scenario.public), generator=own).to(fed.device)
        for _ in range(s.public_epochs)
    ]
    return [index for order in orders for index in cut(order, s.public_batch_size)]


def all_of(holder, data) -> Iterator[Tensor]:
    """All images in their order, as networks see them, in batches of the evaluation's size."""
    size = holder.settings.eval_batch_size
    return (holder.scenario.inputs(part) for part in data.x.split(size))


class Once:
    """What stays the same while a client trains: computed for all its images in one pass, not once
    per batch; see `Client.fixed`.

    `parts()` yields all of them, as networks see them; `index` are those of the batch `x`.
    """

    def __init__(self, parts: Callable):
        self.parts, self.index, self.x = parts, None, None
        self._values: dict[tuple, Tensor] = {}
        self._codes: dict[tuple, object] = {}  # of what was asked: a slip in `key` is noticed

    def __call__(self, key: tuple, compute: partial, x: Tensor) -> Tensor:
        """compute(x), row by row, for the batch that the client trains on now.

        What has one `key` is one thing: `compute` is asked the first time only.
        """
        code = getattr(compute.func, "__code__", None)
        if self._codes.setdefault(key, code) is not code:
            raise SettingError(
                f"two different computations are called {key[1]!r}",
                where=f"client.fixed({key[0]!r}, ...)",
                do="give each a name of its own",
            )
        if key not in self._values:
            self._values[key] = torch.cat([compute(part) for part in self.parts()])
        return self._values[key][self.index]
