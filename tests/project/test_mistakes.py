"""Mistakes that people make, in one table: each is an error of ours that says what to do.

A row is what was done, in words; how; and what the message has to contain. None of them may end in
a foreign exception, and none may pass in silence.
"""

import re
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import pytest
import torch
from support.federations import Called, federation, images, settings, tiny_scenario
from torch import nn

from fedtutor import methods, models, rounds, scenarios
from fedtutor.__main__ import main
from fedtutor.datasets import bundled
from fedtutor.distillation import VirtualImages
from fedtutor.engine.checkpoints import Checkpoints
from fedtutor.engine.files import ROOT
from fedtutor.engine.workers import device_of
from fedtutor.errors import FedtutorError, choose
from fedtutor.federation import Federation
from fedtutor.images import Images
from fedtutor.methods import Method, make
from fedtutor.methods.fedavg import FedAvg, average
from fedtutor.methods.fedprox import FedProx
from fedtutor.models import Architecture, networks
from fedtutor.models.layers import DropConnect, Dropout
from fedtutor.notebook.start import start
from fedtutor.scenarios import partitions
from fedtutor.scenarios.base import ClientData, Scenario, build
from fedtutor.settings import Settings

pytestmark = pytest.mark.usefixtures("own_tables")

NAN, RNG = float("nan"), np.random.default_rng(0)
X = torch.zeros(2, 1, 4, 4, dtype=torch.uint8)
Y = torch.zeros(2, dtype=torch.int64)
SHARED = nn.Conv2d(3, 2, 3)
CELL = {"profile": "quick", "scenario": None, "seeds": [0], "methods": ["solo"], "device": "cpu",
        "overrides": {}}  # fmt: skip


def fed(scenario=None, method=None, given=None, **options):
    return Federation(scenario or tiny_scenario(), method or make("fedavg"), given or settings(),
                      **options)  # fmt: skip


def scenario(**changes) -> Scenario:
    return replace(tiny_scenario(), **changes)


def client(**changes) -> ClientData:
    return ClientData(**{"id": "a", "domain": "domain0", "private": images(6, seed=0), **changes})


def pick(name, count):
    choose(name, [f"part{k}" for k in range(count)], kind="part", where="here")


def hooked(parent=FedAvg, name="mine", **members):
    """Register a method whose class body holds `members`."""
    return methods.register(name)(dataclass(type("Mine", (parent,), members)))


def played(parent=FedAvg, **members):
    """Play a round of a method whose class body holds `members`."""
    cls = hooked(parent, **members)
    return rounds.run(fed(method=cls(), given=settings(rounds=1)))


def spoil(client):
    with torch.no_grad():
        next(client.model.parameters())[0] = NAN


def loss(compute):
    return played(local_loss=lambda self, client, x, y: compute(client, x, y))


def network(layers, smallest=4, **options):
    """Register a network of the layers that `layers()` makes."""

    def features(channels, size):
        return nn.Sequential(*layers())

    return models.register("mine", Architecture(features, "ours", smallest, **options))


