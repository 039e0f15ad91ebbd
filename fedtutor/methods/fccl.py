"""FCCL: learn from others by cross-correlation, stay yourself by two teachers.

Huang, Ye and Du, "Learn from Others and Be Yourself in Heterogeneous Federated Learning", CVPR
2022, Algorithm 1. On public images each client minimizes Eq. 2 of the cross-correlation (Eq. 1)
between its logits and the mean logits; on its private images L_CE + lambda_loc L_dual (Eq. 7). The
step numbers below are those of Algorithm 1, its lines counted from "for t = 1".
"""

from dataclasses import dataclass
from typing import Literal

from pydantic import NonNegativeFloat, NonNegativeInt

from .. import losses
from ..errors import SettingError
from .base import register
from .shared.public import MeanAnswers, teacher_logits

CORRELATIONS = {"paper": losses.cross_correlation, "code": losses.cross_correlation_code}
TEACHERS = {  # name: networks that teach
    "both": ("previous", "pretrained"),  # Eq. 6
    "previous": ("previous",),  # Eq. 4 only
    "pretrained": ("pretrained",),  # Eq. 5 only
    "none": (),  # "w/o CON" in Fig. 8
}


@register("fccl")
@dataclass
class FCCL(MeanAnswers):
    """The paper's formulas; each option names a place where its code differs, or an ablation.

    The paper says "Adam, lr 0.001" for the public step and keeps silent on how long Adam's memory
    lasts; here it lasts a round, like that of the local optimizer. Its code makes a new Adam for
    every public batch: `public_optimizer = "adam-fresh"`, and crops, flips and rotates the public
    images: `public_augment = "conference"`. `lambda_loc = 0` or `teachers = "none"` leave local
    training alone.
    """

    remade = ("current", "pretrained", "previous")  # the teachers: see start and collaborate

    pretrain_epochs: NonNegativeInt = 50  # Sec. 4; code: 40
    lambda_col: NonNegativeFloat = 0.0051  # weight of the off-diagonal in Eq. 2
    lambda_loc: NonNegativeFloat = 1.0  # weight of the teachers in Eq. 7
    off_diagonal: float = -1.0  # target of Eq. 2; Barlow Twins: 0
    correlation: Literal[*CORRELATIONS] = "paper"  # "code": times (batch - 1) / batch
    code_target: bool = False  # conference code: own logits in the mean are those of theta^{t-1}
    teachers: Literal[*TEACHERS] = "both"

    def __post_init__(self):
        super().__post_init__()
        if "pretrained" in TEACHERS[self.teachers] and self.pretrain_epochs < 1:
            raise SettingError(
                f"pretrain_epochs = {self.pretrain_epochs}, but the pretrained network is to teach",
                where=f"method {self.name}",
                do='give at least 1, or teachers = "previous" or "none"',
            )
        if self.code_target and self.answers == "own":
            raise SettingError(
                'code_target = true changes a mean, and answers = "own" has none',
                where=f"method {self.name}",
                do="choose one of them",
            )

    def roles(self):
        before = {"previous"} if self.code_target else set()
        return super().roles() | {*TEACHERS[self.teachers]} | before

    def start(self, fed):
        super().start(fed)
        fed.ask(fed.clients, self.remember, "pretrained")  # theta*, "also initial models"

    def collaborate(self, fed, clients):
        fed.ask(clients, self.remember, "previous")  # theta^{t-1}, before learning from others
        super().collaborate(fed, clients)  # steps 2-3 (logits, mean), and 4-6 for every batch

    def public_loss(self, client, x, z, mean):
        if self.code_target:  # the client puts its logits of theta^{t-1} in the place of z
            before = teacher_logits(client.models["previous"], x)
            mean = mean + (before - z.detach()) / client.held["clients"]
        m = CORRELATIONS[self.correlation](z, mean)  # step 4
        return losses.collaborative_loss(
            m, lambda_=self.lambda_col, off_diagonal=self.off_diagonal
        )  # step 5; step 6 is the gradient step

    def local_loss(self, client, x, y):
        return self.labels_and_teachers(client, x, y, client.model(x))  # step 7

    def labels_and_teachers(self, client, x, y, z):
        """Eq. 7, or what `teachers` leaves of it, for logits z of the client's own network."""
        if self.teachers == "both":  # steps 8-12
            previous, pretrained = (self.taught(client, r, x) for r in ("previous", "pretrained"))
            return losses.dual_domain_loss(z, y, previous, pretrained, lambda_=self.lambda_loc)
        loss = losses.cross_entropy(z, y)  # step 8
        for role in TEACHERS[self.teachers]:  # step 9 or 10
            teacher = self.taught(client, role, x)
            loss = loss + self.lambda_loc * losses.distillation(z, teacher)
        return loss

    def taught(self, client, role: str, x):
        """Logits of a teacher, which stays as it is while the client trains."""
        return client.fixed(role, "logits", teacher_logits, x)
