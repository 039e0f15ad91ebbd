"""FCCL+: learn from others by logits and by similarities, remember by the other classes.

Huang, Ye, Shi and Du, "Generalizable Heterogeneous Federated Cross-Correlation and Instance
Similarity Learning", the journal version of FCCL, Algorithm 1. On public images each client
minimizes L_FCCM + omega L_FISL (Eq. 6): FCCL's loss on the cross-correlation of logits (Eq. 1 and
2), and the divergence of its instance similarities from the mean ones (Eq. 3 to 5). On its private
images L_CE + L_FNTD (Eq. 14), with its own network of the last round as the teacher. Steps are
numbered through Algorithm 1: 1 is "for e", 2 to 4 what a client computes on public images, 5 the
two means, 6 to 8 the collaborative update, 9 to 13 the local update, 14 the new theta.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat

from .. import losses
from ..engine.batches import batches
from ..engine.kinds import Share
from .base import register
from .fccl import FCCL, TEACHERS
from .shared.public import exchange_mean, teacher_logits

NON_TARGET = {  # name: loss on the teacher's logits, and the power of tau that multiplies it
    "printed": (losses.non_target_distillation, 0),  # Eq. 13
    "tau2": (losses.non_target_distillation, 2),  # official code
    "renormalized": (losses.renormalized_non_target_distillation, 0),  # Eq. 13 mended
    "fedntd": (losses.renormalized_non_target_distillation, 2),  # FedNTD
}
MEMORY = (*NON_TARGET, "kd", "none")  # Eq. 10; nothing


@register("fccl+")
@dataclass
class FCCLPlus(FCCL):
    """The paper's formulas; each option names a place where its code differs, or an ablation.

    What crosses: per public batch of B images every client sends its logits [B, classes] and its
    similarities [B, B - 1], and receives their means. Features stay at home: their widths differ.
    Similarities are counted as Table II has them, though half of a symmetric matrix would do.

    Logits and features come out of one forward pass. The official code makes two, so batch norm's
    running statistics move twice per public batch there, and dropout differs between the two. Its
    teacher runs in training mode (`teacher_mode = "train"`), its FNTD is `fntd = "tau2"`, its
    public optimizer `public_optimizer = "adam-fresh"`, its correlation `correlation = "code"`, its
    augmentation `public_augment = "weak_code"`; learning rates that fall to a tenth over the rounds
    are left out. Running statistics stay with their client, unless `average` averages them.

    Ablations: Table X switches `fccm`, `fisl` and, with `fntd = "none", teachers = "both"` (FCCL's
    local loss, Eq. 19), FNTD; without `fccm` and `fisl` there is no public phase. Fig. 9:
    `teacher`. Fig. 10: `tau`, `fntd = "kd"`. Table XIII: `public_augment`. Table XIV: `omega`.
    Table XV: `average`, between the two phases. Table XVI: method `ewc`. Table XVII: `kd_share`.
    """

    pretrain_epochs: NonNegativeInt = 0  # from scratch, as the code; FCCL: 50
    teachers: Literal[*TEACHERS] = "none"  # FCCL's, beside FNTD
    fccm: bool = True  # learn by logits
    fisl: bool = True  # learn by similarities
    mu: PositiveFloat = 0.02  # temperature of Eq. 3
    omega: NonNegativeFloat = 3.0  # weight of FISL in Eq. 6
    fntd: Literal[*MEMORY] = "printed"  # see MEMORY
    tau: PositiveFloat = 3.0  # temperature of Eq. 8
    # theta^{e-1}; "current": theta^e, after the collaborative phase
    teacher: Literal["previous", "current"] = "previous"
    # "train": batch statistics and dropout, as in the code
    teacher_mode: Literal["eval", "train"] = "eval"
    kd_share: Share = 0.0  # share of a round's local steps that start with KD instead, see `plan`

    def taught(self, client, role, x):
        if self.teacher_mode == "train" and role == self.teacher:  # its statistics move
            return teacher_logits(client.models[role], x)
        return super().taught(client, role, x)

    def roles(self):
        taught = self.fntd != "none" or self.kd_share > 0
        return super().roles() | ({self.teacher} if taught else set())

    def collaborate(self, fed, clients):
        super().collaborate(fed, clients)  # remembers theta^{e-1}; steps 2 to 8; `average`
        fed.ask(clients, self.remember, "current")
        if self.kd_share:
            fed.ask(clients, self.plan, own=[fed.local_epochs(c) for c in clients])

    def plan(self, client, epochs: int):
        """Until which of this round's steps KD teaches, for so many local epochs.

        One reading of Table XVII: it has a "proportion of KD in the local training process", Sec.
        4.3.3 speaks of local updating rounds, and the code has no such option.
        """
        steps = epochs * len(batches(client, len(self.local_data(client)), torch.Generator()))
        client.state["kd_until"] = client.steps + round(self.kd_share * steps)

    def public_phase(self, fed, clients):
        if self.fccm or self.fisl:
            super().public_phase(fed, clients)

    def exchange(self, fed, clients, number):  # steps 2 to 8; step 5 is what crosses
        if self.answers == "own":
            return super().exchange(fed, clients, number)
        if self.fccm:
            exchange_mean(fed, clients, "logits", self.look, self.keep_logits, number)
        else:
            fed.ask(clients, self.look_silently, number)
        if self.fisl:
            exchange_mean(fed, clients, "similarities", self.similarities, self.keep_similarities)
        fed.ask(clients, self.learn_from_means)

    def look_silently(self, client, number) -> None:
        """Steps 2 and 3 where no logits are sent."""
        self.look(client, number)

    def forward(self, client, x):
        z, client.held["similarities"] = self.outputs(client.model, x)
        return z

    def outputs(self, network, x):
        """Logits, and similarities where FISL learns by them, else None."""
        h = network.features(x)  # step 2
        z = network.classifier(h)  # step 3
        if not self.fisl:
            return z, None
        return z, losses.without_diagonal(losses.instance_similarity(h, mu=self.mu))  # step 4

    @torch.no_grad()
    def former_answer(self, client, x):
        return self.outputs(client.models["former"].eval(), x)

    def similarities(self, client):
        return client.held["similarities"]

    def keep_logits(self, client, mean) -> None:
        client.held["mean logits"] = mean

    def keep_similarities(self, client, mean) -> None:
        client.held["mean similarities"] = mean

    def learn_from_means(self, client) -> None:
        """Steps 6 to 8, towards what has come back."""
        means = (client.held.pop(f"mean {name}", None) for name in ("logits", "similarities"))
        self.learn(client, tuple(means))

    def public_loss(self, client, x, z, means):
        (z_mean, s_mean), s = means, client.held.pop("similarities")
        fccm = super().public_loss(client, x, z, z_mean) if self.fccm else 0.0  # step 6
        fisl = losses.instance_similarity_loss(s, s_mean) if self.fisl else 0.0  # step 7
        return losses.communication_loss(fccm, fisl, omega=self.omega)  # step 8

    def local_loss(self, client, x, y):
        z = client.model(x)  # step 9
        loss = self.labels_and_teachers(client, x, y, z)  # step 10
        kd_first = self.kd_share and client.steps < client.state["kd_until"]
        memory = "kd" if kd_first else self.fntd
        if memory == "none":
            return loss
        if self.teacher_mode == "train":  # step 11: the batch's own statistics
            z_teacher = teacher_logits(client.models[self.teacher], x, train=True)
        else:
            z_teacher = self.taught(client, self.teacher, x)
        if memory == "kd":
            return loss + self.tau**2 * losses.distillation(z, z_teacher, tau=self.tau)  # Eq. 10
        distance, power = NON_TARGET[memory]
        return loss + self.tau**power * distance(z, y, z_teacher, tau=self.tau)  # steps 12, 13
