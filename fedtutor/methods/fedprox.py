"""FedProx: FedAvg with a leash.

Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020, Algorithm 2. Local
objective (Eq. 2): F_k(w) + (mu / 2) ||w - w_t||^2, with w_t the weights received this round.
"""

from dataclasses import dataclass

from pydantic import NonNegativeFloat

from ..losses import proximal_term
from .base import register
from .shared.received import KeepsWeights


@register("fedprox")
@dataclass
class FedProx(KeepsWeights):
    """mu = 0 is FedAvg. The papers use mu = 0.01 (FCCL+) and 0.001 (FedCSD)."""

    mu: NonNegativeFloat = 0.01  # strength of the pull towards the global weights

    def local_loss(self, client, x, y):
        pull = proximal_term(list(client.model.parameters()), client.state["w_global"], mu=self.mu)
        return super().local_loss(client, x, y) + pull
