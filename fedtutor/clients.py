"""Who takes part: the clients and the server, and what each of them holds."""

from collections.abc import Callable
from functools import partial

import torch

from . import models
from .engine import checks
from .engine.batches import Once
from .randomness import generator


class Server:
    """The server. models: networks by their roles; state: tensors and plain values of a method."""

    def __init__(self):
        self.models: dict[str, torch.nn.Module] = {}
        self.state: dict = {}

    @property
    def model(self) -> torch.nn.Module:
        """The network of the role "model"."""
        return self.models["model"]


class Client:
    """One participant: its data, networks, optimizer, and random numbers of its own.

    id, domain: its names in the scenario. private: its own images. data: what it trains on, its
    private images or virtual ones in their place. network: the name of its architecture in
    `models.MODELS`. models: its networks by their roles, "model" among them. state: tensors and
    plain values that the method keeps. held: what lasts for one exchange, such as a graph (see
    `Federation.ask`). steps: optimizer steps so far. loss: of the last
    local epoch, per image. round_: the number of this round.

    Networks are built when they are first asked for, so a client that never takes part holds none.
    `federation` is the client's own; in a separate process, it has this client alone.
    """

    def __init__(self, id: str, domain: str, data, *, seed: int, federation=None, network=""):
        self.id, self.domain, self.data, self.private = id, domain, data, data
        self.seed, self.federation, self.network = seed, federation, network
        self.state: dict = {}
        self.optimizer = None
        self.held: dict = {}
        self.once: Once | None = None  # while it trains for several epochs, see `fixed`
        self.steps, self.loss = 0, None
        self.round_ = 0
        self._models: dict | None = None  # until somebody asks for `models`
        self._generators: dict[str, torch.Generator] = {}
        self._drawn_in = 0  # the round of these generators

    @property
    def models(self) -> dict[str, torch.nn.Module]:
        """Its networks by their roles; set to None, they are built anew."""
        if self._models is None:
            fed = self.federation
            built = fed.method.build(self, fed.new.maker(self.id, self.network))
            self._models = checks.networks(fed.method, built)
            self._prepare()
        return self._models

    @models.setter
    def models(self, value: dict | None) -> None:
        self._models = value

    @property
    def model(self) -> torch.nn.Module:
        """The network of the role "model"."""
        return self.models["model"]

    @property
    def has_networks(self) -> bool:
        """Whether its networks have been built."""
        return self._models is not None

    @property
    def settings(self):
        """The settings of its federation."""
        return self.federation.settings

    @property
    def scenario(self):
        """The scenario of its federation: classes, and how networks see images."""
        return self.federation.scenario

    @property
    def device(self) -> torch.device:
        """Where its networks and images are."""
        return self.federation.device

    @property
    def artifacts(self):
        """Finished stages, see `Federation.artifact`."""
        return self.federation.artifacts

    @property
    def layout(self) -> dict:
        """What the server knows of its network "model" from the start, like its name.

        "features": their number; "weights": name -> shape; "trained": how many are trained.
        """
        network = self.model
        return {
            "features": getattr(network, "feature_size", None),
            "weights": {name: list(value.shape) for name, value in network.state_dict().items()},
            "trained": sum(p.numel() for p in network.parameters() if p.requires_grad),
        }

    def generator(self, purpose: str, device="cpu") -> torch.Generator:
        """This client's random numbers for `purpose` in this round."""
        if self._drawn_in != self.round_:
            self._generators, self._drawn_in = {}, self.round_
        if purpose not in self._generators:
            own = generator(self.seed, self.id, self.round_, purpose, device=device)
            self._generators[purpose] = own
        return self._generators[purpose]

    def parameters(self) -> list[torch.nn.Parameter]:
        """All trainable tensors of all its networks; one that two networks share comes once."""
        held = [p for network in self.models.values() for p in network.parameters()]
        return [p for p in dict.fromkeys(held) if p.requires_grad]

    def train(self, mode: bool = True) -> None:
        """Switch all its networks to training (or evaluation) mode."""
        for network in self.models.values():
            network.train(mode)

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
        """Forget what belongs to the last round; dropout draws from this round's numbers."""
        self.round_, self._generators, self.held = round_, {}, {}
        if self._models is not None:
            self._prepare()

    def _prepare(self) -> None:
        self.train()
        for network in self._models.values():
            if getattr(network, "draws", True):
                models.use_generator(network, self.generator("dropout", self.device))
