"""FedAvg: average the weights of locally trained networks.

McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data",
AISTATS 2017, Algorithm 1. Objective: min_w sum_k (n_k / n) F_k(w), where F_k is the mean loss on
the n_k images of client k.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ..engine.checks import one_of_a_kind
from ..errors import ModelError, SettingError
from .base import Method, register

WEIGHTING = ("samples", "uniform")


@register("fedavg")
@dataclass
class FedAvg(Method):
    """Algorithm 1; the line numbers below are those of its listing.

    `start_from = "client"` with the setting `common_init = false` averages networks that never had
    a common start. Running statistics of batch norm are sent and averaged like weights.
    """

    weighting: Literal[*WEIGHTING] = "samples"  # n_k / n; "uniform": 1 / K, as FCCL+'s code
    evaluate: Literal["server", "client"] = "server"  # "client": after local training (FCCL+)
    # "client": round 1 from its own weights (RepShare's code)
    start_from: Literal["server", "client"] = "server"

    def start(self, fed):
        require_equal_networks(fed)
        fed.server.models["model"] = fed.make()  # line 2: initialize w_0

    def collaborate(self, fed, clients):
        if fed.round_ == 1 and self.start_from == "client":
            return  # nothing has been averaged yet, nothing is sent
        w = fed.server.model.state_dict()
        fed.download(clients, "weights", load, w)  # lines 4-6: the selected clients receive w_t

    def aggregate(self, fed, clients):
        uploads = fed.upload(clients, "weights", weights)
        new = self.combine(fed, clients, uploads, self.shares(fed, clients))
        fed.server.model.load_state_dict(new)

    def combine(self, fed, clients, uploads, shares) -> dict[str, Tensor]:
        """The new global state, from the clients' states and how much each counts."""
        return average(uploads, shares)  # line 8

    def shares(self, fed, clients) -> list[float]:
        """How much each client counts; for n_k / n each tells its number of images, once."""
        if self.weighting == "uniform":
            return [1] * len(clients)
        return images_of(fed, clients)

    def evaluated(self, fed, client):
        inside = fed.inside_round or self.evaluate == "client"
        return client.model if inside else fed.server.model


def weights(client, role: str = "model") -> dict[str, Tensor]:
    """All of a client's network that can be sent, running statistics included."""
    return client.models[role].state_dict()


def load(client, state: dict[str, Tensor], role: str = "model") -> None:
    """The client goes on with these weights."""
    client.models[role].load_state_dict(state)


def images_of(fed, clients) -> list[int]:
    """How many images each client trains on; it tells the server once."""
    told = fed.server.state.setdefault("images", {})
    new = [c for c in clients if c.id not in told]
    counts = fed.upload(new, "number of images", image_count)
    told |= {c.id: count for c, count in zip(new, counts, strict=True)}
    return [told[c.id] for c in clients]


def image_count(client) -> int:
    return len(client.data)


def average(states: Sequence[dict[str, Tensor]], shares: Sequence[float]) -> dict[str, Tensor]:
    """sum_k (share_k / sum of shares) state_k, added up in the order given.

    Running statistics of batch norm are averaged like weights; integer counters are taken from
    the first state. Raises `ModelError` for states of other names or shapes, and `SettingError` for
    shares whose sum is not above 0.
    """
    total = sum(shares)
    if not total > 0:
        raise SettingError(
            f"shares that add up to {total}",
            where="average",
            do="give each state a share, such as its number of images",
        )
    if any(_shapes(state) != _shapes(states[0]) for state in states):  # torch would stretch one
        raise ModelError(
            "states of different names or shapes cannot be averaged",
            where="average",
            do="give the state_dict() of equal networks",
        )
    names = [name for name, value in states[0].items() if value.is_floating_point()]
    mean = {name: value.clone() for name, value in states[0].items()}
    own = [mean[name] for name in names]
    torch._foreach_mul_(own, shares[0] / total)
    for state, share in zip(states[1:], shares[1:], strict=True):
        torch._foreach_add_(own, torch._foreach_mul([state[n] for n in names], share / total))
    return mean


def require_equal_networks(fed, *, because: str = "") -> None:
    """Raise `ModelError` where the clients' networks cannot be averaged."""
    first, *others = one_of_a_kind(fed.clients)
    for client in others:
        if client.layout["weights"] != first.layout["weights"]:
            raise ModelError(
                f"{fed.method.name}{because} averages weights, but {first.id} has a network of "
                f"{first.layout['trained']:,} weights and {client.id} one of "
                f"{client.layout['trained']:,}, or of other layers",
                where="setting 'models'",
                do="give every client the same network, or use a method that exchanges outputs",
            )


def _shapes(state: dict[str, Tensor]) -> dict[str, torch.Size]:
    return {name: value.shape for name, value in state.items()}
