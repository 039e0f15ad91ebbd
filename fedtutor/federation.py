"""A federation: clients, server, channel, and what a method may ask for.

`rounds.py` runs the rounds; the hooks of a method (`methods/base.py`) receive the federation as
`fed`.
"""

from collections.abc import Callable, Sequence
from itertools import cycle

import torch

from . import distillation, evaluation
from .channel import SERVER, Channel
from .clients import Client, Server
from .engine import artifacts, batches, calls, checks
from .engine.checkpoints import folder_to_write
from .engine.new_networks import NewNetworks
from .engine.optimizers import learning_rates
from .engine.workers import Workers, device_of
from .errors import SettingError, whole
from .history import History
from .randomness import generator


class Federation:
    """A method on a scenario, ready to run; `history` grows with every round.

    device: "cpu", "cuda" or "auto". threads: clients that train at the same time. artifacts: a
    folder or a dict for finished stages. Raises a `FedtutorError` where parts do not fit together.
    """

    def __init__(
        self, scenario, method, settings, *, seed=0, device="cpu", threads=1, artifacts=None
    ):
        checks.require_parts(scenario, method, settings)
        checks.require_counts(scenario, settings)
        whole("seed", seed, 0, "Federation")
        whole("threads", threads, 1, "Federation")
        if not isinstance(artifacts, dict | None):
            folder_to_write(artifacts, "artifacts")
        self.device = torch.device(device_of(device))
        self.scenario, self.method, self.settings = scenario.to(self.device), method, settings
        self.seed, self.threads = seed, threads
        self.artifacts = {} if artifacts is None else artifacts
        self.channel = Channel(record=settings.record, seed=seed)
        self.pool = Workers(threads, self.device, settings.precision)
        self._rates = learning_rates(settings)
        self.finished: int | None = None  # rounds that `run` has finished; None: it has not begun
        self.new = NewNetworks(self.scenario, settings, seed, self.device)
        self.make = self.new.maker(SERVER, settings.models[0])
        self.set_up()

    def set_up(self) -> None:
        """A server and clients with new networks, as they are before `run` begins."""
        self.inside_round, self.server = False, Server()
        pairs = zip(self.scenario.clients, cycle(self.settings.models), strict=False)
        self.clients = [self.new_client(data, name) for data, name in pairs]
        self.try_networks()
        self.begin_round(0)
        self.channel.restore({"counts": [], "messages": []})
        self.history = History.empty(self.clients, self.scenario.tests)

    def new_client(self, data, network: str) -> Client:
        """The client of a part of the scenario; network: the name of its architecture."""
        own = {"seed": self.seed, "federation": self, "network": network}
        return Client(data.id, data.domain, data.private, **own)

    def try_networks(self) -> None:
        """Build one of each kind now, so that a network that does not fit is refused now."""
        for client in checks.one_of_a_kind(self.clients):
            _ = client.models

    def begin(self) -> None:
        """What comes before round 1: virtual images if the settings ask for them, and `start`."""
        distillation.prepare(self)
        self.method.start(self)

    def workers(self):
        """A `with` block in which `threads` clients work at the same time."""
        return self.pool.open()

    def begin_round(self, round_: int) -> None:
        """From here on everybody uses this round's random numbers."""
        self.round_ = self.channel.round_ = round_
        for client in self.clients:
            client.round_ = round_
            if client.has_networks or client.held:  # the others have nothing to forget
                client.begin_round(round_)

    def collaborate(self, clients: list[Client]) -> list[Client]:
        """The method's `collaborate`; returns the clients that go on with the round."""
        self.method.collaborate(self, clients)
        return clients

    def train(self, clients: list[Client], update: Callable) -> tuple[list[Client], list]:
        """(the clients that go on with the round, what `update(fed, client)` returned for each)."""
        return clients, self.each(clients, lambda client: update(self, client))

    def local_epochs(self, client: Client) -> int:
        """The number of passes that `client` makes over its data in a round."""
        s = self.settings
        return s.client_epochs[self.clients.index(client)] if s.client_epochs else s.local_epochs

    def learning_rate(self) -> float:
        """That of this round, as the settings `lr` and `lr_schedule` say."""
        return self._rates[min(max(self.round_, 1), len(self._rates)) - 1]

    def evaluate(self, moment: str, clients: Sequence[Client] | None = None) -> None:
        """Add an accuracy matrix to the history; see `evaluation.evaluate`."""
        evaluation.evaluate(self, moment, clients)

    def sample(self, count: int) -> list[Client]:
        """`count` clients drawn for this round, in their usual order."""
        own = generator(self.seed, SERVER, self.round_, "select")
        drawn = torch.randperm(len(self.clients), generator=own)[:count].tolist()
        return [self.clients[i] for i in sorted(drawn)]

    def ask(self, clients: Sequence[Client], function: Callable, *arguments, own=None) -> None:
        """Run function(client, *arguments) at each client, in parallel; nothing is sent.

        `function` has a name, such as `self.remember`, and arguments are plain (`engine/calls.py`),
        because a client may live in another process. own: one more argument for each client, in
        their order, or a function client -> argument. What is not plain, such as a graph between
        forward and step, waits in `client.held` for the next call of this round. Raises
        `SettingError` for a function that returns something: the server learns by `upload`.
        """
        for answer in self.call(clients, function, *arguments, own=own):
            if answer is not None:
                raise SettingError(
                    f"{function.__name__} returned a {type(answer).__name__} to the server",
                    where=f"method {self.method.name}, fed.ask",
                    do="send it: fed.upload(clients, name, function) counts it and returns it",
                )

    def download(self, clients, name: str, receive: Callable, payload=None, *, own=None) -> None:
        """The server sends `payload` to each client, where receive(client, what arrives) takes it.

        own: a payload for each client, in their order, in place of one for all.
        """
        each = dict(zip((c.id for c in clients), own, strict=True)) if own is not None else {}
        sent = self.channel.down
        self.ask(clients, receive, own=lambda c: sent(c, name, each.get(c.id, payload)))

    def upload(self, clients, name: str, tell: Callable, *arguments) -> list:
        """Each client sends tell(client, *arguments) to the server; a list of what arrives."""
        told = self.call(clients, tell, *arguments)
        return [self.channel.up(c, name, own) for c, own in zip(clients, told, strict=True)]

    def pass_on(self, givers, name: str, tell: Callable, *, own) -> dict[str, dict]:
        """Clients send to clients: tell(giver, its argument of `own`) says {client id: payload}.

        Returns what arrived, {client id: {giver's id: payload}}; every payload is counted.
        """
        arrived = {}
        for giver, payloads in zip(givers, self.call(givers, tell, own=own), strict=True):
            for id, payload in payloads.items():
                got = self.channel.send(giver.id, id, name, payload)
                arrived.setdefault(id, {})[giver.id] = got
        return arrived

    def public_batches(self, round_: int) -> list[torch.Tensor]:
        """Index tensors into the public images, the same for all clients; see `engine.batches`."""
        return batches.public_batches(self, round_)

    def artifact(self, name: str, key, fn: Callable):
        """The value of `fn()`, made once per (name, key, data, seed); see `engine.artifacts`."""
        return artifacts.artifact(self, name, key, fn)

    def call(self, clients: Sequence[Client], function: Callable, *arguments, own=None) -> list:
        """What a part answers at each client; for `ask` and `upload`: here nothing is counted."""
        return calls.call(self, clients, function, arguments, own)

    def run_at(self, client: Client, function: Callable, arguments: Sequence):
        """function(client, *arguments), where the client is."""
        return function(client, *arguments)

    def each(self, clients: Sequence[Client], fn: Callable) -> list:
        """`[fn(client) for client in clients]`, in parallel, results in this order."""
        work = calls.naming_the_client(fn, self.round_)
        return self.pool.map(work, clients, [len(c.data) for c in clients])
