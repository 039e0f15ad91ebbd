"""A notebook's run on tiny data, for tests of what a cell calls."""

from fedtutor.experiments import recipes
from fedtutor.notebook.start import Run

from .federations import tiny_scenario

SMALL = {"rounds": 2, "local_epochs": 1, "eval_every": 2, "models": ["linear"], "batch_size": 8}


def notebook_run() -> Run:
    """Three clients, two seeds, the benchmark's recipe made small."""
    recipe = recipes.load("benchmark", profile="quick", overrides=SMALL)
    scenario = tiny_scenario()
    object.__setattr__(scenario, "name", "digits-mini")
    return Run(recipe, scenario, [0, 1], ["solo", "fedavg"], "cpu", 1)
