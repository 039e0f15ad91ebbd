"""The scenarios of the five papers, on real data: sizes, splits, test and public sets.

Test sets are whole; `test_size` takes at most so many random images of each, to look around fast.
Sizes are those that the papers print; where their code differs, its variant is an option with a
name. A scenario that is made of samples, copies or rendered images says so in its title, and
`stand_in` is true. Facts and sources: `data/README.md`.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
import torch

from ..datasets import bundled, catalog, rebuilt
from ..datasets.sources import Source, open_set
from ..errors import DataError, SettingError, choose
from ..images import NO_LABEL, Images
from .base import DIGITS, IMAGENET, MNIST, ClientData, Scenario, register
from .partitions import balanced_order, deal, split_words, whole

HALF = ((0.5,) * 3, (0.5,) * 3)  # FedLGD's code
NORMS = {"mnist": MNIST, "half": ((0.5,), (0.5,)), "none": ((0.0,), (1.0,))}  # mean, deviation
CIFAR10 = ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
CIFAR100 = ((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761))
FASHION = ((0.2860,), (0.3530,))
PUBLIC = {"cifar100": "cifar100", "tiny-imagenet": "tiny_imagenet",
          "fashion-mnist": "fashion_mnist", "cifar10": "cifar10", "none": None}  # fmt: skip
SIZES = {"paper": (150, 80, 5000, 1800), "code": (138, 94, 9523, 2300)}  # FCCL+ Table V; its code
CIFAR_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship",
                 "truck")  # fmt: skip
FASHION_CLASSES = ("T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt",
                   "sneaker", "bag", "ankle boot")  # fmt: skip


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
    return _domains("digits", "MNIST, USPS, SVHN, SYN", domains, names, size=32,
                    public=(public, public_size), seed=split_seed, test_size=test_size)  # fmt: skip


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
    return _domains("digits-partial", title, domains, sizes, size=32,
                    public=(public, public_size), seed=split_seed, stand_in=True,
                    test_size=test_size)  # fmt: skip


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
                    dict.fromkeys(names, private_size), size=28, seed=split_seed, norm=HALF,
                    at_most=True, test_size=test_size)  # fmt: skip


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
            rebuilt.mnist_m(source.take(_some(source, 5000, split_seed), size=32, channels=1))
            for source in domains["mnist"]
        )
    domains = {n: domains[n] for n in ("mnist", "svhn", "usps", "synthetic", "mnist_m")}
    title = "stand-in for digits-five, synthetic digits rendered"
    title += ", MNIST-M rebuilt" if mnist_m == "rebuilt" else ""
    return _domains("digits-five-partial", title, domains, dict.fromkeys(domains, private_size),
                    size=28, seed=split_seed, norm=HALF, stand_in=True, at_most=True,
                    test_size=test_size)  # fmt: skip


@register("cifar100-skew")
def cifar100_skew(*, num_clients: int = 10, partition: str = "dirichlet", beta: float = 0.5,
                  min_per_client: int = 10, private_size: int | None = None,
                  test_size: int | None = None, split_seed: int = 0) -> Scenario:  # fmt: skip
    """FedCSD's CIFAR-100: Dirichlet(`beta`) over 10 clients; the paper has 0.01, 0.5 and 5."""
    return _skew("cifar100-skew", "cifar100", num_clients, partition, beta, min_per_client,
                 private_size, split_seed, CIFAR100, test_size=test_size)  # fmt: skip


@register("femnist-skew")
def femnist_skew(*, data: str = "femnist", num_clients: int = 10, partition: str = "dirichlet",
                 beta: float = 0.5, min_per_client: int = 10, private_size: int | None = None,
                 test_size: int | None = None, split_seed: int = 0) -> Scenario:  # fmt: skip
    """FedCSD's FEMNIST: Dirichlet(`beta`) over 10 clients; the paper has 0.01, 0.05 and 0.5.

    Its accuracies near 98 % say that only digits are meant. `data`: "femnist" (LEAF's files) or
    "emnist-digits" (torchvision's; a stand-in: the same NIST forms, other images).
    """
    sets = {"femnist": "femnist", "emnist-digits": "emnist_digits"}
    choose(data, sets, kind="data", where="scenario femnist-skew")
    return _skew("femnist-skew", sets[data], num_clients, partition, beta, min_per_client,
                 private_size, split_seed, MNIST, DIGITS, size=28,
                 stand_in=data != "femnist", test_size=test_size)  # fmt: skip


