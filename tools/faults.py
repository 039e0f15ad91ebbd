"""Kill a small federation at seeded moments, let it go on, compare bits.

    python -m tools.faults                             # 20 kills, a summary
    python -m tools.faults --kills 5 --seed 1
    python -m tools.faults --json data/faults.json     # what the page on speed reports

The run distils virtual images (`fed.artifact`), trains with checkpoints after every round, and
writes a result file. SIGKILL comes at an event of one of five places: a step of the training, a
step or a write of the distillation, the write of a checkpoint or of the result (begun, half
written, before and after it is renamed), or anything of these in the cell of a notebook.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from functools import cache
from multiprocessing import forkserver, get_context
from pathlib import Path
from unittest.mock import patch

import nbformat
import torch
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError
from torch import nn

from fedtutor import Federation, Settings, distillation, methods, models
from fedtutor.engine import files, optimizers
from fedtutor.images import Images
from fedtutor.rounds import run
from fedtutor.scenarios.base import ClientData, Scenario

PLACES = ("training", "distillation", "checkpoint", "result", "notebook")
KINDS = {"virtual-": "distillation", "round-": "checkpoint", "result": "result"}  # of files
SETTINGS = Settings(
    models=["hidden"],
    rounds=5,
    local_epochs=2,
    batch_size=8,
    lr=0.05,
    momentum=0.9,
    keep_optimizer=True,
    virtual_ipc=4,
    virtual_steps=6,
    virtual_batch=4,
)


def hidden(channels: int, size: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * size**2, 5), nn.Tanh())


def images(count: int, seed: int) -> Images:
    """4 x 4 pixels of noise; an image of class c is bright in row c."""
    own = torch.Generator().manual_seed(seed)
    y = torch.arange(count) % 3
    x = torch.randint(0, 120, (count, 1, 4, 4), generator=own)
    x[torch.arange(count), 0, y] += 100
    return Images(x.to(torch.uint8), y, source=f"rows {seed}")


def federation(artifacts: Path) -> Federation:
    """Three clients of FedAvg."""
    models.MODELS["hidden"] = models.Architecture(hidden, "one hidden layer", 1)
    names = [f"domain{k}" for k in range(3)]
    scenario = Scenario(
        name="tiny",
        title="bright rows",
        num_classes=3,
        clients=tuple(ClientData(n, n, images(24 + 3 * k, k)) for k, n in enumerate(names)),
        tests={n: images(30, 100 + k) for k, n in enumerate(names)},
        public=images(20, 50),
        mean=(0.5,),
        std=(0.25,),
        stand_in=True,
        class_names=("0", "1", "2"),
    )
    return Federation(scenario, methods.make("fedavg"), SETTINGS, artifacts=artifacts)


class Events:
    """Counts what happens at each place; at the event that `moment` names, the process dies."""

    def __init__(self, folder: Path, moment: tuple[str, int] | None):
        self.folder, self.moment, self.counts, self.file = folder, moment, Counter(), ""

    def happen(self, place: str, before=lambda: None) -> None:
        for name in (place, "notebook"):
            if self.moment == (name, self.counts[name]):
                before()
                (self.folder / "killed").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            self.counts[name] += 1

    def around_files(self) -> None:
        """Events where a file is begun, half written, whole, renamed."""
        begin, flush, rename = tempfile.mkstemp, os.fsync, os.replace
        write = files._Target.write

        def begun(*args, **kwargs):
            made = begin(*args, **kwargs)
            prefix = kwargs.get("prefix") or ""
            kinds = [kind for name, kind in KINDS.items() if prefix.startswith(f".{name}")]
            self.file = kinds[0] if kinds else ""
            self.at_file()
            return made

        def half(target, content):
            self.at_file(lambda: write(target, bytes(content)[: len(content) // 2]))
            return write(target, content)

        def flushed(handle):
            self.at_file()
            return flush(handle)

        def renamed(old, new):
            self.at_file()
            rename(old, new)
            self.at_file()

        tempfile.mkstemp, os.fsync, os.replace = begun, flushed, renamed
        files._Target.write = half

    def at_file(self, before=lambda: None) -> None:
        if self.file:
            self.happen(self.file, before)

    def around_steps(self) -> None:
        """Events before a local step, and where a class is matched in the distillation."""
        step, features = optimizers.Optimizer.step, distillation.features

        def stepped(optimizer):
            self.happen("training")
            return step(optimizer)

        def looked(*args):
            self.happen("distillation")
            return features(*args)

        optimizers.Optimizer.step, distillation.features = stepped, looked


def play(folder, moment: tuple[str, int] | None = None) -> None:
    """The run, in a process of its own that `moment` ends; `counts.json` where nothing does."""
    torch.set_num_threads(1)
    folder = Path(folder)
    events, distillation.REST = Events(folder, moment), 2
    events.around_files()
    events.around_steps()
    fed = federation(folder / "artifacts")
    run(fed, checkpoint=folder / "state", every=0)
    digest = hashlib.sha256()
    for holder in (fed.server, *fed.clients):
        for model in holder.models.values():
            for name, value in model.state_dict().items():
                digest.update(name.encode() + value.numpy().tobytes())
    result = {"history": {**fed.history, "seconds": []}, "weights": digest.hexdigest()}
    files.save_json(folder / "result.json", result)
    (folder / "counts.json").write_text(json.dumps(events.counts))


CELL = """import sys
sys.path.insert(0, {root!r})
from tools import faults
faults.play({folder!r}, {moment!r})"""


def play_in_notebook(folder, moment: tuple[str, int] | None = None) -> None:
    code = CELL.format(root=str(files.ROOT), folder=str(folder), moment=moment)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    client = NotebookClient(notebook, timeout=600, extra_arguments=["--log-level=CRITICAL"])
    try:
        client.execute()
    except DeadKernelError:
        assert moment, "the kernel died by itself"


def start(place: str, folder: Path, moment: tuple[str, int] | None = None) -> None:
    """Play in a process of its own until it ends or dies."""
    if place == "notebook":
        return play_in_notebook(folder, moment)
    _prepare_server()
    child = get_context("forkserver").Process(target=play, args=(folder, moment))
    child.start()
    child.join(600)
    assert child.exitcode == (-signal.SIGKILL if moment else 0), f"it ended with {child.exitcode}"


@cache
def _prepare_server() -> None:
    """Have a process from which others are forked, with what takes long to import."""
    forkserver.set_forkserver_preload(["nbclient", "fedtutor.distillation", "fedtutor.rounds"])
    with patch.dict(os.environ, PYTHONPATH=str(files.ROOT)):
        forkserver.ensure_running()


def require_whole(folder: Path) -> None:
    """Every file that has its name can be read, whatever happened."""
    for path in folder.rglob("[!.]*"):
        if path.suffix == ".pt":
            files.load_tensors(path)
        elif path.suffix == ".json":
            files.load_json(path)


def moments(counts: dict[str, int], kills: int, seed: int) -> list[tuple[str, int]]:
    """`kills` different events, the places in turn."""
    own, drawn = random.Random(seed), []
    while len(drawn) < kills:
        place = PLACES[len(drawn) % len(PLACES)]
        moment = (place, own.randrange(counts[place]))
        if moment not in drawn:
            drawn.append(moment)
    return drawn


def whole_run(folder: Path) -> tuple[dict[str, int], bytes]:
    """How many events each place has, and the result of a run that nobody disturbs."""
    start("training", folder)
    return files.load_json(folder / "counts.json"), (folder / "result.json").read_bytes()


def killed_and_resumed(moment: tuple[str, int], folder: Path) -> bytes:
    """Kill a run at `moment`, start it again, and return its result."""
    start(moment[0], folder, moment)
    assert (folder / "killed").exists(), f"nothing was killed at {moment}"
    assert not (folder / "counts.json").exists()
    require_whole(folder)
    start(moment[0], folder)
    require_whole(folder)
    return (folder / "result.json").read_bytes()


def record(kills: int, seed: int, folder: Path) -> dict:
    """All kills; prints a line each."""
    (folder / "whole").mkdir()
    counts, expected = whole_run(folder / "whole")
    found = {"kills": 0, "resumed": 0, "differences": 0, "seed": seed, "places": Counter()}
    for moment in moments(counts, kills, seed):
        own = folder / "-".join(map(str, moment))
        own.mkdir()
        same = killed_and_resumed(moment, own) == expected
        found["kills"] += 1
        found["resumed"] += 1
        found["differences"] += not same
        found["places"][moment[0]] += 1
        words = f"{moment[0]}, event {moment[1]} of {counts[moment[0]]}"
        print(f"{words}: resumed, {'same bits' if same else 'OTHER BITS'}", flush=True)
        shutil.rmtree(own)
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the summary there")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        found = record(options.kills, options.seed, Path(folder))
    print(", ".join(f"{found[key]} {key}" for key in ("kills", "resumed", "differences")))
    if options.json:
        files.save_json(options.json, found)
    return 1 if found["differences"] else 0


if __name__ == "__main__":
    sys.exit(main())
