"""Two small scenarios that need no download: the quick profile's."""

from ..datasets import bundled
from ..errors import DataError, whole
from ..images import Images
from .base import ClientData, Scenario, register
from .common import (
    DIGITS,
    IMAGENET,
    MNIST,
    Look,
    Shares,
    assembled,
    balanced_parts,
    generators,
)

TEST_SIZE = 500  # test images per domain of digits-mini


@register("digits-mini")
def digits_mini(*, private_size: int = 320, split_seed: int = 0) -> Scenario:
    """Four digit domains, one client each, and natural-photo crops as public data; offline.

    A stand-in for the Digits scenario of FCCL and FCCL+ (MNIST, USPS, SVHN, SYN; CIFAR-100 as
    public data): two domains are real, the street-style and the synthetic one are rendered.
    `private_size` images per client (at most 500), 500 test images per domain, 512 public ones.
    """
    whole("private_size", private_size, 1, "digits-mini")
    domains = {
        "mnist": bundled.to_rgb(bundled.pad(bundled.mnist_sample(), 32)),
        "optical": bundled.to_rgb(bundled.enlarge(bundled.optical_digits(), 4)),
        "street": bundled.bundled("street"),
        "synthetic": bundled.bundled("synthetic"),
    }
    tests, clients = {}, []
    for name, images in domains.items():
        test, others = balanced_parts(images.y, TEST_SIZE, generators(split_seed, len(tests)))
        tests[name] = images[test]
        clients.append(ClientData(name, name, first(images[others], private_size)))
    return Scenario(
        name="digits-mini",
        title="bundled stand-in: two real, two rendered digit sets",
        num_classes=10,
        clients=tuple(clients),
        tests=tests,
        public=bundled.bundled("public"),
        mean=IMAGENET[0],
        std=IMAGENET[1],
        stand_in=True,
        class_names=DIGITS,
    )


@register("mnist-mini")
def mnist_mini(
    *,
    num_clients: int = 10,
    partition: str = "iid",
    beta: float = 0.5,
    shards_per_client: int = 2,
    min_per_client: int = 10,
    private_size: int = 2000,
    split_seed: int = 0,
) -> Scenario:
    """Real MNIST images over `num_clients` clients, at random or with label skew; offline.

    `partition` is "iid", "dirichlet" (then `beta` counts: the smaller, the more skewed) or "shards"
    (then `shards_per_client` counts: about as many classes each). `private_size` images in all (at
    most 4,000), 1,000 test images, no public data.
    """
    whole("private_size", private_size, 1, "mnist-mini")
    shares = Shares(partition, num_clients, beta, min_per_client, shards_per_client)
    images, drawn = bundled.mnist_sample(), generators(split_seed)
    test, others = balanced_parts(images.y, 1000, drawn)
    test, private = images[test], first(images[others], private_size)
    parts = shares.of(private.y, drawn[1])
    clients = [ClientData(f"client-{k}", "mnist", private[p]) for k, p in enumerate(parts)]
    title = f"5,000-image MNIST sample, {shares.words}"
    return assembled("mnist-mini", title, Look(28, MNIST), clients, {"mnist": test})


def first(images: Images, count: int) -> Images:
    """The first `count` images; raises `DataError` if there are fewer."""
    if count > len(images):
        raise DataError(
            f"asked for {count} private images, {len(images)} are left beside the test set",
            where=images.source,
            do=f"set private_size to at most {len(images)}",
        )
    return images[:count]
