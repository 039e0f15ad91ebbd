"""FD: federated distillation, the mean output of each class instead of weights.

Jeong et al., "Communication-Efficient On-Device Machine Learning: Federated Distillation and
Augmentation under Non-IID Private Data", 2018, Algorithm 1. Local objective: L_CE + lambda (cross-
entropy to the other clients' mean softmax output for the class of the image).
"""

from dataclasses import dataclass
from typing import Literal

from pydantic import NonNegativeFloat

from .. import losses
from .base import Method, register
from .fedavg import WEIGHTING
from .shared.class_means import collect_means, global_means
from .shared.prototypes import class_counts, own_prototypes

LOSSES = {
    "cross-entropy": "softmax outputs are averaged, and are soft labels (the original)",
    "mse": "logits are averaged, mean squared distance to them (RepShare's code)",
}


@register("fd")
@dataclass
class FD(Method):
    """The original; RepShare's baseline is loss = "mse", exclude_self = false, lambda_ = 10.

    Means come from one pass after local training, in evaluation mode, as in RepShare's code; the
    original averages the outputs of the round's training batches, while they move. Networks may
    differ in everything. Until there are means, in round 1, a client learns from labels alone, and
    so for images of a class that none of the others has. The original's augmentation (FAug) is not
    here. lambda_ = 0 is `solo`, also for the running statistics of batch norm, which stay at home.
    """

    lambda_: NonNegativeFloat = 1.0  # ours; RepShare's code: 10
    loss: Literal[*LOSSES] = "cross-entropy"  # see LOSSES
    exclude_self: bool = True  # the mean is over the others; RepShare's code: over all
    weighting: Literal[*WEIGHTING] = "uniform"  # owners count alike; RepShare's code: "samples"

    def collaborate(self, fed, clients):
        known = [global_means(fed, without=c.id if self.exclude_self else "") for c in clients]
        told = [(c, means) for c, means in zip(clients, known, strict=True) if means is not None]
        own = [means for _, means in told]
        fed.download([c for c, _ in told], "means", self.receive, own=own)

    def receive(self, client, known):
        client.state["received"] = known

    def local_loss(self, client, x, y):
        z = client.model(x)
        loss = losses.cross_entropy(z, y)
        if "received" not in client.state:
            return loss
        known = client.state["received"]
        pull = losses.prototype_distance if self.loss == "mse" else losses.fd_loss
        return loss + self.lambda_ * pull(z, y, known["means"], known["owned"])

    def aggregate(self, fed, clients):
        fed.ask(clients, self.measure)
        collect_means(fed, clients, weighting=self.weighting)

    def measure(self, client) -> None:
        """Mean outputs [classes, classes] and images per class [classes], to be told."""
        network = client.model.eval()
        means = own_prototypes(client, lambda x: self.output(network(x)))
        network.train()
        client.held |= {"means": means, "weights": class_counts(client, len(means))}

    def output(self, z):
        """What is averaged, from logits [batch, classes]."""
        return z if self.loss == "mse" else z.softmax(1)
