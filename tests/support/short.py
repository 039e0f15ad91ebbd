"""Every method, as short as it can be on the data of its own recipe: for processes of their own."""

import json

from fedtutor import rounds
from fedtutor.federation import Federation
from fedtutor.processes.commands import recipe_of
from fedtutor.processes.launch import Asked

SHORT = {"rounds": 2, "eval_every": 1, "observe": []}
VIRTUAL = {"virtual_ipc": 1, "virtual_steps": 2, "models": ["small_convnet"]}


def asked(method: str, **changes) -> Asked:
    """Two rounds of one epoch, in the method's own recipe or the benchmark's, made short."""
    recipe = recipe_of(method)
    own = {"client_epochs": [1] * 4} if recipe.startswith("fccl") else {"local_epochs": 1}
    if method in ("fedlgd", "vhl"):
        own |= VIRTUAL
    return Asked(recipe, method, overrides={**SHORT, **own, **changes})


def here(run: Asked) -> dict:
    """The history of one process, as JSON has it."""
    found = run.loaded()
    fed = Federation(found.build(), found.make(run.method), found.settings, seed=run.seed)
    return json.loads(json.dumps(rounds.run(fed)))
