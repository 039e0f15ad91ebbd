"""FedRS: do not push away the classes that you do not have.

Li and Zhan, "FedRS: Federated Learning with Restricted Softmax for Label Distribution Non-IID
Data", KDD 2021. Local objective: cross-entropy of logits of which those of absent classes are
multiplied by alpha; prediction is as usual.
"""

from dataclasses import dataclass
from typing import Literal

from ..engine.kinds import Share
from ..losses import continuous_restriction, restricted_cross_entropy, restriction
from .base import register
from .fedavg import FedAvg
from .shared.prototypes import class_counts

SCALES = {"binary": restriction, "continuous": continuous_restriction}


@register("fedrs")
@dataclass
class FedRS(FedAvg):
    """Which classes a client has stays with it. alpha = 1 is FedAvg.

    `scale`: "binary" is the paper's; where every client has every class it is FedAvg. "continuous"
    is that of the authors' later code, which also has a classifier without bias and clips
    gradients; here the whole logit is scaled, and nothing is clipped. Running statistics of batch
    norm are averaged like weights.
    """

    alpha: Share = 0.5
    scale: Literal[*SCALES] = "binary"

    def start(self, fed):
        super().start(fed)
        fed.ask(fed.clients, self.restrict)

    def restrict(self, client):
        counts = class_counts(client, client.scenario.num_classes)
        client.state["scale"] = SCALES[self.scale](counts, alpha=self.alpha)

    def local_loss(self, client, x, y):
        return restricted_cross_entropy(client.model(x), y, client.state["scale"])
