"""docs/compare.md is run as it stands: its Python as one script, its commands one by one."""

import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from docs.staging import PAGES
from fedtutor.engine.files import ROOT

PAGE = (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)
COMMANDS = "".join(re.findall(r"```sh\n(.*?)```", PAGE, flags=re.S)).splitlines()
EXTRAS = {"import optuna": "optuna", "torch.utils.tensorboard": "tensorboard"}  # need an install
SHORTER = {
    "rounds=10": "rounds=2",
    "range(5)": "range(2)",
    "range(100, 103)": "[100, 101]",
    "rounds=20": "rounds=2",
    "n_trials=20": "n_trials=2",
    "--rounds 10": "--rounds 2 --jobs 1",
    "--seeds 0-4": "--seeds 0-1",
}


def shorter(text: str) -> str:
    for long, short in SHORTER.items():
        text = text.replace(long, short)
    return text


@pytest.fixture
def here(tmp_path):
    """A folder with the two files of images that the page names; runs a command in it."""
    rng = np.random.default_rng(0)
    for name, ground in (("north", 0), ("south", 60)):
        labels = np.arange(60) % 3
        images = rng.integers(0, 40, (60, 32, 32), dtype=np.uint8) + np.uint8(ground)
        for image, label in zip(images, labels, strict=True):
            image[8 * label : 8 * label + 8] += 120
        np.savez(tmp_path / f"{name}.npz", images=images, labels=labels)

    def run(*words):
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        about = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(words, cwd=tmp_path, env=about, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
        assert "Warning" not in done.stderr
        return done.stdout

    run.folder = tmp_path
    return run


def has_its_library(block: str) -> bool:
    return all(find_spec(name) for words, name in EXTRAS.items() if words in block)


@pytest.mark.slow
def test_the_python_of_the_page_runs(here):
    *blocks, _ = PYTHON  # the last one is for a file
    script = here.folder / "script.py"
    script.write_text(shorter("\n".join(filter(has_its_library, blocks))))
    said = here(sys.executable, "script.py")
    assert "smooth minus fedavg, own domain: " in said
    assert "smooth minus fedavg, other domains: " in said
    assert "smooth minus fedavg, worst: " in said
    diverged = re.findall(r"NaN +NaN +NaN +0 +2$", said, re.M)
    assert len(diverged) == 3
    assert "| smooth " in said and r"\begin{tabular}" in said
    made = {path.name for path in here.folder.iterdir()}
    assert made >= {"curves.png", "table.csv", "runs"}


@pytest.mark.slow
def test_the_commands_of_the_page_run(here):
    (here.folder / "my.py").write_text(f"{PYTHON[0]}\n{PYTHON[-1]}")
    assert len(COMMANDS) == 3
    one, kept, parameter = (
        here(sys.executable, "-m", *shlex.split(shorter(words))) for words in COMMANDS
    )
    for client in ("north", "south", "mean of all clients"):
        assert re.search(rf"^{client} +\d+\.\d +\d+\.\d$", one, re.M)
    assert "MB to the clients" in one
    for method in ("scaffold", "smooth"):
        for side in ("own domain", "other domains"):
            assert f"{method} minus fedavg, {side}: " in kept
    named = re.findall(r"^written: (.*)$", kept, re.M)
    files = ["table.csv", "table.md", "curves.png", "differences.png"]
    assert named == [str(Path("runs", name)) for name in files]
    assert all((here.folder / name).stat().st_size for name in named)
    assert "smooth minus fedavg" in parameter


def test_the_comparison_has_about_ten_lines():
    assert len([line for line in PYTHON[1].splitlines() if line.strip()]) <= 10


def test_the_page_is_on_the_site_and_others_lead_to_it():
    assert any("docs/compare.md" in names for names in PAGES.values())
    for page, link in (
        ("README.md", "docs/compare.md"),
        ("fedtutor/README.md", "../docs/compare.md"),
    ):
        assert f"]({link})" in (ROOT / page).read_text(encoding="utf-8")
