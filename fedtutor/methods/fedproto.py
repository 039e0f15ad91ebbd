"""FedProto: bring the features of a class to the same place on every client.

Tan et al., "FedProto: Federated Prototype Learning across Heterogeneous Clients", AAAI 2022,
Algorithm 1. A prototype is the mean feature of a class; the server averages the clients'
prototypes. Local objective: L_CE + lambda (mean squared distance of features to the prototype of
their class).
"""

from dataclasses import dataclass
from typing import Literal

from pydantic import NonNegativeFloat

from ..losses import cross_entropy, prototype_distance
from .base import register
from .fedavg import WEIGHTING, FedAvg
from .shared.prototypes import collect, distribute, require_equal_features


@register("fedproto")
@dataclass
class FedProto(FedAvg):
    """With weights averaged too, as FedCSD and FedLGD must have run it (they do not say).

    `average = false` is the original: only prototypes cross, networks may differ in all but the
    number of features, and each client is evaluated with its own. Prototypes come from one pass
    after local training, in evaluation mode; the original's code averages the features of the last
    epoch's batches, while they move. In round 1 there are no prototypes. lambda_ = 0 is FedAvg,
    also for the running statistics of batch norm.
    """

    lambda_: NonNegativeFloat = 1.0  # the original's default; FedCSD Sec. V-A
    average: bool = True
    prototype_weighting: Literal[*WEIGHTING] = "samples"  # "uniform": the original's code

    def start(self, fed):
        if self.average:
            super().start(fed)
            return
        require_equal_features(fed)

    def collaborate(self, fed, clients):
        if self.average:
            super().collaborate(fed, clients)
        distribute(fed, clients)

    def local_loss(self, client, x, y):
        h = client.model.features(x)
        loss = cross_entropy(client.model.classifier(h), y)
        if "prototypes" not in client.state:
            return loss
        known = client.state["prototypes"]
        away = prototype_distance(h, y, known["means"], known["owned"])
        return loss + self.lambda_ * away

    def aggregate(self, fed, clients):
        if self.average:
            super().aggregate(fed, clients)
        collect(fed, clients, weighting=self.prototype_weighting)

    def evaluated(self, fed, client):
        return super().evaluated(fed, client) if self.average else client.model
