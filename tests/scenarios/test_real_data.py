"""What the real files must be: run where FEDTUTOR_DATA names a folder that holds some.

A set that is not there is skipped; one that is there is compared with the known fingerprint.
"""

import gc
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.federations import settings

from fedtutor.datasets.sources import open_set
from fedtutor.errors import DataError
from fedtutor.federation import Federation
from fedtutor.methods import make
from fedtutor.rounds import run
from fedtutor.scenarios.base import build

pytestmark = pytest.mark.data

# Measured once and typed here by hand. Samples and copies are those of the folder that
# data/README.md describes; whoever holds other samples sees the tests of those skipped.
KNOWN = [
    ("mnist", "train", 28, 1, 60000, "71d3be42f93a"),
    ("mnist", "test", 28, 1, 10000, "4718853ea946"),
    ("usps", "train", 16, 1, 7291, "d5ae87e18772"),
    ("usps", "test", 16, 1, 2007, "f333b1d6aed6"),
    ("fashion_mnist", "train", 28, 1, 60000, "a8007d7be041"),
    ("fashion_mnist", "test", 28, 1, 10000, "3581bf52f521"),
    ("svhn", "train", 32, 3, 5000, "2bd6736266fc"),
    ("svhn", "test", 32, 3, 5000, "ea7654bc7af2"),
    ("mnist_m", "train", 32, 3, 5000, "23cb8156c72d"),
    ("mnist_m", "test", 32, 3, 5000, "0f312753e687"),
    ("office_caltech10", "amazon", 64, 3, 958, "f56a0377df0f"),
    ("office_caltech10", "caltech", 64, 3, 1123, "33b4eb4e22ba"),
    ("office_caltech10", "dslr", 64, 3, 157, "6bd31e3e5213"),
    ("office_caltech10", "webcam", 64, 3, 295, "d979dbe43488"),
]
COUNTS = {
    ("cifar10", "train"): [5000] * 10, ("cifar10", "test"): [1000] * 10,
    ("tiny_imagenet", "train"): [50] * 200,
    ("svhn", "train"): [339, 988, 775, 561, 496, 450, 381, 376, 316, 318],
    ("office_caltech10", "webcam"): [29, 21, 31, 27, 27, 30, 43, 30, 27, 30],
}  # fmt: skip
AT_HAND = [
    ("digits-partial", {}), ("digits-five-partial", {}),
    ("office-caltech", {"public": "tiny-imagenet"}), ("office-caltech-partial", {}),
    ("mnist", {}), ("fashion-mnist", {}), ("cifar10", {}),
    ("mnist", {"private_size": None, "partition": "dirichlet"}),
    ("cifar10-c-rebuilt", {"private_size": 200, "test_size": 50}),
]  # fmt: skip


def there(loader, *args, **options):
    try:
        return loader(*args, **options)
    except DataError as error:
        if "is not here" in str(error) or "cannot be downloaded" in str(error):
            pytest.skip(str(error).splitlines()[0])
        raise


@pytest.mark.parametrize(("name", "split", "size", "channels", "count", "fingerprint"), KNOWN)
def test_fingerprints(name, split, size, channels, count, fingerprint):
    source = there(open_set, name, split)
    if len(source) != count:
        pytest.skip(f"another part of the set: {source.words}")
    assert source.take(size=size, channels=channels).fingerprint == fingerprint


@pytest.mark.parametrize(("name", "split"), COUNTS)
def test_class_counts(name, split):
    source = there(open_set, name, split)
    if len(source) != sum(COUNTS[name, split]):
        pytest.skip(f"another part of the set: {source.words}")
    assert torch.bincount(source.y).tolist() == COUNTS[name, split]


def status(key: str) -> int:
    """Bytes of memory that the kernel counts for this process: VmRSS now, VmHWM at most."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


@pytest.mark.serial
@pytest.mark.parametrize(("name", "options"), AT_HAND)
def test_loads_fast_and_small_and_trains(name, options):
    there(build, name, **options)  # what is prepared once is prepared now
    gc.collect()
    counted = Path("/proc/self/clear_refs").exists()
    if counted:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the maximum
        before = status("VmRSS")
    start = time.perf_counter()
    scenario = build(name, **options)
    assert time.perf_counter() - start < 5
    if counted:
        pixels = sum(part.x.numel() for part in scenario._parts())
        # 4 MB are allowed for what does not grow with the pixels: labels, orders, buffers
        assert status("VmHWM") - before < 1.5 * pixels + 4e6
    trained(scenario)


def trained(scenario) -> None:
    """Two rounds of `solo` and `fedavg` on a few images of every part."""
    short = replace(
        scenario,
        clients=tuple(replace(c, private=c.private[:40]) for c in scenario.clients[:6]),
        tests={name: images[:50] for name, images in scenario.tests.items()},
    )
    for method in ("solo", "fedavg"):
        fed = Federation(short, make(method), settings(rounds=2, local_epochs=1, lr=0.01,
                         batch_size=20, models=["small_cnn"], eval_every=2))  # fmt: skip
        history = run(fed)
        losses = [row["values"] for row in history["loss"]]
        assert len(losses) == 2 and all(0 < v < 10 for row in losses for v in row)
        assert len(history["accuracy"][-1]["matrix"]) == len(short.clients)
