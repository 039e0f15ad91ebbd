"""Logit distillation: stay near the logits of the global model.

Hinton et al. 2015, as FedCSD uses it to explore client drift (Yan et al., "Rethinking Client Drift
in Federated Learning: A Logit Perspective", 2025, Sec. III-B). Local objective:
L_CE + mu L_LD, L_LD of Eq. 4, with the network received this round as the teacher.
"""

from dataclasses import dataclass

from pydantic import NonNegativeFloat, PositiveFloat

from .. import losses
from .base import register
from .shared.public import teacher_logits
from .shared.received import KeepsReceived


@register("logit-distillation")
@dataclass
class LogitDistillation(KeepsReceived):
    """FedCSD's exploratory experiment; "Base" in its Table III is the same with FedCSD's settings.

    mu = 0 is FedAvg. The teacher runs in evaluation mode, with the received running statistics of
    batch norm; those of the student are averaged like weights.
    """

    mu: NonNegativeFloat = 0.001  # Sec. III-B: the best of 0.001, 0.01, 0.1, 1
    tau: PositiveFloat = 10.0  # Sec. III-B

    def local_loss(self, client, x, y):
        z = client.model(x)
        z_global = client.fixed("received", "logits", teacher_logits, x)
        return losses.cross_entropy(z, y) + self.mu * losses.logit_distillation(
            z, z_global, tau=self.tau
        )
