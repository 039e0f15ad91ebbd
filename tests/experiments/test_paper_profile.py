"""At the profile "paper" a recipe plays one small round on each scenario that it has.

The images are noise in the shape of each set; the networks, splits, public images and parameters
are the recipe's own. Smaller are images, clients, epochs and steps alone.
"""

from dataclasses import replace

import numpy as np
import pytest
from support import trees

from fedtutor.datasets.catalog import SETS
from fedtutor.errors import SettingError
from fedtutor.experiments import recipes
from fedtutor.federation import Federation
from fedtutor.rounds import run
from fedtutor.scenarios import SCENARIOS, digits, photos

OWN = {  # recipe -> the method of its paper; of the others one that they have
    "fccl": "fccl",
    "fccl_plus": "fccl+",
    "fedcsd": "fedcsd",
    "repshare": "repshare",
    "fedlgd": "fedlgd",
    "benchmark": "fedavg",
    "start": "fedavg",
    "attacks": "fedavg",
}
FEW = {  # instead of larger values, of settings, scenarios and methods alike
    "rounds": 1,
    "local_epochs": 1,
    "pretrain_epochs": 1,
    "public_epochs": 1,
    "batch_size": 4,
    "public_batch_size": 4,
    "public_size": 4,
    "private_size": 300,
    "test_size": 40,
    "min_per_class": 5,
    "virtual_steps": 1,
    "virtual_ipc": 1,
    "virtual_batch": 4,
    "local_steps": 1,
    "global_steps": 1,
    "global_ipc": 1,
}
GRAY = {"mnist", "fashion_mnist", "femnist", "usps"}
CLIENTS, IMAGES = 4, 4  # at most so many; private images of each, and of each test set


def of_the_paper(name: str) -> list[str]:
    """The scenarios for which a recipe has values of its paper."""
    table = recipes.read_toml(recipes.RECIPES / f"{name}.toml")
    return list(dict.fromkeys([table["scenario"]["name"]["paper"], *table.get("at", {})]))


PAIRS = [(name, scenario) for name in OWN for scenario in of_the_paper(name)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Every set that a scenario can ask for: few images, of the right classes."""
    folder = tmp_path_factory.mktemp("sets")
    for name, known in SETS.items():
        for number, split in enumerate(known.splits):
            count = 5000 if (name, split) == ("svhn", "train") else 400  # digits-partial takes all
            count = 2000 if name == "cifar10_c" else count  # five severities
            colors = () if name in GRAY else (3,)
            images = trees.pixels(count, 32, 32, *colors, seed=number)
            labels = np.sort(trees.ten(count, known.num_classes))
            trees.npz(folder, name, split, images, labels)
    return folder


@pytest.fixture
def noise(folder, tmp_path, monkeypatch):
    """Nothing but noise is found, and it passes for whole sets."""
    monkeypatch.setenv("FEDTUTOR_DATA", str(folder))
    monkeypatch.setenv("FEDTUTOR_CACHE", str(tmp_path))
    monkeypatch.setenv("FEDTUTOR_OFFLINE", "1")
    trees.small_is_whole(monkeypatch)
    monkeypatch.setitem(digits.SIZES, "paper", (15, 8, 50, 18))
    monkeypatch.setattr(photos, "OFFICE_HOME", dict.fromkeys(photos.OFFICE_HOME, 100))


def smaller(recipe: recipes.Recipe, method: str) -> recipes.Recipe:
    """The recipe with `FEW` wherever it has more; one epoch for each client that has its own."""
    changes = {}
    for key, value in recipe.values().items():
        owner, _, name = key.rpartition(".")
        counted = owner in ("", "scenario", method) and type(value) is int
        if counted and value > FEW.get(name, value):
            changes[key] = FEW[name]
    epochs = recipe.settings.client_epochs
    return recipe.change({**changes, "client_epochs": [1] * len(epochs)})


def cut(scenario):
    """The first images of the first clients, and of their test sets."""
    clients = tuple(replace(c, private=c.private[:IMAGES]) for c in scenario.clients[:CLIENTS])
    tests = {c.domain: scenario.tests[c.domain][:IMAGES] for c in clients}
    return replace(scenario, clients=clients, tests=tests)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "scenario"), PAIRS)
def test_the_papers_settings_play_a_round(name, scenario, noise):
    usual = recipes.load(name, profile="paper", scenario=scenario)
    recipe = smaller(usual, OWN[name])
    fed = Federation(cut(recipe.build()), recipe.make(OWN[name]), recipe.settings)
    last = run(fed)["accuracy"][-1]
    asked = usual.settings.models
    assert [c.network for c in fed.clients] == asked * (len(fed.clients) // len(asked))
    assert last["round"] == 1 and len(last["matrix"]) == len(fed.clients)
    shares = {share * IMAGES for row in last["matrix"] for share in row}
    assert shares <= {*range(IMAGES + 1)}


def test_a_scenario_of_which_the_recipe_has_nothing_is_refused():
    for name in OWN:
        there = of_the_paper(name)
        for scenario in SCENARIOS.keys() - there:
            with pytest.raises(SettingError, match=f"no values of the paper for .*{scenario}") as e:
                recipes.load(name, profile="paper", scenario=scenario)
            assert all(f"{known}" in e.value.do for known in there)
            assert recipes.load(name, profile="quick", scenario=scenario).scenario == scenario
