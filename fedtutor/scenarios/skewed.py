"""One data set dealt to clients, at random or with label skew: FedCSD and RepShare.

`partition` is "iid", "dirichlet" (then `beta` counts) or "shards" (then `shards_per_client` does).
Test sets are whole; `test_size` takes at most so many random images, to look around fast.
"""

from typing import NamedTuple

import numpy as np
import torch

from ..datasets import catalog
from ..datasets.sources import open_set
from ..errors import choose
from .base import Scenario, register
from .common import (
    CIFAR_CLASSES,
    MNIST,
    Look,
    Shares,
    assembled,
    numbered,
    public_images,
    shortened,
    slices,
    some,
    tested,
)

NORMS = {"mnist": MNIST, "half": ((0.5,), (0.5,)), "none": ((0.0,), (1.0,))}  # mean, deviation
CIFAR10 = Look(32, ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)), CIFAR_CLASSES)
CIFAR100 = Look(32, ((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)), numbered(100))
FASHION = Look(
    28,
    ((0.2860,), (0.3530,)),
    (
        "T-shirt/top",
        "trouser",
        "pullover",
        "dress",
        "coat",
        "sandal",
        "shirt",
        "sneaker",
        "bag",
        "ankle boot",
    ),
)


class Chosen(NamedTuple):
    """Which images of a data set. private: how many of the training images (None: all), at random
    or the first ones; test: at most how many test images (None: all)."""

    data: str
    private: int | None
    test: int | None
    seed: int
    first: bool = False


@register("cifar100-skew")
def cifar100_skew(
    *,
    num_clients: int = 10,
    partition: str = "dirichlet",
    beta: float = 0.5,
    shards_per_client: int = 2,
    min_per_client: int = 10,
    private_size: int | None = None,
    test_size: int | None = None,
    split_seed: int = 0,
) -> Scenario:
    """FedCSD's CIFAR-100: Dirichlet(`beta`) over 10 clients; the paper has 0.01, 0.5 and 5."""
    images = Chosen("cifar100", private_size, test_size, split_seed)
    return _dealt(
        "cifar100-skew",
        images,
        CIFAR100,
        Shares(partition, num_clients, beta, min_per_client, shards_per_client),
    )


@register("femnist-skew")
def femnist_skew(
    *,
    data: str = "femnist",
    num_clients: int = 10,
    partition: str = "dirichlet",
    beta: float = 0.5,
    shards_per_client: int = 2,
    min_per_client: int = 10,
    private_size: int | None = None,
    test_size: int | None = None,
    split_seed: int = 0,
) -> Scenario:
    """FedCSD's FEMNIST: Dirichlet(`beta`) over 10 clients; the paper has 0.01, 0.05 and 0.5.

    Its accuracies near 98 % say that only digits are meant. `data`: "femnist" (LEAF's files) or
    "emnist-digits" (torchvision's; a stand-in: the same NIST forms, other images).
    """
    sets = {"femnist": "femnist", "emnist-digits": "emnist_digits"}
    choose(data, sets, kind="data", where="scenario femnist-skew")
    images = Chosen(sets[data], private_size, test_size, split_seed)
    return _dealt(
        "femnist-skew",
        images,
        Look(28, MNIST),
        Shares(partition, num_clients, beta, min_per_client, shards_per_client),
        stand_in=data != "femnist",
    )


@register("mnist")
def mnist(
    *,
    num_clients: int = 10,
    partition: str = "iid",
    beta: float = 0.5,
    shards_per_client: int = 2,
    min_per_client: int = 10,
    private_size: int | None = 1200,
    public: str = "none",
    public_size: int = 5000,
    test_size: int | None = None,
    norm: str = "mnist",
    draw: str = "random",
    split_seed: int = 0,
) -> Scenario:
    """RepShare's MNIST: 1,200 private images in all (None: 60,000), whole test set, 28 x 28.

    `norm`: pixels less MNIST's mean, over its deviation ("mnist"), from -1 to 1 ("half"), or from
    0 to 1 ("none"). `draw`: which private images, "random", or the "first" of the file (author's
    code, which deals them class by class: partition "dirichlet" with a huge beta). The paper says
    nothing of either.
    """
    choose(norm, NORMS, kind="norm", where="scenario mnist")
    choose(draw, ("random", "first"), kind="draw", where="scenario mnist")
    images = Chosen("mnist", private_size, test_size, split_seed, first=draw == "first")
    return _dealt(
        "mnist",
        images,
        Look(28, NORMS[norm]),
        Shares(partition, num_clients, beta, min_per_client, shards_per_client),
        public=(public, public_size),
    )


@register("fashion-mnist")
def fashion_mnist(
    *,
    num_clients: int = 10,
    partition: str = "iid",
    beta: float = 0.5,
    shards_per_client: int = 2,
    min_per_client: int = 10,
    private_size: int | None = 6000,
    public: str = "none",
    public_size: int = 5000,
    test_size: int | None = None,
    draw: str = "random",
    split_seed: int = 0,
) -> Scenario:
    """RepShare's Fashion-MNIST: 6,000 private images in all (None: 60,000), whole test set.

    `draw`: which private images, as for `mnist`.
    """
    choose(draw, ("random", "first"), kind="draw", where="scenario fashion-mnist")
    images = Chosen("fashion_mnist", private_size, test_size, split_seed, first=draw == "first")
    return _dealt(
        "fashion-mnist",
        images,
        FASHION,
        Shares(partition, num_clients, beta, min_per_client, shards_per_client),
        public=(public, public_size),
    )


@register("cifar10")
def cifar10(
    *,
    num_clients: int = 10,
    partition: str = "iid",
    beta: float = 0.5,
    shards_per_client: int = 2,
    min_per_client: int = 10,
    private_size: int | None = 10000,
    public: str = "none",
    public_size: int = 5000,
    test_size: int | None = None,
    split_seed: int = 0,
) -> Scenario:
    """RepShare's CIFAR-10: 10,000 private images in all (None: 50,000), whole test set."""
    images = Chosen("cifar10", private_size, test_size, split_seed)
    return _dealt(
        "cifar10",
        images,
        CIFAR10,
        Shares(partition, num_clients, beta, min_per_client, shards_per_client),
        public=(public, public_size),
    )


def _dealt(
    name: str,
    images: Chosen,
    look: Look,
    shares: Shares,
    *,
    public=("none", 1),
    stand_in: bool = False,
) -> Scenario:
    """One set dealt to clients; its test set is the only column."""
    train, test = open_set(images.data, "train"), open_set(images.data, "test")
    form = {"size": look.size, "channels": len(look.norm[0])}
    count = len(train) if images.private is None else images.private
    chosen = some(train, count, images.seed)
    chosen = torch.arange(count) if images.first else chosen
    parts = shares.of(train.y[chosen], np.random.default_rng([images.seed]))
    held = train.take(chosen[torch.cat(parts)], **form)
    column = test.take(tested(test, images.test), **form)
    shared = public_images(*public, **form)
    title = f"{catalog.SETS[images.data].title}, {shares.words}"
    title += ", its first images" if images.first else ""
    return assembled(
        name,
        shortened(title, images.test),
        look,
        slices(held, parts, "client", name),
        {name: column},
        sources=[train, test],
        public=shared,
        stand_in=stand_in,
    )
