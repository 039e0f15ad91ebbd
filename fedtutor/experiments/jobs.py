"""Runs in processes of their own: how they are started, watched and stopped.

The benchmark, rehearsals and `reproduce` start everything here. A run that fails
or is killed stops no other; Ctrl-C, or whoever stops listening, stops them all. They do not outlive
the process that started them, however it ended.
"""

import multiprocessing
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import torch

DONE, FAILED, REFUSED = "done", "failed", "refused"


class Killed(Exception):
    """A process ended without a word; the words say how."""


@dataclass(frozen=True)
class Task:
    """A function of a module and what it is given: a process imports the one, gets the other."""

    work: Callable
    given: tuple = ()
    options: dict = field(default_factory=dict)
    about: object = None  # whatever the caller knows it by
    gb: float = 0.0  # of memory
    threads: int | None = None  # of torch within an operation; None: as torch has it
    fork: bool = False  # quick, from a parent that holds little; where there is no fork: anew


class Job:
    """A task in its process."""

    def __init__(self, task: Task):
        context = multiprocessing.get_context(
            "fork" if task.fork and sys.platform == "linux" else "spawn"
        )
        self.task = task
        self.answer, theirs = context.Pipe(duplex=False)
        self.process = context.Process(target=_child, args=(theirs, task), daemon=True)
        self.process.start()
        theirs.close()

    def outcome(self) -> tuple | None:
        """(DONE, what it returned) or (FAILED, the error); None while it works."""
        alive = self.process.is_alive()  # asked first: a last word may come in between
        try:
            if self.answer.poll():
                return self.answer.recv()
        except EOFError:
            alive = False
        if alive:
            return None
        self.process.join()
        return FAILED, Killed(f"its process ended with {self.process.exitcode}: too little memory?")

    def stop(self) -> None:
        self.process.terminate()
        self.process.join(5)
        self.process.kill()


def _child(answer, task: Task) -> None:
    parent = multiprocessing.parent_process()
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    if task.threads:
        torch.set_num_threads(task.threads)
    try:
        said = DONE, task.work(*task.given, **task.options)
    except KeyboardInterrupt:  # Ctrl-C reaches both, and the parent tells
        return
    except Exception as error:
        said = FAILED, _portable(error)
    with suppress(BrokenPipeError):  # nobody listens any more
        answer.send(said)


def _end_with(parent) -> None:
    parent.join()
    os._exit(1)


def _portable(error: Exception) -> Exception:
    """The error, or its name and words where it cannot leave its process."""
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")


def alone(task: Task):
    """What a task returns. Raises what it raises, and `Killed`."""
    ((_, outcome, value),) = through([task])
    if outcome == FAILED:
        raise value
    return value


def through(
    tasks: Iterable[Task],
    *,
    at_once: int = 1,
    memory: float = float("inf"),
    refuse: Callable | None = None,
) -> Iterator[tuple]:
    """Run tasks in their order; (task, outcome, value) as each ends.

    `at_once` of them work side by side where their gigabytes fit into `memory`; one that needs more
    than that works alone. `refuse(task)` is asked before a start: a reason is a REFUSED one.
    """
    waiting, working = list(tasks), []
    try:
        while waiting or working:
            for job in list(working):
                if (found := job.outcome()) is not None:
                    working.remove(job)
                    yield job.task, *found
            for task in list(waiting):
                used = sum(job.task.gb for job in working)
                if len(working) >= at_once or (working and used + task.gb > memory):
                    break
                waiting.remove(task)
                if reason := refuse and refuse(task):
                    yield task, REFUSED, reason
                else:
                    working.append(Job(task))
            time.sleep(0.05)
    finally:
        for job in working:
            job.stop()
