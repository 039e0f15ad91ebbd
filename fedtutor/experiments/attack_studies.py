"""The long experiments of notebook 06: who is attacked, with what, and what comes out.

Each function plays both sides. The client's side is a federation whose channel is recorded; the
attacker's side gets the recorded messages, candidate images and what is common knowledge. Returns
plain numbers for `kept`. Which of them at which settings stands in `attack_list.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch.nn.functional import log_softmax

from .. import losses, methods, models, scenarios
from ..attacks import inversion, membership, quality, record
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


# ---------------------------------------------------------------- the client's side


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


def only(scenario: Scenario, clients: Sequence[str]) -> Scenario:
    """`scenario` with these clients alone, and their test sets."""
    kept = tuple(client for client in scenario.clients if client.id in clients)
    return replace(scenario, clients=kept, tests={c.domain: scenario.tests[c.domain] for c in kept})


def overheard(scenario: Scenario, method, *, seed: int, artifacts=None, keep: bool = False,
              device="cpu", threads: int = 1, **settings):  # fmt: skip
    """Run `method` (its name, or one that is made) and return what crossed.

    With `keep`, the federation too: for whoever checks an attack, never for the attacker.
    """
    made = methods.make(method) if isinstance(method, str) else method
    fed = Federation(scenario, made, Settings(**settings), seed=seed, artifacts=artifacts,
                     device=device, threads=threads)  # fmt: skip
    run(fed)
    return (fed.channel.messages, fed) if keep else fed.channel.messages


# ---------------------------------------------------------------- likelihood ratios


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
    scenario = alone(images, images[:1], (mean, std))
    x = torch.cat([scenario.inputs(part) for part in images.x.split(1000)])
    options = {**OVERFIT, **(settings or {})}

    def uploaded(index, number, who="shadow"):
        """[n, 2]: confidence of every image, and whether the network gets it right."""
        method = PrivateFedAvg(**private) if private else FedAvg()
        own = alone(images[index], images[:1], (mean, std))
        seed = 1000 * (who == "target") + number
        messages = overheard(own, method, seed=seed, **options)
        weights = record.crossed(messages, "weights", client="victim", round_=1)
        network = record.with_weights(_network(options, scenario), weights, training=False)
        with torch.no_grad():
            z = torch.cat([network(part) for part in x.split(500)])
        right = z.argmax(1) == images.y
        return torch.stack([membership.confidence(z, images.y), right.double()], 1)

    keep = membership.coins(networks, len(images), seed=0)
    order = [torch.randperm(len(images), generator=generator("halves", k)) for k in range(targets)]
    halves = torch.stack([half < len(images) // 2 for half in order])
    phi = membership.shadows(keep, uploaded, threads=threads)[..., :1]
    own = membership.shadows(halves, partial(uploaded, who="target"), threads=threads)
    rows = {"lira": [], "offline": [], "threshold": []}
    for target, member in zip(own[..., :1], halves, strict=True):
        for name, online in (("lira", True), ("offline", False)):
            scores = membership.lira(target, phi, keep, online=online, fixed_variance=True)
            rows[name].append((scores, member))
        rows["threshold"].append((target[:, 0], member))
    accuracy = [float(own[k, ~halves[k], 1].mean()) for k in range(targets)]
    return {"accuracy": accuracy} | {name: summary(pairs, curves) for name, pairs in rows.items()}


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


def _network(settings: dict, scenario: Scenario):
    """The layers that everybody knows; its weights will be those of the record."""
    return models.build(settings["models"][0], num_classes=scenario.num_classes,
                        in_channels=scenario.channels, image_size=scenario.image_size,
                        generator=generator("layers"))  # fmt: skip


# ---------------------------------------------------------------- FedLGD's Fig. 6


def figure_six(*, seeds: Sequence[int], scenario: str, clients: Sequence[str], variants: dict,
               moments: Sequence[int], settings: dict, profile: str = "quick",
               everyone: bool = False, most: int | None = None, device="cpu",
               threads: int = 1) -> dict:  # fmt: skip
    """Gradients of single images under the server's network, and kernels; variant by variant.

    `variants`: words -> [method, changes of the recipe `attacks`]. `moments`: rounds whose weights
    are attacked, "down" (what the server sent) and "up" (what the client sent); those beyond the
    last round are left out. Members are a client's private images, the others are its test images.
    Attacked are `clients`, as far as the scenario has them, and `most` of their members and others;
    they alone take part, or `everyone`.
    Returns words -> client -> "down" or "up" -> round -> summary, and accuracies beside.
    """
    found, artifacts = {}, {}
    for words, (method, changes) in variants.items():
        rows = found[words] = {}
        for seed in seeds:
            recipe = recipes.load("attacks", profile=profile, scenario=scenario,
                                  overrides={**changes, **settings})  # fmt: skip
            asked = [moment for moment in moments if moment <= recipe.settings.rounds]
            data = scenarios.build(recipe.scenario, **recipe.scenario_options)
            attacked = [c for c in data.clients if c.id in clients]
            if not everyone:
                data = only(data, [c.id for c in attacked])
            made = methods.make(method, **recipe.methods[method])
            kept = {"names": ["weights"], "rounds": asked, "clients": [c.id for c in attacked]}
            options = {**vars(recipe.settings), "record": kept}
            messages = overheard(data, made, seed=seed, artifacts=artifacts, device=device,
                                 threads=threads, **options)  # fmt: skip
            network, data = _network(options, data).to(device), data.to(device)
            for client in data.clients:
                if client.id not in kept["clients"]:
                    continue
                for way in ("down", "up"):
                    for moment in asked:
                        state = record.crossed(messages, "weights", client=client.id,
                                               round_=moment, way=way)  # fmt: skip
                        one = _gradient_attack(record.with_weights(network, state), data,
                                               client, seed, most)  # fmt: skip
                        place = rows.setdefault(client.id, {}).setdefault(way, {})
                        place.setdefault(str(moment), []).append(one)
        for places in rows.values():
            for ways in places.values():
                for moment, pairs in ways.items():
                    ways[moment] = {"accuracy": [a for *_, a in pairs],
                                    **summary([pair[:2] for pair in pairs])}  # fmt: skip
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


# ---------------------------------------------------------------- what each paper sends


def papers(*, seeds: Sequence[int], clients: Sequence[str], private_size: int,
           settings: dict) -> dict:  # fmt: skip
    """Membership of the first client's images from what each method sends up in the last round.

    Weights: the confidence of the uploaded network. Logits (and similarities) on public images: the
    confidence of a copy that is trained to answer like them, less that of a copy of the *other*
    clients' answers. Prototypes and averaged features: `in_mean`, seen through the teacher that the
    server sends (FedCSD) or through another client's own network (RepShare); the reference is the
    mean of other images of the class. Returns words -> AUC, one per seed.
    """
    found = {}
    for seed in seeds:
        for method, changes in PAPERS.items():
            recipe = recipes.load("attacks", profile="quick", overrides={
                **settings, **changes, "scenario.private_size": private_size,
                "scenario.split_seed": seed})  # fmt: skip
            data = only(scenarios.build(recipe.scenario, **recipe.scenario_options), clients)
            kept = replace(recipe.settings, record={"rounds": [recipe.settings.rounds]})
            made = methods.make(method, **recipe.methods[method])
            messages, fed = overheard(data, made, seed=seed, keep=True, **vars(kept))
            for words, scores, member in _from(method, messages, fed, data, kept.rounds):
                found.setdefault(words, []).append(membership.auc(scores, member))
    return found


PAPERS = {"fedavg": {}, "fccl": {}, "fccl+": {}, "fedcsd": {}, "repshare": {},
          "fedlgd": {"virtual_ipc": 10}}  # fmt: skip


def _from(method, messages, fed, data, round_):
    """(words, scores, member) of every attack that applies to what `method` sends."""
    victim, other = data.clients[:2]
    test = data.tests[victim.domain]
    spare = len(test) // 5  # the attacker's own images of this kind, for references
    x = data.inputs(torch.cat([victim.private.x, test.x[spare:]]))
    y = torch.cat([victim.private.y, test.y[spare:]])
    member = torch.arange(len(y)) < len(victim.private)
    x_own, y_own = data.inputs(test.x[:spare]), test.y[:spare]
    network = fed.make()

    def up(name, client=victim):
        return record.crossed(messages, name, client=client.id, round_=round_)

    if method in ("fedavg", "fedcsd", "fedlgd"):
        sent = record.with_weights(network, up("weights"))
        yield f"{method}: weights", membership.confidences(sent, x, y)[:, 0], member
    if method in ("fccl", "fccl+"):
        public = data.normalize(data.public.x)
        orders = fed.public_batches(round_)  # common knowledge: all clients use it
        for parts in (("logits",), ("logits", "similarities"))[: 1 + (method == "fccl+")]:
            copies = [_copy(network, public, orders, [_all(messages, name, c, round_)
                                                      for name in parts])
                      for c in (victim, other)]  # fmt: skip
            scores = [membership.confidences(copy, x, y)[:, 0] for copy in copies]
            yield f"{method}: {' and '.join(parts)}", scores[0] - scores[1], member
    if method == "fedcsd":
        teacher = record.with_weights(
            network, record.crossed(messages, "teacher", client=victim.id, round_=round_,
                                    way="down"), training=False)  # fmt: skip
        with torch.no_grad():
            z, z_own = teacher(x), teacher(x_own)
        yield "fedcsd: prototypes", _in_means(z, y, up("prototypes"), z_own, y_own), member
    if method == "repshare":
        curious = next(c for c in fed.clients if c.id == other.id).model.eval()
        with torch.no_grad():
            h, h_own = curious.features(x), curious.features(x_own)
        for name in ("means", "observations"):
            sent = up(name)["observations"][0] if name == "observations" else up(name)
            yield f"repshare: {name}", _in_means(h, y, sent, h_own, y_own), member


def _in_means(h, y, means, h_own, y_own):
    scores = torch.zeros(len(y), dtype=torch.float64)
    for c in y.unique():
        reference = h_own[y_own == c].mean(0)
        scores[y == c] = membership.in_mean(h[y == c], means[c], reference)
    return scores


def _all(messages, name, client, round_):
    """Payloads of all messages of that name and round, batch by batch, in their order."""
    return [m.payload for m in messages
            if (m.name, m.source, m.round_) == (name, client.id, round_)]  # fmt: skip


def _copy(network, public, orders, targets, *, mu: float = 0.02, epochs: int = 10):
    """A network that answers public images as the messages do; from weights of its own."""
    copy = record.with_weights(network, network.state_dict())
    optimizer = torch.optim.Adam(copy.parameters(), lr=3e-3)
    for _ in range(epochs):
        for k, index in enumerate(orders):
            h = copy.features(public[index])
            z = copy.classifier(h)
            loss = -(targets[0][k].softmax(1) * log_softmax(z, 1)).sum(1).mean()
            if len(targets) > 1:
                own = losses.without_diagonal(losses.instance_similarity(h, mu=mu))
                loss = loss + losses.instance_similarity_loss(own, targets[1][k])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return copy


# ---------------------------------------------------------------- FedLGD's Fig. 7


def one_class(pool: str, seed: int, held: int) -> tuple[Images, Images, tuple]:
    """`held` images of class `seed` % 10, as many others of it, and the scale of pixels."""
    images, mean, std = pool_of(pool)
    rows = (images.y == seed % 10).nonzero()[:, 0]
    rows = rows[torch.randperm(len(rows), generator=generator("one class", seed))]
    return images[rows[:held]], images[rows[held : 2 * held]], (mean, std)


def raw_and_distilled(*, pool: str, seed: int, network: str, held: int = 50, steps: int = 400,
                      init: str = "statistics", pictures: bool = False) -> dict:  # fmt: skip
    """One step of a client is recorded and inverted: on a private image, and on a virtual one.

    The client holds `held` images of one class. Raw: it trains on the first (FedAvg). Distilled: on
    one virtual image made of all (FedLGD, round 1, which is selected). What the client trained on
    is `used`. Returns measures, and with `pictures` images with pixels from 0 to 1, too.
    """
    private, others, norm = one_class(pool, seed, held)
    common = {"models": [network], "rounds": 1, "batch_size": 32, "lr": 0.1,
              "record": {"rounds": [1]}}  # fmt: skip
    lgd = {"virtual_ipc": 1, "virtual_steps": 100, "virtual_lr": 1.0, "virtual_batch": 16,
           "virtual_init": init}  # fmt: skip
    runs = {
        "raw": (private[:1], methods.make("fedavg"), {}),
        "distilled": (private, methods.make("fedlgd", local_steps=10, global_steps=0), lgd),
    }
    numbers, images = {}, {}
    originals = quality.unit(alone(private, others, norm).inputs(private.x), *norm)
    unseen = quality.unit(alone(private, others, norm).inputs(others.x), *norm)
    for words, (held_now, method, settings) in runs.items():
        scenario = alone(held_now, others, norm)
        messages, fed = overheard(scenario, method, seed=seed, keep=True, **common, **settings)
        used = method.local_data(fed.clients[0])
        found = _inverted(messages, scenario, common, steps, seed, norm)
        x = quality.unit(found.x, *norm)
        was = quality.unit(scenario.inputs(used.x), *norm)
        first = originals[:1]
        numbers[words] = {
            "cost": found.cost,
            "label": bool(found.y[0] == private.y[0]),
            "to used": _first(quality.qualities(x, was)),
            "to a private image": _first(quality.qualities(x, first)),
            "nearest private": float(quality.nearest(x, originals)[0]),
            "nearest unseen": float(quality.nearest(x, unseen)[0]),
            "used to nearest private": float(quality.nearest(was, originals)[0]),
            "used to nearest unseen": float(quality.nearest(was, unseen)[0]),
        }
        images[words] = {"used": was[0], "found": x[0],
                         "nearest": originals[quality.nearest(x, originals)[1][0]]}  # fmt: skip
    return (numbers, images) if pictures else numbers


def _inverted(messages, scenario: Scenario, settings: dict, steps: int, seed: int, norm: tuple):
    """The attacker's side: weights before and after, and what everybody knows."""
    before, after = record.before_and_after(messages, client="victim", round_=1)
    network = record.with_weights(_network(settings, scenario), before)
    way = record.way_of(network, before, after)
    y = inversion.labels_from(network, way)
    return inversion.invert(network, way, y, mean=norm[0], std=norm[1], steps=steps, seed=seed)


