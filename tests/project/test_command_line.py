"""The command line: help for everything, and a mistake is named before anything is done."""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fedtutor import __version__, methods
from fedtutor.__main__ import command_line, main
from fedtutor.engine.files import ROOT
from fedtutor.errors import SettingError, choose
from fedtutor.experiments import arenas, recipes
from fedtutor.papers import published_table
from fedtutor.report import tables
from fedtutor.settings import Settings
from tools import course, record, refresh

JOBS = next(a for a in command_line()._actions if isinstance(a, argparse._SubParsersAction))


@pytest.mark.parametrize("job", [None, *JOBS.choices])
def test_every_option_and_every_choice_has_its_help(job):
    parser = JOBS.choices[job] if job else command_line()
    for action in parser._actions:
        assert action.help, action.dest
        if action is not JOBS and action.choices and not isinstance(action.choices, dict):
            assert all(choice in action.help for choice in action.choices), action.dest
    assert {about.dest for about in JOBS._choices_actions if about.help} == {*JOBS.choices}
    parser.format_help()


def test_a_pipe_that_is_closed_early_is_no_failure():
    command = [sys.executable, "-m", "fedtutor", "reproduce", "RepShare 1", "--dry-run"]
    job = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    job.stdout.close()  # as `... | head -0` does
    said = job.stderr.read().decode()
    assert job.wait() == 0 and said == ""


def test_the_version_and_the_help_need_no_job(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"fedtutor {__version__}\n"
    assert main([]) == 2
    said = capsys.readouterr().err
    assert all(job in said for job in JOBS.choices)


MISTAKES = [
    ("federate fedavg --overrides '{\"fedprox.mu\": 9}'", "belongs to another method"),
    ("federate fedavg --rounds 2 --overrides '{\"rounds\": 3}'", "rounds are given twice"),
    ("notebooks --profile papr", "did you mean 'paper'"),
    ("notebooks --folder /nowhere/to/go", "/nowhere/to/go"),
    ("notebooks --only 99", "no notebook '99'"),
    ("reproduce nonsense", "unknown paper 'nonsense'"),
]
FOR_MAINTAINERS = [
    (record, "benchmark --methods nonsense", "unknown method 'nonsense'"),
    (record, "benchmark --methods fedavgg solo", "did you mean 'fedavg'"),
    (record, "benchmark nonsense", "unknown scenario 'nonsense'"),
    (record, "run x --manifest /nowhere/to.toml", "there is no manifest to.toml"),
    (record, "run nonsense.json", "unknown run 'nonsense.json'"),
    (record, "attack fccl --device tpu", "unknown device 'tpu'"),
    (record, "rehearse nonsense", "unknown recipe 'nonsense'"),
    (record, "rehearse fccl --scenario nonsense", "unknown scenario 'nonsense'"),
    (record, "rehearse fccl --methods nonsense", "unknown method 'nonsense'"),
    (record, "rehearse fccl --profile nonsense", "unknown profile 'nonsense'"),
    (record, "rehearse fccl --overrides [1]", "overrides is a list"),
    (record, "rehearse fccl --overrides {", "not JSON"),
    (refresh, "--folder /nowhere/to/go", "/nowhere/to/go"),
    (refresh, "--only 99", "no notebook '99'"),
    (course, "exercises --folder /nowhere/to/go", "/nowhere/to/go"),
    (course, "exercises --only 99", "no solutions for '99'"),
]


@pytest.mark.parametrize(("words", "said"), MISTAKES, ids=[words for words, _ in MISTAKES])
def test_a_mistake_ends_with_1_and_says_which(words, said, capsys):
    assert main(shlex.split(words)) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("tool", "words", "said"), FOR_MAINTAINERS)
def test_a_maintainer_s_mistake_too(tool, words, said, capsys):
    assert tool.main(shlex.split(words)) == 1
    assert said in capsys.readouterr().err


REFUSED = [
    ("nonsense", "invalid choice: 'nonsense'"),
    ("federate fedavg --rounds 0", "--rounds: '0' is not a whole number from 1"),
    ("federate fedavg --rounds two", "--rounds: 'two' is not a whole number from 1"),
]


