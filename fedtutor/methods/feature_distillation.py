"""Feature distillation: stay near the features of the global model.

Romero et al. 2015, as FedCSD uses it to explore client drift (Yan et al., "Rethinking Client Drift
in Federated Learning: A Logit Perspective", 2025, Sec. III-B). Local objective:
L_CE + mu L_FD, L_FD of Eq. 5, with the network received this round as the teacher.
"""

from dataclasses import dataclass

from pydantic import NonNegativeFloat

from .. import losses
from .base import register
from .shared.received import KeepsReceived, features_of


@register("feature-distillation")
@dataclass
class FeatureDistillation(KeepsReceived):
    """Features are the input of the classifier. mu = 0 is FedAvg.

    The teacher runs in evaluation mode, with the received running statistics of batch norm; those
    of the student are averaged like weights.
    """

    mu: NonNegativeFloat = 0.01  # Sec. III-B: the best of 0.001, 0.01, 0.1, 1

    def local_loss(self, client, x, y):
        h = client.model.features(x)
        h_received = client.fixed("received", "features", features_of, x)
        away = losses.feature_distillation(h, h_received)
        return losses.cross_entropy(client.model.classifier(h), y) + self.mu * away
