"""FedLGD: train on virtual images, and let anchors distilled on the server hold the clients.

Huang et al., "Federated Learning on Virtual Heterogeneous Data with Local-Global Dataset
Distillation", TMLR 2024, Algorithm 1; line numbers below are those of its listing. Each client
trains on few virtual images D_c that are distilled from its private ones (setting `virtual_ipc`).
In selected rounds it refines them so that the global network's features of both agree (Eq. 1), and
the server moves its own virtual images D_g so that they pull the network as all clients did (Eq. 5
and 6). In all other rounds the local objective is L_CE(D_g and D_c) + lambda L_Con (Eq. 2 to 4).
"""

import copy
import math
from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from .. import losses
from ..channel import SERVER
from ..distillation import (
    VirtualImages,
    class_statistics,
    drawn,
    labels_of,
    match_distributions,
    match_gradients,
    noise,
)
from ..engine.kinds import Momentum
from ..errors import SettingError
from ..randomness import generator
from .base import register
from .fedavg import FedAvg, load

READINGS = {
    "paper": "Eq. 4 over the batch, a sum, features of length 1 as in Khosla et al. 2020",
    "literal": "Eq. 4 as it is printed: a sum, features of any length",
    "code": "a mean over the batch and all server images, features of length 1",
}
UNITS = {"compared": 1, "pixels": 2, "weights": 3}  # of work, see `client_units`
DISTANCES = {"paper": losses.gradient_distance, "code": losses.gradient_distance_code}


