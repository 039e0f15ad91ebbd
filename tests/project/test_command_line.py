"""The command line: help for everything, and a mistake is named before anything is done."""

import argparse
import csv
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fedtutor import Federation, __version__, compare, methods, run, scenarios
from fedtutor.__main__ import command_line, main
from fedtutor.command_line import changes
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
    ("federate fedavg --set fedprox.mu=9", "belongs to another method"),
    ("federate fedavg --rounds 2 --set rounds=3", "rounds is given twice"),
    ("federate fedavg --seeds 0-1 --output x.json", "name one seed"),
    ("compare fedavg fedprox --set moon.mu=9", "belongs to another method"),
    ("compare fedavg fedavgg", "did you mean 'fedavg'"),
    ("compare fedavg fedavg", "two methods are called 'fedavg'"),
    ("run fedavg --scenario digit-mini", "did you mean 'digits-mini'"),
    ("run fedavg --set scenario.privat_size=9", "did you mean 'private_size'"),
    ("run fedavg --set leraning=1", "unknown setting 'leraning'"),
    ("run fedavg --set lr=fast", "lr must be a valid number"),
    ("run fedprox --set fedprox.mu=much", "mu must be a valid number"),
    ("run fedavg --set lr=1 --set lr=2", "lr is given twice"),
    ("run fedavg --device tpu", "unknown device 'tpu'"),
    ("run fedavg --import nowhere.py", "there is no file nowhere.py"),
    ("notebooks --profile papr", "did you mean 'paper'"),
    ("notebooks --source /nowhere/to/go", "/nowhere/to/go"),
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
    ("compare fedavg --seeds 3-1", "--seeds: '3-1' is no seed"),
    ("compare fedavg --seeds 0-2 1", "--seeds: a seed is named twice"),
    ("reproduce x --seeds one", "--seeds: 'one' is no seed"),
    ("run fedavg --set lr", "--set: 'lr' has no value"),
    ("run fedavg --jobs 0", "--jobs: '0' is not a whole number from 1"),
]


@pytest.mark.parametrize(("words", "said"), REFUSED, ids=[words for words, _ in REFUSED])
def test_what_cannot_be_read_is_refused_by_the_parser(words, said, capsys):
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(words))
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


SHARED = ("device", "folder", "jobs", "rows", "profile", "seeds", "rounds", "set", "import")


@pytest.mark.parametrize("name", SHARED)
def test_an_option_is_written_in_one_way(name):
    """What is called alike takes the same values; helps differ in what is kept, and in defaults."""
    found = [
        a for job in JOBS.choices.values() for a in job._actions if f"--{name}" in a.option_strings
    ]
    assert found and len({(a.type, a.nargs, type(a)) for a in found}) == 1
    assert len({re.split("default|keep|put|[:;]", a.help)[0] for a in found}) <= 2


@pytest.mark.parametrize("job", [[], *([job] for job in JOBS.choices)], ids=" ".join)
def test_help_imports_no_torch(job):
    """So it comes in a tenth of a second."""
    code = f"""
import sys
from fedtutor.__main__ import main
try:
    main({[*job, "--help"]})
except SystemExit:
    print([name for name in ("torch", "pandas", "numpy") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.endswith("[]\n") and "usage: " in done.stdout, done.stderr


def test_values_are_read_as_the_setting_wants_them():
    given = [
        "lr=0.1",
        "models=linear",
        "fedavg.weighting=1",
        "common_init=False",
        "observe=[]",
        "client_epochs=1,2",
        "scenario.beta=0.5",
        "optimizer=adam",
    ]
    words = [word for text in given for word in ("--set", text)]
    options = command_line().parse_args(["run", "fedavg", "--rounds", "3", *words])
    assert changes(options, ["fedavg"]) == {
        "rounds": 3,
        "lr": 0.1,
        "models": ["linear"],
        "fedavg.weighting": "1",
        "common_init": False,
        "observe": [],
        "client_epochs": [1, 2],
        "scenario.beta": 0.5,
        "optimizer": "adam",
    }


# --- run and compare

MINE = """
from dataclasses import dataclass

from beside import loss
from torch import nn

from fedtutor import methods, models, scenarios
from fedtutor.methods.fedavg import FedAvg


@methods.register("my-own")
@dataclass
class Own(FedAvg):
    amount: float = 0.0

    def local_loss(self, client, x, y):
        return loss(client.model(x), y, self.amount)


@scenarios.register("few")
def few(*, private_size: int = 20, split_seed: int = 0):
    return scenarios.build("digits-mini", private_size=private_size, split_seed=split_seed)
"""
BESIDE = """
from torch.nn.functional import cross_entropy


def loss(z, y, amount):
    return cross_entropy(z, y, label_smoothing=amount)
"""
NETWORK = """

def net(channels, size):
    return nn.Flatten()