def _first(measures: dict) -> dict:
    return {name: float(values[0]) for name, values in measures.items()}


def many_pictures(*, seeds: Sequence[int], **options) -> dict:
    """`raw_and_distilled` for every seed: lists of measures."""
    return {"seeds": [raw_and_distilled(seed=seed, **options) for seed in seeds]}


# ---------------------------------------------------------------- averages, and distilled images


def averages(*, seeds: Sequence[int], clients: Sequence[str], private_size: int,
             sizes: Sequence[int], rounds: int) -> dict:  # fmt: skip
    """RepShare's observations, means of `sizes` images, seen by a curious client.

    "auc": size -> one per seed, members of the mean against the client's other images, of which
    the attacker does not know which is which. "accuracy": size -> one per seed, of the two clients
    at home, at the end. "decoded": the share of pixel variance that a linear
    map from the curious client's features explains on the victim's images, before and after.
    """
    found, learned, decoded = {}, {}, []
    for seed in seeds:
        for size in sizes:
            recipe = recipes.load("attacks", profile="quick", overrides={
                "rounds": rounds, "scenario.private_size": private_size, "repshare.n_avg": size,
                "scenario.split_seed": seed})  # fmt: skip
            data = only(scenarios.build(recipe.scenario, **recipe.scenario_options), clients)
            made = methods.make("repshare", **recipe.methods["repshare"])
            options = {**vars(recipe.settings), "record": {"rounds": [rounds]}}
            messages, fed = overheard(data, made, seed=seed, keep=True, **options)
            victim, curious = fed.clients
            sent = record.crossed(messages, "observations", client=victim.id, round_=rounds)
            test = data.tests[victim.domain]
            network = curious.model.eval()
            with torch.no_grad():
                h, h_own = (network.features(data.inputs(v)) for v in (victim.private.x, test.x))
            y = victim.private.y
            member = _averaged_images(fed, victim, size)
            scores = _in_means(h, y, sent["observations"][0], h_own, test.y)
            found.setdefault(str(size), []).append(membership.auc(scores, member))
            matrix = fed.history["accuracy"][-1]["matrix"]
            learned.setdefault(str(size), []).append(float(np.diag(matrix).mean()))
        pixels = [data.inputs(v).flatten(1) for v in (victim.private.x, test.x)]
        first = fed.make().eval()
        with torch.no_grad():
            h_first = [first.features(data.inputs(v)) for v in (victim.private.x, test.x)]
        decoded.append([_explained(*parts, *pixels) for parts in (h_first, (h, h_own))])
    return {"auc": found, "accuracy": learned, "decoded": decoded}


