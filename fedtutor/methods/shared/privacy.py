"""Means that hide single images: clipping, Gaussian noise, and what it costs in epsilon.

The Gaussian mechanism (Dwork and Roth 2014, App. A) for class means of features. Neighboring data
differ in the pixels of one image; labels, the number of images per class and their weights are
taken as known. Costs are added up by the Renyi accountant of opacus (Mironov 2017), which is
loaded when it is first asked.

RepShare (Sec. 3) proposes such means and a level of privacy for each image, and runs neither. Here
its `clip` bounds the length of a feature, and `noise` is the multiplier of the noise on every mean
that is sent. `levels` are how much single images count, from 0 (never shared) to 1, dealt to each
client's images at random; an image of level w has noise multiplier noise / w.
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from ...errors import ModelError, SettingError
from ...models import usual_layout


def clipped(h: Tensor, clip: float) -> Tensor:
    """Rows of h [n, d], shortened to length `clip` where they are longer; 0 leaves them alone."""
    if not clip:
        return h
    return h * (clip / h.norm(dim=1).clamp(min=clip))[:, None]


def private_class_means(
    h: Tensor,
    y: Tensor,
    *,
    num_classes: int,
    weights: Tensor | None = None,
    clip: float = 0.0,
    noise: float = 0.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Weighted mean of clipped features over each class, plus noise: [num_classes, d].

    With w[c] the summed weights of class c: sum_i weights[i] clipped(h[i]) / w[c] + N(0, s^2),
    s = noise 2 clip / w[c]. h: [n, d], y: [n], weights: [n] from 0 to 1 (default 1). Another image
    in the place of image i moves the mean by at most 2 clip weights[i] / w[c], so `noise` is the
    noise multiplier of an image of weight 1, and noise / weights[i] that of image i. A class of
    weight 0 gets zeros. The noise is drawn on the CPU.
    """
    member = one_hot(y, num_classes).to(h.dtype)
    if weights is not None:
        member = member * weights[:, None]
    total = member.sum(0)
    safe = torch.where(total > 0, total, 1)[:, None]
    means = (member.T @ clipped(h, clip)) / safe
    if not noise:
        return means
    drawn = torch.randn(means.shape, generator=generator, dtype=h.dtype).to(h.device)
    return means + (total > 0)[:, None] * noise * 2 * clip / safe * drawn


def epsilon(*, noise: float, releases: int, delta: float, weight: float = 1.0) -> float:
    """The epsilon of (epsilon, delta)-differential privacy after `releases` noisy means.

    `noise` as in `private_class_means`, for an image of that `weight` that entered all of them; an
    upper bound where it entered fewer. No release or weight 0 cost 0, no noise costs infinity.
    Raises `SettingError` for numbers out of range and where opacus is missing.
    """
    if not (noise >= 0 and releases >= 0 and 0 < delta < 1 and 0 <= weight <= 1):
        raise SettingError(
            f"noise = {noise}, releases = {releases}, delta = {delta}, weight = {weight}",
            where="privacy.epsilon",
            do="give noise and releases from 0, delta between 0 and 1, weight from 0 to 1",
        )
    if not weight:
        return 0.0
    return _accounted(noise / weight, releases, delta, rate=1.0, orders=range(12, 512))


def require_privacy(method) -> None:
    """Raise `SettingError` where a method has noise without a clip, or levels that are none."""
    where = f"method {method.name}"
    if method.noise and not method.clip:
        what, do = f"noise = {method.noise}, clip = 0", "noise needs a clip above 0"
        raise SettingError(what, where=where, do=do)
    right = [type(w) in (int, float) and 0 <= w <= 1 for w in method.levels]
    if not (right and all(right)):
        what, do = f"levels = {method.levels}", "give one or more numbers from 0 to 1"
        raise SettingError(what, where=where, do=do)


def deal_levels(client, levels: list[float]) -> None:
    """How much each of the client's images counts: `client.state["levels"]` [n]."""
    levels = torch.tensor(levels, dtype=torch.float32)
    order = torch.randperm(len(client.data), generator=client.generator("levels"))
    client.state["levels"] = levels[order % len(levels)].to(client.device)
    client.state["releases"] = 0  # noisy means that one image can have entered


def class_weights(client) -> Tensor:
    """The summed levels of the client's images of each class, [classes]."""
    levels, classes = client.state["levels"], client.scenario.num_classes
    return torch.bincount(client.data.y, weights=levels, minlength=classes)


