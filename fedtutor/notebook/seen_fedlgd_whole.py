"""What notebook 05a sees inside a federation that trains on virtual images.

`anchored` is a look (`run.looks("fedlgd", seen.anchored)`), for FedLGD, VHL and FedAvg alike;
`at_the_end` and `through` read what it saw. The server's images, or VHL's noise, are the anchors.
`lettered`, `differences` and `helps` are words for arms and their parts. `drawn_together`,
`toys_broken` and `bounds` need no data; `work` and `added_bytes` count.
"""

import copy
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import torch

from .. import losses, measures, models, scenarios
from ..distillation import VirtualImages, initial, virtual_images
from ..errors import TrainingError
from ..experiments import accuracies
from ..methods.fedlgd import client_passes
from ..randomness import generator
from .frame import sentence
from .rows import starred

STEPS = 100  # of a network that learns from the anchors alone
TESTS = 100  # test images per client whose features are compared
SHOWN = 5  # classes whose first virtual image is kept as a picture
LETTERS = {"first noise": "A", "clients only": "AB", "server only": "AC", "no regularizer": "ABC",
           "no refining": "ACD", "FedLGD": "ABCD"}  # arm: its parts  # fmt: skip


def anchored(fed) -> dict:
    """What images, features and losses are like, before round 1, in selected rounds, at the end.

    Every third round {"loss"}: the mean test loss of the server's network in nats. Before round 1
    and after the last round also, where there are anchors: "taught", the test accuracy of a new
    network after `STEPS` steps on all anchors and nothing else. After the last round also
    "abroad", how often a test image's nearest feature at another client is of its class;
    "gap", the MMD between a client's and the anchors' features of one class, mean over clients
    and classes, as in Lemma 1 (bandwidth: median distance of the clients' features); "moved", by
    how many of 255 gray levels a pixel of the "clients" moved since the first distillation;
    "pictures", uint8 [2, SHOWN, channels, height, width], virtual images of the first client and
    the anchors.
    """
    last = fed.round_ == fed.settings.rounds
    if fed.round_ and (fed.round_ - 1) % 3 and not last:
        return {}
    network = fed.server.model
    training = network.training
    network.eval()
    found = {"loss": _loss(fed, network)}
    anchors = _anchors(fed)
    if anchors and (last or not fed.round_):
        found["taught"] = _taught(fed, anchors)
    if last:
        found |= _after(fed, network, anchors)
    network.train(training)
    return found


def _loss(fed, network) -> float:
    tests = fed.scenario.to(fed.device).tests.values()
    return float(np.mean([measures.mean_loss(network, t, fed.scenario) for t in tests]))


def _anchors(fed) -> VirtualImages | None:
    """The server's images or VHL's noise on the scale of 0 to 255; None where there are none."""
    noise = fed.server.state.get("noise")
    if noise:
        return VirtualImages(fed.scenario.pixels(noise["x"]), noise["y"], "VHL's noise")
    return virtual_images(fed).get("server")


def _taught(fed, anchors: VirtualImages) -> float:
    """Test accuracy of a network that has seen the anchors only, always begun as in this run."""
    network = copy.deepcopy(fed.make()).to(fed.device).train()
    optimizer = torch.optim.SGD(network.parameters(), lr=fed.settings.lr)
    x = fed.scenario.inputs(anchors.x)
    for _ in range(STEPS):
        optimizer.zero_grad()
        losses.cross_entropy(network(x), anchors.y).backward()
        optimizer.step()
    network.eval()
    tests = fed.scenario.to(fed.device).tests.values()
    return float(np.mean([measures.accuracy(network, t, fed.scenario) for t in tests]))


@torch.no_grad()
def _after(fed, network, anchors: VirtualImages | None) -> dict:
    """What is seen after the last round only, see `anchored`."""
    scenario, made = fed.scenario, virtual_images(fed)

    def features(x):
        return network.features(scenario.inputs(x.to(fed.device)))

    tests = [scenario.tests[c.domain][torch.arange(TESTS)] for c in fed.clients]
    y = torch.cat([t.y for t in tests]).to(fed.device)
    of = torch.arange(len(tests), device=fed.device).repeat_interleave(TESTS)
    h = torch.cat([features(t.x) for t in tests])
    found = {"abroad": measures.class_abroad(h, y, of)}
    found["moved"] = {
        "clients": float(
            np.mean([float((made[c.id].x - c.data.x).abs().mean()) for c in fed.clients])
        )
    }
    if not anchors:
        return found
    own = {c.id: features(made[c.id].x) for c in fed.clients}
    g, width = features(anchors.x), measures.median_distance(torch.cat([*own.values()]))
    found["gap"] = float(
        np.mean(
            [
                measures.class_distance(own[id], made[id].y, g, anchors.y, bandwidth=width)
                for id in own
            ]
        )
    )
    first = made[fed.clients[0].id]
    found["pictures"] = torch.stack(
        [
            torch.cat([v[v.y == k].images().x[:1] for k in range(SHOWN)]).cpu()
            for v in (first, anchors)
        ]
    )
    return found


