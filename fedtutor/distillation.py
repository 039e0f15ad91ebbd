"""Dataset distillation: few virtual images that stand in for many private ones.

Two ways to improve the pixels of virtual images by gradient descent, both from FedLGD (Huang et
al. 2024) and from the papers that it builds on:

- `match_distributions` (Eq. 1; DM, Zhao and Bilen 2023): the mean feature of each class shall be
  that of the private images. With a new random network in every step it is DM; with the current
  global network it is FedLGD's iterative distribution matching.
- `match_gradients` (Eq. 5 and 6; Zhao et al. 2021): virtual images shall pull a network's weights
  in the direction in which the clients pulled them.

Pixels are optimized in the scale that networks see (`scenario.inputs`). Everywhere else virtual
images are float32 from 0 to 255, like other images but not whole numbers; nothing clamps them, and
some lie beside that range.
"""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from . import losses
from .channel import SERVER
from .engine.artifacts import artifact
from .engine.private_pixels import private_matching
from .engine.siamese import siamese_by_class
from .errors import DataError, DivergenceError, SettingError, choose
from .images import Images
from .models.layers import initialize
from .randomness import generator
from .settings import VIRTUAL_AUGMENT, VIRTUAL_INITS

REST = 250  # steps after which a long distillation is kept, so that it can go on from there
CHUNK = 500  # private images per forward pass
MATCHING = ("lr", "momentum", "batch", "augment", "clip", "noise")  # settings `virtual_...`


@dataclass(frozen=True, eq=False, repr=False)
class VirtualImages:
    """x: float32 [n, channels, height, width], 0 to 255 and beside; y: int64 [n]; where from."""

    x: Tensor
    y: Tensor
    source: str = "distilled"

    def __post_init__(self):
        tensors = isinstance(self.x, Tensor) and isinstance(self.y, Tensor)
        right = tensors and self.x.dtype == torch.float32 and self.x.ndim == 4
        if not right or self.y.ndim != 1 or len(self.x) != len(self.y):
            x, y = (
                f"{v.dtype} {list(v.shape)}" if isinstance(v, Tensor) else type(v).__name__
                for v in (self.x, self.y)
            )
            raise DataError(
                f"the images are {x}, the labels {y}",
                where=str(self.source),
                do="give float32 [n, channels, height, width], one label each",
            )

    def __repr__(self) -> str:
        return f"VirtualImages({len(self)} x {list(self.x.shape[1:])}, {self.source})"

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index) -> "VirtualImages":
        return VirtualImages(self.x[index], self.y[index], self.source)

    def images(self) -> Images:
        """As pictures: rounded to whole numbers, cut off at 0 and 255."""
        return Images(self.x.round().clamp(0, 255).to(torch.uint8), self.y, self.source)

    def state(self) -> dict:
        """Tensors for a checkpoint; `VirtualImages(**state)` is this again."""
        return {"x": self.x, "y": self.y, "source": self.source}


def class_statistics(private: Images, scenario, *, reading: str = "paper") -> dict[str, Tensor]:
    """Mean and standard deviation of each class and channel over images and pixels.

    {"mean", "std": float32 [classes, channels], "owned": bool [classes]}, on the scale of 0 to 255;
    zeros for a class without an image. `reading` "code": FedLGD's code divides the sums of a class
    by the number of all images, so that both shrink, towards what a network sees as 0.
    """
    member = F.one_hot(private.y, scenario.num_classes).to(torch.float64)
    x, count = private.x.to(torch.float64), member.sum(0)
    mean, std = (
        torch.tensor(v, dtype=torch.float64, device=x.device) for v in (scenario.mean, scenario.std)
    )
    if reading == "code":
        x = (x / 255 - mean[:, None, None]) / std[:, None, None]
    below = (count.clamp(min=1) if reading == "paper" else count * 0 + len(private))[:, None]
    first, second = (member.T @ v.mean((2, 3)) / below for v in (x, x**2))
    spread = (second - first**2).clamp(min=0).sqrt()
    if reading == "code":
        first, spread = first * (std * 255) + mean * 255, spread * (std * 255)
    owned = count > 0
    mean, std = ((value * owned[:, None]).float() for value in (first, spread))
    return {"mean": mean, "std": std, "owned": owned}


def drawn(
    statistics: dict[str, Tensor], ipc: int, shape: Sequence[int], own: torch.Generator
) -> VirtualImages:
    """`ipc` images of `shape` per owned class: every pixel from the normal of class and channel."""
    y = labels_of(statistics["owned"], ipc)
    mean, std = (statistics[key][y][:, :, None, None] for key in ("mean", "std"))
    return VirtualImages(noise(y, shape, own) * std + mean, y, "drawn from class statistics")


def noise(y: Tensor, shape: Sequence[int], own: torch.Generator) -> Tensor:
    """One image [channels, height, width] from N(0, 1) for each label."""
    return torch.randn(len(y), *shape, generator=own, device=own.device).to(y.device)


