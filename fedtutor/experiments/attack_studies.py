"""The long experiments of notebook 06: who is attacked, with what, and what comes out.

Each study plays both sides. The client's side is a federation whose channel is recorded; the
attacker's side gets the recorded messages, candidate images and what is common knowledge. Returns
plain numbers. Which of them at which settings stands in `attack_list.py`; those that compare what
the five papers send are in `attack_messages.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np
import torch

from .. import methods
from ..attacks import inversion, membership, quality, record
from ..channel import Message
from ..datasets import bundled
from ..datasets.sources import open_set
from ..distillation import prepare
from ..federation import Federation
from ..images import Images
from ..measures import accuracy
from ..methods.fedavg import FedAvg
from ..methods.shared import privacy
from ..randomness import generator
from ..rounds import run
from ..scenarios.base import ClientData, Scenario
from ..scenarios.common import DIGITS, HALF, IMAGENET
from ..settings import Settings
from . import recipes

RATES = [float(f"{10 ** (k / 8):.4g}") for k in range(-20, 1)]  # false positives of a stored curve
OVERFIT = {"models": ["small_cnn"], "rounds": 1, "local_epochs": 12, "batch_size": 32, "lr": 0.01,
           "momentum": 0.9, "record": {"rounds": [1]}}  # fmt: skip


@dataclass
class PrivateFedAvg(FedAvg):
    """FedAvg whose clients take steps of DP-SGD (`privacy.private_loss`)."""

    name = "dp-fedavg"
    clip: float = 1.0
    noise: float = 1.0

    def local_loss(self, client, x, y):
        return privacy.private_loss(client.model, x, y, clip=self.clip, noise=self.noise,
                                    generator=client.generator("privacy"))  # fmt: skip


def pool_of(name: str) -> tuple[Images, tuple, tuple]:
    """Candidate images, and mean and deviation of their pixels.

    "street" and "synthetic" are bundled, 1,000 images each; "mnist" is the bundled sample,
    "cifar10" the training set.
    """
    if name == "cifar10":
        return open_set("cifar10", "train").take(None, size=32, channels=3), *HALF
    if name == "mnist":
        return bundled.to_rgb(bundled.pad(bundled.mnist_sample(), 32)), *IMAGENET
    return bundled.bundled(name), *IMAGENET


def alone(images: Images, others: Images, norm: tuple) -> Scenario:
    """A federation's only client with `images`; `others` are its test set."""
    mean, std = norm
    return Scenario(
        name="one client", title="one client", num_classes=10,
        clients=(ClientData("victim", "all", images),), tests={"all": others}, public=None,
        mean=mean, std=std, stand_in=True, class_names=DIGITS,
    )  # fmt: skip


def played(scenario: Scenario, method, *, seed: int, artifacts=None, device="cpu",
           threads: int = 1, **settings) -> Federation:  # fmt: skip
    """A federation in which `method` (its name, or one that is made) was run.

    It knows more than what crossed: for clients, and for whoever checks an attack.
    """
    made = methods.make(method) if isinstance(method, str) else method
    fed = Federation(scenario, made, Settings(**settings), seed=seed, artifacts=artifacts,
                     device=device, threads=threads)  # fmt: skip
    run(fed)
    return fed


def overheard(scenario: Scenario, method, *, seed: int, **options) -> list[Message]:
    """What crossed while `method` was run: all that an attacker gets. `options` as of `played`."""
    return played(scenario, method, seed=seed, **options).channel.messages


def played_by_recipe(method: str, overrides: dict, *, seed: int, clients: Sequence[str] = (),
                     profile: str = "quick", scenario: str | None = None,
                     record: dict | None = None, **options) -> Federation:  # fmt: skip
    """`played` at the settings of the recipe `attacks`, with these `clients` alone, or with all.

    `record`: what is kept of the channel; all of the last round where nothing is said.
    """
    recipe = recipes.load("attacks", profile=profile, scenario=scenario, overrides=overrides)
    data = recipe.build(seed)
    if clients:
        kept = tuple(client for client in data.clients if client.id in clients)
        tests = {c.domain: data.tests[c.domain] for c in kept}
        data = replace(data, clients=kept, tests=tests)
    record = record or {"rounds": [recipe.settings.rounds]}
    settings = {**vars(recipe.settings_of(method)), "record": record}
    return played(data, recipe.make(method), seed=seed, **options, **settings)


