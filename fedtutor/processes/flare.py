"""The same calls through NVIDIA FLARE: a server process, a process per client, gRPC between them.

`FlareServer` and `FlareClient` are what FLARE starts in the processes. A message is the bytes of a
call: name and plain values, written by torch, read without running any code of the sender.
"""

import io
import json
import time
import traceback
from dataclasses import asdict
from pathlib import Path

import torch
from nvflare.collab import CollabCallError, collab

from .. import rounds
from ..engine.files import save_json
from ..errors import FedtutorError, TrainingError
from ..experiments import code_hash, recipes
from .site import Site
from .stage import RemoteFederation

START = 600.0  # seconds that a client may take until it has its data and networks


def written(value) -> bytes:
    """A plain value as bytes."""
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def read(message: bytes):
    """What `written` wrote; nothing but tensors and plain values comes out."""
    return torch.load(io.BytesIO(message), weights_only=True)


class Job:
    """What server and clients both know. `overrides`: texts such as "rounds=2", values as JSON."""

    def __init__(self, recipe: str, method: str, seed: int, profile: str, scenario: str,
                 overrides: list[str]):  # fmt: skip
        self.recipe, self.method, self.seed, self.profile = recipe, method, seed, profile
        self.scenario, self.overrides = scenario, overrides

    def _parts(self) -> tuple:
        """(scenario, method, settings), built in this process."""
        torch.set_num_threads(1)
        given = dict(text.split("=", 1) for text in self.overrides)
        asked = recipes.load(
            self.recipe, profile=self.profile, scenario=self.scenario or None,
            overrides={key: json.loads(value) for key, value in given.items()},
        )  # fmt: skip
        scenario = asked.build()
        code = code_hash.code_of(self.method, asked.settings.models, asked.scenario,
                                 virtual=bool(asked.settings.virtual_ipc))  # fmt: skip
        return scenario, asked.make(self.method), asked.settings, code["hash"]


class FlareClient(Job):
    """In a client's process: its site, made when the first call comes."""

    def _site(self, id: str) -> Site:
        if not hasattr(self, "_made"):
            scenario, method, settings, code = self._parts()
            self._made = Site(id, scenario, method, settings, seed=self.seed)
            self._code, self._data = code, scenario.fingerprint
        return self._made

    @collab.publish
    def call(self, message: bytes) -> bytes:
        """The answer to a call, or what went wrong there."""
        torch.set_num_threads(1)
        id, name, arguments = read(message)
        try:
            site = self._site(id)
            if name == "ready":
                arguments = [self._code, self._data]
            return written({"value": getattr(site, name)(*arguments)})
        except FedtutorError as error:
            wrong = {"what": error.what, "where": error.where, "do": error.do}
        except Exception as error:
            place = traceback.format_exc(limit=-3)
            wrong = {"what": f"{type(error).__name__}: {error}", "where": place,
                     "do": "see the client's log"}  # fmt: skip
        return written({"wrong": wrong})


class FlareServer(Job):
    """In the server's process: `rounds.run` on a stage whose clients are the sites."""

    def __init__(self, recipe: str, method: str, seed: int, profile: str, scenario: str,
                 overrides: list[str], output: str, timeout: float = 600.0):  # fmt: skip
        super().__init__(recipe, method, seed, profile, scenario, overrides)
        self.output, self.timeout = output, timeout

    @collab.main
    def train(self) -> None:
        """Play all rounds and write history, bytes on the wire and seconds to `output`."""
        scenario, method, settings, code = self._parts()
        proxies = dict(zip((c.id for c in scenario.clients),
                           sorted(collab.clients, key=_number), strict=True))  # fmt: skip
        wire = {"sent": 0, "received": 0, "calls": 0, "seconds": 0.0}

        def calls(id: str, name: str, *arguments):
            began, message = time.perf_counter(), written([id, name, list(arguments)])
            try:
                patience = START if name == "ready" else self.timeout
                answer = proxies[id](timeout=patience).call(message)
            except CollabCallError as error:
                raise TrainingError(f"client {id} does not answer: {error.cause}", where=name,
                                    do="see its log, or leave it out") from None  # fmt: skip
            wire["sent"] += len(message)
            wire["received"] += len(answer)
            wire["calls"] += 1
            wire["seconds"] += time.perf_counter() - began
            found = read(answer)
            if "wrong" in found:
                raise TrainingError(**found["wrong"])
            return found["value"]

        for id in proxies:
            there = calls(id, "ready", "", "")
            for what, ours in (("code", code), ("data", scenario.fingerprint)):
                if there[what] != ours:
                    raise TrainingError(
                        f"client {id} has other {what} ({there[what]}, here {ours})",
                        where="before round 1", do="bring both to the same version",
                    )  # fmt: skip
        fed = RemoteFederation(scenario, method, settings, calls=calls, seed=self.seed)
        history = rounds.run(fed)
        save_json(Path(self.output), {"history": history, "wire": wire,
                                      "settings": asdict(settings)})  # fmt: skip


def _number(proxy) -> int:
    return int(proxy.name.rpartition("-")[2])
