"""Start from networks that each client trained alone (SOLO in FCCL, Sec. 4).

FCCL trains every network on its own private images for 50 epochs and starts all methods of a
comparison from there; its code uses 40 epochs. The trained weights are an artifact of (client,
network, settings, data, seed), so that methods share them and a resumed run does not repeat them.
"""

import math

from ...clients import Client
from ...engine.artifacts import artifact
from ...engine.batches import batches
from ...engine.optimizers import new_optimizer
from ...errors import DivergenceError
from ...losses import cross_entropy


def pretrain(fed, epochs: int) -> None:
    """Train `client.model` of every client alone for `epochs`; 0 leaves it as it is.

    Loss: cross-entropy (FCCL Eq. 3). Optimizer, learning rate and batch size are those of the
    local update. Raises `DivergenceError` if a loss is not a number.
    """
    if epochs:
        fed.ask(fed.clients, load_pretrained, epochs, fed.method.name)


def load_pretrained(client, epochs: int, method: str) -> None:
    """The client's network as it is after training alone."""
    s = client.settings
    key = [
        client.id,
        client.network,
        epochs,
        s.common_init,
        s.batch_size,
        s.drop_last,
        s.optimizer,
        s.lr,
        s.momentum,
        s.weight_decay,
    ]
    state = artifact(client, "pretrained", key, lambda: _train(client, epochs, method))
    client.model.load_state_dict(state)


def _train(client, epochs: int, method: str) -> dict:
    alone = Client(
        client.id, client.domain, client.data, seed=client.seed, federation=client.federation
    )
    alone.models = {"model": client.model}
    alone.begin_round("pretrain")  # random numbers that no method shares
    optimizer = new_optimizer(alone, client.settings)
    for _ in range(epochs):
        for index in batches(client, len(alone.data), alone.generator("batches")):
            x, y = client.scenario.inputs(alone.data.x[index]), alone.data.y[index]
            loss = cross_entropy(alone.model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    if not math.isfinite(last := float(loss.detach())):
        raise DivergenceError(
            f"the loss of client {client.id} is {last}",
            where=f"{method}, pretraining",
            do="lower the learning rate",
        )
    return {name: value.clone() for name, value in alone.model.state_dict().items()}
