"""New networks for a federation: equal ones start from equal weights, if the settings say so."""

import copy
from collections.abc import Callable
from functools import cache

import torch

from ..channel import SERVER
from ..models import Network, build
from ..randomness import generator


class NewNetworks:
    """Makes networks for the images of a scenario; with `common_init` all owners start equally."""

    def __init__(self, scenario, settings, seed: int, device: torch.device):
        self.scenario, self.settings, self.seed, self.device = scenario, settings, seed, device
        self._common = cache(self._drawn)  # the common start is drawn once, and copied

    def maker(self, owner: str, name: str) -> Callable:
        """The function `make(network=name, *, num_classes=None, role="model")` of an owner."""
        owner = SERVER if self.settings.common_init else owner

        def make(network: str = name, *, num_classes: int | None = None, role: str = "model"):
            drawn = (network, num_classes or self.scenario.num_classes, role, owner)
            return copy.deepcopy(self._common(*drawn)) if owner == SERVER else self._drawn(*drawn)

        return make

    def _drawn(self, network: str, num_classes: int, role: str, owner: str) -> Network:
        return build(
            network,
            num_classes=num_classes,
            in_channels=self.scenario.channels,
            image_size=self.scenario.image_size,
            generator=generator(self.seed, owner, "init", network, role),
        ).to(self.device)