@register("fedlgd")
@dataclass
class FedLGD(FedAvg):
    """Algorithm 1. Needs `virtual_ipc` of at least 1.

    Official code: reading = "code", selected_data = "both", distance = "code", global_init =
    "statistics", refine_first = false, selected = 11, weighting = "uniform", start_from = "last",
    and the settings virtual_init = "statistics_code", virtual_augment = "siamese", virtual_batch =
    256, virtual_network = "convnet". It rounds the number of clients of a round down, we round up:
    of 57 clients participation = 0.1929 gives its 11, and 0.4912 its 28.

    start_from = "last": a round ends with the average being sent to its own clients, and nobody
    else. Who was not in the round before trains on from the last average that it was sent (or, at
    first, from the common start), although it refines its images with the server's present network
    and has the present anchors. Where all clients take part in every round it is "server".

    What line 22 uploads as gradient is read as the path of the local update, theta_t minus the
    weights after it: that is what crosses anyway, and what the code matches (divided by the
    learning rate; only its direction counts). target = "gradient" is Eq. 5 to the letter: the
    gradient of D_c at theta_t, one more upload in selected rounds.

    Batch norm: both distillations run in evaluation mode, with the global running statistics; those
    are averaged as in FedAvg. If every round is selected, with 0 steps, it is FedAvg on D_c;
    selected = 0 with lambda_ = 0 is FedAvg on D_c and the server's noise.

    `client.state["virtual"]` and `fed.server.state["virtual"]` are the virtual images (see
    `distillation.virtual_images`), `state["matching"]` the losses of their last improvement.
    """

    lambda_: NonNegativeFloat = 10.0  # Sec. 5.5, DIGITS; CIFAR10C: 1
    regularizer: Literal["contrastive", "mmd"] = "contrastive"  # Eq. 4; "mmd": Fig. 3a
    reading: Literal[*READINGS] = "paper"  # of Eq. 4, see READINGS
    tau: PositiveFloat = 0.07  # temperature of Eq. 4; the paper does not say (code: 0.07)
    selected: NonNegativeInt = 10  # |tau|, the number of selected rounds (Sec. 5.1; code: 11)
    every: PositiveInt = 5  # rounds 1, 1 + every, ... are selected (Sec. 5.5: 0, 5, ...)
    selected_data: Literal["local", "both"] = "local"  # line 17; "both": and D_g (code, Eq. 3)
    refine_first: bool = True  # line 16; false: not in round 1, just after DM (code)
    local_steps: NonNegativeInt = 100  # of iterative distribution matching (Sec. 5.1)
    global_steps: NonNegativeInt = 500  # of federated gradient matching (Sec. 5.1)
    global_ipc: PositiveInt = 10  # server's images per class (Sec. 5.2)
    # Sec. 5.1; "statistics": averaged over clients (code)
    global_init: Literal["noise", "statistics"] = "noise"
    global_lr: NonNegativeFloat = 1.0  # of the server's pixels (code)
    global_momentum: Momentum = 0.5  # of the server's pixels (code)
    # what D_g is matched with; "gradient": Eq. 5 to the letter
    target: Literal["update", "gradient"] = "update"
    distance: Literal[*DISTANCES] = "paper"  # Eq. 6; "code": with its small number
    # line 31, to all clients; "last": to those of the round (code)
    start_from: Literal["server", "client", "last"] = "server"

    def is_selected(self, round_: int) -> bool:
        """Whether t is in tau: distillation instead of regularization."""
        turn, rest = divmod(round_ - 1, self.every)
        return rest == 0 and turn < self.selected

    def start(self, fed):
        super().start(fed)
        if not fed.settings.virtual_ipc:
            raise SettingError(
                f"{self.name} trains on virtual images and there are none",
                where="settings",
                do="set virtual_ipc to at least 1",
            )
        fed.ask(fed.clients, self.keep_virtual)  # line 9
        fed.server.state["virtual"] = self._noise(fed).state()
        fed.server.state["version"], fed.server.state["sent"] = 0, {}

    def keep_virtual(self, client) -> None:
        client.state["virtual"] = client.data.state()

    def _noise(self, fed) -> VirtualImages:
        """The server's images before any matching."""
        own = generator(fed.seed, SERVER, "virtual")
        scenario, shape = fed.scenario, fed.scenario.shape
        if self.global_init == "statistics":
            return drawn(_averaged(fed), self.global_ipc, shape, own)
        y = labels_of(torch.ones(scenario.num_classes, device=fed.device), self.global_ipc)
        return VirtualImages(scenario.pixels(noise(y, shape, own)), y, "noise")

    def collaborate(self, fed, clients):
        chosen = self.is_selected(fed.round_)
        if self.start_from != "last":
            super().collaborate(fed, clients)  # line 31, of the round before
        elif chosen:
            fed.download(clients, "weights", self.receive_extractor, fed.server.model.state_dict())
        fed.ask(clients, self.note_round, chosen)
        if chosen:
            fed.ask(clients, self.refine)
        if not chosen or self.selected_data == "both":
            self._send_anchors(fed, clients)  # line 28, of the round before

    def note_round(self, client, selected: bool) -> None:
        client.state["selected"] = selected

    def receive_extractor(self, client, state: dict) -> None:
        client.held["extractor"] = copy.deepcopy(client.model)
        client.held["extractor"].load_state_dict(state)

    def refine(self, client) -> None:
        """Line 16, Eq. 1: the extractor is the global network that has just arrived."""
        s, scenario = client.settings, client.scenario
        virtual = VirtualImages(**client.state["virtual"])
        arrived = client.held.pop("extractor", client.model)
        if self.local_steps and (self.refine_first or client.round_ > 1):
            network = copy.deepcopy(arrived).requires_grad_(False)
            new = match_distributions(
                scenario.inputs(virtual.x),
                virtual.y,
                client.private,
                scenario,
                network,
                steps=self.local_steps,
                lr=s.virtual_lr,
                momentum=s.virtual_momentum,
                batch=s.virtual_batch,
                augment=s.virtual_augment,
                clip=s.virtual_clip,
                noise=s.virtual_noise,
                numbers=lambda step, purpose: generator(
                    client.seed, client.id, client.round_, "refinement", step, purpose
                ),
            )
            x = scenario.pixels(new["x"])
            client.state["virtual"] = {"x": x, "y": virtual.y, "source": virtual.source}
            client.state["matching"] = new["losses"]
        if self.target == "gradient":
            virtual = VirtualImages(**client.state["virtual"])
            network = copy.deepcopy(arrived).eval()
            loss = losses.cross_entropy(network(scenario.inputs(virtual.x)), virtual.y)
            client.state["gradient"] = list(torch.autograd.grad(loss, _trained(network)))

    def _send_anchors(self, fed, clients) -> None:
        """To whom has them not, or an older version of them."""
        state = fed.server.state
        new = [c for c in clients if state["sent"].get(c.id) != state["version"]]
        anchors = {key: state["virtual"][key] for key in ("x", "y")}
        fed.download(new, "virtual images", self.receive_anchors, anchors)
        state["sent"] |= {c.id: state["version"] for c in new}

    def receive_anchors(self, client, anchors: dict) -> None:
        client.state["anchors"] = anchors
        client.state["anchors_seen"] = client.scenario.inputs(anchors["x"])

    def local_data(self, client):
        own = VirtualImages(**client.state["virtual"])
        if client.state["selected"] and self.selected_data == "local":
            return own
        anchors = client.state["anchors"]
        return VirtualImages(torch.cat([own.x, anchors["x"]]), torch.cat([own.y, anchors["y"]]))

    def local_loss(self, client, x, y):
        if client.state["selected"] or not self.lambda_:
            return super().local_loss(client, x, y)  # line 17
        h = client.model.features(x)  # line 20
        z = client.model.classifier(h)
        return losses.fedlgd_loss(z, y, self._regularizer(client, h, y), lambda_=self.lambda_)

    def _regularizer(self, client, h, y):
        if self.regularizer == "contrastive" and self.reading == "literal":
            return losses.supervised_contrastive(h, y, tau=self.tau)
        if self.regularizer == "contrastive" and self.reading == "paper":
            h = torch.nn.functional.normalize(h, dim=1)
            return losses.supervised_contrastive(h, y, tau=self.tau)
        anchors = client.model.features(client.state["anchors_seen"])
        if self.regularizer == "mmd":
            return losses.mmd_regularizer(h, anchors)
        labels = torch.cat([y, client.state["anchors"]["y"]])
        return losses.supervised_contrastive_code(torch.cat([h, anchors]), labels, tau=self.tau)

    def gradient(self, client) -> list[torch.Tensor]:
        return client.state.pop("gradient")

    def forget_gradient(self, client) -> None:
        client.state.pop("gradient", None)

    def _average(self, fed, clients) -> None:
        """Lines 22, 25 and 30; with start_from = "last" also what is sent then."""
        super().aggregate(fed, clients)
        if self.start_from == "last":
            fed.download(clients, "weights", load, fed.server.model.state_dict())

    def aggregate(self, fed, clients):
        if not (self.is_selected(fed.round_) and self.global_steps):
            fed.ask(clients, self.forget_gradient)
            self._average(fed, clients)
            return
        before = copy.deepcopy(fed.server.model)
        shares = self.shares(fed, clients) if self.target == "gradient" else None
        self._average(fed, clients)
        if shares is None:
            pairs = zip(_trained(before), _trained(fed.server.model), strict=True)
            pull = [(old - new).detach() for old, new in pairs]
        else:
            sent = fed.upload(clients, "gradient", self.gradient)
            weights = [share / sum(shares) for share in shares]
            pull = [
                sum(w * part for w, part in zip(weights, parts, strict=True))
                for parts in zip(*sent, strict=True)
            ]
        state = fed.server.state
        virtual = VirtualImages(**state["virtual"])
        new = match_gradients(
            fed.scenario.inputs(virtual.x),
            virtual.y,
            before,
            pull,
            steps=self.global_steps,
            lr=self.global_lr,
            momentum=self.global_momentum,
            distance=DISTANCES[self.distance],
        )  # line 27, Eq. 5 and 6
        x = fed.scenario.pixels(new["x"])
        state["virtual"] = {"x": x, "y": virtual.y, "source": "matched gradients"}
        state["matching"], state["version"] = new["losses"], fed.round_


