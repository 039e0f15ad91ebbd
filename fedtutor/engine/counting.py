"""How much a run computes: images that pass through networks, and seconds of a processor.

    with Work() as work: ...
    work.forward, work.backward, work.cpu_seconds

Every pass through a `models.Network` is counted where it happens, whoever asks for it: clients,
teachers, the server. A pass counts as backward, too, where gradients are wanted. Evaluation is
left out, because it measures a method and is no part of it. Counts are the same on every machine;
seconds are those of this one, and other work on it lengthens them a little.
"""

import math
import threading
import time
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from ..models.base import watchers

_open: list["Work"] = []  # all that count at the moment
_lock, _here = threading.Lock(), threading.local()


class Work:
    """Counts from `with Work() as work:` on, in all threads, until the block ends."""

    def __init__(self):
        self.forward = self.backward = 0  # images
        self.cpu_seconds = 0.0

    def __enter__(self) -> "Work":
        self.cpu_seconds -= time.process_time()
        _open.append(self)
        watchers.append(self._passed)
        return self

    def __exit__(self, *error) -> None:
        _open.remove(self)
        watchers.remove(self._passed)
        self.cpu_seconds += time.process_time()

    def _passed(self, network: nn.Module, x: Tensor) -> None:
        """`models.Network` calls this for every batch x [batch, channels, size, size]."""
        if getattr(_here, "uncounted", False):
            return
        trained = x.requires_grad or any(p.requires_grad for p in network.parameters())
        count = images_in(x)
        with _lock:
            self.forward += count
            self.backward += count * (trained and torch.is_grad_enabled())

    def as_dict(self) -> dict:
        """Plain values, ready for JSON."""
        return {"forward": self.forward, "backward": self.backward, "cpu_seconds": self.cpu_seconds}


def images_in(x: Tensor) -> int:
    """How many images a batch holds, also inside `torch.func.vmap`, where one stands for many.

    The functions that look inside are private; where PyTorch lacks them, `x` counts as it is.
    """
    wrapped = getattr(torch._C, "_functorch", None)
    while wrapped is not None and wrapped.is_functorch_wrapped_tensor(x):
        x = wrapped.get_unwrapped(x)
    return x.numel() // max(math.prod(x.shape[-3:]), 1)


@contextmanager
def uncounted():
    """What happens inside, in this thread, is no part of the work."""
    outer, began = getattr(_here, "uncounted", False), time.thread_time()
    _here.uncounted = True
    try:
        yield
    finally:
        _here.uncounted = outer
        if not outer:
            with _lock:
                for work in _open:
                    work.cpu_seconds -= time.thread_time() - began
