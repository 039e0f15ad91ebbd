"""How long a run of the paper queue takes one core of a CPU: two rounds of it, made small.

    python tests/bench_queue.py --json data/speed/queue.json --minutes 60     # goes on where it was
    python tests/bench_queue.py --only "FedCSD I, Fashion"

A run at a paper's setting takes hours on a CPU. So every client, the public images and the tests
keep a few of their images, two rounds are played with one local epoch, and the processor time of
each part is multiplied by what was left out: a local update by the client's images and epochs, an
evaluation by the test images, a collaboration by the images that pass through networks in it.
What comes before round 1 is measured with few epochs and steps, and multiplied by them. The second
round counts, and the first where the second has no such part.

Where images are distilled, a client keeps all private images, because a step takes many of them
and training takes the virtual ones. What FedLGD does in its selected rounds, of which round 1 is
one, is measured with few steps, and multiplied by them and by the number of these rounds.
"""

import argparse
import json
import math
import time
from dataclasses import replace
from pathlib import Path

import torch

from fedtutor import Federation, rounds, run
from fedtutor.engine.files import save_json
from fedtutor.experiments import environment, manifest
from fedtutor.methods import fedlgd
from fedtutor.models.base import watchers

AT_MOST = 128  # images of a client, of the public images; an eighth of it of a test set
STEPS = 2  # of distribution matching, and of gradient matching
IN_SELECTED = {"fedlgd.local_steps": "match_distributions",
               "fedlgd.global_steps": "match_gradients"}  # fmt: skip


def some(images, count: int):
    return images[: min(len(images), count)] if images is not None else None


