"""FedAdam and FedYogi: the server takes the clients' mean change for a gradient, and adapts to it.

Reddi et al., "Adaptive Federated Optimization", ICLR 2021, Algorithm 2. Clients train as in FedAvg.
With delta = mean_k (w_k - w_t), squares and roots number by number:

    m <- beta_1 m + (1 - beta_1) delta
    v <- beta_2 v + (1 - beta_2) delta^2                 (FedAdam)
    v <- v - (1 - beta_2) delta^2 sign(v - delta^2)      (FedYogi)
    w_{t+1} = w_t + eta m / (sqrt(v) + tau)
"""

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import PositiveFloat

from .. import losses
from ..engine.kinds import Momentum
from .base import register
from .fedavg import WEIGHTING, FedAvg


@register("fedadam")
@dataclass
class FedAdam(FedAvg):
    """No correction for the empty memory of the first rounds, as in Algorithm 2.

    v squares the round's mean change, not m, and begins at tau^2, the least that Algorithm 2
    allows (Flower: 0). Algorithm 2 averages with equal weights. Running statistics of batch norm
    are no gradient and are averaged as in FedAvg.
    """

    weighting: Literal[*WEIGHTING] = "uniform"
    eta: PositiveFloat = 0.01  # server's learning rate; ours, the paper tunes it for each task
    beta_1: Momentum = 0.9  # the paper, for both
    beta_2: Momentum = 0.99  # the paper, for both
    tau: PositiveFloat = 1e-3  # the smaller, the more adaptive; the paper's choice for all tasks

    def start(self, fed):
        super().start(fed)
        weights = {name: p.detach() for name, p in fed.server.model.named_parameters()}
        fed.server.state["m"] = {name: torch.zeros_like(w) for name, w in weights.items()}
        fed.server.state["v"] = {n: torch.full_like(w, self.tau**2) for n, w in weights.items()}

    def combine(self, fed, clients, uploads, shares):
        mean, before = super().combine(fed, clients, uploads, shares), fed.server.model.state_dict()
        m, v = fed.server.state["m"], fed.server.state["v"]
        for name in m:
            delta = mean[name] - before[name]
            m[name] = self.beta_1 * m[name] + (1 - self.beta_1) * delta
            v[name] = self.squares(v[name], delta)
            mean[name] = losses.adaptive_step(
                before[name], m[name], v[name], eta=self.eta, tau=self.tau
            )
        return mean

    def squares(self, v, delta):
        return losses.adam_squares(v, delta, beta=self.beta_2)


@register("fedyogi")
@dataclass
class FedYogi(FedAdam):
    """FedAdam whose v moves by (1 - beta_2) delta^2 and no more, so that it falls slowly."""

    def squares(self, v, delta):
        return losses.yogi_squares(v, delta, beta=self.beta_2)
