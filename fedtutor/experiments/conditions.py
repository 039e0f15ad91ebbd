"""The five papers' methods in the conditions that their papers name (notebook 07).

The conditions stand in `data/recipes/benchmark.toml`, below [conditions.<method>], each value with
its source. A method is played there beside what its paper compares it with. RepShare is also played
step by step from what is printed to what its author's code does, because at the benchmark's own
setting it stays at chance: `SUSPECTS` are the trials there, one change at a time.
"""

from . import recipes
from .arenas import RECIPE

BASELINES = {  # method -> what its paper compares it with
    "fccl": ("solo",),
    "fccl+": ("solo",),
    "fedcsd": ("solo", "fedavg"),
    "repshare": ("solo",),
    "fedlgd": ("solo", "fedavg"),
}
PRINTED = {"repshare.exclude_self": True, "repshare.first": "random"}
CODE = {"repshare.reading": "code", "repshare.first": "networks", "repshare.exclude_self": False}
PLAIN = "as its author's code"
STEPS = {  # of RepShare in its conditions -> (changes, for whom)
    "as printed": ({**PRINTED, "repshare.reading": "paper"}, ("repshare",)),
    "means in place of sums": (PRINTED, ("repshare",)),
    PLAIN: ({}, ("solo", "repshare")),
    "the same with our network, without a bound": ({"models": ["small_cnn"]}, ("solo", "repshare")),
}
SUSPECTS = {  # of RepShare in the arena "one network", as printed but for this
    "a tenth of the learning rate": {"lr": 0.002},
    "Adam at 0.001, as the paper": {"optimizer": "adam", "lr": 0.001, "keep_optimizer": True},
    "means in place of sums": {"repshare.reading": "code"},
    "no targets in round 1": {"repshare.first": "nothing"},
    "a hundredth of the pull": {"repshare.lambda_kd": 0.1},
    "a hundredth of the pull, no targets in round 1": {
        "repshare.first": "nothing",
        "repshare.lambda_kd": 0.1,
    },
    "no pull": {"repshare.lambda_kd": 0.0},
    PLAIN: CODE,
}


def inside(recipe: recipes.Recipe, method: str, **changes) -> recipes.Recipe:
    """The recipe as the method's paper has it, and with `changes`."""
    named, _ = recipes.named(RECIPE, method, recipe.profile)
    return recipe.change({**named, **changes})


def rows() -> list[tuple[recipes.Recipe, str]]:
    """(recipe, method) of all that notebook 07 reads beside the arenas."""
    recipe = recipes.load(RECIPE, profile="quick")
    found = [
        (inside(recipe, "repshare", **changes), m)
        for changes, names in STEPS.values()
        for m in names
    ]
    found += [
        (recipe.change({**changes, "observe": []}), "repshare") for changes in SUSPECTS.values()
    ]
    for method, baselines in BASELINES.items():
        if method != "repshare":
            found += [(inside(recipe, method), m) for m in (*baselines, method)]
    return found
