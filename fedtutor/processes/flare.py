"""The same calls through NVIDIA FLARE: a server process, a process per client, gRPC between them.

`FlareServer` and `FlareClient` are what FLARE starts in the processes. A message is the bytes of a
call: name and plain values, written by torch, read without running any code of the sender.
"""

import json
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch
from nvflare.collab import CollabCallError, collab

from .. import rounds
from ..engine.files import save_json
from ..errors import FedtutorError, TrainingError
from ..experiments import recipes
from ..experiments.commits import code
from .leave_out import Unreachable
from .messages import read, written
from .site import Site
from .stage import RemoteFederation

PATIENCE = 2.0  # seconds until a client that is not up yet is asked again
START = 600.0  # seconds that a client may take until it has its data and networks


class Job:
    """What server and clients both know.

    `overrides` are texts such as "rounds=2", values as JSON. `states` is a folder on the machine of
    each process, where a run that is played again goes on ("": nothing is kept).
    """

    def __init__(
        self,
        recipe: str,
        method: str,
        seed: int,
        profile: str,
        scenario: str,
        overrides: list[str],
        states: str = "",
    ):
        self.recipe, self.method, self.seed, self.profile = recipe, method, seed, profile
        self.scenario, self.overrides, self.states = scenario, overrides, states

    def _parts(self) -> tuple:
        """(scenario, method, settings), built in this process."""
        torch.set_num_threads(1)
        given = dict(text.split("=", 1) for text in self.overrides)
        asked = recipes.load(
            self.recipe,
            profile=self.profile,
            scenario=self.scenario or None,
            overrides={key: json.loads(value) for key, value in given.items()},
        )
        return asked.build(self.seed), asked.make(self.method), asked.settings_of(self.method)

    def _states(self, name: str) -> Path | None:
        return Path(self.states) / name if self.states else None


class FlareClient(Job):
    """In a client's process: its site, made when the first call comes."""

    def _site(self, id: str) -> Site:
        if not hasattr(self, "_made"):
            scenario, method, settings = self._parts()
            self._made = Site(
                id, scenario, method, settings, seed=self.seed, folder=self._states(id)
            )
            self._data = scenario.fingerprint
        return self._made

    @collab.publish
    def call(self, message: bytes) -> bytes:
        """The answer to a call, or what went wrong there."""
        torch.set_num_threads(1)
        id, name, arguments = read(message)
        try:
            site = self._site(id)
            if name == "ready":
                arguments = [code(), self._data]
            return written({"value": getattr(site, name)(*arguments)})
        except FedtutorError as error:
            return written({"wrong": told(error)})
        except Exception as error:
            place = traceback.format_exc(limit=-3)
            return written(
                {
                    "wrong": {
                        "what": f"{type(error).__name__}: {error}",
                        "where": place,
                        "do": "see the client's log",
                    }
                }
            )


class FlareServer(Job):
    """In the server's process: `rounds.run` on a stage whose clients are the sites.

    Into `output` (a folder; "": that of FLARE's job) go `rounds.jsonl`, a line per round while it
    plays, and in the end `run.json` or, where it fails, `wrong.json`. `timeout`: seconds that a
    client may take for one call.
    """

    def __init__(
        self,
        recipe: str,
        method: str,
        seed: int,
        profile: str,
        scenario: str,
        overrides: list[str],
        states: str = "",
        output: str = "",
        timeout: float = 600.0,
        leave_out: bool = False,
    ):
        super().__init__(recipe, method, seed, profile, scenario, overrides, states)
        self.output, self.timeout, self.leave_out = output, timeout, leave_out

    @collab.main
    def train(self) -> None:
        """Play all rounds that are left, and write down what came of it."""
        place = collab.workspace.get_run_dir(collab.fl_ctx.get_job_id())
        folder = Path(self.output or place)
        try:
            found = self._play(folder)
        except FedtutorError as error:
            save_json(folder / "wrong.json", told(error))
            raise
        save_json(folder / "run.json", found)

    def _play(self, folder: Path) -> dict:
        scenario, method, settings = self._parts()
        sites = sorted(collab.clients, key=_number)
        wire = Wire(dict(zip((c.id for c in scenario.clients), sites, strict=True)), self.timeout)
        require_same(wire, code(), scenario.fingerprint)
        fed = RemoteFederation(
            scenario, method, settings, calls=wire, seed=self.seed, leave_out=self.leave_out
        )

        def progress(numbers):
            for number in numbers:
                yield number
                wire.note(folder / "rounds.jsonl", fed)

        history = rounds.run(fed, checkpoint=self._states("server"), every=0, progress=progress)
        return {"history": history, "wire": wire.counted, "settings": asdict(settings)}


def require_same(wire: Callable, code: str, data: str) -> None:
    """Raise `TrainingError` where a client's code or data differ from the server's."""
    for id in wire.proxies:
        there = wire(id, "ready", "", "")
        for what, ours in (("code", code), ("data", data)):
            if there[what] != ours:
                raise TrainingError(
                    f"client {id} has other {what} ({there[what]}, here {ours})",
                    where="before round 1",
                    do="bring both to the same version",
                )


class Wire:
    """Calls to the clients' processes; it counts them, and what crosses, in bytes and seconds."""

    def __init__(self, proxies: dict, timeout: float):
        self.proxies, self.timeout = proxies, timeout
        self.counted = {"sent": 0, "received": 0, "calls": 0, "seconds": {}}

    def __call__(self, id: str, name: str, *arguments):
        """The client's answer. Raises `Unreachable`, or the `TrainingError` of the client."""
        began, message = time.perf_counter(), written([id, name, list(arguments)])
        patience = START if name == "ready" else self.timeout
        while True:
            try:
                answer = self.proxies[id](timeout=patience).call(message)
                break
            except CollabCallError as error:
                after = time.perf_counter() - began
                if name == "ready" and after < START:  # its process is not up yet
                    time.sleep(PATIENCE)
                    continue
                raise Unreachable(
                    f"client {id} does not answer ({error.cause_type} after {after:.0f} s)",
                    where=name,
                    do="see its log; a slow client needs a longer --timeout",
                ) from None
        self.counted["sent"] += len(message)
        self.counted["received"] += len(answer)
        self.counted["calls"] += 1
        spent = self.counted["seconds"].setdefault(name, [])
        spent.append(round(time.perf_counter() - began, 4))
        found = read(answer)
        if "wrong" in found:
            raise TrainingError(**found["wrong"])
        return found["value"]

    def note(self, path: Path, fed) -> None:
        """Add a line about the round that has just ended to `path`."""
        losses = [loss for loss in fed.history["loss"][-1]["values"] if loss is not None]
        row = {
            "round": fed.round_,
            "loss": sum(losses) / len(losses),
            "sent": self.counted["sent"],
            "received": self.counted["received"],
            "failures": fed.history.get("failures", []),
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a") as file:
            file.write(json.dumps(row) + "\n")


def told(error: FedtutorError) -> dict:
    """An error as plain values."""
    return {"what": error.what, "where": error.where, "do": error.do}


def _number(proxy) -> int:
    return int(proxy.name.rpartition("-")[2])
