"""Every method with a process per client, over gRPC with certificates, beside one process.

OMP_NUM_THREADS=1 python tests/bench_processes.py [METHOD ...]     # data/speed/processes.json

A minute each. What is done is kept; a method that is named is played again. Notebook 09 and
data/speed/README.md read it.
"""

import statistics
import sys

import torch
from support.short import asked, here

from fedtutor.engine.files import ROOT, load_json, save_json
from fedtutor.experiments.environment import environment
from fedtutor.methods import METHODS
from fedtutor.processes.launch import federate

FILE = ROOT / "data" / "speed" / "processes.json"
CONTENT = ("accuracy", "loss", "bytes")


def measure(name: str) -> dict:
    """Equal or not, seconds of a round here and there, what crossed, memory in megabytes."""
    run = asked(name)
    ours, there = here(run), federate(run, way="provisioned", say=lambda line: None)
    history, wire = there["history"], there["wire"]
    return {
        "recipe": run.recipe, "overrides": run.overrides, "clients": len(history["clients"]),
        "equal": {key: history[key] == ours[key] for key in CONTENT},
        "seconds": {"apart": history["seconds"], "one process": ours["seconds"]},
        "calls": {key: {"calls": len(spent), "median": statistics.median(spent)}
                  for key, spent in wire["seconds"].items()},
        "wire": wire["sent"] + wire["received"], "counted": counted(history),
        "memory": there["memory"],
    }  # fmt: skip


def counted(history: dict) -> int:
    """Bytes of all messages between clients and server, as the channel counts them."""
    return sum(row["bytes"] for row in history["bytes"])


def main(names: list[str]) -> None:
    torch.set_num_threads(1)
    found = load_json(FILE) if FILE.exists() else {"methods": {}}
    for name in names or [name for name in sorted(METHODS) if name not in found["methods"]]:
        found["methods"][name] = row = measure(name)
        found["environment"] = environment("cpu")
        save_json(FILE, found)
        print(name, row["equal"], row["memory"], flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
