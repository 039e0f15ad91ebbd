"""A federation of processes goes on without a client whose process is gone, if it may.

Such a client is left out for the rest of the run, and the history's `failures` name it. Where it is
lost in the middle of an exchange, server and clients go back to the beginning of the round, and the
exchange begins again without it; what was sent until then stays counted.
"""

import copy
import warnings
from collections.abc import Callable, Sequence

from ..channel import SERVER
from ..engine.checkpoints import holders, pack, unpack
from ..errors import TrainingError


class Unreachable(TrainingError):
    """A client whose process does not answer: killed, cut off, or too slow."""


def collaborate(fed, clients: Sequence) -> list:
    """The method's `collaborate`; returns the clients that came through it."""
    before = {name: copy.deepcopy(pack(h, fed)) for name, h in holders(fed).items()}
    while True:
        try:
            fed.method.collaborate(fed, clients)
            return clients
        except Unreachable as error:
            gone = getattr(error, "client", None)
            if gone not in clients:
                raise
            clients = [c for c in clients if c is not gone]
            _note(fed, [(gone, error)], clients)
        unpack(fed.server, copy.deepcopy(before[SERVER]), fed)
        for client in fed.clients:
            unpack(client, before[client.id], fed)
            client.begin_round(fed.round_)


def train(fed, clients: Sequence, update: Callable) -> tuple[list, list]:
    """(the clients whose process answered, what `update(client)` returned for each of them)."""

    def attempt(client):
        try:
            return update(client), None
        except Unreachable as error:
            return None, error

    results = list(zip(clients, fed.each(clients, attempt), strict=True))
    came = [(client, value) for client, (value, error) in results if error is None]
    _note(fed, [(client, error) for client, (_, error) in results if error is not None], came)
    return [client for client, _ in came], [value for _, value in came]


def _note(fed, gone: Sequence[tuple], left: Sequence) -> None:
    """Name who is gone, and why; raise `TrainingError` where nobody is left."""
    for client, error in gone:
        row = {"round": fed.round_, "client": client.id, "error": error.what}
        fed.history.setdefault("failures", []).append(row)
        text = f"round {fed.round_} goes on without {client.id}: {error.what}"
        warnings.warn(text, RuntimeWarning, stacklevel=3)
    if gone and not left:
        raise TrainingError(
            f"no client is left: {error.what}",
            where=f"{fed.method.name}, round {fed.round_}",
            do="see the logs of the clients' processes",
        )
