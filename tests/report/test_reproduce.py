"""`fedtutor reproduce`: what a request means, what it needs, what it leaves."""

import csv
import re
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
from support.federations import tiny_scenario

from fedtutor import comparison, papers, rounds, scenarios
from fedtutor.__main__ import main
from fedtutor.difference import Difference
from fedtutor.errors import SettingError
from fedtutor.experiments import manifest
from fedtutor.experiments.results import load_all
from fedtutor.report import reproduce

TABLE = """
[[table]]
name = "a small one"
paper = "FCCL+"
tables = ["XV-inter", "XV-intra"]
recipe = "start"
profile = "quick"
scenario = "tiny"
instead_of = "digits"
overrides = { models = ["linear"], batch_size = 8, rounds = 3, eval_every = 1 }
seeds = [0, 1]
value = 1
rows = [{ row = "FedAvg", method = "fedavg", minutes = 0.03, gb = 1 },
        { row = "BASE", method = "solo", minutes = 0.03, gb = 1 }]
columns = [{ column = "Digits" }]
"""


@pytest.fixture
def small(tmp_path, monkeypatch):
    """The command, on a manifest that takes no time; returns the status."""
    monkeypatch.setitem(scenarios.SCENARIOS, "tiny", lambda: tiny_scenario())
    path = tmp_path / "queue.toml"
    path.write_text(TABLE)
    monkeypatch.setitem(reproduce.MANIFESTS, "paper", path)

    def command(*more, request="FCCL+ XV"):
        return main(["reproduce", request, f"--folder={tmp_path / 'made'}", *more])

    command.folder = tmp_path / "made"
    return command


def test_what_a_request_means():
    assert reproduce.wanted("FCCL+ X") == ("FCCL+", ("X-inter", "X-intra"))
    assert reproduce.wanted("FCCL+ X-intra") == ("FCCL+", ("X-intra",))
    assert reproduce.wanted("RepShare 1") == ("RepShare", ("1",))
    for wrong, near in (("FCL X", "'FCCL'"), ("FCCL+ XXI", "'XI'"), ("FCCL+", "choose one of")):
        with pytest.raises(SettingError, match=re.escape(near)):
            reproduce.wanted(wrong)


def test_a_word_is_a_whole_word(tmp_path):
    runs = reproduce.plan("RepShare 1", folder=tmp_path, rows="mnist", seeds=[0]).once
    assert runs and {run.seed for run in runs} == {0}
    assert not any("Fashion" in run.name for run in runs)
    assert reproduce.has("FCCL", "FedMD", "FCCL") and not reproduce.has("FCCL", "FCCL+")
    assert reproduce.plan("RepShare 1", folder=tmp_path, rows="Fashion-MNIST").once
    with pytest.raises(SettingError, match="no row or column has the word 'SVHN'"):
        reproduce.plan("RepShare 1", folder=tmp_path, rows="SVHN")


@pytest.mark.parametrize("profile", reproduce.MANIFESTS)
@pytest.mark.parametrize("paper, table", papers.tables())
def test_every_table_says_what_it_needs(paper, table, profile, tmp_path, monkeypatch):
    monkeypatch.setattr(reproduce, "seconds_per_image", lambda *given: 0.001)
    made = reproduce.plan(f"{paper} {table}", folder=tmp_path, profile=profile)
    words = reproduce.needs(made, 2)
    numbers = [int(n) for n in re.findall(r"(\d+) (?:runs,|are there|to run|without)", words)]
    assert numbers[0] == sum(numbers[1:]) == len(made.once)
    assert ("no run is planned" in words) == (not made.runs)
    assert ("not here: " in words) == bool(made.without_data)


