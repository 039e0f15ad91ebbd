"""FedAvgM: the server keeps going where it went.

Hsu, Qi and Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated Visual
Classification", 2019. Clients train as in FedAvg; with change = w_t - sum_k (n_k / n) w_k the
server computes v = beta v + change and w_{t+1} = w_t - v.
"""

from dataclasses import dataclass

import torch

from .. import losses
from ..engine.kinds import Momentum
from .base import register
from .fedavg import FedAvg


@register("fedavgm")
@dataclass
class FedAvgM(FedAvg):
    """beta = 0 is FedAvg.

    Running statistics of batch norm are averaged as in FedAvg, without momentum, which could make a
    variance negative (MOON's code gives momentum to everything in the network).
    """

    beta: Momentum = 0.9  # FedCSD does not say which
    damped: bool = False  # MOON's code: v = beta v + (1 - beta) change

    def start(self, fed):
        super().start(fed)
        weights = fed.server.model.named_parameters()
        fed.server.state["momentum"] = {n: torch.zeros_like(p.detach()) for n, p in weights}

    def combine(self, fed, clients, uploads, shares):
        mean = super().combine(fed, clients, uploads, shares)
        before, memory = fed.server.model.state_dict(), fed.server.state["momentum"]
        for name in memory:
            memory[name] = losses.server_momentum(
                memory[name], before[name] - mean[name], beta=self.beta, damped=self.damped
            )
            mean[name] = before[name] - memory[name]
        return mean
