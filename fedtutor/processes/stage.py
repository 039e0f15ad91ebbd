"""The server's federation where every client lives in a process of its own.

`rounds.run` runs it as it does `Federation`. What happens at a client crosses as a call, by
name and with plain values (`site.py`); the server holds no network, state or image of a client, and
a method that looks for one is refused with the name of the hook that does.
"""

import copy
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from ..engine.calls import naming_the_client, require_named
from ..errors import SettingError
from ..federation import Federation
from ..measures import accuracy
from . import leave_out
from .leave_out import Unreachable


class Remote:
    """A client as the server sees it: who it is, and calls to its process.

    Once its process has not answered, nothing is asked of it any more: it may still be at work, or
    stand nobody knows where. `gone` says why.
    """

    def __init__(self, fed: "RemoteFederation", id: str, domain: str, network: str):
        self.fed, self.id, self.domain, self.network = fed, id, domain, network
        self.round_, self.held = 0, {}
        self.gone: Unreachable | None = None
        self.state_there = ""  # name of the state that its process has kept
        self._layout: dict | None = None

    @property
    def model(self) -> "Elsewhere":
        return Elsewhere(self)

    @property
    def layout(self) -> dict:
        """What its network looks like (`Client.layout`); its process is asked once."""
        self._layout = self._layout or self.call("layout")
        return self._layout

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
        try:
            return self.call(name, *arguments)
        except Unreachable:
            if not self.fed.leave_out:
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

    leave_out: go on without a client whose process is gone, rather than stop (`leave_out.py`).
    Raises `SettingError` for what only one process can do: filters of the channel, which would see
    a message after it has left its client.
    """

    def __init__(
        self,
        scenario,
        method,
        settings,
        *,
        calls: Callable,
        seed: int = 0,
        device="cpu",
        leave_out: bool = False,
    ):
        self.calls, self.leave_out = calls, leave_out
        super().__init__(scenario, method, settings, seed=seed, device=device)
        named = copy.copy(self.scenario)
        vars(named).update(clients=tuple(self.clients), fingerprint=scenario.fingerprint)
        self.scenario = named  # no way through it to private images, either

    def new_client(self, data, network: str) -> Remote:
        """A stand-in for the client."""
        return Remote(self, data.id, data.domain, network)

    def try_networks(self) -> None:
        """Every site has done it for itself."""

    def begin(self) -> None:
        if self.channel.filters:
            raise SettingError(
                "a filter of the channel would see messages after they have left the client",
                where="RemoteFederation",
                do="put the noise into the method's own part",
            )
        super().begin()

    def begin_round(self, round_: int) -> None:
        self.round_ = self.channel.round_ = round_
        self.each(self.clients, lambda client: client.begin_round(round_))

    def each(self, clients: Sequence[Remote], fn: Callable) -> list:
        """`[fn(client) for client in clients]`, all at once: the work is done elsewhere."""
        if not clients:
            return []
        work = naming_the_client(fn, self.round_)
        with ThreadPoolExecutor(len(clients)) as pool:
            return [done.result() for done in [pool.submit(work, c) for c in clients]]

    def run_at(self, client: Remote, function: Callable, arguments: Sequence):
        """As in `Federation`, in the client's process."""
        return client.call("ask", require_named(self.method, function), [*arguments])

    def collaborate(self, clients: list[Remote]) -> list[Remote]:
        """The method's `collaborate`; returns the clients whose processes still answer."""
        if self.leave_out:
            return leave_out.collaborate(self, clients)
        return super().collaborate(clients)

    def train(self, clients: list[Remote], update: Callable) -> tuple[list, list]:
        """Every client's local update, in its process."""
        if self.leave_out:
            return leave_out.train(self, clients, lambda client: client.call("local_update"))
        return clients, self.each(clients, lambda client: client.call("local_update"))

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
            lambda x: self.method.predict(self, client, x),
            self.scenario.tests[test],
            self.scenario,
            batch_size=self.settings.eval_batch_size,
            top=self.settings.top,
        )
