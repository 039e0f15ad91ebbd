"""What notebook 06a sees: images that an attacker computes back from what crossed the channel.

The client is a federation of one whose channel is recorded (`attack_studies`); the attacker gets the
messages of round 1 and what everybody knows. A case is attacked once per seed: other digits,
other weights, another start of the search. The quality of an image is its PSNR in dB; that of
several is the mean over them. Pixels are float, from 0 to 1.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from .. import attacks, figures, models, scenarios
from ..errors import SettingError
from ..experiments import attack_studies
from ..papers import spread
from ..randomness import generator

LR = 0.1  # of the client, known to the server that wrote the protocol
STEPS = 200  # of the search
HELD = 40  # digits of which a client takes the first
CASES = {  # name -> options of `attacked`
    "one digit": {"count": 1},
    "a batch of 8": {"count": 8},
    "a batch of 16": {"count": 16},
    "one digit, five steps": {"count": 1, "epochs": 5},
    "8 digits, four steps of 4": {"count": 8, "epochs": 2, "batch": 4},
    "one digit, shortened only": {"count": 1, "noise": 0.0},
    "one digit, shortened and noise": {"count": 1, "noise": 1.0},
    "one digit, FedLGD's ConvNet": {"count": 1, "network": "small_convnet"},
}
PROMISES = {  # method -> what goes up; what an image could be computed back from
    "fedavg": ("weights", "a gradient, after one step or a few (sections 2 to 4)"),
    "fccl": ("logits of public images", "no gradient; a copy that imitates them"),
    "fccl+": ("logits of public images, their similarities", "as for FCCL"),
    "fedcsd": ("weights, mean logits of each class", "a gradient; a mean of one image is its logits"),
    "repshare": ("mean features of each class", "no gradient; a mean of one image is its features"),
    "fedlgd": ("weights, trained on virtual images", "a gradient, of virtual images (section 6)"),
}  # fmt: skip


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


def attacked(seed: int, *, count: int, network: str = "plain_cnn", epochs: int = 1,
             batch: int = 64, noise: float | None = None, steps: int = STEPS) -> Attacked:
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


def guessed(seeds: Sequence[int]) -> np.ndarray:
    """dB of a guess without any message: the average of the digits that a client does not use.

    Compared with the client's first digit, one per seed.
    """
    found = []
    for seed in seeds:
        scene, norm = digits(seed)
        x = attacks.unit(scene.inputs(scene.clients[0].private.x), *norm)
        found.append(float(attacks.psnr(x[1:].mean(0, keepdim=True), x[:1])))
    return np.array(found)


def table(cases: Mapping[str, Sequence[Attacked]], guess: Sequence[float]) -> pd.DataFrame:
    """One row per case: mean dB over seeds, and how many times the labels were right."""
    rows = {name: {"PSNR (dB)": spread(decibels(v), 0),
                   "labels right": f"{sum(one.right for one in v)} of {len(v)}"}
            for name, v in cases.items()}  # fmt: skip
    rows["no message: the average digit"] = {"PSNR (dB)": spread(guess, 0), "labels right": "-"}
    return pd.DataFrame(rows).T.rename_axis("what the client did")


def at_decibels(image: Tensor, levels: Sequence[float], *, seed: int = 0) -> Tensor:
    """[len(levels), ...]: `image` with an error of exactly so many dB in every pixel.

    Each pixel goes up or down by 10^(-dB / 20), by chance, but stays between 0 and 1. Levels from
    7 dB on: below, one step would be wider than half of the box.
    """
    if min(levels) < 7:
        raise SettingError(f"{min(levels)} dB", where="at_decibels", do="ask for 7 dB or more")
    shown, up = [], torch.rand(image.shape, generator=generator(seed, "decibels")) < 0.5
    for level in levels:
        step = 10 ** (-level / 20)
        goes_up = (up | (image < step)) & (image + step <= 1)
        shown.append(torch.where(goes_up, image + step, image - step))
    return torch.stack(shown)


def sheet(rows: Mapping[str, Tensor], *, title: str, columns: Sequence[str] | None = None):
    """`figures.contact_sheet` for pixels from 0 to 1, row -> [n, channels, height, width]."""
    as_bytes = {name: (255 * x.clamp(0, 1)).round().to(torch.uint8) for name, x in rows.items()}
    return figures.contact_sheet(as_bytes, columns, title=title)


def sorted_out(cases: Mapping[str, Sequence[Attacked]], batches: int = 8) -> dict[str, Tensor]:
    """Rows of a sheet: a batch of eight (first seed) and single digits (every seed), with originals."""
    first = cases["a batch of 8"][0]
    order = first.y.argsort(stable=True)[:batches]
    rows = {"batch of 8, true": first.originals[order], "batch of 8, found": first.found[order]}
    for words, name in (("one digit, found", "one digit"),
                        ("with noise, found", "one digit, shortened and noise"),
                        ("ConvNet, found", "one digit, FedLGD's ConvNet")):  # fmt: skip
        if words == "one digit, found":
            rows["one digit, true"] = torch.cat([one.originals for one in cases[name]])
        rows[words] = torch.cat([one.found for one in cases[name]])
    return rows


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
    normed, still = (build("small_resnet", generator=generator("knows", 0)) for _ in range(2))
    smooth = partial(cross_entropy, label_smoothing=0.3)

    def slope(network, **options):
        return [t.detach() for t in attacks.gradient(network, x[:8], y[:8], **options)]

    def cost(network, sent):
        return abs(float(attacks.cosine_cost(slope(network), sent)))

    walked = [t.detach() for t in attacks.local_steps(plain, x[:8], y[:8], lr=0.5, batch_size=2)]
    return {
        "nothing": cost(plain, slope(plain)),
        "the weights of the round": cost(other, slope(plain)),
        "the loss": cost(learned, slope(learned, loss=smooth)),
        "that there were four steps": cost(plain, walked),
        "batch norm's mode": cost(still.eval(), slope(normed)),
    }


def raw_and_virtual(seeds: Sequence[int], *, steps: int = 400) -> tuple[dict, dict]:
    """FedLGD's Fig. 7 with bundled street digits: (rows of a sheet, dB of what was found).

    "raw" and "virtual": dB to what the client trained on; "virtual, private": the same image to
    the private image nearest to it. One per seed.
    """
    made = [attack_studies.raw_and_distilled(pool="street", seed=seed, network="plain_cnn",
                                             steps=steps, pictures=True) for seed in seeds]
    kinds = {"raw": "raw", "virtual": "distilled"}
    rows = {f"{name}: {words}": torch.stack([shown[kind][part] for _, shown in made])
            for name, kind in kinds.items()
            for words, part in (("trained on", "used"), ("found", "found"))}  # fmt: skip
    rows["private, nearest"] = torch.stack([shown["distilled"]["nearest"] for _, shown in made])
    found = {name: np.array([n[kind]["to used"]["PSNR"] for n, _ in made])
             for name, kind in kinds.items()}  # fmt: skip
    near = [n["distilled"]["nearest private"] for n, _ in made]
    return rows, {**found, "virtual, private": -10 * np.log10(near)}


def photographs(study: Mapping) -> dict[str, np.ndarray]:
    """CIFAR-10, recorded: dB of what was found, one per seed.

    study: numbers of `pictures-cifar10`. "raw": to the private image trained on; "virtual": to the
    virtual image trained on; "virtual, same": to the private image of "raw"; "virtual, private": to
    the nearest of the 50 private images; "virtual, unseen": to the nearest of 50 never used.
    """
    def of(kind, *path):
        values = []
        for numbers in study["seeds"]:
            value = numbers[kind]
            for key in path:
                value = value[key]
            values.append(value)
        return np.array(values)

    return {
        "raw": of("raw", "to used", "PSNR"), "virtual": of("distilled", "to used", "PSNR"),
        "virtual, same": of("distilled", "to a private image", "PSNR"),
        "virtual, private": -10 * np.log10(of("distilled", "nearest private")),
        "virtual, unseen": -10 * np.log10(of("distilled", "nearest unseen")),
    }  # fmt: skip


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


def what_is_sent(study: Mapping[str, Sequence[float]]) -> pd.DataFrame:
    """One row per method: what goes up, from what an image could come back, AUC of membership.

    study: numbers of `papers`, "method: message" -> AUC per seed. A method's strongest message.
    """
    rows = {}
    for method, (sent, path) in PROMISES.items():
        mine = [values for key, values in study.items() if key.startswith(f"{method}: ")]
        if not mine:
            raise SettingError(f"nothing recorded for {method}", where="what_is_sent",
                               do="give the numbers of the study 'papers'")  # fmt: skip
        best = max(mine, key=lambda values: float(np.mean(values)))
        rows[figures.display_name(method)] = {
            "goes up": sent, "an image could come from": path,
            "members told from others (AUC, %)": spread([100 * v for v in best], 0),
        }  # fmt: skip
    return pd.DataFrame(rows).T.rename_axis("method")
