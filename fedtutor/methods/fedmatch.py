"""FedMatch: agree with helpers, and believe what most of them say.

Jeong et al., "Federated Semi-Supervised Learning with Inter-Client Consistency & Disjoint
Learning", ICLR 2021. On unlabeled images of which a client is sure (largest probability at least
0.75), with p_h the probabilities of its helpers:

    lambda_i (1/H) sum_h KL(p_h || p(x)) + lambda_a CE(vote of own and helpers, p(distorted x))
"""

from dataclasses import dataclass

import torch
from pydantic import NonNegativeFloat, NonNegativeInt
from torch import Tensor

from .. import losses
from .base import register
from .shared.public import PublicMethod


@register("fedmatch")
@dataclass
class FedMatch(PublicMethod):
    """Consistency, vote, threshold, two helpers and all weights are the paper's and its code's.

    Inferred, because FCCL only says that it "retained key features" for networks that differ:
    the unlabeled images are the public ones; helpers send logits instead of networks and are, for
    every batch, the two clients with the nearest predictions (original: nearest networks, chosen
    every 10 rounds); distortion is a shift of up to 4 pixels and a flip (original: RandAugment).
    Half of FedMatch is left out: disjoint learning, which splits the weights into a supervised and
    an unsupervised part and exchanges both, since different networks have no weights to exchange.
    """

    helpers: NonNegativeInt = 2
    threshold: float = 0.75  # least largest probability of a batch image that counts
    lambda_i: NonNegativeFloat = 0.01  # weight of the consistency
    lambda_a: NonNegativeFloat = 0.01  # weight of the vote

    def exchange(self, fed, clients, number):
        sent = torch.stack(fed.upload(clients, "logits", self.look, number))
        nearest = nearest_others(sent, min(self.helpers, len(clients) - 1))
        fed.download(clients, "helper logits", self.learn, own=[sent[i] for i in nearest])

    def public_loss(self, client, x, z, helpers):
        sure = z.detach().softmax(1).amax(1) >= self.threshold
        if sure.sum() < 2:  # batch norm cannot train on one image
            return None
        x, z, helpers = x[sure], z[sure], helpers[:, sure]
        y = losses.agreement_labels(z.detach(), helpers)
        distorted = client.model(shift_and_flip(x, client.generator("distort")))
        agree = self.lambda_i * losses.helper_consistency(z, helpers)
        return agree + self.lambda_a * losses.cross_entropy(distorted, y)


def nearest_others(z: Tensor, count: int) -> list[Tensor]:
    """For each client the `count` others with the nearest probabilities.

    z: logits [clients, batch, classes].
    """
    p = z.softmax(2).flatten(1)
    apart = torch.cdist(p, p, compute_mode="donot_use_mm_for_euclid_dist")
    apart.fill_diagonal_(float("inf"))
    return [row.argsort(stable=True)[:count] for row in apart]


def shift_and_flip(x: Tensor, own: torch.Generator, *, most: int = 4) -> Tensor:
    """Each image of x [batch, channels, height, width] shifted at random and, or not, mirrored."""
    count, _, height, width = x.shape

    def places(size: int) -> Tensor:  # [batch, size], edge pixels repeated
        shift = torch.randint(-most, most + 1, (count, 1), generator=own)
        return (torch.arange(size) + shift).clamp(0, size - 1).to(x.device)

    rows, columns = places(height), places(width)
    mirrored = (torch.rand(count, generator=own) < 0.5).to(x.device)
    columns = torch.where(mirrored[:, None], columns.flip(1), columns)
    which = torch.arange(count, device=x.device)[:, None, None]
    return x.movedim(1, -1)[which, rows[:, :, None], columns[:, None]].movedim(-1, 1)
