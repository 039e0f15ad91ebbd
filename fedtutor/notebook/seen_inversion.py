"""What notebook 06a sees: images that an attacker computes back from what crossed the channel.

The client is a federation of one whose channel is recorded (`attack_studies`); the attacker gets
the messages of round 1 and what everybody knows. A case is attacked once per seed: other digits,
other weights, another start of the search. The quality of an image is its PSNR in dB; that of
several is the mean over them. Pixels are float, from 0 to 1.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from .. import attacks, models, scenarios
from ..errors import SettingError
from ..experiments import attack_studies
from ..randomness import generator

LR = 0.1  # of the client, known to the server that wrote the protocol
STEPS = 200  # of the search
HELD = 40  # digits of which a client takes the first
CASES = {  # name -> options of `attacked`
    "one digit": {"count": 1},
    "a batch of 8": {"count": 8},
    "a batch of 16": {"count": 16},
    "one digit, five steps": {"count": 1, "epochs": 5},
    "8 digits, two epochs, 4 a step": {"count": 8, "epochs": 2, "batch": 4},
    "one digit, noise of 1": {"count": 1, "noise": 1.0},
    "one digit, FedLGD's ConvNet": {"count": 1, "network": "small_convnet"},
}


@dataclass(frozen=True, eq=False)
class Attacked:
    """found, originals: [n, 1, 28, 28], paired; y: [n], labels of the originals; right: whether
    the attacker's labels are the client's."""

    found: Tensor
    originals: Tensor
    y: Tensor
    right: bool

    @property
    def decibels(self) -> Tensor:
        """PSNR of each image, float64 [n]."""
        return attacks.psnr(self.found, self.originals)


def digits(seed: int, count: int = HELD):
    """(scenario of one client with its first `count` MNIST digits, mean and deviation)."""
    made = scenarios.build("mnist-mini", num_clients=1, private_size=HELD, split_seed=seed)
    images, norm = made.clients[0].private[:count], (made.mean, made.std)
    return attack_studies.alone(images, images[:1], norm), norm


def fresh(network: str = "plain_cnn"):
    """Layers as everybody knows them; weights come from the record."""
    return models.build(network, num_classes=10, in_channels=1, image_size=28,
                        generator=generator("layers"))  # fmt: skip


def overheard(seed: int, *, count: int, network: str = "plain_cnn", epochs: int = 1,
              batch: int = 64, noise: float | None = None):  # fmt: skip
    """What crosses in round 1 of FedAvg with a client of `count` digits, plain SGD.

    `noise`: of DP-SGD, in units of the length 1 to which a gradient is shortened; None: neither
    is done.
    """
    scene, _ = digits(seed, count)
    private = None if noise is None else attack_studies.PrivateFedAvg(clip=1.0, noise=noise)
    return attack_studies.overheard(
        scene, private or "fedavg", seed=seed, models=[network], rounds=1, lr=LR,
        local_epochs=epochs, batch_size=batch, record={"rounds": [1]},
    )  # fmt: skip


def attacked(
    seed: int,
    *,
    count: int,
    network: str = "plain_cnn",
    epochs: int = 1,
    batch: int = 64,
    noise: float | None = None,
    steps: int = STEPS,
) -> Attacked:
    """Overhear a round (options of `overheard`) and compute its digits back."""
    heard = overheard(seed, count=count, network=network, epochs=epochs, batch=batch, noise=noise)
    known, way = update(heard, network)
    y = attacks.labels_from(known, way, count, scale=LR * epochs * math.ceil(count / batch))
    (scene, norm), options = digits(seed, count), {"lr": LR, "batch_size": batch, "epochs": epochs}
    x = attacks.invert(known, way, y, mean=norm[0], std=norm[1], steps=steps, seed=seed,
                       imitate=partial(attacks.local_steps, **options)).x  # fmt: skip
    private = scene.clients[0].private
    true = attacks.unit(scene.inputs(private.x), *norm)
    found = attacks.unit(x, *norm)
    originals = attacks.paired(found, true)
    order = [int((true == o).flatten(1).all(1).nonzero()[0]) for o in originals]
    right = y.tolist() == sorted(private.y.tolist())
    return Attacked(found, originals, private.y[order], right)


def update(heard, network: str = "plain_cnn"):
    """(network with the weights that the client received, received less sent back)."""
    before, after = attacks.before_and_after(heard, client="victim", round_=1)
    known = attacks.with_weights(fresh(network), before)
    return known, attacks.way_of(known, before, after)


def every_case(seeds: Sequence[int], cases: Mapping[str, Mapping] = CASES) -> dict:
    """Case -> one `Attacked` per seed."""
    return {name: [attacked(seed, **options) for seed in seeds] for name, options in cases.items()}


def decibels(attacked: Sequence[Attacked]) -> np.ndarray:
    """Mean PSNR of the images of each attack, dB, one per seed."""
    return np.array([float(one.decibels.mean()) for one in attacked])


def by_class(attacked: Sequence[Attacked]) -> tuple[np.ndarray, np.ndarray]:
    """(digits alone in their class, digits that share it): mean dB in the batch of each seed.

    Seeds whose batch lacks one of the two are left out; `SettingError` where all do.
    """
    pairs = []
    for one in attacked:
        often = Counter(one.y.tolist())
        alone = torch.tensor([often[label] == 1 for label in one.y.tolist()])
        if alone.any() and not alone.all():
            pairs.append([float(one.decibels[kind].mean()) for kind in (alone, ~alone)])
    if not pairs:
        raise SettingError("no batch has both kinds of digits", where="by_class",
                           do="attack larger batches")  # fmt: skip
    return tuple(np.array(pairs).T)


def average(seed: int) -> tuple[Tensor, Tensor]:
    """(the client's first digit, a guess without any message), both [1, 1, 28, 28].

    The guess is the average of the digits that a client does not use.
    """
    scene, norm = digits(seed)
    x = attacks.unit(scene.inputs(scene.clients[0].private.x), *norm)
    return x[:1], x[1:].mean(0, keepdim=True)


def guessed(seeds: Sequence[int]) -> np.ndarray:
    """dB of `average`, compared with the client's first digit; one per seed."""
    pairs = [average(seed) for seed in seeds]
    return np.array([float(attacks.psnr(guess, digit)) for digit, guess in pairs])


def with_noise(levels: Sequence[float], seed: int) -> tuple[Tensor, Tensor, np.ndarray]:
    """One digit after DP-SGD with each noise: (true image, found images, dB of each).

    The attacker is told the label, which noise hides before it hides the image.
    """
    scene, norm = digits(seed, 1)
    private, found = scene.clients[0].private, []
    for noise in levels:
        known, way = update(overheard(seed, count=1, noise=noise))
        found.append(attacks.invert(known, way, private.y, mean=norm[0], std=norm[1],
                                    steps=STEPS, seed=seed).x)  # fmt: skip
    true, x = attacks.unit(scene.inputs(private.x), *norm), attacks.unit(torch.cat(found), *norm)
    return true, x, attacks.psnr(x, true.expand_as(x)).numpy()


def knowledge() -> dict[str, float]:
    """1 - cosine that the TRUE images have, when the attacker lacks one piece of knowledge.

    Zero says that a search for parallel gradients can end at the truth. Eight digits, one step;
    the loss is tried on a network that has learned a little.
    """
    scene, _ = digits(0)
    x, y = scene.inputs(scene.clients[0].private.x), scene.clients[0].private.y
    build = partial(models.build, num_classes=10, in_channels=1, image_size=28)
    plain, learned, other = (build("plain_cnn", generator=generator("knows", k)) for k in (0, 0, 1))
    attacks.imitate(learned, x[8:], y[8:], epochs=3, batch_size=8, lr=LR, own=generator("learn"))
    smooth = partial(cross_entropy, label_smoothing=0.3)

    def slope(network, **options):
        return [t.detach() for t in attacks.gradient(network, x[:8], y[:8], **options)]

    def cost(network, sent):
        return abs(float(attacks.cosine_cost(slope(network), sent)))

    def walked(lr):
        return [t.detach() for t in attacks.local_steps(plain, x[:8], y[:8], lr=lr, batch_size=2)]

    return {
        "nothing": cost(plain, slope(plain)),
        "the weights of the round": cost(other, slope(plain)),
        "the loss (smoothed labels)": cost(learned, slope(learned, loss=smooth)),
        **{f"that there are four steps, of rate {lr}": cost(plain, walked(lr)) for lr in (LR, 0.5)},
    }


def raw_and_virtual(seeds: Sequence[int], *, steps: int = 400) -> tuple[dict, dict]:
    """FedLGD's Fig. 7 with bundled street digits: (rows of a sheet, dB of what was found).

    "raw" and "virtual": dB to what the client trained on; "virtual, private" and "virtual, unseen":
    what was found under virtual training, to the nearest of the private images, and of as many that
    were never used. One per seed.
    """
    made = [
        attack_studies.raw_and_distilled(
            pool="street", seed=seed, network="plain_cnn", steps=steps, pictures=True
        )
        for seed in seeds
    ]
    kinds = {"raw": "raw", "virtual": "distilled"}
    rows = {f"{name}: {words}": torch.stack([shown[kind][part] for _, shown in made])
            for name, kind in kinds.items()
            for words, part in (("trained on", "used"), ("found", "found"))}  # fmt: skip
    rows["private, nearest"] = torch.stack([shown["distilled"]["nearest"] for _, shown in made])
    found = {name: np.array([n[kind]["to used"]["PSNR"] for n, _ in made])
             for name, kind in kinds.items()}  # fmt: skip
    near = {kind: -10 * np.log10([n["distilled"][f"nearest {kind}"] for n, _ in made])
            for kind in ("private", "unseen")}  # fmt: skip
    return rows, {**found, **{f"virtual, {kind}": values for kind, values in near.items()}}


def named(seeds: Sequence[int]) -> np.ndarray:
    """FedCSD: share of classes with ONE image whose image is named by the mean that was sent.

    The server computes the logits of 1,000 street digits with the teacher that it sent, and takes
    the nearest. One per seed.
    """
    pool, *norm = attack_studies.pool_of("street")
    x = attack_studies.alone(pool[:1], pool[:1], norm).inputs(pool.x)
    found = []
    for seed in seeds:
        first = torch.stack([(pool.y == c).nonzero()[:, 0][seed] for c in range(10)])
        scene = attack_studies.alone(pool[first], pool[:1], norm)
        heard = attack_studies.overheard(scene, "fedcsd", seed=seed, models=["small_convnet"],
                                         rounds=1, lr=LR, record={"rounds": [1]})  # fmt: skip
        sent = attacks.crossed(heard, "prototypes", client="victim", round_=1)
        state = attacks.crossed(heard, "teacher", client="victim", round_=1, way="down")
        layers = models.build("small_convnet", num_classes=10, generator=generator("layers"))
        with torch.no_grad():
            z = attacks.with_weights(layers, state, training=False)(x)
        found.append(float((torch.cdist(sent, z).argmin(1) == first).double().mean()))
    return np.array(found)
