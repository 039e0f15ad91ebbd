"""Who gets which indices: random shares, label skew, balanced orders, what is held out.

Everything here deals index tensors and draws from the numpy generator it is given; whose images
they index is the scenario's business.
"""

import math

import numpy as np
import torch

from ..errors import SettingError, choose, whole

TRIES = 1000  # draws of a Dirichlet split before it is given up
PARTITIONS = ("iid", "dirichlet")


def deal(kind: str, labels: torch.Tensor, num_clients: int, rng: np.random.Generator, *,
         beta: float, min_per_client: int) -> list[torch.Tensor]:  # fmt: skip
    """One index tensor per client: `kind` is "iid" or "dirichlet" (then `beta` counts)."""
    choose(kind, PARTITIONS, kind="partition", where="partition")
    if kind == "iid":
        return iid_partition(len(labels), num_clients, rng, min_per_client=min_per_client)
    return dirichlet_partition(labels, num_clients, beta, rng, min_per_client=min_per_client)


def split_words(kind: str, beta: float) -> str:
    """ "IID split" or "Dirichlet(0.5) split", for a scenario's title."""
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


def held_out(labels: torch.Tensor, share: float,
             rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
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


def iid_partition(count: int, num_clients: int, rng: np.random.Generator, *,
                  min_per_client: int = 1) -> list[torch.Tensor]:  # fmt: skip
    """Deal the indices 0 .. count - 1 at random to `num_clients`; shares differ by at most one.

    Raises `SettingError` if there are fewer images than the clients need.
    """
    whole("count", count, 0, "partition")
    _check_shares(count, num_clients, min_per_client)
    _check_generator(rng)
    return [torch.from_numpy(p) for p in np.array_split(rng.permutation(count), num_clients)]


def dirichlet_partition(labels: torch.Tensor, num_clients: int, beta: float,
                        rng: np.random.Generator, *,
                        min_per_client: int = 1) -> list[torch.Tensor]:  # fmt: skip
    """Deal indices so that each class is spread over the clients as Dirichlet(beta) says.

    Label skew as MOON and FedCSD use it (Li et al., "Federated Learning on Non-IID Data Silos",
    ICDE 2022): class by class, shares p ~ Dirichlet(beta); a client that already holds n / K images
    gets no more; the whole draw is repeated until each client has `min_per_client` images.
    labels: int64 [n]. Returns one index tensor per client, each index exactly once. Raises
    `SettingError` for beta not above 0, more clients than images, or a minimum that is not met
    in TRIES draws.
    """
    labels = _plain(labels, rng)
    _check_shares(len(labels), num_clients, min_per_client)
    if isinstance(beta, bool) or not isinstance(beta, int | float) or not 0 < beta < math.inf:
        raise SettingError(
            f"beta = {beta!r}", where="dirichlet partition", do="give a number above 0, such as 0.5"
        )
    for _ in range(TRIES):
        parts = _draw_shares(labels, num_clients, float(beta), rng)
        if min(len(part) for part in parts) >= min_per_client:
            return [torch.from_numpy(rng.permutation(part)) for part in parts]
    raise SettingError(
        f"no split with beta = {beta:g} gave each of {num_clients} clients at least "
        f"{min_per_client} of {len(labels)} images in {TRIES} tries",
        where="dirichlet partition", do="raise beta, lower min_per_client, or take fewer clients",
    )  # fmt: skip


def _draw_shares(labels, num_clients: int, beta: float, rng) -> list[np.ndarray]:
    held = [[] for _ in range(num_clients)]
    for label in np.unique(labels):
        own = rng.permutation(np.flatnonzero(labels == label))
        size = np.array([sum(map(len, parts)) for parts in held])
        # A Dirichlet without some of its components, renormalized, is a Dirichlet on the others.
        room = np.flatnonzero(size < len(labels) / num_clients)
        shares = rng.dirichlet(np.full(len(room), beta))
        cuts = (np.cumsum(shares)[:-1] * len(own)).astype(np.int64)
        for client, part in zip(room, np.split(own, cuts), strict=True):
            held[client].append(part)
    return [np.concatenate(parts) if parts else np.empty(0, np.int64) for parts in held]


def _check_shares(count: int, num_clients: int, min_per_client: int) -> None:
    whole("num_clients", num_clients, 1, "partition")
    whole("min_per_client", min_per_client, 1, "partition")
    if num_clients * min_per_client > count:
        raise SettingError(
            f"{count} images cannot give {num_clients} clients {min_per_client} each",
            where="partition", do="take fewer clients, more images, or a smaller min_per_client",
        )  # fmt: skip


def _plain(labels: torch.Tensor, rng: np.random.Generator) -> np.ndarray:
    """Labels for numpy; raises `SettingError` for what is not labels [n] and a generator."""
    _check_generator(rng)
    right = isinstance(labels, torch.Tensor) and labels.dtype == torch.int64 and labels.ndim == 1
    if not right:
        found = getattr(labels, "dtype", type(labels).__name__)
        raise SettingError(
            f"the labels are {found}, not an int64 tensor [n]", where="partition",
            do="give the labels of `Images`, such as images.y",
        )  # fmt: skip
    return np.asarray(labels.cpu())


def _check_generator(rng) -> None:
    if not isinstance(rng, np.random.Generator):
        raise SettingError(
            f"the random numbers are a {type(rng).__name__}", where="partition",
            do="give a generator, such as numpy.random.default_rng(0)",
        )  # fmt: skip