def _averaged_images(fed, client, size: int):
    """The truth for `averages`: which images were in the client's last observation."""
    own = generator(fed.seed, client.id, fed.round_, "n_avg")
    y = client.data.y
    order = torch.randperm(len(y), generator=own)
    rank = torch.nn.functional.one_hot(y[order], fed.scenario.num_classes).cumsum(0)
    inside = torch.zeros(len(y), dtype=torch.bool)
    inside[order[rank.gather(1, y[order][:, None])[:, 0] <= size]] = True
    return inside


def _explained(h, h_own, x, x_own) -> float:
    """Share of the variance of x that a ridge from features explains, fitted on `_own`."""
    ones = [torch.cat([v, torch.ones(len(v), 1)], 1).double() for v in (h, h_own)]
    a = ones[1]
    w = torch.linalg.solve(a.T @ a + 1e-2 * torch.eye(a.shape[1]), a.T @ x_own.double())
    return 1 - float((ones[0] @ w - x).square().sum() / (x - x_own.mean(0)).square().sum())


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
            options = {**settings, "virtual_ipc": ipc, "virtual_init": init,
                       "models": ["small_convnet"]}  # fmt: skip
            fed = Federation(scenario, FedAvg(), Settings(**options), seed=seed)
            with fed.workers():
                prepare(fed)
            x = quality.unit(scenario.inputs(fed.clients[0].data.x), mean, std)
            near = -quality.nearest(pixels, x)[0]
            row = found[init]
            row["auc"].append(membership.auc(near, member))
            for name, part in (("private", pixels[member]), ("unseen", pixels[~member])):
                row[name].append(float(quality.nearest(x, part)[0].median()))
    return found