def released(client, h: Tensor, index: Tensor, *, clip: float, noise: float) -> Tensor:
    """Class means [classes, d] of the images `index`, fit to be sent; h: all features [n, d]."""
    client.state["releases"] += 1
    y, levels, own = client.data.y, client.state["levels"], client.generator("privacy")
    numbers = {"num_classes": client.scenario.num_classes, "clip": clip, "noise": noise}
    return private_class_means(h[index], y[index], weights=levels[index], generator=own, **numbers)


def spent(method, client, *, delta: float) -> dict[float, float]:
    """Level -> epsilon of its images at this client, for all that it has sent so far."""
    cost = {"noise": method.noise, "releases": client.state["releases"], "delta": delta}
    return {w: epsilon(**cost, weight=w) for w in method.levels}


def private_loss(
    network: torch.nn.Module,
    x: Tensor,
    y: Tensor,
    *,
    clip: float,
    noise: float,
    generator: torch.Generator,
) -> Tensor:
    """A loss whose gradient is that of DP-SGD (Abadi et al. 2016, Algorithm 1).

    Its value is the mean cross-entropy; its gradient the mean over images of their own gradients,
    each shortened to length `clip`, plus N(0, (noise clip / batch)^2). Any optimizer and the round
    loop can use it. Gradients of single images come from opacus, which refuses networks in which
    images meet, such as those with batch norm: `ModelError`. Gradients of `network` are cleared;
    noise is drawn on the CPU.
    """
    from opacus.grad_sample import GradSampleModule

    try:
        wrapped = GradSampleModule(network, loss_reduction="sum")
    except NotImplementedError as error:
        raise ModelError(
            f"opacus cannot separate images in this network: {str(error).splitlines()[-1][:90]}",
            where="privacy.private_loss",
            do="take one with group or instance norm, such as small_convnet",
        ) from None
    try:
        x = x.detach().requires_grad_()  # opacus warns where no input asks for a gradient
        with usual_layout(network):
            loss = torch.nn.functional.cross_entropy(wrapped(x), y, reduction="sum")
            loss.backward()
        weights = [p for p in network.parameters() if p.requires_grad]
        each = [p.grad_sample for p in weights]
        length = torch.stack([g.flatten(1).norm(dim=1) for g in each]).norm(dim=0)
        factor = (clip / length.clamp(min=1e-12)).clamp(max=1)
        total = [torch.einsum("n,n...->...", factor, g) for g in each]
    finally:
        wrapped.to_standard_module()
        network.zero_grad()
    surrogate = x.new_zeros(())
    for p, g in zip(weights, total, strict=True):
        drawn = torch.randn(p.shape, generator=generator, dtype=p.dtype).to(p.device)
        surrogate = surrogate + (p * (g + noise * clip * drawn)).sum() / len(y)
    return surrogate - surrogate.detach() + loss.detach() / len(y)


def sgd_epsilon(*, noise: float, steps: int, rate: float, delta: float) -> float:
    """The epsilon of (epsilon, delta)-differential privacy after `steps` of DP-SGD.

    `noise` as in `private_loss`; `rate` is the share of a client's images in a batch. Neighboring
    data differ by one image. By the Renyi accountant of opacus, for batches into which every image
    comes by a coin of its own; the round loop deals a shuffled order instead, for which this is the
    usual approximation (and exact at rate 1). No noise costs infinity. Raises `SettingError` for
    numbers out of range.
    """
    if not (noise >= 0 and steps >= 0 and 0 < rate <= 1 and 0 < delta < 1):
        raise SettingError(
            f"noise = {noise}, steps = {steps}, rate = {rate}, delta = {delta}",
            where="privacy.sgd_epsilon",
            do="give noise and steps from 0, rate above 0 and up to 1, delta between 0 and 1",
        )
    return _accounted(noise, steps, delta, rate=rate, orders=range(12, 64))


def _accounted(noise: float, steps: int, delta: float, *, rate: float, orders: range) -> float:
    """Epsilon of the Renyi accountant, for fractional orders to 10.9 and the whole `orders`."""
    if not steps:
        return 0.0
    if not noise:
        return math.inf
    try:
        from opacus.accountants.analysis import rdp
    except ImportError as error:
        raise SettingError(
            "the privacy accountant is not installed",
            where="privacy",
            do="pip install opacus, which is in requirements.txt",
        ) from error
    orders = [1 + x / 10 for x in range(1, 100)] + list(orders)
    spent = rdp.compute_rdp(q=rate, noise_multiplier=noise, steps=steps, orders=orders)
    return float(rdp.get_privacy_spent(orders=orders, rdp=spent, delta=delta)[0])
