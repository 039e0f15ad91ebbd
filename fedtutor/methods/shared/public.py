"""What methods share that learn from each other on public images.

For every public batch: all clients run the same images (1), send their logits up (2), the server
combines and answers (3), and each client takes one step towards what it received (4). A method
says with which loss; if the server answers with something else than the mean logits, it replaces
`exchange`, and if the clients compute more than logits, `forward`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ...channel import SERVER
from ...errors import SettingError, TrainingError
from ...randomness import generator
from ..base import Method
from ..fedavg import average, load, require_equal_networks, weights
from .augment import KINDS, augment
from .pretraining import pretrain

OPTIMIZERS = {
    "adam": "Adam, new in each round and kept over its public batches",
    "adam-kept": "one Adam for the whole run",
    "adam-fresh": "a new Adam for every public batch: sign descent (FCCL's and FedMD's code there)",
    "sgd": "plain SGD (FedDF in FCCL+'s code)",
}


@dataclass
class PublicMethod(Method):
    """A client's own network, public images, logits up, an answer down, one step per batch."""

    choices = {"public_optimizer": OPTIMIZERS, "public_augment": KINDS}
    at_least_0 = ("pretrain_epochs", "public_lr")

    public_lr: float = 1e-3  # learning rate on public images
    public_optimizer: str = "adam"  # see OPTIMIZERS
    public_augment: str = "none"  # a kind of `augment.py`; all clients see the same view
    pretrain_epochs: int = 0  # epochs alone before round 1 (FCCL: 50)
    average: bool = False  # average the networks after the public phase (FCCL Sec. 4.1, Table 3)

    def start(self, fed):
        if min(len(index) for index in fed.public_batches(0)) < 2:  # raises if there are none
            raise SettingError(
                f"{self.name} learns on public batches, and one of them has a single image",
                where="setting 'public_batch_size'", do="give at least 2, and 2 public images",
            )  # fmt: skip
        if self.average:
            require_equal_networks(fed, because=" with average = true")
        pretrain(fed, self.pretrain_epochs)

    def collaborate(self, fed, clients):
        self.public_phase(fed, clients)
        if self.average:
            self._average(fed, clients)

    def public_phase(self, fed, clients) -> None:
        """All public batches of this round, one step of every client per batch."""
        fed.ask(clients, self.begin_public)
        for number in range(len(fed.public_batches(fed.round_))):
            x = public_view(fed, self.public_augment, number)
            z = fed.ask(clients, self.look, number)  # 1
            answers = self.exchange(fed, clients, x, z)  # 2, 3
            fed.ask(clients, self.learn, own=answers)  # 4
        self._require_numbers(fed, clients, fed.ask(clients, self.end_public))

    def begin_public(self, client) -> None:
        """What the client holds through the public phase."""
        client.held = {"optimizer": self._optimizer(client), "losses": [], "sizes": []}

    def look(self, client, number: int):
        """Step 1, on this public batch; the client keeps the graph until the answer comes."""
        x = public_view(client.place, self.public_augment, number)
        client.held |= {"x": x, "z": self.forward(client, x)}
        client.held["sizes"].append(_largest(client.held["z"]))
        return client.held["z"]

    def learn(self, client, answer) -> None:
        """Step 4: towards what came back."""
        held = client.held
        loss = self.public_loss(client, held["x"], held.pop("z"), answer)
        if loss is None:
            return
        if self.public_optimizer == "adam-fresh":
            held["optimizer"] = self._optimizer(client)
        held["optimizer"].zero_grad()
        loss.backward()
        held["optimizer"].step()
        held["losses"].append(loss.detach())

    def end_public(self, client) -> dict:
        """Losses and sizes of outputs, batch by batch; what the client keeps goes to its state."""
        held, client.held = client.held, {}
        mean = float(torch.stack(held["losses"]).mean()) if held["losses"] else None
        client.state.setdefault("public_loss", []).append(mean)
        if self.public_optimizer == "adam-kept":
            client.state["public_optimizer"] = held["optimizer"].state_dict()
        return {"losses": held["losses"], "sizes": held["sizes"]}

    def forward(self, client, x: Tensor):
        """What the client computes on public images x; default its logits [batch, classes]."""
        return client.model(x)

    def exchange(self, fed, clients, x: Tensor, z: list) -> list:
        """From what every client computed to what it receives; default the mean logits."""
        return exchange_mean(fed, clients, "logits", z)

    def public_loss(self, client, x: Tensor, z, answer) -> Tensor | None:
        """Scalar loss of one public batch; None means no step."""
        raise NotImplementedError

    def _optimizer(self, client) -> torch.optim.Optimizer:
        weights = [p for p in client.model.parameters() if p.requires_grad]
        if self.public_optimizer == "sgd":
            return torch.optim.SGD(weights, lr=self.public_lr)
        optimizer = torch.optim.Adam(weights, lr=self.public_lr)
        if self.public_optimizer == "adam-kept" and "public_optimizer" in client.state:
            optimizer.load_state_dict(client.state["public_optimizer"])
        return optimizer

    def _require_numbers(self, fed, clients, told: list[dict]) -> None:
        """Raise `TrainingError` for the client that spoiled the public phase, if one did.

        Everybody hears the logits of all in the same batch, so that one client's make all losses
        infinite, or none at all. Of those whose loss was wrong first, it is the one with the
        largest outputs in that batch.
        """
        wrong = []  # batch, minus the size of the outputs there, loss, client
        for c, own in zip(clients, told, strict=True):
            values = torch.stack(own["losses"]).reshape(-1).tolist() if own["losses"] else []
            batch = next((k for k, v in enumerate(values) if not math.isfinite(v)), None)
            if batch is not None:
                size = float(own["sizes"][batch])
                wrong.append((batch, -math.inf if math.isnan(size) else -size, values[batch], c))
        if wrong:
            *_, loss, client = min(wrong, key=lambda found: found[:2])
            error = TrainingError(
                f"the public loss of client {client.id} is {loss}",
                where=f"{self.name}, round {fed.round_}", do="lower public_lr",
            )  # fmt: skip
            error.client = client
            raise error

    def _average(self, fed, clients) -> None:
        uploads = fed.upload(clients, "weights", weights)
        fed.download(clients, "weights", load, average(uploads, [1] * len(clients)))


