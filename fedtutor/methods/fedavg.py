"""FedAvg: average the weights of locally trained networks.

McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data",
AISTATS 2017, Algorithm 1. Objective: min_w sum_k (n_k / n) F_k(w), where F_k is the mean loss on
the n_k images of client k.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..engine.checks import one_of_a_kind
from ..errors import ModelError
from .base import Method, register

WEIGHTING = ("samples", "uniform")


@register("fedavg")
@dataclass
class FedAvg(Method):
    """Algorithm 1; the line numbers below are those of its listing.

    `start_from = "client"` with the setting `common_init = false` averages networks that never had
    a common start. Running statistics of batch norm are sent and averaged like weights.
    """

    choices = {"weighting": WEIGHTING, "evaluate": ("server", "client"),
               "start_from": ("server", "client")}  # fmt: skip

    weighting: str = "samples"  # "samples": n_k / n; "uniform": 1 / K, as FCCL+'s code
    evaluate: str = "server"  # "server": after averaging; "client": after local training (FCCL+)
    start_from: str = "server"  # "client": round 1 from its own weights (RepShare's code)

    def start(self, fed):
        require_equal_networks(fed.clients, method=self.name)
        fed.server.models["model"] = fed.make()  # line 2: initialize w_0

    def collaborate(self, fed, clients):
        if fed.round_ == 1 and self.start_from == "client":
            return  # nothing has been averaged yet, nothing is sent
        weights = fed.server.model.state_dict()
        for client in clients:  # lines 4-6: the selected clients receive w_t
            client.model.load_state_dict(fed.channel.down(client, "weights", weights))

    def aggregate(self, fed, clients):
        uploads = [fed.channel.up(c, "weights", c.model.state_dict()) for c in clients]
        new = self.combine(fed, clients, uploads, self.shares(fed, clients))
        fed.server.model.load_state_dict(new)

    def combine(self, fed, clients, uploads, shares) -> dict[str, Tensor]:
        """The new global state, from the clients' states and how much each counts."""
        return average(uploads, shares)  # line 8

    def shares(self, fed, clients) -> list[float]:
        """How much each client counts; for n_k / n each tells its number of images, once."""
        if self.weighting == "uniform":
            return [1] * len(clients)
        told = fed.server.state.setdefault("images", {})
        for c in clients:
            if c.id not in told:
                told[c.id] = fed.channel.up(c, "number of images", len(c.data))
        return [told[c.id] for c in clients]

    def evaluated(self, fed, client):
        inside = fed.inside_round or self.evaluate == "client"
        return client.model if inside else fed.server.model


def average(states: Sequence[dict[str, Tensor]], shares: Sequence[float]) -> dict[str, Tensor]:
    """sum_k (share_k / sum of shares) state_k, added up in the order given.

    Running statistics of batch norm are averaged like weights; integer counters are taken from
    the first state.
    """
    total = sum(shares)
    names = [name for name, value in states[0].items() if value.is_floating_point()]
    mean = {name: value.clone() for name, value in states[0].items()}
    own = [mean[name] for name in names]
    torch._foreach_mul_(own, shares[0] / total)
    for state, share in zip(states[1:], shares[1:], strict=True):
        torch._foreach_add_(own, torch._foreach_mul([state[n] for n in names], share / total))
    return mean


def require_equal_networks(clients, *, method: str) -> None:
    """Raise `ModelError` where the clients' networks cannot be averaged."""
    clients = one_of_a_kind(clients)
    shapes = [{n: tuple(v.shape) for n, v in c.model.state_dict().items()} for c in clients]
    for client, shape in zip(clients, shapes, strict=True):
        if shape != shapes[0]:
            ours, theirs = (sum(p.numel() for p in c.model.parameters())
                            for c in (clients[0], client))  # fmt: skip
            raise ModelError(
                f"{method} averages weights, but {clients[0].id} has a network of {ours:,} weights "
                f"and {client.id} one of {theirs:,}, or of other layers",
                where="setting 'models'",
                do="give every client the same network, or use a method that exchanges outputs",
            )
