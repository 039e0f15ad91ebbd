"""FedMD: communicate, aggregate, distribute, digest, revisit.

Li and Wang, "FedMD: Heterogenous Federated Learning via Model Distillation", NeurIPS Workshop 2019,
Algorithm 1. Each client digests the consensus: it brings its logits on public images close to the
mean logits (mean absolute distance), then revisits its private images.
"""

from dataclasses import dataclass

from ..losses import logit_l1
from .base import register
from .shared.public import MeanAnswers


@register("fedmd")
@dataclass
class FedMD(MeanAnswers):
    """As FCCL compares with it: consensus and digest batch by batch.

    The original (paper and code) computes the consensus once per round, on 5000 public images, and
    then digests; its transfer learning on labeled public images has no counterpart here, because
    public images carry no labels (`pretrain_epochs` is the private part of it). Digest distance and
    Adam at 1e-3: its code. FCCL's code makes a new Adam per batch: "adam-fresh".
    """

    def public_loss(self, client, x, z, mean):  # communicate, aggregate, distribute: `exchange`
        return logit_l1(z, mean)  # digest; revisit is the local update
