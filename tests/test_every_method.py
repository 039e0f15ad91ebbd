"""What every method of the table promises, and that a new one is one file and one row.

The page `fedtutor/methods/README.md` says how to add a method; the last test does as it says.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import assert_same_bits, federation, weights_of

from fedtutor.engine.files import ROOT
from fedtutor.methods import METHODS
from fedtutor.rounds import run

FOLDER = ROOT / "fedtutor" / "methods"
PARAMETERS = {  # where the defaults ask for what a tiny federation does not have
    "fccl": {"pretrain_epochs": 1},
    "fedlgd": {"local_steps": 2, "global_steps": 2, "global_ipc": 2, "every": 2},
    "fml": {"meme": "linear"},
    "repshare": {"lambda_kd": 0.1, "lambda_disc": 0.1},
}
SETTINGS = {"fedlgd": {"virtual_ipc": 2, "virtual_steps": 2}}
every_method = pytest.mark.parametrize("name", sorted(METHODS))


def ready(name, **options):
    options = {"models": ["hidden"], "rounds": 2, **SETTINGS.get(name, {}), **options}
    return federation(name, parameters=PARAMETERS.get(name), **options)


@every_method
def test_same_bits_with_two_threads_and_with_another_global_seed(name):
    weights = []
    for threads in (1, 2):
        torch.manual_seed(threads)
        fed = ready(name, threads=threads)
        run(fed)
        weights.append(weights_of(fed))
    assert_same_bits(*weights)
    assert all(bool(torch.isfinite(w).all()) for w in weights[0].values())


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


def test_a_method_is_added_by_what_the_page_says(tmp_path):
    """One file and one row, in a copy: the tests above pass for it there, and none did before."""
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    name = Path(re.search(r"`fedtutor/methods/(\w+\.py)`", page)[1]).stem
    (file,) = re.findall(r"```python\n(.*?)```", page, flags=re.S)
    (command,) = re.findall(r"```sh\n(.*?)\n```", page, flags=re.S)
    assert name not in METHODS
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "fedtutor", tmp_path / "fedtutor", ignore=skip)
    (tmp_path / "tests").mkdir()
    (tmp_path / "data").symlink_to(ROOT / "data")
    shutil.copy(ROOT / "pyproject.toml", tmp_path / "pyproject.toml")
    for test in ("conftest.py", "test_benchmark.py", Path(__file__).name):
        shutil.copy(ROOT / "tests" / test, tmp_path / "tests" / test)
    copy = tmp_path / "fedtutor" / "methods"
    (copy / f"{name}.py").write_text(file, encoding="utf-8")
    table = (copy / "__init__.py").read_text(encoding="utf-8")
    before = "    fedproc,\n"
    assert before in table
    table = table.replace(before, f"    {name},\n" + before)
    (copy / "__init__.py").write_text(table, encoding="utf-8")
    quiet = ["-p", "no:cacheprovider"]
    environ = {**environment(), "PYTHONPATH": str(tmp_path)}
    for words, said in (
        ([*command.split(), *quiet], "3 passed"),
        (["pytest", "tests/test_benchmark.py", "-k", "arena or enter", *quiet], "passed"),
        (["ruff", "check", "fedtutor", "tests"], "All checks passed"),
        (["ruff", "format", "--check", "fedtutor", "tests"], "already formatted"),
    ):
        words = [sys.executable, "-m", *words]
        done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, env=environ)
        assert done.returncode == 0 and said in done.stdout, done.stdout[-3000:] + done.stderr


def environment() -> dict:
    import os

    return {**os.environ, "OMP_NUM_THREADS": "1"}
