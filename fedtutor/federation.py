"""The stage of a run: clients, server, channel, and what a method may ask for.

`rounds.py` plays the rounds on it; the hooks of a method (`methods/base.py`) receive it as `fed`.
"""

import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import zip_longest

import torch

from . import models
from .channel import SERVER, Channel
from .clients import Client, Server
from .engine.checkpoints import Memory, artifact, folder_to_write
from .engine.counting import uncounted
from .errors import FAILURES, DataError, ModelError, SettingError, TrainingError, whole
from .kinds import is_finite
from .measures import accuracy
from .randomness import generator
from .settings import LAST, Settings, device_of


def cut(order: torch.Tensor, size: int) -> list[torch.Tensor]:
    """An order of images, cut into one index tensor per batch of `size`.

    A lone last image joins the batch before it, because batch norm cannot train on one image.
    """
    *parts, last = order.split(size)
    if parts and len(last) == 1:
        return [*parts[:-1], torch.cat([parts[-1], last])]
    return [*parts, last]


class Federation:
    """A method on a scenario, ready to run; `history` grows with every round.

    Raises a `FedtutorError` where scenario, method and settings do not fit together.
    """

    def __init__(self, scenario, method, settings: Settings, *, seed: int = 0, device="cpu",
                 threads: int = 1, artifacts=None):  # fmt: skip
        _require_parts(scenario, method, settings)
        whole("seed", seed, 0, "Federation")
        whole("threads", threads, 1, "Federation")
        if not isinstance(artifacts, dict | None):
            folder_to_write(artifacts, "artifacts")
        self.device = torch.device(device_of(device))
        self.scenario, self.method, self.settings = scenario.to(self.device), method, settings
        self.seed, self.threads = seed, threads
        self.artifacts = {} if artifacts is None else artifacts  # see `artifact`
        self.channel, self._pool = Channel(record=settings.record, seed=seed), None
        self.played: int | None = None  # rounds that `run` has ended; None: it has not begun
        count = len(self.scenario.clients)
        if len(settings.client_epochs) not in (0, count):
            raise SettingError(
                f"{len(settings.client_epochs)} entries for {count} clients",
                where="setting 'client_epochs'", do="give one number per client, or none at all",
            )  # fmt: skip
        for client in self.scenario.clients:
            if not len(client.private):
                raise DataError(
                    f"client {client.id} holds no image", where=f"scenario {scenario.name}",
                    do="ask for fewer clients or a larger minimum per client",
                )  # fmt: skip
        self.make = self._maker(None, settings.models[0])
        self.set_up()

    def set_up(self) -> None:
        """A server and clients with new networks, as they are before `run` begins."""
        self.inside_round, self.server = False, Server()
        self.clients = [Client(c.id, c.domain, c.private, seed=self.seed)
                        for c in self.scenario.clients]  # fmt: skip
        for client, name in zip(self.clients, self._network_names(), strict=True):
            client.models = self._networks(self.method.build(client, self._maker(client, name)))
        self.begin_round(0)
        self.channel.restore({"counts": [], "messages": []})
        self.history = {
            "clients": [c.id for c in self.clients], "domains": [c.domain for c in self.clients],
            "tests": list(self.scenario.tests),
            "accuracy": [], "loss": [], "bytes": [], "seconds": [],
        }  # fmt: skip

    @property
    def between_rounds(self) -> bool:
        """Whether it stands where `run` ended a round: nothing is half done, or done by hand."""
        return self.played == self.round_ == len(self.history["loss"])

    def begin_round(self, round_: int) -> None:
        """From here on everybody uses this round's random numbers."""
        self.round_ = self.channel.round_ = round_
        for client in self.clients:
            client.begin_round(round_, self.device)

    def selected(self) -> list[Client]:
        """The clients that the method selects; raises `SettingError` for nobody, or for others."""
        chosen = self.method.select(self)
        clients = list(chosen) if isinstance(chosen, list | tuple) else []
        own, ids = {id(c) for c in self.clients}, [id(c) for c in clients]
        foreign = [c for c in clients if id(c) not in own]
        twice = len(set(ids)) < len(ids)
        if not clients or foreign or twice:
            found = f"{foreign[0]!r}" if foreign else "a client twice" if twice else f"{chosen!r}"
            raise SettingError(
                f"select returned {found}", where=f"{self.method.name}, round {self.round_}",
                do="return a list of different clients of fed.clients, at least one; "
                "fed.sample(count) draws some",
            )  # fmt: skip
        return clients

    def local_epochs(self, client: Client) -> int:
        """How many passes over its data `client` makes in a round."""
        s = self.settings
        return s.client_epochs[self.clients.index(client)] if s.client_epochs else s.local_epochs

    def public_batches(self, round_: int) -> list[torch.Tensor]:
        """Index tensors into `fed.scenario.public`, the same for all clients."""
        if self.scenario.public is None:
            raise DataError(
                f"{self.method.name} learns on public images and there are none",
                where=f"scenario {self.scenario.name}", do="choose a scenario with public data",
            )  # fmt: skip
        own, s = generator(self.seed, SERVER, round_, "public"), self.settings
        orders = [torch.randperm(len(self.scenario.public), generator=own).to(self.device)
                  for _ in range(s.public_epochs)]  # fmt: skip
        return [index for order in orders for index in cut(order, s.public_batch_size)]

    def sample(self, count: int) -> list[Client]:
        """`count` clients drawn for this round, in their usual order."""
        own = generator(self.seed, SERVER, self.round_, "select")
        drawn = torch.randperm(len(self.clients), generator=own)[:count].tolist()
        return [self.clients[i] for i in sorted(drawn)]

    def artifact(self, name: str, key, fn: Callable):
        """`fn()`, made once per (name, key, data, seed); see `checkpoints.artifact`."""
        return artifact(self, name, key, fn)

    def each(self, clients: Sequence[Client], fn: Callable) -> list:
        """`[fn(client) for client in clients]`, in parallel, results in this order."""

        def work(client):
            try:
                return fn(client)
            except FAILURES as error:
                if not hasattr(error, "client"):
                    error.client = client
                    error.add_note(f"client {client.id}, round {self.round_}")
                raise

        return self._parallel(work, clients, [len(c.data) for c in clients])

    def collaborate(self, clients: Sequence[Client]) -> list[Client]:
        """The method's `collaborate`; returns those who came through it.

        A client whose own part fails (`FAILURES`, in what `each` calls) stops the run, or, where
        the settings say `on_client_error = "leave_out"`, everybody is put back to the selection,
        and the exchange begins again without that client. What was sent until then stays sent. A
        failure in nobody's name, or in that of somebody who is not selected, stops the run.
        """
        leave_out = self.settings.on_client_error == "leave_out"
        self._memory = Memory(self, self.clients) if leave_out else None
        while True:
            try:
                self.method.collaborate(self, clients)
                return clients
            except FAILURES as error:
                failed, why = getattr(error, "client", None), error
                if not leave_out or failed not in clients:
                    raise
            why.__traceback__ = None  # it holds what the failed client had in memory
            clients = [c for c in clients if c is not failed]
            self._leave_out([(failed, why)], clients)
            self._memory.put_all_back()

    def survivors(self, clients: Sequence[Client], fn: Callable) -> tuple[list, list]:
        """Like `each`, with the clients that came through it.

        A client whose training fails (`FAILURES`) stops the run, or, where the settings say
        `on_client_error = "leave_out"`, the round goes on as if it had not been selected: its
        networks, state and optimizer are those before the round. What it sent in this round before
        it failed stays sent. The history's `failures` name it, and so does a warning. Raises
        `TrainingError` where nobody is left.
        """

        def attempt(client):
            try:
                return fn(client), None
            except FAILURES as error:
                if self.settings.on_client_error == "stop":
                    raise
                self._memory.put_back(client)
                return None, error

        results = list(zip(clients, self.each(clients, attempt), strict=True))
        failed = [(client, error) for client, (_, error) in results if error is not None]
        came = [(client, value) for client, (value, error) in results if error is None]
        self._leave_out(failed, came)
        return [client for client, _ in came], [value for _, value in came]

    def _leave_out(self, failed: Sequence[tuple[Client, Exception]], left: Sequence) -> None:
        """Note who failed and why; raise `TrainingError` where nobody is left."""
        for client, error in failed:
            words = getattr(error, "what", f"{type(error).__name__}: {error}").splitlines()[0]
            row = {"round": self.round_, "client": client.id, "error": words}
            self.history.setdefault("failures", []).append(row)
            warnings.warn(f"round {self.round_} goes on without {client.id}: {words}",
                          RuntimeWarning, stacklevel=3)  # fmt: skip
        if failed and not left:
            raise TrainingError(
                f"no client is left: {words}", where=f"{self.method.name}, round {self.round_}",
                do="look at the warnings above, and lower the learning rate",
            )  # fmt: skip

    def observe(self, moment: str, clients: Sequence[Client]) -> None:
        """Evaluate at a moment inside the round, if the settings ask for it."""
        last = self.round_ == self.settings.rounds and moment + LAST in self.settings.observe
        if last or moment in self.settings.observe:
            self.evaluate(moment, clients)

    def evaluate(self, moment: str, clients: Sequence[Client] | None = None) -> None:
        """Add an accuracy matrix to the history; a network that clients share is run once."""
        clients = clients or self.clients
        network = {c.id: self._evaluated(c) for c in clients}
        first = {id(network[c.id]): c for c in reversed(clients)}
        for c in first.values():
            c.train(False)
            network[c.id].eval()
        cells = [(c, test) for c in first.values() for test in self.scenario.tests]
        sizes = [len(self.scenario.tests[test]) for _, test in cells]
        values = iter(self._parallel(self._accuracy, cells, sizes))
        row = {key: [next(values) for _ in self.scenario.tests] for key in first}
        for c in first.values():
            c.train()
        self._note(moment, {c.id: row[id(network[c.id])] for c in clients})

    def _evaluated(self, client: Client) -> torch.nn.Module:
        network = self.method.evaluated(self, client)
        if not isinstance(network, torch.nn.Module):
            raise ModelError(
                f"evaluated returned a {type(network).__name__} for client {client.id}",
                where=f"method {self.method.name}",
                do="return the network that stands for this client, such as client.model",
            )
        return network

    def _accuracy(self, cell: tuple[Client, str]) -> float:
        client, test = cell
        with uncounted():
            return accuracy(
                lambda x: self.method.predict(self, client, x), self.scenario.tests[test],
                self.scenario, batch_size=self.settings.eval_batch_size,
            )  # fmt: skip

    def row(self, client: Client) -> list[float]:
        """The client's row of the accuracy matrix, computed where its training runs."""
        client.train(False)
        values = [self._accuracy((client, test)) for test in self.scenario.tests]
        client.train()
        return values

    def note_local(self, clients: Sequence[Client], trained: Sequence[tuple]) -> None:
        """Add what the local updates returned: losses, and accuracies per local epoch."""
        losses = {c.id: loss for c, (loss, _) in zip(clients, trained, strict=True)}
        values = [losses.get(c.id) for c in self.clients]
        self.history["loss"].append({"round": self.round_, "values": values})
        for epoch, rows in enumerate(zip_longest(*(rows for _, rows in trained)), start=1):
            self._note("local_epoch", dict(zip(losses, rows, strict=True)), epoch)

    def _note(self, moment: str, rows: dict[str, list[float]], epoch: int | None = None) -> None:
        matrix = [rows.get(c.id) for c in self.clients]  # None: this client sat out
        entry = {"round": self.round_, "moment": moment, "epoch": epoch, "matrix": matrix}
        self.history["accuracy"].append(entry)

    def _network_names(self) -> list[str]:
        names, count = self.settings.models, len(self.clients)
        if len(names) not in (1, count):
            raise SettingError(
                f"{len(names)} networks for {count} clients", where="setting 'models'",
                do="name one network for all clients, or one for each",
            )  # fmt: skip
        return list(names) if len(names) == count else names * count

    def _networks(self, built) -> dict[str, torch.nn.Module]:
        """What the method's `build` returned, if it can be a client's networks."""
        right = isinstance(built, dict) and all(
            isinstance(role, str) and isinstance(network, torch.nn.Module)
            for role, network in built.items()
        )
        if not right or "model" not in built:
            raise ModelError(
                f"build returned {_short(built)}", where=f"method {self.method.name}",
                do='return networks by name, "model" among them: {"model": make()}',
            )  # fmt: skip
        return built

    def _maker(self, client: Client | None, name: str) -> Callable:
        def make(network: str = name, *, num_classes: int | None = None, role: str = "model"):
            owner = SERVER if client is None or self.settings.common_init else client.id
            return models.build(
                network, num_classes=num_classes or self.scenario.num_classes,
                in_channels=self.scenario.channels, image_size=self.scenario.image_size,
                generator=generator(self.seed, owner, "init", network, role),
            ).to(self.device)  # fmt: skip

        return make

    def _parallel(self, fn: Callable, items: Sequence, costs: Sequence[int]) -> list:
        fn = self._in_precision(fn)
        if self._pool is None or len(items) < 2:
            return [fn(item) for item in items]
        jobs = {i: self._pool.submit(fn, items[i])
                for i in sorted(range(len(items)), key=lambda i: -costs[i])}  # fmt: skip
        wait(jobs.values())  # also where one fails, so that nobody works on behind its back
        return [jobs[i].result() for i in range(len(items))]

    def _in_precision(self, fn: Callable) -> Callable:
        """`fn` under autocast where the settings ask for bf16; a thread has to be told itself.

        Without autocast's cache, which would keep the rounded weights of before a step.
        """
        if self.settings.precision != "bf16":
            return fn

        def work(item):
            with torch.autocast(self.device.type, torch.bfloat16, cache_enabled=False):
                return fn(item)

        return work

    @contextmanager
    def workers(self):
        """One torch thread inside each worker: the same bits for any number of workers.

        On a GPU, products and convolutions have full float32 precision unless the settings say
        otherwise; PyTorch's own default rounds what convolutions multiply to TF32.
        """
        before, units = torch.get_num_threads(), (
            torch.backends.cuda.matmul, torch.backends.cudnn.conv
        )  # fmt: skip
        precisions = [unit.fp32_precision for unit in units]
        torch.set_num_threads(1)
        try:
            for unit in units:
                unit.fp32_precision = "tf32" if self.settings.precision == "tf32" else "ieee"
            if self.threads == 1:
                yield
            else:
                pool = self._pool = ThreadPoolExecutor(
                    self.threads, initializer=torch.set_num_threads, initargs=(1,)
                )
                try:
                    yield
                finally:
                    pool.shutdown(cancel_futures=True)  # after Ctrl-C nobody begins any more
        finally:
            self._pool = None
            torch.set_num_threads(before)
            for unit, precision in zip(units, precisions, strict=True):
                unit.fp32_precision = precision


def _require_parts(scenario, method, settings) -> None:
    """Raise `SettingError` where a part of a `Federation` is something else."""
    parts = (
        ("scenario", scenario, hasattr(scenario, "clients") and hasattr(scenario, "inputs"),
         'build one: scenarios.build("digits-mini")'),
        ("method", method, hasattr(method, "local_loss") and not isinstance(method, type),
         'make one: methods.make("fedavg")'),
        ("settings", settings, isinstance(settings, Settings), "write Settings(rounds=3)"),
    )  # fmt: skip
    for name, value, right, do in parts:
        if not right:
            raise SettingError(f"the {name} is {_short(value)}", where="Federation", do=do)
    for name, value in vars(method).items():
        if not is_finite(value):
            raise SettingError(f"{name} = {value!r}", where=f"method {method.name}",
                               do="give a finite number")  # fmt: skip


def _short(value) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    text = repr(value)
    return f"a {type(value).__name__}" + (f", {text}" if len(text) <= 60 else "")
