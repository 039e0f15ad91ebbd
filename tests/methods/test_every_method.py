"""What every method of the table promises, and that a new one is one file and one row.

The page `fedtutor/methods/README.md` says how to add a method; the last test does as it says.
"""

import math
import re
import shutil
import subprocess
import sys
import textwrap
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from support.every import LGD, NAMES, crowded, every_method, ready, same, small
from support.federations import assert_same_bits, tiny_scenario, weights_of
from support.runs import NoGlobalRandomness, sized
from torch.utils._python_dispatch import TorchDispatchMode

from fedtutor import rounds
from fedtutor.distillation import virtual_images
from fedtutor.engine.files import ROOT
from fedtutor.methods import METHODS, make
from fedtutor.methods.base import HOOKS
from fedtutor.methods.fedavg import FedAvg
from fedtutor.processes.noted import living
from fedtutor.rounds import run

FOLDER = ROOT / "fedtutor" / "methods"

LARGE = sized(tiny_scenario(clients=4), 32)  # tensors of so many numbers that PyTorch splits them
UNEQUAL = {  # they let every client have a network of its own
    "ewc",
    "fccl",
    "fccl+",
    "feddf",
    "fedmatch",
    "fedmd",
    "fml",
    "kd",
    "rcfl",
    "rhfl",
}
NOISY = {"models": ["noisy"], "observe": ["local_epoch", "after_local"]}
ADAM = {"optimizer": "adam", "lr": 0.01, "keep_optimizer": True}
VIRTUAL = {
    "models": ["noisy"],
    "rounds": 4,
    "virtual_steps": 3,
    "virtual_batch": 2,
    "virtual_augment": "siamese",
}
OPTIONS = [
    (
        "repshare",
        {
            "reading": "code",
            "first": "networks",
            "draw": "client",
            "m_up": 2,
            "m_down": 3,
            "n_avg": 2,
            "exclude_self": False,
        },
    ),
    ("repshare", {"topology": "peer", "m_down": 2, "reading": "code"}),
    ("repshare", {"clip": 1.0, "noise": 0.5, "levels": [1.0, 0.25], "reading": "code"}),
    ("fd", {"loss": "mse", "exclude_self": False, "weighting": "samples", "lambda_": 10.0}),
    ("fccl+", {"teacher": "current", "kd_share": 0.3, "teacher_mode": "train"}),
    ("fccl+", {"fntd": "none", "teachers": "both", "pretrain_epochs": 1}),
    ("fccl+", {"fntd": "fedntd", "average": True}),
    (
        "fedlgd",
        {
            **LGD,
            "reading": "code",
            "selected_data": "both",
            "distance": "code",
            "global_init": "statistics",
            "refine_first": False,
            "weighting": "uniform",
        },
    ),
    ("fedlgd", {**LGD, "target": "gradient"}),
    ("fedlgd", {**LGD, "regularizer": "mmd"}),
    ("fccl", {"pretrain_epochs": 2}),
    ("fedmatch", {"threshold": 0.4}),
    ("fedbn", {"evaluate": "client", "start_from": "client"}),
    ("fedrep", {"evaluate": "client", "head_share": 0.3}),
]


def noise(name: str, *, average: bool = False) -> dict:
    """Batch norm, dropout and a memory of the optimizer, in unequal networks where they may be."""
    if name == "fedlgd":
        return VIRTUAL
    if name in ("fednova", "scaffold"):  # they count steps of SGD
        return NOISY
    if name in ("repshare", "fd"):  # not even the first weights are equal
        return {**NOISY, **ADAM, "common_init": False}
    unequal = name in UNEQUAL and not average
    models = {"models": ["linear", "noisy", "linear", "noisy"]} if unequal else {}
    return {**NOISY, **ADAM, **models}


CASES = [
    *(pytest.param(name, {}, {}, id=name) for name in NAMES),
    *(pytest.param(name, {}, noise(name), id=f"{name}-noise") for name in NAMES),
    *(
        pytest.param(name, given, noise(name, average="average" in given), id=f"{name}-options{i}")
        for i, (name, given) in enumerate(OPTIONS)
    ),
    pytest.param("fml", {"meme": make("fml").meme}, {"scenario": LARGE}, id="fml-large"),
]


@pytest.mark.parametrize("name, given, changes", CASES)
def test_same_bits_for_any_number_of_threads_and_any_global_seed(name, given, changes, two_threads):
    feds = []
    for threads, guard in ((1, NoGlobalRandomness()), (2, nullcontext()), (3, nullcontext())):
        torch.manual_seed(threads)
        feds.append(crowded(name, threads, small(name, **given), **changes))
        with guard:
            run(feds[-1])
    for other in feds[1:]:
        same(feds[0], other)
        if feds[0].settings.virtual_ipc:
            assert_same_bits(pixels_of(feds[0]), pixels_of(other))
    assert all(bool(w.isfinite().all()) for w in weights_of(feds[0]).values())
    losses = [v for row in feds[0].history["loss"] for v in row["values"] if v is not None]
    assert losses and all(math.isfinite(v) for v in losses)


def pixels_of(fed) -> dict[str, torch.Tensor]:
    """All virtual images, the server's included."""
    found = {name: virtual.x for name, virtual in virtual_images(fed).items()}
    assert "server" in found and len(found) == len(fed.clients) + 1
    return found


@every_method
def test_a_stopped_run_goes_on_with_the_same_bits(name, tmp_path):
    whole = ready(name)
    run(whole)
    run(ready(name), checkpoint=tmp_path, every=0, progress=lambda numbers: list(numbers)[:1])
    resumed = ready(name)
    history = run(resumed, checkpoint=tmp_path)
    assert_same_bits(weights_of(whole), weights_of(resumed))
    assert history["bytes"] == whole.history["bytes"]
    assert bool(history["bytes"]) == (name != "solo")


