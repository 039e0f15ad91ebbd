"""FedNova: a client that takes more steps shall not count more for it.

Wang et al., "Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization",
NeurIPS 2020. Each client's path is divided by its length a_k, counted in steps of plain SGD; the
server averages the directions and goes as far as the clients went on average:
w <- w - (sum_k p_k a_k) sum_k p_k (w - w_k) / a_k, p_k = n_k / n.
"""

from dataclasses import dataclass

import torch

from .. import losses
from ..errors import SettingError
from .base import register
from .fedavg import FedAvg


@register("fednova")
@dataclass
class FedNova(FedAvg):
    """For local SGD, plain or with momentum that starts empty in every round.

    Clients that take equally many steps make it FedAvg. A client sends its weights and a_k, from
    which the server computes the direction (the code sends the direction: the same information).
    Running statistics of batch norm are no path of gradients and are averaged as in FedAvg.
    """

    def start(self, fed):
        super().start(fed)
        s = fed.settings
        if s.optimizer != "sgd" or (s.keep_optimizer and s.momentum):
            kept = ", momentum kept between rounds" if s.optimizer == "sgd" else ""
            raise SettingError(
                f"{self.name} with {s.optimizer}{kept}",
                where="settings",
                do='set optimizer = "sgd", and keep_optimizer = false with momentum',
            )
        if self.start_from == "client":
            raise SettingError(
                f'{self.name} with start_from = "client"',
                where=f"method {self.name}",
                do='set start_from = "server": a direction needs a common start',
            )

    def collaborate(self, fed, clients):
        super().collaborate(fed, clients)
        fed.ask(clients, self.note_steps)

    def note_steps(self, client):
        client.state["steps_before"] = client.steps

    def combine(self, fed, clients, uploads, shares):
        sent = fed.upload(clients, "normalizer", self.normalizer)
        mean, before = super().combine(fed, clients, uploads, shares), fed.server.model.state_dict()
        for name, _ in fed.server.model.named_parameters():
            each = torch.stack([state[name] for state in uploads])
            p = each.new_tensor([share / sum(shares) for share in shares])
            mean[name] = losses.nova_step(before[name], each, p, each.new_tensor(sent))
        return mean

    def normalizer(self, client) -> float:
        """a_k of the client's steps in this round."""
        steps = client.steps - client.state["steps_before"]
        return losses.nova_normalizer(steps, client.settings.momentum)