@pytest.mark.parametrize(("words", "said"), REFUSED, ids=[words for words, _ in REFUSED])
def test_what_cannot_be_read_is_refused_by_the_parser(words, said, capsys):
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(words))
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_a_method_of_the_package_without_a_table_does_not_enter(monkeypatch):
    """A row in `methods/__init__.py` alone changes nothing in notebook 07."""
    monkeypatch.setitem(methods.METHODS, "newcomer", methods.fedavg.FedAvg)
    assert arenas.own_methods(recipes.load("benchmark", profile="quick")) == []


# --- ./run


@pytest.fixture
def a_clone(tmp_path):
    """The script where nothing is installed, and a Python that writes down that it was asked."""
    if os.name != "posix":
        pytest.skip("no shell on this system")
    for name in ("run", "requirements.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\ntouch {shlex.quote(str(tmp_path))}/asked\nexit 1\n")
    python.chmod(0o700)

    def call(*words):
        return subprocess.run(["sh", tmp_path / "run", *words], capture_output=True, text=True,
                              env={**os.environ, "PYTHON": str(python)}, timeout=60)  # fmt: skip

    call.asked = tmp_path / "asked"
    return call


@pytest.mark.parametrize(("words", "status"), [([], 0), (["help"], 0), (["--help"], 0),
                                               (["notebook"], 2), (["test", "-x"], 2)])  # fmt: skip
def test_help_comes_before_anything_is_installed(a_clone, words, status):
    done = a_clone(*words)
    assert done.returncode == status
    assert all(f"./run {job}" in done.stdout for job in ("notebooks", "tests", "lab"))
    assert not a_clone.asked.exists()
    assert (f"There is no job '{words[0]}'." if status else "") == done.stderr.strip()


@pytest.mark.parametrize("job", ["notebooks", "tests", "lab"])
def test_a_job_asks_for_its_python_first(a_clone, job):
    done = a_clone(job)
    assert a_clone.asked.exists() and done.returncode == 1
    assert "needs Python 3.11" in done.stderr


# --- names of tables


def test_an_unknown_table_proposes_what_its_name_begins():
    with pytest.raises(SettingError, match="did you mean 'X-inter' or 'X-intra'"):
        published_table("FCCL+", "X")
    with pytest.raises(SettingError, match="did you mean 'FedCSD'"):
        published_table("FedCDS", "I")


def test_the_nearest_name():
    def hint(name, *choices):
        with pytest.raises(SettingError) as caught:
            choose(name, choices, kind="name", where="here")
        return caught.value.do.partition("choose")[0].strip()

    assert hint("X", "XI", "X-a", "X-b") == "did you mean 'X-a' or 'X-b'?"
    assert hint("XII", "XI", "XV") == "did you mean 'XI'?"
    assert hint("a", "a-1", "a-2", "a-3", "a-4") == ""  # too many to propose
    assert hint("", "-1", "b") == ""
    assert hint("quite", "else", "other") == ""


@pytest.mark.parametrize("name", ["table", "blocks", "differences"])
@pytest.mark.parametrize(("paper", "key", "near"), [
    ("FCCL+", "X", "'X-inter' or 'X-intra'"), ("FedCDS", "I", "'FedCSD'"),
])  # fmt: skip
def test_the_report_has_no_table_that_nobody_printed(name, paper, key, near, tmp_path):
    made = tables.Report((), {}, (), tmp_path)
    with pytest.raises(SettingError, match=f"did you mean {near}"):
        getattr(made, name)(paper, key)


# --- moments


def test_a_moment_can_be_written_without_a_comma():
    old, new = (
        ["after_local, last round", "local_epoch"],
        ["after_local (last round)", "local_epoch"],
    )
    assert Settings(observe=new) == Settings(observe=old)
    assert Settings(observe=new).observe == old  # as results have it
    with pytest.raises(SettingError) as caught:
        Settings(observe=["local_epoch (last round)"])
    choices = caught.value.do.partition("choose one of: ")[2].split(", ")
    assert len(choices) == 7 and "after_local (last round)" in choices
    for choice in choices:
        Settings(observe=[choice])


def test_the_module_is_a_command():
    done = subprocess.run([sys.executable, "-m", "fedtutor", "--version"], cwd=ROOT,
                          capture_output=True, text=True)  # fmt: skip
    assert done.stdout == f"fedtutor {__version__}\n" and done.returncode == 0


def test_the_command_has_a_name_of_its_own():
    command = Path(sys.executable).with_name("fedtutor")
    done = subprocess.run(
        [command, "reproduce", "--help"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout.startswith("usage: fedtutor reproduce") and done.returncode == 0
