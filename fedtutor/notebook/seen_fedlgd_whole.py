"""What notebook 05a sees inside a federation that trains on virtual images.

`anchored` is a look (`run.looks("fedlgd", seen.anchored)`), for FedLGD, VHL and FedAvg alike;
`at_the_end` and `through` read what it saw. The server's images, or VHL's noise, are the anchors.
"""

import copy
from collections.abc import Sequence

import numpy as np
import torch

from .. import losses, measures
from ..distillation import VirtualImages, virtual_images

STEPS = 100  # of a network that learns from the anchors alone
TESTS = 100  # test images per client whose features are compared
SHOWN = 5  # classes whose first virtual image is kept as a picture


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


def rounds_seen(looks: Sequence) -> list[int]:
    """The rounds in which the look saw something; 0 is before round 1."""
    return [round_ for round_, found in enumerate(looks[0]) if found]