def _trained(network) -> list[torch.Tensor]:
    return [p for p in network.parameters() if p.requires_grad]


def _averaged(fed) -> dict[str, torch.Tensor]:
    """Class statistics of all clients, each class averaged over its owners (official code)."""
    sent = fed.upload(fed.clients, "class statistics", statistics_of)
    owned = torch.stack([s["owned"] for s in sent]).float()
    count = owned.sum(0).clamp(min=1)[:, None]
    mean, std = (torch.stack([s[key] for s in sent]).sum(0) / count for key in ("mean", "std"))
    return {"mean": mean, "std": std, "owned": owned.any(0)}


def statistics_of(client) -> dict[str, torch.Tensor]:
    reading = "code" if client.settings.virtual_init == "statistics_code" else "paper"
    return class_statistics(client.private, client.scenario, reading=reading)


def client_passes(
    private: int,
    *,
    classes: int,
    ipc: int,
    anchors: int,
    rounds: int,
    batch_size: int,
    real: int,
    first: int,
    selected: int,
    refine: int,
) -> dict[str, int]:
    """Images that one client sends through networks in a whole run (FedLGD Fig. 5), by purpose.

    - "compared": private images, whose features are only compared with: up to `real` per class in
      each of the `first` steps before round 1 and in the `refine` steps of each selected round;
    - "pixels": virtual images in these steps, with a gradient that reaches their pixels;
    - "weights": images in local training, with a gradient that reaches the weights: `ipc` per
      class in selected rounds, else also the server's `anchors`, which with the regularizer join
      every batch once more (reading "code", one local epoch, selected_data "local").

    The tests hold it to what `counting.Work` counts in runs. FedAvg on private images:
    private x rounds, all of them for weights.
    """
    steps, own = first + selected * refine, classes * ipc
    batches = math.ceil((own + anchors) / batch_size)
    together = own + anchors + batches * anchors
    return {
        "compared": steps * min(private, real * classes),
        "pixels": steps * own,
        "weights": selected * own + (rounds - selected) * together,
    }


def client_units(private: int, **plan: int) -> tuple[int, int]:
    """(FedLGD's, FedAvg's) work of one client in a whole run, in units of a forward pass.

    FedAvg trains on the client's `private` images; `plan` is what `client_passes` takes besides. An
    image costs 1 forward, one more back to its pixels, and two more back to the weights. FedLGD's
    Fig. 5 adds up selected and unselected rounds and does not name the first distillation: without
    it, `first` is 0. Its Sec. 5.5 says "clients": a sum over the clients of a data set.
    """
    passes = client_passes(private, **plan)
    fedavg = UNITS["weights"] * private * plan["rounds"]
    return sum(UNITS[kind] * count for kind, count in passes.items()), fedavg
