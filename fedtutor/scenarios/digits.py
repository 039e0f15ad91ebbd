"""The digits of FCCL, FCCL+ and FedLGD: several sets of digits, one client each.

Test sets are whole; `test_size` takes at most so many random images of each, to look around fast.
Sizes are those that the papers print; where their code differs, its variant is an option with a
name. A scenario that is made of samples, copies or rendered images says so in its title, and
`stand_in` is true. Facts and sources: `data/README.md`.
"""

from ..datasets import bundled, rebuilt
from ..datasets.sources import open_set
from ..errors import choose
from ..images import Images
from .base import Scenario, register
from .common import (
    HALF,
    IMAGENET,
    Look,
    balanced_parts,
    generators,
    one_client_each,
    shortened,
    some,
    tested,
)

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
    names = ("mnist", "usps", "svhn", "syn")
    counts = dict(zip(names, SIZES[sizes], strict=True))
    return _domains("digits", "MNIST, USPS, SVHN, SYN", FCCL, _opened(names, whole=True), counts,
                    test_size, seed=split_seed, public=(public, public_size))  # fmt: skip


@register("digits-partial")
def digits_partial(*, public: str = "tiny-imagenet", public_size: int = 5000,
                   test_size: int | None = None, split_seed: int = 0) -> Scenario:  # fmt: skip
    """A stand-in for `digits` where SYN, and perhaps most of SVHN, cannot be had.

    150 / 80 / 5000 private images of MNIST, USPS and SVHN as in FCCL+ Table V; the fourth domain
    is rendered (`bundled.bundled("synthetic")`): 500 private and 500 test images.
    """
    domains = {**_opened(("mnist", "usps", "svhn")), "synthetic": _rendered(split_seed)}
    sizes = {"mnist": 150, "usps": 80, "svhn": 5000, "synthetic": 500}
    title = "stand-in for digits, 4th domain rendered"
    return _domains("digits-partial", title, FCCL, domains, sizes, test_size, seed=split_seed,
                    public=(public, public_size), stand_in=True)  # fmt: skip


@register("digits-five")
def digits_five(
    *, private_size: int | None = None, test_size: int | None = None, split_seed: int = 0
) -> Scenario:
    """DIGITS of FedLGD: MNIST, SVHN, USPS, SynthDigits, MNIST-M, whole, at 28 x 28.

    SynthDigits are those of Ganin and Lempitsky, which the paper cites; its code reads another set.
    `private_size`: at most so many private images per client, drawn at random.
    """
    domains = _opened(("mnist", "svhn", "usps", "synth_digits", "mnist_m"), whole=True)
    return _domains("digits-five", "MNIST, SVHN, USPS, SynthDigits, MNIST-M", FEDLGD, domains,
                    _at_most(private_size, domains), test_size, seed=split_seed)  # fmt: skip


@register("digits-five-partial")
def digits_five_partial(*, mnist_m: str = "published", private_size: int | None = None,
                        test_size: int | None = None, split_seed: int = 0) -> Scenario:  # fmt: skip
    """A stand-in for `digits-five`: samples are welcome, the synthetic domain is rendered.

    `mnist_m`: "published", or "rebuilt" from MNIST and photographs (`rebuilt.mnist_m`).
    """
    choose(mnist_m, ("published", "rebuilt"), kind="mnist_m", where="scenario digits-five-partial")
    names = ["mnist", "svhn", "usps"] + (["mnist_m"] if mnist_m == "published" else [])
    domains = {**_opened(names), "synthetic": _rendered(split_seed)}
    if mnist_m == "rebuilt":
        domains["mnist_m"] = tuple(
            rebuilt.mnist_m(source.take(some(source, 5000, 0), size=32, channels=1))
            for source in domains["mnist"]
        )
    domains = {n: domains[n] for n in ("mnist", "svhn", "usps", "synthetic", "mnist_m")}
    title = "stand-in for digits-five, synthetic digits rendered"
    title += ", MNIST-M rebuilt" if mnist_m == "rebuilt" else ""
    return _domains("digits-five-partial", title, FEDLGD, domains, _at_most(private_size, domains),
                    test_size, seed=split_seed, stand_in=True)  # fmt: skip


def _opened(names, whole: bool = False) -> dict:
    """name -> (training set, test set), not read yet."""
    return {name: tuple(open_set(name, split, whole=whole) for split in ("train", "test"))
            for name in names}  # fmt: skip


def _rendered(seed: int) -> tuple[Images, Images]:
    """The bundled synthetic digits as (private, test), as in `digits-mini`."""
    images = bundled.bundled("synthetic")
    test, others = balanced_parts(images.y, 500, generators(seed, 3))
    return images[others], images[test]


def _at_most(private_size: int | None, domains: dict) -> dict[str, int]:
    """How many private images each domain gives; None takes all."""
    sizes = {name: len(train) for name, (train, _) in domains.items()}
    return sizes if private_size is None else {n: min(private_size, s) for n, s in sizes.items()}


def _domains(name: str, title: str, look: Look, domains: dict, sizes: dict,
             test_size: int | None, *, seed: int, **more) -> Scenario:  # fmt: skip
    """domains: name -> (train, test), each a `Source` or `Images`; sizes: private images."""
    chosen = {
        domain: (train, some(train, sizes[domain], seed), test, tested(test, test_size))
        for domain, (train, test) in domains.items()
    }
    return one_client_each(name, shortened(title, test_size), look, chosen, **more)
