"""RCFL: average the scores of those who know a label, then move only part of the way.

Gudur, Balaji and Perepu, "Resource-Constrained Federated Learning with Heterogeneous Labels and
Models", ACM SIGKDD Workshop 2020. Objective on public images: KL(mean scores || softmax(z)), the
mean of each class over the clients that own it.
"""

from dataclasses import dataclass

import torch

from ..engine.kinds import Share
from ..losses import mean_scores, score_distillation
from .base import register
from .fedavg import average
from .shared.prototypes import class_counts
from .shared.public import PublicMethod


@register("rcfl")
@dataclass
class RCFL(PublicMethod):
    """From the paper: scores averaged over the clients that own a label, a weighted local update.

    Everything else is inferred, because there is no code and FCCL does not say how it ran RCFL:
    the divergence, batches instead of the whole public set, and what is weighted, here the weights
    before and after the public phase. Its rows in FCCL's tables cannot be reproduced.
    """

    alpha: Share = 0.5  # share of its own weights that a client keeps; 0 follows the others fully

    def start(self, fed):
        super().start(fed)
        owns = fed.upload(fed.clients, "labels", self.labels)  # the server knows who owns which
        fed.server.state |= {c.id: own for c, own in zip(fed.clients, owns, strict=True)}

    def labels(self, client):
        return class_counts(client, client.scenario.num_classes) > 0

    def collaborate(self, fed, clients):
        fed.ask(clients, self.remember)
        super().collaborate(fed, clients)
        fed.ask(clients, self.move)

    def remember(self, client):
        client.state["before"] = {n: v.clone() for n, v in client.model.state_dict().items()}

    def move(self, client):
        states = [client.model.state_dict(), client.state.pop("before")]
        client.model.load_state_dict(average(states, [1 - self.alpha, self.alpha]))

    def exchange(self, fed, clients, number):
        sent = torch.stack(fed.upload(clients, "logits", self.look, number))
        owns = torch.stack([fed.server.state[c.id] for c in clients]).float()
        fed.download(clients, "mean scores", self.learn, mean_scores(sent, owns))

    def public_loss(self, client, x, z, scores):
        return score_distillation(z, scores)