def test_it_plays_what_is_missing_and_writes_the_table(small, capsys):
    assert small("--dry-run") == 0
    assert "4 runs, 0 are there, 4 to run" in capsys.readouterr().out
    assert not small.folder.exists()
    assert small("--rows", "BASE") == 0
    assert small() == 0
    said = capsys.readouterr().out
    assert "4 runs, 2 are there, 2 to run" in said
    found = load_all(small.folder / "results").values()
    assert {(r.method, r.seed) for r in found} == {
        (m, s) for m in ("solo", "fedavg") for s in (0, 1)
    }
    with open(small.folder / "FCCL+-XV-intra.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    page = (small.folder / "FCCL+-XV-intra.md").read_text(encoding="utf-8")
    for method, row in (("solo", "BASE"), ("fedavg", "FedAvg")):
        values = [100 * r.headline["intra"] for r in found if r.method == method]
        told = [line for line in rows if line["row"] == row and line["n"] != "0"]
        low, high = Difference(values).interval()
        for name, value in (("mean", fmean(values)), ("low", low), ("high", high), ("n", 2)):
            assert told and all(float(line[name]) == pytest.approx(value) for line in told)
        assert all(float(line["printed"]) for line in rows)
        assert papers.spread(values, 1) in page
    assert said.splitlines()[-4:] == [
        f"written: {small.folder / name}"
        for name in (
            "FCCL+-XV-inter.md",
            "FCCL+-XV-inter.csv",
            "FCCL+-XV-intra.md",
            "FCCL+-XV-intra.csv",
        )
    ]
    assert small() == 0
    assert "4 runs, 4 are there, 0 to run" in capsys.readouterr().out


def test_what_is_to_be_run_again_is_never_read_from_what_is_committed(small, monkeypatch):
    read = comparison.results.recorded

    def recorded(*run, folder=None):
        assert folder is not None, "data/results was read in place of a run"
        return read(*run, folder=folder)

    monkeypatch.setattr(comparison.results, "recorded", recorded)
    monkeypatch.setattr(comparison.Task, "code", "")  # as if the tests' network were the package's
    assert small("--again", "--rows", "BASE") == 0
    found = load_all(small.folder / "results").values()
    assert {(r.method, r.seed) for r in found} == {("solo", 0), ("solo", 1)}


def test_the_table_has_the_rows_that_were_asked_for(small, capsys, monkeypatch):
    monkeypatch.chdir(small.folder.parent)
    assert small("--rows", "base", "--seeds", "0") == 0
    said = capsys.readouterr().out
    assert "1 runs, 0 are there, 1 to run" in said
    table = said.partition("Table XV-inter\n")[2].splitlines()
    assert all(line.split()[0] == "BASE" for line in table[1 : table.index("")])
    assert f"written: {Path('made', 'FCCL+-XV-inter.md')}\n" in said
    with open(small.folder / "FCCL+-XV-inter.csv", newline="", encoding="utf-8") as file:
        assert {row["row"] for row in csv.DictReader(file)} == {"BASE"}


@pytest.mark.parametrize("word", ["MNIST", "Fashion-MNIST", "CIFAR10", "FD"])
def test_rows_and_columns_without_the_word_are_left_out(word, tmp_path):
    made = reproduce.plan("RepShare 1", folder=tmp_path, rows=word)
    (lines,), (numbers,) = made.tables().values(), made.numbers().values()
    assert len(lines) == len(numbers) > 0
    for row, column in zip(lines["row"], lines["column"], strict=True):
        assert word in (row, column.partition(" N=")[0])
    assert list(numbers["printed"]) == [float(text.split()[0]) for text in lines["printed"]]


def test_absent_data_have_a_place(tmp_path, monkeypatch):
    for name in ("DATA", "CACHE"):
        monkeypatch.setenv(f"FEDTUTOR_{name}", str(tmp_path / name))
    monkeypatch.setenv("FEDTUTOR_OFFLINE", "1")
    manifest._absent.cache_clear()
    words = reproduce.needs(reproduce.plan("FCCL+ X", folder=tmp_path), 1)
    manifest._absent.cache_clear()
    assert "not here: MNIST, train\n" in words
    place = f"mnist/train-images-idx3-ubyte in the folder FEDTUTOR_DATA, which is {tmp_path}/DATA"
    assert f"its place: {place}\n" in words and "its page: http" in words


def test_one_that_was_interrupted_goes_on_with_the_same_bits(small, monkeypatch):
    whole = small.folder.parent / "whole"
    assert small("--jobs=1", f"--folder={whole}") == 0
    played, run = [], rounds.run

    def stopped(fed, **given):
        def on_round(fed):
            played.append(fed.round_)
            if len(played) == 4:  # in the second run, after its first round
                raise KeyboardInterrupt

        return run(fed, **(given | {"on_round": on_round, "every": 0}))

    monkeypatch.setattr(rounds, "run", stopped)
    assert small("--jobs=1") == 130
    assert small("--jobs=1") == 0
    assert len(played) == 12  # no round was run twice
    folders = [load_all(folder) for folder in (whole / "results", small.folder / "results")]
    accuracies = [
        {path.name: r.history["accuracy"] for path, r in found.items()} for found in folders
    ]
    assert accuracies[0] == accuracies[1] and len(accuracies[0]) == 4


def test_a_recorded_run_says_how_long_it_takes(tmp_path):
    made = reproduce.plan("RepShare 1", folder=tmp_path, rows="MNIST")
    run, every = next(r for r in made.once if r.method == "fd"), list(made.found.values())
    mine = [made.found[r.path(tmp_path)] for r in made.once if replace(r, seed=run.seed) == run]
    seconds = [r.totals["seconds"] * r.environment["threads"] for r in mine]
    assert len(seconds) == 3
    assert reproduce.minutes(run, every) == pytest.approx(sum(seconds) / 3 / 60)


def test_nothing_is_known_of_a_run_without_result_and_data(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDTUTOR_DATA", str(tmp_path))
    monkeypatch.setenv("FEDTUTOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FEDTUTOR_OFFLINE", "1")
    manifest._absent.cache_clear()
    run = reproduce.plan("RepShare 1", folder=tmp_path, rows="MNIST").once[0]
    assert reproduce.minutes(run, []) is None
    manifest._absent.cache_clear()


def test_steps_are_timed_where_nothing_was_recorded():
    reproduce.seconds_per_image.cache_clear()
    small = reproduce.seconds_per_image("lenet5", 10, 1, 28, 8)
    large = reproduce.seconds_per_image("resnet10", 10, 1, 28, 8)
    assert 0 < small < large


@pytest.mark.parametrize(
    "minutes, words", [(0.5, "30 seconds"), (12.4, "12 minutes"), (150, "2.5 hours")]
)
def test_lengths_of_time_are_told_as_one_thinks_of_them(minutes, words):
    assert reproduce.in_hours(minutes) == words
