"""The round loop. It knows clients, a server and the hooks of a method, and no method by name.

One round: learn from others (`collaborate`), be yourself (the local update), then `aggregate`. The
stage on which it plays is `federation.py`.
"""

import math
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from .clients import Client, Once
from .distillation import prepare
from .engine.checkpoints import Checkpoints
from .engine.optimizers import new_optimizer
from .errors import DataError, TrainingError
from .federation import Federation, cut
from .randomness import on_device

AHEAD = 2**20  # numbers: 4 MB


def run(fed: Federation, *, checkpoint=None, every: float = 120.0, progress: Callable = iter):
    """Play all rounds that are left and return `fed.history`.

    With `checkpoint` (a folder, or `Checkpoints`), save there every so many seconds and at the end,
    and go on from what lies there. `progress` wraps the numbers of these rounds, as tqdm does.

    Called again, it goes on where it stood between two rounds. A federation that was interrupted
    inside one, or played by hand, is set up anew and goes on from its checkpoint, with other
    `Client` objects; without a checkpoint it is refused with a `TrainingError`.
    """
    given = isinstance(checkpoint, Checkpoints)
    kept = checkpoint if given else Checkpoints(checkpoint, every)
    with fed.workers():
        if fed.between_rounds:
            kept.catch_up(fed)
        else:
            begin(fed, kept)
        for round_ in progress(range(fed.played + 1, fed.settings.rounds + 1)):
            began = time.perf_counter()
            play_round(fed, round_)
            fed.history["bytes"] = fed.channel.table()
            fed.history["seconds"].append(time.perf_counter() - began)
            fed.played = round_  # from here on it stands between two rounds
            kept.save(fed, last=round_ == fed.settings.rounds)
    return fed.history


def begin(fed: Federation, kept: Checkpoints) -> None:
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
    prepare(fed)
    fed.method.start(fed)
    if not kept.restore(fed):
        fed.evaluate("end")  # round 0: before any training
        fed.history["bytes"] = fed.channel.table()
    fed.played = fed.round_


def play_round(fed: Federation, round_: int) -> None:
    """Select clients, collaborate, train locally, aggregate; evaluate where the settings ask."""
    fed.begin_round(round_)
    clients = fed.selected()

    clients = fed.collaborate(clients)
    fed.inside_round = True
    fed.observe("after_collaborate", clients)

    clients, trained = fed.survivors(clients, lambda client: local_update(fed, client))
    fed.note_local(clients, trained)
    fed.observe("after_local", clients)

    fed.method.aggregate(fed, clients)
    fed.inside_round = False
    fed.observe("after_aggregate", fed.clients)
    if round_ % fed.settings.eval_every == 0 or round_ == fed.settings.rounds:
        fed.evaluate("end")


def local_update(fed: Federation, client: Client) -> tuple[float, list]:
    """Train on the client's data for `local_epochs`.

    Returns the last epoch's mean loss and, if `observe` names `local_epoch`, one row of the
    accuracy matrix per epoch. Raises `TrainingError` for a loss that is not a number.
    """
    if client.optimizer is None or not fed.settings.keep_optimizer:
        client.optimizer = new_optimizer(client, fed.settings)
    data, rows, epochs = held(fed, client), [], fed.local_epochs(client)
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
                require_loss(loss, fed, client)
                raise
            client.optimizer.step()
            client.steps += 1
            fed.method.after_step(client)
            losses.append(loss.detach())
            sizes.append(len(y))
        mean = epoch_loss(losses, sizes)
        if not math.isfinite(mean):
            raise TrainingError(
                f"the loss of client {client.id} is {mean}",
                where=f"{fed.method.name}, round {fed.round_}, local epoch {epoch}",
                do="lower the learning rate, or the weight of the method's own loss term",
            )
        if "local_epoch" in fed.settings.observe:
            rows.append(fed.row(client))
        fed.method.after_epoch(client)
    client.once = None
    fed.method.after_local(client)
    client.optimizer.zero_grad()  # the next client can have this memory
    if not fed.settings.keep_optimizer:
        client.optimizer = None
    return mean, rows


def held(fed: Federation, client: Client):
    """What the method lets the client train on; raises `DataError` where there is no image."""
    data = fed.method.local_data(client)
    if not all(isinstance(getattr(data, part, None), Tensor) for part in "xy") or not len(data):
        raise DataError(
            f"local_data returned {data!r} for client {client.id}",
            where=f"{fed.method.name}, round {fed.round_}",
            do="return `Images` or `VirtualImages` with at least one image, such as client.data",
        )
    return data


def require_loss(loss, fed: Federation, client: Client) -> None:
    """Raise `TrainingError` for what `backward` cannot begin with."""
    what = do = ""
    if not isinstance(loss, Tensor):
        what = f"a {type(loss).__name__}" if loss is not None else "None"
        do = "return a tensor: local_loss has no return, or float(...) or .item() took it out"
    elif loss.numel() != 1:
        what, do = f"{list(loss.shape)} numbers", "return one: their .mean()"
    elif not loss.requires_grad:
        what = "a tensor without gradient"
        do = "compute it from the client's network, without no_grad, detach or argmax"
    if what:
        raise TrainingError(
            f"local_loss returned {what} for client {client.id}",
            where=f"{fed.method.name}, round {fed.round_}", do=do,
        ) from None  # fmt: skip


def epoch_loss(losses: list[Tensor], sizes: list[int]) -> float:
    """Mean loss per image, from those of batches: added up in float32, in their order.

    The first look at the losses, so that a GPU need not wait for a number inside an epoch.
    """
    weighted = torch.stack(losses).reshape(-1).float().cpu().numpy() * np.float32(sizes)
    return float(np.cumsum(weighted)[-1]) / sum(sizes)


def loaded(fed: Federation, data, own: torch.Generator) -> Iterator[tuple[Tensor, ...]]:
    """One epoch: the index, x, as networks see it, and y of each batch, in a fresh order.

    Images are taken and normalized for several batches at once, up to AHEAD numbers.
    """
    parts = batches(fed, len(data), own)
    ahead = max(1, AHEAD // (fed.settings.batch_size * data.x[0].numel()))
    for some in (parts[i : i + ahead] for i in range(0, len(parts), ahead)):
        index, sizes = torch.cat(some), [len(part) for part in some]
        x, y = fed.scenario.inputs(data.x[index]), data.y[index]
        yield from zip(some, x.split(sizes), y.split(sizes), strict=True)


def all_of(fed: Federation, data) -> Iterator[Tensor]:
    """All images in their order, as networks see them, in batches of the evaluation's size."""
    return (fed.scenario.inputs(part) for part in data.x.split(fed.settings.eval_batch_size))


def batches(fed: Federation, count: int, own: torch.Generator) -> list[Tensor]:
    """A fresh order of `count` images, one index tensor per batch; see `federation.cut`."""
    size = fed.settings.batch_size
    order = on_device(torch.randperm(count, generator=own), fed.device)
    if fed.settings.drop_last and count > size:
        order = order[: count - count % size]
    return cut(order, size)
