"""Five very different methods, each in some twenty lines, on a linear network.

They show that the contract carries what the papers need: two networks per client (FML), extra
classes (VHL), virtual data (FedLGD), a correction after each step (SCAFFOLD), and an exchange on
public images (FCCL). The whole methods are in `fedtutor/methods`.
"""

from dataclasses import dataclass

import pytest
import torch
from support.federations import (
    assert_same_bits,
    federation,
    images,
    played,
    tiny_scenario,
    weights_of,
)
from torch.nn.functional import cross_entropy, kl_div, log_softmax

from fedtutor.images import Images
from fedtutor.methods import Method
from fedtutor.methods.fedavg import FedAvg, average
from fedtutor.randomness import generator


@dataclass
class TwoNetworks(Method):
    """FML: a private network and a shared one teach each other; the shared ones are averaged."""

    name = "fml-sketch"

    def build(self, client, make):
        return {"model": make("noisy"), "meme": make("linear", role="meme")}

    def local_loss(self, client, x, y):
        z, m = client.model(x), client.models["meme"](x)
        student, teacher = log_softmax(z, 1), log_softmax(m.detach(), 1)
        pull = kl_div(student, teacher, reduction="batchmean", log_target=True)
        return cross_entropy(z, y) + pull + cross_entropy(m, y)

    def aggregate(self, fed, clients):
        sent = [fed.channel.up(c, "meme", c.models["meme"].state_dict()) for c in clients]
        mean = average(sent, [1] * len(sent))
        for client in clients:
            client.models["meme"].load_state_dict(fed.channel.down(client, "meme", mean))


def test_two_networks():
    fed = played(TwoNetworks())
    weights = [c.models["meme"].classifier.weight for c in fed.clients]
    assert all(torch.equal(w, weights[0]) for w in weights)
    assert not torch.equal(*[c.model.classifier.weight for c in fed.clients[:2]])
    assert {row["name"] for row in fed.history["bytes"]} == {"meme"}


@dataclass
class ExtraClasses(FedAvg):
    """VHL: noise images with labels of their own, so the network has more outputs."""

    name = "vhl-sketch"

    def build(self, client, make):
        return {"model": make(num_classes=3 + 2)}

    def start(self, fed):
        fed.server.models["model"] = fed.make(num_classes=3 + 2)
        own = generator(fed.seed, "server", "noise")
        noise = torch.randn(8, 1, 4, 4, generator=own)
        for client in fed.clients:
            client.state["noise"] = fed.channel.down(client, "noise", noise)

    def local_loss(self, client, x, y):
        extra = torch.arange(8) % 2 + 3
        z = client.model(torch.cat([x, client.state["noise"]]))
        return cross_entropy(z, torch.cat([y, extra]))

    def predict(self, fed, client, x):
        return self.evaluated(fed, client)(x)[:, :3]


def test_extra_classes():
    fed = played(ExtraClasses(), rounds=8)
    assert fed.server.model.classifier.out_features == 5
    z = fed.server.model(fed.clients[0].state["noise"])
    assert (z.argmax(1) >= 3).all()  # the noise is told apart from the images


@dataclass
class VirtualData(FedAvg):
    """FedLGD: clients train on few synthetic images made once, as a stored artifact."""

    name = "fedlgd-sketch"

    def start(self, fed):
        super().start(fed)
        for client in fed.clients:
            client.state["virtual"] = fed.artifact(
                "virtual", [client.id, 3], lambda c=client: self.distil(c)
            )

    def distil(self, client):
        means = [client.data.x[client.data.y == c].float().mean(0) for c in range(3)]
        return {"x": torch.stack(means).to(torch.uint8), "y": torch.arange(3)}

    def local_data(self, client):
        return Images(**client.state["virtual"], source="virtual")


def test_virtual_data(tmp_path):
    fed = played(VirtualData(), batch_size=3, local_epochs=2, artifacts=tmp_path)
    assert [c.steps for c in fed.clients] == [6, 6, 6]  # one step per epoch: three images
    assert len(list(tmp_path.glob("virtual-*.pt"))) == 3
    again = VirtualData()
    again.distil = None  # a second run reads what is stored
    other = played(again, batch_size=3, local_epochs=2, artifacts=tmp_path)
    assert torch.equal(fed.server.model.classifier.weight, other.server.model.classifier.weight)


