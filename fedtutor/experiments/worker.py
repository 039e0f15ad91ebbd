"""Play runs of a manifest: one in this process, or several in processes of their own.

A run saves its state after every round and goes on from there the next time, bit for bit on the
same kind of machine.
"""

import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from ..engine.checkpoints import Checkpoints
from ..errors import FedtutorError
from . import jobs
from .commits import require_committed
from .manifest import Run, absent, in_order
from .results import RESULTS, save_result
from .run import run as train

PROCESS = 1.0  # GB on the GPU that a process takes beside its tensors


def play(run: Run, *, results, kept, device: str = "cpu", threads: int = 1) -> str:
    """Play a run from its checkpoint on, in this process, and write its result; in words.

    On a GPU the process is to be a new one, for the same bits in a resumed run. Raises
    `SettingError` where `results` takes none of uncommitted code.
    """
    require_committed(results)
    if torch.device(device).type == "cuda":
        _repeatable()
    states = Checkpoints(run.state(kept), every=0)
    result = train(
        run.recipe,
        run.method,
        seed=run.seed,
        device=device,
        threads=threads,
        checkpoint=states,
        artifacts=Path(kept) / "artifacts",
    )
    save_result(result, run.path(results))
    for file in states.files():
        file.unlink(missing_ok=True)
    share = f"{100 * result.headline['intra']:.1f} % on own tests"
    return f"done in {result.totals['seconds']:.0f} s of rounds, {share}"


def _repeatable() -> None:
    """Let a GPU give the same bits when a run is resumed."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = False, True
    warnings.filterwarnings("ignore", message=".*deterministic.*")


def work(
    runs: Sequence[Run],
    *,
    results=RESULTS,
    kept,
    device: str = "cpu",
    threads: int = 1,
    at_once: int = 1,
    memory: float = float("inf"),
    say: Callable = print,
) -> list[tuple[Run, str, str]]:
    """Play runs, each in a process of its own, most valuable first; (run, outcome, words) each.

    `at_once` runs work side by side where their gigabytes fit into `memory`. One whose data are
    absent is left out. Raises `SettingError` before the first where `results` takes none of
    uncommitted code.
    """
    options = {"results": results, "kept": kept, "device": device, "threads": threads}
    extra = PROCESS if torch.device(device).type == "cuda" else 0.0
    waiting, ended = in_order(runs, kept), []
    if waiting:
        require_committed(results)

    def refuse(task) -> str | None:
        if not (reason := absent(task.about)):
            played = task.about.played(kept)
            say(f"{task.about.name}: {f'goes on after round {played}' if played else 'begins'}")
        return reason

    tasks = [jobs.Task(play, (run,), options, about=run, gb=run.gb + extra) for run in waiting]
    for done, outcome, value in jobs.through(tasks, at_once=at_once, memory=memory, refuse=refuse):
        run, words = done.about, str(value)
        if outcome == jobs.REFUSED:
            outcome = "absent"
        elif isinstance(value, FedtutorError):
            words = f"{type(value).__name__}: {value.what} ({value.where})"
        elif isinstance(value, Exception) and not isinstance(value, jobs.Killed):
            words = f"{type(value).__name__}: {words[:200]}"
        ended.append((run, outcome, words))
        if outcome != "absent":
            say(f"{run.name}: " + f"{outcome}, " * (outcome != jobs.DONE) + words)
    return ended


def memory_of(device: str) -> float:
    """GB that are free: of the GPU, or of this machine (unlimited where nobody says)."""
    if torch.device(device).type == "cuda":
        return torch.cuda.mem_get_info(device)[0] / 1e9
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(x.split()[1]) / 1e6 for x in lines if x.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return float("inf")
