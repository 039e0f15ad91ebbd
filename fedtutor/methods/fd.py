"""FD: federated distillation, the mean output of each class instead of weights.

Jeong et al., "Communication-Efficient On-Device Machine Learning: Federated Distillation and
Augmentation under Non-IID Private Data", 2018, Algorithm 1. Local objective: L_CE + lambda (cross-
entropy to the other clients' mean softmax output for the class of the image).
"""

from dataclasses import dataclass

from .. import losses
from .base import Method, register
from .fedavg import WEIGHTING
from .shared.class_means import global_means, keep_means
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

    choices = {"loss": LOSSES, "weighting": WEIGHTING}
    at_least_0 = ("lambda_",)

    lambda_: float = 1.0  # ours; RepShare's code: 10
    loss: str = "cross-entropy"  # see LOSSES
    exclude_self: bool = True  # the mean is over the others; RepShare's code: over all
    weighting: str = "uniform"  # every owner of a class counts alike; RepShare's code: "samples"

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
        for client, told in zip(clients, fed.ask(clients, self.measured), strict=True):
            keep_means(fed, client, *told, weighting=self.weighting)

    def measured(self, client):
        """Mean outputs [classes, classes] and images per class [classes]."""
        network = client.model.eval()
        means = own_prototypes(client, lambda x: self.output(network(x)))
        network.train()
        return means, class_counts(client, len(means))

    def output(self, z):
        """What is averaged, from logits [batch, classes]."""
        return z if self.loss == "mse" else z.softmax(1)
