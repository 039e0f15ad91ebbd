"""RepShare: clients show each other what a class looks like in their last hidden layer.

Berdoz, Singh, Jaggi and Raskar, "Scalable Collaborative Learning via Representation Sharing",
2022, Algorithms 1 and 2. Local objective: L_CE + lambda_kd L_KD + lambda_disc L_disc (Eq. 6). L_KD
pulls features towards the mean of their class over all clients; L_disc asks the classifier whether
a feature and an observation, the mean of n_avg features of another client, are of one class (Eq. 5
and 7). The server averages class means and passes observations on; networks stay at home. Line
numbers below count the lines of Algorithm 1 from "u downloads" on.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import torch
from pydantic import NonNegativeFloat, PositiveInt
from torch import Tensor
from torch.nn.functional import one_hot

from .. import losses
from ..engine.batches import all_of
from ..randomness import on_device
from .base import Method, register
from .fedavg import WEIGHTING
from .shared import first_round, observations, peers, privacy
from .shared.class_means import collect_means, global_means
from .shared.prototypes import require_equal_features

READINGS = {  # name: L_KD, L_disc
    "paper": (losses.representation_distance, losses.discriminator_loss),
    "code": (losses.prototype_distance, losses.discriminator_loss_code),
}
TOPOLOGIES = {  # name: how observations come to others
    "server": observations,  # a server relays them, and averages class means (Algorithm 1)
    "peer": peers,  # clients ask each other, and average what arrived (Sec. 3, relaxation)
}


@register("repshare")
@dataclass
class RepShare(Method):
    """Default: the paper's sums. reading = "code": the author's means over features and classes.

    An observation is that of another client, drawn anew in each round, and all of its classes are
    that client's (Sec. 4, "another user chosen at random"). Algorithm 1 draws from buffers, one per
    class, which one's own observations are in, too: exclude_self = False, draw = "classes". The
    author's code draws one client, perhaps oneself: exclude_self = False, draw = "client". Pairs
    with a class that the drawn client lacks add 0, and so does all of L_disc while nobody else has
    sent anything.

    Networks may differ in everything but the number of features. Whoever sits out a round is
    represented by what it sent last. A class that a client lacks counts for nothing; where nobody
    has a class, its terms are 0. A client with fewer than n_avg images of a class averages them
    all (ours). Features are computed after local training, in evaluation mode, as in the author's
    code. Both weights 0 are `solo`, also for the running statistics of batch norm, which stay at
    home; a weight of 0 also saves the messages that only its term needs.

    Beside Algorithm 1 lie other ways to begin (`shared/first_round.py`), clients without a server
    (`shared/peers.py`) and the privacy that Sec. 3 proposes (`shared/privacy.py`).
    """

    # Sec. 4, times sums over features and over classes, as printed. The author's code takes means,
    # so its 10 and 1 are 10 / d and 1 / C of these: with LeNet5 (d = 84) and C = 10 classes the
    # printed weights are 84 and 10 times stronger, and a learning rate that suits cross-entropy can
    # end in nan
    lambda_kd: NonNegativeFloat = 10.0
    lambda_disc: NonNegativeFloat = 1.0
    n_avg: PositiveInt = 10  # images per observation, Sec. 4
    m_up: PositiveInt = 1  # observations per class that a client sends, Sec. 4
    m_down: PositiveInt = 1  # observations per class that a client receives, Sec. 4
    reading: Literal[*READINGS] = "paper"  # see READINGS
    exclude_self: bool = True  # Sec. 4: another user's (Algorithm 1, author's code: anybody's)
    draw: Literal[*observations.DRAWS] = "client"  # Sec. 4: all classes of one (Algorithm 1: each)
    topology: Literal[*TOPOLOGIES] = "server"
    first: Literal[*first_round.FIRST] = "random"
    weighting: Literal[*WEIGHTING] = "samples"  # App. A.1; "uniform": Sec. 4, clients count alike
    clip: NonNegativeFloat = 0.0  # 0: none
    noise: NonNegativeFloat = 0.0  # 0: none
    levels: list = field(default_factory=lambda: [1.0])

    def __post_init__(self):
        super().__post_init__()
        privacy.require_privacy(self)

    @property
    def if_diverged(self) -> str:
        advice = "lower the learning rate, lambda_kd or lambda_disc"
        if self.reading == "paper":
            advice += ', or set reading = "code": means in place of sums over features and classes'
        return advice

    def start(self, fed):
        features = require_equal_features(fed)
        if self.needs_observations():
            observations.require_enough(fed, self)
        fed.ask(fed.clients, privacy.deal_levels, self.levels)
        first_round.begin(fed, self, features)

    def collaborate(self, fed, clients):  # line 1: u downloads class means and observations
        fed.ask(clients, self.forget_last_round)
        if self.needs_observations():
            TOPOLOGIES[self.topology].deal(fed, clients, self)
        if self.needs_means() and (means := global_means(fed)):
            fed.download(clients, "global means", self.receive, means)

    def needs_means(self) -> bool:
        return self.lambda_kd > 0 and self.topology == "server"

    def needs_observations(self) -> bool:
        """For L_disc, and among peers for L_KD too."""
        return self.lambda_disc > 0 or (self.lambda_kd > 0 and self.topology == "peer")

    def forget_last_round(self, client) -> None:
        client.state["received"] = {}

    def receive(self, client, sent: dict) -> None:
        client.state["received"] |= sent

    def local_loss(self, client, x, y):  # line 2: Algorithm 2
        s = client.model.features(x)
        z, received = client.model.classifier(s), client.state["received"]
        distance, contrast = READINGS[self.reading]
        l_kd = l_disc = 0.0
        if "means" in received:
            l_kd = distance(s, y, received["means"], received["owned"])
        if "observed" in received and self.lambda_disc:
            t, known = received["observed"], received["known"]
            z_t = client.model.classifier(t)  # the gradient passes here, too
            m = torch.randint(len(t), (len(y),), generator=client.generator("observation"))
            m = on_device(m, y.device) if len(t) > 1 else 0
            l_disc = contrast(z, y, z_t[m], known[m])
        return losses.repshare_loss(
            z, y, l_kd, l_disc, lambda_kd=self.lambda_kd, lambda_disc=self.lambda_disc
        )

    def aggregate(self, fed, clients):
        first_round.forget_random(fed)
        fed.ask(clients, self.average_features)
        if self.needs_means():  # lines 3 and 5: class means go up; `global_means` averages them
            collect_means(fed, clients, weighting=self.weighting)
        if self.needs_observations():  # lines 4 and 6: they go up, into the buffers of the classes
            TOPOLOGIES[self.topology].collect(fed, clients)

    @torch.no_grad()
    def average_features(self, client) -> None:
        """The client computes what it will send: class means, and m_up observations of each."""
        network, data = client.model.eval(), client.data
        s = torch.cat([network.features(x) for x in all_of(client, data)])  # [n, d]
        network.train()
        mean = partial(privacy.released, client, s, clip=self.clip, noise=self.noise)
        weights = privacy.class_weights(client).to(s.dtype)
        if self.needs_means():
            everything = torch.arange(len(s), device=s.device)
            client.held |= {"means": mean(everything), "weights": weights}
        if self.needs_observations():
            drawn = [self.some_of_each(client) for _ in range(self.m_up)]
            shown = torch.stack([mean(index) for index in drawn])
            client.held["observations"] = {"observations": shown, "owned": weights > 0}

    def some_of_each(self, client) -> Tensor:
        """Indices of n_avg images of each class, drawn without replacement; all if fewer."""
        y, classes = client.data.y, client.scenario.num_classes
        order = torch.randperm(len(y), generator=client.generator("n_avg")).to(y.device)
        order = order[client.state["levels"][order] > 0]  # level 0: never shared
        rank = one_hot(y[order], classes).cumsum(0)
        return order[rank.gather(1, y[order][:, None])[:, 0] <= self.n_avg]

    spent = privacy.spent  # what its messages have cost a client in privacy
