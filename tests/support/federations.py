"""Small scenarios, networks and federations that a reader can follow by hand."""

from dataclasses import replace

import torch
from torch import nn

from fedtutor.federation import Federation
from fedtutor.images import Images
from fedtutor.methods import make
from fedtutor.models import Architecture
from fedtutor.models.layers import Dropout
from fedtutor.rounds import run
from fedtutor.scenarios.base import ClientData, Scenario
from fedtutor.settings import Settings


def noisy(channels: int, size: int) -> nn.Module:
    """Batch norm and dropout, for everything that could depend on chance or order."""
    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(channels * size**2), Dropout(0.5))


def hidden(channels: int, size: int) -> nn.Module:
    """Features that are learned: five numbers between -1 and 1."""
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * size**2, 5), nn.Tanh())


class Called(nn.Module):
    """A layer that is a function."""

    def __init__(self, compute):
        super().__init__()
        self.compute = compute

    def forward(self, x):
        return self.compute(x)


NETWORKS = {
    "linear": Architecture(lambda channels, size: nn.Flatten(), "softmax regression", 1),
    "noisy": Architecture(noisy, "the same with batch norm and dropout", 1),
    "hidden": Architecture(hidden, "one hidden layer", 1),
}


def images(count: int, *, seed: int, classes: int = 3, size: int = 4) -> Images:
    """Learnable images: class c is bright in row c; the seed shifts what lies beside it."""
    own = torch.Generator().manual_seed(seed)
    y = torch.arange(count) % classes
    x = torch.randint(0, 120, (count, 1, size, size), generator=own)
    x[torch.arange(count), 0, y] += 100
    return Images(x.to(torch.uint8), y, source=f"rows {seed}")


class InThisProcess:
    """In place of `jobs.Job`: the same work in this process, at once."""

    def __init__(self, task):
        self.task = task

    def outcome(self):
        try:
            return "done", self.task.work(*self.task.given, **self.task.options)
        except Exception as error:
            return "failed", error

    def stop(self):
        pass


def tiny_scenario(*, clients: int = 3, count: int = 24, public: bool = True) -> Scenario:
    names = [f"domain{i}" for i in range(clients)]
    return Scenario(
        name="tiny", title="bright rows", num_classes=3,
        clients=tuple(ClientData(n, n, images(count + 3 * i, seed=i))
                      for i, n in enumerate(names)),
        tests={n: images(30, seed=100 + i) for i, n in enumerate(names)},
        public=images(20, seed=50) if public else None,
        mean=(0.5,), std=(0.25,), stand_in=True, class_names=("0", "1", "2"),
    )  # fmt: skip


def pixels(*values: int) -> torch.Tensor:
    """One image of 4 x 4 pixels per value, filled with it."""
    return torch.tensor(values, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 1, 4, 4).clone()


def by_hand(*held: dict[int, tuple], draw=pixels) -> Scenario:
    """One client per dict of class -> what `draw` makes images of; a normalized pixel is its value.

    With `pixels` these are pixel values, each of which fills an image.
    """
    clients = []
    for k, classes in enumerate(held):
        y = torch.tensor([c for c, values in classes.items() for _ in values])
        x = draw(*[v for values in classes.values() for v in values])
        clients.append(ClientData(f"c{k}", "all", Images(x, y, source="by hand")))
    return Scenario(
        name="by hand", title="drawn by hand", num_classes=3, clients=tuple(clients),
        tests={"all": images(9, seed=0)}, public=None, mean=(0.0,), std=(1 / 255,), stand_in=True,
        class_names=("0", "1", "2"),
    )  # fmt: skip


TWO = by_hand({0: (2, 4), 1: (8,)}, {0: (9,), 1: (1, 3)})  # three images each, nobody has class 2


def skewed() -> Scenario:
    """The first client has nothing of class 2."""
    scenario = tiny_scenario()
    data = scenario.clients[0].private
    few = Images(data.x[data.y != 2], data.y[data.y != 2], source="two classes")
    first = replace(scenario.clients[0], private=few)
    return replace(scenario, clients=(first, *scenario.clients[1:]))


def settings(**changes) -> Settings:
    base = {"rounds": 3, "local_epochs": 2, "batch_size": 8, "lr": 0.05, "models": ["linear"]}
    return Settings(**{**base, **changes})


def federation(method="fedavg", *, scenario=None, seed=0, threads=1, artifacts=None,
               parameters=None, device="cpu", **changes) -> Federation:  # fmt: skip
    built = make(method, **(parameters or {})) if isinstance(method, str) else method
    return Federation(
        scenario or tiny_scenario(), built, settings(**changes), seed=seed, threads=threads,
        artifacts=artifacts, device=device,
    )  # fmt: skip


def played(method="fedavg", **options) -> Federation:
    fed = federation(method, **options)
    run(fed)
    return fed


def local_loss(fed: Federation, client) -> float:
    """Of all the client's images."""
    x, y = fed.scenario.normalize(client.data.x), client.data.y
    return float(fed.method.local_loss(client, x, y).detach())


def weights_of(fed: Federation) -> dict[str, torch.Tensor]:
    """All weights and buffers of everybody, by name."""
    holders = {"server": fed.server, **{c.id: c for c in fed.clients}}
    return {
        f"{owner}/{role}/{name}": value
        for owner, holder in holders.items()
        for role, model in holder.models.items()
        for name, value in model.state_dict().items()
    }


def assert_same_bits(a: dict, b: dict) -> None:
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), name
