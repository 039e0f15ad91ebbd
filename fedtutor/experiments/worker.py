"""Play runs of the paper queue: one in this process, or many in processes of their own.

A run saves its state after every round, stops before the time is up, and goes on from there the
next time, bit for bit on the same kind of machine.
"""

import os
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from ..engine.checkpoints import Checkpoints
from ..errors import FedtutorError
from . import jobs
from .commits import require_committed
from .manifest import Run, absent, in_order
from .results import RESULTS, save_result
from .run import run as train

START = 20  # seconds that a process takes until its run begins
SLACK = 1.3  # a round may take so many times as long as the longest so far
END = 5  # seconds before the time is up at which everything is written
PROCESS = 1.0  # GB on the GPU that a process takes beside its tensors


class Paused(Exception):
    """The time is up; the words say how far a run came."""


def play(run: Run, *, results, kept, device: str = "cpu", threads: int = 1, deadline=float("inf"),
         at_once: int = 1) -> str:  # fmt: skip
    """Play a run from its checkpoint on, in this process, and write its result; in words.

    On a GPU the process is to be a new one, for the same bits in a resumed run. Before every round
    it asks whether that round can end before `deadline` (of time.time). Raises `Paused` where it
    cannot, and `SettingError` where `results` takes none of uncommitted code.
    """
    require_committed(results)
    if torch.device(device).type == "cuda":
        _repeatable()
    states, rounds = Checkpoints(run.state(kept), every=0), run.recipe.settings.rounds
    longest, before = 60 * run.round_minutes(), None

    def look(fed):
        nonlocal longest, before
        now = time.time()
        if seconds := fed.history["seconds"]:  # a resumed run knows those of its earlier rounds
            longest = max(0 if before is None else now - before, *seconds)
        before = now
        if fed.round_ < rounds and now + SLACK * longest + END > deadline:
            raise Paused(f"{fed.round_} of {rounds} rounds")

    result = train(
        run.recipe, run.method, seed=run.seed, device=device, threads=threads, watch=look,
        checkpoint=states, artifacts=Path(kept) / "artifacts",
    )  # fmt: skip
    about = {**result.environment, "at_once": at_once}
    save_result(replace(result, environment=about), run.path(results))
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


def task(run: Run, options: dict) -> jobs.Task:
    """The run as a process plays it; `options` are those of `play`."""
    extra = PROCESS if torch.device(options.get("device", "cpu")).type == "cuda" else 0.0
    minutes = run.needs(options["kept"]) + (START + END) / 60
    return jobs.Task(play, (run,), options, about=run, minutes=minutes, gb=run.gb + extra)


def work(runs: Sequence[Run], *, minutes: float, results=RESULTS, kept, device="cpu",
         threads: int = 1, at_once: int = 1, memory: float = float("inf"),
         say: Callable = print) -> list[tuple[Run, str, str]]:  # fmt: skip
    """Start runs, most valuable first, until `minutes` are over; (run, outcome, words) each.

    `at_once` runs work side by side where their gigabytes fit into `memory`. One that could not end
    a round in the time that is left is passed over, and so is one whose data are absent. Raises
    `SettingError` before the first where `results` takes none of uncommitted code.
    """
    options = {"results": results, "kept": kept, "device": device, "threads": threads,
               "at_once": at_once, "deadline": time.time() + 60 * minutes}  # fmt: skip
    waiting, ended = in_order(runs, kept), []
    if waiting:
        require_committed(results)

    def refuse(task) -> str | None:
        if not (reason := absent(task.about)):
            played = task.about.played(kept)
            say(f"{task.about.name}: {f'goes on after round {played}' if played else 'begins'}")
        return reason

    for done, outcome, value in jobs.through(
        [task(run, options) for run in waiting], minutes=minutes, at_once=at_once, memory=memory,
        refuse=refuse,
    ):  # fmt: skip
        run, words = done.about, str(value)
        if outcome == jobs.STOPPED:
            outcome, words = "paused", f"the time is up; {run.played(kept)} rounds are kept"
        elif outcome == jobs.REFUSED:
            outcome = "absent"
        elif isinstance(value, Paused):
            outcome = "paused"
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
