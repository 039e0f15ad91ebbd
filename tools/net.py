"""The net under a change of the code: the same weights, bytes and histories before and after.

    python -m tools.net                  play everything and write tests/net/
    python -m tools.net --only fedcsd    only what is about one method, network, scenario or table
    python -m tools.net --check          compare instead of writing; both may be given

Played on a few bundled images, for two or three rounds, are every method; each of its options with
every other word or another number; what recipes set; and settings. `tests/net/plan.toml` says with
what, and how far counts that cost time are scaled down. `tests/project/test_net.py` compares.
All is played with AVX2, which most processors have, in a process of its own: with AVX-512 last
digits are others, and a few steps of Adam make 14 % of a loss of them.
"""

import argparse
import hashlib
import json
import os
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Literal, get_args, get_origin
from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F

from fedtutor import experiments, methods, models, papers, scenarios
from fedtutor.engine.checkpoints import holders
from fedtutor.engine.files import ROOT, load_json, write_atomically
from fedtutor.engine.kinds import is_ours, kinds_of
from fedtutor.errors import FedtutorError
from fedtutor.experiments import recipes
from fedtutor.federation import Federation
from fedtutor.images import Images
from fedtutor.models.base import OURS
from fedtutor.rounds import run
from fedtutor.settings import FIELDS, Settings

FOLDER = ROOT / "tests" / "net"
NET = FOLDER / "net.json"
PLAN = tomllib.loads((FOLDER / "plan.toml").read_text(encoding="utf-8"))
AVX2 = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
}
TABLES = {"claims.csv": papers.claims, "runs.csv": experiments.runs}


@cache
def few() -> scenarios.Scenario:
    """digits-mini, with few and small images; nobody has class 9, client k lacks k and k + 1."""
    whole = scenarios.build("digits-mini", private_size=60)

    def smaller(images: Images, rows) -> Images:
        return Images(images.x[rows][:, :, ::2, ::2].contiguous(), images.y[rows], images.source)

    held = []
    for k, client in enumerate(whole.clients):
        y = client.private.y
        known = (((y - k) % 10 > 1) & (y != 9)).nonzero()[:, 0]
        held.append(replace(client, private=smaller(client.private, known[: 12 + 4 * k])))
    tests = {name: smaller(images, slice(20)) for name, images in whole.tests.items()}
    return replace(whole, clients=held, tests=tests, public=smaller(whole.public, slice(24)))


# --- what is played


def wanted() -> dict[str, list]:
    """Name of an entry -> its kind, of `PLAYERS`; whom it is about; what is changed there."""
    ours = [name for name in methods.METHODS if is_ours(methods.METHODS[name])]
    pairs = [(name, {}) for name in ours]
    pairs += [(name, change) for name in ours for change in (PLAN["noisy"], *by_itself(name))]
    pairs += [("", {key: word}) for key, known in words(Settings).items() for word in known]
    pairs += [("", {key: v}) for key, values in PLAN["settings"].items() for v in values]
    pairs += [(name, change) for name, changes in PLAN["together"].items() for change in changes]
    asked, seen = [["processor", "digits", {}], *(["network", name, {}] for name in OURS)], []
    asked += [["scenario", name, c] for name, changes in PLAN["scenarios"].items() for c in changes]
    for name, change in [*pairs, *in_recipes()]:
        method = name or PLAN["players"].get(next(iter(change)), "fedavg")
        change = scaled(method, change)
        if (whole := [method, given(method, change)]) not in seen and change not in PLAN[
            "left_out"
        ]:
            seen.append(whole)
            asked.append(["method", method, change])
    return {
        " ".join([kind, whom, *(f"{key}={json.dumps(change[key])}" for key in sorted(change))]): how
        for how in asked
        for kind, whom, change in [how]
    }


def by_itself(method: str) -> Iterator[dict]:
    """Each option of a method with every other word that it can be, or with another number."""
    known = words(methods.METHODS[method])
    for key, default in methods.parameters(method).items():
        value = PLAN["plain"].get(method, {}).get(key, default)
        if isinstance(value, bool):
            yield {key: not value}
        elif isinstance(value, int):
            yield {key: 1 if value > 1 else value + 1}
        elif isinstance(value, float):
            yield {key: PLAN["numbers"].get(f"{method}.{key}", value / 2 or 0.5)}
        yield from ({key: word} for word in known.get(key, ()))


def words(made: type) -> dict[str, tuple]:
    """Settings or parameters that are one of a few words -> these words."""
    kinds = kinds_of(made).items()
    return {key: get_args(kind) for key, kind in kinds if get_origin(kind) is Literal}