def small(scenario, *, whole: bool):
    """The scenario with `AT_MOST` images of each owner; `whole`: clients keep theirs."""
    clients = scenario.clients
    if not whole:
        clients = tuple(replace(c, private=some(c.private, AT_MOST)) for c in clients)
    tests = {name: some(test, AT_MOST // 8) for name, test in scenario.tests.items()}
    return replace(scenario, clients=clients, tests=tests, public=some(scenario.public, AT_MOST))


def cheaper(recipe) -> tuple:
    """(the recipe with one epoch everywhere, by what its start and its matching became shorter)."""
    was, changes, start = recipe.values(), {"rounds": 2, "eval_every": 2, "local_epochs": 1}, {}
    matching = {key: was[key] / STEPS for key in IN_SELECTED if was.get(key, 0) > STEPS}
    changes |= dict.fromkeys(matching, STEPS)
    if was.get("client_epochs"):
        changes["client_epochs"] = [1] * len(was["client_epochs"])
    if was["public_epochs"] > 1:
        changes["public_epochs"] = 1
    for key in (k for k in was if k.endswith(".pretrain_epochs")):
        if was[key] > 1:
            start[key] = was[key]
            changes[key] = 1
    if was["virtual_ipc"] and was["virtual_steps"] > STEPS:
        start["virtual_steps"], changes["virtual_steps"] = was["virtual_steps"] / STEPS, STEPS
    return recipe.change(changes), start, matching


class Clock:
    """Processor seconds of each part of a round, as it would be with all images.

    The time of a part inside another counts once, as the inner one.
    """

    def __init__(self):
        self.rounds: list[dict] = [{}]
        self.inside = 0.0

    def over(self, part: str, function, factor):
        """The function, timed; its time counts `factor(arguments, images passed)` times."""

        def timed(*args, **kwargs):
            passed, began, outside = [0], time.process_time(), self.inside
            self.inside = 0.0

            def watch(_, x):
                passed[0] += len(x)

            watchers.append(watch)
            try:
                return function(*args, **kwargs)
            finally:
                watchers.remove(watch)
                whole = time.process_time() - began
                spent = (whole - self.inside) * factor(args, passed[0])
                self.inside = outside + whole
                self.rounds[-1][part] = self.rounds[-1].get(part, 0) + spent

        return timed


def measure(one: manifest.Run) -> dict:
    """Minutes of a core for `one`, and of which parts."""
    recipe, start, matching = cheaper(one.recipe)
    full, settings, clock = one.recipe.build(), recipe.settings, Clock()
    scenario = small(full, whole=bool(settings.virtual_ipc))
    fed = Federation(scenario, recipe.make(one.method), settings, seed=one.seed)
    images = {c.id: len(c.private) for c in full.clients}
    held = {c.id: len(c.private) for c in scenario.clients}
    epochs = one.recipe.settings.client_epochs or [one.recipe.settings.local_epochs] * len(images)
    epochs = dict(zip(images, epochs, strict=True))
    private = sum(images.values()) / sum(held.values())
    public = len(full.public) / len(scenario.public) if full.public is not None else private
    if full.public is not None and settings.public_epochs != one.recipe.settings.public_epochs:
        public *= one.recipe.settings.public_epochs / settings.public_epochs
    tests = sum(map(len, full.tests.values())) / sum(map(len, scenario.tests.values()))

    def local(args, _):
        client = args[1]
        virtual = settings.virtual_ipc and len(client.data) != held[client.id]
        return epochs[client.id] * (1 if virtual else images[client.id] / held[client.id])

    def exchange(_, passed):
        return public if passed and scenario.public is not None else private if passed else 1

    plain, began = rounds.local_update, time.process_time()
    rounds.local_update = clock.over("local", plain, local)
    method = fed.method
    method.collaborate = clock.over("collaborate", method.collaborate, exchange)
    method.aggregate = clock.over("aggregate", method.aggregate, exchange)
    fed.evaluate = clock.over("evaluate", fed.evaluate, lambda *_: tests)
    times = max(start.values(), default=1)
    images_too = private if any(key.endswith("pretrain_epochs") for key in start) else 1
    fed.begin = clock.over("begin", fed.begin, lambda *_: times * images_too)
    kept = {name: getattr(fedlgd, name) for name in IN_SELECTED.values()}
    for key, name in IN_SELECTED.items():
        steps = matching.get(key, 1)
        setattr(fedlgd, name, clock.over(name, kept[name], lambda *_, steps=steps: steps))

    def numbers(all_rounds):
        for number in all_rounds:
            clock.rounds.append({})
            yield number

    try:
        run(fed, progress=numbers)
    finally:
        rounds.local_update = plain
        for name, function in kept.items():
            setattr(fedlgd, name, function)
    before, first, last = clock.rounds
    full_rounds = one.recipe.settings.rounds
    evaluations = math.ceil(full_rounds / one.recipe.settings.eval_every)
    parts = {key: last.get(key, first.get(key, 0)) * full_rounds for key in {*first, *last}}
    for name in {*IN_SELECTED.values()} & {*parts}:
        parts[name] = first[name] * one.recipe.values()["fedlgd.selected"]
    parts["evaluate"] = last.get("evaluate", 0) * evaluations + before.get("evaluate", 0)
    parts["begin"] = before.get("begin", 0)
    return {"minutes": round(sum(parts.values()) / 60, 2),
            "parts": {key: round(value / 60, 3) for key, value in sorted(parts.items())},
            "took": round(time.process_time() - began, 1)}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="runs with TEXT in their name")
    parser.add_argument("--minutes", type=float, default=math.inf, help="start none later")
    parser.add_argument("--json", type=Path, help="write what was measured there")
    options = parser.parse_args()
    torch.set_num_threads(1)
    end = time.monotonic() + 60 * options.minutes
    found = {"runs": {}}
    if options.json and options.json.exists():
        found = json.loads(options.json.read_text(encoding="utf-8"))
    for one in manifest.load():
        name = one.cell.as_posix()
        known = name in found["runs"] or one.seed or options.only not in one.name
        if known or manifest.absent(one) or time.monotonic() > end:
            continue
        found["runs"][name] = {"processor": environment.processor(), **measure(one)}
        print(f"{one.name}: {found['runs'][name]}", flush=True)
        if options.json:
            save_json(options.json, found)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
