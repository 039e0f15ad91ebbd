"""FedRep: fit the own classifier to the features of all, then the features to it.

Collins et al., "Exploiting Shared Representations for Personalized Federated Learning", ICML 2021,
Algorithm 1. Objective: as in FedPer, min over w and all v_k of sum_k F_k(w, v_k). In a round a
client first trains v_k with the received w fixed, then w with v_k fixed, and sends w.
"""

from dataclasses import dataclass
from typing import Literal

from ..engine.kinds import Share
from .base import register
from .fedavg import WEIGHTING
from .fedper import FedPer


@register("fedrep")
@dataclass
class FedRep(FedPer):
    """As many local epochs as for every other method, the first ones for the classifier.

    Of two epochs that is one each. The paper's experiments have ten epochs for the classifier and
    then one or five for the features; how many images a client sees in a round stays ours, so that
    methods can be compared. Where a client has one epoch, its first batches train the classifier.

    Algorithm 1 averages with equal weights (the authors' code: with n_k). The fixed part gets no
    step, no momentum and no weight decay; running statistics of batch norm move with every batch
    that passes, as in the authors' code, and are averaged. head_share = 0 trains the features
    alone, for classifiers that stay as they began; head_share = 1 the classifiers alone.
    """

    weighting: Literal[*WEIGHTING] = "uniform"
    head_share: Share = 0.5  # of the images that a client sees in a round; ours

    def collaborate(self, fed, clients):
        super().collaborate(fed, clients)
        fed.ask(clients, self.begin)

    def begin(self, client):
        epochs = client.federation.local_epochs(client)
        client.state["seen"] = 0
        client.state["head until"] = self.head_share * epochs * len(self.local_data(client))

    def local_loss(self, client, x, y):
        s = client.state
        s["head"] = s["seen"] + len(y) / 2 < s["head until"]  # where the middle of the batch lies
        s["seen"] += len(y)
        return super().local_loss(client, x, y)

    def before_step(self, client):
        for name, p in client.model.named_parameters():
            if name.startswith("classifier.") != client.state["head"]:
                p.grad = None  # fixed: the optimizer passes it over
