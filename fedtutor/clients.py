"""Who takes part: the clients and the server, and what each of them holds."""

from collections.abc import Callable
from functools import partial

import torch

from . import models
from .engine import checks
from .engine.batches import Once
from .randomness import generator


class Server:
    """Holds what the method puts there: networks in `models`, tensors and numbers in `state`."""

    optimizer, steps, has_networks, data = None, 0, True, None  # clients have their own

    def __init__(self):
        self.models: dict[str, torch.nn.Module] = {}
        self.state: dict = {}

    @property
    def model(self) -> torch.nn.Module:
        return self.models["model"]


class Client(Server):
    """One participant: `data`, networks, an optimizer, random numbers of its own.

    `data` is what it trains on: its `private` images, or virtual ones in their place. `settings`,
    `scenario` (how networks see images), `device` and `artifacts` are those of its `place`: the
    federation here, and one with this client alone where it has a process of its own. Its networks
    are built when they are first asked for: who never takes part holds none.
    """

    def __init__(self, id: str, domain: str, data, *, seed: int, place=None, network: str = ""):
        super().__init__()
        self.id, self.domain, self.data, self.seed = id, domain, data, seed
        self._models: dict | None = None  # until somebody asks for `models`
        self.private, self.network = data, network  # its name in `models.MODELS`
        self.place = place
        self.optimizer = None
        self.held: dict = {}  # between two requests of one exchange, such as a graph; see `fed.ask`
        self.once: Once | None = None  # while it trains for several epochs
        self.steps = 0  # optimizer steps so far
        self.round_ = 0
        self._generators: dict[str, torch.Generator] = {}
        self._drawn_in = 0  # the round of these generators

    @property
    def models(self) -> dict[str, torch.nn.Module]:
        """Its networks by their roles, "model" among them; set to None, they are built anew."""
        if self._models is None:
            self._models = self.place.networks(self)
            self._prepare()
        return self._models

    @models.setter
    def models(self, value: dict | None) -> None:
        self._models = value

    has_networks = property(lambda self: self._models is not None)
    settings = property(lambda self: self.place.settings)
    scenario = property(lambda self: self.place.scenario)
    device = property(lambda self: self.place.device)
    artifacts = property(lambda self: self.place.artifacts)

    def generator(self, purpose: str, device="cpu") -> torch.Generator:
        """This client's random numbers for `purpose` in this round."""
        if self._drawn_in != self.round_:
            self._generators, self._drawn_in = {}, self.round_
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

    def fixed(self, role: str, what: str, compute: Callable, x: torch.Tensor) -> torch.Tensor:
        """compute(network, x) of a network that does not change while the client trains.

        `compute` must treat images one by one, without gradient. In a local update of several
        epochs it is asked once for each image of the client, many at a time, not once per batch.
        `what` names the answer, such as "logits": two answers of one network need two names.
        """
        checks.require_word(role, what, self)
        network = self.models[role]
        if self.once is None or self.once.x is not x:
            return compute(network, x)
        return self.once((role, what), partial(compute, network), x)

    def begin_round(self, round_: int) -> None:
        """Forget what is of the last round; dropout draws from the random numbers of this one."""
        self.round_, self._generators, self.held = round_, {}, {}
        if self._models is not None:
            self._prepare()

    def _prepare(self) -> None:
        self.train()
        for model in self._models.values():
            if getattr(model, "draws", True):
                models.use_generator(model, self.generator("dropout", self.device))
