"""Who takes part: the clients and the server, and what each of them holds."""

import torch

from . import models
from .randomness import generator


class Server:
    """Holds what the method puts there: networks in `models`, tensors and numbers in `state`."""

    def __init__(self):
        self.models: dict[str, torch.nn.Module] = {}
        self.state: dict = {}

    @property
    def model(self) -> torch.nn.Module:
        return self.models["model"]


class Client(Server):
    """One participant: `data`, networks, an optimizer, random numbers of its own.

    `data` is what it trains on: its `private` images, or virtual ones in their place.
    """

    def __init__(self, id: str, domain: str, data, *, seed: int):
        super().__init__()
        self.id, self.domain, self.data, self.seed = id, domain, data, seed
        self.private = data
        self.optimizer = None
        self.steps = 0  # optimizer steps so far
        self.round_ = 0
        self._generators: dict[str, torch.Generator] = {}

    def generator(self, purpose: str, device="cpu") -> torch.Generator:
        """This client's random numbers for `purpose` in this round."""
        if purpose not in self._generators:
            own = generator(self.seed, self.id, self.round_, purpose, device=device)
            self._generators[purpose] = own
        return self._generators[purpose]

    def parameters(self) -> list[torch.nn.Parameter]:
        """All trainable tensors of all its networks."""
        layers = [layer for m in self.models.values() for _, layer in models.layers_of(m)]
        held = [p for layer in layers for p in layer._parameters.values() if p is not None]
        return [p for p in dict.fromkeys(held) if p.requires_grad]  # a shared one once

    def train(self, mode: bool = True) -> None:
        """Switch all its networks to training (or evaluation) mode."""
        for model in self.models.values():
            if any(layer.training != mode for _, layer in models.layers_of(model)):
                model.train(mode)

    def begin_round(self, round_: int, device) -> None:
        """Forget the last round's random numbers; dropout draws from this round's."""
        self.round_, self._generators = round_, {}
        self.train()
        for model in self.models.values():
            if getattr(model, "draws", True):
                models.use_generator(model, self.generator("dropout", device))
