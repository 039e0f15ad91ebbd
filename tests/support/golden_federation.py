"""The federation whose numbers were computed with the authors' code."""

import torch
from support.federations import settings
from torch import nn

from fedtutor import models, rounds
from fedtutor.engine import batches, new_networks
from fedtutor.images import Images
from fedtutor.scenarios.base import ClientData, Scenario


class Rows(nn.Module):
    def __init__(self, w, b):
        super().__init__()
        self.linear = nn.Linear(5, 3, dtype=torch.float64)
        self.linear.weight.data, self.linear.bias.data = w.clone(), b.clone()

    def forward(self, x):
        return self.linear(x)


class RowScenario(Scenario):
    """A pixel is the number of a row in the golden table."""

    def normalize(self, x):
        return self.__dict__["rows"][x.flatten().long()]


def golden_federation(golden, method, monkeypatch, **changes):
    rows = [torch.from_numpy(golden[f"x{k}"]).flatten(0, 1) for k in range(3)]
    labels = [torch.from_numpy(golden[f"y{k}"]).flatten() for k in range(3)]
    held, first = [], 0
    for k, (row, y) in enumerate(zip(rows, labels, strict=True)):
        pixels = torch.arange(first, first + len(row), dtype=torch.uint8).view(-1, 1, 1, 1)
        held.append(ClientData(f"c{k}", f"c{k}", Images(pixels, y, source="golden")))
        first += len(row)
    scenario = RowScenario(
        name="golden", title="golden", num_classes=3, clients=tuple(held),
        tests={c.id: c.private for c in held}, public=None, mean=(0.0,), std=(1.0,),
        stand_in=True, class_names=("0", "1", "2"),
    )  # fmt: skip
    object.__setattr__(scenario, "rows", torch.cat(rows))
    monkeypatch.setattr(Scenario, "to", lambda self, device: self)
    w, b = torch.from_numpy(golden["W0"]), torch.from_numpy(golden["b0"])
    monkeypatch.setitem(models.MODELS, "rows", lambda **_: Rows(w, b))
    monkeypatch.setattr(new_networks, "build", lambda name, **_: Rows(w, b))
    monkeypatch.setattr(batches, "batches", lambda fed, n, own: torch.arange(n).split(8))
    chosen = settings(
        rounds=1, local_epochs=int(golden["epochs"]), batch_size=8, lr=float(golden["lr"]),
        momentum=float(golden["momentum"]), models=["rows"], **changes,
    )  # fmt: skip
    fed = rounds.Federation(scenario, method, chosen, seed=0)
    rounds.run(fed)
    return fed
