"""The papers' own conditions: what they change has a source, and nothing else differs."""

from dataclasses import asdict

import pytest

from fedtutor.errors import SettingError
from fedtutor.experiments import arenas, conditions, recipes
from fedtutor.experiments.conditions import BASELINES

RECIPES = {"fccl": "fccl", "fccl+": "fccl_plus", "repshare": "repshare", "fedlgd": "fedlgd"}
NAMED = {  # method -> what its paper names
    "fccl": {"optimizer": "adam", "lr": 0.001},
    "fccl+": {"optimizer": "adam", "lr": 0.001},
    "fedcsd": {
        "optimizer": "sgd",
        "lr": 0.1,
        "momentum": 0.9,
        "weight_decay": 1e-5,
        "local_epochs": 5,
    },
    "repshare": {"optimizer": "adam", "lr": 0.001, "local_epochs": 1, "keep_optimizer": True},
    "fedlgd": {"optimizer": "sgd", "lr": 0.01, "momentum": 0.0, "local_epochs": 1, "rounds": 100},
}


@pytest.mark.parametrize("method", BASELINES)
def test_conditions_have_what_the_paper_names_and_every_value_its_source(method):
    changes, sources = recipes.named("benchmark", method, "quick")
    assert changes.keys() == sources.keys() and all(len(words) > 7 for words in sources.values())
    recipe = conditions.inside(recipes.load("benchmark", profile="quick"), method)
    found = asdict(recipe.settings)
    assert {key: found[key] for key in NAMED[method]} == NAMED[method]
    assert recipe.overrides == changes


@pytest.mark.parametrize("method", RECIPES)
def test_the_networks_are_those_of_the_papers_own_recipe(method):
    own = recipes.load(RECIPES[method], profile="quick").settings
    inside = conditions.inside(recipes.load("benchmark", profile="quick"), method).settings
    assert inside.models == own.models and inside.optimizer == own.optimizer
    assert inside.virtual_ipc == own.virtual_ipc


def test_baselines_are_in_the_very_same_conditions():
    by_method = {}
    for recipe, method in conditions.rows():
        settings = str(asdict(recipe.settings))
        by_method.setdefault(settings, []).append(method)
    for method, baselines in BASELINES.items():
        settings = conditions.inside(recipes.load("benchmark", profile="quick"), method).settings
        assert {method, *baselines} <= set(by_method[str(asdict(settings))])


def test_solo_has_the_pretraining_of_the_method_beside_it():
    for method in ("fccl", "fccl+"):
        recipe = conditions.inside(recipes.load("benchmark", profile="quick"), method)
        epochs = [recipe.methods[name]["pretrain_epochs"] for name in ("solo", method)]
        assert epochs[0] == epochs[1]


def test_steps_end_at_the_authors_code():
    recipe = conditions.inside(recipes.load("benchmark", profile="quick"), "repshare")
    own = {f"repshare.{key}": value for key, value in recipe.methods["repshare"].items()}
    assert {key: own[key] for key in conditions.CODE} == conditions.CODE
    first, *_ = conditions.STEPS.values()
    printed = recipes.load("benchmark", profile="quick").methods["repshare"]
    assert {
        f"repshare.{key}": printed[key] for key in ("reading", "first", "exclude_self")
    } == first[0]


def test_an_unknown_name_or_part_is_one_clear_error(tmp_path, monkeypatch):
    with pytest.raises(SettingError, match="did you mean 'fedcsd'"):
        recipes.named("benchmark", "fedcs", "quick")
    assert recipes.named("benchmark", "fccl", "paper") == ({}, {})
    text = (recipes.RECIPES / "start.toml").read_text(encoding="utf-8")
    (tmp_path / "start.toml").write_text(text + "\n[conditions.fccl.setting]\nlr = 1\n")
    monkeypatch.setattr(recipes, "RECIPES", tmp_path)
    with pytest.raises(SettingError, match="setting"):
        recipes.named("start", "fccl", "quick")


def test_every_row_is_recorded():
    for recipe, method in conditions.rows():
        entry = arenas.entries_of(recipe, [method], arenas.SEEDS)[method]
        assert entry.whole, (method, recipe.overrides)
