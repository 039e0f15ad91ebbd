"""A run in a process of its own: what it says, how it ends, and who stops it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from fedtutor.errors import DataError
from fedtutor.experiments import jobs
from fedtutor.experiments.jobs import Job, Killed, Task, alone, through


def threads(extra=0):
    import torch

    return torch.get_num_threads() + extra


def without_data():
    raise DataError("no images", where="here", do="fetch them")


def interrupted():
    raise KeyboardInterrupt


def odd():
    class Odd(Exception):
        def __init__(self, one, two):
            super().__init__("only here")

    raise Odd(1, 2)


def sleeps(seconds=60):
    time.sleep(seconds)


@pytest.mark.parametrize("fork", [True, False])
def test_a_process_tells_its_parent_what_happened(fork, capfd):
    assert alone(Task(threads, options={"extra": 40}, threads=2, fork=fork)) == 42
    with pytest.raises(DataError, match="no images"):
        alone(Task(without_data, fork=fork))
    with pytest.raises(RuntimeError, match="Odd: only here"):
        alone(Task(odd, fork=fork))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("work, given, code", [(interrupted, (), 0), (os._exit, (3,), 3)])
def test_one_that_ends_without_a_word_is_killed_and_stops_no_other(work, given, code, capfd):
    tasks = [Task(work, given, fork=True), Task(threads, threads=1, fork=True)]
    first, second = through(tasks)
    assert first[:2] == (tasks[0], jobs.FAILED) and isinstance(first[2], Killed)
    assert f"ended with {code}" in str(first[2]) and second == (tasks[1], jobs.DONE, 1)
    assert capfd.readouterr().err == ""


@pytest.fixture
def started(monkeypatch):
    """All jobs that are started."""
    seen = []

    class Seen(Job):
        def __init__(self, task):
            super().__init__(task)
            seen.append(self)

    monkeypatch.setattr(jobs, "Job", Seen)
    return seen


def leaves_its_number(folder):
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(600)


STARTS = """
import sys
from tests.experiments.test_jobs import leaves_its_number
from fedtutor.experiments.jobs import Task, through

if __name__ == "__main__":
    task = Task(leaves_its_number, (sys.argv[1],), fork=sys.argv[2] == "fork")
    list(through([task] * 2, at_once=2))
"""


def ended(number):
    try:
        return Path(f"/proc/{number}/stat").read_text().split()[2] == "Z"
    except OSError:
        return True


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
@pytest.mark.parametrize("kind, how", [("fork", signal.SIGTERM), ("spawn", signal.SIGKILL)])
def test_no_process_outlives_a_parent_that_is_killed(tmp_path, kind, how):
    folder, script = tmp_path / "numbers", tmp_path / "starts.py"
    folder.mkdir()
    script.write_text(STARTS)
    root = Path(__file__).parents[2]
    parent = subprocess.Popen([sys.executable, str(script), str(folder), kind],
                              env={**os.environ, "PYTHONPATH": str(root)})  # fmt: skip
    try:
        numbers = wait_for(lambda: [f.name for f in folder.iterdir()], 2)
        parent.send_signal(how)
        parent.wait(20)
        wait_for(lambda: [number for number in numbers if ended(number)], 2)
    finally:
        parent.kill()


def wait_for(found, count, seconds=60):
    """What `found` returns as soon as there are so many."""
    until = time.time() + seconds
    while len(these := found()) < count:
        assert time.time() < until, these
        time.sleep(0.1)
    return these


def test_ctrl_c_stops_what_works(started, monkeypatch):
    def wait(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(jobs, "time", SimpleNamespace(time=time.time, sleep=wait))

    with pytest.raises(KeyboardInterrupt):
        list(through([Task(sleeps, fork=True)] * 2, at_once=2))
    assert len(started) == 2 and not any(job.process.is_alive() for job in started)


def test_one_that_is_refused_is_not_started(started):
    tasks = [Task(threads, about="refused"), Task(threads, fork=True, about="works")]
    found = list(through(tasks, refuse=lambda task: task.about == "refused"))
    assert [(t.about, o) for t, o, _ in found] == [("refused", "refused"), ("works", "done")]
    assert len(started) == 1
