"""Every method with a process per client, over gRPC with certificates, beside one process.

    OMP_NUM_THREADS=1 python -m tools.bench.processes             # the methods that are missing
    OMP_NUM_THREADS=1 python -m tools.bench.processes fccl moon   # these anew

A minute each. What is done is kept in data/speed/processes.json, which notebook 09 reads.
"""

import argparse
import json
import statistics
import sys

import torch

from fedtutor import rounds
from fedtutor.engine.files import ROOT, load_json, save_json
from fedtutor.experiments.environment import environment
from fedtutor.federation import Federation
from fedtutor.methods import METHODS
from fedtutor.processes.commands import recipe_of
from fedtutor.processes.launch import Asked, federate

FILE = ROOT / "data" / "speed" / "processes.json"
CONTENT = ("accuracy", "loss", "bytes")
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
    fed = Federation(
        found.build(run.seed), found.make(run.method), found.settings_of(run.method), seed=run.seed
    )
    return json.loads(json.dumps(rounds.run(fed)))


def measure(name: str) -> dict:
    """Equal or not, seconds of a round here and there, what crossed, memory in megabytes."""
    run = asked(name)
    ours, there = here(run), federate(run, way="provisioned", say=lambda line: None)
    history, wire = there["history"], there["wire"]
    return {
        "recipe": run.recipe,
        "overrides": run.overrides,
        "clients": len(history["clients"]),
        "equal": {key: history[key] == ours[key] for key in CONTENT},
        "seconds": {"apart": history["seconds"], "one process": ours["seconds"]},
        "calls": {
            key: {"calls": len(spent), "median": statistics.median(spent)}
            for key, spent in wire["seconds"].items()
        },
        "wire": wire["sent"] + wire["received"],
        "counted": sum(row["bytes"] for row in history["bytes"]),  # between clients and server
        "memory": there["memory"],
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("method", nargs="*", help="default: those that are not in the file yet")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    found = load_json(FILE) if FILE.exists() else {"methods": {}}
    missing = [name for name in sorted(METHODS) if name not in found["methods"]]
    for name in options.method or missing:
        found["methods"][name] = row = {**measure(name), "environment": environment("cpu")}
        save_json(FILE, found)
        print(name, row["equal"], row["memory"], flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