def in_recipes() -> Iterator[tuple[str, dict]]:
    """Method ("" for a setting) and what any part of a recipe sets, in either profile."""
    for path in sorted((ROOT / "data" / "recipes").glob("*.toml")):
        whole = tomllib.loads(path.read_text(encoding="utf-8"))
        for part in (whole, *whole.get("at", {}).values(), *whole.get("conditions", {}).values()):
            for method, table in {"": part.get("settings", {}), **part.get("methods", {})}.items():
                for key, entry in table.items():
                    if method and key == recipes.RATE:
                        continue  # a learning rate is no part of the method
                    values = [entry[profile] for profile in ("quick", "paper") if profile in entry]
                    yield from ((method, {key: value}) for value in values)


def scaled(method: str, change: dict) -> dict:
    """The change with what it needs beside it; counts that cost time are as large as is played."""
    for key in list(change):
        change = PLAN["partners"].get(f"{method}.{key}", {}) | change
    for key in PLAN["most"].keys() & change.keys():
        value, most = change[key], PLAN["most"][key]
        smaller = [min(v, most) for v in value] if isinstance(value, list) else min(value, most)
        change = change | {key: smaller}
    return change


def given(method: str, change: dict) -> dict:
    """All options and settings that a method is played with."""
    unequal = method in PLAN["unequal"] and not change.get("average")
    plain = PLAN["plain"].get(method, {}) | (PLAN["unequal_networks"] if unequal else {})
    return asdict(Settings()) | PLAN["base"] | methods.parameters(method) | plain | change


# --- what comes of it


def played(method: str, change: dict) -> dict:
    """Networks and history; a method without change in three ways, which must be the same."""
    networks, history = one_way(method, change)
    found = summed(networks) | history
    if not change:
        # what is made anew before it is used is in no checkpoint
        lasting = [k for k in networks if k.split()[1] not in methods.METHODS[method].remade]
        found["three ways are the same"] = all(
            other == history and all(bits(theirs[k]) == bits(networks[k]) for k in lasting)
            for way in ({"threads": 2}, {"stopped": True})
            for theirs, other in [one_way(method, change, **way)]
        )
    return found


def one_way(method: str, change: dict, *, threads: int = 1, stopped: bool = False) -> tuple:
    """Networks by owner and role, and the history; `stopped`: in round 1, and then resumed."""
    options = given(method, change)
    settings = Settings(**{key: options.pop(key) for key in FIELDS})

    def new() -> Federation:
        made = methods.make(method, **options)
        return Federation(few(), made, settings, seed=3, threads=threads)

    fed = new()
    with tempfile.TemporaryDirectory() as folder:
        if stopped:
            run(new(), checkpoint=folder, every=0, progress=lambda rounds: rounds[:1])
        run(fed, checkpoint=folder if stopped else None)
    networks = {
        f"{owner} {role}": network.state_dict()
        for owner, holder in holders(fed).items()
        for role, network in holder.models.items()
    }
    told = {part: fed.history[part] for part in ("accuracy", "loss", "bytes")}
    return networks, {part: [list(row.values()) for row in told[part]] for part in told}


def trained(network: str, change: dict) -> dict:
    """Its first weights, and the gradient of one small batch."""
    own = torch.Generator().manual_seed(5)
    size = max(models.MODELS[network].smallest, 16)
    model = models.build(network, num_classes=10, image_size=size, generator=own)
    found = {"start": bits(model.state_dict()), "loss": backward(model, 4, size, own)}
    slopes = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return found | summed({"gradient": slopes, "weights": model.state_dict()})


def dealt(scenario: str, options: dict) -> dict:
    """The fingerprint of a scenario, and the images in each hand."""
    built = scenarios.build(scenario, **options)
    parts = {f"client {client.id}": client.private for client in built.clients}
    parts |= {f"test {name}": images for name, images in built.tests.items()}
    parts |= {"public": built.public} if built.public else {}
    images = {name: bits({"x": part.x, "y": part.y}) for name, part in parts.items()}
    return {"fingerprint": built.fingerprint, "images": images}


def processor(*_) -> dict:
    """Which last digits are computed here: single operations, and networks after some steps."""
    own = torch.Generator().manual_seed(1)
    a = torch.randint(-99, 99, (60, 60), generator=own) / 50
    b, kernel = a.abs() + 0.1, a[:10, :27].reshape(10, 3, 3, 3)
    found = [a @ a, a[:7] @ a.T, F.conv2d(a.reshape(1, 3, 30, 40), kernel, padding=1), a.sum(0)]
    found += [a.mean(1), a.std(0), a.norm(dim=1), torch.cdist(a, a), torch.linalg.svdvals(a)]
    found += [a.exp(), b.log(), b.sqrt(), 1 / b, a.tanh(), a.sigmoid(), F.gelu(a), a.softmax(1)]
    found += [a.log_softmax(1), F.normalize(a), F.cosine_similarity(a, a.T), b**0.7]
    for name in ("small_cnn", "small_resnet", "small_mixer", "small_mobile", "convnet"):
        model = models.build(name, num_classes=10, image_size=16, generator=own)
        optimizer = torch.optim.Adam(model.parameters())
        for count in (8, 5, 3):
            optimizer.zero_grad()
            backward(model, count, 16, own)
            optimizer.step()
        found += model.state_dict().values()
    return {"bits": bits(dict(enumerate(found))), "torch": torch.__version__.partition("+")[0]}


