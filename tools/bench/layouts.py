"""Which layout of images a CPU is faster with, network by network.

    python -m tools.bench.layouts --json data/speed/layouts.json
    python -m tools.bench.layouts lenet5 small_cnn

PyTorch's usual layout holds one channel after the other; channels-last holds the channels of a
pixel side by side. Both take turns, forward and backward, with batches of 32 and one thread. The
field `channels_last` of an `Architecture` says what was chosen; the numbers are usual by last.
"""

import argparse
import copy
import statistics
import sys
import time
from pathlib import Path

import torch

from fedtutor import models
from fedtutor.engine.files import save_json
from fedtutor.losses import cross_entropy

SHAPES = (1, 28), (3, 32)
BATCH, TURN = 32, 0.05  # images; seconds that a turn takes at least
KINDS = ("train", "evaluate")


def work(network, images, labels, kind: str) -> None:
    """One batch there and, where it trains, back."""
    if kind == "evaluate":
        with torch.no_grad():
            network(images)
        return
    cross_entropy(network(images), labels).backward()
    for p in network.parameters():
        p.grad = None


def gains(name: str, channels: int, size: int, turns: int) -> dict[str, float]:
    """Kind -> how often the time of channels-last goes into that of the usual layout."""
    own = torch.Generator().manual_seed(0)
    last = models.build(name, num_classes=10, in_channels=channels, image_size=size, generator=own)
    usual = copy.deepcopy(last)
    last.channels_last, usual.channels_last = True, False
    for network in (last, usual):
        models.use_generator(network, torch.Generator().manual_seed(1))
    images = torch.randn(BATCH, channels, size, size, generator=own)
    labels = torch.randint(0, 10, (BATCH,), generator=own)
    found = {}
    for kind in KINDS:
        work(last, images, labels, kind)
        began = time.process_time()
        work(usual, images, labels, kind)
        often, pairs = max(1, round(TURN / (time.process_time() - began))), []
        for turn in range(turns):
            spent = {}
            for network in (last, usual)[:: 1 if turn % 2 else -1]:
                began = time.process_time()
                for _ in range(often):
                    work(network, images, labels, kind)
                spent[network] = time.process_time() - began
            pairs.append(spent[usual] / spent[last])
        found[kind] = round(statistics.median(pairs), 3)
    return found


def fits(name: str, channels: int, size: int) -> bool:
    network = models.MODELS[name]
    return size >= network.smallest and size % network.multiple == 0


def record(names: list[str], turns: int) -> list[dict]:
    """A row per network and shape of images."""
    rows = []
    for name in names:
        for channels, size in SHAPES:
            if fits(name, channels, size):
                row = {"network": name, "channels": channels, "size": size}
                row |= {"chosen": models.MODELS[name].channels_last}
                row |= gains(name, channels, size, turns)
                rows.append(row)
                print(*row.values(), flush=True)
    return rows


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("network", nargs="*", choices=[*models.MODELS, []])
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--json", type=Path, help="write what was measured there")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    rows = record(options.network or list(models.MODELS), options.turns)
    if options.json:
        save_json(options.json, {"rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
