"""FedProc: features near their class's prototype and far from the others'.

Mu et al., "FedProc: Prototypical Contrastive Federated Learning on Non-IID Data", Future Generation
Computer Systems 143, 2023. Local objective: alpha L_con + (1 - alpha) L_CE, L_con =
-log(e_y / sum_c e_c), e_c = exp(cos(h, prototype of c)).
"""

from dataclasses import dataclass
from typing import Literal

from pydantic import PositiveFloat

from ..engine.kinds import Share
from ..losses import cross_entropy, prototype_contrastive
from .base import register
from .fedavg import WEIGHTING, FedAvg
from .shared.prototypes import collect, distribute


@register("fedproc")
@dataclass
class FedProc(FedAvg):
    """No author code was found; the objective was checked against MarsFL's re-implementation.

    Features first, the classifier later: the weight falls from 1 to 0 over the run ("falling"), or
    is `alpha` throughout ("constant": FCCL+). Until there are prototypes, in round 1, clients learn
    from labels alone (MarsFL: not at all, because the weight of the labels is 0). Prototypes as in
    `fedproto.py`. alpha = 0 is FedAvg, also for the running statistics of batch norm.
    """

    schedule: Literal["falling", "constant"] = "falling"
    alpha: Share = 0.5  # weight of L_con under "constant"; FCCL+ Table VII
    tau: PositiveFloat = 1.0  # MarsFL has no temperature
    prototype_weighting: Literal[*WEIGHTING] = "samples"  # "uniform": MarsFL

    def collaborate(self, fed, clients):
        super().collaborate(fed, clients)
        distribute(fed, clients)
        done = (fed.round_ - 1) / max(fed.settings.rounds - 1, 1)
        fed.ask(clients, self.weigh, 1 - done if self.schedule == "falling" else self.alpha)

    def weigh(self, client, alpha: float):
        client.state["alpha"] = alpha

    def local_loss(self, client, x, y):
        h = client.model.features(x)
        loss = cross_entropy(client.model.classifier(h), y)
        if "prototypes" not in client.state:
            return loss
        known, alpha = client.state["prototypes"], client.state["alpha"]
        contrast = prototype_contrastive(h, y, known["means"], known["owned"], tau=self.tau)
        return alpha * contrast + (1 - alpha) * loss

    def aggregate(self, fed, clients):
        super().aggregate(fed, clients)
        collect(fed, clients, weighting=self.prototype_weighting)
