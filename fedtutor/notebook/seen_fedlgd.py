"""What notebook 05 sees of virtual images: how far apart clients are, and what matching moves.

`clients_apart` is a look (`run.looks("fedavg", seen.clients_apart)`); `change` to `away` read
what it saw. `film` and `matched` distill images while they are watched, `distill`, `some_private`
and `taught` are for exercise 3, `mark` is for the toy with two pixels.
"""

import copy
from collections.abc import Callable, Sequence
from itertools import combinations, pairwise
from types import SimpleNamespace

import numpy as np
import torch
from torch.nn.functional import cosine_similarity

from .. import losses, measures
from ..distillation import (
    VirtualImages,
    initial,
    match_distributions,
    match_gradients,
    virtual_images,
)
from ..experiments import accuracies
from ..figures.drawing import HALO, VERMILION
from ..models.layers import initialize
from ..papers import weakest
from ..randomness import generator

KINDS = ("all private images", "random, as many", "distilled")
SPACES = ("pixels", "untrained network", "FedAvg's network")
GOALS = ("ridge regression, weights 0", "ridge regression, fitted", "FedLGD's Eq. 5 and 6")


def clients_apart(fed) -> dict:
    """How far apart clients are, before round 1 and after the last one; else nothing.

    "mmd": space -> [KINDS, pairs of clients]: `measures.mmd` of two clients' images, the bandwidth
    being the median distance of private images in this space. Before round 1 in pixels and in the
    features of the untrained network, after the last round in those of the trained one. Before
    round 1 also "cosine" (see `directions`) and "away" (see `from_private`). After the last round
    also "mixed" [KINDS], how many of five nearest neighbors are of the other client, mean over
    pairs; and of two clients "h" [2 kinds, images of both, d], features of random private and of
    distilled images, rounded to 127 steps.
    """
    if fed.round_ not in (0, fed.settings.rounds):
        return {}
    network = copy.deepcopy(fed.server.model).eval()
    images = _kinds(fed)
    if not fed.round_:
        return {
            "mmd": {
                "pixels": _apart(_in(fed, images, None))["mmd"],
                "untrained network": _apart(_in(fed, images, network))["mmd"],
            },
            "cosine": directions(fed),
            "away": from_private(fed, images[-1]),
        }
    h = _in(fed, images, network)
    found = _apart(h)
    pair = [fed.clients[1].id, fed.clients[-1].id]
    kept = torch.stack([torch.cat([kind[c] for c in pair]) for kind in h[1:]])
    kept = (127 * kept / kept.abs().max()).round().to(torch.int8).cpu()
    labels = torch.cat([images[-1][c].y for c in pair]).cpu()
    return {"mmd": {"FedAvg's network": found["mmd"]}, "mixed": found["mixed"], "h": kept,
            "y": labels}  # fmt: skip


def _kinds(fed) -> list[dict]:
    """KINDS, each client id -> images."""
    own = generator(fed.seed, "rival")
    private = {c.id: c.private for c in fed.clients}
    some = {
        name: initial(of, fed.scenario, ipc=fed.settings.virtual_ipc, init="real", own=own)
        for name, of in private.items()
    }
    return [private, some, virtual_images(fed)]


@torch.no_grad()
def _in(fed, images: Sequence[dict], network) -> list[dict]:
    """The same in a space: features, or pixels where network is None."""
    names = [client.id for client in fed.clients]

    def seen(x):
        x = fed.scenario.inputs(x.to(fed.device))
        return x.flatten(1) if network is None else network.features(x)

    return [{name: seen(kind[name].x) for name in names} for kind in images]


def _apart(h: Sequence[dict]) -> dict:
    """Distances and neighbors of all pairs of clients."""
    width = measures.median_distance(torch.cat([v[::4] for v in h[0].values()]))
    far, mixed = [], []
    for kind in h:
        pairs = [(kind[a], kind[b]) for a, b in combinations(kind, 2)]
        far.append([measures.mmd(a, b, bandwidth=width) for a, b in pairs])
        near = [
            measures.neighbors_abroad(torch.cat([a, b]), torch.arange(len(a) + len(b)) < len(a))
            for a, b in pairs
        ]
        mixed.append(float(np.mean(near)))
    return {"mmd": far, "mixed": mixed}


def from_private(fed, made: dict) -> float:
    """How far distilled images are from the nearest private one, in pixels.

    Against the distance of a private image from the nearest other one: 0 is equally far, 1 twice as
    far. Of the client where this is least.
    """
    found = []
    for client in fed.clients:
        a, b = (fed.scenario.inputs(v.x).flatten(1) for v in (made[client.id], client.private))
        nearest = torch.cdist(b, b).fill_diagonal_(float("inf")).amin(1).mean()
        found.append(float(torch.cdist(a, b).amin(1).mean() / nearest) - 1)
    return min(found)


