"""The stage of a run: clients, server, channel, and what a method may ask for.

`rounds.py` plays the rounds on it; the hooks of a method (`methods/base.py`) receive it as `fed`.
"""

import copy
from collections.abc import Callable, Sequence
from functools import cache
from itertools import cycle

import torch

from . import distillation, evaluation, models
from .channel import SERVER, Channel
from .clients import Client, Server
from .engine import artifacts, asking, batches, checks, leave_out
from .engine.checkpoints import folder_to_write
from .engine.workers import Workers, device_of
from .errors import FAILURES, whole
from .history import History
from .randomness import generator
from .settings import Settings


class Federation:
    """A method on a scenario, ready to run; `history` grows with every round.

    Raises a `FedtutorError` where scenario, method and settings do not fit together.
    """

    def __init__(self, scenario, method, settings: Settings, *, seed: int = 0, device="cpu",
                 threads: int = 1, artifacts=None):  # fmt: skip
        checks.require_parts(scenario, method, settings)
        checks.require_counts(scenario, settings)
        whole("seed", seed, 0, "Federation")
        whole("threads", threads, 1, "Federation")
        if not isinstance(artifacts, dict | None):
            folder_to_write(artifacts, "artifacts")
        self.device = torch.device(device_of(device))
        self.scenario, self.method, self.settings = scenario.to(self.device), method, settings
        self.seed, self.threads = seed, threads
        self.artifacts = {} if artifacts is None else artifacts  # see `artifact`
        self.channel = Channel(record=settings.record, seed=seed)
        self.pool = Workers(threads, self.device, settings.precision)
        self.played: int | None = None  # rounds that `run` has ended; None: it has not begun
        self._common = cache(self._drawn)  # the common start is drawn once, and copied
        self.make = self._maker(None, settings.models[0])
        self.set_up()

    def set_up(self) -> None:
        """A server and clients with new networks, as they are before `run` begins."""
        self.inside_round, self.server = False, Server()
        self.clients = [
            Client(c.id, c.domain, c.private, seed=self.seed, place=self, network=name)
            for c, name in zip(self.scenario.clients, cycle(self.settings.models), strict=False)
        ]
        for client in checks.one_of_a_kind(self.clients):
            _ = client.models  # built now, so that a network that does not fit is refused now
        self.begin_round(0)
        self.channel.restore({"counts": [], "messages": []})
        self.history = History.empty(self.clients, self.scenario.tests)

    def begin(self) -> None:
        """What comes before round 1: virtual images, where the settings ask; the method's start."""
        distillation.prepare(self)
        self.method.start(self)

    def workers(self):
        """A block in which `each` plays several clients at once, `threads` of them."""
        return self.pool.open()

    def begin_round(self, round_: int) -> None:
        """From here on everybody uses this round's random numbers."""
        self.round_ = self.channel.round_ = round_
        for client in self.clients:
            client.round_ = round_
            if client.has_networks or client.held:  # the others sleep, and may be many
                client.begin_round(round_)

    def local_epochs(self, client: Client) -> int:
        """How many passes over its data `client` makes in a round."""
        s = self.settings
        return s.client_epochs[self.clients.index(client)] if s.client_epochs else s.local_epochs

    def sample(self, count: int) -> list[Client]:
        """`count` clients drawn for this round, in their usual order."""
        own = generator(self.seed, SERVER, self.round_, "select")
        drawn = torch.randperm(len(self.clients), generator=own)[:count].tolist()
        return [self.clients[i] for i in sorted(drawn)]

    def each(self, clients: Sequence[Client], fn: Callable) -> list:
        """`[fn(client) for client in clients]`, in parallel, results in this order.

        For what touches no client's data or network: `ask` is for that (engine/asking.py).
        """

        def work(client):
            try:
                return fn(client)
            except FAILURES as error:
                if not hasattr(error, "client"):
                    error.client = client
                    error.add_note(f"client {client.id}, round {self.round_}")
                raise

        return self.pool.map(work, clients, [len(c.data) for c in clients])

    ask, download, upload = asking.ask, asking.download, asking.upload
    public_batches = batches.public_batches
    artifact = artifacts.artifact
    evaluate = evaluation.evaluate
    survivors = leave_out.survivors

    def networks(self, client: Client) -> dict[str, torch.nn.Module]:
        """New networks for the client, as the method builds them."""
        built = self.method.build(client, self._maker(client, client.network))
        return checks.networks(self.method, built)

    def _maker(self, client: Client | None, name: str) -> Callable:
        def make(network: str = name, *, num_classes: int | None = None, role: str = "model"):
            owner = SERVER if client is None or self.settings.common_init else client.id
            drawn = (network, num_classes or self.scenario.num_classes, role, owner)
            return self._drawn(*drawn) if owner != SERVER else copy.deepcopy(self._common(*drawn))

        return make

    def _drawn(self, network: str, num_classes: int, role: str, owner: str) -> models.Network:
        return models.build(
            network, num_classes=num_classes,
            in_channels=self.scenario.channels, image_size=self.scenario.image_size,
            generator=generator(self.seed, owner, "init", network, role),
        ).to(self.device)  # fmt: skip
