"""Ditto: a network of one's own, held near the one of all.

Li et al., "Ditto: Fair and Robust Federated Learning Through Personalization", ICML 2021,
Algorithm 1. The global network w is FedAvg's. Objective of client k for its own network v_k:
min_v F_k(v) + (lambda / 2) ||v - w_t||^2, w_t the global weights received in this round.
"""

from dataclasses import dataclass
from typing import Literal

from pydantic import NonNegativeFloat

from .. import losses
from .base import register
from .fedavg import FedAvg, load, weights


@register("ditto")
@dataclass
class Ditto(FedAvg):
    """lambda_ = 0 trains the own network alone, from round 1 on.

    Each batch moves both networks, as in the authors' code; Algorithm 1 allows different numbers
    of steps. Both have the settings' optimizer, and v_k begins as a new network does. The loss in
    the history is the sum of both. Only the global network crosses. evaluate = "server" tests it,
    as FedAvg would. Running statistics of batch norm belong to each network; those of the global
    one are averaged.
    """

    evaluate: Literal["server", "client"] = "client"  # "client": with its own network
    start_from: Literal["server"] = "server"
    lambda_: NonNegativeFloat = 1.0  # the authors' code chooses among 0.1, 1 and 2

    def build(self, client, make):
        return {"model": make(), "global": make()}

    def collaborate(self, fed, clients):
        fed.download(clients, "weights", self.receive, fed.server.model.state_dict())

    def receive(self, client, w):
        load(client, w, "global")
        received = client.models["global"].parameters()
        client.state["w_global"] = [p.detach().clone() for p in received]

    def local_loss(self, client, x, y):
        v, w = client.model, client.models["global"]
        own = super().local_loss(client, x, y)
        pull = losses.proximal_term(list(v.parameters()), client.state["w_global"], mu=self.lambda_)
        return own + pull + losses.cross_entropy(w(x), y)

    def aggregate(self, fed, clients):
        uploads = fed.upload(clients, "weights", weights, "global")
        new = self.combine(fed, clients, uploads, self.shares(fed, clients))
        fed.server.model.load_state_dict(new)
