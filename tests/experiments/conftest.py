"""A notebook's run, for tests of what it calls."""

import pytest
from support.federations import tiny_scenario

from fedtutor.experiments import recipes, results
from fedtutor.notebook.start import Run

SMALL = {"rounds": 2, "local_epochs": 1, "eval_every": 2, "models": ["linear"], "batch_size": 8}


@pytest.fixture
def run(monkeypatch, tmp_path):
    """A notebook's run on tiny data, with nothing recorded."""
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    recipe = recipes.load("benchmark", profile="quick", overrides=SMALL)
    scenario = tiny_scenario()
    object.__setattr__(scenario, "name", "digits-mini")
    return Run(recipe, scenario, [0, 1], ["solo", "fedavg"], "cpu", 1)
