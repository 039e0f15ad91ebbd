"""FedDF: the ensemble's averaged logits teach, through a divergence per image.

Lin et al., "Ensemble Distillation for Robust Model Fusion in Federated Learning", NeurIPS 2020,
Algorithm 3 (different networks). Objective on public images: KL(softmax(mean of the clients'
logits) || softmax(z)).
"""

from dataclasses import dataclass

from ..losses import distillation
from .base import register
from .shared.public import MeanAnswers


@register("feddf")
@dataclass
class FedDF(MeanAnswers):
    """Every client is a group of its own, as in FCCL, where all networks differ.

    The original averages the weights within a group of equal networks (`average = true` with one
    group) and distils on the server with Adam at 1e-3 for up to 10,000 steps, the ensemble fixed;
    here, as in FCCL+'s code, each public batch is one step and the ensemble moves along. That code
    steps with plain SGD at 1e-3 (and weight decay 1e-5, left out): `public_optimizer = "sgd"`.
    """

    def public_loss(self, client, x, z, mean):
        return distillation(z, mean)
