"""What notebook 06 sees: who can be told from a network, with and without a defense.

`Street` is the experiment that runs live: one client with 500 of 1,000 street digits, and an
attacker with clients of its own. `Defended` and `figure_6` read what `data/attacks` has recorded.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from .. import attacks, models, rounds
from ..distillation import match_gradients
from ..experiments import attack_studies
from ..methods.fedavg import average
from ..methods.shared import privacy
from ..papers import spread, weakest
from ..randomness import generator

DEFENSES = {
    "12 epochs": "no-defense", "4 epochs": "stopped-4", "2 epochs": "stopped-2",
    "batches of 128": "batches", "clipping alone": "clipping", "noise 0.3": "noise-0.3",
    "noise 1": "noise-1", "noise 3": "noise-3", "distillation": "distillation",
    "noise 1, batches of 128": "noise-1-batches",
}  # fmt: skip
NOISE = {"noise 0.3": (0.3, 32), "noise 1": (1.0, 32), "noise 3": (3.0, 32),
         "noise 1, batches of 128": (1.0, 128)}  # how much, and the batch  # fmt: skip
EPOCHS, IMAGES, DELTA = 12, 500, 1e-3
ATTACKS = {"lira": "ratio", "offline": "offline", "threshold": "threshold"}  # key -> in words


class Street:
    """The 1,000 bundled street digits, of which a client trains on some."""

    def __init__(self):
        self.pool, *self.norm = attack_studies.pool_of("street")

    def __len__(self) -> int:
        return len(self.pool)

    @cached_property
    def inputs(self) -> Tensor:
        """All images as networks see them: float32 [1000, channels, height, width]."""
        return attack_studies.alone(self.pool[:1], self.pool[:1], self.norm).inputs(self.pool.x)

    def half(self, seed: int) -> Tensor:
        """bool [1000]: which images the attacked client of this seed holds, a random half."""
        mixed = torch.randperm(len(self), generator=generator("half", seed))
        return mixed < len(self) // 2

    def upload(self, index: Tensor, number: int, way: str = "up") -> dict[str, Tensor]:
        """The weights that a client with the images `index` sends after round 1, 12 epochs.

        With `way` "down", those that it received before. `number` is the client's seed.
        """
        own = attack_studies.alone(self.pool[index], self.pool[:1], self.norm)
        heard = attack_studies.overheard(own, "fedavg", seed=number, **attack_studies.OVERFIT)
        return attacks.crossed(heard, "weights", client="victim", round_=1, way=way)

    def network(self, weights: Mapping[str, Tensor]):
        """The network that everybody knows, with these weights, ready to be asked."""
        layers = models.build("small_cnn", num_classes=10, generator=generator("layers"))
        return attacks.with_weights(layers, weights, training=False)

    def sureness(self, index: Tensor, number: int, way: str = "up") -> Tensor:
        """phi of all images under the network that such a client sends.

        float64 [1000, views]. There is one view, the image as it is; an attack may add others.
        """
        network = self.network(self.upload(index, number, way))
        return attacks.confidences(network, self.inputs, self.pool.y)


def recomputed(run, seed: int, **settings) -> tuple[Tensor, Tensor]:
    """FedLGD's server images from the uploads of round 1 alone, and those that it sent in round 2.

    Both float32 [n, channels, height, width], 0 to 255. `settings` make the federation small.
    """
    both = {"rounds": 2, "record": {"rounds": [1, 2]}}
    fed = run.federation("fedlgd", seed, **settings, **both)
    rounds.run(fed)
    heard, ids, scenario = fed.channel.messages, [c.id for c in fed.clients], fed.scenario
    before, _ = attacks.before_and_after(heard, client=ids[0], round_=1)

    def up(name: str) -> list:
        return [attacks.crossed(heard, name, client=id, round_=1) for id in ids]

    network = attacks.with_weights(fed.make(), before)
    pull = attacks.way_of(network, before, average(up("weights"), up("number of images")))
    there = attacks.crossed(heard, "virtual images", client=ids[0], round_=2, way="down")
    noise = torch.randn(there["x"].shape, generator=generator(seed, "server", "virtual"))
    moved = match_gradients(scenario.inputs(scenario.pixels(noise)), there["y"], network, pull,
                            steps=fed.method.global_steps)  # fmt: skip
    return scenario.pixels(moved["x"]), there["x"]


class Defended:
    """Recorded attacks on one client under each of DEFENSES; each is judged by its best attack."""

    def __init__(self, studies: Mapping[str, dict]):
        self.studies = dict(studies)

    def best(self, name: str, key: str) -> str:
        """Which of ATTACKS finds most on average; key: "auc" or "tpr"."""
        return max(ATTACKS, key=lambda kind: np.mean(self.studies[name][kind][key]))

    def of(self, name: str, key: str) -> np.ndarray:
        """[networks]: "accuracy", or "auc" or "tpr" of the best attack."""
        s = self.studies[name]
        return np.array(s["accuracy"] if key == "accuracy" else s[self.best(name, key)][key])

    def less(self, key: str, one: str, other: str) -> np.ndarray:
        """In points: `one` less `other`, network by network."""
        return 100 * (self.of(one, key) - self.of(other, key))

    def table(self) -> pd.DataFrame:
        """Accuracy, the two measures of the best attack, which it is, and epsilon."""
        rows = {
            name: {
                "accuracy (%)": spread(100 * self.of(name, "accuracy"), 0),
                "found at 1 % (%)": spread(100 * self.of(name, "tpr"), 0),
                "AUC (%)": spread(100 * self.of(name, "auc"), 0),
                "best attack, by AUC": ATTACKS[self.best(name, "auc")],
                "epsilon": f"{epsilon(*NOISE[name]):.1f}" if name in NOISE else "no promise",
            }
            for name in self.studies
        }
        return pd.DataFrame(rows).T.rename_axis("defense")

    def curves(self) -> dict:
        """Panel -> defense -> (accuracies, what is found), for `figures.against_accuracy`."""
        panels = {"members found at 1 % false alarms (%), lower is better": "tpr",
                  "area under the ROC curve (%), lower is better": "auc"}  # fmt: skip
        return {words: {name: (self.of(name, "accuracy"), self.of(name, key))
                        for name in self.studies} for words, key in panels.items()}  # fmt: skip


def epsilon(noise: float, batch: int) -> float:
    """What DP-SGD promises the client of this notebook after its 12 epochs, at DELTA."""
    steps = EPOCHS * math.ceil(IMAGES / batch)
    return privacy.sgd_epsilon(noise=noise, steps=steps, rate=batch / IMAGES, delta=DELTA)


def most_found(epsilon: float, alarms: float = 0.01) -> float:
    """The share of members that no attack exceeds with this share of false alarms, at DELTA.

    Above 1 the promise forbids nothing.
    """
    return math.exp(epsilon) * alarms + DELTA


def figure_6(study: Mapping[str, Mapping]) -> pd.DataFrame:
    """A row per kind of training and client: the last upload, and the server's weights early."""
    rows = {}
    for words, clients in study.items():
        for client, ways in clients.items():
            for moment in sorted(ways["up"], key=int):
                up, down = ways["up"][moment], ways["down"][moment]
                rows[words, client, int(moment)] = {
                    "upload, accuracy": spread(up["accuracy"]), "AUC": spread(up["auc"]),
                    "server's weights, accuracy": spread(down["accuracy"]),
                    "their AUC": spread(down["auc"]),
                }  # fmt: skip
    return pd.DataFrame(rows).T.rename_axis(["trained by", "client", "round"])


