"""Who gets which indices: random shares, label skew in two ways, balanced orders, what is held out.

Everything here deals index tensors and draws from the numpy generator it is given; whose images
they index is the scenario's business.
"""

import math

import numpy as np
import torch

from ..errors import SettingError, choose, whole

TRIES = 1000  # draws of a Dirichlet split before it is given up
PARTITIONS = ("iid", "dirichlet", "shards")


def deal(
    kind: str,
    labels: torch.Tensor,
    num_clients: int,
    rng: np.random.Generator,
    *,
    beta: float,
    min_per_client: int,
    shards_per_client: int = 2,
) -> list[torch.Tensor]:
    """One index tensor per client.

    `kind` is "iid", "dirichlet" (then `beta` counts) or "shards" (then `shards_per_client` counts).
    """
    choose(kind, PARTITIONS, kind="partition", where="partition")
    whole("shards_per_client", shards_per_client, 1, "partition")
    least = {"min_per_client": min_per_client}
    if kind == "iid":
        return iid_partition(len(labels), num_clients, rng, **least)
    if kind == "shards":
        return shards_partition(labels, num_clients, shards_per_client, rng, **least)
    return dirichlet_partition(labels, num_clients, beta, rng, **least)


def split_words(kind: str, beta: float, shards_per_client: int = 2) -> str:
    """ "IID split", "Dirichlet(0.5) split" or "2 shards per client", for a scenario's title."""
    if kind == "shards":
        return f"{shards_per_client} shard{'s' * (shards_per_client > 1)} per client"
    return "IID split" if kind == "iid" else f"Dirichlet({beta:g}) split"


