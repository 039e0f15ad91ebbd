"""What `./run` installs, by which tool, and what it falls back to: played with dummy programs."""

import os
import shutil
import subprocess
import sys

import pytest

from fedtutor.engine.files import ROOT

pytestmark = pytest.mark.skipif(os.name != "posix", reason="no shell on this system")
BEFORE = "/usr/bin:/bin"
PYTHON = """#!/bin/sh
case "$*" in
-c*) exit 0 ;;
"-m venv .venv") mkdir -p .venv/bin; cp "$0" .venv/bin/python; cp "$0" .venv/bin/ruff; exit 0 ;;
esac
echo "python $*" >> calls
case "$*" in *whl/cpu*) [ -e cpu-builds ] ;; esac
"""
UV = '#!/bin/sh\necho "uv $*" >> calls\ncase "$*" in *whl/cpu*) [ -e cpu-builds ] ;; esac\n'


@pytest.fixture
def install(tmp_path):
    """`./run JOB` in a clone; returns what was called, in order, and what was printed."""
    for name in ("run", "requirements.txt", "requirements-dev.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    tools = tmp_path / "tools"
    tools.mkdir()

    def program(name: str, text: str) -> str:
        (tools / name).write_text(text)
        (tools / name).chmod(0o700)
        return str(tools / name)

    python = program("dummy-python", PYTHON)

    def call(job: str = "notebooks", system: str = "Linux", **present: str):
        program("uname", f"#!/bin/sh\necho {system}\n")
        for name, text in present.items():
            program(name.replace("_", "-"), text)
        (tmp_path / "calls").unlink(missing_ok=True)
        surroundings = {"PATH": f"{tools}:{BEFORE}", "PYTHON": python}
        done = subprocess.run(["./run", job], cwd=tmp_path, capture_output=True, text=True,
                              env=surroundings, timeout=60)  # fmt: skip
        assert done.returncode == 0, done.stderr
        calls = (tmp_path / "calls").read_text().splitlines()
        return [line for line in calls if " install " in line], done.stdout

    call.folder = tmp_path
    return call


def test_without_a_driver_the_cpu_builds_come_first(install):
    (install.folder / "cpu-builds").touch()
    (torch, rest), said = install()
    pins = (ROOT / "requirements.txt").read_text().split()
    builds = [f"{pin}+cpu" for pin in pins if pin.startswith(("torch==", "torchvision=="))]
    assert "--index-url" in torch and "--no-deps" in torch and torch.split()[-2:] == builds
    assert rest.endswith("-r requirements.txt")
    assert "CPU builds are tried first" in said and "cannot be had" not in said


def test_where_they_cannot_be_had_the_ordinary_ones_are_installed(install):
    (_, rest), said = install()
    assert rest.endswith("-r requirements.txt") and "cannot be had here" in said


@pytest.mark.parametrize("about", [{"nvidia_smi": "#!/bin/sh\n"}, {"system": "Darwin"}])
def test_with_a_driver_or_elsewhere_nothing_else_is_tried(install, about):
    (only,), said = install(**about)
    assert only.endswith("-r requirements.txt") and "tried first" not in said


def test_uv_is_used_where_it_is(install):
    calls, _ = install(uv=UV)
    assert len(calls) == 2 and all(call.startswith("uv pip install") for call in calls)
    assert all("--python .venv/bin/python" in call for call in calls)


def test_tests_need_more_and_nothing_is_installed_twice(install):
    assert [call.split()[-1] for call in install()[0][1:]] == ["requirements.txt"]
    assert [call.split()[-1] for call in install("tests")[0]] == ["requirements-dev.txt"]
    assert install("tests")[0] == []
    assert install()[0] == []


# --- the package without its clone

OUTSIDE = """
import fedtutor
from fedtutor import Federation, Settings, methods, papers, run, scenarios
from fedtutor.__main__ import main
from fedtutor.engine.files import CLONE
from fedtutor.experiments import recipes

print(fedtutor.__file__)
assert not CLONE
changes = {"scenario.private_size": 20, "rounds": 1}
recipe = recipes.load("start", profile="quick", overrides=changes)
fed = Federation(recipe.build(), methods.make("fedavg"), Settings(rounds=1), seed=0)
assert run(fed)["accuracy"]
assert len(papers.claims()) > 200 and len(papers.published_table("FCCL+", "X-inter"))
assert main(["reproduce", "RepShare 1", "--dry-run"]) == 0
"""


@pytest.mark.slow
def test_what_pip_installs_works_without_the_clone(tmp_path):
    """`pip install .` ships the bundled images, the recipes and the papers' tables."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--no-build-isolation", "--target", tmp_path / "site"]
    subprocess.run([*pip, *options, ROOT], check=True)
    about = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "HOME": str(tmp_path)}
    about = {name: value for name, value in about.items() if not name.startswith("FEDTUTOR_")}
    done = subprocess.run(
        [sys.executable, "-c", OUTSIDE], cwd=tmp_path, env=about, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith(str(tmp_path / "site")) and "to run" in done.stdout
    assert not (tmp_path / "site" / "tools").exists() and not (tmp_path / "site" / "docs").exists()
