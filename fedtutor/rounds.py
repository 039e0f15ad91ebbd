"""The round loop. It knows clients, a server and the hooks of a method, and no method by name.

In a round, clients learn from others (`collaborate`), each trains on its own data (the local
update), and the server combines what they learned (`aggregate`). `federation.py` holds clients and
server; `methods/base.py` describes the hooks.
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
from .engine.optimizers import new_optimizer
from .errors import DivergenceError, TrainingError
from .federation import Federation
from .history import History


def run_round(fed: Federation, round_: int) -> None:
    """One round of the method; accuracies are measured at the moments that the settings name."""
    fed.begin_round(round_)
    clients = selected(fed)

    clients = fed.collaborate(clients)
    fed.inside_round = True  # until the aggregation a client has a network of its own
    evaluation.observe(fed, "after_collaborate", clients)

    clients, trained = fed.train(clients, local_update)
    evaluation.note_local(fed, clients, trained)
    evaluation.observe(fed, "after_local", clients)

    fed.method.aggregate(fed, clients)
    fed.inside_round = False
    evaluation.observe(fed, "after_aggregate", fed.clients)
    if round_ % fed.settings.eval_every == 0 or round_ == fed.settings.rounds:
        fed.evaluate("end")


def local_update(fed: Federation, client: Client) -> tuple[float, list]:
    """Train the client's networks on its data for `local_epochs`.

    Returns the last epoch's mean loss and, if the setting `observe` names `local_epoch`, a row of
    the accuracy matrix per epoch. Raises `DivergenceError` for a loss that is not a number.
    """
    method, settings = fed.method, fed.settings
    if client.optimizer is None or not settings.keep_optimizer:
        client.optimizer = new_optimizer(client, settings)
    client.optimizer.param_groups[0]["lr"] = fed.learning_rate()
    data, rows, epochs = local_data(fed, client), [], fed.local_epochs(client)
    # A teacher that does not change sees each image once in this round, not once in every epoch
    once = client.once = Once(lambda: all_of(fed, data)) if epochs > 1 else None
    for epoch in range(1, epochs + 1):
        losses, sizes = [], []
        for index, x, y in loaded(fed, data, client.generator("batches")):
            if once:
                once.index, once.x = index, x
            loss = method.local_loss(client, x, y)
            client.optimizer.zero_grad()
            try:
                loss.backward()
            except (AttributeError, RuntimeError):
                require_loss(loss, fed, client)  # where it is no loss, the error says so
                raise
            method.before_step(client)
            client.optimizer.step()
            client.steps += 1
            method.after_step(client)
            losses.append(loss.detach())
            sizes.append(len(y))
        mean = client.loss = epoch_loss(losses, sizes)
        if not math.isfinite(mean):
            raise DivergenceError(
                f"the loss of client {client.id} is {mean}",
                where=f"{method.name}, round {fed.round_}, local epoch {epoch}",
                do=method.if_diverged,
            )
        if "local_epoch" in settings.observe:
            rows.append(evaluation.row(fed, client))
        method.after_epoch(client)
    client.once = None
    method.after_local(client)
    client.optimizer.zero_grad()  # frees the memory of the gradients for the next client
    if not settings.keep_optimizer:
        client.optimizer = None
    return mean, rows


def epoch_loss(losses: list[Tensor], sizes: list[int]) -> float:
    """The mean loss per image from the mean losses of batches, added up in float32 in their order.

    Losses are read here for the first time, so that a GPU does not wait for numbers in an epoch.
    """
    weighted = torch.stack(losses).reshape(-1).float().cpu().numpy() * np.float32(sizes)
    return float(np.cumsum(weighted)[-1]) / sum(sizes)


def run(
    fed: Federation,
    *,
    on_round: Callable | None = None,
    checkpoint=None,
    every: float = 120.0,
    progress: Callable = iter,
) -> History:
    """Run all rounds that are left, and return `fed.history`.

    on_round: called as on_round(fed) after each round, with `fed.round_` its number, for a log or a
    tracker. An exception of its own ends the run after this round, which counts as finished.
    checkpoint: a folder, or `Checkpoints`; the run is saved there after every so many seconds and
    at the end, and goes on from what lies there. progress: wraps the numbers of the rounds, as tqdm
    does. In a terminal a line per round is printed.

    Called again, it goes on after the last round. A federation that was interrupted inside a round,
    or whose rounds were run one by one, is set up anew and goes on from its checkpoint, with other
    `Client` objects; without a checkpoint it is refused with a `TrainingError`.
    """
    kept = checkpoint if isinstance(checkpoint, Checkpoints) else Checkpoints(checkpoint, every)
    with fed.workers():
        if fed.finished == fed.round_ == len(fed.history["loss"]):  # between two rounds
            kept.catch_up(fed)
        else:
            _start_or_restore(fed, kept)
        for round_ in progress(range(fed.finished + 1, fed.settings.rounds + 1)):
            began = time.perf_counter()
            run_round(fed, round_)
            fed.history["bytes"] = fed.channel.table()
            fed.history["seconds"].append(time.perf_counter() - began)
            fed.finished = round_
            kept.save(fed, last=round_ == fed.settings.rounds)
            if sys.stderr.isatty():
                print(evaluation.in_a_line(fed), file=sys.stderr)
            if on_round:
                on_round(fed)
    return fed.history


def _start_or_restore(fed: Federation, kept: Checkpoints) -> None:
    """Start the method; afterwards `fed` is before round 1, or after the checkpoint's round."""
    if fed.finished is not None or fed.round_:
        if not kept.folder:
            place = f"in round {fed.round_}" if fed.round_ else "before round 1"
            raise TrainingError(
                f"this federation was interrupted {place}, or its rounds were run one by one",
                where="run",
                do="run a new Federation; with checkpoint=FOLDER an interrupted run can go on",
            )
        fed.set_up()
    fed.finished = -1  # until the start is complete
    fed.begin()
    if not kept.restore(fed):
        fed.evaluate("end")  # round 0: before any training
        fed.history["bytes"] = fed.channel.table()
    fed.finished = fed.round_