def balanced_order(labels: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    """All indices in random order, dealt class by class: every prefix is as balanced as can be."""
    labels = _plain(labels, rng)
    order = rng.permutation(len(labels))
    turn = np.empty(len(labels), dtype=np.int64)  # in which deal an index comes up
    for label in np.unique(labels):
        own = order[labels[order] == label]
        turn[own] = np.arange(len(own))
    return torch.from_numpy(order[np.argsort(turn[order], kind="stable")])


def held_out(
    labels: torch.Tensor, share: float, rng: np.random.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """(kept, held): all indices, ascending; `share` of them are held out, of each class alike.

    Fractions of an image go to the classes with the largest ones. A class keeps its last image, so
    `held` may be smaller than `share` says. labels: int64 [n]; share: above 0 and below 1.
    """
    labels = _plain(labels, rng)
    classes, counts = np.unique(labels, return_counts=True)
    wanted = share * counts
    many = wanted.astype(np.int64)
    fractions = np.where(many + 1 < counts, wanted - many, -1)
    order = rng.permutation(len(classes))
    order = order[np.argsort(-fractions[order], kind="stable")]
    more = order[: max(0, round(share * len(labels)) - many.sum())]
    many[more[fractions[more] > 0]] += 1
    shuffled = rng.permutation(len(labels))
    held = [shuffled[labels[shuffled] == c][:n] for c, n in zip(classes, many, strict=True)]
    held = np.sort(np.concatenate(held)) if held else np.empty(0, np.int64)
    kept = np.setdiff1d(np.arange(len(labels)), held)
    return torch.from_numpy(kept), torch.from_numpy(held)


def iid_partition(
    count: int, num_clients: int, rng: np.random.Generator, *, min_per_client: int = 1
) -> list[torch.Tensor]:
    """Deal the indices 0 .. count - 1 at random to `num_clients`; shares differ by at most one.

    Raises `SettingError` if there are fewer images than the clients need.
    """
    whole("count", count, 0, "partition")
    _check_shares(count, num_clients, min_per_client)
    _check_generator(rng)
    return [torch.from_numpy(p) for p in np.array_split(rng.permutation(count), num_clients)]


def dirichlet_partition(
    labels: torch.Tensor,
    num_clients: int,
    beta: float,
    rng: np.random.Generator,
    *,
    min_per_client: int = 1,
    min_per_class: int = 0,
) -> list[torch.Tensor]:
    """Deal indices so that each class is spread over the clients as Dirichlet(beta) says.

    Label skew as MOON and FedCSD use it (Li et al., "Federated Learning on Non-IID Data Silos",
    ICDE 2022): class by class, shares p ~ Dirichlet(beta); a client that already holds n / K images
    gets no more; the whole draw is repeated until each client has `min_per_client` images.

    First each client gets `min_per_class` images of each class that occurs, and only the rest is
    dealt as above. That makes shares more even: of N images of a class, K min_per_class are dealt
    evenly, so that shares differ by 1 - K min_per_class / N of what beta alone would give.

    labels: int64 [n]. Returns one index tensor per client, each index exactly once. Raises
    `SettingError` for beta not above 0, more clients than images, a class that is too small, or a
    minimum that is not met in TRIES draws.
    """
    labels = _plain(labels, rng)
    _check_shares(len(labels), num_clients, min_per_client)
    if isinstance(beta, bool) or not isinstance(beta, int | float) or not 0 < beta < math.inf:
        raise SettingError(
            f"beta = {beta!r}", where="dirichlet partition", do="give a number above 0, such as 0.5"
        )
    whole("min_per_class", min_per_class, 0, "partition")
    names, counts = np.unique(labels, return_counts=True)
    if counts.min() < num_clients * min_per_class:
        raise SettingError(
            f"class {names[counts.argmin()]} has {counts.min()} images, which cannot give "
            f"{num_clients} clients {min_per_class} each",
            where="partition", do="take fewer clients, more images, or a smaller min_per_class",
        )  # fmt: skip
    for _ in range(TRIES):
        parts = _draw_shares(labels, num_clients, float(beta), rng, min_per_class)
        if min(len(part) for part in parts) >= min_per_client:
            return [torch.from_numpy(rng.permutation(part)) for part in parts]
    raise SettingError(
        f"no split with beta = {beta:g} gave each of {num_clients} clients at least "
        f"{min_per_client} of {len(labels)} images in {TRIES} tries",
        where="dirichlet partition",
        do="raise beta, lower min_per_client, or take fewer clients",
    )


def shards_partition(
    labels: torch.Tensor,
    num_clients: int,
    shards_per_client: int,
    rng: np.random.Generator,
    *,
    min_per_client: int = 1,
) -> list[torch.Tensor]:
    """Sort by label, cut into shards, and deal `shards_per_client` of them to each client.

    The "pathological" split of McMahan et al. (AISTATS 2017, Sec. 3): with two shards, most clients
    have images of two classes. Shards differ in size by at most one image; images of a class are
    sorted at random. labels: int64 [n]. Returns one index tensor per client, each index exactly
    once. Raises `SettingError` for fewer images than shards, or a minimum that is not met.
    """
    labels = _plain(labels, rng)
    whole("shards_per_client", shards_per_client, 1, "partition")
    _check_shares(len(labels), num_clients, min_per_client)
    size = len(labels) // (num_clients * shards_per_client)
    if size * shards_per_client < max(1, min_per_client):
        raise SettingError(
            f"{shards_per_client} shards of {size} images are not {max(1, min_per_client)} images",
            where="shards partition",
            do="take fewer clients or shards, more images, or a smaller min_per_client",
        )
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    shards = np.array_split(order, num_clients * shards_per_client)
    dealt = rng.permutation(len(shards)).reshape(num_clients, shards_per_client)
    parts = [np.concatenate([shards[i] for i in own]) for own in dealt]
    return [torch.from_numpy(rng.permutation(part)) for part in parts]


def _draw_shares(labels, num_clients: int, beta: float, rng, least: int) -> list[np.ndarray]:
    classes = np.unique(labels)
    held, even = [[] for _ in range(num_clients)], [[] for _ in range(num_clients)]
    for label in classes:
        own = rng.permutation(np.flatnonzero(labels == label))
        for parts in even:
            parts.append(own[:least])
            own = own[least:]
        if not len(own):
            continue
        size = np.array([sum(map(len, parts)) for parts in held])
        # A Dirichlet without some of its components, renormalized, is a Dirichlet on the others.
        room = np.flatnonzero(size < len(labels) / num_clients - least * len(classes))
        shares = rng.dirichlet(np.full(len(room), beta))
        cuts = (np.cumsum(shares)[:-1] * len(own)).astype(np.int64)
        for client, part in zip(room, np.split(own, cuts), strict=True):
            held[client].append(part)
    return [np.concatenate([*some, *parts]) for some, parts in zip(even, held, strict=True)]


def _check_shares(count: int, num_clients: int, min_per_client: int) -> None:
    whole("num_clients", num_clients, 1, "partition")
    whole("min_per_client", min_per_client, 1, "partition")
    if num_clients * min_per_client > count:
        raise SettingError(
            f"{count} images cannot give {num_clients} clients {min_per_client} each",
            where="partition",
            do="take fewer clients, more images, or a smaller min_per_client",
        )


def _plain(labels: torch.Tensor, rng: np.random.Generator) -> np.ndarray:
    """Labels for numpy; raises `SettingError` for what is not labels [n] and a generator."""
    _check_generator(rng)
    right = isinstance(labels, torch.Tensor) and labels.dtype == torch.int64 and labels.ndim == 1
    if not right:
        found = getattr(labels, "dtype", type(labels).__name__)
        raise SettingError(
            f"the labels are {found}, not an int64 tensor [n]",
            where="partition",
            do="give the labels of `Images`, such as images.y",
        )
    return np.asarray(labels.cpu())


def _check_generator(rng) -> None:
    if not isinstance(rng, np.random.Generator):
        raise SettingError(
            f"the random numbers are a {type(rng).__name__}",
            where="partition",
            do="give a generator, such as numpy.random.default_rng(0)",
        )
