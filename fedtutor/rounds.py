"""The round loop. It knows clients, a server and the hooks of a method, and no method by name.

One round: learn from others (`collaborate`), be yourself (the local update), then `aggregate`. The
stage on which it plays is `federation.py`.
"""

import math
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from . import evaluation
from .clients import Client
from .engine.batches import Once, all_of, loaded
from .engine.checkpoints import Checkpoints
from .engine.checks import local_data, require_loss, selected
from .engine.leave_out import exchange, memory
from .engine.optimizers import new_optimizer
from .errors import DivergenceError, TrainingError
from .federation import Federation
from .history import History


def run(fed: Federation, *, on_round: Callable | None = None, checkpoint=None,
        every: float = 120.0, progress: Callable = iter) -> History:  # fmt: skip
    """Play all rounds that are left and return `fed.history`.

    `on_round(fed)` is called after each round, with `fed.round_` its number: for a log, a tracker,
    a trial that is to be stopped. An exception of its own ends the run after this round, which
    counts as played. In a terminal a line per round is printed.

    With `checkpoint` (a folder, or `Checkpoints`), save there every so many seconds and at the end,
    and go on from what lies there. `progress` wraps the numbers of these rounds, as tqdm does.

    Called again, it goes on where it stood between two rounds. A federation that was interrupted
    inside one, or played by hand, is set up anew and goes on from its checkpoint, with other
    `Client` objects; without a checkpoint it is refused with a `TrainingError`.
    """
    kept = checkpoint if isinstance(checkpoint, Checkpoints) else Checkpoints(checkpoint, every)
    with fed.workers():
        if fed.played == fed.round_ == len(fed.history["loss"]):  # it stands where a round ended
            kept.catch_up(fed)
        else:
            start_or_restore(fed, kept)
        for round_ in progress(range(fed.played + 1, fed.settings.rounds + 1)):
            began = time.perf_counter()
            play_round(fed, round_)
            fed.history["bytes"] = fed.channel.table()
            fed.history["seconds"].append(time.perf_counter() - began)
            fed.played = round_  # from here on it stands between two rounds
            kept.save(fed, last=round_ == fed.settings.rounds)
            if sys.stderr.isatty():
                print(evaluation.in_a_line(fed), file=sys.stderr)
            if on_round:
                on_round(fed)
    return fed.history


def start_or_restore(fed: Federation, kept: Checkpoints) -> None:
    """Start the method, then stand before round 1, or after the round of the checkpoint."""
    if fed.played is not None or fed.round_:
        if not kept.folder:
            place = f"in round {fed.round_}" if fed.round_ else "before round 1"
            raise TrainingError(
                f"this federation was interrupted {place}, or played by hand", where="run",
                do="run a new Federation; with checkpoint=FOLDER an interrupted run can go on",
            )  # fmt: skip
        fed.set_up()
    fed.played = -1  # until the start is whole
    fed.begin()
    if not kept.restore(fed):
        fed.evaluate("end")  # round 0: before any training
        fed.history["bytes"] = fed.channel.table()
    fed.played = fed.round_


def play_round(fed: Federation, round_: int) -> None:
    """Select clients, collaborate, train locally, aggregate; evaluate where the settings ask."""
    fed.begin_round(round_)
    clients = selected(fed)
    before = memory(fed)  # what to put back where a client fails, if the round may go on without

    clients = exchange(fed, clients, before)  # the method's `collaborate`
    fed.inside_round = True  # until it is averaged away, a client has a network of its own
    evaluation.observe(fed, "after_collaborate", clients)

    clients, trained = fed.survivors(clients, lambda client: local_update(fed, client), before)
    evaluation.note_local(fed, clients, trained)
    evaluation.observe(fed, "after_local", clients)

    fed.method.aggregate(fed, clients)
    fed.inside_round = False
    evaluation.observe(fed, "after_aggregate", fed.clients)
    if round_ % fed.settings.eval_every == 0 or round_ == fed.settings.rounds:
        fed.evaluate("end")


def local_update(fed: Federation, client: Client) -> tuple[float, list]:
    """Train on the client's data for `local_epochs`.

    Returns the last epoch's mean loss and, if `observe` names `local_epoch`, one row of the
    accuracy matrix per epoch. Raises `DivergenceError` for a loss that is not a number.
    """
    if client.optimizer is None or not fed.settings.keep_optimizer:
        client.optimizer = new_optimizer(client, fed.settings)
    data, rows, epochs = local_data(fed, client), [], fed.local_epochs(client)
    # A teacher that stays as it is looks at each image once, not once in every epoch.
    once = client.once = Once(lambda: all_of(fed, data)) if epochs > 1 else None
    for epoch in range(1, epochs + 1):
        losses, sizes = [], []
        for index, x, y in loaded(fed, data, client.generator("batches")):
            if once:
                once.index, once.x = index, x
            loss = fed.method.local_loss(client, x, y)
            client.optimizer.zero_grad()
            try:
                loss.backward()
            except (AttributeError, RuntimeError):
                require_loss(loss, fed, client)  # no loss at all: it says so in our words
                raise
            client.optimizer.step()
            client.steps += 1
            fed.method.after_step(client)
            losses.append(loss.detach())
            sizes.append(len(y))
        mean = epoch_loss(losses, sizes)
        if not math.isfinite(mean):
            raise DivergenceError(
                f"the loss of client {client.id} is {mean}",
                where=f"{fed.method.name}, round {fed.round_}, local epoch {epoch}",
                do="lower the learning rate, or the weight of the method's own loss term",
            )
        if "local_epoch" in fed.settings.observe:
            rows.append(evaluation.row(fed, client))
        fed.method.after_epoch(client)
    client.once = None
    fed.method.after_local(client)
    client.optimizer.zero_grad()  # the next client can have this memory
    if not fed.settings.keep_optimizer:
        client.optimizer = None
    return mean, rows


def epoch_loss(losses: list[Tensor], sizes: list[int]) -> float:
    """Mean loss per image, from those of batches: added up in float32, in their order.

    The first look at the losses, so that a GPU need not wait for a number inside an epoch.
    """
    weighted = torch.stack(losses).reshape(-1).float().cpu().numpy() * np.float32(sizes)
    return float(np.cumsum(weighted)[-1]) / sum(sizes)
