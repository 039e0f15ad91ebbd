"""RepShare: clients show each other what a class looks like in their last hidden layer.

Berdoz, Singh, Jaggi and Raskar, "Scalable Collaborative Learning via Representation Sharing",
2022, Algorithms 1 and 2. Local objective: L_CE + lambda_kd L_KD + lambda_disc L_disc (Eq. 6). L_KD
pulls features towards the mean of their class over all clients; L_disc asks the classifier whether
a feature and an observation, the mean of n_avg features of some client, are of one class (Eq. 5
and 7). The server averages class means and passes observations on; networks stay at home. Step
numbers below count the lines of Algorithm 1 from "u downloads" on.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from .. import losses
from ..channel import SERVER
from ..engine.batches import all_of
from ..errors import SettingError
from ..randomness import generator, on_device
from .base import Method, register
from .fedavg import WEIGHTING
from .shared.class_means import global_means, keep_means
from .shared.privacy import epsilon, private_class_means
from .shared.prototypes import over_owners, require_equal_features

READINGS = {  # name: L_KD, L_disc
    "paper": (losses.representation_distance, losses.discriminator_loss),
    "code": (losses.prototype_distance, losses.discriminator_loss_code),
}
DRAWS = {
    "classes": "the buffers of the classes are shuffled one by one (Algorithm 1)",
    "client": "all classes from one random client (Sec. 4 and the author's code)",
}
TOPOLOGIES = {
    "server": "a server averages class means and relays observations (Algorithm 1)",
    "peer": "clients ask each other; L_KD uses the mean of what arrived (Sec. 3, relaxation)",
}
FIRST = {
    "random": "in round 1 all vectors are random (Algorithm 1), here uniform in -1..1",
    "networks": "in round 1 they come from the untrained networks (the author's code)",
    "nothing": "in round 1 there are none (ours)",
}


@register("repshare")
@dataclass
class RepShare(Method):
    """Default: the paper's sums. reading = "code": the author's means over features and classes.

    Networks may differ in everything but the number of features. Whoever sits out a round is
    represented by what it sent last. A class that a client lacks counts for nothing; where nobody
    has a class, its terms are 0. A client with fewer than n_avg images of a class averages them
    all (ours). Features are computed after local training, in evaluation mode, as in the author's
    code. Both weights 0 are `solo`, also for the running statistics of batch norm, which stay at
    home; a weight of 0 also saves the messages that only its term needs.

    Privacy (Sec. 3 proposes it and runs none): `clip` bounds the length of a feature, `noise` is
    the multiplier of Gaussian noise on every mean that is sent (`shared/privacy.py`). `levels` are
    how much single images count, from 0 (never shared) to 1, dealt to each client's images at
    random; an image of level w has noise multiplier noise / w. `spent` says what it cost so far.
    """

    choices = {"reading": READINGS, "draw": DRAWS, "topology": TOPOLOGIES, "first": FIRST,
               "weighting": WEIGHTING}  # fmt: skip
    at_least_0 = ("lambda_kd", "lambda_disc", "clip", "noise")
    at_least_1 = ("n_avg", "m_up", "m_down")

    lambda_kd: float = 10.0  # Sec. 4
    lambda_disc: float = 1.0  # Sec. 4
    n_avg: int = 10  # images per observation, Sec. 4
    m_up: int = 1  # observations per class that a client sends, Sec. 4
    m_down: int = 1  # observations per class that a client receives, Sec. 4
    reading: str = "paper"  # see READINGS
    exclude_self: bool = False  # Algorithm 1: own observations are in the buffers ("another user")
    draw: str = "classes"  # see DRAWS
    topology: str = "server"  # see TOPOLOGIES
    first: str = "random"  # see FIRST
    weighting: str = "samples"  # App. A.1: "using all the samples"; "uniform": clients count alike
    clip: float = 0.0  # 0: none
    noise: float = 0.0  # 0: none
    levels: list = field(default_factory=lambda: [1.0])

    def __post_init__(self):
        super().__post_init__()
        where = f"method {self.name}"
        if self.noise and not self.clip:
            raise SettingError(f"noise = {self.noise}, clip = 0", where=where,
                               do="noise needs a clip above 0")  # fmt: skip
        right = [type(w) in (int, float) and 0 <= w <= 1 for w in self.levels]
        if not (right and all(right)):
            raise SettingError(f"levels = {self.levels}", where=where,
                               do="give one or more numbers from 0 to 1")  # fmt: skip

    def start(self, fed):
        features = require_equal_features(fed)
        buffered = (len(fed.clients) - self.exclude_self) * self.m_up
        if self.m_down > buffered:
            raise SettingError(
                f"m_down = {self.m_down}, but there are {buffered} observations of a class",
                where=f"method {self.name}, {len(fed.clients)} clients",
                do="lower m_down, raise m_up, or take more clients",
            )
        fed.ask(fed.clients, self.deal_levels)
        if self.first == "random":
            self._begin_at_random(fed, features)
        elif self.first == "networks":
            self.aggregate(fed, fed.clients)

    def deal_levels(self, client) -> None:
        """How much each of the client's images counts."""
        levels = torch.tensor(self.levels, dtype=torch.float32)
        order = torch.randperm(len(client.data), generator=client.generator("levels"))
        client.state["levels"] = levels[order % len(levels)].to(client.device)
        client.state["releases"] = 0  # noisy means that one image can have entered

    def collaborate(self, fed, clients):  # step 1
        known = self._observations(fed, clients) if self._observes() else {}
        means = global_means(fed) if self.lambda_kd and self.topology == "server" else None
        own = []
        for client in clients:
            received = self._draw(fed, client, known) if known else {}
            if means:
                received |= fed.channel.down(client, "global means", means)
            elif "observed" in received and self.lambda_kd and self.topology == "peer":
                # their mean stands for the global means
                received |= over_owners(received["observed"], received["known"])
            own.append(received)
        fed.ask(clients, self.receive, own=own)

    def receive(self, client, received: dict) -> None:
        client.state["received"] = received

    def local_loss(self, client, x, y):  # step 2: Algorithm 2
        h = client.model.features(x)
        z, received = client.model.classifier(h), client.state["received"]
        distance, contrast = READINGS[self.reading]
        apart = told = 0.0
        if "means" in received:
            apart = distance(h, y, received["means"], received["owned"])
        if "observed" in received and self.lambda_disc:
            z_observed, known = client.model.classifier(received["observed"]), received["known"]
            m = torch.randint(len(known), (len(y),), generator=client.generator("observation"))
            m = on_device(m, y.device) if len(known) > 1 else 0
            told = contrast(z, y, z_observed[m], known[m])
        return losses.repshare_loss(
            z, y, apart, told, lambda_kd=self.lambda_kd, lambda_disc=self.lambda_disc
        )

    def aggregate(self, fed, clients):
        state = fed.server.state
        if state.pop("random", False):
            state["means"], state["weights"], state["observations"] = {}, {}, {}
        told = zip(clients, fed.ask(clients, self.share), strict=True)
        for client, (means, observations, weights) in told:
            if self.topology == "peer":  # whoever asks gets it from the client itself
                continue
            if means is not None:  # steps 3 and 5
                keep_means(fed, client, means, weights, weighting=self.weighting)
            if observations is not None:  # steps 4 and 6
                sent = {"observations": observations, "owned": weights > 0}
                kept = state.setdefault("observations", {})
                kept[client.id] = fed.channel.up(client, "observations", sent)

    def spent(self, client, *, delta: float) -> dict[float, float]:
        """Level -> epsilon of its images at this client, for all that it has sent so far."""
        return {w: epsilon(noise=self.noise, releases=client.state["releases"], delta=delta,
                           weight=w) for w in self.levels}  # fmt: skip

    def _observes(self) -> bool:
        return bool(self.lambda_disc or (self.lambda_kd and self.topology == "peer"))

    @torch.no_grad()
    def share(self, client) -> tuple[Tensor | None, Tensor | None, Tensor]:
        """Class means [classes, d], observations [m_up, classes, d], weights [classes]."""
        network, data, classes = client.model.eval(), client.data, client.scenario.num_classes
        h = torch.cat([network.features(x) for x in all_of(client, data)])
        network.train()
        level = client.state["levels"]
        noise = client.generator("privacy")

        def mean(index):
            return private_class_means(
                h[index], data.y[index], num_classes=classes, weights=level[index],
                clip=self.clip, noise=self.noise, generator=noise,
            )  # fmt: skip

        means = observations = None
        if self.lambda_kd and self.topology == "server":
            means = mean(torch.arange(len(h), device=h.device))
            client.state["releases"] += 1
        if self._observes():
            drawn = [self.some_of_each(client) for _ in range(self.m_up)]
            observations = torch.stack([mean(index) for index in drawn])
            client.state["releases"] += self.m_up
        weights = torch.bincount(data.y, weights=level, minlength=classes).to(h.dtype)
        if self.topology == "peer":
            client.state["own"] = {"observations": observations, "owned": weights > 0}
        return means, observations, weights

    def some_of_each(self, client) -> Tensor:
        """Indices of n_avg images of each class, drawn without replacement; all if fewer."""
        y, level, classes = client.data.y, client.state["levels"], client.scenario.num_classes
        order = torch.randperm(len(y), generator=client.generator("n_avg")).to(y.device)
        order = order[level[order] > 0]
        rank = torch.nn.functional.one_hot(y[order], classes).cumsum(0)
        return order[rank.gather(1, y[order][:, None])[:, 0] <= self.n_avg]

    def _observations(self, fed, clients) -> dict:
        """Client id -> its last observations, as far as they can be asked for now."""
        if self.topology == "server":
            return fed.server.state.get("observations", {})
        told = zip(clients, fed.ask(clients, self.own_observations), strict=True)
        return {c.id: own for c, own in told if own is not None}

    def own_observations(self, client) -> dict | None:
        """What another client gets that asks this one."""
        return client.state.get("own")

    def _draw(self, fed, client, known: dict) -> dict:
        """m_down observations of every class: `observed` [m_down, classes, d], `known` bool."""
        ids = [c.id for c in fed.clients
               if c.id in known and not (self.exclude_self and c is client)]  # fmt: skip
        if not ids:
            return {}
        buffer = torch.cat([known[i]["observations"] for i in ids])  # [entries, classes, d]
        owned = torch.stack([known[i]["owned"] for i in ids]).repeat_interleave(self.m_up, 0)
        drawn = generator(fed.seed, client.id, fed.round_, "draw")
        entry = self._entries(drawn, owned.cpu()).to(fed.device)  # [m_down, classes]
        column = torch.arange(owned.shape[1], device=fed.device)
        there = owned[entry, column]
        chosen = buffer[entry, column] * there[:, :, None]
        if self.topology == "server":
            sent = {"observed": chosen, "known": there}
            return fed.channel.down(client, "observations", sent)
        observed = torch.zeros_like(chosen)
        for place, owner in enumerate(ids):
            mine = there & (entry // self.m_up == place)
            rows = chosen[mine]
            if len(rows) and owner != client.id:
                rows = fed.channel.send(owner, client.id, "observations", rows)
            observed[mine] = rows
        return {"observed": observed, "known": there}

    def _entries(self, own: torch.Generator, owned: Tensor) -> Tensor:
        """Which entries of the buffer the client gets, [m_down, classes].

        Without replacement; where there are fewer than m_down, they come up again. Of a class that
        nobody has, an empty entry.
        """
        classes, turn = owned.shape[1], torch.arange(self.m_down)
        if self.draw == "client":
            entries = torch.randperm(len(owned), generator=own)
            return entries[turn % len(entries)][:, None].expand(-1, classes)
        columns = []
        for c in range(classes):
            order = torch.randperm(len(owned), generator=own)
            entries = order[owned[order, c]] if owned[:, c].any() else order
            columns.append(entries[turn % len(entries)])
        return torch.stack(columns, 1)

    def _begin_at_random(self, fed, features: int) -> None:
        """Algorithm 1, "S initializes randomly"; among peers everyone does so for itself."""
        shape = (fed.scenario.num_classes, features)
        everything = torch.ones(shape[0], dtype=torch.bool, device=fed.device)

        def drawn(count, own):
            return torch.rand(count, *shape, generator=own).to(fed.device) * 2 - 1

        observed = {}
        for c in fed.clients:
            own = generator(fed.seed, c.id, fed.round_, "first")
            observed[c.id] = {"observations": drawn(self.m_up, own), "owned": everything}
        if self.topology == "peer":
            fed.ask(fed.clients, self.keep_own, own=list(observed.values()))
            return
        means = drawn(1, generator(fed.seed, SERVER, "first"))[0]
        fed.server.state |= {
            "random": True, "observations": observed,  # until somebody has sent something
            "means": {c.id: means for c in fed.clients},
            "weights": {c.id: everything for c in fed.clients},
        }  # fmt: skip

    def keep_own(self, client, own: dict) -> None:
        client.state["own"] = own
