"""Which last digits this processor gives: a short hash per operation and per trained network.

    python -m tools.bits lenet5 small_cnn

Run it twice with other environment variables, or on two machines, and compare the lines. What came
out of that is in tests/README.md.
"""

import argparse
import copy
import hashlib
import sys
from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F
from torch import Tensor

from fedtutor import models

ONE_CHANNEL = {"lenet5": 28, "simple_cnn": 28}  # name: image size; the others see 3 x 32 x 32
STEPS = 8
LAYOUTS = {"contiguous": torch.contiguous_format, "channels-last": torch.channels_last}
OPTIMIZERS: dict[str, Callable] = {
    "adam": lambda weights: torch.optim.Adam(weights, 1e-3),
    "sgd": lambda weights: torch.optim.SGD(weights, 0.01, momentum=0.9),
}
OPERATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "matrix product": lambda a: a @ a,
    "linear layer": lambda a: F.linear(a[:32], a[:84]),
    "convolution": lambda a: F.conv2d(a.reshape(1, 3, 100, 300), a[:6, :75].reshape(6, 3, 5, 5)),
    "sum": lambda a: a.sum(0),
    "cosine": lambda a: F.cosine_similarity(a, a.T),
    "batch norm": lambda a: F.batch_norm(a, None, None, training=True),
    "group norm": lambda a: F.group_norm(a.reshape(10, 30, 300), 5),
    "exponential": torch.exp,
    "square root": lambda a: a.abs().sqrt(),
    "softmax": lambda a: a.softmax(1),
    "distances": lambda a: torch.cdist(a, a),
    "singular values": torch.linalg.svdvals,
}


def digest(tensors: Iterable[Tensor]) -> str:
    """Eight hex digits over the bits of all tensors."""
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(tensor.detach().contiguous().numpy().tobytes())
    return found.hexdigest()[:8]


def operations() -> Iterable[tuple[str, str]]:
    """Name and hash of single operations on one 300 x 300 matrix."""
    a = torch.randn(300, 300, generator=torch.Generator().manual_seed(0))
    for name, operation in OPERATIONS.items():
        yield name, digest([operation(a)])


def trained(name: str) -> Iterable[tuple[str, str]]:
    """The weights of a network after some steps, for two optimizers and two layouts."""
    own = torch.Generator().manual_seed(0)
    channels, size = (1, ONE_CHANNEL[name]) if name in ONE_CHANNEL else (3, 32)
    fresh = models.build(name, num_classes=10, in_channels=channels, image_size=size, generator=own)
    images = torch.randn(64, channels, size, size, generator=own)
    labels = torch.randint(0, 10, (64,), generator=own)
    for layout, memory_format in LAYOUTS.items():
        for kind, made in OPTIMIZERS.items():
            network = copy.deepcopy(fresh).to(memory_format=memory_format)
            network.channels_last = False  # the images have their layout already
            models.use_generator(network, torch.Generator().manual_seed(1))
            x = images.contiguous(memory_format=memory_format)
            optimizer = made(network.parameters())
            for step in range(STEPS):
                optimizer.zero_grad()
                F.cross_entropy(network(x[: 32 + step]), labels[: 32 + step]).backward()
                optimizer.step()
            yield f"{name}, {kind}, {layout}", digest(network.state_dict().values())


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("network", nargs="*", help="default: lenet5 small_cnn")
    names = parser.parse_args(arguments).network or ["lenet5", "small_cnn"]
    torch.set_num_threads(1)
    print("instruction set:", torch.backends.cpu.get_cpu_capability())
    for label, bits in operations():
        print(f"{bits}  {label}")
    for name in names:
        for label, bits in trained(name):
            print(f"{bits}  {label}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