def nearest_client(fed, made: dict) -> str:
    """The client that decides whether all distilled images are far; see `from_private`, `weakest`.

    The look kept one number for all clients, the least. In the recorded seeds it is that of the
    same client.
    """
    alone = {c.id: SimpleNamespace(clients=[c], scenario=fed.scenario) for c in fed.clients}
    return weakest({name: [from_private(one, made)] for name, one in alone.items()})


def directions(fed) -> list[float]:
    """Cosines of the move of pixels under Eq. 1 with those under three kinds of gradient matching.

    GOALS, for a client's first virtual images in its first network: squared error of a linear last
    layer, class by class, with weights 0 and with fitted ones; and FedLGD's own (Eq. 5 and 6).
    """
    client, scenario = fed.clients[0], fed.scenario
    net, n = copy.deepcopy(fed.server.model).eval(), scenario.num_classes
    own, y_own = scenario.inputs(client.private.x), client.private.y
    start = initial(client.private, scenario, ipc=10, own=generator(fed.seed))
    x, y = scenario.inputs(start.x).requires_grad_(), start.y
    h, g, one = net.features(x), net.features(own).detach(), torch.eye(n, device=x.device)
    ridge = torch.linalg.solve(g.T @ g + torch.eye(g.shape[1], device=x.device), g.T @ one[y_own])

    def away(W):
        parts = [
            [(f[k == c] @ W - one[c]).T @ f[k == c] / (k == c).sum() for c in range(n)]
            for f, k in ((h, y), (g, y_own))
        ]
        return sum(((p - q) ** 2).sum() for p, q in zip(*parts, strict=True))

    loss = losses.cross_entropy(net(x), y), losses.cross_entropy(net(own), y_own)
    pulls = [torch.autograd.grad(v, [*net.parameters()], create_graph=True) for v in loss]
    goals = [losses.distribution_matching(g, y_own, h, y, num_classes=n), away(0 * ridge),
             away(ridge), losses.gradient_distance(*pulls)]  # fmt: skip
    moves = [torch.autograd.grad(goal, x, retain_graph=True)[0].flatten() for goal in goals]
    return [float(cosine_similarity(moves[0], m, dim=0)) for m in moves[1:]]


def change(looks: Sequence) -> dict[str, np.ndarray]:
    """space -> [seeds, 2]: by how many percent clients of random and of distilled images are
    farther apart than those of all private images, mean over pairs; below 0, nearer."""
    found = {}
    for seen in looks:
        for moment in (seen[0], seen[-1]):
            for space, far in moment["mmd"].items():
                far = np.array(far)
                found.setdefault(space, []).append(100 * (far[1:] / far[0] - 1).mean(1))
    return {space: np.array(found[space]) for space in SPACES}


def levels(looks: Sequence) -> dict[str, dict[str, float]]:
    """space -> kind -> MMD, mean over pairs and seeds."""
    sums = {space: [] for space in SPACES}
    for seen in looks:
        for moment in (seen[0], seen[-1]):
            for space, far in moment["mmd"].items():
                sums[space].append(np.mean(far, 1))
    return {
        space: dict(zip(KINDS, np.mean(far, 0).tolist(), strict=True))
        for space, far in sums.items()
    }


def mixed(looks: Sequence) -> np.ndarray:
    """[seeds, KINDS]: how many of five nearest neighbors are of the other client, in percent."""
    return 100 * np.array([seen[-1]["mixed"] for seen in looks])


def cosines(looks: Sequence) -> dict[str, np.ndarray]:
    """One of GOALS -> cosine per seed, see `directions`."""
    found = np.array([seen[0]["cosine"] for seen in looks])
    return dict(zip(GOALS, found.T, strict=True))


def away(looks: Sequence) -> np.ndarray:
    """Per seed, see `from_private`."""
    return np.array([seen[0]["away"] for seen in looks])


def points(results: Sequence) -> np.ndarray:
    """Accuracy after the last round in points, one per result."""
    return np.array([100 * accuracies(r.history)[-1]["intra"] for r in results])