PLAYERS = {"method": played, "network": trained, "scenario": dealt, "processor": processor}


def again(how: list) -> dict:
    """An entry as a file has it, played now; or the error of ours that refuses it."""
    try:
        found = PLAYERS[how[0]](*how[1:])
    except FedtutorError as error:
        found = {"refused": type(error).__name__}
    return json.loads(json.dumps({"how": how} | found, sort_keys=True))


@contextmanager
def player() -> Iterator[Callable]:
    """`again`, in a process with AVX2 and one thread; instructions that are set already stay."""
    one = {"initializer": torch.set_num_threads, "initargs": (1,)}
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), **one) as pool:
        with patch.dict(os.environ, AVX2 | dict(os.environ)):
            pool.submit(int).result()  # it starts here
        yield lambda how: pool.submit(again, how).result()


def backward(model: models.Network, count: int, size: int, own: torch.Generator) -> float:
    """The loss on a batch of random pixels, after its gradient has been computed."""
    models.use_generator(model, own)
    x = torch.randint(0, 256, (count, 3, size, size), generator=own) / 255
    loss = F.cross_entropy(model(x), torch.arange(count))
    loss.backward()
    return loss.item()


def bits(state: dict) -> str:
    """SHA-256 over the bits of tensors, in the order of their names."""
    found = hashlib.sha256()
    for name in sorted(state):
        found.update(state[name].detach().contiguous().numpy().tobytes())
    return found.hexdigest()


def summed(states: dict[str, dict]) -> dict:
    """The bits of all tensors; how many real numbers a holder has, their norm, their sum / norm."""
    named = {f"{holder} {name}": t for holder in states for name, t in states[holder].items()}
    found = {"bits": bits(named), "norms": {}, "sums": {}}
    for holder, state in states.items():
        real = [t.detach().double() for t in state.values() if t.is_floating_point()]
        norm, total = sum(t.square().sum() for t in real).sqrt(), sum(t.sum() for t in real)
        found["norms"][holder] = [sum(t.numel() for t in real), float(f"{norm:.9g}")]
        found["sums"][holder] = float(f"{total / norm:.9g}")
    return found


def table(name: str) -> str:
    """All claims, or all runs, as CSV, sorted by their names."""
    return TABLES[name]().rename_axis("name").sort_index().to_csv(lineterminator="\n")


def without_effect(net: dict[str, dict]) -> list[str]:
    """Entries of a method that came out as another one did."""
    found, seen = [], {}
    for name, entry in sorted(net.items(), key=lambda pair: len(pair[0])):
        parts = [entry.get(key) for key in ("bits", "accuracy", "loss", "bytes")]
        other = seen.setdefault(json.dumps([entry["how"][1], parts]), name)
        if other != name and "accuracy" in entry:
            found.append(f"{name} does what {other} does")
    return found


def write(only: str) -> None:
    """Play everything, or what has the word `only` in its name, and keep it, a line for a part."""
    kept = load_json(NET) if only else {}
    net = {name: entry for name, entry in kept.items() if only not in name.split()}
    asked = {n: how for n, how in wanted().items() if not only or only in n.split()}
    with player() as play:
        net |= {name: play(how) for name, how in asked.items()}
    entries = []
    for name, entry in sorted(net.items()):
        lines = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in entry.items())
        entries.append(f" {json.dumps(name)}: {{\n  " + ",\n  ".join(lines) + "\n }")
    texts = {name: table(name) for name in TABLES if only in ("", name)}
    for name, text in {**texts, NET.name: "{\n" + ",\n".join(entries) + "\n}\n"}.items():
        write_atomically(FOLDER / name, lambda path, text=text: Path(path).write_text(text))
    print(*without_effect(net), f"{len(net)} entries, {len(TABLES)} tables", sep="\n")


def main() -> int | None:
    parser = argparse.ArgumentParser(prog="python -m tools.net", description=__doc__.split(":")[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    parser.add_argument("--only", default="", help="a word of the names of entries")
    asked = parser.parse_args()
    if not asked.check:
        return write(asked.only)
    test = str(ROOT / "tests" / "project" / "test_net.py")
    return pytest.main([test, "--tb=no", "-k", asked.only])


if __name__ == "__main__":
    sys.exit(main())