class OwnWeight(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return self.scale * x.flatten(1)


class Forgets(OwnWeight):
    def draw_weights(self, generator):
        pass


class PlainTensor(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.ones(1)

    def forward(self, x):
        return x.flatten(1) * self.table


@dataclass
class NeedsOne(Method):
    strength: float


@dataclass
class Bare(FedAvg):
    strength: float = 1.0


class Undecorated(FedAvg):
    strength: float = 1.0


def cell(**changes):
    return start({**CELL, **changes}, recipe="start")


def registered(function, name="mine"):
    return scenarios.register(name)(function)


def built(function):
    registered(function)
    return build("mine")


def network_of(**changes):
    return models.build(**{"network": "linear", "num_classes": 3, "in_channels": 1, "image_size": 4,
                           "generator": torch.Generator(), **changes})  # fmt: skip


# what was done | how | what the message contains
MISTAKES = [
    # ------------------------------------------------------------------ settings
    ("rounds as a text", lambda: Settings(rounds="3"), "rounds must be a valid integer"),
    ("rounds as a fraction", lambda: Settings(rounds=3.5), "valid integer"),
    ("rounds that are no number", lambda: Settings(rounds=None), "rounds = None"),
    ("rounds as true", lambda: Settings(rounds=True), "rounds = True"),
    ("no round", lambda: Settings(rounds=0), "rounds must be greater than 0"),
    ("a learning rate as a text", lambda: Settings(lr="0.1"), "lr must be a valid number"),
    ("a learning rate that is nan", lambda: Settings(lr=NAN), "lr = nan"),
    ("an infinite learning rate", lambda: Settings(lr=float("inf")), "finite"),
    ("a learning rate of 0", lambda: Settings(lr=0), "greater than 0"),
    ("an infinite weight decay", lambda: Settings(weight_decay=float("inf")), "finite"),
    ("a setting without its s", lambda: Settings(round=3), "did you mean 'rounds'"),
    ("a setting of PyTorch", lambda: Settings(learning_rate=0.1), "unknown part 'learning_rate'"),
    ("too many settings in a row", lambda: Settings(*range(60)), "by name"),
    ("a network's name for a list", lambda: Settings(models="small_cnn"), "['small_cnn']"),
    ("no network", lambda: Settings(models=[]), "models must have at least 1 item"),
    ("a network itself", lambda: Settings(models=[nn.Linear(1, 1)]), "models[0] = Linear"),
    ("a moment for a list", lambda: Settings(observe="local_epoch"), "['local_epoch']"),
    ("a moment that is none", lambda: Settings(observe=["after_all"]), "moment in 'observe'"),
    ("a payload's name for a list", lambda: Settings(record={"names": "weights"}), "['weights']"),
    ("rounds as texts to record", lambda: Settings(record={"rounds": ["1"]}), "rounds[0] = '1'"),
    ("an unknown key to record", lambda: Settings(record={"name": ["w"]}), "did you mean 'names'"),
    ("a list to record", lambda: Settings(record=["weights"]), "record must be a valid dictionary"),
    ("epochs as one number", lambda: Settings(client_epochs=3), "such as [3]"),
    ("epochs of 0", lambda: Settings(client_epochs=[1, 0]), "client_epochs[1] = 0"),
    ("an optimizer in capitals", lambda: Settings(optimizer="SGD"), "did you mean 'sgd'"),
    ("yes for true", lambda: Settings(drop_last="yes"), "drop_last must be a valid boolean"),
    ("1 for true", lambda: Settings(common_init=1), "common_init = 1"),
    ("participation in percent", lambda: Settings(participation=50), "less than or equal to 1"),
    ("a momentum of 1", lambda: Settings(momentum=1.0), "momentum must be less than 1"),
    ("half precision", lambda: Settings(precision="float16"), "unknown precision"),
    # ------------------------------------------------------------------ devices
    ("a device that is not known", lambda: device_of("tpu"), "choose one of: cpu, cuda"),
    ("a device as a number", lambda: device_of(0), "unknown device 0"),
    ("no device", lambda: device_of(None), "unknown device None"),
    ("a second CPU", lambda: device_of("cpu:1"), "unknown device"),
    ("a GPU that is not there", lambda: fed(device="cuda:99"), "is not there"),
    ("a misspelt device", lambda: fed(device="cdua"), "did you mean 'cuda'"),
    ("a misspelt device for images", lambda: images(4, seed=0).to("gpu"), "unknown device"),
    ("a scenario on no device", lambda: tiny_scenario().to("mps"), "unknown device 'mps'"),
    # ------------------------------------------------------------------ federation
    ("a seed of one half", lambda: fed(seed=0.5), "seed = 0.5"),
    ("no seed", lambda: fed(seed=None), "whole number, 0 or more"),
    ("two seeds", lambda: fed(seed=[0, 1]), "seed = [0, 1]"),
    ("a seed below 0", lambda: fed(seed=-1), "0 or more"),
    ("no thread", lambda: fed(threads=0), "threads = 0"),
    ("threads as a text", lambda: fed(threads="2"), "whole number, 1 or more"),
    ("a scenario's name", lambda: fed(scenario="digits-mini"), "scenarios.build"),
    ("a client for a scenario", lambda: fed(scenario=client()), "the scenario is"),
    ("a method's name", lambda: fed(method="fedavg"), 'methods.make("fedavg")'),
    ("a method's class", lambda: fed(method=FedAvg), "the class FedAvg"),
    ("the settings as a table", lambda: fed(given={"rounds": 3}), "write Settings"),
    ("method and settings swapped", lambda: fed(method=settings(), given=make("solo")), "method"),
    ("a method made with nan", lambda: fed(method=FedProx(mu=NAN)), "mu = nan"),
    ("artifacts as a list", lambda: fed(artifacts=[]), "path of a folder"),
    ("artifacts among the data",
     lambda: fed(artifacts=ROOT / "data" / "bundled"), "keeps its data"),
    ("2 networks for 3 clients", lambda: fed(given=settings(models=["linear"] * 2)), "2 networks"),
    ("an unknown network", lambda: fed(given=settings(models=["small_cn"])), "small_cnn"),
    ("2 epochs for 3 clients", lambda: fed(given=settings(client_epochs=[1, 2])), "client_epochs"),
    ("public learning without public images",
     lambda: rounds.run(fed(scenario(public=None), make("fedmd"))), "public data"),
    ("a checkpoint among bundled data",
     lambda: rounds.run(fed(), checkpoint=ROOT / "data" / "bundled"), "keeps its data"),
    ("a checkpoint among results",
     lambda: rounds.run(fed(), checkpoint=ROOT / "data" / "results" / "mine"), "data/results/mine"),
    ("a checkpoint among recipes", lambda: Checkpoints(ROOT / "data" / "recipes", 0), "keeps its"),
    ("a checkpoint among published tables",
     lambda: Checkpoints(str(ROOT / "data" / "published"), 0), "choose another folder"),
    ("a checkpoint in data/", lambda: Checkpoints(ROOT / "tests" / ".." / "data", 0), "its data"),
    ("a checkpoint in a file", lambda: Checkpoints(ROOT / "README.md", 0), "is a file"),
    ("a checkpoint as a number", lambda: rounds.run(fed(), checkpoint=3), "path of a folder"),
    ("a checkpoint with no name", lambda: rounds.run(fed(), checkpoint=""), "path of a folder"),
    ("checkpoints every so often", lambda: rounds.run(fed(), every="often"), "every = 'often'"),
    ("checkpoints every -1 s", lambda: rounds.run(fed(), every=-1), "0 or more"),
    # ------------------------------------------------------------------ images
    ("images as numpy", lambda: Images(X.numpy(), Y, "mine"), "torch.as_tensor"),
    ("images as floats", lambda: Images(X.float(), Y, "mine"), "(x * 255).round()"),
    ("images of 16 bit", lambda: Images(X.to(torch.int16), Y, "mine"), "torch.int16"),
    ("images without channels", lambda: Images(X[:, 0], Y, "mine"), "[n, channels, height, width]"),
    ("images of no pixel", lambda: Images(X[..., :0], Y, "mine"), "[2, 1, 4, 0]"),
    ("labels as floats", lambda: Images(X, Y.float(), "mine"), "the labels are torch.float32"),
    ("labels of 32 bit", lambda: Images(X, Y.int(), "mine"), "give int64 [n]"),
    ("labels as vectors", lambda: Images(X, torch.eye(2).long(), "mine"), "int64 [2, 2]"),
    ("labels as a list", lambda: Images(X, [0, 1], "mine"), "not tensors"),
    ("one label too few", lambda: Images(X, Y[:1], "mine"), "2 images and 1 labels"),
    ("images from nowhere", lambda: Images(X, Y, None), "source = None"),
    ("images without a source", lambda: Images(X, Y), "source"),
    ("a misspelt part", lambda: Images(X, Y, sorce="mine"), "did you mean 'source'"),
    ("one image by number", lambda: images(4, seed=0)[2], "take a slice: [2 : 3]"),
    ("an image behind the last", lambda: images(4, seed=0)[torch.tensor([9])], "does not fit"),
    ("a mask of another length", lambda: images(4, seed=0)[torch.ones(3).bool()], "does not fit"),
    ("an index by name", lambda: images(4, seed=0)["first"], "does not fit"),
    ("counts of no class", lambda: images(4, seed=0).counts(0), "num_classes = 0"),
    ("counts of too few classes", lambda: images(6, seed=0).counts(2), "label 2 is out of range"),
    ("virtual images of bytes", lambda: VirtualImages(X, Y), "give float32"),
    ("virtual images as a list", lambda: VirtualImages([1], Y), "give float32"),
    ("arrays of floats", lambda: bundled.from_arrays(np.zeros((2, 8, 8)), [0, 1], "m"), "* 255"),
    ("arrays with channels first",
     lambda: bundled.from_arrays(np.zeros((2, 3, 8, 8), "u1"), [0, 1], "m"), "channels come last"),
    ("gray arrays with channels first",
     lambda: bundled.from_arrays(np.zeros((2, 1, 8, 8), "u1"), [0, 1], "m"), "transpose"),
    ("arrays that can be read both ways",
     lambda: bundled.from_arrays(np.zeros((2, 3, 3, 3), "u1"), [0, 1], "m"), "channels come last"),
    ("arrays of unequal size",
     lambda: bundled.from_arrays([np.zeros((4, 4)), np.zeros((5, 5))], [0, 1], "m"), "one size"),
    ("labels as texts", lambda: bundled.from_arrays(np.zeros((2, 8, 8), "u1"), ["a", "b"], "m"),
     "whole-number labels"),
    ("one label for all", lambda: bundled.from_arrays(np.zeros((2, 8, 8), "u1"), [0], "m"),
     "2 images and 1 labels"),
    ("padding to less", lambda: bundled.pad(images(2, seed=0), 3), "at least as large"),
    ("padding to a fraction", lambda: bundled.pad(images(2, seed=0), 8.5), "size = 8.5"),
    ("resizing to nothing", lambda: bundled.resize(images(2, seed=0), 0), "1 or more"),
    ("enlarging by a half", lambda: bundled.enlarge(images(2, seed=0), 0.5), "factor = 0.5"),
    ("colors of two channels",
     lambda: bundled.to_rgb(Images(X.expand(2, 2, 4, 4), Y, "m")), "2 channels"),
    ("a bundled part that is none", lambda: bundled.bundled("streets"), "did you mean 'street'"),
    # ------------------------------------------------------------------ scenarios
    ("a client without images", lambda: ClientData("a", "a", None), ".Images; from_arrays"),
    ("a Dataset as private data",
     lambda: client(private=torch.utils.data.TensorDataset(X, Y)), "torch Dataset"),
    ("a client without a name", lambda: client(id=""), "id = ''"),
    ("a client with a number", lambda: client(id=3), "id = 3"),
    ("a client that is the server", lambda: client(id="server"), "another id"),
    ("a domain as a list", lambda: client(domain=["domain0"]), "domain ="),
    ("a client without a domain", lambda: ClientData("a", private=images(3, seed=0)), "domain"),
    ("clients with a comma missing", lambda: scenario(clients=(client())), "must be a valid tuple"),
    ("clients' images for clients", lambda: scenario(clients=(images(3, seed=0),)), "clients[0] ="),
    ("two clients of one name", lambda: scenario(clients=(client(), client())), "one name"),
    ("a mean as a number", lambda: scenario(mean=0.5), "such as (0.5,)"),
    ("a std with a comma missing", lambda: scenario(std=(0.25)), "such as (0.25,)"),
    ("a mean of bytes", lambda: scenario(mean=(127,)), "divide those of pixels from 0 to 255"),
    ("a std next to 0", lambda: scenario(std=(7e-138,)), "0.0001 or more"),
    ("a std of bytes", lambda: scenario(std=(64.0,)), "by 255"),
    ("a mean below 0", lambda: scenario(mean=(-0.5,)), "pixels from 0 to 1"),
    ("a mean that is nan", lambda: scenario(mean=(NAN,)), "mean[0] = nan"),
    ("a mean for three channels", lambda: scenario(mean=(0.5,) * 3), "for 1 channels"),
    ("a mean as texts", lambda: scenario(mean=("0.5",)), "mean[0] = '0.5'"),
    ("class names as one text", lambda: scenario(class_names="012"), "must be a valid tuple"),
    ("class names as numbers", lambda: scenario(class_names=(0, 1, 2)), "class_names[0] = 0"),
    ("one class", lambda: scenario(num_classes=1), "num_classes = 1"),
    ("classes as a text", lambda: scenario(num_classes="3"), "num_classes = '3'"),
    ("test sets as a list", lambda: scenario(tests=[images(3, seed=0)]), "valid dictionary"),
    ("a test set of tensors", lambda: scenario(tests={"domain0": X}), "tests['domain0'] is"),
    ("public images as a tensor", lambda: scenario(public=X), "public is a Tensor"),
    ("a stand-in in words", lambda: scenario(stand_in="no"), "stand_in = 'no'"),
    ("a scenario without a name", lambda: scenario(name=""), "name = ''"),
    ("a scenario without a title", lambda: scenario(title=None), "title = None"),
    ("a scenario without its parts", lambda: Scenario(name="mine"), "missing"),
    ("a scenario with a part too many", lambda: Scenario(name="mine", klasses=3), "unknown part"),
    ("images that are not square",
     lambda: scenario(clients=(client(private=Images(X[..., :3], Y, "m")),), public=None,
                      tests={"domain0": Images(X[..., :3], Y, "m")}), "make them square"),
    ("an unknown scenario", lambda: build("digit-mini"), "did you mean 'digits-mini'"),
    ("an unknown option", lambda: build("mnist-mini", clients=3), "unknown option 'clients'"),
    ("clients as a text", lambda: build("mnist-mini", num_clients="3"), "valid integer"),
    ("a share as an option of the unused kind",
     lambda: build("mnist-mini", beta="x"), "beta = 'x'"),
    ("a partition as a number", lambda: build("mnist-mini", partition=3), "partition = 3"),
    ("a scenario of no name", lambda: scenarios.register("")(tiny_scenario), "the name of a"),
    ("register without brackets", lambda: scenarios.register(tiny_scenario), "above the function"),
    ("a function of torch as a scenario", lambda: registered(torch.zeros), "give a function"),
    ("a scenario instead of a function", lambda: registered(tiny_scenario()), "give a function"),
    ("an option without a default", lambda: registered(lambda size: size), "has no default"),
    ("a builder that returns 3", lambda: built(lambda: 3), "returned a int, 3"),
    ("a builder that returns nothing", lambda: built(lambda: None), "return a Scenario"),
    ("labels as a list to deal",
     lambda: partitions.dirichlet_partition([0, 1], 2, 0.5, RNG), "images.y"),
    ("half a shard",
     lambda: build("mnist-mini", partition="shards", shards_per_client=0.5), "a valid integer"),
    ("a seed for a generator",
     lambda: partitions.iid_partition(10, 2, 0), "numpy.random.default_rng"),
    ("a balance of floats", lambda: partitions.balanced_order(Y.float(), RNG), "int64"),
    # ------------------------------------------------------------------ methods
    ("an unknown method", lambda: make("fedavgg"), "did you mean 'fedavg'"),
    ("a method as a class", lambda: make(FedAvg), "unknown method"),
    ("an unknown parameter", lambda: make("fedprox", mmu=0.1), "did you mean 'mu'"),
    ("mu that is nan", lambda: make("fedprox", mu=NAN), "mu = nan"),
    ("an infinite mu", lambda: make("moon", mu=float("inf")), "mu must be a finite number"),
    ("mu below 0", lambda: make("fedprox", mu=-1), "greater than or equal to 0"),
    ("epochs below 0", lambda: make("solo", pretrain_epochs=-1), "pretrain_epochs = -1"),
    ("levels with nan", lambda: make("repshare", levels=[NAN]), "levels"),
    ("a method of no name", lambda: methods.register("")(Bare), "cannot be the name"),
    ("a method with a slash", lambda: methods.register("a/b")(Bare), "letters, digits"),
    ("register without a name", lambda: methods.register(Bare), "cannot be the name"),
    ("a function as a method", lambda: methods.register("mine")(lambda: 0), "is not a method"),
    ("a class without @dataclass",
     lambda: methods.register("mine")(Undecorated), "no @dataclass of its own"),
    ("a class under two names", lambda: methods.register("mine")(FedAvg), "'fedavg' already"),
    ("a parameter without a default", lambda: methods.register("mine")(NeedsOne), "no default"),
    ("a text as the default of a number",
     lambda: hooked(__annotations__={"mu": float}, mu="1"), "mu = '1'"),
    ("a float as the default of a count",
     lambda: hooked(__annotations__={"steps": int}, steps=0.5), "steps must be a valid integer"),
    ("a function in the place of a parameter",
     lambda: hooked(evaluate=lambda s, fed, client: None), "nobody can call it"),
    ("a word that is none of the annotation's",
     lambda: hooked(__annotations__={"pull": Literal["soft", "hard"]}, pull="sof"), "'soft'"),
    ("a limit beside the annotation", lambda: hooked(above_0=("weighting",)), "is no parameter"),
    ("states of two shapes to average",
     lambda: average([{"w": torch.ones(3, 2)}, {"w": torch.ones(2)}], [1, 1]), "equal networks"),
    ("states of other names to average",
     lambda: average([{"w": torch.ones(2)}, {"v": torch.ones(2)}], [1, 1]), "equal networks"),
    ("shares of nothing", lambda: average([{"w": torch.ones(2)}] * 2, [0, 0]), "add up to 0"),
    ("weights that are nan after the last round",
     lambda: played(after_local=lambda s, client: spoil(client)), "holds nan or infinity"),
    ("one of few", lambda: pick("part_7", 50), "? choose one of: part0, part1, part10, part11,"),
    ("one of many", lambda: pick("part_7", 51), "did you mean 'part7'? It is one of 51"),
    ("like none of many", lambda: pick("x", 51), "choose one of: part0, part1, part10, part11,"),
    ("agregate", lambda: hooked(agregate=lambda s, fed, clients: None), "did you mean 'aggregate'"),
    ("local_los", lambda: hooked(local_los=lambda s, c, x, y: 0), "did you mean 'local_loss'"),
    ("localLoss", lambda: hooked(localLoss=lambda s, c, x, y: 0), "did you mean 'local_loss'"),
    ("colaborate", lambda: hooked(colaborate=lambda s, f, c: 0), "did you mean 'collaborate'"),
    ("evaluation", lambda: hooked(Method, evaluate=lambda s, f, c: 0), "did you mean 'evaluated'"),
    ("after_steps", lambda: hooked(after_steps=lambda s, c: 0), "did you mean 'after_step'"),
    ("a hook with an argument too few",
     lambda: hooked(aggregate=lambda self, clients: 0), "def aggregate(self, fed, clients)"),
    ("a hook without self", lambda: hooked(local_loss=lambda c, x, y: 0), "cannot be called with"),
    ("a hook that is a number", lambda: hooked(local_loss=3), "cannot be called with"),
    ("a parameter without a type", lambda: hooked(strength=0.5), "write strength: float = 0.5"),
    ("a parameter of the parent without a type", lambda: hooked(FedProx, mu=0.5), "mu: float"),
    ("a parameter that hides a hook",
     lambda: hooked(aggregate=field(default=1), __annotations__={"aggregate": int}), "hook"),
    ("no loss", lambda: loss(lambda c, x, y: None), "local_loss returned None for client domain0"),
    ("a loss as a float", lambda: loss(lambda c, x, y: 0.5), "mine, round 1"),
    ("a loss by item",
     lambda: loss(lambda c, x, y: nn.functional.cross_entropy(c.model(x), y).item()), ".item()"),
    ("a loss per image",
     lambda: loss(lambda c, x, y: nn.functional.cross_entropy(c.model(x), y, reduction="none")),
     ".mean()"),
    ("a loss without gradient",
     lambda: loss(lambda c, x, y: nn.functional.cross_entropy(c.model(x).detach(), y)), "gradient"),
    ("a loss in a tuple", lambda: loss(lambda c, x, y: (c.model(x).sum(), 0)), "a tuple"),
    ("a loss that is nan", lambda: loss(lambda c, x, y: c.model(x).sum() * NAN), "learning rate"),
    ("nobody selected", lambda: played(select=lambda self, fed: []), "select returned []"),
    ("nothing selected", lambda: played(select=lambda self, fed: None), "select returned None"),
    ("clients by name",
     lambda: played(select=lambda self, fed: ["domain0"]), "different clients of fed.clients"),
    ("a client selected twice",
     lambda: played(select=lambda self, fed: fed.clients[:1] * 2), "a client twice"),
    ("no networks", lambda: played(build=lambda self, client, make: None), "build returned"),
    ("a network alone",
     lambda: played(build=lambda self, client, make: make()), '{"model": make()}'),
    ("no network called model",
     lambda: played(build=lambda self, client, make: {"net": make()}), '"model" among them'),
    ("no data", lambda: played(local_data=lambda self, client: None), "local_data returned None"),
    ("no image", lambda: played(local_data=lambda self, c: c.data[:0]), "at least one image"),
    ("logits for a network",
     lambda: played(Method, evaluated=lambda self, fed, client: client.id), "evaluated returned"),
    ("a prediction of nothing",
     lambda: played(predict=lambda self, fed, client, x: None), "a NoneType, not [batch, 3]"),
    ("an answer without a name",
     lambda: loss(lambda c, x, y: c.fixed("model", lambda n, x: n(x), x, None)),
     "what is computed"),
    ("a method named twice in a cell", lambda: cell(methods=["solo", "solo"]), "named twice"),
    ("an unknown method in a cell", lambda: cell(methods=["solos"]), "did you mean 'solo'"),
    ("a seed named twice in a cell", lambda: cell(seeds=[0, 0]), "different whole numbers"),
    ("a method's name as a number", lambda: cell(methods=3), "list of names"),
    # ------------------------------------------------------------------ networks
    ("a network of no name", lambda: models.register("", network_of), "cannot be the name"),
    ("a module for an architecture",
     lambda: models.register("mine", nn.Flatten()), "no Architecture"),
    ("a class that is never made", lambda: Architecture(nn.Flatten(), "ours", 4), "features"),
    ("a function of one argument", lambda: Architecture(lambda c: c, "ours", 4), "image_size"),
    ("a network without a source", lambda: Architecture(network_of, None, 4), "features"),
    ("a smallest image of 0", lambda: network(lambda: [nn.Flatten()], smallest=0), "smallest = 0"),
    ("an unknown part",
     lambda: network(lambda: [nn.Flatten()], multiples=2), "did you mean 'multiple'"),
    ("Dropout",
     lambda: network(lambda: [nn.Flatten(), nn.Dropout(0.5)]), "fedtutor.models.layers.Dropout"),
    ("Dropout2d", lambda: network(lambda: [nn.Dropout2d(0.5), nn.Flatten()]), "torch's global"),
    ("AlphaDropout",
     lambda: network(lambda: [nn.Flatten(), nn.AlphaDropout(0.5)]), "AlphaDropout draws"),
    ("RReLU", lambda: network(lambda: [nn.Flatten(), nn.RReLU()]), "nn.LeakyReLU"),
    ("random pooling",
     lambda: network(lambda: [nn.FractionalMaxPool2d(2, 2), nn.Flatten()]), "MaxPool2d"),
    ("dropout as a function",
     lambda: network(lambda: [Called(lambda x: nn.functional.dropout(x.flatten(1), 0.5))]),
     "global random"),
    ("noise as a function",
     lambda: network(lambda: [Called(lambda x: x.flatten(1) + torch.randn_like(x.flatten(1)))]),
     "randn_like"),
    ("a network that returns a tuple",
     lambda: network(lambda: [Called(lambda x: (x, x))]), "a tuple"),
    ("a network that returns a table",
     lambda: network(lambda: [Called(lambda x: {"h": x})]), "a dict"),
    ("a network that returns a map",
     lambda: network(lambda: [nn.Conv2d(3, 8, 3)]), "layers.GlobalAverage() or nn.Flatten()"),
    ("a network of one vector", lambda: network(lambda: [nn.Flatten(0)]), "one vector per image"),
    ("a layer that does not fit",
     lambda: network(lambda: [nn.Flatten(), nn.Linear(7, 7)]), "RuntimeError"),
    ("a layer that breaks",
     lambda: network(lambda: [Called(lambda x: x.nothing)]), "AttributeError"),
    ("a function that makes nothing",
     lambda: models.register("mine", Architecture(lambda c, s: None, "ours", 4)), "a NoneType"),
    ("a weight of one's own",
     lambda: network(lambda: [OwnWeight()]), "draw_weights(self, generator)"),
    ("a weight that is never drawn", lambda: network(lambda: [Forgets()]), "leaves scale unset"),
    ("a transposed convolution",
     lambda: network(lambda: [nn.ConvTranspose2d(3, 2, 3), nn.Flatten()]), "ConvTranspose2d"),
    ("a tensor that is no buffer",
     lambda: network(lambda: [PlainTensor()]), "register_buffer('table'"),
    ("one network for all clients", lambda: network(lambda: [SHARED, nn.Flatten()]), "make new"),
    ("an unknown network by name", lambda: network_of(network="resnet"), "did you mean"),
    ("no generator", lambda: network_of(generator=None), "give a torch.Generator"),
    ("a seed for a generator of weights",
     lambda: network_of(generator=3), "the generator is a int"),
    ("one class of a network", lambda: network_of(num_classes=1), "at least 2"),
    ("true classes", lambda: network_of(num_classes=True), "num_classes = True"),
    ("an image that is too small",
     lambda: network_of(network="resnet10", image_size=8), "at least"),
    ("a convnet of no depth", lambda: networks.convnet(depth=0), "depth = 0"),
    ("a convnet of half a width", lambda: networks.convnet(width=0.5), "width = 0.5"),
    ("dropout in percent", lambda: Dropout(50), "below 1"),
    ("dropout of everything", lambda: Dropout(1.0), "p = 1.0"),
    ("drop-connect below 0", lambda: DropConnect(-0.1), "probability"),
]  # fmt: skip

# what was typed | what stands on the screen; the status is 1, or 2 where argparse refuses
TYPED = [
    ("", "usage: python -m fedtutor"),
    ("notebook", "invalid choice: 'notebook'"),
    ("notebooks --only 99", "no notebook '99'"),
    ("notebooks --source nowhere", "no notebook"),
    ("notebooks --profil quick --only 99 --nothing", "unrecognized arguments: --nothing"),
]


@pytest.mark.parametrize(("done", "contained"), [row[1:] for row in MISTAKES],
                         ids=[row[0] for row in MISTAKES])  # fmt: skip
def test_a_mistake_in_python(done, contained):
    with pytest.raises(FedtutorError, match=re.escape(contained)) as caught:
        done()
    assert caught.value.where and caught.value.do


@pytest.mark.parametrize(("typed", "contained"), TYPED, ids=[row[0] or "nothing" for row in TYPED])
def test_a_mistake_on_the_command_line(typed, contained, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    try:
        assert main(typed.split()) == (1 if typed else 2)
    except SystemExit as refused:
        assert refused.code == 2
    assert contained in capsys.readouterr().err


def test_the_table_is_long_and_every_row_is_another():
    rows = [row[0] for row in MISTAKES] + [row[0] for row in TYPED]
    assert len(rows) >= 135 and len(set(rows)) == len(rows)


def test_what_the_rows_change_is_right_as_it_stands():
    """Without its mistake nothing is refused: a row cannot pass for another reason."""
    assert rounds.run(federation(rounds=1))["accuracy"]
    assert played()["loss"] and network(lambda: [nn.Flatten()]) and cell().methods == ["solo"]
    assert len(client().private) == 6 and scenario().num_classes == 3 and network_of()
    assert built(tiny_scenario).name == "tiny"
    assert hooked(strength=field(default=1.0), __annotations__={"strength": float}).strength == 1.0
    assert loss(lambda c, x, y: nn.functional.cross_entropy(c.model(x), y))["loss"]
