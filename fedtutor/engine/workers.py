"""The threads that do the work: one, or several at the same time, with the same bits."""

import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager

import torch

from ..errors import SettingError, choose


class Workers:
    """`threads` that work while `open`; `map` works without them, too, one item after the other.

    `precision` is that of products, as in the settings.
    """

    def __init__(self, threads: int, device: torch.device, precision: str):
        self.threads, self.device, self.precision = threads, device, precision
        self._pool = None

    def map(self, fn: Callable, items: Sequence, costs: Sequence[int]) -> list:
        """`[fn(item) for item in items]`; who has several threads begins with what costs most."""
        fn = self._in_precision(fn)
        if self._pool is None or len(items) < 2:
            return [fn(item) for item in items]
        jobs = {
            i: self._pool.submit(fn, items[i])
            for i in sorted(range(len(items)), key=lambda i: -costs[i])
        }
        wait(jobs.values())  # also where one fails, so that no thread goes on in the background
        return [jobs[i].result() for i in range(len(items))]

    @contextmanager
    def open(self):
        """One torch thread inside each worker: the same bits for any number of workers.

        On a GPU, products and convolutions have full float32 precision unless the settings say
        otherwise; PyTorch's own default rounds what convolutions multiply to TF32.
        """
        before, units = (
            torch.get_num_threads(),
            (torch.backends.cuda.matmul, torch.backends.cudnn.conv),
        )
        precisions = [unit.fp32_precision for unit in units]
        torch.set_num_threads(1)
        try:
            for unit in units:
                unit.fp32_precision = "tf32" if self.precision == "tf32" else "ieee"
            if self.threads == 1:
                yield
            else:
                pool = self._pool = ThreadPoolExecutor(
                    self.threads, initializer=torch.set_num_threads, initargs=(1,)
                )
                try:
                    yield
                finally:
                    pool.shutdown(cancel_futures=True)  # after Ctrl-C no further item is begun
        finally:
            self._pool = None
            torch.set_num_threads(before)
            for unit, precision in zip(units, precisions, strict=True):
                unit.fp32_precision = precision

    def _in_precision(self, fn: Callable) -> Callable:
        """`fn` under autocast where the settings ask for bf16; autocast holds for one thread only.

        Without autocast's cache, which would keep the rounded weights of before a step.
        """
        if self.precision != "bf16":
            return fn

        def work(item):
            with torch.autocast(self.device.type, torch.bfloat16, cache_enabled=False):
                return fn(item)

        return work


def device_of(value) -> str:
    """The device that `value` names; "auto" takes a GPU if there is one. Raises `SettingError`."""
    if isinstance(value, torch.device):
        value = str(value)
    if isinstance(value, str) and value == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    kind = value.split(":")[0] if isinstance(value, str) else value
    choose(kind, ("cpu", "cuda"), kind="device", where="device (or 'auto')")
    if kind == "cpu":
        choose(value, ("cpu", "cpu:0"), kind="device", where="device (or 'auto')")
    count = torch.cuda.device_count()
    if kind == "cuda" and not (
        re.fullmatch(r"cuda(:\d+)?", value) and int(value.partition(":")[2] or 0) < count
    ):
        raise SettingError(
            f"device {value!r} is not there: torch sees {count} CUDA devices",
            where="device",
            do='use "auto" or "cpu"',
        )
    return value
