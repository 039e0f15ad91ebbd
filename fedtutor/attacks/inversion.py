"""Gradient inversion: images from what a client's update says about them.

Geiping et al. 2020, "Inverting Gradients - How easy is it to break privacy in federated learning?",
Eq. 4: find x that minimizes 1 - cos(gradient of x, what was sent) + weight * TV(x), by Adam on the
pixels with only the sign of their gradient, boxed to what pixels can be. The one cosine is over
all weights together, as in the authors' code. For FedAvg the candidate's gradient is the way of
the same local steps.

The attack must compute as the client computed, or it matches something else: the same weights (of
the round's start), the same loss, and the same mode. Clients train in training mode, so batch norm
uses the statistics of the batch; `training=False` is for a client that does not.
"""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ..engine.batches import cut
from ..errors import DataError, SettingError, TrainingError, whole
from ..losses import cross_entropy
from ..randomness import generator


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """x: [n, c, h, w] in the scale that networks see; y: [n]; cost: of matching, without TV."""

    x: Tensor
    y: Tensor
    cost: float


def gradient(network: nn.Module, x: Tensor, y: Tensor, *, loss: Callable = cross_entropy) -> list:
    """Gradient of loss(network(x), y) for every trainable weight, differentiable by x."""
    weights = [p for p in network.parameters() if p.requires_grad]
    return list(torch.autograd.grad(loss(network(x), y), weights, create_graph=True))


def local_steps(network: nn.Module, x: Tensor, y: Tensor, *, lr: float, batch_size: int,
                epochs: int = 1, loss: Callable = cross_entropy) -> list:  # fmt: skip
    """The way of several plain SGD steps, before - after, differentiable by x.

    Batches are taken in the order of x, the same in every epoch: the client's own order does not
    cross, so this is the attacker's guess (exact for one batch, or one image).
    """
    buffers = dict(network.named_buffers())
    start = {name: p for name, p in network.named_parameters() if p.requires_grad}
    now = dict(start)
    for _ in range(epochs):
        for index in cut(torch.arange(len(y), device=x.device), batch_size):
            z = functional_call(network, {**now, **buffers}, (x[index],))
            steps = torch.autograd.grad(loss(z, y[index]), list(now.values()), create_graph=True)
            now = {name: w - lr * g for (name, w), g in zip(now.items(), steps, strict=True)}
    return [start[name] - now[name] for name in start]


def cosine_cost(trial: Sequence[Tensor], target: Sequence[Tensor]) -> Tensor:
    """1 - cosine between all weights together (the authors' `sim`); 0 where they are parallel."""
    product = sum((a * b).sum() for a, b in zip(trial, target, strict=True))
    lengths = [sum(t.square().sum() for t in side).sqrt() for side in (trial, target)]
    return 1 - product / (lengths[0] * lengths[1])


def squared_cost(trial: Sequence[Tensor], target: Sequence[Tensor]) -> Tensor:
    """Squared distance (the authors' `l2`; Zhu et al. 2019, Deep Leakage from Gradients)."""
    return sum((a - b).square().sum() for a, b in zip(trial, target, strict=True))


def total_variation(x: Tensor) -> Tensor:
    """Mean absolute difference of neighbors in a row plus that of neighbors in a column."""
    return x.diff(dim=3).abs().mean() + x.diff(dim=2).abs().mean()


def labels_from(network: nn.Module, target: Sequence[Tensor], count: int = 1, *,
                scale: float = 1.0) -> Tensor:  # fmt: skip
    """Labels of `count` images, sorted, from the gradient of the last layer's bias.

    That gradient is mean(p) - share of the label, class by class. One image: only its own class has
    a negative entry (Zhao et al. 2020, iDLG), so the answer is exact. Several: shares are mean(p),
    taken to be equal for all classes as in a fresh network, less the gradient, rounded to whole
    images. target = `scale` times a gradient: lr for one step of SGD, lr times their number for
    several.
    """
    names = [name for name, p in network.named_parameters() if p.requires_grad]
    if "classifier.bias" not in names:
        raise SettingError("the last layer has no bias", where="labels_from",
                           do="give the labels")  # fmt: skip
    slope = target[names.index("classifier.bias")].detach().double() / scale
    if count == 1:
        return slope.argmin()[None]
    shares = (1 / len(slope) - slope).clamp(min=0) * count
    whole = shares.floor().long()
    rest = count - int(whole.sum())
    if rest > 0:
        whole[(shares - whole).argsort(descending=True)[:rest]] += 1
    for _ in range(-rest):
        whole[torch.where(whole > 0, shares - whole, torch.inf).argmin()] -= 1
    return torch.arange(len(whole)).repeat_interleave(whole.cpu()).to(slope.device)


def invert(network: nn.Module, target: Sequence[Tensor], y: Tensor, *, mean: Sequence[float],
           std: Sequence[float], imitate: Callable = gradient, cost: Callable = cosine_cost,
           tv: float = 1e-4, steps: int = 1000, lr: float = 0.1, restarts: int = 1,
           training: bool = True, seed: int = 0) -> Reconstruction:  # fmt: skip
    """Images whose `imitate(network, x, y)` points where `target` points; Geiping et al. Eq. 4.

    `network` has the weights that the client received; `target` one tensor per trainable weight;
    y: labels [n]; mean, std: per channel, for pixels from 0 to 1; `cost(trial, target)`: a scalar.
    Starts from normal noise, which differs between `restarts`; the start of lowest cost wins. lr
    falls to a tenth after 3/8, 5/8 and 7/8 of the steps. The network is not changed. Raises
    `DataError` where `target` does not fit or holds what is no number.
    """
    whole("steps", steps, 1, "invert")
    whole("restarts", restarts, 1, "invert")
    network = copy.deepcopy(network).train(training)
    weights = [p for p in network.parameters() if p.requires_grad]
    target = [t.detach().to(w) for t, w in zip(target, weights, strict=False)]
    if [t.shape for t in target] != [w.shape for w in weights]:
        raise DataError(f"{len(target)} tensors for {len(weights)} weights, or other shapes",
                        where="invert", do="give one tensor per trainable weight")  # fmt: skip
    if not all(bool(t.isfinite().all()) for t in target):
        raise DataError("the update holds what is no number", where="invert",
                        do="look at what the client sent")  # fmt: skip
    m, s = (torch.tensor(v, device=y.device).view(1, -1, 1, 1) for v in (mean, std))
    low, high = (0 - m) / s, (1 - m) / s
    turns = [steps * k // 8 for k in (3, 5, 7)]

    def search(start: int) -> tuple[Tensor, float]:
        own = generator(seed, "inversion", start)
        x = torch.randn(len(y), *network.image_shape, generator=own).to(y.device).requires_grad_()
        optimizer = torch.optim.Adam([x], lr=lr)
        schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, turns, gamma=0.1)
        best, least = x.detach().clone(), math.inf
        for _ in range(steps):
            away = cost(imitate(network, x, y), target)
            (x.grad,) = torch.autograd.grad(away + tv * total_variation(x), x)
            reached = float(away.detach())
            if not math.isfinite(reached):
                raise TrainingError(f"the cost is {reached}", where="invert", do="lower lr")
            if reached < least:
                best, least = x.detach().clone(), reached
            x.grad.sign_()
            optimizer.step()
            schedule.step()
            with torch.no_grad():
                x.clamp_(low, high)
        return best, least

    x, least = min((search(start) for start in range(restarts)), key=lambda pair: pair[1])
    return Reconstruction(x, y, least)
