"""What methods share that learn from each other on public images.

For every public batch: all clients run the same images (1), send their logits up (2), the server
combines and answers (3), and each client takes one step towards what it received (4). A method
says with which loss. `MeanAnswers` are those methods whose server answers with a mean; others say
in `exchange` what crosses. If the clients compute more than logits, they replace `forward`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import NonNegativeFloat, NonNegativeInt
from torch import Tensor, nn

from ...channel import SERVER
from ...errors import DivergenceError, SettingError
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

    public_lr: NonNegativeFloat = 1e-3  # learning rate on public images
    public_optimizer: Literal[*OPTIMIZERS] = "adam"  # see OPTIMIZERS
    public_augment: Literal[*KINDS] = "none"  # see `augment.py`; all clients see the same view
    pretrain_epochs: NonNegativeInt = 0  # epochs alone before round 1 (FCCL: 50)
    average: bool = False  # average the networks after the public phase (FCCL Sec. 4.1, Table 3)

    def start(self, fed):
        if min(len(index) for index in fed.public_batches(0)) < 2:  # raises if there are none
            raise SettingError(
                f"{self.name} learns on public batches, and one of them has a single image",
                where="setting 'public_batch_size'",
                do="give at least 2, and 2 public images",
            )
        if self.average:
            require_equal_networks(fed, because=" with average = true")
        pretrain(fed, self.pretrain_epochs)

    def collaborate(self, fed, clients):
        self.public_phase(fed, clients)
        if self.average:
            self._average(fed, clients)

    def public_phase(self, fed, clients) -> None:
        """All public batches of this round, one step of every client per batch."""
        fed.ask(clients, self.begin_public, len(clients))
        for number in range(len(fed.public_batches(fed.round_))):
            public_view(fed, self.public_augment, number)  # drawn before several threads ask for it
            self.exchange(fed, clients, number)
        fed.ask(clients, self.end_public)

    def begin_public(self, client, count: int) -> None:
        """What the client holds through the public phase, in which `count` clients take part."""
        client.held = {"optimizer": self._optimizer(client), "clients": count}
        client.held |= {"losses": [], "spoiled by others": []}

    def exchange(self, fed, clients, number: int) -> None:
        """Steps 1 to 4 on public batch `number`."""
        raise NotImplementedError

    def look(self, client, number: int) -> Tensor:
        """Step 1, on this public batch; the client keeps the graph until the answer comes."""
        x = public_view(client.federation, self.public_augment, number)
        client.held |= {"x": x, "z": self.forward(client, x)}
        return client.held["z"]

    def learn(self, client, answer) -> None:
        """Step 4: towards what came back."""
        held = client.held
        z = held.pop("z")
        loss = self.public_loss(client, held["x"], z, answer)
        if loss is None:
            return
        if self.public_optimizer == "adam-fresh":
            held["optimizer"] = self._optimizer(client)
        held["optimizer"].zero_grad()
        loss.backward()
        held["optimizer"].step()
        held["losses"].append(loss.detach())
        held["spoiled by others"].append(_usable(z) & ~_usable(answer))

    def end_public(self, client) -> None:
        """The mean public loss, and what the client keeps of its optimizer, go to its state."""
        held, client.held = client.held, {}
        self._require_numbers(client, held["losses"], held["spoiled by others"])
        mean = float(torch.stack(held["losses"]).mean()) if held["losses"] else None
        client.state.setdefault("public_loss", []).append(mean)
        if self.public_optimizer == "adam-kept":
            client.state["public_optimizer"] = held["optimizer"].state_dict()

    def forward(self, client, x: Tensor) -> Tensor:
        """What the client computes on public images x; default its logits [batch, classes]."""
        return client.model(x)

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

    def _require_numbers(self, client, values: list[Tensor], by_others: list[Tensor]) -> None:
        """Raise `DivergenceError` where the client's public loss is no number by its own fault.

        Everybody hears the logits of all in the same batch, so that one client's make all losses
        infinite, or none at all. Its own fault it is, unless what it heard was unusable in the
        first such batch and what it had said was not. Looked at when all batches are over, so that
        a GPU need not wait for a number in between.
        """
        losses = torch.stack(values).reshape(-1).tolist() if values else []
        first = next((k for k, v in enumerate(losses) if not math.isfinite(v)), None)
        if first is not None and not by_others[first]:
            raise DivergenceError(
                f"the public loss of client {client.id} is {losses[first]}",
                where=f"{self.name}, round {client.round_}",
                do="lower public_lr",
            )

    def _average(self, fed, clients) -> None:
        uploads = fed.upload(clients, "weights", weights)
        fed.download(clients, "weights", load, average(uploads, [1] * len(clients)))


@dataclass
class MeanAnswers(PublicMethod):
    """The mean logits come back; or, as a control, nobody hears anybody.

    With `answers = "own"` a client takes the same steps on the same public images towards what its
    own network says of them as it was at the end of the last public phase, before it trained on
    private images, and nothing crosses. What it gains then, it gains from the images and the steps,
    and from nobody's knowledge.
    """

    answers: Literal["mean", "own"] = "mean"  # "own": ours, a control

    def build(self, client, make):
        return {"model": make(), **{role: frozen(make()) for role in sorted(self.roles())}}

    def roles(self) -> set[str]:
        """The frozen networks that a client keeps beside its own."""
        return {"former"} if self.answers == "own" else set()

    def start(self, fed):
        super().start(fed)
        if self.answers == "own":
            fed.ask(fed.clients, self.remember, "former")

    def collaborate(self, fed, clients):
        super().collaborate(fed, clients)
        if self.answers == "own":
            fed.ask(clients, self.remember, "former")

    def exchange(self, fed, clients, number):
        if self.answers == "own":
            fed.ask(clients, self.learn_alone, number)
        else:
            exchange_mean(fed, clients, "logits", self.look, self.learn, number)

    def learn_alone(self, client, number: int) -> None:
        """Steps 1 and 4, towards the client's own former answer."""
        self.look(client, number)
        self.learn(client, self.former_answer(client, client.held["x"]))

    def former_answer(self, client, x: Tensor):
        """What the client's network said of x at the end of the last public phase."""
        return teacher_logits(client.models["former"], x)

    def remember(self, client, role: str) -> None:
        """The client's network as it is now becomes a frozen one, where the method has it."""
        if role in client.models:
            client.models[role].load_state_dict(client.model.state_dict())


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


def exchange_mean(fed, clients, name: str, tell: Callable, receive: Callable, *arguments) -> None:
    """tell(client, *arguments) goes up from every client; receive(client, mean) gets the mean."""
    sent = fed.upload(clients, name, tell, *arguments)
    fed.download(clients, f"mean {name}", receive, torch.stack(sent).mean(0))


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
def _usable(outputs) -> Tensor:
    """Whether squares can be added up in a tensor, or in all of a tuple: bool []."""
    if isinstance(outputs, Tensor):
        return outputs.square().sum().isfinite()
    return torch.stack([_usable(part) for part in outputs if part is not None]).all()
