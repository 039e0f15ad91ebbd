"""How RepShare begins: what stands for class means and observations until somebody has trained."""

import torch
from torch import Tensor

from ...channel import SERVER
from ...randomness import generator

FIRST = {
    "random": "in round 1 all vectors are random (Algorithm 1), here uniform in -1..1",
    "networks": "in round 1 they come from the untrained networks (the author's code)",
    "nothing": "in round 1 there are none (ours)",
}


def begin(fed, method, features: int) -> None:
    """Algorithm 1, "S initializes randomly", or as `method.first` says; features: d."""
    shape = (fed.scenario.num_classes, features)
    if method.first == "networks":
        method.aggregate(fed, fed.clients)
    elif method.first == "random" and method.topology == "peer":
        fed.ask(fed.clients, show_random, (method.m_up, *shape))  # everyone for itself
    elif method.first == "random":
        means = uniform(shape, generator(fed.seed, SERVER, "first"), fed.device)
        everything = torch.ones(shape[0], dtype=torch.bool, device=fed.device)
        state = {"random": True, "means": {}, "weights": {}, "observations": {}}
        for c in fed.clients:
            own = generator(fed.seed, c.id, fed.round_, "first")
            shown = uniform((method.m_up, *shape), own, fed.device)
            state["observations"][c.id] = {"observations": shown, "owned": everything}
            state["means"][c.id], state["weights"][c.id] = means, everything
        fed.server.state |= state


def show_random(client, shape: tuple) -> None:
    """What the client gives to its peers until it has trained (`peers.py`)."""
    client.state["shown"] = uniform(shape, client.generator("first"), client.device)


def forget_random(fed) -> None:
    """Somebody has trained: the server's random vectors are gone."""
    if fed.server.state.pop("random", False):
        fed.server.state |= {"means": {}, "weights": {}, "observations": {}}


def uniform(shape: tuple, own: torch.Generator, device) -> Tensor:
    """Random numbers between -1 and 1."""
    return torch.rand(shape, generator=own).to(device) * 2 - 1
