"""Accuracies and losses of a run, noted in its history.

Evaluation measures a method and is no part of it: what it computes is not counted as work.
"""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from statistics import fmean

from .clients import Client
from .engine.checks import evaluated, has_numbers
from .engine.counting import uncounted
from .errors import DivergenceError
from .measures import accuracy, intra
from .settings import LAST


def observe(fed, moment: str, clients: Sequence[Client]) -> None:
    """Evaluate at a moment inside the round, if the settings ask for it."""
    last = fed.round_ == fed.settings.rounds and moment + LAST in fed.settings.observe
    if last or moment in fed.settings.observe:
        fed.evaluate(moment, clients)


def evaluate(fed, moment: str, clients: Sequence[Client] | None = None) -> None:
    """Add an accuracy matrix to the history; a network that clients share is run once.

    Raises `DivergenceError` for a network that holds nan or infinity: it would answer, too.
    """
    clients = clients or fed.clients
    network = {c.id: evaluated(fed, c) for c in clients}
    first = {id(network[c.id]): c for c in reversed(clients)}
    for c in reversed(first.values()):
        if not has_numbers(network[c.id]):
            raise DivergenceError(
                f"the network of client {c.id} holds nan or infinity",
                where=f"{fed.method.name}, round {fed.round_}, evaluation at {moment!r}",
                do=fed.method.if_diverged,
            )
    for c in first.values():
        c.train(False)
        network[c.id].eval()
    cells = [(c, test) for c in first.values() for test in fed.scenario.tests]
    sizes = [len(fed.scenario.tests[test]) for _, test in cells]
    values = iter(fed.pool.map(lambda cell: _accuracy(fed, *cell), cells, sizes))
    found = {key: [next(values) for _ in fed.scenario.tests] for key in first}
    for c in first.values():
        c.train()
    _note(fed, moment, {c.id: found[id(network[c.id])] for c in clients})


def row(fed, client: Client) -> list[float]:
    """The client's row of the accuracy matrix, computed where its training runs."""
    client.train(False)
    values = [_accuracy(fed, client, test) for test in fed.scenario.tests]
    client.train()
    return values


def note_local(fed, clients: Sequence[Client], trained: Sequence[tuple]) -> None:
    """Add what the local updates returned: losses, and accuracies per local epoch."""
    losses = {c.id: loss for c, (loss, _) in zip(clients, trained, strict=True)}
    values = [losses.get(c.id) for c in fed.clients]
    fed.history["loss"].append({"round": fed.round_, "values": values})
    for epoch, rows in enumerate(zip_longest(*(rows for _, rows in trained)), start=1):
        _note(fed, "local_epoch", dict(zip(losses, rows, strict=True)), epoch)


def in_a_line(fed) -> str:
    """A line such as "fedavg, seed 0, round 3 of 20: 81.2 % on own domains"."""
    text = f"{fed.method.name}, seed {fed.seed}, round {fed.round_} of {fed.settings.rounds}"
    last = fed.history["accuracy"][-1] if fed.history["accuracy"] else {}
    if last.get("round") != fed.round_ or None in last["matrix"]:
        return text
    return f"{text}: {100 * own_accuracy(fed.history):.1f} % on own domains"


def own_accuracy(history: Mapping) -> float:
    """On own domains, at the last evaluation: a share from 0 to 1, mean over clients."""
    own = [history["tests"].index(domain) for domain in history["domains"]]
    return fmean(intra(history["accuracy"][-1]["matrix"], own))


def _accuracy(fed, client: Client, test: str) -> float:
    with uncounted():
        return accuracy(
            lambda x: fed.method.predict(fed, client, x),
            fed.scenario.tests[test],
            fed.scenario,
            batch_size=fed.settings.eval_batch_size,
            top=fed.settings.top,
        )


def _note(fed, moment: str, rows: dict[str, list[float]], epoch: int | None = None) -> None:
    matrix = [rows.get(c.id) for c in fed.clients]  # None: this client sat out
    entry = {"round": fed.round_, "moment": moment, "epoch": epoch, "matrix": matrix}
    fed.history["accuracy"].append(entry)