def public_view(place, kind: str, number: int) -> Tensor:
    """Public batch `number` of this round as networks see it, [batch, channels, height, width].

    `place`: the federation, or that of a client with a process of its own. Public images are
    everybody's, so no image crosses: whoever needs a batch draws the same views of it. The last
    one is kept; they come in their order, each augmentation with its own draws.
    """
    last = vars(place).setdefault("public_view", {})
    if last.get("of") != (place.round_, kind) or last["number"] > number:
        own = generator(place.seed, SERVER, place.round_, "augment")
        batches = place.public_batches(place.round_)
        last |= {"of": (place.round_, kind), "number": -1, "views": own, "batches": batches}
    while last["number"] < number:
        last["number"] += 1
        x = place.scenario.public.x[last["batches"][last["number"]]]
        x = augment(kind, x, last["views"])
        last["x"] = place.scenario.normalize(x)
    return last["x"]


def gathered(fed, clients, name: str, values: Sequence[Tensor]) -> Tensor:
    """One tensor up from every client, [clients, ...]."""
    sent = [fed.channel.up(c, name, own) for c, own in zip(clients, values, strict=True)]
    return torch.stack(sent)


def exchange_mean(fed, clients, name: str, values: Sequence[Tensor]) -> list[Tensor]:
    """One tensor up from every client, their mean down to every client."""
    mean = gathered(fed, clients, name, values).mean(0)
    return [fed.channel.down(c, f"mean {name}", mean) for c in clients]


def frozen(model: nn.Module) -> nn.Module:
    """The same network as a teacher: no optimizer will touch it."""
    return model.requires_grad_(False)


@torch.no_grad()
def teacher_logits(teacher: nn.Module, x: Tensor, *, train: bool = False) -> Tensor:
    """Logits [batch, classes] of a frozen network, without gradient, in evaluation mode.

    The mode is set here, where it matters, because a client switches all its networks to training
    mode when a round begins. `train` leaves it there: the batch's own statistics, dropout, and
    running statistics that move (FCCL+'s code).
    """
    return teacher.train(train)(x)


@torch.no_grad()
def _largest(outputs) -> Tensor:
    """The largest absolute number in a tensor, or in a tuple of tensors and None."""
    if isinstance(outputs, Tensor):
        return outputs.detach().abs().max()
    return torch.stack([_largest(part) for part in outputs if part is not None]).max()
