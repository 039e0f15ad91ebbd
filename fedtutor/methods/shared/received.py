"""What methods share whose clients keep what they received beside the network that they train."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..fedavg import FedAvg
from .public import frozen


@dataclass
class KeepsReceived(FedAvg):
    """FedAvg; `client.models["received"]` is what the client started the round from, frozen."""

    def build(self, client, make):
        return {"model": make(), "received": frozen(make())}

    def collaborate(self, fed, clients):
        super().collaborate(fed, clients)
        fed.ask(clients, self.keep_received)

    def keep_received(self, client):
        client.models["received"].load_state_dict(client.model.state_dict())


@dataclass
class KeepsWeights(FedAvg):
    """FedAvg; `client.state["w_global"]` is a list of the weights that the round began with."""

    def collaborate(self, fed, clients):
        super().collaborate(fed, clients)
        fed.ask(clients, self.remember)

    def remember(self, client):
        client.state["w_global"] = [p.detach().clone() for p in client.model.parameters()]


@torch.no_grad()
def features_of(network: nn.Module, x: Tensor) -> Tensor:
    """Features [batch, d] of a frozen network, in evaluation mode, without gradient."""
    return network.eval().features(x)