def last_upload(study: Mapping[str, Mapping], key: str = "auc", *,
                way: str = "up") -> dict[str, np.ndarray]:  # fmt: skip
    """Kind of training -> [clients, seeds], of the upload of the last round.

    With `way` "down", of the server's weights as that round begins.
    """
    return {words: np.array([ways[way][max(ways[way], key=int)][key]
                             for ways in clients.values()])
            for words, clients in study.items()}  # fmt: skip


def apart(study: Mapping[str, Mapping], one: str, other: str, *, way: str,
          nearest: bool) -> dict[str, np.ndarray]:  # fmt: skip
    """`one` less `other` in points, mean over clients: "accuracy" and "auc" -> [seeds].

    way: "up" for uploads, "down" for the server's weights. `other` is attacked in its last round.
    `one` is, too, or with `nearest` in that of its observed rounds whose accuracy on the client,
    mean over seeds, is nearest to it.
    """
    found = {"accuracy": [], "auc": []}
    for client, ways in study[other].items():
        last = ways[way][max(ways[way], key=int)]
        there = study[one][client][way]
        here = there[max(there, key=int)]
        if nearest:
            here = there[_nearest(there, last)]
        for key, values in found.items():
            values.append(100 * np.subtract(here[key], last[key]))
    return {key: np.mean(values, 0) for key, values in found.items()}


def _nearest(moments: Mapping[str, dict], last: dict) -> str:
    """Which round of `moments` is nearest in accuracy to `last`, mean over seeds."""
    level = np.mean(last["accuracy"])
    return min(moments, key=lambda moment: abs(np.mean(moments[moment]["accuracy"]) - level))


def nearest_rounds(study: Mapping[str, Mapping], one: str, other: str, *, way: str) -> list[int]:
    """The rounds of `one` that `apart` takes with `nearest`; one of them if clients agree."""
    return sorted({int(_nearest(study[one][client][way], ways[way][max(ways[way], key=int)]))
                   for client, ways in study[other].items()})  # fmt: skip


def least_lead(study: Mapping[str, Mapping], way: str = "up") -> tuple[str, np.ndarray]:
    """FedAvg's AUC less FedLGD's in points, last round: the client that decides, and [seeds].

    way: "up" for a client's upload, "down" for the server's weights, which the paper attacks.
    """
    last = last_upload(study, way=way)
    leads = dict(zip(study["FedAvg"], 100 * (last["FedAvg"] - last["FedLGD"]), strict=True))
    decides = weakest(leads)
    return decides, leads[decides]


def roc_points(scores: Sequence[float], member: Sequence[bool]) -> tuple[list, list]:
    """False alarms and members found, both from 0 to 1, for every threshold from high to low."""
    order = np.argsort(-np.asarray(scores), kind="stable")
    hit = np.asarray(member, bool)[order]
    alarms = np.concatenate([[0], np.cumsum(~hit) / max(1, (~hit).sum())])
    found = np.concatenate([[0], np.cumsum(hit) / max(1, hit.sum())])
    return alarms.tolist(), found.tolist()
