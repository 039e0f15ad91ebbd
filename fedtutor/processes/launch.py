"""A federation in processes of its own: start it, follow it, leave nothing behind.

`start.py` starts NVIDIA FLARE, which carries the messages; `flare.py` is what runs in its server
and sites.
"""

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from ..engine.files import PACKAGE, load_json, save_json
from ..errors import SettingError, StorageError, TrainingError
from ..experiments import recipes

WAYS = ("simulated", "provisioned", "deployed")  # start.py says what they are
PREFIX = "fedtutor-"
PATIENCE = 0.5  # seconds between two looks at what has come


@dataclass
class Asked:
    """A run to play; the parts are those of `recipes.load`, `method` is one registered method.

    `states`: a folder on the machine of each process, where a run that is asked for again goes on.
    `timeout`: seconds that a client may take for one call. `leave_out`: go on without a client that
    does not answer, rather than stop.
    """

    recipe: str
    method: str
    seed: int = 0
    profile: str = "quick"
    scenario: str = ""
    overrides: dict = field(default_factory=dict)
    states: str = ""
    timeout: float = 600.0
    leave_out: bool = False

    def loaded(self):
        """The recipe with these changes; raises the `FedtutorError`s of `recipes.load`."""
        return recipes.load(
            self.recipe,
            profile=self.profile,
            scenario=self.scenario or None,
            overrides=self.overrides,
        )

    def job(self) -> dict:
        """What `flare.Job` takes: FLARE writes it into the job as plain values."""
        given = [f"{key}={json.dumps(value)}" for key, value in self.overrides.items()]
        states = str(Path(self.states).resolve()) if self.states else ""
        return {
            "recipe": self.recipe,
            "method": self.method,
            "seed": self.seed,
            "profile": self.profile,
            "scenario": self.scenario,
            "overrides": given,
            "states": states,
        }


def federate(
    asked: Asked,
    *,
    way: str = "simulated",
    kit: Path | None = None,
    say: Callable = print,
    keep: Path | None = None,
) -> dict:
    """Play the run with a process per client.

    Returns {"history", "wire", "settings", "memory"}: what `rounds.run` returns; calls, bytes and
    seconds; the settings; the most megabytes that server and sites held. `way`: simulated,
    provisioned or deployed, which needs `kit`, the folder of an administrator's start-up kit. `say`
    gets a line per round, for each client that is left out, and where processes that did not find
    each other start once more. `keep`: a new folder for the logs of server and sites. Raises what
    the run raised in its processes; Ctrl-C ends them all.
    """
    if importlib.util.find_spec("nvflare") is None:
        raise SettingError(
            "NVIDIA FLARE is not there",
            where="federate",
            do="install it: python -m pip install 'fedtutor[engine]', in a clone -e '.[engine]'",
        )
    if way == "deployed" and not (kit and (kit / "startup").is_dir()):
        raise SettingError(
            f"{kit} is no start-up kit",
            where="federate --kit",
            do="give the administrator's folder that nvflare provision made",
        )
    recipe = asked.loaded()
    recipe.make(asked.method)
    clients = len(recipe.build().clients)
    with _place(keep) as place:
        out = place / "out"
        out.mkdir()
        save_json(
            place / "asked.json",
            {
                "job": asked.job(),
                "timeout": asked.timeout,
                "leave_out": asked.leave_out,
                "clients": clients,
                "way": way,
                "kit": str(kit.resolve()) if kit else None,
                "output": str(out) if not kit else "",
            },
        )
        memory = {}
        with _followed(out, say, lambda: _measure(place, memory)):
            _played(place)
            if not any(out.iterdir()) and "failed to sync" in _last_words(place):
                say("the processes did not find each other; they start once more")
                shutil.rmtree(place / "sites", ignore_errors=True)
                _played(place)
        return {**_found(out, place), "memory": memory}


