"""What a federation costs with many registered clients of whom ten are selected.

    python -m tools.bench.clients --json data/speed/clients.json

FedAvg with LeNet5; every client holds 40 images of MNIST's sample. Each number of clients has a
process of its own, because memory is read from it.
"""

import argparse
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import torch

from fedtutor import Federation, Settings, methods, run
from fedtutor.datasets import bundled
from fedtutor.engine.files import save_json
from fedtutor.scenarios.base import ClientData, Scenario

COUNTS = (10, 100, 1000, 10_000)
SELECTED, ROUNDS, EACH = 10, 24, 40


def scenario(count: int) -> Scenario:
    held = bundled.mnist_sample()
    index = torch.randint(0, 4000, (count, EACH), generator=torch.Generator().manual_seed(0))
    clients = tuple(ClientData(f"client-{k}", "mnist", held[index[k]]) for k in range(count))
    return Scenario(
        name="many",
        title="MNIST sample",
        num_classes=10,
        clients=clients,
        tests={"mnist": held[4000:4200]},
        public=None,
        mean=(0.1307,),
        std=(0.3081,),
        stand_in=True,
        class_names=tuple("0123456789"),
    )


def megabytes() -> float:
    import resource  # Windows has none

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(count: int) -> dict:
    """Processor seconds to build it and for a round, and what it added to the memory."""
    torch.set_num_threads(1)
    given = scenario(count)
    settings = Settings(
        rounds=ROUNDS,
        lr=0.01,
        batch_size=20,
        models=["lenet5"],
        participation=SELECTED / count,
        eval_every=10 * ROUNDS,
    )
    Federation(scenario(2), methods.make("fedavg"), settings)  # PyTorch imports what it needs
    before, began, rounds = megabytes(), time.process_time(), []
    fed = Federation(given, methods.make("fedavg"), settings)
    built = time.process_time() - began

    def timed(numbers):
        for number in numbers:
            start = time.process_time()
            yield number
            rounds.append(time.process_time() - start)

    run(fed, progress=timed)
    return {
        "clients": count,
        "build": round(built, 4),
        "rounds": [round(r, 5) for r in rounds],
        "round": round(statistics.median(rounds), 5),
        "megabytes": round(megabytes() - before),
        "networks": sum(client.has_networks for client in fed.clients),
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--counts", type=int, nargs="+", default=COUNTS)
    parser.add_argument("--json", type=Path, help="write what was measured there")
    options = parser.parse_args(arguments)
    rows = []
    for count in options.counts:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            rows.append(pool.submit(measure, count).result())
        print({key: value for key, value in rows[-1].items() if key != "rounds"}, flush=True)
    if options.json:
        save_json(options.json, {"selected": SELECTED, "rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
