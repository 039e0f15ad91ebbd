"""VHL: everybody also learns the same noise images, and features of real ones move towards them.

Tang et al., "Virtual Homogeneity Learning: Defending against Data Heterogeneity in Federated
Learning", ICML 2022. Local objective: L_CE + alpha L_CE(noise) + lambda L_align. The noise images
come from a generator that nobody has trained, one distribution per class; the server draws them
once and sends them to all clients. L_align is `losses.noise_alignment`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt
from torch import Tensor
from torch.nn import functional as F

from .. import losses
from ..channel import SERVER
from ..randomness import generator, on_device
from .base import register
from .fedavg import FedAvg

LATENT = 64  # numbers from which an image is made (VHL's code)
WIDTH = 32  # channels of the untrained generator


@register("vhl")
@dataclass
class VHL(FedAvg):
    """`labels`: the noise has classes of its own, so that the network has twice as many outputs
    (VHL's code), or those of the images ("shared": FedLGD must have run it so, it does not say).

    Nothing else of the noise is ever updated. Works on private and, with the setting `virtual_ipc`,
    on virtual images. alpha = lambda_ = 0 with labels = "shared" is FedAvg. Batch norm: images and
    noise pass the network in one batch, and running statistics are averaged as in FedAvg.
    """

    alpha: NonNegativeFloat = 1.0  # weight of the noise's cross-entropy (VHL's code)
    lambda_: NonNegativeFloat = 1.0  # weight of the alignment (VHL's code)
    inner: NonNegativeFloat = 0.1  # weight of the noise's own contrast inside it (VHL's code)
    tau: PositiveFloat = 0.07  # temperature (VHL's code)
    noise_ipc: PositiveInt = 10  # noise images per class (ours: as many as FedLGD's server has)
    noise_batch: PositiveInt = 128  # noise images per step, at most all (VHL's code)
    labels: Literal["own", "shared"] = "own"

    def build(self, client, make):
        return {"model": self._network(make)}

    def _network(self, make):
        plain = make()
        if self.labels == "shared":
            return plain
        return make(num_classes=2 * plain.classifier.out_features)

    def start(self, fed):
        super().start(fed)
        fed.server.models["model"] = self._network(fed.make)
        own, classes = generator(fed.seed, SERVER, "noise"), fed.scenario.num_classes
        x = noise_images(classes, self.noise_ipc, fed.scenario.shape, own).to(fed.device)
        y = torch.arange(classes, device=fed.device).repeat_interleave(self.noise_ipc)
        fed.server.state["noise"] = {"x": x, "y": y}

    def collaborate(self, fed, clients):
        super().collaborate(fed, clients)
        told = fed.server.state.setdefault("told", [])
        new = [c for c in clients if c.id not in told]
        fed.download(new, "noise images", self.receive_noise, fed.server.state["noise"])
        told += [c.id for c in new]

    def receive_noise(self, client, noise):
        client.state["noise"] = noise

    def local_loss(self, client, x, y):
        if not (self.alpha or self.lambda_):
            return super().local_loss(client, x, y)
        noise = client.state["noise"]
        order = torch.randperm(len(noise["y"]), generator=client.generator("noise"))
        index = on_device(order[: self.noise_batch], x.device)
        x_noise, y_noise = noise["x"][index], noise["y"][index]
        h = client.model.features(torch.cat([x, x_noise]))
        z = client.model.classifier(h)
        shift = client.scenario.num_classes if self.labels == "own" else 0
        loss = losses.cross_entropy(z[: len(y)], y)
        loss = loss + self.alpha * losses.cross_entropy(z[len(y) :], y_noise + shift)
        pull = losses.noise_alignment(
            h[: len(y)], y, h[len(y) :], y_noise, tau=self.tau, weight=self.inner
        )
        return loss + self.lambda_ * pull

    def predict(self, fed, client, x):
        return super().predict(fed, client, x)[:, : fed.scenario.num_classes]


def noise_images(classes: int, ipc: int, shape: Sequence[int], own: torch.Generator) -> Tensor:
    """Images of an untrained style-based generator, in the scale that networks see.

    float32 [classes * ipc, *shape], class by class, mean 0 and standard deviation 1 per channel.
    As in StyleGAN2 (Karras et al. 2020), with random weights and without its per-pixel noise:
    a random 4 x 4 picture is convolved and enlarged again and again, and a latent vector scales the
    channels of every convolution. Latents of a class come from N(m, 0.3^2) around a random m: VHL
    says one Gaussian per class and not which.
    """

    def randn(*size):
        return torch.randn(*size, generator=own)

    centers = randn(classes, LATENT).repeat_interleave(ipc, dim=0)
    latent = F.leaky_relu(
        (centers + 0.3 * randn(classes * ipc, LATENT)) @ randn(LATENT, LATENT) / LATENT**0.5, 0.2
    )
    layers = max(1, math.ceil(math.log2(max(shape[1:]) / 4)))
    x = randn(1, WIDTH, 4, 4).expand(len(latent), -1, -1, -1)
    picture = torch.zeros(len(latent), shape[0], 4, 4)
    for _ in range(layers):
        x, picture = (F.interpolate(v, scale_factor=2.0, mode="bilinear") for v in (x, picture))
        x = F.leaky_relu(_styled(x, randn(WIDTH, WIDTH, 3, 3), latent @ randn(LATENT, WIDTH)), 0.2)
        x = x * 2**0.5
        picture = picture + F.conv2d(x, randn(shape[0], WIDTH, 1, 1) / WIDTH**0.5)
    picture = F.interpolate(picture, size=tuple(shape[1:]), mode="bilinear")
    mean, std = picture.mean((0, 2, 3), keepdim=True), picture.std((0, 2, 3), keepdim=True)
    return (picture - mean) / std


def _styled(x: Tensor, weight: Tensor, style: Tensor) -> Tensor:
    """Convolution whose input channels are scaled image by image, outputs brought to length 1."""
    scale = 1 + style / LATENT**0.5
    lengths = ((weight[None] * scale[:, None, :, None, None]) ** 2).sum((2, 3, 4)).sqrt()
    return F.conv2d(x * scale[:, :, None, None], weight, padding=1) / lengths[:, :, None, None]
