"""FedCSD: distil from a global teacher whose logits are refined by class prototypes.

Yan et al., "Rethinking Client Drift in Federated Learning: A Logit Perspective", IEEE Transactions
on Cybernetics 2025, Algorithm 1. Local objective: L_CE + mu L_CSD (Eq. 15). L_CSD (Eq. 14) pulls
the student's softened logits towards those of a moving average of the global models (Eq. 12), each
multiplied by how similar the student's logits are to the prototype of its class (Eq. 8-10), and
leaves out images of which the teacher knows too little (Eq. 13). Line numbers below are those of
Algorithm 1.
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from pydantic import NonNegativeFloat, PositiveFloat

from .. import losses
from ..engine.kinds import Share
from ..errors import SettingError
from .base import register
from .fedavg import FedAvg, load
from .shared.prototypes import own_prototypes
from .shared.public import frozen, teacher_logits

TEACHERS = {
    "refined": "the teacher's logits times similarity scores (Eq. 10)",
    "plain": "the teacher's logits: Table III without similarity",
    "divided": "the teacher's logits / C: Eq. 10 if all scores were equal (ours, a control)",
    "uniform": "every class 1 / C: nothing of the teacher but the mask (ours, a control)",
    "penalty": "minus the student's entropy instead of a teacher (ours, a control)",
}
MASKS = {"adaptive": losses.adaptive_mask, "forcible": losses.forcible_mask, "none": None}
LOSSES = {"paper": losses.fedcsd_loss, "code": losses.fedcsd_loss_code}


@register("fedcsd")
@dataclass
class FedCSD(FedAvg):
    """Default: the paper's formulas. mu = 0 is FedAvg.

    Table III: "Base" is teacher = "plain", mask = "none", alpha = 0; M_1, M_2 and M_3 leave out
    one of moving average (alpha = 0), mask and similarity each. Official code: loss = "code" ((1 -
    mu) CE + mu KL, mask on refined logits, a gradient through them) with prototypes = "local",
    mu = 0.5, tau = 4. The paper does not say whether refined logits carry a gradient; here they do
    not, like those of any teacher.

    Batch norm: running statistics are averaged like weights, and the teacher's follow as in Eq.
    12. The teacher runs in evaluation mode (the code: in training mode, on augmented images).

    For the filter rate of Fig. 5, `client.state["soft_labels"]` counts in each round: images seen,
    kept by the mask, misclassified by the teacher, both.
    """

    mu: NonNegativeFloat = 0.001  # Sec. V-A
    tau: PositiveFloat = 10.0  # Sec. V-A
    alpha: Share = 0.9  # Eq. 12; 0: the last global model
    teacher: Literal[*TEACHERS] = "refined"  # see TEACHERS
    mask: Literal[*MASKS] = "adaptive"  # Eq. 13; "forcible": Eq. 16; "none"
    prototypes: Literal["global", "local"] = "global"  # Eq. 7; "local": own ones (official code)
    # classes without prototype: similarity 0, or "left out" of Eq. 9 (ours)
    absent: Literal["zero", "left out"] = "zero"
    # who averages: line 13; "client": Sec. V-E, nothing is sent
    teacher_at: Literal["server", "client"] = "server"
    loss: Literal[*LOSSES] = "paper"

    def __post_init__(self):
        super().__post_init__()
        if self.loss == "code" and self.teacher in ("uniform", "penalty"):
            raise SettingError(
                f'loss = "code" masks on logits that teacher = {self.teacher!r} does not have',
                where=f"method {self.name}",
                do='set loss = "paper"',
            )

    def build(self, client, make):
        return {"model": make(), "teacher": frozen(make())}

    def start(self, fed):
        super().start(fed)
        if self.teacher_at == "server":
            fed.server.models["teacher"] = frozen(fed.make())  # line 1: both start as w_G^0

    def collaborate(self, fed, clients):
        super().collaborate(fed, clients)  # line 18
        if self.teacher_at == "server":
            weights = fed.server.models["teacher"].state_dict()
            fed.download(clients, "teacher", self.receive_teacher, weights)
        else:
            fed.ask(clients, self.update_teacher)
        fed.ask(clients, self.begin_counts)
        if self.teacher != "refined":
            return
        if self.prototypes == "local":
            fed.ask(clients, self.keep_prototypes)
            return
        sent = fed.upload(clients, "prototypes", self.teacher_prototypes)  # line 4
        mean = losses.global_prototypes(torch.stack(sent))  # line 7
        fed.download(clients, "prototypes", self.keep_prototypes, mean)

    def receive_teacher(self, client, state):
        load(client, state, "teacher")

    def update_teacher(self, client) -> None:
        """Section V-E: the client averages by itself what it has received."""
        alpha = self.alpha if client.state.get("taught") else 0.0
        _move(client.models["teacher"], client.model.state_dict(), alpha)
        client.state["taught"] = True

    def begin_counts(self, client) -> None:
        none = torch.zeros(4, device=client.device)
        client.state.setdefault("soft_labels", []).append(none)

    def teacher_prototypes(self, client):
        """The teacher's mean logits of each class [classes, classes]."""
        return own_prototypes(client, partial(teacher_logits, client.models["teacher"]))

    def keep_prototypes(self, client, mean=None) -> None:
        """Those of this round: the mean that arrived, or the client's own."""
        own = mean is None
        client.state["prototypes"] = self.teacher_prototypes(client) if own else mean

    def local_loss(self, client, x, y):  # line 22
        z, z_teacher = client.model(x), client.fixed("teacher", "logits", teacher_logits, x)
        target = self._target(client, z if self.loss == "code" else z.detach(), z_teacher)
        mask = self._mask(client, target if self.loss == "code" else z_teacher, y)
        if self.teacher == "penalty":
            penalty = losses.confidence_penalty(z, mask, tau=self.tau)
            return losses.cross_entropy(z, y) + self.mu * penalty
        return LOSSES[self.loss](z, y, target, mask, mu=self.mu, tau=self.tau)

    def _target(self, client, z, z_teacher):
        if self.teacher == "refined":
            prototypes = client.state["prototypes"]
            owned = None
            if self.absent == "left out":  # a prototype is 0 where nobody has the class
                owned = prototypes.any(1) | ~prototypes.any()
            delta = losses.prototype_similarity(z, prototypes)
            return losses.refined_logits(z_teacher, losses.similarity_scores(delta, owned))
        scale = {"plain": 1.0, "divided": 1 / z.shape[1]}
        return z_teacher * scale.get(self.teacher, 0.0)

    @torch.no_grad()
    def _mask(self, client, z_teacher, y):
        mask = None if self.mask == "none" else MASKS[self.mask](z_teacher, y)
        kept = torch.ones_like(z_teacher[:, 0]) if mask is None else mask
        wrong = 1 - losses.forcible_mask(z_teacher, y)
        counts = [torch.ones_like(kept), kept, wrong, kept * wrong]
        client.state["soft_labels"][-1] += torch.stack(counts).sum(1)
        return mask

    def aggregate(self, fed, clients):
        super().aggregate(fed, clients)  # line 11
        if self.teacher_at == "server":  # line 13
            _move(fed.server.models["teacher"], fed.server.model.state_dict(), self.alpha)


def _move(teacher, new: dict, alpha: float) -> None:
    """Eq. 12 for a whole network, running statistics included; counters are taken as they are."""
    teacher.load_state_dict(
        {
            name: losses.moving_average(w, new[name], alpha=alpha)
            if w.is_floating_point()
            else new[name]
            for name, w in teacher.state_dict().items()
        }
    )