def labels_of(owned: Tensor, ipc: int) -> Tensor:
    """`ipc` labels of each class that is owned (bool [classes]), class by class."""
    return owned.nonzero()[:, 0].repeat_interleave(ipc)


def initial(
    private: Images, scenario, *, ipc: int, init: str = "statistics", own: torch.Generator
) -> VirtualImages:
    """What a distillation begins with: `ipc` images for each class that `private` has.

    - "statistics": pixels from N(mean, std) of the class, channel by channel (FedLGD Sec. 5.1);
    - "statistics_code": the same with the shrunken statistics of its code;
    - "noise": pixels from N(0, 1) in the scale that networks see;
    - "real": private images of the class, drawn at random; again, where it has fewer than `ipc`.
    """
    choose(init, VIRTUAL_INITS, kind="virtual_init", where="distillation.initial")
    if ipc < 1:
        raise SettingError(f"ipc = {ipc}", where="distillation.initial", do="give at least 1")
    shape = private.x.shape[1:]
    if init.startswith("statistics"):
        reading = "code" if init.endswith("code") else "paper"
        return drawn(class_statistics(private, scenario, reading=reading), ipc, shape, own)
    y = labels_of(torch.bincount(private.y, minlength=scenario.num_classes) > 0, ipc)
    if init == "noise":
        return VirtualImages(scenario.pixels(noise(y, shape, own)), y, "noise")
    rows = []
    for label in y[::ipc]:
        held = (private.y == label).nonzero()[:, 0]
        times = -(-ipc // len(held))
        order = torch.cat([torch.randperm(len(held), generator=own) for _ in range(times)])
        rows.append(held[order[:ipc].to(held.device)])
    return VirtualImages(private.x[torch.cat(rows)].float(), y, "private images")


def match_distributions(
    x: Tensor,
    y: Tensor,
    private: Images,
    scenario,
    extractor: Callable,
    *,
    steps: int,
    lr: float = 1.0,
    momentum: float = 0.5,
    batch: int = 0,
    augment: str = "none",
    clip: float = 0.0,
    noise: float = 0.0,
    numbers: Callable,
    first: int = 0,
    velocity: Tensor | None = None,
) -> dict:
    """Move pixels so that the mean features of each class become those of `private` (Eq. 1).

    x: float32 [n, c, h, w] in the scale that networks see, y: int64 [n]. `extractor` is a network
    (iterative matching), or step -> network (DM: another one in every step); it runs in evaluation
    mode, with the running statistics of batch norm that it has, and is not changed. `batch`
    private images per class and step, 0 for all. With a `clip` above 0 the steps are those of
    DP-SGD (`engine/private_pixels.py`). `numbers(step, purpose)` is a generator; steps are counted
    from `first`, and with `velocity`, the memory of momentum, a later call goes on. Returns {"x",
    "velocity", "losses": one per step}. Raises `DivergenceError` where the loss is no number.
    """
    choose(augment, VIRTUAL_AUGMENT, kind="virtual_augment", where="match_distributions")
    if noise and not clip:
        what, do = f"noise = {noise}, clip = 0", "noise needs a clip above 0"
        raise SettingError(what, where="match_distributions", do=do)
    fixed = isinstance(extractor, nn.Module)
    once = fixed and not batch and augment == "none"  # then private features never change
    held = [(private.y == label).nonzero()[:, 0] for label in y.unique()]
    h_private = y_private = None

    def distance(step: int, x: Tensor) -> Tensor:
        nonlocal h_private, y_private
        network = (extractor if fixed else extractor(step)).eval()
        if h_private is None or not once:
            index = torch.cat(_some(held, batch, numbers(step, "private")))
            x_private, y_private = scenario.inputs(private.x[index]), private.y[index]
            if augment == "siamese":
                x_private, x = siamese_by_class(
                    x_private, y_private, x, y, numbers(step, "augment")
                )
            h_private = features(network, x_private)
        if clip:
            own = {"clip": clip, "noise": noise, "own": numbers(step, "privacy")}
            return private_matching(h_private, y_private, network, x, y, **own)
        return losses.distribution_matching(
            h_private, y_private, network.features(x), y, num_classes=scenario.num_classes
        )

    return _descend(x, distance, range(first, first + steps), lr, momentum, velocity)


@torch.no_grad()
def features(network: nn.Module, x: Tensor) -> Tensor:
    """Features [n, d] without gradient, `CHUNK` images at a time."""
    return torch.cat([network.features(part) for part in x.split(CHUNK)])


def _some(held: Sequence[Tensor], batch: int, own: torch.Generator) -> list[Tensor]:
    """`batch` indices of each class, drawn at random; 0 for all."""
    if not batch:
        return list(held)
    return [h[torch.randperm(len(h), generator=own)[:batch].to(h.device)] for h in held]


def match_gradients(
    x: Tensor,
    y: Tensor,
    network: nn.Module,
    target: Sequence[Tensor],
    *,
    steps: int,
    lr: float = 1.0,
    momentum: float = 0.5,
    distance: Callable = losses.gradient_distance,
) -> dict:
    """Move pixels so that they pull `network` where `target` pulls it (FedLGD Eq. 5 and 6).

    x: float32 [n, c, h, w] in the scale that networks see, y: int64 [n]; `target`: one tensor per
    trainable weight of `network`, of any length: directions are compared. The gradient of the
    virtual images is that of the mean cross-entropy over all of them, all classes at once, in
    evaluation mode; the network is not changed. Returns and raises as `match_distributions`.
    """
    network = copy.deepcopy(network).eval()
    weights = [p for p in network.parameters() if p.requires_grad]

    def away(step: int, x: Tensor) -> Tensor:
        loss = losses.cross_entropy(network(x), y)
        return distance(torch.autograd.grad(loss, weights, create_graph=True), target)

    return _descend(x, away, range(steps), lr, momentum)


def _descend(
    x: Tensor, loss_of: Callable, steps, lr: float, momentum: float, velocity=None
) -> dict:
    """Gradient descent with momentum on pixels; the loss of a step is loss_of(step, x)."""
    x, values = x.detach().clone(), []
    velocity = torch.zeros_like(x) if velocity is None else velocity
    for step in steps:
        loss = loss_of(step, x.requires_grad_())
        (slope,) = torch.autograd.grad(loss, x)
        velocity = momentum * velocity + slope
        x = x.detach() - lr * velocity
        values.append(loss.detach())
    found = [float(v) for v in values]
    for number, value in enumerate(found, start=1):
        if not math.isfinite(value):
            raise DivergenceError(
                f"the loss of the virtual images is {value} in step {number}",
                where="distillation",
                do="lower the learning rate of their pixels",
            )
    return {"x": x, "velocity": velocity, "losses": found}


def prepare(fed) -> None:
    """Before round 1: virtual images take the place of private ones, if `virtual_ipc` asks.

    So all methods of a comparison train on the same ones. `client.data` becomes what `distilled`
    makes; `client.private` stays. Nothing crosses, and a second call changes nothing.
    """
    if fed.settings.virtual_ipc:
        fed.ask(fed.clients, replace_data)


def replace_data(client) -> None:
    """The client goes on with virtual images."""
    if not isinstance(client.data, VirtualImages):
        client.data = distilled(client)


def distilled(client) -> VirtualImages:
    """DM of the client's private images, as the settings `virtual_...` say; made once.

    As many images of every class that the client has, however skewed its labels are; none of a
    class that it lacks. Each step has a new random network of the trained architecture, as FedLGD
    Sec. 5.1 says, or `virtual_network`. Kept by `artifact`, also every `REST` steps: a run that was
    killed goes on from there, and more steps go on from fewer. The result depends on neither.
    """
    s, scenario, private = client.settings, client.scenario, client.private

    def numbers(step: int, purpose: str, device="cpu") -> torch.Generator:
        return generator(client.seed, client.id, "distillation", step, purpose, device=device)

    own = numbers(0, "initial")
    start = initial(private, scenario, ipc=s.virtual_ipc, init=s.virtual_init, own=own)
    if not s.virtual_steps:
        return start
    name = s.virtual_network or client.network
    network = client.federation.new.maker(client.id, name)().requires_grad_(False)

    def another(step: int) -> nn.Module:
        initialize(network, generator=numbers(step, "network", client.device))
        return network

    how = {key: getattr(s, f"virtual_{key}") for key in MATCHING}
    key = [client.id, name, s.virtual_ipc, s.virtual_init, *how.values()]

    def at(step: int) -> dict:
        return artifact(client, "virtual", [*key, step], lambda: advance(step))

    def advance(step: int) -> dict:
        before = (step - 1) // REST * REST
        begun = {"x": scenario.inputs(start.x), "velocity": None, "losses": []}
        state = at(before) if before else begun
        given = state["x"], start.y, private, scenario, another
        part = {"steps": step - before, "first": before, "velocity": state["velocity"]}
        new = match_distributions(*given, **part, **how, numbers=numbers)
        return {**new, "losses": state["losses"] + new["losses"]}

    x = scenario.pixels(at(s.virtual_steps)["x"])
    return VirtualImages(x, start.y, f"distilled from {private.source}")


def virtual_images(fed) -> dict[str, VirtualImages]:
    """The virtual images of a run as they are now: client id -> images, and "server" if any.

    Raises `DataError` where the run has none.
    """
    found = {c.id: c.data for c in fed.clients if isinstance(c.data, VirtualImages)}
    for name, holder in [*((c.id, c) for c in fed.clients), (SERVER, fed.server)]:
        if "virtual" in holder.state:
            found[name] = VirtualImages(**holder.state["virtual"])
    if not found:
        raise DataError(
            f"{fed.method.name} has no virtual images",
            where="distillation.virtual_images",
            do="set virtual_ipc to at least 1, and run it",
        )
    return found
