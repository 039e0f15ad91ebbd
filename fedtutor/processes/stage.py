"""The server's federation where every client lives in a process of its own.

`rounds.run` plays on it as it does on `Federation`. What happens at a client crosses as a call, by
name and with plain values (`site.py`); the server holds no network, state or image of a client, and
a method that looks for one is refused with the name of the hook that does.
"""

import copy
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle

from ..clients import Server
from ..engine import leave_out
from ..engine.asking import plain, require_named
from ..errors import FAILURES, SettingError, TrainingError
from ..federation import Federation
from ..history import History
from ..measures import accuracy


class Unreachable(TrainingError):
    """A client whose process does not answer: killed, cut off, or too slow."""


class Remote:
    """A client as the server sees it: who it is, and calls to its process.

    Once its process has not answered, nothing is asked of it any more: it may still be at work, or
    stand nobody knows where. `gone` says why.
    """

    optimizer = once = None
    has_networks, steps = False, 0

    def __init__(self, fed: "RemoteFederation", id: str, domain: str, network: str):
        self.fed, self.id, self.domain, self.network = fed, id, domain, network
        self.round_, self.held = 0, {}
        self.gone: Unreachable | None = None
        self.state_there = ""  # name of the state that its process has kept

    @property
    def model(self) -> "Elsewhere":
        return Elsewhere(self)

    def call(self, name: str, *arguments):
        """What `Site.name(*arguments)` returns in the client's process."""
        if self.gone:
            raise Unreachable(self.gone.what, where=name, do=self.gone.do)
        try:
            return self.fed.calls(self.id, name, *arguments)
        except Unreachable as error:
            self.gone = error
            raise

    def begin_round(self, round_: int) -> None:
        self.round_ = round_
        self._if_there("begin_round", round_)

    def packed(self) -> str:
        """The name of the state that its process keeps; of one that is gone, the last."""
        self.state_there = self._if_there("packed") or self.state_there
        return self.state_there

    def unpacked(self, value: str) -> None:
        self.state_there = value
        self._if_there("unpacked", value)

    def _if_there(self, name: str, *arguments):
        """A call that a round may do without, where it may leave clients out."""
        leave_out = self.fed.settings.on_client_error == "leave_out"
        try:
            return self.call(name, *arguments)
        except Unreachable:
            if not leave_out:
                raise
            return None

    def __getattr__(self, name: str):
        raise _looks(self, name)


class Elsewhere:
    """A network that lives at a client. It can stand for the client in evaluation, no more."""

    def __init__(self, client: Remote):
        self.__dict__["client"] = client

    def __getattr__(self, name: str):
        raise _looks(self.client, f"model.{name}")

    def __call__(self, *_):
        raise _looks(self.client, "model(...)")


def _looks(client: Remote, what: str) -> Exception:
    method, frame, hook = client.fed.method, sys._getframe(2), "?"
    while frame is not None:
        if frame.f_locals.get("self") is method:
            hook = frame.f_code.co_name
            break
        frame = frame.f_back
    if hook == "?":
        return AttributeError(what)
    return SettingError(
        f"{hook} looks at client.{what}, and the client is in another process",
        where=f"method {method.name}",
        do="write a part of the method, def my_part(self, client), and give it to fed.ask, "
        "fed.upload or fed.download",
    )


class RemoteFederation(Federation):
    """`Federation` with its clients elsewhere; `calls(id, name, *arguments)` reaches their sites.

    Raises `SettingError` for what only one process can do: filters of the channel, which would see
    a message after it has left its client.
    """

    def __init__(self, scenario, method, settings, *, calls: Callable, seed: int = 0,
                 device="cpu"):  # fmt: skip
        self.calls = calls
        super().__init__(scenario, method, settings, seed=seed, device=device)
        named = copy.copy(self.scenario)
        vars(named).update(clients=tuple(self.clients), fingerprint=scenario.fingerprint)
        self.scenario = named  # no way through it to private images, either

    def set_up(self) -> None:
        """A server without networks, and a stand-in for every client."""
        self.inside_round, self.server = False, Server()
        self.clients = [
            Remote(self, c.id, c.domain, name)
            for c, name in zip(self.scenario.clients, cycle(self.settings.models), strict=False)
        ]
        self.begin_round(0)
        self.channel.restore({"counts": [], "messages": []})
        self.history = History.empty(self.clients, self.scenario.tests)

    def begin(self) -> None:
        if self.channel.filters:
            raise SettingError(
                "a filter of the channel would see messages after they have left the client",
                where="RemoteFederation", do="put the noise into the method's own part",
            )  # fmt: skip
        super().begin()

    def begin_round(self, round_: int) -> None:
        self.round_ = self.channel.round_ = round_
        self.each(self.clients, lambda client: client.begin_round(round_))

    def each(self, clients: Sequence[Remote], fn: Callable) -> list:
        """`[fn(client) for client in clients]`, all at once: the work is done elsewhere."""

        def work(client):
            try:
                return fn(client)
            except FAILURES as error:
                if not hasattr(error, "client"):
                    error.client = client
                    error.add_note(f"client {client.id}, round {self.round_}")
                raise

        if not clients:
            return []
        with ThreadPoolExecutor(len(clients)) as pool:
            return [done.result() for done in [pool.submit(work, c) for c in clients]]

    def ask(self, clients: Sequence[Remote], function: Callable, *arguments, own=None) -> list:
        """As `engine.asking.ask`; the function runs in the client's process."""
        name = require_named(self.method, function)
        arguments = plain(list(arguments), function, "arguments")
        if own is not None and not callable(own):
            own = dict(zip((c.id for c in clients), own, strict=True))

        def answer(client):
            last = []
            if own is not None:
                last = [plain(own(client) if callable(own) else own[client.id], function, "own")]
            return client.call("ask", name, [*arguments, *last])

        return self.each(clients, answer)

    def survivors(self, clients: Sequence[Remote], _, before) -> tuple:
        """Every client's local update, in its process."""
        return leave_out.survivors(self, clients, lambda c: c.call("local_update"), before)

    def evaluate(self, moment: str, clients: Sequence[Remote] | None = None) -> None:
        """A client's own network is tested where it is, one of the server here, once."""
        clients, rows, here = clients or self.clients, {}, {}
        networks = {c.id: self.method.evaluated(self, c) for c in clients}
        owners = {n.client.id: n.client for n in networks.values() if isinstance(n, Elsewhere)}
        told = self.each(list(owners.values()), lambda c: c._if_there("row", self.inside_round))
        found = dict(zip(owners, told, strict=True))
        for client in clients:
            network = networks[client.id]
            if isinstance(network, Elsewhere):
                rows[client.id] = found[network.client.id] and list(found[network.client.id])
                continue
            if id(network) not in here:
                network.eval()
                here[id(network)] = [self._accuracy(client, test) for test in self.scenario.tests]
                network.train()
            rows[client.id] = list(here[id(network)])
        matrix = [rows.get(c.id) for c in self.clients]
        entry = {"round": self.round_, "moment": moment, "epoch": None, "matrix": matrix}
        self.history["accuracy"].append(entry)

    def _accuracy(self, client: Remote, test: str) -> float:
        return accuracy(
            lambda x: self.method.predict(self, client, x), self.scenario.tests[test],
            self.scenario, batch_size=self.settings.eval_batch_size,
        )  # fmt: skip
