"""The digits of FCCL, FCCL+ and FedLGD: several sets of digits, one client each.

Test sets are whole; `test_size` takes at most so many random images of each, to look around fast.
Sizes are those that the papers print; where their code differs, its variant is an option with a
name. A scenario that is made of samples, copies or rendered images says so in its title, and
`stand_in` is true. Facts and sources: `data/README.md`.
"""

import numpy as np

from ..datasets import bundled, rebuilt
from ..datasets.sources import Source, open_set
from ..errors import choose, whole
from ..images import Images
from .base import ClientData, Scenario, register
from .common import HALF, IMAGENET, Look, public_images, shortened, some, tested, titled
from .partitions import balanced_order

SIZES = {"paper": (150, 80, 5000, 1800), "code": (138, 94, 9523, 2300)}  # FCCL+ Table V; its code
FCCL, FEDLGD = Look(32, IMAGENET), Look(28, HALF)


@register("digits")
def digits(*, sizes: str = "paper", public: str = "cifar100", public_size: int = 5000,
           test_size: int | None = None, split_seed: int = 0) -> Scenario:  # fmt: skip
    """Digits of FCCL and FCCL+: MNIST, USPS, SVHN, SYN at 32 x 32, official test sets.

    `sizes`: "paper" (150, 80, 5000, 1800 private images; FCCL+ Table V) or "code" (138, 94, 9523,
    2300; the percentages in the journal code). `public`: see `public_images`.
    """
    choose(sizes, SIZES, kind="sizes", where="scenario digits")
    names = dict(zip(("mnist", "usps", "svhn", "syn"), SIZES[sizes], strict=True))
    domains = {name: (open_set(name, "train", whole=True), open_set(name, "test", whole=True))
               for name in names}  # fmt: skip
    return _domains("digits", "MNIST, USPS, SVHN, SYN", domains, names, FCCL, split_seed,
                    test_size, public=(public, public_size))  # fmt: skip


@register("digits-partial")
def digits_partial(*, public: str = "tiny-imagenet", public_size: int = 5000,
                   test_size: int | None = None, split_seed: int = 0) -> Scenario:  # fmt: skip
    """A stand-in for `digits` where SYN, and perhaps most of SVHN, cannot be had.

    150 / 80 / 5000 private images of MNIST, USPS and SVHN as in FCCL+ Table V; the fourth domain
    is rendered (`datasets.bundled("synthetic")`): 500 private and 500 test images.
    """
    domains = {n: (open_set(n, "train"), open_set(n, "test")) for n in ("mnist", "usps", "svhn")}
    domains["synthetic"] = _rendered(split_seed)
    sizes = {"mnist": 150, "usps": 80, "svhn": 5000, "synthetic": 500}
    title = "stand-in for digits, 4th domain rendered"
    return _domains("digits-partial", title, domains, sizes, FCCL, split_seed, test_size,
                    public=(public, public_size), stand_in=True)  # fmt: skip


@register("digits-five")
def digits_five(
    *, private_size: int | None = None, test_size: int | None = None, split_seed: int = 0
) -> Scenario:
    """DIGITS of FedLGD: MNIST, SVHN, USPS, SynthDigits, MNIST-M, whole, at 28 x 28.

    `private_size`: at most so many private images per client, drawn at random.
    """
    names = ("mnist", "svhn", "usps", "synth_digits", "mnist_m")
    domains = {n: (open_set(n, "train", whole=True), open_set(n, "test", whole=True))
               for n in names}  # fmt: skip
    return _domains("digits-five", "MNIST, SVHN, USPS, SynthDigits, MNIST-M", domains,
                    _at_most(private_size, domains), FEDLGD, split_seed, test_size)  # fmt: skip


@register("digits-five-partial")
def digits_five_partial(*, mnist_m: str = "published", private_size: int | None = None,
                        test_size: int | None = None, split_seed: int = 0) -> Scenario:  # fmt: skip
    """A stand-in for `digits-five`: samples are welcome, the synthetic domain is rendered.

    `mnist_m`: "published", or "rebuilt" from MNIST and photographs (`rebuilt.mnist_m`).
    """
    choose(mnist_m, ("published", "rebuilt"), kind="mnist_m", where="scenario digits-five-partial")
    names = ["mnist", "svhn", "usps"] + (["mnist_m"] if mnist_m == "published" else [])
    domains = {n: (open_set(n, "train"), open_set(n, "test")) for n in names}
    domains["synthetic"] = _rendered(split_seed)
    if mnist_m == "rebuilt":
        domains["mnist_m"] = tuple(
            rebuilt.mnist_m(source.take(some(source, 5000, split_seed), size=32, channels=1))
            for source in domains["mnist"]
        )
    domains = {n: domains[n] for n in ("mnist", "svhn", "usps", "synthetic", "mnist_m")}
    title = "stand-in for digits-five, synthetic digits rendered"
    title += ", MNIST-M rebuilt" if mnist_m == "rebuilt" else ""
    return _domains("digits-five-partial", title, domains, _at_most(private_size, domains), FEDLGD,
                    split_seed, test_size, stand_in=True)  # fmt: skip


def _rendered(seed: int) -> tuple[Images, Images]:
    """The bundled synthetic digits as (private, test), as in `digits-mini`."""
    images = bundled.bundled("synthetic")
    order = balanced_order(images.y, np.random.default_rng([seed, 3]))
    return images[order[500:]], images[order[:500]]


def _taken(source, index, size: int, channels: int = 3) -> Images:
    if isinstance(source, Source):
        return source.take(index, size=size, channels=channels)
    return bundled.resize(source if index is None else source[index], size)


def _at_most(private_size: int | None, domains: dict) -> dict[str, int]:
    """How many private images each domain gives; None takes all."""
    sizes = {name: len(train) for name, (train, _) in domains.items()}
    return sizes if private_size is None else {n: min(private_size, s) for n, s in sizes.items()}


def _domains(name: str, title: str, domains: dict, sizes: dict, look: Look, seed: int,
             test_size: int | None, *, public=("none", 1), stand_in=False) -> Scenario:  # fmt: skip
    """One client per domain: domains is name -> (train, test), each a `Source` or `Images`."""
    whole("split_seed", seed, 0, f"scenario {name}")
    clients, tests, sources = [], {}, []
    for domain, (train, test) in domains.items():
        private = _taken(train, some(train, sizes[domain], seed), look.size)
        clients.append(ClientData(domain, domain, private))
        tests[domain] = _taken(test, tested(test, test_size, seed), look.size)
        sources += [s for s in (train, test) if isinstance(s, Source)]
    shared = public_images(*public, size=look.size, seed=seed)
    title, altered = titled(shortened(title, test_size), sources, shared)
    mean, std = look.norm
    return Scenario(
        name=name, title=title, num_classes=10, clients=tuple(clients), tests=tests, public=shared,
        mean=mean, std=std, stand_in=stand_in or altered, class_names=look.classes,
    )  # fmt: skip
