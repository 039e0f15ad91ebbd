"""FedBN: average everything but batch norm.

Li et al., "FedBN: Federated Learning on Non-IID Features via Local Batch Normalization", ICLR 2021,
Algorithm 1. Objective: min over w and all b_k of sum_k F_k(w, b_k); b_k: scale, shift and running
statistics of the batch norm layers of client k, w: all other weights.
"""

from dataclasses import dataclass
from typing import Literal

from torch import nn

from .base import register
from .fedavg import WEIGHTING
from .shared.kept import KeepsPart

BATCH_NORM = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


@register("fedbn")
@dataclass
class FedBN(KeepsPart):
    """A network without batch norm makes it FedAvg: group norm, say, is averaged like all weights.

    Algorithm 1 averages with equal weights, and the authors' code tests the average with a client's
    own batch norm, which is the default here.
    """

    weighting: Literal[*WEIGHTING] = "uniform"

    def stays(self, network):
        norms = [pair for pair in network.named_modules() if isinstance(pair[1], BATCH_NORM)]
        return {f"{path}.{name}" for path, layer in norms for name in layer.state_dict()}
