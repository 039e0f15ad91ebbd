"""EWC: FCCL+'s exchange; at home, hold on to the weights that mattered.

Kirkpatrick et al., "Overcoming catastrophic forgetting in neural networks", PNAS 2017, Eq. 3. Local
objective: L_CE + (lambda/2) sum_j F_j (theta_j - theta^{e-1}_j)^2, with theta^{e-1} the client's
weights after its last local update and F_j how much its private images depend on weight j: the
diagonal of the Fisher information there.
"""

from dataclasses import dataclass
from typing import Literal

from pydantic import NonNegativeFloat
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from .. import losses
from ..models import usual_layout
from .base import register
from .fccl_plus import MEMORY, FCCLPlus

CHUNK = 16  # images whose gradients are held at once


@register("ewc")
@dataclass
class EWC(FCCLPlus):
    """FCCL+ with this penalty in place of FNTD: what FCCL+ Table XVI compares with.

    The paper says "replace the proposed module FNTD with the EWC penalty", gives lambda, and
    nothing else; no code is public. Ours: the factor 1/2 of Kirkpatrick et al.; F of single images
    (not of batches, whose squared mean gradient is far smaller), averaged over all private images
    with their labels, in evaluation mode; both F and theta^{e-1} taken as a round begins, so that
    the first round is held to the initial weights, as FNTD's first teacher is the initial network.
    `fccm = false` and `fisl = false` leave EWC alone, without any exchange.

    What F protects is what the *private* images need. The penalty pulls the weights back from
    where the collaborative phase took them, except where private images do not care.
    """

    fntd: Literal[*MEMORY] = "none"
    lambda_ewc: NonNegativeFloat = 0.7  # Table XVI: 0.01, 0.1, 0.7, 1.0; 0.7 is best on Digits

    def collaborate(self, fed, clients):
        fed.ask(clients, self.look_back)
        super().collaborate(fed, clients)

    def local_loss(self, client, x, y):
        w, s = trained(client.model).values(), client.state
        pull = losses.ewc_penalty(w, s["w_previous"], s["fisher"], lambda_=self.lambda_ewc)
        return super().local_loss(client, x, y) + pull

    def look_back(self, client) -> None:
        """Keep theta^{e-1} and F there; runs in parallel, touches only this client."""
        model, data, total = client.model.eval(), client.data, None
        for x, y in zip(data.x.split(CHUNK), data.y.split(CHUNK), strict=True):
            part = squared_slopes(model, client.scenario.inputs(x), y)
            total = part if total is None else [a + b for a, b in zip(total, part, strict=True)]
        model.train()
        client.state["fisher"] = [f / len(data) for f in total]
        client.state["w_previous"] = [w.detach().clone() for w in trained(model).values()]


def trained(model: nn.Module) -> dict[str, Tensor]:
    """The trainable tensors of a network, by name."""
    return {name: w for name, w in model.named_parameters() if w.requires_grad}


def squared_slopes(model: nn.Module, x: Tensor, y: Tensor) -> list[Tensor]:
    """sum_b (d log p(y[b] | x[b]) / d w)^2 for every trainable tensor w, one gradient per image.

    x: images [batch, channels, height, width], y: labels [batch]. Divided by the batch it is the
    diagonal of the empirical Fisher information. The network must be in evaluation mode, so that
    images do not mix.
    """

    def loss(w, one_x, one_y):
        z = functional_call(model, w, (one_x[None],))
        return losses.cross_entropy(z, one_y[None])

    w = {name: value.detach() for name, value in trained(model).items()}
    with usual_layout(model):
        slopes = vmap(grad(loss), in_dims=(None, 0, 0))(w, x, y)
    return [(slopes[name] ** 2).sum(0) for name in w]
