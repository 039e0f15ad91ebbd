"""MOON: features nearer to the global model's than to one's own of the last round.

Li, He and Song, "Model-Contrastive Federated Learning", CVPR 2021, Algorithm 1. Local objective:
L_CE + mu L_con, L_con = -log(e_global / (e_global + e_previous)), e = exp(cos(h, .) / tau).
"""

from dataclasses import dataclass

from pydantic import NonNegativeFloat, PositiveFloat

from .. import losses
from .base import register
from .shared.public import frozen
from .shared.received import KeepsReceived, features_of


@register("moon")
@dataclass
class MOON(KeepsReceived):
    """Without projection head, as in FedCSD (Sec. V-A) and FCCL+: h is the classifier's input.

    The original puts a head before the classifier, for all methods alike; a network with one is
    `simple_cnn_moon`. One previous network per client (its code: a pool of any length, 1 by
    default). Until a client has trained once there is none, and the term is 0, as in the code.
    mu = 0 is FedAvg. Both fixed networks run in evaluation mode, with their own running statistics
    of batch norm; those of the trained one are averaged like weights.
    """

    mu: NonNegativeFloat = 1.0  # the paper tunes 0.1, 1, 5, 10; FedCSD and FCCL+ use 1
    tau: PositiveFloat = 0.5

    def build(self, client, make):
        return {**super().build(client, make), "previous": frozen(make())}

    def local_loss(self, client, x, y):
        h = client.model.features(x)
        h_global = client.fixed("received", "features", features_of, x)
        h_previous = h_global[None][:0]
        if client.state.get("trained"):
            h_previous = client.fixed("previous", "features", features_of, x)[None]
        contrast = losses.model_contrastive(h, h_global, h_previous, tau=self.tau)
        return losses.cross_entropy(client.model.classifier(h), y) + self.mu * contrast

    def after_local(self, client):
        client.models["previous"].load_state_dict(client.model.state_dict())
        client.state["trained"] = True
