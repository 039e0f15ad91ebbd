"""SCAFFOLD: correct every local step by how the clients' mean gradient differs from this client's.

Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning", ICML 2020,
Algorithm 1 with option II. A client steps with its gradient - c_k + c; c_k estimates its own mean
gradient, c that of everybody.
"""

from dataclasses import dataclass
from typing import Literal

import torch

from .. import losses
from ..errors import SettingError
from .base import register
from .fedavg import WEIGHTING, FedAvg


@register("scaffold")
@dataclass
class SCAFFOLD(FedAvg):
    """For local SGD. Algorithm 1 averages with equal weights; NIID-Bench's code with n_k / n.

    The correction follows the optimizer's step, as in NIID-Bench's code: with plain SGD that is
    Algorithm 1; with momentum the correction stays out of its memory. The global learning rate is
    1. Running statistics of batch norm have no control variate and are averaged as in FedAvg.
    """

    weighting: Literal[*WEIGHTING] = "uniform"

    def start(self, fed):
        super().start(fed)
        if fed.settings.optimizer != "sgd":
            raise SettingError(
                f"{self.name} with {fed.settings.optimizer}",
                where="settings",
                do='set optimizer = "sgd": the correction is a gradient times its learning rate',
            )
        fed.server.state["c"] = _zeros(fed.server.model)
        fed.ask(fed.clients, self.begin)

    def collaborate(self, fed, clients):
        super().collaborate(fed, clients)  # "communicate (x, c)"
        fed.download(clients, "control", self.receive, fed.server.state["c"])

    def begin(self, client):
        client.state["c_k"] = _zeros(client.model)

    def receive(self, client, c):
        client.state["c"], client.state["steps_before"] = c, client.steps
        client.state["w"] = [p.detach().clone() for p in client.model.parameters()]

    @torch.no_grad()
    def after_step(self, client):
        lr, s = client.optimizer.param_groups[0]["lr"], client.state
        for p, c, c_k in zip(client.model.parameters(), s["c"], s["c_k"], strict=True):
            p.sub_(lr * (c - c_k))  # y <- y - lr (g(y) - c_k + c)

    @torch.no_grad()
    def after_local(self, client):
        s = client.state
        path = {
            "steps": client.steps - s["steps_before"],
            "lr": client.optimizer.param_groups[0]["lr"],
        }
        parts = zip(s["c_k"], s["c"], s["w"], client.model.parameters(), strict=True)
        new = [losses.control_variate(c_k, c, w, p, **path) for c_k, c, w, p in parts]  # option II
        s["change"] = [n - old for n, old in zip(new, s["c_k"], strict=True)]
        s["c_k"] = new

    def aggregate(self, fed, clients):
        super().aggregate(fed, clients)
        sent = fed.upload(clients, "control", self.change)
        changes = [torch.stack(part).sum(0) / len(fed.clients) for part in zip(*sent, strict=True)]
        c = fed.server.state["c"]
        fed.server.state["c"] = [old + new for old, new in zip(c, changes, strict=True)]

    def change(self, client):
        return client.state["change"]


def _zeros(network) -> list[torch.Tensor]:
    return [torch.zeros_like(p.detach()) for p in network.parameters()]
