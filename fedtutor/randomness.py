"""Random numbers that belong to somebody: one generator per (seed, owner, round, purpose).

Nothing in a round reads torch's global generator. So a result depends neither on the order in
which clients run, nor on the number of threads, nor on whether a run was interrupted; and two
methods with the same seed see the same shuffles.
"""

import hashlib

import torch
from torch import Tensor


def generator(*parts, device="cpu") -> torch.Generator:
    """A fresh generator whose seed is a hash of `parts`, e.g. `(seed, "mnist", 3, "batches")`."""
    digest = hashlib.sha256("/".join(str(part) for part in parts).encode()).digest()
    return torch.Generator(device).manual_seed(int.from_bytes(digest[:8]) >> 1)


def on_device(drawn: Tensor, device) -> Tensor:
    """Numbers that were drawn on the CPU; a GPU gets them without anybody waiting for the copy."""
    if torch.device(device).type == "cuda":
        return drawn.pin_memory().to(device, non_blocking=True)
    return drawn.to(device)
