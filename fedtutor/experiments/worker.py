"""Play runs of the paper queue: one in this process, or many in processes of their own.

A run saves its state after every round, stops before the time is up, and goes on from there the
next time, bit for bit on the same kind of machine.
"""

import os
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import torch

from ..engine.checkpoints import Checkpoints
from ..engine.files import save_json
from ..errors import FedtutorError
from .commits import require_committed
from .manifest import Run, absent, in_order
from .results import RESULTS, save_result
from .run import run as train

LIMIT = 48 * 10**6  # bytes of tensors in a file of a checkpoint: with all else under 50 MB
START = 20  # seconds that a process takes until its run begins
SLACK = 1.3  # a round may take so many times as long as the longest so far
END = 5  # seconds before the time is up at which everything is written
PROCESS = 1.0  # GB on the GPU that a process takes beside its tensors


class Paused(Exception):
    """The time is up; the words say how far a run came."""


def play(run: Run, *, results, kept, device: str = "cpu", threads: int = 1, deadline=float("inf"),
         at_once: int = 1, clock: Callable = time.time) -> str:  # fmt: skip
    """Play a run from its checkpoint on, in this process, and write its result; in words.

    Before every round it asks whether that round can end before `deadline` (of `clock`). Raises
    `Paused` where it cannot, and `SettingError` where `results` takes none of uncommitted code.
    """
    require_committed(results)
    place, rounds = run.state(kept), run.recipe.settings.rounds
    states = Checkpoints(place, every=0, limit=LIMIT)
    longest, before = 60 * run.round_minutes(), None

    def look(fed):
        nonlocal longest, before
        now, left = clock(), rounds - fed.round_
        if before is not None:
            longest = max(now - before, max(fed.history["seconds"]))
        elif fed.history["seconds"]:
            longest = max(fed.history["seconds"])
        before = now
        if not left:
            return
        if states.too_large:
            size = f"its checkpoint of {states.too_large / 1e6:.0f} MB is too large to be kept"
            if now + left * SLACK * longest + END > deadline:
                minutes = (rounds * SLACK * longest + START) / 60 + run.first
                save_json(place / "too-large.json", {"minutes": minutes})
                raise Paused(f"{size}: give it {minutes:.0f} minutes in one go")
        if now + SLACK * longest + END > deadline:
            raise Paused(f"{fed.round_} of {rounds} rounds")

    result = train(
        run.recipe, run.method, seed=run.seed, device=device, threads=threads, watch=look,
        checkpoint=states, artifacts=Path(kept) / "artifacts",
    )  # fmt: skip
    about = {**result.environment, "at_once": at_once}
    save_result(replace(result, environment=about), run.path(results))
    for file in states.files():
        states.delete(file)
    (place / "too-large.json").unlink(missing_ok=True)
    share = f"{100 * result.headline['intra']:.1f} % on own tests"
    return f"done in {result.totals['seconds']:.0f} s of rounds, {share}"


class Job:
    """A run in a process of its own."""

    def __init__(self, run: Run, options: dict):
        context = get_context("spawn")
        self.run = run
        self.answer, theirs = context.Pipe(duplex=False)
        self.process = context.Process(target=_child, args=(theirs, run, options), daemon=True)
        self.process.start()
        theirs.close()

    def outcome(self) -> tuple[str, str] | None:
        """("done" | "paused" | "failed", words); None while it works."""
        alive = self.process.is_alive()  # asked first: a last word may come in between
        try:
            if self.answer.poll():
                return self.answer.recv()
        except EOFError:
            alive = False
        if alive:
            return None
        self.process.join()
        return "failed", f"its process ended with {self.process.exitcode}: too little memory?"

    def stop(self) -> None:
        self.process.terminate()
        self.process.join(5)
        self.process.kill()


def _repeatable() -> None:
    """Let a GPU give the same bits when a run is resumed; once, before the GPU is used."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = False, True
    warnings.filterwarnings("ignore", message=".*deterministic.*")


def _child(answer, run: Run, options: dict) -> None:
    if torch.device(options.get("device", "cpu")).type == "cuda":
        _repeatable()
    try:
        answer.send(("done", play(run, **options)))
    except Paused as words:
        answer.send(("paused", str(words)))
    except FedtutorError as error:
        answer.send(("failed", f"{type(error).__name__}: {error.what} ({error.where})"))
    except Exception as error:  # whatever it is, the next run has its turn
        answer.send(("failed", f"{type(error).__name__}: {str(error)[:200]}"))


# --- many runs


def work(runs: Sequence[Run], *, minutes: float, results=RESULTS, kept, device="cpu",
         threads: int = 1, at_once: int = 1, memory: float = float("inf"), launch: Callable = Job,
         clock: Callable = time.time, wait: Callable = time.sleep,
         say: Callable = print) -> list[tuple[Run, str, str]]:  # fmt: skip
    """Start runs, most valuable first, until `minutes` are over; (run, outcome, words) each.

    `at_once` runs work side by side where their gigabytes fit into `memory`. One that could not end
    a round in the time that is left is passed over, and so is one whose data are absent. Raises
    `SettingError` before the first where `results` takes none of uncommitted code.
    """
    deadline = clock() + 60 * minutes
    options = {"results": results, "kept": kept, "device": device, "threads": threads,
               "at_once": at_once, "deadline": deadline}  # fmt: skip
    waiting, working, ended = in_order(runs, kept), [], []
    if waiting:
        require_committed(results)
    extra = PROCESS if torch.device(device).type == "cuda" else 0.0

    def end(job, outcome, words):
        working.remove(job)
        ended.append((job.run, outcome, words))
        say(f"{job.run.name}: {outcome}, {words}" if outcome != "done" else
            f"{job.run.name}: {words}")  # fmt: skip

    while True:
        for job in list(working):
            if (outcome := job.outcome()) is not None:
                end(job, *outcome)
        left = (deadline - clock()) / 60
        for run in list(waiting):
            used = sum(job.run.gb + extra for job in working)
            if len(working) >= at_once or left <= 0:
                break
            if run.needs(kept) + (START + END) / 60 > left or used + run.gb + extra > memory:
                continue
            waiting.remove(run)
            if (reason := absent(run)) is None:
                played = run.played(kept)
                say(f"{run.name}: " + (f"goes on after round {played}" if played else "begins"))
                working.append(launch(run, options))
            else:
                ended.append((run, "absent", reason))
        if left <= 0:
            for job in list(working):
                job.stop()
                end(job, "paused", f"the time is up; {job.run.played(kept)} rounds are kept")
        if not working:
            break
        wait(0.2)
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