def through(looks: Sequence, what: str = "loss") -> np.ndarray:
    """[seeds, rounds looked at] of what was seen more than once: "loss" or "taught"."""
    return np.array([[found[what] for found in seen if what in found] for seen in looks])


def at_the_end(looks: Sequence, what: str) -> np.ndarray:
    """Per seed "loss", "taught", "abroad" or "gap" after the last round."""
    return np.array([seen[-1][what] for seen in looks])


def before_and_after(run, looks: Sequence) -> dict[str, torch.Tensor]:
    """row -> uint8 [SHOWN, ...]: images of the first client and of the server, as they began and
    as they are after the last round, for the first seed."""
    fed = run.federation("fedlgd", run.seeds[0])
    fed.begin()
    made, first = virtual_images(fed), fed.clients[0].id
    rows = {}
    for name, after in zip((first, "server"), looks[0][-1]["pictures"], strict=True):
        began = made[name]
        rows[f"{name}, at the start"] = torch.cat(
            [began[began.y == k].images().x[:1] for k in range(SHOWN)]
        ).cpu()
        rows[f"{name}, at the end"] = after
    return rows


def lettered(arm: str) -> str:
    """An arm with its parts: "clients only (AB)"; a rival has none."""
    return f"{arm} ({LETTERS[arm]})" if arm in LETTERS else arm