def mark(figure, images: dict, rays: Sequence, cells: int) -> None:
    """Draw images, and where Eq. 6 is 0, into the panels of a map over two pixels from -1 to 1.

    images: name -> the two pixels, drawn in each panel; rays: a panel's direction from the middle;
    cells: how many the map has along each pixel.
    """

    def place(x) -> tuple[float, float]:
        return (float(x[0]) + 1) * cells / 2 - 0.5, (1 - float(x[1])) * cells / 2 - 0.5

    ticks = [-0.5, cells / 2 - 0.5, cells - 0.5]
    for axes, ray in zip(figure.axes, rays, strict=False):  # the last one is the color bar
        limits = axes.get_xlim(), axes.get_ylim()
        ends = place([0, 0]), place(torch.as_tensor(ray) / torch.as_tensor(ray).abs().max())
        axes.plot(*zip(*ends, strict=True), color=VERMILION, lw=2.5, gid="ray")
        for name, x in images.items():
            axes.plot(*place(x), marker="x", ms=9, mew=2.5, color=VERMILION, gid="image")
            axes.annotate(name, place(x), xytext=(-15, 5), textcoords="offset points",
                          path_effects=[HALO])  # fmt: skip
        axes.set(xlim=limits[0], ylim=limits[1])
        for axis in (axes.xaxis, axes.yaxis):
            axis.remove_overlapping_locs = False  # the grid between the cells stays whole
        axes.set_xticks(ticks, ["−1", "0", "1"])
        axes.set_yticks(ticks, ["1", "0", "−1"])


def film(client, label: int, marks: Sequence[int]) -> list[VirtualImages]:
    """Ten virtual images of a class after each of `marks` steps of Eq. 1, the first of them 0."""
    scenario, s = client.scenario, client.settings
    private = client.private[client.private.y == label]
    network = copy.deepcopy(client.model).requires_grad_(False)

    def numbers(step, purpose, device="cpu"):
        return generator(client.seed, client.id, "film", step, purpose, device=device)

    def another(step):
        initialize(network, generator=numbers(step, "network", private.x.device))
        return network

    shown = [initial(private, scenario, ipc=10, own=numbers(0, "initial"))]
    at, y = {"x": scenario.inputs(shown[0].x), "velocity": None}, shown[0].y
    for first, end in pairwise(marks):
        at = match_distributions(
            at["x"], y, private, scenario, another, steps=end - first, first=first,
            velocity=at["velocity"], numbers=numbers, lr=s.virtual_lr,
            momentum=s.virtual_momentum, batch=s.virtual_batch,
        )  # fmt: skip
        shown.append(VirtualImages(scenario.pixels(at["x"]), y))
    return shown


def matched(fed, network, pull: Sequence, marks: Sequence[int]) -> tuple[list, list[float]]:
    """The server's images after each of `marks` steps of Eq. 5 and 6, and Eq. 6 after each step.

    Eq. 6 is divided by the number of its terms: 0 is the same direction, 1 none, 2 the opposite.
    """
    scenario, own = fed.scenario, fed.method
    start = VirtualImages(**fed.server.state["virtual"])
    shown, rows = [], sum(len(p) for p in network.parameters() if p.ndim > 1)
    for steps in marks:
        new = match_gradients(
            scenario.inputs(start.x), start.y, network, pull, steps=steps, lr=own.global_lr,
            momentum=own.global_momentum,
        )  # fmt: skip
        shown.append(VirtualImages(scenario.pixels(new["x"]), start.y))
    return shown, [loss / rows for loss in new["losses"]]


def distill(gap: Callable, client, steps: int = 60) -> tuple[torch.Tensor, torch.Tensor]:
    """Ten virtual images per class, as networks see them, and their labels.

    gap(h, h_virtual): the loss of one class, from its private and its virtual features. Each step
    has another random network and all private images.
    """
    scenario = client.scenario
    start = initial(client.private, scenario, ipc=10, own=generator(client.seed, "mine"))
    x, y = scenario.inputs(start.x).requires_grad_(), start.y
    own, labels = scenario.inputs(client.private.x), client.private.y
    network = copy.deepcopy(client.model).requires_grad_(False)
    descent = torch.optim.SGD([x], lr=client.settings.virtual_lr, momentum=0.5)
    for step in range(steps):
        initialize(network, generator=generator(client.seed, "mine", step))
        with torch.no_grad():
            h = network.features(own)
        made = network.features(x)
        loss = sum(gap(h[labels == c], made[y == c]) for c in y.unique())
        descent.zero_grad()
        loss.backward()
        descent.step()
    return x.detach(), y


def some_private(client) -> tuple[torch.Tensor, torch.Tensor]:
    """Ten random private images per class, as networks see them, and their labels."""
    own = generator(client.seed, "rival")
    some = initial(client.private, client.scenario, ipc=10, init="real", own=own)
    return client.scenario.inputs(some.x), some.y


def taught(x: torch.Tensor, y: torch.Tensor, client, steps: int = 200) -> float:
    """Accuracy at home of a new network that saw these images only, from 0 to 1."""
    network = copy.deepcopy(client.model)
    descent = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    for _ in range(steps):
        loss = losses.cross_entropy(network(x), y)
        descent.zero_grad()
        loss.backward()
        descent.step()
    test = client.scenario.tests[client.id]
    with torch.no_grad():
        guess = network.eval()(client.scenario.inputs(test.x)).argmax(1)
    return (guess == test.y).float().mean().item()
