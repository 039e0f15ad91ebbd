"""FML: every client teaches a small traveling network, and is taught by it.

Shen et al., "Federated Mutual Learning", arXiv 2006.16765, 2020. A client has its own network and a
copy of the shared "meme" network. On private images both learn at once (deep mutual learning):

    own:  alpha CE + (1 - alpha) KL(meme || own)
    meme: beta CE + (1 - beta) KL(own || meme)

and the meme networks are averaged like in FedAvg. No public images.
"""

from dataclasses import dataclass

from pydantic import NonNegativeFloat, NonNegativeInt

from ..losses import mutual_loss
from .base import Method, register
from .fedavg import average, images_of, load, weights
from .shared.pretraining import pretrain


@register("fml")
@dataclass
class FML(Method):
    """The two losses and the averaging are the paper's; the rest is inferred.

    No official code was read. The other network's logits are a fixed target (no gradient), both
    networks share the local optimizer's settings, averaging is weighted by images, and both weights
    are 1/2: FCCL says nothing about its own choices. alpha = 1 leaves the client alone.
    """

    alpha: NonNegativeFloat = 0.5  # weight of the labels for the client's own network
    beta: NonNegativeFloat = 0.5  # weight of the labels for the meme
    meme: str = "small_cnn"  # network that travels
    pretrain_epochs: NonNegativeInt = 0  # epochs alone before round 1, own network only

    def build(self, client, make):
        return {"model": make(), "meme": make(self.meme, role="meme")}

    def start(self, fed):
        fed.server.models["meme"] = fed.make(self.meme, role="meme")
        pretrain(fed, self.pretrain_epochs)

    def collaborate(self, fed, clients):
        fed.download(clients, "meme", self.receive, fed.server.models["meme"].state_dict())

    def receive(self, client, state):
        load(client, state, "meme")

    def local_loss(self, client, x, y):
        own, meme = client.model(x), client.models["meme"](x)
        return mutual_loss(own, meme.detach(), y, alpha=self.alpha) + mutual_loss(
            meme, own.detach(), y, alpha=self.beta
        )

    def aggregate(self, fed, clients):
        uploads = fed.upload(clients, "meme", weights, "meme")
        shares = images_of(fed, clients)
        fed.server.models["meme"].load_state_dict(average(uploads, shares))
