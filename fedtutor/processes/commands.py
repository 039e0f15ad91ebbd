"""What `fedtutor federate` does; its options are in `command_line.py`."""

import json
from pathlib import Path

from ..command_line import changes
from ..engine.files import save_json
from ..errors import SettingError

EQUAL = ("accuracy", "loss", "bytes")  # what the clock has no part in


def federate_each(options) -> int:
    """Run each seed; the status is 1 where bits differ."""
    several = len(options.seeds) > 1
    if several and (options.project or options.output):
        raise SettingError(
            f"seeds {', '.join(map(str, options.seeds))}",
            where="federate",
            do="name one seed: a project and a history are of one run",
        )
    return max(federate_one(options, seed, several) for seed in options.seeds)


def federate_one(options, seed: int, several: bool) -> int:
    """Run it, print a line per round and the accuracies; the status is 1 where bits differ."""
    from .launch import Asked, federate

    def own(folder: Path | None) -> Path | None:
        return folder / f"seed-{seed}" if folder and several else folder

    asked = Asked(
        options.recipe or recipe_of(options.method),
        options.method,
        seed,
        options.profile,
        options.scenario,
        changes(options, [options.method]),
        str(own(options.folder) or ""),
        options.timeout,
        options.leave_out,
    )
    if options.project:
        return project(asked, options.project)
    way = "deployed" if options.kit else options.way
    found = federate(asked, kit=options.kit, keep=own(options.keep), way=way)
    history, wire = found["history"], found["wire"]
    for client, row in zip(history["clients"], history["accuracy"][-1]["matrix"], strict=True):
        named = zip(history["tests"], row, strict=True) if row else ()
        cells = [f"{test} {value:.1%}" for test, value in named]
        print(f"  {client}: {', '.join(cells) or 'left out'}")
    print(
        f"{wire['calls']} calls, {wire['sent'] / 1e6:.2f} MB to the clients, "
        f"{wire['received'] / 1e6:.2f} MB back"
    )
    if options.output:
        save_json(options.output, found)
    return compared(history, asked) if options.compare else 0


def project(asked, host: str) -> int:
    """Print the file from which FLARE's provisioning makes a start-up kit for everybody."""
    from .project import project_file

    print(project_file(len(asked.loaded().build().clients), host=host), end="")
    return 0


def compared(history: dict, asked) -> int:
    """Run the same in this process; 1 where accuracies, losses or counted bytes differ."""
    import torch

    from .. import rounds
    from ..federation import Federation

    torch.set_num_threads(1)
    recipe = asked.loaded()
    method, settings = recipe.make(asked.method), recipe.settings_of(asked.method)
    fed = Federation(recipe.build(asked.seed), method, settings, seed=asked.seed)
    here = json.loads(json.dumps(rounds.run(fed)))
    equal = {key: here[key] == history[key] for key in EQUAL}
    words = ", ".join(f"{key} {'equal' if same else 'DIFFERENT'}" for key, same in equal.items())
    print(
        f"beside one process: {words}; seconds per round "
        f"{_mean(history['seconds']):.2f} against {_mean(here['seconds']):.2f}"
    )
    return 0 if all(equal.values()) else 1


def recipe_of(method: str) -> str:
    """The paper's recipe that has the method's name, or the benchmark's."""
    from ..experiments.recipes import RECIPES

    name = method.replace("-", "_").replace("+", "_plus")
    return name if (RECIPES / f"{name}.toml").exists() else "benchmark"


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
