"""The floor and the ceiling: everyone alone, and everything in one place."""

from dataclasses import dataclass

import torch
from pydantic import NonNegativeInt

from ..images import Images
from .base import Method, register
from .shared.pretraining import pretrain


@register("solo")
@dataclass
class Solo(Method):
    """Each client trains on its own images and nothing crosses (BASE in FCCL+, IL in RepShare).

    FCCL lets every method start from networks that were trained alone; `pretrain_epochs` gives
    this one the same budget.
    """

    pretrain_epochs: NonNegativeInt = 0  # epochs before round 1 (FCCL: 50)

    def start(self, fed):
        pretrain(fed, self.pretrain_epochs)


@register("central")
@dataclass
class Central(Method):
    """All private images in one place, one network (CL in RepShare): what privacy forbids.

    The first client plays the server; the others send their images once, before round 1. That is
    why this method has bytes too.
    """

    def start(self, fed):
        center, *others = fed.clients
        fed.ask([center], self.take, fed.upload(others, "images", self.images))

    def images(self, client):
        return {"x": client.data.x, "y": client.data.y}

    def take(self, center, sent: list):
        """The images of all others behind the center's own; a second start finds the same."""
        own = center.state.setdefault("own images", len(center.data))
        parts = [self.images(center), *sent]
        parts[0] = {key: part[:own] for key, part in parts[0].items()}
        x, y = (torch.cat([part[key] for part in parts]) for key in "xy")
        center.data = Images(x, y, source="all clients")

    def select(self, fed):
        return fed.clients[:1]

    def evaluated(self, fed, client):
        return fed.clients[0].model
