"""Results without a run, and a git of their own."""

import os
import subprocess
from types import SimpleNamespace

from fedtutor.experiments import recipes
from fedtutor.experiments.environment import environment
from fedtutor.experiments.run import result

SCENARIO = SimpleNamespace(
    name="digits-mini", title="a stand-in", stand_in=True, fingerprint="0123456789ab"
)


def recipe(**more):
    return recipes.load("start", profile="quick", **more)


def history(*rounds, tests=("mnist", "usps")):
    """A history of two clients; each round is a 2 x 2 accuracy matrix."""
    before = [[0.1] * len(tests)] * 2
    entries = [{"round": 0, "moment": "end", "epoch": None, "matrix": before}]
    for number, matrix in enumerate(rounds, start=1):
        inside = {"round": number, "moment": "after_local", "epoch": None,
                  "matrix": [[1.0] * len(tests), None]}  # fmt: skip
        entries += [inside, {**inside, "moment": "end", "matrix": matrix}]
    return {
        "clients": ["a", "b"], "domains": [tests[0], tests[-1]], "tests": list(tests),
        "accuracy": entries,
        "loss": [{"round": n, "values": [0.5, None]} for n in range(1, len(rounds) + 1)],
        "bytes": [
            {"round": 1, "direction": "up", "name": "weights", "bytes": 100, "messages": 2},
            {"round": 1, "direction": "down", "name": "weights", "bytes": 300, "messages": 2},
            {"round": 2, "direction": "up", "name": "weights", "bytes": 50, "messages": 1},
        ],
        "seconds": [0.5, 0.25],
    }  # fmt: skip


ROUNDS = ([[0.9, 0.2], [0.3, 0.8]], [[0.7, 0.4], [0.5, 0.9]])


def made(method="fedavg", *, seed=0, rounds=ROUNDS, given=None, **more):
    asked = given or recipe()
    return result(asked, method, seed=seed, scenario=SCENARIO, history=history(*rounds, **more),
                  about=environment())  # fmt: skip


def git(folder, *words):
    own = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a",
           "GIT_COMMITTER_EMAIL": "a@b", "GIT_CONFIG_GLOBAL": os.devnull}  # fmt: skip
    subprocess.run(["git", "-C", folder, *words], check=True, env={**os.environ, **own},
                   capture_output=True)  # fmt: skip
