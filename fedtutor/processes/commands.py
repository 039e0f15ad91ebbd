"""What `python -m fedtutor federate` does."""

import argparse
import json
from pathlib import Path

from ..engine.files import save_json
from ..errors import SettingError
from ..methods import METHODS

EQUAL = ("accuracy", "loss", "bytes")  # what the clock has no part in


def register(jobs) -> None:
    """Enter federate into the command line."""
    job = jobs.add_parser("federate", help="play a method with a process for every client")
    job.add_argument("method", help="e.g. fccl")
    job.add_argument("--recipe", help="whose settings; default: the method's own, or benchmark")
    job.add_argument("--scenario", default="", help="another one than the recipe's")
    job.add_argument("--rounds", type=count, help="default: the recipe's")
    job.add_argument("--seed", type=int, default=0, help="default 0")
    job.add_argument("--profile", default="quick", help="quick (default) or paper")
    job.add_argument(
        "--overrides", default="{}", metavar="JSON", help="e.g. '{\"batch_size\": 32}'"
    )
    ways = job.add_mutually_exclusive_group()
    ways.add_argument("--processes", dest="way", action="store_const", const="simulated",
                      help="default: NVIDIA FLARE's simulator, TCP on this machine")  # fmt: skip
    ways.add_argument("--grpc", dest="way", action="store_const", const="provisioned",
                      help="server and sites with certificates, gRPC over mutual TLS")  # fmt: skip
    ways.add_argument("--kit", type=Path, metavar="FOLDER",
                      help="sites that run already: the administrator's start-up kit")  # fmt: skip
    ways.add_argument("--project", metavar="HOST",
                      help="play nothing: print project.yml for nvflare provision -p, with the "
                      "server on HOST")  # fmt: skip
    job.add_argument("--states", type=Path, metavar="FOLDER",
                     help="keep checkpoints there, and go on from them")  # fmt: skip
    job.add_argument("--timeout", type=float, default=600, metavar="SECONDS",
                     help="that a client may take for one call; default 600")  # fmt: skip
    job.add_argument("--compare", action="store_true", help="play it here as well, and compare")
    job.add_argument("--output", type=Path, metavar="FILE", help="for the history, as JSON")
    job.add_argument("--keep", type=Path, metavar="FOLDER", help="for the processes' logs")
    job.set_defaults(do=federate_one, way="simulated")


def federate_one(options) -> int:
    """Play, print a line per round and the accuracies; the status is 1 where bits differ."""
    from .launch import Asked, federate

    given = overrides(options)
    name = options.recipe or recipe_of(options.method)
    asked = Asked(name, options.method, options.seed, options.profile, options.scenario, given,
                  str(options.states or ""), options.timeout)  # fmt: skip
    if options.project:
        return project(asked, options.project)
    found = federate(asked, kit=options.kit, keep=options.keep,
                     way="deployed" if options.kit else options.way)  # fmt: skip
    history, wire = found["history"], found["wire"]
    for client, row in zip(history["clients"], history["accuracy"][-1]["matrix"], strict=True):
        named = zip(history["tests"], row, strict=True) if row else ()
        cells = [f"{test} {value:.1%}" for test, value in named]
        print(f"  {client}: {', '.join(cells) or 'left out'}")
    print(f"{wire['calls']} calls, {wire['sent'] / 1e6:.2f} MB to the clients, "
          f"{wire['received'] / 1e6:.2f} MB back")  # fmt: skip
    if options.output:
        save_json(options.output, found)
    return compared(history, asked) if options.compare else 0


def project(asked, host: str) -> int:
    """Print the file from which FLARE's provisioning makes a start-up kit for everybody."""
    from .project import project_file

    print(project_file(len(asked.loaded().build().clients), host=host), end="")
    return 0


def compared(history: dict, asked) -> int:
    """Play the same in this process; 1 where accuracies, losses or counted bytes differ."""
    import torch

    from .. import rounds
    from ..federation import Federation

    torch.set_num_threads(1)
    recipe = asked.loaded()
    fed = Federation(recipe.build(), recipe.make(asked.method), recipe.settings, seed=asked.seed)
    here = json.loads(json.dumps(rounds.run(fed)))
    equal = {key: here[key] == history[key] for key in EQUAL}
    words = ", ".join(f"{key} {'equal' if same else 'DIFFERENT'}" for key, same in equal.items())
    print(f"beside one process: {words}; seconds per round "
          f"{_mean(history['seconds']):.2f} against {_mean(here['seconds']):.2f}")  # fmt: skip
    return 0 if all(equal.values()) else 1


def overrides(options) -> dict:
    """The recipe's changes that the options ask for."""
    try:
        given = json.loads(options.overrides)
    except ValueError as error:
        raise SettingError(
            f"--overrides is not JSON ({error})", where="federate",
            do="write for example --overrides '{\"batch_size\": 32}'",
        ) from None  # fmt: skip
    for key in given if isinstance(given, dict) else ():
        other = str(key).rpartition(".")[0]
        if other in METHODS and other != options.method:
            raise SettingError(
                f"{key} belongs to another method than {options.method}", where="federate",
                do=f'write "{options.method}.NAME", or leave it out',
            )  # fmt: skip
    if options.rounds is None:
        return given
    if "rounds" in given:
        raise SettingError("rounds are given twice", where="federate",
                           do="leave out --rounds, or take them out of --overrides")  # fmt: skip
    return {**given, "rounds": options.rounds}


def recipe_of(method: str) -> str:
    """The paper's recipe that has the method's name, or the benchmark's."""
    from ..experiments.recipes import RECIPES

    name = method.replace("-", "_").replace("+", "_plus")
    return name if (RECIPES / f"{name}.toml").exists() else "benchmark"


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def count(text: str) -> int:
    """A whole number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)