def kill(site: str) -> int:
    """Kill a site's process, such as "site-3", of what runs on this machine: to try a fault.

    Returns how many processes it was; 0 where none runs.
    """
    found = [
        process
        for process in of_place(Path(tempfile.gettempdir()) / PREFIX)
        if site in process.info["cmdline"]
    ]
    for process in found:
        with suppress(psutil.Error):
            process.kill()
    return len(found)


def _played(place: Path) -> None:
    """Start `start.py`, and wait until all of its processes have ended."""
    path = os.pathsep.join([str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")])
    known = {**os.environ, "NVFLARE_POC_WORKSPACE": str(place / "kits"), "PYTHONPATH": path}
    command = [sys.executable, "-m", "fedtutor.processes.start", str(place / "asked.json")]
    with open(place / "console_log.txt", "w") as console:
        started = subprocess.Popen(
            command, stdout=console, stderr=console, env=known, cwd=place, start_new_session=True
        )
        try:
            started.wait()
        finally:  # after Ctrl-C, too
            with suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)
            started.wait()
            for process in of_place(place):
                with suppress(psutil.Error):
                    process.kill()


def of_place(place: Path) -> list[psutil.Process]:
    """The processes that work in `place`: server, sites, and what watches them."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if str(place) in " ".join(process.info["cmdline"] or ()) and process.pid != os.getpid()
    ]


@contextmanager
def _place(keep: Path | None):
    """A new folder for workspaces and logs; it goes when the run ends, whatever happens."""
    if keep and keep.exists() and any(keep.iterdir()):
        raise StorageError(f"{keep} is not empty", where="federate --keep", do="give a new folder")
    place = Path(tempfile.mkdtemp(prefix=PREFIX))
    try:
        yield place
    finally:
        if keep:
            keep.mkdir(parents=True, exist_ok=True)
            for log in sorted(place.rglob("*log*.txt")):
                shutil.copy(log, keep / "-".join(log.relative_to(place).parts[-3:]))
        shutil.rmtree(place, ignore_errors=True)


def _measure(place: Path, memory: dict) -> None:
    """Note in `memory` what the server and each site hold now, in megabytes, if it is the most."""
    for process in of_place(place):
        words = process.info["cmdline"]
        sites = [word for word in words if re.fullmatch(r"site-\d+", word)]
        serves = "server" in words or any(word.endswith(".simulator") for word in words)
        who = sites[0] if sites else "server" if serves else "others"
        with suppress(psutil.Error):
            held = process.memory_info().rss / 2**20
            memory[who] = max(memory.get(who, 0.0), round(held, 1))


@contextmanager
def _followed(out: Path, say: Callable, also: Callable):
    """`say` a line for each round, and each client left out, while it plays; call `also`."""
    ended, told = threading.Event(), []

    def look():
        path = out / "rounds.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        for line in lines[len(told) :]:
            told.append(line)
            row = json.loads(line)
            for failed in row["failures"]:
                if failed["round"] == row["round"]:
                    say(
                        f"round {row['round']} goes on without {failed['client']}: "
                        f"{failed['error']}"
                    )
            say(
                f"round {row['round']}: loss {row['loss']:.3f}, on the wire "
                f"{(row['sent'] + row['received']) / 1e6:.2f} MB so far"
            )

    def follow():
        while not ended.wait(PATIENCE):
            look()
            also()

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        look()


def _found(folder: Path, place: Path) -> dict:
    """What the server has written; raises the error with which it ended."""
    for path in folder.rglob("run.json"):
        return load_json(path)
    for path in folder.rglob("wrong.json"):
        raise TrainingError(**load_json(path))
    raise TrainingError(
        "the processes ended without a result",
        where=_last_words(place),
        do="look at the logs: federate --keep FOLDER",
    )


def _last_words(place: Path) -> str:
    """The last line of each process's log of errors, or of the console."""
    last = []
    for path in [*sorted(place.rglob("error_log.txt")), place / "console_log.txt"]:
        lines = [line for line in path.read_text().splitlines() if line.strip()]
        if lines and (path.name == "error_log.txt" or not last):
            last.append(f"{path.parent.name}: {lines[-1][:300]}")
    return "; ".join(last) or "NVIDIA FLARE"