@every_method
def test_file_and_class_say_what_they_are(name):
    cls = METHODS[name]
    module = sys.modules[cls.__module__]
    assert Path(module.__file__).parent == FOLDER
    assert len(module.__doc__.split()) > 5
    assert cls.__doc__ and not cls.__doc__.startswith(f"{cls.__name__}(")


# --- what is silently wrong


@every_method
def test_what_a_client_keeps_does_not_change_with_its_networks(name):
    """A copy of weights that is none makes a distance to them zero, and nothing else tells."""
    fed = ready(name)
    run(fed)
    assert living(fed) == []


# --- nothing inside a local epoch waits for a GPU


class NoWaiting(TorchDispatchMode):
    """Notes the operations for which the host would wait until a GPU is done."""

    WAIT = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "equal.default", "item")

    def __init__(self):
        super().__init__()
        self.found = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = str(function)
        masks = "index" in name and any(
            isinstance(i, torch.Tensor) and i.dtype == torch.bool
            for i in (args[1] if len(args) > 1 and isinstance(args[1], (list, tuple)) else ())
        )
        if masks or any(word in name for word in self.WAIT):
            self.found.add(f"{name}{' by a mask' if masks else ''}")
        return function(*args, **(kwargs or {}))


def test_the_guard_itself_sees_what_waits():
    x = torch.arange(3.0)
    for look in (lambda: float(x[0]), lambda: x[x > 1], lambda: x.nonzero(), lambda: bool(x[1])):
        with NoWaiting() as guard:
            look()
        assert guard.found
    with NoWaiting() as guard:
        (x * 2).sum()[None].where(x > 1, x)
    assert not guard.found


@every_method
def test_no_step_of_a_local_epoch_waits_for_a_gpu(name, monkeypatch):
    """Loss, gradients, optimizer, what follows a step; the loss is read once per epoch."""
    fed = crowded(name, participation=1.0)
    usual, guard = rounds.loaded, NoWaiting()

    def watched(*args):
        for pair in usual(*args):
            with guard:  # until the next batch is asked for
                yield pair

    monkeypatch.setattr(rounds, "loaded", watched)
    run(fed)
    assert not guard.found


# --- the page


def test_the_page_names_every_hook():
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [hook for hook in HOOKS if f"`{hook}(" not in page] == []


def test_the_memory_of_the_page_is_kept_and_the_first_look_runs(own_tables, capsys):
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    smooth, compared, _, memory, look = re.findall(r"```python\n(.*?)```", page, flags=re.S)
    own = "class Own(FedAvg):\n" + textwrap.indent(memory, "    ")
    names = {"FedAvg": FedAvg, "torch": torch}
    exec(own, names)  # with zero-argument super, which needs the class around it
    fed = ready("fedavg", method=names["Own"]())
    run(fed)
    assert all(set(client.state) == {"h", "w"} for client in fed.clients)
    exec(smooth + compared + look, {"__name__": "a notebook"})
    said = capsys.readouterr().out
    assert len(re.findall("\nsmooth [01] ", said)) == 2
    assert "\nkept " in said and "BROKEN" not in said


@pytest.mark.slow
def test_a_method_is_added_by_what_the_page_says(tmp_path):
    """One file and one row, in a copy: the tests above pass for it there, and none did before."""
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    name = Path(re.search(r"`fedtutor/methods/(\w+\.py)`", page)[1]).stem
    _, _, file, *_ = re.findall(r"```python\n(.*?)```", page, flags=re.S)
    (commands,) = re.findall(r"```sh\n(.*?)\n```", page, flags=re.S)
    command, apart = commands.splitlines()
    assert name not in METHODS
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "fedtutor", tmp_path / "fedtutor", ignore=skip)
    (tmp_path / "data").symlink_to(ROOT / "data")
    shutil.copy(ROOT / "pyproject.toml", tmp_path / "pyproject.toml")
    for part in ("support", "experiments"):
        shutil.copytree(ROOT / "tests" / part, tmp_path / "tests" / part, ignore=skip)
    for file_of in ("conftest.py", "methods/test_every_method.py", "processes/test_same_bits.py"):
        (tmp_path / "tests" / file_of).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / "tests" / file_of, tmp_path / "tests" / file_of)
    copy = tmp_path / "fedtutor" / "methods"
    (copy / f"{name}.py").write_text(file, encoding="utf-8")
    table = (copy / "__init__.py").read_text(encoding="utf-8")
    before = "    logit_distillation,\n"
    assert before in table
    table = table.replace(before, f"    {name},\n" + before)
    (copy / "__init__.py").write_text(table, encoding="utf-8")
    quiet = ["-p", "no:cacheprovider"]
    environ = {**environment(), "PYTHONPATH": str(tmp_path)}
    for words, said in (
        ([*command.split(), *quiet], "6 passed"),
        ([*apart.split(), *quiet], "3 passed"),
        (["pytest", "tests/experiments/test_arenas.py", "-k", "arena or enter", *quiet], "passed"),
        (["ruff", "check", "fedtutor", "tests"], "All checks passed"),
        (["ruff", "format", "--check", "fedtutor", "tests"], "already formatted"),
    ):
        words = [sys.executable, "-m", *words]
        done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, env=environ)
        assert done.returncode == 0 and said in done.stdout, done.stdout[-3000:] + done.stderr


def environment() -> dict:
    import os

    return {**os.environ, "OMP_NUM_THREADS": "1"}
