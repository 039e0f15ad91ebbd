"""RHFL: follow each other client as far as it can be trusted.

Fang and Ye, "Robust Federated Learning with Noisy and Heterogeneous Clients", CVPR 2022. On public
images client i minimizes sum_{j != i} w_j KL(softmax(z_j) || softmax(z_i)) (HHF), with w_j from how
small client j's loss is and how fast it falls (CCR); on private images the symmetric
cross-entropy (SCE).
"""

from dataclasses import dataclass

import torch
from pydantic import NonNegativeFloat

from .. import losses
from .base import register
from .shared.public import PublicMethod


@register("rhfl")
@dataclass
class RHFL(PublicMethod):
    """HHF, CCR and SCE are the paper's and agree with its code; alpha and beta of SCE: FCCL+.

    The weights come from the mean local losses of the last two rounds (ours: of their last epoch),
    which a client sends in the round that follows; before there are two, every other client counts
    1 / (K - 1), as in the code. The server relays all others' logits, so K - 1 times as many bytes
    go down as for a mean. Labels here are clean: SCE then mainly rescales the cross-entropy.
    """

    alpha: NonNegativeFloat = 0.1  # of the cross-entropy in SCE
    beta: NonNegativeFloat = 1.0  # of the reverse cross-entropy in SCE
    confidence: NonNegativeFloat = 0.5  # beta of CCR; 0 trusts all clients equally

    def collaborate(self, fed, clients):
        weights = self._weights(fed, clients)
        others = [torch.cat([weights[:i], weights[i + 1 :]]) for i in range(len(clients))]
        fed.download(clients, "confidence", self.receive_confidence, own=others)
        super().collaborate(fed, clients)

    def receive_confidence(self, client, weights):
        client.state["weights"] = weights

    def exchange(self, fed, clients, number):
        sent = torch.stack(fed.upload(clients, "logits", self.look, number))
        others = [torch.cat([sent[:i], sent[i + 1 :]]) for i in range(len(sent))]
        fed.download(clients, "other logits", self.learn, own=others)

    def public_loss(self, client, x, z, others):
        return losses.hhf_loss(z, others, client.state["weights"])

    def local_loss(self, client, x, y):
        z = client.model(x)
        return losses.symmetric_cross_entropy(z, y, alpha=self.alpha, beta=self.beta)

    def after_local(self, client):
        client.state["loss"] = client.loss  # it is sent in the next round

    def last_loss(self, client) -> float:
        return client.state["loss"]

    def _weights(self, fed, clients) -> torch.Tensor:
        """w_k of all clients in this round, from losses that they send."""
        rows = fed.history["loss"][-1:]  # it says who trained in the last round
        trained = [
            c for c in clients for row in rows if row["values"][fed.clients.index(c)] is not None
        ]
        sent = fed.upload(trained, "loss", self.last_loss)
        before = fed.server.state.get("losses", {})
        now = {c.id: loss for c, loss in zip(trained, sent, strict=True)}
        fed.server.state["losses"] = now
        if any(c.id not in before or c.id not in now for c in clients):
            equal = 1 / max(len(clients) - 1, 1)  # somebody has not trained twice in a row
            return torch.full((len(clients),), equal, device=fed.device)
        before, now = (
            torch.tensor([row[c.id] for c in clients], device=fed.device) for row in (before, now)
        )
        return losses.client_confidence(before, now, beta=self.confidence)