models.register("flat", models.Architecture(net, "ours", smallest=8))
"""
FEW = ["--import", "my.py", "--scenario", "few", "--rounds", "1", "--set", "models=linear"]


@pytest.fixture
def my_file(tmp_path, monkeypatch):
    """A folder with a file of one's own, and beside it what it imports."""
    (tmp_path / "my.py").write_text(MINE)
    (tmp_path / "beside.py").write_text(BESIDE)
    monkeypatch.chdir(tmp_path)
    before = [(table, dict(table)) for table in (methods.METHODS, scenarios.SCENARIOS)]
    path = list(sys.path)
    yield tmp_path
    sys.path[:] = path
    for table, content in before:
        table.clear()
        table.update(content)


def test_run_prints_a_row_per_client(my_file, capsys):
    assert main(["run", "my-own", *FEW, "--set", "my-own.amount=0.2"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("my-own on digits-mini, seed 0: accuracy in percent after 1 round\n")
    for client in ("mnist", "optical", "street", "synthetic", "mean of all clients"):
        assert re.search(rf"^{client} +\d+\.\d +\d+\.\d$", said, re.M)
    fed = Federation(
        scenarios.build("few"),
        methods.make("my-own", amount=0.2),
        Settings(rounds=1, models=["linear"]),
        seed=0,
    )
    own = run(fed).accuracies().query("round == 1 and on == 'own domain'")
    for client, value in own.groupby("client", observed=True)["accuracy"].mean().items():
        assert re.search(rf"^{client} +{value:.1f} ", said, re.M)
    sent = fed.history.messages().groupby("source")["bytes"].sum() / 1e6
    assert f"{sent['server']:.2f} MB to the clients, {sent['clients']:.2f} MB from them" in said


def test_run_with_several_seeds_has_intervals(my_file, capsys):
    assert main(["run", "my-own", *FEW, "--seeds", "0-1", "--jobs", "1", "--folder", "kept"]) == 0
    said = capsys.readouterr().out
    assert len(re.findall(r"\d+\.\d \[-?\d+\.\d, \d+\.\d\]", said)) == 10
    assert f"kept: {Path('kept', 'runs.jsonl')}" in said
    assert len((my_file / "kept" / "runs.jsonl").read_text().splitlines()) == 2


def test_compare_prints_tables_and_differences_and_writes_them(my_file, capsys):
    words = ["compare", "fedavg", "my-own", *FEW, "--seeds", "0", "1", "--jobs", "1"]
    assert main([*words, "--folder", "kept"]) == 0
    said = capsys.readouterr().out
    few = [lambda seed: scenarios.build("few", split_seed=seed)]
    runs = compare(
        ["fedavg", "my-own"], scenario=few[0], rounds=1, models=["linear"], seeds=[0, 1], jobs=1
    )
    for on in ("own domain", "other domains"):
        assert runs.table(on).round(1).to_string() in said
        assert str(runs.difference("my-own", "fedavg", on)) in said
    with open("kept/table.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["method"], row["on"]) for row in rows] == [
        (name, on) for on in ("own domain", "other domains") for name in ("fedavg", "my-own")
    ]
    assert float(rows[1]["low"]) == pytest.approx(runs.table().loc["my-own", "low"])
    page = Path("kept/table.md").read_text(encoding="utf-8")
    assert "## other domains" in page and "- my-own minus fedavg, own domain: " in page
    for name in ("curves.png", "differences.png"):
        assert Path("kept", name).read_bytes().startswith(b"\x89PNG")
        assert f"written: {Path('kept', name)}" in said


@pytest.mark.slow
def test_a_file_of_one_s_own_reaches_the_processes(my_file, capfd):
    """With another file that it imports, and with a network of its own."""
    with open("my.py", "a") as file:
        file.write(NETWORK)
    words = [*FEW[:-1], "models=flat", "--seeds", "0-1"]
    tables = []
    for jobs in ("1", "2"):
        command = [sys.executable, "-m", "fedtutor", "compare", "fedavg", "my-own", *words]
        about = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run([*command, "--jobs", jobs], capture_output=True, text=True, env=about)
        assert done.returncode == 0 and done.stderr == ""
        tables.append(done.stdout)
    assert tables[0] == tables[1]


def test_a_run_that_diverges_is_said_and_one_with_nothing_else_fails(my_file, capsys):
    words = [*FEW, "--jobs", "1", "--seeds", "0", "--set", "lr=1e38", "--set", "batch_size=4"]
    assert main(["run", "my-own", *words]) == 1
    assert "failed: my-own, seed 0: " in capsys.readouterr().out
    assert main(["compare", "fedavg", "my-own", *words, "--folder", "kept"]) == 1
    said = capsys.readouterr().out
    assert "my-own minus fedavg, own domain: no seed has both" in said
    assert "table.csv" in said and "curves.png" not in said


BROKEN = [
    ("import nowhere_to_be_found", "line 1", "ModuleNotFoundError"),
    ("x = 1\nx.y", "line 2", "AttributeError"),
    ("x = 1\nif x", "line 2", "SyntaxError"),
]


@pytest.mark.parametrize(("text", "line", "kind"), BROKEN)
def test_a_file_that_stops_says_where(text, line, kind, my_file, capsys):
    Path("broken.py").write_text(text)
    assert main(["run", "fedavg", "--import", "broken.py"]) == 1
    said = capsys.readouterr().err
    assert f"--import broken.py, {line}" in said and kind in said


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