@register("mnist")
def mnist(*, num_clients: int = 10, partition: str = "iid", beta: float = 0.5,
          min_per_client: int = 10, private_size: int | None = 1200, public: str = "none",
          public_size: int = 5000, test_size: int | None = None, norm: str = "mnist",
          draw: str = "random", split_seed: int = 0) -> Scenario:  # fmt: skip
    """RepShare's MNIST: 1,200 private images in all (None: 60,000), whole test set, 28 x 28.

    `norm`: pixels less MNIST's mean, over its deviation ("mnist"), from -1 to 1 ("half"), or from
    0 to 1 ("none"). `draw`: which private images, "random", or the "first" of the file (author's
    code, which deals them class by class: partition "dirichlet" with a huge beta). The paper says
    nothing of either.
    """
    choose(norm, NORMS, kind="norm", where="scenario mnist")
    choose(draw, ("random", "first"), kind="draw", where="scenario mnist")
    return _skew("mnist", "mnist", num_clients, partition, beta, min_per_client, private_size,
                 split_seed, NORMS[norm], DIGITS, size=28, public=(public, public_size),
                 test_size=test_size, draw=draw)  # fmt: skip


@register("fashion-mnist")
def fashion_mnist(*, num_clients: int = 10, partition: str = "iid", beta: float = 0.5,
                  min_per_client: int = 10, private_size: int | None = 6000, public: str = "none",
                  public_size: int = 5000, test_size: int | None = None,
                  split_seed: int = 0) -> Scenario:  # fmt: skip
    """RepShare's Fashion-MNIST: 6,000 private images in all (None: 60,000), whole test set."""
    return _skew("fashion-mnist", "fashion_mnist", num_clients, partition, beta, min_per_client,
                 private_size, split_seed, FASHION, FASHION_CLASSES, size=28,
                 public=(public, public_size), test_size=test_size)  # fmt: skip


@register("cifar10")
def cifar10(*, num_clients: int = 10, partition: str = "iid", beta: float = 0.5,
            min_per_client: int = 10, private_size: int | None = 10000, public: str = "none",
            public_size: int = 5000, test_size: int | None = None,
            split_seed: int = 0) -> Scenario:  # fmt: skip
    """RepShare's CIFAR-10: 10,000 private images in all (None: 50,000), whole test set."""
    return _skew("cifar10", "cifar10", num_clients, partition, beta, min_per_client, private_size,
                 split_seed, CIFAR10, CIFAR_CLASSES, public=(public, public_size),
                 test_size=test_size)  # fmt: skip


