"""FedPer: average the features, keep the classifier at home.

Arivazhagan et al., "Federated Learning with Personalization Layers", 2019, Algorithm 1 (client) and
2 (server). Objective: min over w and all v_k of sum_k (n_k / n) F_k(w, v_k); w: the features, v_k:
the classifier of client k.
"""

from dataclasses import dataclass

from .base import register
from .shared.kept import KeepsPart


@register("fedper")
@dataclass
class FedPer(KeepsPart):
    """One personalization layer, the linear classifier; the paper tries up to four blocks.

    Features and classifier are trained together. The paper does not say at which moment it tests;
    here it is with the average and the client's own classifier, as the code of FedRep does.
    """

    def stays(self, network):
        return {f"classifier.{name}" for name in network.classifier.state_dict()}
