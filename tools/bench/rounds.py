"""How fast the round loop is, beside the loop of research code and beside no federation at all.

    python -m tools.bench.rounds                               # a line per workload
    python -m tools.bench.rounds --workload lenet --repeats 5 --json out.json
    python -m tools.bench.rounds --device cpu --json data/speed/rounds.json
    python -m tools.bench.rounds --device cuda --threads 1 4 --json data/speed/rounds-gpu.json
    python -m tools.bench.page                                 # both into data/speed/README.md

Contestants take turns in one process, in another order each time; a line has medians.

- naive: a copy of the network, an optimizer and a DataLoader per client, each image decoded and
  normalized when its turn comes (as torchvision's data sets do), state dicts averaged.
- usual: the same with a DataLoader over images that were normalized beforehand, in PyTorch's
  usual layout, as research code is written; only where another layout is faster.
- tensors: the same in the fastest layout for the network, its weights included. `naive`, and what
  follows, have that layout, too.
- floor: no federation. One network, batches that are ready, forward, backward, fused step.
- passes: the floor without the optimizer's step.
- apart: the floor with a network and an optimizer for each client.
- shared: the floor's passes shared by as many threads as ours has, on flat weights (`shared.py`).
- ours: `rounds.run_round` of FedAvg.
- streams, captured: two ideas for a GPU, played only there; see `gpu.py`.

With one thread on a CPU, a second run tells how long each part of a round takes.
"""

import argparse
import copy
import os
import platform
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from inspect import isgeneratorfunction
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, TensorDataset
from torchvision import transforms

from fedtutor import methods, models, rounds, scenarios
from fedtutor.datasets import bundled
from fedtutor.engine import optimizers
from fedtutor.engine.batches import cut
from fedtutor.engine.files import save_json
from fedtutor.experiments.environment import environment
from fedtutor.federation import Federation
from fedtutor.losses import cross_entropy
from fedtutor.scenarios import common
from fedtutor.scenarios.base import ClientData, Scenario
from fedtutor.settings import Settings

from . import gpu
from .shared import shared

WARM = 1  # rounds before the clock starts


@dataclass(frozen=True)
class Workload:
    title: str
    network: str
    settings: dict
    build: Callable[[], Scenario]

    def federation(self, *, device="cpu", threads: int = 1, seed: int = 0) -> Federation:
        never = {"rounds": 10**6, "eval_every": 10**6}  # evaluation is not what is timed
        settings = Settings(models=[self.network], **self.settings, **never)
        return Federation(
            self.build(),
            methods.make("fedavg"),
            settings,
            seed=seed,
            device=device,
            threads=threads,
        )


def mnist(**options) -> Callable[[], Scenario]:
    return lambda: scenarios.build("mnist-mini", **options)


def five_of_500() -> Scenario:
    """MNIST's digits at 3 x 32 x 32; the pixels do not matter here."""
    held = bundled.to_rgb(bundled.pad(bundled.mnist_sample()[:2600], 32))
    return Scenario(
        name="five",
        title="MNIST sample, 3x32x32",
        num_classes=10,
        clients=tuple(
            ClientData(f"client-{k}", "mnist", held[500 * k : 500 * (k + 1)]) for k in range(5)
        ),
        tests={"mnist": held[2500:]},
        public=None,
        mean=common.IMAGENET[0],
        std=common.IMAGENET[1],
        stand_in=True,
        class_names=common.DIGITS,
    )


ADAM = {"optimizer": "adam", "lr": 1e-3, "batch_size": 32}
SGD = {"optimizer": "sgd", "lr": 0.01, "momentum": 0.9, "batch_size": 20}
WORKLOADS = {
    "lenet": Workload(
        "LeNet5, 10 clients, 1,200 images, Adam, batch 32",
        "lenet5",
        ADAM,
        mnist(num_clients=10, private_size=1200),
    ),
    "many": Workload(
        "LeNet5, 100 clients of about 40, Dirichlet(0.5), SGD with momentum, batch 20",
        "lenet5",
        SGD,
        mnist(num_clients=100, private_size=4000, min_per_client=2, partition="dirichlet"),
    ),
    "convnet": Workload(
        "ConvNet 3x128 at 32x32, 5 clients of 500, SGD with momentum, batch 32",
        "convnet",
        {**SGD, "batch_size": 32},
        five_of_500,
    ),
    # For one number: what an image costs where 4,000 are dealt evenly to 10 or to 100 clients.
    "even10": Workload(
        "LeNet5, 10 clients of 400, SGD with momentum, batch 20",
        "lenet5",
        SGD,
        mnist(num_clients=10, private_size=4000),
    ),
    "even100": Workload(
        "LeNet5, 100 clients of 40, SGD with momentum, batch 20",
        "lenet5",
        SGD,
        mnist(num_clients=100, private_size=4000),
    ),
}
MAIN = ("lenet", "many", "convnet")
EVEN = ("even10", "even100")
SMALL = ("lenet", "many")  # where the network does not hide everything else


