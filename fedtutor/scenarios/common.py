"""What several scenarios share: looks, draws from a set, public images, the parts put together."""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from ..datasets import bundled
from ..datasets.sources import Source, open_set
from ..errors import DataError, choose, whole
from ..images import NO_LABEL, Images
from .base import ClientData, Scenario
from .partitions import balanced_order, deal, split_words

# Mean and deviation per channel, for pixels from 0 to 1.
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))  # as the code of FCCL and FCCL+ has it
MNIST = ((0.1307,), (0.3081,))  # of MNIST's 60,000 training images
HALF = ((0.5,) * 3, (0.5,) * 3)  # FedLGD's code
DIGITS = tuple("0123456789")  # class names
CIFAR_CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
PUBLIC = {
    "cifar100": "cifar100",
    "tiny-imagenet": "tiny_imagenet",
    "fashion-mnist": "fashion_mnist",
    "cifar10": "cifar10",
    "none": None,
}


class Look(NamedTuple):
    """How images are shown: height and width, mean and deviation per channel, class names."""

    size: int
    norm: tuple[tuple[float, ...], tuple[float, ...]]
    classes: tuple[str, ...] = DIGITS


def numbered(count: int) -> tuple[str, ...]:
    """Class names where nobody gives any."""
    return tuple(map(str, range(count)))


class Shares(NamedTuple):
    """Who gets how many: `partitions.deal` and what it is asked for."""

    partition: str
    num_clients: int
    beta: float
    min_per_client: int
    shards_per_client: int = 2

    def of(self, labels: torch.Tensor, rng: np.random.Generator) -> list[torch.Tensor]:
        """One index tensor per client."""
        skew = {"beta": self.beta, "shards_per_client": self.shards_per_client}
        least = {"min_per_client": self.min_per_client}
        return deal(self.partition, labels, self.num_clients, rng, **skew, **least)

    @property
    def words(self) -> str:
        """How they are dealt, for a scenario's title."""
        return split_words(self.partition, self.beta, self.shards_per_client)


def public_images(name: str, count: int, *, size: int, channels: int = 3) -> Images | None:
    """`count` random training images of a set of `PUBLIC`, without labels (`NO_LABEL`).

    They are always the same ones. The names are "cifar100", "tiny-imagenet", "fashion-mnist",
    "cifar10", and "none".
    """
    choose(name, PUBLIC, kind="public data", where="scenario option 'public'")
    if PUBLIC[name] is None:
        return None
    source = open_set(PUBLIC[name], "train")
    images = source.take(some(source, count, 0), size=size, channels=channels)
    return Images(images.x, torch.full_like(images.y, NO_LABEL), images.source)


def generators(seed: int, *place: int) -> tuple[np.random.Generator, np.random.Generator]:
    """(for test images, for private ones): the first is the same for every `split_seed`.

    With 0 both are one generator, which goes on with the private images.
    """
    fixed = np.random.default_rng([0, *place])
    return fixed, np.random.default_rng([seed, *place]) if seed else fixed


def balanced_parts(
    labels: torch.Tensor, count: int, generators: Sequence[np.random.Generator]
) -> tuple[torch.Tensor, torch.Tensor]:
    """(test, others): `count` indices for the test, all others in an order for private images.

    Every prefix of either is as balanced as can be. generators: as `generators` returns them.
    """
    fixed, own = generators
    order = balanced_order(labels, fixed)
    test, others = order[:count], order[count:]
    if own is not fixed:
        others = others[balanced_order(labels[others], own)]
    return test, others


def some(source, count: int, seed: int) -> torch.Tensor:
    """`count` random indices; raises `DataError` if there are fewer images."""
    whole("number of images", count, 1, "scenario")
    real = isinstance(source, Source)
    name, words = (source.name, source.words) if real else (source.source, source.source)
    if count > len(source):
        raise DataError(
            f"asked for {count} images, there are {len(source)}",
            where=words,
            do=f"ask for at most {len(source)}, or get the whole set",
        )
    rng = np.random.default_rng([seed, *hashlib.sha256(name.encode()).digest()[:4]])
    return torch.from_numpy(rng.permutation(len(source))[:count])


def tested(source, test_size: int | None) -> torch.Tensor | None:
    """At most `test_size` random indices, always the same ones; None, the default, are all."""
    if test_size is None:
        return None
    whole("test_size", test_size, 1, "scenario")
    if test_size >= len(source):
        return None
    return some(source, test_size, 0)


def shortened(title: str, test_size: int | None) -> str:
    return title if test_size is None else f"{title}, at most {test_size} test images"


def assembled(
    name: str,
    title: str,
    look: Look,
    clients: Sequence[ClientData],
    tests: dict,
    *,
    sources: Sequence[Source] = (),
    public: Images | None = None,
    stand_in: bool = False,
) -> Scenario:
    """The scenario; its title gets a word on the public images and on every sample or copy."""
    altered = {source.words for source in sources if not source.whole}
    words = [title, *sorted(altered)] + ([f"public {public.source}"] if public else [])
    return Scenario(
        name=name,
        title="; ".join(words),
        num_classes=len(look.classes),
        clients=tuple(clients),
        tests=tests,
        public=public,
        mean=look.norm[0],
        std=look.norm[1],
        stand_in=stand_in or bool(altered),
        class_names=look.classes,
    )


def one_client_each(
    name: str,
    title: str,
    look: Look,
    domains: dict,
    *,
    public=("none", 1),
    stand_in: bool = False,
) -> Scenario:
    """One client and one test set per domain: name -> (train, private indices, test, its indices).

    train and test are a `Source` or `Images` each; None for the indices of the test takes all.
    """

    def taken(source, index):
        if isinstance(source, Source):
            sources.append(source)
            return source.take(index, size=look.size)
        return bundled.resize(source if index is None else source[index], look.size)

    clients, tests, sources = [], {}, []
    for domain, (train, private, test, column) in domains.items():
        clients.append(ClientData(domain, domain, taken(train, private)))
        tests[domain] = taken(test, column)
    return assembled(
        name,
        title,
        look,
        clients,
        tests,
        sources=sources,
        stand_in=stand_in,
        public=public_images(*public, size=look.size),
    )


def slices(held: Images, shares: Sequence[torch.Tensor], prefix: str, domain: str) -> tuple:
    """Clients that hold consecutive slices of `held` (views: no pixel is copied)."""
    ends = np.cumsum([len(share) for share in shares]).tolist()
    return tuple(
        ClientData(f"{prefix}-{k}", domain, held[end - len(share) : end])
        for k, (share, end) in enumerate(zip(shares, ends, strict=True))
    )