@dataclass
class Corrected(FedAvg):
    """SCAFFOLD, option II: every step is corrected by the difference of control variates."""

    name = "scaffold-sketch"

    def start(self, fed):
        super().start(fed)
        zeros = [torch.zeros_like(p) for p in fed.server.model.parameters()]
        fed.server.state["c"] = zeros
        for client in fed.clients:
            client.state["c_k"] = [torch.zeros_like(p) for p in client.parameters()]

    def collaborate(self, fed, clients):
        super().collaborate(fed, clients)
        for client in clients:
            client.state["c"] = fed.channel.down(client, "control", fed.server.state["c"])
            client.state["w"] = [p.detach().clone() for p in client.parameters()]
            client.state["steps"] = client.steps

    @torch.no_grad()
    def after_step(self, client):
        lr = client.optimizer.param_groups[0]["lr"]
        for p, c, c_k in zip(
            client.parameters(), client.state["c"], client.state["c_k"], strict=True
        ):
            p -= lr * (c - c_k)

    @torch.no_grad()
    def after_local(self, client):
        s, lr = client.state, client.optimizer.param_groups[0]["lr"]
        scale = 1 / ((client.steps - s["steps"]) * lr)
        parts = zip(s["c_k"], s["c"], s["w"], client.parameters(), strict=True)
        s["c_k"] = [c_k - c + scale * (w - p) for c_k, c, w, p in parts]

    def aggregate(self, fed, clients):
        super().aggregate(fed, clients)
        sent = [fed.channel.up(c, "control", c.state["c_k"]) for c in clients]
        fed.server.state["c"] = [sum(parts) / len(sent) for parts in zip(*sent, strict=True)]


def test_control_variates_are_mean_gradients():
    fed = played(Corrected(), rounds=1, local_epochs=1, batch_size=100)
    for client in fed.clients:  # one step from w: c_k is the gradient there
        net = fed.make()
        net.classifier.weight.data, net.classifier.bias.data = client.state["w"]
        loss = cross_entropy(net(fed.scenario.normalize(client.data.x)), client.data.y)
        expected = torch.autograd.grad(loss, net.classifier.weight)[0]
        assert torch.allclose(client.state["c_k"][0], expected, atol=1e-5)


def test_correction_brings_clients_together():
    plain = played(FedAvg(), rounds=8, local_epochs=4)
    corrected = played(Corrected(), rounds=8, local_epochs=4)

    def spread(fed):
        return torch.stack([c.model.classifier.weight for c in fed.clients]).std(0).mean()

    assert spread(corrected) < spread(plain)


@dataclass
class PublicExchange(Method):
    """FCCL's collaborative phase: every client moves its public logits towards their mean."""

    name = "fccl-sketch"

    def collaborate(self, fed, clients):
        for index in fed.public_batches(fed.round_):
            x = fed.scenario.normalize(fed.scenario.public.x[index])
            sent = fed.upload(clients, "logits", self.forward, x)
            fed.download(clients, "mean logits", self.move, torch.stack(sent).mean(0))

    def forward(self, client, x):
        client.held["z"] = client.model(x)
        return client.held["z"]

    def move(self, client, mean):
        step = torch.optim.SGD(client.parameters(), lr=0.05)
        step.zero_grad()
        ((client.held["z"] - mean) ** 2).mean().backward()
        step.step()


def test_public_exchange():
    fed = federation(PublicExchange(), common_init=False)
    x = fed.scenario.normalize(fed.scenario.public.x)

    @torch.no_grad()
    def apart():
        return float(torch.stack([c.model(x) for c in fed.clients]).std(0).mean())

    before = apart()
    fed.begin_round(1)
    for _ in range(20):
        fed.method.collaborate(fed, fed.clients)
    assert apart() < 0.5 * before


@pytest.mark.parametrize("threads", [2, 3])
def test_public_exchange_between_different_networks(threads):
    options = {"models": ["linear", "noisy", "linear"]}
    whole, other = (
        played(PublicExchange(), **options),
        played(PublicExchange(), threads=threads, **options),
    )
    assert_same_bits(weights_of(whole), weights_of(other))
    logits = [row for row in whole.history["bytes"] if row["name"] == "logits"]
    assert logits[0]["bytes"] == 20 * 3 * 4 * 3  # images, classes, float32, clients


def test_an_artifact_is_made_once_per_data_and_seed(tmp_path):
    made = []

    def make():
        made.append(1)
        return {"x": torch.ones(2)}

    for seed, scenario in ((0, None), (0, None), (1, None), (0, tiny_scenario(count=9))):
        fed = federation("solo", seed=seed, scenario=scenario, artifacts=tmp_path)
        assert torch.equal(fed.artifact("stage", {"steps": 3}, make)["x"], torch.ones(2))
    assert len(made) == 3
    fed = federation("solo")  # without a folder: in memory, for this run
    fed.artifact("stage", {}, make)
    fed.artifact("stage", {}, make)
    assert len(made) == 4
    assert images(3, seed=0).fingerprint != images(3, seed=1).fingerprint