# --- contestants: each returns a function that plays one round


def ours(work: Workload, device, threads: int, seed: int = 0) -> Callable:
    return gpu.playing(work.federation(device=device, threads=threads, seed=seed))


class Decoded(Dataset):
    """Images as torchvision's data sets give them: one by one, through PIL and two transforms."""

    def __init__(self, images, scenario):
        self.pixels = images.x.permute(0, 2, 3, 1).cpu().numpy()
        self.labels = images.y.tolist()
        self.change = transforms.Compose(
            [transforms.ToTensor(), transforms.Normalize(scenario.mean, scenario.std)]
        )

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index):
        pixels = self.pixels[index]
        image = Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[:, :, 0])
        return self.change(image), self.labels[index]


def naive(work: Workload, device, threads: int, *, tensors: bool = False, usual: bool = False):
    fed = work.federation(device=device)
    scenario, settings = fed.scenario, fed.settings
    server = _network(fed)
    if usual:
        server = fed.make()
        server.channels_last = False
    held = [Decoded(client.data, scenario) for client in fed.clients]
    if tensors:
        datas = [client.data for client in fed.clients]
        held = [TensorDataset(scenario.normalize(d.x).cpu(), d.y.cpu()) for d in datas]

    def play():
        uploads = []
        for data in held:
            local = copy.deepcopy(server)
            local.train()
            optimizer = _usual(local, settings)
            loader = DataLoader(data, batch_size=settings.batch_size, shuffle=True)
            losses = []
            for _ in range(settings.local_epochs):
                for x, y in loader:
                    x, y = x.to(device), y.to(device)
                    optimizer.zero_grad()
                    loss = cross_entropy(local(x), y)
                    loss.backward()
                    optimizer.step()
                    losses.append(loss.item())
            uploads.append(copy.deepcopy(local.state_dict()))
        shares = [len(data) / sum(map(len, held)) for data in held]
        mean = copy.deepcopy(uploads[0])
        for name in mean:
            mean[name] = sum(u[name] * share for u, share in zip(uploads, shares, strict=True))
        server.load_state_dict(mean)

    play.server = server
    return _with_threads(play, threads)


def floor(work: Workload, device, threads: int, *, step: bool = True, apart: bool = False):
    fed = work.federation(device=device)
    s = fed.settings
    networks = [_network(fed).train() for _ in (fed.clients if apart else [None])]
    steppers = [_fastest(network, s) for network in networks]
    ready = []
    for k, client in enumerate(fed.clients):
        images, labels = client.data.x, client.data.y
        for _ in range(s.local_epochs):
            for index in cut(torch.arange(len(labels), device=device), s.batch_size):
                x = fed.scenario.normalize(images[index])
                ready.append((k if apart else 0, x, labels[index]))

    def play():
        for k, x, y in ready:
            steppers[k].zero_grad()
            cross_entropy(networks[k](x), y).backward()
            if step:
                steppers[k].step()

    play.steps = len(ready)
    return _with_threads(play, threads)


def _network(fed: Federation) -> models.Network:
    """In the layout that is fastest for it, the weights included."""
    network = fed.make()
    return network.to(memory_format=torch.channels_last) if network.channels_last else network


def _fastest(network, settings: Settings) -> optimizers.Optimizer:
    """The fused step of PyTorch's own kernels, without what `torch.optim` looks at beside it."""
    client = SimpleNamespace(parameters=network.parameters)
    return optimizers.new_optimizer(client, settings)


def _usual(network, settings: Settings) -> torch.optim.Optimizer:
    if settings.optimizer == "adam":
        return torch.optim.Adam(network.parameters(), lr=settings.lr)
    return torch.optim.SGD(network.parameters(), lr=settings.lr, momentum=settings.momentum)


def _with_threads(play: Callable, threads: int) -> Callable:
    """`play` with so many threads inside each operation, which is what PyTorch itself does."""

    def work():
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            play()
        finally:
            torch.set_num_threads(before)

    work.__dict__.update(play.__dict__)
    return work


CONTESTANTS = {
    "naive": naive,
    "usual": lambda *given: naive(*given, tensors=True, usual=True),
    "tensors": lambda *given: naive(*given, tensors=True),
    "ours": ours,
    "floor": floor,
    "passes": lambda *given: floor(*given, step=False),
    "apart": lambda *given: floor(*given, apart=True),
    "shared": shared,
    "streams": gpu.streams,
    "captured": gpu.captured,
}
RIVALS = ("naive", "usual", "tensors")
GPU_ONLY = ("streams", "captured")


# --- the clock


