"""What each paper sends, attacked: membership of the first client's images, message by message.

Studies of notebook 06, section 6, like those of `attack_studies.py`. The attacker asks about
`Candidates`; each attack reads one kind of message of the last round and returns a score for each
of them.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from .. import losses
from ..attacks import membership, record
from ..federation import Federation
from .attack_studies import played_by_recipe


class Candidates(NamedTuple):
    """Images as networks see them: those asked about, and the attacker's own for reference."""

    x: Tensor
    y: Tensor
    member: Tensor  # bool: the truth
    x_own: Tensor
    y_own: Tensor


def papers(*, seeds: Sequence[int], clients: Sequence[str], private_size: int,
           settings: dict) -> dict:  # fmt: skip
    """Area under the ROC curve of every attack in `ATTACKS`: words -> one per seed.

    The others are four fifths of the first client's test images; the rest is the attacker's own.
    """
    found = {}
    for seed in seeds:
        for method, attacks in ATTACKS.items():
            changes = {"virtual_ipc": 10} if method == "fedlgd" else {}
            fed = played_by_recipe(method, {
                **settings, **changes, "scenario.private_size": private_size,
                "scenario.split_seed": seed}, seed=seed, clients=clients)  # fmt: skip
            asked = _candidates(fed)
            for name, attack in attacks.items():
                area = membership.auc(attack(fed, asked, name), asked.member)
                found.setdefault(f"{method}: {name}", []).append(area)
    return found


def averages(*, seeds: Sequence[int], clients: Sequence[str], private_size: int,
             sizes: Sequence[int], rounds: int) -> dict:  # fmt: skip
    """RepShare's observations, means of `sizes` images, seen by a curious client.

    "auc": size -> one per seed, members of the mean against the client's other images, of which
    the attacker does not know which is which. "accuracy": size -> one per seed, of the two clients
    at home, at the end.
    """
    found, learned = {}, {}
    for seed in seeds:
        for size in sizes:
            fed = played_by_recipe("repshare", {
                "rounds": rounds, "scenario.private_size": private_size, "repshare.n_avg": size,
                "scenario.split_seed": seed}, seed=seed, clients=clients)  # fmt: skip
            victim, test = fed.clients[0], fed.scenario.tests[fed.clients[0].domain]
            asked = Candidates(fed.scenario.inputs(victim.private.x), victim.private.y,
                               _averaged_images(fed, victim),
                               fed.scenario.inputs(test.x), test.y)  # fmt: skip
            scores = from_means(fed, asked, "observations")
            found.setdefault(str(size), []).append(membership.auc(scores, asked.member))
            matrix = fed.history["accuracy"][-1]["matrix"]
            learned.setdefault(str(size), []).append(float(np.diag(matrix).mean()))
    return {"auc": found, "accuracy": learned}


def from_weights(fed: Federation, asked: Candidates, name: str) -> Tensor:
    """The confidence of the network that was sent."""
    network = record.with_weights(fed.make(), _sent(fed, name))
    return membership.confidences(network, asked.x, asked.y)[:, 0]


def from_answers(fed: Federation, asked: Candidates, name: str) -> Tensor:
    """The confidence of a copy that answers public images as the first client does, less that of
    a copy of the other client's answers."""
    scores = []
    for client in fed.clients[:2]:
        targets = [[m.payload for m in fed.channel.messages
                    if (m.name, m.source) == (part, client.id)]
                   for part in name.split(" and ")]  # fmt: skip
        scores.append(membership.confidences(_copy(fed, targets), asked.x, asked.y)[:, 0])
    return scores[0] - scores[1]


def from_prototypes(fed: Federation, asked: Candidates, name: str) -> Tensor:
    """How far logits lean towards the prototype, seen through the teacher that the server sends."""
    state = _sent(fed, "teacher", way="down")
    teacher = record.with_weights(fed.make(), state, training=False)
    return _in_means(teacher, asked, _sent(fed, name))


def from_means(fed: Federation, asked: Candidates, name: str) -> Tensor:
    """How far features lean towards the mean, seen through the other client's own network."""
    sent = _sent(fed, name)
    means = sent["observations"][0] if name == "observations" else sent
    return _in_means(fed.clients[1].model.eval().features, asked, means)


ATTACKS = {  # method -> what it sends up -> who reads it
    "fedavg": {"weights": from_weights},
    "fccl": {"logits": from_answers},
    "fccl+": {"logits": from_answers, "logits and similarities": from_answers},
    "fedcsd": {"weights": from_weights, "prototypes": from_prototypes},
    "repshare": {"means": from_means, "observations": from_means},
    "fedlgd": {"weights": from_weights},
}


def _candidates(fed: Federation) -> Candidates:
    data, private = fed.scenario, fed.clients[0].private
    test = data.tests[fed.clients[0].domain]
    spare = len(test) // 5
    x = data.inputs(torch.cat([private.x, test.x[spare:]]))
    y = torch.cat([private.y, test.y[spare:]])
    member = torch.arange(len(y)) < len(private)
    return Candidates(x, y, member, data.inputs(test.x[:spare]), test.y[:spare])


def _sent(fed: Federation, name: str, way: str = "up"):
    """What crossed between the first client and the server in the last round."""
    return record.crossed(fed.channel.messages, name, client=fed.clients[0].id, round_=fed.round_,
                          way=way)  # fmt: skip


@torch.no_grad()
def _in_means(look: Callable, asked: Candidates, means: Tensor) -> Tensor:
    """`in_mean` class by class; the reference is the mean of the attacker's own images of it."""
    h, h_own = look(asked.x), look(asked.x_own)
    scores = torch.zeros(len(asked.y), dtype=torch.float64)
    for c in asked.y.unique():
        one, reference = asked.y == c, h_own[asked.y_own == c].mean(0)
        scores[one] = membership.in_mean(h[one], means[c], reference)
    return scores


def _copy(fed: Federation, targets: list):
    """A network that answers public images as the messages do; from weights of its own.

    `targets`: logits, and similarities or not, batch by batch. Which images are in a batch is
    common knowledge.
    """
    public, orders = fed.scenario.normalize(fed.scenario.public.x), fed.public_batches(fed.round_)
    copy = fed.make()
    optimizer = torch.optim.Adam(copy.parameters(), lr=3e-3)
    for _ in range(10):
        for k, index in enumerate(orders):
            h = copy.features(public[index])
            z = copy.classifier(h)
            loss = -(targets[0][k].softmax(1) * log_softmax(z, 1)).sum(1).mean()
            if len(targets) > 1:
                own = losses.without_diagonal(losses.instance_similarity(h, mu=0.02))
                loss = loss + losses.instance_similarity_loss(own, targets[1][k])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return copy


def _averaged_images(fed: Federation, client) -> Tensor:
    """The truth for `averages`: which images were in the client's last observation."""
    client.begin_round(client.round_)  # so that it draws once more what it drew
    inside = torch.zeros(len(client.data), dtype=torch.bool)
    inside[fed.method.some_of_each(client)] = True
    return inside