def differences(points: Mapping[str, Sequence[float]],
                parts: Mapping[str, tuple[str, str]]) -> pd.DataFrame:  # fmt: skip
    """A row per part: which arm minus which other one, by their letters, and what it brings.

    points: arm -> accuracy in points, one per seed; parts: words -> the arm with and without.
    """
    rows = {}
    for words, (one, other) in parts.items():
        gains = np.subtract(points[one], points[other])
        names = [LETTERS.get(arm, arm) for arm in (one, other)]
        rows[words] = [" minus ".join(names), starred(gains)]
    columns = ["arms", "points (*: told from zero)"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def helps(part: str, gains: Sequence[float]) -> str:
    """One sentence without a number: a part helps, does harm, or the seeds do not tell."""
    return sentence(
        gains,
        above=f"{part} helps.",
        below=f"{part} does harm.",
        unclear=f"{part}: the seeds do not tell.",
    )


ANGLES = {"client A, class 1": 20.0, "client A, class 2": 45.0, "client B, class 1": 165.0,
          "client B, class 2": 140.0, "anchor, class 1": 85.0, "anchor, class 2": 95.0}  # fmt: skip


def drawn_together(steps: int, *, rate: float = 0.05, tau: float = 0.5) -> dict[str, np.ndarray]:
    """name -> [1, steps + 1]: directions of six features, in degrees, under Eq. 4.

    Each client compares its two features with the two anchors, never with the other client.
    """
    angles = torch.tensor([*ANGLES.values()]).double().deg2rad()
    y = torch.tensor([1, 2, 1, 2])
    seen = [angles]
    for _ in range(steps):
        angles = angles.detach().requires_grad_()
        h = torch.stack([angles.cos(), angles.sin()], 1)
        loss = sum(
            losses.supervised_contrastive_code(torch.cat([own, h[4:]]), y, tau=tau)
            for own in (h[:2], h[2:4])
        )
        (slope,) = torch.autograd.grad(loss, angles)
        angles = (angles - rate * slope).detach()
        seen.append(angles)
    found = torch.stack(seen).rad2deg().numpy()
    return {name: found[None, :, k] for k, name in enumerate(ANGLES)}


def toys_broken(seed: int, *, printed: bool, n: int = 1000) -> float:
    """Share of `n` toys in which Lemma 1 is wrong, with the law P_c in its last term, or with P.

    A toy has one feature, two classes, and the classifier "the sign of the feature". Its laws P,
    P_c and P_g are normal with the same spread, so that a class is known by its mean; the
    statistic margin is how far features are on the right side, on average. The margin of a sample
    is off by a random error.
    """
    g = torch.Generator().manual_seed(seed)
    m = torch.rand(3, n, 2, generator=g) * 4 - 2  # means of two classes under P, P_c and P_g
    margin = (m[..., 0] - m[..., 1]) / 2
    drawn = margin[2] + 0.2 * torch.randn(n, generator=g)  # on a sample of P_g
    d = (m[1 if printed else 0] - m[2]).abs().mean(1)  # Wasserstein distance, class by class
    bound = drawn - (margin[2] - drawn).abs() - d
    return float((margin[0] < bound - 1e-6).double().mean())


def bounds(away: Sequence[float], *, error: float = 0.2) -> dict[str, np.ndarray]:
    """name -> [1, len(away)]: the margin of a toy, and the two readings of Lemma 1's bound.

    The clients' virtual images and the anchors agree (margin 1, on a sample smaller by `error`);
    private features lie `away` from them, towards the border.
    """
    away = np.asarray(away, dtype=float)
    bound = (1 - error) - error
    return {"margin on private images": (1 - away)[None],
            "bound with private images": (bound - away)[None],
            "bound as printed": np.full_like(away, bound)[None]}  # fmt: skip


HELD = {"MNIST": 60000, "SVHN": 73257, "USPS": 7291, "MNIST-M": 59001, "SynthDigits": 479400,
        "CIFAR10C": 2000}  # private images of a client  # fmt: skip
DATA_SETS = {"DIGITS": ("MNIST", "SVHN", "USPS", "MNIST-M", "SynthDigits"),
             "CIFAR10C": ("CIFAR10C",)}  # its 57 clients count alike  # fmt: skip
PAPER = {"classes": 10, "ipc": 50, "batch_size": 32, "anchors": 100, "real": 256, "rounds": 100,
         "selected": 10, "refine": 100}  # fmt: skip
UNITS = {"compared": 1, "pixels": 2, "weights": 3}  # of work, per image that goes through


def units(n: int, *, first: int) -> dict[str, int]:
    """What a client with `n` private images sends through networks, times UNITS, by its kind.

    At the paper's settings, with `first` steps of distillation before round 1.
    """
    return {k: UNITS[k] * v for k, v in client_passes(n, first=first, **PAPER).items()}


def work() -> pd.DataFrame:
    """A client's work with FedLGD as a multiple of its work with FedAvg on private images.

    At the paper's settings; "from round 1", and "with the first distillation" of 10,000 steps.
    """
    counted = {"from round 1": 0, "with the first distillation": 10000}
    rows = {
        name: [
            sum(units(n, first=first).values()) / (UNITS["weights"] * n * PAPER["rounds"])
            for n in HELD.values()
        ]
        for name, first in counted.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(HELD))


def work_together() -> dict[str, float]:
    """Data set -> the work of all its clients from round 1 on, as a multiple of FedAvg's."""
    return {
        name: sum(sum(units(HELD[c], first=0).values()) for c in clients)
        / sum(UNITS["weights"] * HELD[c] * PAPER["rounds"] for c in clients)
        for name, clients in DATA_SETS.items()
    }


def added_bytes() -> dict[str, float]:
    """network -> percent that the anchors add to the weights, 28 x 28, at the paper's settings."""
    anchors = PAPER["selected"] * PAPER["anchors"] * 3 * 28**2
    found = {}
    for name in ("convnet", "resnet18_gn"):
        network = models.build(
            name, num_classes=10, in_channels=3, image_size=28, generator=generator(0)
        )
        numbers = sum(p.numel() for p in network.parameters())
        found[name] = 100 * anchors / (2 * PAPER["rounds"] * numbers)
    return found


def early(results: Sequence, rounds: int = 5) -> np.ndarray:
    """Per run: standard deviation of the clients' training losses, mean of the first rounds."""
    return np.array(
        [
            np.mean([np.std(row["values"], ddof=1) for row in r.history["loss"][:rounds]])
            for r in results
        ]
    )


def images_per_class(ipc: int = 10) -> set[int]:
    """How many virtual images of a class a client has, where labels are dealt unevenly."""
    skewed = scenarios.build("mnist-mini", partition="dirichlet", beta=2.0)
    made = [initial(c.private, skewed, ipc=ipc, own=generator(0)).y for c in skewed.clients]
    return {int(n) for y in made for n in torch.bincount(y, minlength=skewed.num_classes)}


READINGS = {"code": "mean, length 1, all anchors in every batch",
            "paper": "sum, length 1, only anchors of the batch (two changes)",
            "literal": "sum, any length, only anchors of the batch (as printed)"}  # fmt: skip


def readings(run, rounds: int = 6) -> dict[str, str]:
    """reading of Eq. 4 -> test accuracy after a few rounds of the first seed, or what failed."""
    seed, found = run.seeds[0], {}
    rounds = min(rounds, run.recipe.settings.rounds)
    whole = accuracies(run("fedlgd", seed).history)
    found[READINGS["code"]] = _share(next(at["intra"] for at in whole if at["round"] == rounds))
    for reading in ("paper", "literal"):
        few = {"rounds": rounds, "eval_every": rounds, "fedlgd.reading": reading}
        try:
            found[READINGS[reading]] = _share(run("fedlgd", seed, **few).headline["intra"])
        except TrainingError as error:
            found[READINGS[reading]] = f"nothing: {error.what}"
    return found


def _share(value: float) -> str:
    return f"{100 * value:.0f} %"