def measure(work: Workload, *, device: str, threads: int, repeats: int, names: Sequence[str]):
    """Contestant -> {"wall": [seconds per round, one per repeat], "cpu": [...]}."""
    if device == "cpu":
        _pin(threads)
    _full_precision()
    plays = {name: CONTESTANTS[name](work, device, threads) for name in names}
    if threads > 1 and device == "cpu":  # operations this small may be faster on one core
        for name in [n for n in names if n not in ("ours", "shared")]:
            plays[f"{name} on one"] = CONTESTANTS[name](work, device, 1)
    names = list(plays)
    times = {name: {"wall": [], "cpu": []} for name in names}
    for turn in range(WARM + repeats):
        for name in list(names) if turn % 2 else list(names)[::-1]:
            _wait(device)
            wall, cpu = time.perf_counter(), time.process_time()
            plays[name]()
            _wait(device)
            if turn >= WARM:
                times[name]["wall"].append(round(time.perf_counter() - wall, 6))
                times[name]["cpu"].append(round(time.process_time() - cpu, 6))
    return times


def even(repeats: int) -> dict[str, list[float]]:
    """Processor seconds per round of ours, 4,000 images with 10 and with 100 clients in turns."""
    _pin(1)
    plays = {key: ours(WORKLOADS[key], "cpu", 1) for key in EVEN}
    times = {key: [] for key in EVEN}
    for turn in range(WARM + repeats):
        for key in EVEN if turn % 2 else EVEN[::-1]:
            start = time.process_time()
            plays[key]()
            if turn >= WARM:
                times[key].append(round(time.process_time() - start, 6))
    return times


# What is timed: its name, where it lies. The rest is what is left of the round.
PARTS = (
    ("forward", models.Network, "forward"),
    ("backward", torch.Tensor, "backward"),
    ("step", torch.optim.SGD, "step"),
    ("step", torch.optim.Adam, "step"),
    ("step", optimizers.Optimizer, "step"),
    ("new optimizers", rounds, "new_optimizer"),
    ("images", rounds, "loaded"),
    ("begin", Federation, "begin_round"),
    ("download", methods.METHODS["fedavg"], "collaborate"),
    ("average", methods.METHODS["fedavg"], "aggregate"),
)


def parts(work: Workload, *, repeats: int) -> dict[str, dict[str, float]]:
    """Contestant -> part -> median seconds per round; CPU, one thread.

    Of ours, the floor, and ours where nobody trains: what a client costs beside its training, done
    again and again while caches hold nothing else.
    """
    _pin(1)
    plays = {
        "ours": ours(work, "cpu", 1),
        "floor": floor(work, "cpu", 1),
        "nobody trains": untrained(work),
    }
    found = {name: [] for name in plays}
    spent = Counter()
    with ExitStack() as stack:
        for name, owner, attribute in PARTS:
            stack.enter_context(
                patch.object(owner, attribute, _timed(getattr(owner, attribute), name, spent))
            )
        for turn in range(WARM + repeats):
            for name in list(plays) if turn % 2 else list(plays)[::-1]:
                spent.clear()
                start = time.perf_counter()
                plays[name]()
                rest = time.perf_counter() - start - sum(spent.values())
                if turn >= WARM:
                    found[name].append({**spent, "rest": rest})
    return {
        name: {part: round(statistics.median(row[part] for row in rows), 6) for part in rows[0]}
        for name, rows in found.items()
    }


class Nothing:
    """A loss that asks for no gradient."""

    def backward(self) -> None:
        pass

    def detach(self) -> torch.Tensor:
        return torch.zeros(())


def untrained(work: Workload) -> Callable:
    """A round of ours without forward, backward and optimizer steps; one thread."""
    play = ours(work, "cpu", 1)
    play.fed.method.local_loss = lambda client, x, y: Nothing()

    def still():
        with patch.object(optimizers.Optimizer, "step", lambda self: None):
            play()

    still.fed = play.fed
    return still


def _timed(function: Callable, name: str, spent: Counter) -> Callable:
    """`function`, whose time is added to `spent[name]`; of a generator, the time in its turns."""

    def call(*args, **kwargs):
        start = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            spent[name] += time.perf_counter() - start

    def turns(*args, **kwargs):
        values = function(*args, **kwargs)
        while (value := following(values)) is not END:
            yield value

    def following(values):
        start = time.perf_counter()
        try:
            return next(values, END)
        finally:
            spent[name] += time.perf_counter() - start

    return turns if isgeneratorfunction(function) else call


END = object()


