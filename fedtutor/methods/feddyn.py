"""FedDyn: give every client a loss whose minimum moves to where the federation has its own.

Acar et al., "Federated Learning Based on Dynamic Regularization", ICLR 2021, Algorithm 1. Local
objective: L_k(w) - <g_k, w> + (alpha / 2) ||w - w_t||^2, with g_k the gradient of L_k where the
client last stopped, which the regularizer itself tells: g_k <- g_k - alpha (w_k - w_t). The server
keeps h <- h - (alpha / m) sum_k (w_k - w_t), m clients in all, and computes
w_{t+1} = mean_k w_k - h / alpha.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import PositiveFloat

from .. import losses
from .base import register
from .shared.received import KeepsWeights


@register("feddyn")
@dataclass
class FedDyn(KeepsWeights):
    """The paper's reading; its minimization "argmin" is the local update of everybody else here.

    The authors' code divides alpha by the client's number of images, relative to the mean, and
    clips gradients to a norm of 10; both are left out. Clients count alike, as in Algorithm 1: h
    is an unweighted sum. Running statistics of batch norm have no gradient and are averaged.

    A small alpha is not FedAvg: h / alpha does not depend on it, and the server goes on by all
    changes so far. After round 1 of everybody it stands at w_1 + (w_1 - w_0), w_1 the average.
    """

    weighting: Literal["uniform"] = "uniform"
    start_from: Literal["server"] = "server"
    alpha: PositiveFloat = 0.01  # the authors' example for CIFAR-10; the paper: 0.1, 0.01, 0.001

    def start(self, fed):
        super().start(fed)
        weights = fed.server.model.named_parameters()
        fed.server.state["h"] = {name: torch.zeros_like(p.detach()) for name, p in weights}
        fed.ask(fed.clients, self.begin)

    def begin(self, client):
        client.state["g"] = [torch.zeros_like(p.detach()) for p in client.model.parameters()]

    def local_loss(self, client, x, y):
        w, s = list(client.model.parameters()), client.state
        pull = losses.dynamic_regularizer(w, s["w_global"], s["g"], alpha=self.alpha)
        return super().local_loss(client, x, y) + pull

    @torch.no_grad()
    def after_local(self, client):
        s = client.state
        each = zip(s["g"], client.model.parameters(), s["w_global"], strict=True)
        s["g"] = [losses.gradient_memory(g, w, w_t, alpha=self.alpha) for g, w, w_t in each]

    def combine(self, fed, clients, uploads, shares):
        mean = super().combine(fed, clients, uploads, shares)
        share = len(clients) / len(fed.clients)
        before, h = fed.server.model.state_dict(), fed.server.state["h"]
        for name in h:  # h, from a sum over those who took part, divided by the number of all
            moved = before[name] + share * (mean[name] - before[name])
            h[name] = losses.gradient_memory(h[name], moved, before[name], alpha=self.alpha)
            mean[name] = mean[name] - h[name] / self.alpha
        return mean
