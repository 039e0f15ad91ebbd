"""The workflow files for hosted machines: what they call is here, and what linters say of them."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.noxfile import PYTHONS

from fedtutor.engine.files import ROOT

FOLDER = ROOT / ".github" / "workflows"
TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.yml"))}
WORKFLOWS = {name: yaml.safe_load(text) for name, text in TEXTS.items()}
STEPS = [step for flow in WORKFLOWS.values() for job in flow["jobs"].values()
         for step in job["steps"]]  # fmt: skip
CALLS = [shlex.split(step["run"]) for step in STEPS if "run" in step]
LINTERS = {
    "actionlint": ["-no-color"],
    "zizmor": ["--offline", "--no-progress", "--quiet"],
    "check-jsonschema": ["--builtin-schema", "vendor.github-workflows"],
}


@pytest.mark.parametrize("name", LINTERS)
def test_a_linter_has_nothing_to_say(name):
    beside = f"{Path(sys.executable).parent}:{Path(sys.prefix) / 'bin'}"
    tool = shutil.which(name, path=beside) or shutil.which(name)
    if not tool:
        pytest.skip(f"{name} is not installed")
    done = subprocess.run([tool, *LINTERS[name], *sorted(FOLDER.glob("*.yml"))],
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["tests", "pages"])
def test_a_file_says_in_its_first_line_that_it_has_not_run(name):
    assert TEXTS[name].startswith("# Not run on GitHub's machines yet")
    assert TEXTS.keys() == {"tests", "pages"}


def test_what_others_wrote_is_pinned_to_a_commit():
    used = re.findall(r"uses: (.*)", "".join(TEXTS.values()))
    assert len(used) == len([step for step in STEPS if "uses" in step]) >= 6
    assert all(re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40} # v[\d.]+", line) for line in used)
    names = [line.partition("@")[0] for line in used]
    assert len(set(used)) == len(set(names)), "one action in two versions"


def test_a_job_may_do_what_it_needs_and_no_more():
    rights = {(name, job): about["permissions"] for name, flow in WORKFLOWS.items()
              for job, about in flow["jobs"].items()}  # fmt: skip
    assert rights == {
        ("tests", "units"): {"contents": "read"},
        ("pages", "build"): {"contents": "read"},
        ("pages", "deploy"): {"pages": "write", "id-token": "write"},
    }
    assert all(flow["permissions"] == {} and flow["concurrency"] for flow in WORKFLOWS.values())
    checkouts = [step for step in STEPS if step.get("uses", "").startswith("actions/checkout@")]
    assert len(checkouts) == 2
    assert not any(step["with"]["persist-credentials"] for step in checkouts)


def test_the_pythons_are_those_of_nox():
    matrix = WORKFLOWS["tests"]["jobs"]["units"]["strategy"]["matrix"]
    assert matrix["python"] == list(PYTHONS)
    assert {system.partition("-")[0] for system in matrix["system"]} == {
        "ubuntu", "macos", "windows"
    }  # fmt: skip
    chosen = [step["with"]["python-version"] for step in STEPS
              if step.get("uses", "").startswith("actions/setup-python@")]  # fmt: skip
    assert chosen == [PYTHONS[0], "${{ matrix.python }}"]


def test_commands_are_those_of_the_pages():
    """What plays the tests stands on the page on installing without the script."""
    page = (ROOT / "notebooks" / "README.md").read_text(encoding="utf-8")
    listed = [shlex.split(line) for line in re.findall(r"^pytest .*$", page, flags=re.M)]
    played = [call[2:] for call in CALLS if call[2] == "pytest"]
    assert played == [line for line in listed if "--nbval" not in line]
    assert ["python", "-m", "docs"] in CALLS
    for call in CALLS:
        assert call[:2] == ["python", "-m"] or call[0] == "git"
        if call[2] == "pip":
            assert call[3] == "install" and call[4] in ("-r", "-e") and len(call) == 6
            assert call[4] == "-e" or (ROOT / call[5]).exists()


def test_the_pages_that_are_sent_are_those_that_are_written():
    (sent,) = [step["with"]["path"] for step in STEPS if "pages-artifact" in step.get("uses", "")]
    assert sent == "build/site"


def test_extras_and_files_of_the_cache_exist():
    extras = [call[5] for call in CALLS if call[4:5] == ["-e"]]
    assert extras == [".[workflow,engine]"]
    (files,) = [step["with"]["cache-dependency-path"].split() for step in STEPS
                if "cache-dependency-path" in step.get("with", {})]  # fmt: skip
    assert all((ROOT / name).exists() for name in files)