@register("cifar10-c")
def cifar10_c(*, severity: int = 5, parts: int = 3, beta: float = 2.0, min_per_client: int = 10,
              private_size: int = 6000, test_size: int = 1000, size: int = 28,
              split_seed: int = 0) -> Scenario:  # fmt: skip
    """CIFAR10C of FedLGD: 19 corruptions, each dealt to 3 clients by Dirichlet(2): 57 clients.

    `private_size` images per corruption (6k in the paper) and `test_size` others; the paper states
    neither the severity nor its test images. 28 x 28 and values from 0 to 1, as in its code.
    """

    def images(corruption, rows):
        source = open_set("cifar10_c", corruption)
        return source.take((severity - 1) * (len(source) // 5) + rows, size=size)

    total = len(open_set("cifar10_c", catalog.CORRUPTIONS[0])) // 5
    labels = open_set("cifar10_c", catalog.CORRUPTIONS[0]).y[:total]
    title = f"CIFAR-10-C, severity {severity}"
    return _corruptions("cifar10-c", title, images, labels, severity, parts, beta, min_per_client,
                        private_size, test_size, split_seed)  # fmt: skip


@register("cifar10-c-rebuilt")
def cifar10_c_rebuilt(*, severity: int = 5, parts: int = 3, beta: float = 2.0,
                      min_per_client: int = 10, private_size: int = 6000, test_size: int = 1000,
                      size: int = 28, split_seed: int = 0) -> Scenario:  # fmt: skip
    """`cifar10-c` made anew from CIFAR-10's test images (`rebuilt.corrupted`); a stand-in.

    The first time takes about 10 ms per image and corruption pair of all 19, then it is cached.
    """
    source = open_set("cifar10", "test")
    memory = {}

    def images(corruption, rows):
        if not memory:
            memory["base"] = source.take(rows, size=32)
        return rebuilt.corrupted(memory["base"], corruption, severity=severity, rows=rows.numpy(),
                                 size=size)  # fmt: skip

    title = f"CIFAR-10-C rebuilt from {source.words}, severity {severity}"
    return _corruptions("cifar10-c-rebuilt", title, images, source.y, severity, parts, beta,
                        min_per_client, private_size, test_size, split_seed,
                        stand_in=True)  # fmt: skip


def public_images(name: str, count: int, *, size: int, channels: int = 3,
                  seed: int = 0) -> Images | None:  # fmt: skip
    """`count` random training images of a set of `PUBLIC`, without labels (`NO_LABEL`).

    The names are "cifar100", "tiny-imagenet", "fashion-mnist", "cifar10", and "none".
    """
    choose(name, PUBLIC, kind="public data", where="scenario option 'public'")
    if PUBLIC[name] is None:
        return None
    source = open_set(PUBLIC[name], "train")
    images = source.take(_some(source, count, seed), size=size, channels=channels)
    return Images(images.x, torch.full_like(images.y, NO_LABEL), images.source)


def _some(source, count: int, seed: int) -> torch.Tensor:
    """`count` random indices; raises `DataError` if there are fewer images."""
    whole("number of images", count, 1, "scenario")
    real = isinstance(source, Source)
    name, words = (source.name, source.words) if real else (source.source, source.source)
    if count > len(source):
        raise DataError(f"asked for {count} images, there are {len(source)}", where=words,
                        do=f"ask for at most {len(source)}, or get the whole set")  # fmt: skip
    rng = np.random.default_rng([seed, *hashlib.sha256(name.encode()).digest()[:4]])
    return torch.from_numpy(rng.permutation(len(source))[:count])


def _rendered(seed: int) -> tuple[Images, Images]:
    """The bundled synthetic digits as (private, test), as in `digits-mini`."""
    images = bundled.bundled("synthetic")
    order = balanced_order(images.y, np.random.default_rng([seed, 3]))
    return images[order[500:]], images[order[:500]]


def _taken(source, index, size: int, channels: int = 3) -> Images:
    if isinstance(source, Source):
        return source.take(index, size=size, channels=channels)
    return bundled.resize(source if index is None else source[index], size)


def _domains(name: str, title: str, domains: dict, sizes: dict, *, size: int, public=("none", 1),
             test_size: int | None = None, seed: int = 0, norm=IMAGENET, stand_in: bool = False,
             at_most: bool = False) -> Scenario:  # fmt: skip
    """One client per domain: domains is name -> (train, test), each a `Source` or `Images`."""
    whole("split_seed", seed, 0, f"scenario {name}")
    clients, tests, sources = [], {}, []
    for domain, (train, test) in domains.items():
        count = len(train) if sizes[domain] is None else sizes[domain]
        count = min(count, len(train)) if at_most else count
        private = _taken(train, _some(train, count, seed), size)
        clients.append(ClientData(domain, domain, private))
        tests[domain] = _taken(test, _tested(test, test_size, seed), size)
        sources += [s for s in (train, test) if isinstance(s, Source)]
    shared = public_images(*public, size=size, seed=seed)
    title, altered = titled(_shortened(title, test_size), sources, shared)
    return Scenario(
        name=name, title=title, num_classes=10, clients=tuple(clients), tests=tests,
        public=shared, mean=norm[0], std=norm[1], stand_in=stand_in or altered, class_names=DIGITS,
    )  # fmt: skip


def _tested(source, test_size: int | None, seed: int) -> torch.Tensor | None:
    """At most `test_size` random indices; None, the default, are all."""
    if test_size is None:
        return None
    whole("test_size", test_size, 1, "scenario")
    if test_size >= len(source):
        return None
    return _some(source, test_size, seed)


def _shortened(title: str, test_size: int | None) -> str:
    return title if test_size is None else f"{title}, at most {test_size} test images"


def titled(title: str, sources: Sequence[Source], public: Images | None) -> tuple[str, bool]:
    """The title with a word on every sample or copy; whether there is one."""
    altered = {source.words for source in sources if not source.whole}
    words = [title, *sorted(altered)] + ([f"public {public.source}"] if public else [])
    return "; ".join(words), bool(altered)


def _skew(name: str, data: str, num_clients: int, partition: str, beta: float,
          min_per_client: int, private_size: int | None, seed: int, norm, class_names=None, *,
          size: int = 32, public=("none", 1), test_size: int | None = None,
          stand_in: bool = False, draw: str = "random") -> Scenario:  # fmt: skip
    """One set dealt to clients, IID or with label skew; its test set is the only column."""
    whole("split_seed", seed, 0, f"scenario {name}")
    train, test = open_set(data, "train"), open_set(data, "test")
    channels, num_classes = len(norm[0]), catalog.SETS[data].num_classes
    chosen = _some(train, len(train) if private_size is None else private_size, seed)
    if draw == "first":
        chosen = torch.arange(len(chosen))
    shares = deal(partition, train.y[chosen], num_clients, np.random.default_rng([seed]),
                  beta=beta, min_per_client=min_per_client)  # fmt: skip
    held = train.take(chosen[torch.cat(shares)], size=size, channels=channels)
    tested = test.take(_tested(test, test_size, seed), size=size, channels=channels)
    shared = public_images(*public, size=size, channels=channels, seed=seed)
    title = f"{catalog.SETS[data].title}, {split_words(partition, beta)}"
    title += ", its first images" if draw == "first" else ""
    title, altered = titled(_shortened(title, test_size), [train, test], shared)
    return Scenario(
        name=name, title=title, num_classes=num_classes,
        clients=_clients(held, shares, "client", name), tests={name: tested}, public=shared,
        mean=norm[0], std=norm[1], stand_in=stand_in or altered,
        class_names=tuple(class_names or map(str, range(num_classes))),
    )  # fmt: skip


def _clients(held: Images, shares: Sequence[torch.Tensor], prefix: str, domain: str) -> tuple:
    """Clients that hold consecutive slices of `held` (views: no pixel is copied)."""
    ends = np.cumsum([len(share) for share in shares]).tolist()
    return tuple(ClientData(f"{prefix}-{k}", domain, held[end - len(share) : end])
                 for k, (share, end) in enumerate(zip(shares, ends, strict=True)))  # fmt: skip


def _corruptions(name: str, title: str, images, labels: torch.Tensor, severity: int, parts: int,
                 beta: float, min_per_client: int, private_size: int, test_size: int, seed: int,
                 stand_in: bool = False) -> Scenario:  # fmt: skip
    """images(corruption, rows) -> `Images`; private and test rows are disjoint."""
    for key, value in (("parts", parts), ("private_size", private_size), ("test_size", test_size)):
        whole(key, value, 1, f"scenario {name}")
    whole("split_seed", seed, 0, f"scenario {name}")
    if severity not in (1, 2, 3, 4, 5) or isinstance(severity, bool):
        raise SettingError(f"severity = {severity!r}", where=f"scenario {name}",
                           do="give a whole number from 1 to 5")  # fmt: skip
    if private_size + test_size > len(labels):
        raise DataError(f"asked for {private_size} private and {test_size} test images of "
                        f"{len(labels)} per corruption", where=f"scenario {name}",
                        do="lower private_size or test_size")  # fmt: skip
    rng = np.random.default_rng([seed])
    rows = torch.from_numpy(rng.permutation(len(labels))[: private_size + test_size])
    clients, tests = [], {}
    for number, corruption in enumerate(catalog.CORRUPTIONS):
        shares = deal("dirichlet", labels[rows[:private_size]], parts,
                      np.random.default_rng([seed, number]), beta=beta,
                      min_per_client=min_per_client)  # fmt: skip
        made = images(corruption, rows)
        clients += _clients(made[torch.cat(shares)], shares, corruption, corruption)
        tests[corruption] = made[torch.arange(private_size, len(made))]  # a copy
    return Scenario(
        name=name, title=title, num_classes=10, clients=tuple(clients), tests=tests, public=None,
        mean=(0.0,) * 3, std=(1.0,) * 3, stand_in=stand_in, class_names=CIFAR_CLASSES,
    )  # fmt: skip