def likelihood(*, pool: str, networks: int, targets: int, private: dict | None = None,
               settings: dict | None = None, curves: bool = False,
               threads: int = 1) -> dict:  # fmt: skip
    """LiRA on what a client uploads in round 1; the attacker repeats all that the client did.

    Half of `pool` are members, drawn anew for each target. `private`: clip and noise of DP-SGD;
    `settings`: changes of `OVERFIT`. Every shadow network is a client that the attacker plays, so
    it knows the defense. Returns one number per target. Found is what `membership.tpr_at` says at
    1 %, and at 0.1 % where enough others are there; with `curves`, the curves at `RATES`, too.
    """
    images, mean, std = pool_of(pool)
    view = alone(images[:1], images[:1], (mean, std))  # how pixels are scaled
    x = torch.cat([view.inputs(part) for part in images.x.split(1000)])
    options = {**OVERFIT, **(settings or {})}

    def uploaded(index, number, who="shadow"):
        """[n, 2]: confidence of every image, and whether the network gets it right."""
        method = PrivateFedAvg(**private) if private else FedAvg()
        own = alone(images[index], images[:1], (mean, std))
        seed = 1000 * (who == "target") + number
        fed = played(own, method, seed=seed, **options)
        weights = record.crossed(fed.channel.messages, "weights", client="victim", round_=1)
        network = record.with_weights(fed.make(), weights, training=False)
        with torch.no_grad():
            z = torch.cat([network(part) for part in x.split(500)])
        right = z.argmax(1) == images.y
        return torch.stack([membership.confidence(z, images.y), right.double()], 1)

    keep = membership.coins(networks, len(images), seed=0)
    order = [torch.randperm(len(images), generator=generator("halves", k)) for k in range(targets)]
    halves = torch.stack([half < len(images) // 2 for half in order])
    phi = membership.shadows(keep, uploaded, threads=threads)[..., :1]
    own = membership.shadows(halves, partial(uploaded, who="target"), threads=threads)
    ratio = partial(membership.lira, shadow=phi, keep=keep, fixed_variance=True)
    found = {"accuracy": [float(own[k, ~halves[k], 1].mean()) for k in range(targets)]}
    for name, attack in (("lira", ratio), ("offline", partial(ratio, online=False)),
                         ("threshold", lambda target: target[:, 0])):  # fmt: skip
        scores = [attack(target) for target in own[..., :1]]
        found[name] = summary(list(zip(scores, halves, strict=True)), curves)
    return found


def summary(pairs: Sequence[tuple], curves: bool = True) -> dict:
    """AUC, TPR at 1 % false positives and the curve: lists with one entry per attack."""
    found = {"auc": [membership.auc(*pair) for pair in pairs],
             "tpr": [membership.tpr_at(*pair) for pair in pairs]}  # fmt: skip
    if min(int((~member).sum()) for _, member in pairs) >= 10_000:
        found["tpr 0.1 %"] = [membership.tpr_at(*pair, 0.001) for pair in pairs]
    if curves:
        found["curve"] = [np.interp(RATES, *membership.roc(*pair)).round(4).tolist()
                          for pair in pairs]  # fmt: skip
    return found


def figure_six(*, seeds: Sequence[int], scenario: str, clients: Sequence[str], variants: dict,
               moments: Sequence[int], settings: dict, profile: str = "quick",
               everyone: bool = False, most: int | None = None, device="cpu",
               threads: int = 1) -> dict:  # fmt: skip
    """FedLGD's Fig. 6: gradients of single images under a network that crossed, and kernels.

    `variants`: words -> [method, changes of the recipe `attacks`]. `moments`: rounds whose weights
    are attacked, "down" (what the server sent) and "up" (what the client sent); those beyond the
    last round are left out. Members are a client's private images, the others are its test images.
    Attacked are `clients`, as far as the scenario has them, and `most` of their members and others;
    they alone take part, or `everyone`.
    Returns words -> client -> "down" or "up" -> round -> summary, and accuracies beside.
    """
    found, artifacts = {}, {}
    kept = {"names": ["weights"], "rounds": list(moments), "clients": list(clients)}
    for words, (method, changes) in variants.items():
        attacks = {}  # (client, way, round) -> one per seed
        for seed in seeds:
            fed = played_by_recipe(
                method, {**changes, **settings}, seed=seed, clients=() if everyone else clients,
                profile=profile, scenario=scenario, record=kept, artifacts=artifacts,
                device=device, threads=threads,
            )  # fmt: skip
            asked = [moment for moment in moments if moment <= fed.settings.rounds]
            attacked = [client for client in fed.clients if client.id in clients]
            for client, way, moment in product(attacked, ("down", "up"), asked):
                state = record.crossed(fed.channel.messages, "weights", client=client.id,
                                       round_=moment, way=way)  # fmt: skip
                one = _gradient_attack(record.with_weights(fed.make(), state), fed.scenario, client,
                                       seed, most)  # fmt: skip
                attacks.setdefault((client.id, way, str(moment)), []).append(one)
        rows = found[words] = {}
        for (client, way, moment), per_seed in attacks.items():
            rows.setdefault(client, {}).setdefault(way, {})[moment] = {
                "accuracy": [accuracy for *_, accuracy in per_seed],
                **summary([(scores, member) for scores, member, _ in per_seed]),
            }  # fmt: skip
    return found


def _gradient_attack(network, data: Scenario, client, seed: int, most: int | None) -> tuple:
    """(scores, member, accuracy on the others)."""
    parts = client.private, data.tests[client.domain]
    if most is not None:
        draws = [torch.randperm(len(part), generator=generator(seed, "attacked"))[:most]
                 for part in parts]  # fmt: skip
        parts = tuple(part[draw.to(part.y.device)] for part, draw in zip(parts, draws, strict=True))
    x = data.inputs(torch.cat([part.x for part in parts]))
    y = torch.cat([part.y for part in parts])
    member = torch.arange(len(y)) < len(parts[0])
    features = membership.gradient_norms(network, x, y).cpu()
    scores = membership.kernel_attack(features, member, seed=seed)
    with torch.no_grad():
        return scores, member, accuracy(network.eval(), parts[1], data)


def raw_and_distilled(*, pool: str, seed: int, network: str, held: int = 50, steps: int = 400,
                      pictures: bool = False) -> dict:  # fmt: skip
    """FedLGD's Fig. 7: one step of a client is inverted, on a private image and on a virtual one.

    The client holds `held` images of one class, `seed` % 10. Raw: it trains on the first (FedAvg).
    Distilled: on one virtual image made of all (FedLGD, round 1, which is selected). What the
    client trained on is `used`; as many others of the class are unseen. Returns measures, and with
    `pictures` images with pixels from 0 to 1, too.
    """
    images, *norm = pool_of(pool)
    rows = (images.y == seed % 10).nonzero()[:, 0]
    rows = rows[torch.randperm(len(rows), generator=generator("one class", seed))]
    private, others = images[rows[:held]], images[rows[held : 2 * held]]
    lgd = {"virtual_ipc": 1, "virtual_steps": 100, "virtual_lr": 1.0, "virtual_batch": 16}
    runs = {
        "raw": (private[:1], methods.make("fedavg"), {}),
        "distilled": (private, methods.make("fedlgd", local_steps=10, global_steps=0), lgd),
    }

    def unit(data):
        return quality.unit(alone(private, others, norm).inputs(data.x), *norm)

    def far(x, some):
        return float(quality.nearest(x, some)[0])

    def first(measures):
        return {name: float(values[0]) for name, values in measures.items()}

    numbers, shown, originals, unseen = {}, {}, unit(private), unit(others)
    for words, (data, method, settings) in runs.items():
        fed = played(alone(data, others, norm), method, seed=seed, models=[network], rounds=1,
                     batch_size=32, lr=0.1, record={"rounds": [1]}, **settings)  # fmt: skip
        used = unit(method.local_data(fed.clients[0]))
        found = _inverted(fed.channel.messages, fed.make(), norm, steps=steps, seed=seed)
        x = quality.unit(found.x, *norm)
        numbers[words] = {
            "cost": found.cost, "label": bool(found.y[0] == private.y[0]),
            "to used": first(quality.qualities(x, used)),
            "to a private image": first(quality.qualities(x, originals[:1])),
            "nearest private": far(x, originals), "nearest unseen": far(x, unseen),
            "used to nearest private": far(used, originals),
            "used to nearest unseen": far(used, unseen),
        }  # fmt: skip
        nearest = originals[quality.nearest(x, originals)[1][0]]
        shown[words] = {"used": used[0], "found": x[0], "nearest": nearest}
    return (numbers, shown) if pictures else numbers


def _inverted(messages: list[Message], layers, norm, *, steps: int, seed: int):
    """The attacker's side: weights before and after, and what everybody knows."""
    before, after = record.before_and_after(messages, client="victim", round_=1)
    network = record.with_weights(layers, before)
    way = record.way_of(network, before, after)
    y = inversion.labels_from(network, way)
    return inversion.invert(network, way, y, mean=norm[0], std=norm[1], steps=steps, seed=seed)


def many_pictures(*, seeds: Sequence[int], **options) -> dict:
    """`raw_and_distilled` for every seed: lists of measures."""
    return {"seeds": [raw_and_distilled(seed=seed, **options) for seed in seeds]}


def memory(*, seeds: Sequence[int], pool: str, ipc: int, inits: Sequence[str],
           settings: dict) -> dict:  # fmt: skip
    """What distilled images remember: FedLGD's local images of half of a pool.

    init -> "auc" of nearness to the nearest distilled image as membership score, "private" and
    "unseen": median squared distance of the distilled images to the nearest image that was
    distilled, and to the nearest that was not. One per seed; nothing of this crosses the channel.
    """
    images, mean, std = pool_of(pool)
    found = {init: {"auc": [], "private": [], "unseen": []} for init in inits}
    for seed in seeds:
        order = torch.randperm(len(images), generator=generator("memory", seed))
        member = order < len(images) // 2
        scenario = alone(images[member], images[~member], (mean, std))
        pixels = quality.unit(scenario.inputs(images.x), mean, std)
        for init in inits:
            options = Settings(**{**settings, "virtual_ipc": ipc}, virtual_init=init,
                               models=["small_convnet"])  # fmt: skip
            fed = Federation(scenario, FedAvg(), options, seed=seed)
            with fed.workers():
                prepare(fed)
            x = quality.unit(scenario.inputs(fed.clients[0].data.x), mean, std)
            near = -quality.nearest(pixels, x)[0]
            row = found[init]
            row["auc"].append(membership.auc(near, member))
            for name, part in (("private", pixels[member]), ("unseen", pixels[~member])):
                row[name].append(float(quality.nearest(x, part)[0].median()))
    return found