def several(work: Workload, *, at_once: int, seconds: float = 8.0) -> float:
    """Rounds per second of `at_once` processes that share the GPU, and all cores."""
    if CORES:
        os.sched_setaffinity(0, CORES)
    context = get_context("spawn")
    begin, answers = context.Barrier(at_once), context.Queue()
    key = next(name for name, w in WORKLOADS.items() if w is work)
    children = [
        context.Process(target=_child, args=(key, k, begin, seconds, answers))
        for k in range(at_once)
    ]
    for child in children:
        child.start()
    total = sum(answers.get(timeout=300) for _ in children)
    for child in children:
        child.join()
    return total


def _full_precision() -> None:
    """As a federation multiplies; PyTorch's own default would round for the others on a GPU."""
    for unit in (torch.backends.cuda.matmul, torch.backends.cudnn.conv):
        unit.fp32_precision = "ieee"


def _child(key: str, seed: int, begin, seconds: float, answers) -> None:
    play = ours(WORKLOADS[key], "cuda", 1, seed)
    for _ in range(3):
        play()
    _wait("cuda")
    begin.wait()
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        play()
        count += 1
    _wait("cuda")
    answers.put(count / (time.perf_counter() - start))


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _pin(threads: int) -> None:
    """Use as many cores as there are threads, where the system lets us."""
    if hasattr(os, "sched_setaffinity") and len(CORES) >= threads:
        os.sched_setaffinity(0, CORES[:threads])


LOAD = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0  # of others: read at the start
CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def record(options) -> dict:
    """Everything that was measured, ready for JSON."""
    rows = []
    for key in options.workload:
        for device in options.device if key in MAIN else ():
            for threads in options.threads:
                repeats = options.repeats or {"convnet": 3}.get(key, 15)
                out = ("shared",) if device == "cuda" else GPU_ONLY
                out += () if key in SMALL else ("apart", "usual", "shared")
                names = [name for name in CONTESTANTS if name not in out]
                about = {"device": device, "threads": threads}
                times = measure(WORKLOADS[key], **about, repeats=repeats, names=names)
                row = {"workload": key, "title": WORKLOADS[key].title, **about, "times": times}
                if device == "cpu" and threads == 1 and key in SMALL:
                    row["parts"] = parts(WORKLOADS[key], repeats=repeats)
                rows.append(row)
                print(f"{key}, {device}, threads {threads}: {words(row)}", flush=True)
    found = {"rows": rows, "machine": machine(), "at_once": []}
    if "cpu" in options.device and 1 in options.threads and {*EVEN} <= {*options.workload}:
        found["even"] = even(options.repeats or 15)
    if "cuda" in options.device:
        for key in [k for k in options.workload if k in MAIN]:
            for count in (1, 2, 4, 8):
                rate = several(WORKLOADS[key], at_once=count)
                found["at_once"].append({"workload": key, "runs": count, "rounds_per_second": rate})
                print(f"{key}, {count} runs at once: {rate:.2f} rounds per second", flush=True)
    return found


def machine() -> dict:
    """What the times depend on. No path, no host name."""
    about = environment()
    return {
        "cpu": about["processor"] or platform.machine(),
        "cores": os.cpu_count(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "load": round(LOAD, 1),
        **{key: about[key] for key in ("python", "torch", "platform")},
    }


# --- ratios


def ratio(row: dict, over: str, under: str, clock: str = "wall") -> float:
    """Median over the turns of how many times `under` goes into `over`."""
    pairs = zip(row["times"][over][clock], row["times"][under][clock], strict=True)
    return statistics.median(a / b for a, b in pairs)


def fastest(row: dict, name: str) -> str:
    """`name`, or the same with one thread inside its operations where that was faster."""
    names = [n for n in (name, f"{name} on one") if n in row["times"]]
    return min(names, key=lambda n: statistics.median(row["times"][n]["wall"]))


def ratios(row: dict, clock: str = "wall") -> dict[str, float]:
    """How often our time goes into that of research code, and the floor's into ours."""
    found = {
        f"{name} / ours": ratio(row, fastest(row, name), "ours", clock)
        for name in RIVALS
        if name in row["times"]
    }
    if "shared" in row["times"]:
        found["ours / shared"] = ratio(row, "ours", "shared", clock)
    return {**found, "ours / floor": ratio(row, "ours", fastest(row, "floor"), clock)}


def words(row: dict) -> str:
    said = [f"{n} {1000 * statistics.median(t['wall']):.1f} ms" for n, t in row["times"].items()]
    for clock in ("wall", "cpu"):
        said += [f"{name} {value:.2f} ({clock})" for name, value in ratios(row, clock).items()]
    return ", ".join(said)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workload", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    here = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    parser.add_argument("--device", nargs="+", choices=("cpu", "cuda"), default=here)
    parser.add_argument("--repeats", type=int, help="default 15, ConvNet 3")
    parser.add_argument("--json", type=Path, help="write what was measured there")
    options = parser.parse_args(arguments)
    found = record(options)
    if options.json:
        save_json(options.json, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
