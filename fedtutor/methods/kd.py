"""Plain logit distillation: the simplest way to learn from others on public images.

On each public batch every client minimizes the mean squared distance between its logits and the
mean logits of all clients; then it trains on its own images. No paper's method, but what is left
of FedMD, FedDF and FCCL without their particular distance (distillation: Hinton et al. 2015).
"""

from dataclasses import dataclass

from ..losses import logit_mse
from .base import register
from .shared.public import MeanAnswers


@register("kd")
@dataclass
class KD(MeanAnswers):
    """public_lr = 0 is training alone, but for the running statistics of batch norm."""

    def public_loss(self, client, x, z, mean):
        return logit_mse(z, mean)
