"""The container file names what is here, and its installation is played with dummy programs.

It cannot be built where there is no container engine; so this reads it.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.noxfile import PYTHONS

from fedtutor.engine.files import ROOT

TEXT = (ROOT / "Containerfile").read_text(encoding="utf-8")
LINES = re.sub(r"\\\n", "", re.sub(r"^#.*\n", "", TEXT, flags=re.M)).splitlines()
STEPS = [tuple(line.split(maxsplit=1)) for line in LINES if line]
IGNORED = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
JOBS = re.search(r"^(notebooks \| .*)\) shift", (ROOT / "run").read_text(), flags=re.M)
PYTHON = """#!/bin/sh
case "$*" in
-c*) exit 0 ;;
"-m venv .venv") mkdir -p .venv/bin; cp "$0" .venv/bin/python; cp "$0" .venv/bin/jupyter; exit ;;
esac
echo "$*" >> calls
"""


def steps(kind: str) -> list[str]:
    return [about for name, about in STEPS if name == kind]


def copied(about: str) -> list[str]:
    """What a COPY takes, without its options and its target."""
    return [word for word in about.split() if not word.startswith("--")][:-1]


def test_hadolint_has_nothing_to_say():
    tool = shutil.which("hadolint", path=Path(sys.prefix) / "bin") or shutil.which("hadolint")
    if not tool:
        pytest.skip("hadolint is not installed")
    done = subprocess.run([tool, ROOT / "Containerfile"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_python_is_that_of_the_lock_files():
    assert steps("ARG") == [f"PYTHON={PYTHONS[0]}", "BUILDS=cpu"]
    assert re.search(r"/python:\$\{PYTHON\}-slim", steps("FROM")[0]) and len(steps("FROM")) == 1
    lock = (ROOT / "requirements-lock-linux-cpu.txt").read_text(encoding="utf-8")
    assert f"Python {PYTHONS[0]}" in lock.partition("\n")[0]


def test_what_is_copied_is_here_and_belongs_to_the_user_who_is_not_root():
    (user,) = steps("USER")
    assert re.fullmatch(r"([1-9]\d*):\1", user) and f"--uid {user.split(':')[0]} " in TEXT
    for about in steps("COPY"):
        assert about.startswith(f"--chown={user} ")
        assert all((ROOT / name).exists() for name in copied(about))
    order = [name for name, _ in STEPS]
    assert order.index("USER") < order.index("COPY")


def test_it_starts_a_job_of_run():
    entry, command = ([word.strip('"') for word in re.findall(r'"[^"]*"', steps(kind)[0])]
                      for kind in ("ENTRYPOINT", "CMD"))  # fmt: skip
    assert entry == ["./run"] and os.access(ROOT / "run", os.X_OK)
    assert command[0] in JOBS[1].split(" | ")


def test_the_commands_of_the_page():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    build, lab, job = re.findall(r"^docker (.*?)  ", page, flags=re.M)
    tag, name, folder = re.fullmatch(r"build -t (\S+) -f (\S+) (\S+)", build).groups()
    assert (ROOT / folder / name).read_text(encoding="utf-8") == TEXT
    assert lab.endswith(f":{steps('EXPOSE')[0]} {tag}")
    assert job.partition(f" {tag} ")[2].split()[0] in JOBS[1].split(" | ")
    assert "has not been built yet" in page and "--build-arg BUILDS=cuda" in page


def test_what_git_ignores_stays_out():
    listed = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    assert ".git" in IGNORED
    assert {name.rstrip("/") for name in listed} <= {name.removeprefix("**/") for name in IGNORED}


@pytest.mark.skipif(os.name != "posix", reason="no shell on this system")
@pytest.mark.parametrize("builds, tried", [("cpu", [True, False]), ("cuda", [False])])
def test_the_installation_takes_the_builds_that_were_asked_for(tmp_path, builds, tried):
    """The instruction as it stands there, among the files that were copied before it."""
    place = tmp_path / "fedtutor"
    for about in steps("COPY")[:-1]:
        for name in copied(about):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, place / name)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in {"python3": PYTHON, "uname": "#!/bin/sh\necho Linux\n"}.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o700)
    wanted = ("sh", "dirname", "sed", "cat", "cksum", "cut", "rm", "mkdir", "cp", "touch", "ln")
    for name in wanted:  # and no driver, even if this machine has one
        (tools / name).symlink_to(shutil.which(name))
    command = steps("RUN")[1].replace("/tmp/driver", shlex.quote(str(tmp_path / "driver")))
    done = subprocess.run(["sh", "-c", command], cwd=place, capture_output=True, text=True,
                          env={"PATH": str(tools), "BUILDS": builds}, timeout=60)  # fmt: skip
    assert done.returncode == 0, done.stderr
    calls = (place / "calls").read_text().splitlines()
    assert ["whl/cpu" in call for call in calls if " install " in call] == tried
    assert calls[-1].endswith("--version") and not (tmp_path / "driver").exists()
