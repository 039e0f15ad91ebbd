"""A round goes on without a client that fails, where `on_client_error = "leave_out"`."""

import copy
import warnings
from collections.abc import Callable, Sequence

from ..channel import SERVER
from ..clients import Client
from ..errors import FAILURES, TrainingError
from .checkpoints import holders, pack, unpack


class Memory:
    """What clients and server are now, so that one client or all of it can be put back."""

    def __init__(self, fed):
        self.fed = fed
        self.kept = {name: copy.deepcopy(pack(h, fed)) for name, h in holders(fed).items()}

    def put_back(self, client) -> None:
        """Networks, state, steps and optimizer as they were; nothing of what failed is kept."""
        client.optimizer, client.once, client.held = None, None, {}
        for p in client.parameters() if client.has_networks else ():
            p.grad = None
        unpack(client, copy.deepcopy(self.kept[client.id]), self.fed)

    def put_all_back(self) -> None:
        """Clients and server as they were, random numbers as at the begin of the round."""
        unpack(self.fed.server, copy.deepcopy(self.kept[SERVER]), self.fed)
        for client in self.fed.clients:
            self.put_back(client)
            client.begin_round(self.fed.round_)


def memory(fed) -> Memory | None:
    """What a round begins with, if it may go on without a client."""
    return Memory(fed) if fed.settings.on_client_error == "leave_out" else None


def exchange(fed, clients: Sequence[Client], before: Memory | None) -> list[Client]:
    """The method's `collaborate`; returns those who came through it.

    A client whose own part fails (`FAILURES`, in what `each` and `ask` call) stops the run, or,
    where there is a memory, everybody is put back to the selection, and the exchange begins again
    without that client. What was sent until then stays sent. A failure in nobody's name, or in
    that of somebody who is not selected, stops the run.
    """
    while True:
        try:
            fed.method.collaborate(fed, clients)
            return clients
        except FAILURES as error:
            failed, why = getattr(error, "client", None), error
            if not before or failed not in clients:
                raise
        why.__traceback__ = None  # it holds what the failed client had in memory
        clients = [c for c in clients if c is not failed]
        _leave_out(fed, [(failed, why)], clients)
        before.put_all_back()


def survivors(fed, clients: Sequence[Client], fn: Callable, before: Memory | None) -> tuple:
    """(clients that came through `fn`, what it returned), like `fed.each`.

    A client whose training fails (`FAILURES`) stops the run, or, where there is a memory, the
    round goes on as if it had not been selected: its networks, state and optimizer are those
    before the round. What it sent in this round before it failed stays sent. The history's
    `failures` name it, and so does a warning. Raises `TrainingError` where nobody is left.
    """

    def attempt(client):
        try:
            return fn(client), None
        except FAILURES as error:
            if not before:
                raise
            before.put_back(client)
            return None, error

    results = list(zip(clients, fed.each(clients, attempt), strict=True))
    failed = [(client, error) for client, (_, error) in results if error is not None]
    came = [(client, value) for client, (value, error) in results if error is None]
    _leave_out(fed, failed, came)
    return [client for client, _ in came], [value for _, value in came]


def _leave_out(fed, failed: Sequence[tuple[Client, Exception]], left: Sequence) -> None:
    """Note who failed and why; raise `TrainingError` where nobody is left."""
    for client, error in failed:
        words = getattr(error, "what", f"{type(error).__name__}: {error}").splitlines()[0]
        row = {"round": fed.round_, "client": client.id, "error": words}
        fed.history.setdefault("failures", []).append(row)
        warnings.warn(f"round {fed.round_} goes on without {client.id}: {words}",
                      RuntimeWarning, stacklevel=3)  # fmt: skip
    if failed and not left:
        raise TrainingError(
            f"no client is left: {words}", where=f"{fed.method.name}, round {fed.round_}",
            do="look at the warnings above, and lower the learning rate",
        )  # fmt: skip
