"""What a client computes once for all its images, not once per batch; see `Client.fixed`."""

from collections.abc import Callable
from functools import partial

import torch

from ..errors import SettingError


class Once:
    """What stays the same while a client trains: computed for all its images, in one pass.

    `parts()` yields all of them, as networks see them; `index` are those of the batch `x`.
    """

    def __init__(self, parts: Callable):
        self.parts, self.index, self.x = parts, None, None
        self._values: dict[tuple, torch.Tensor] = {}
        self._codes: dict[tuple, object] = {}  # of what was asked: a slip in `key` is noticed

    def __call__(self, key: tuple, compute: partial, x: torch.Tensor) -> torch.Tensor:
        """compute(x), row by row, for the batch that the client trains on now.

        What has one `key` is one thing: `compute` is asked the first time only.
        """
        code = getattr(compute.func, "__code__", None)
        if self._codes.setdefault(key, code) is not code:
            raise SettingError(
                f"two different computations are called {key[1]!r}",
                where=f"client.fixed({key[0]!r}, ...)", do="give each a name of its own",
            )  # fmt: skip
        if key not in self._values:
            self._values[key] = torch.cat([compute(part) for part in self.parts()])
        return self._values[key][self.index]
