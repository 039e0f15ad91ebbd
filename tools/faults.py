"""Kill a small federation at seeded moments, let it go on, compare bits.

    python tests/faults.py                             # 20 kills, a summary; not a test
    python tests/faults.py --kills 5 --seed 1
    python tests/faults.py --json data/faults.json     # what the README reports

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

import nbformat
import torch
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError
from support.federations import NETWORKS, federation, weights_of

from fedtutor import distillation, models
from fedtutor.engine import files, optimizers
from fedtutor.rounds import run

PLACES = ("training", "distillation", "checkpoint", "result", "notebook")
KINDS = {"virtual-": "distillation", "round-": "checkpoint", "result": "result"}  # of files
OPTIONS = {"models": ["hidden"], "momentum": 0.9, "keep_optimizer": True, "rounds": 5,
           "virtual_ipc": 4, "virtual_steps": 6, "virtual_batch": 4}  # fmt: skip


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
    models.MODELS.update(NETWORKS)
    events, distillation.REST = Events(folder, moment), 2
    events.around_files()
    events.around_steps()
    fed = federation("fedavg", artifacts=folder / "artifacts", **OPTIONS)
    run(fed, checkpoint=folder / "state", every=0)
    digest = hashlib.sha256()
    for name, value in sorted(weights_of(fed).items()):
        digest.update(name.encode() + value.numpy().tobytes())
    result = {"history": {**fed.history, "seconds": []}, "weights": digest.hexdigest()}
    files.save_json(folder / "result.json", result)
    (folder / "counts.json").write_text(json.dumps(events.counts))


CELL = """import sys
sys.path[:0] = {paths!r}
import faults
faults.play({folder!r}, {moment!r})"""


def play_in_notebook(folder, moment: tuple[str, int] | None = None) -> None:
    paths = [str(Path(__file__).parent), str(files.ROOT)]
    code = CELL.format(paths=paths, folder=str(folder), moment=moment)
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
    """Have a process from which others are forked with everything imported."""
    forkserver.set_forkserver_preload(["faults"])
    before = os.environ.get("PYTHONPATH")
    own = [str(Path(__file__).parent), str(files.ROOT)]
    os.environ["PYTHONPATH"] = os.pathsep.join(own)
    forkserver.ensure_running()
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before


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
        print(f"{moment[0]}, event {moment[1]} of {counts[moment[0]]}: resumed, "
              f"{'same bits' if same else 'OTHER BITS'}", flush=True)  # fmt: skip
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
