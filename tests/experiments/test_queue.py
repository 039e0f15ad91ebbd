"""The paper queue: its manifest, what it finds done, and how it works through the rest."""

import json
import pickle
import re
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support.federations import InThisProcess, tiny_scenario

from fedtutor import scenarios
from fedtutor.__main__ import main
from fedtutor.engine.files import ROOT, load_tensors, save_json
from fedtutor.errors import SettingError
from fedtutor.experiments import commits, jobs, worker
from fedtutor.experiments import manifest as queue
from fedtutor.experiments.manifest import in_order, load, measured, survey
from fedtutor.experiments.results import load_result
from fedtutor.experiments.worker import Paused, play, work
from fedtutor.papers import published_table

TABLE = """
[[table]]
name = "{name}"
paper = "FCCL+"
tables = ["XV-inter", "XV-intra"]
recipe = "start"
profile = "quick"
scenario = "{scenario}"
overrides = {{ models = ["{model}"], batch_size = 8, rounds = {rounds}, eval_every = 1 }}
seeds = [0, 1]
value = {value}
rows = [{rows}]
"""
ROWS = """{ row = "FedAvg", method = "fedavg", minutes = 0.03, gb = 1 },
          { row = "BASE", method = "solo", minutes = 0.03, gb = 1, value = 9 }"""


@pytest.fixture
def manifest(tmp_path, monkeypatch):
    """A function that writes tables on a scenario that takes no time, and returns their runs."""
    monkeypatch.setitem(scenarios.SCENARIOS, "tiny", lambda: tiny_scenario())
    path = tmp_path / "queue.toml"

    def write(*tables, text=None):
        base = {"name": "one", "scenario": "tiny", "model": "linear", "rounds": 3, "value": 5,
                "rows": ROWS}  # fmt: skip
        path.write_text(text or "".join(TABLE.format(**{**base, **t}) for t in tables or [{}]))
        return load(path)

    write.path = path
    return write


@pytest.fixture
def places(tmp_path):
    return {"results": tmp_path / "results", "kept": tmp_path / "kept"}


def plain(result):
    """What must be equal: everything but the time it took and the machine."""
    value = asdict(result)
    for part in ("environment", "totals"):
        del value[part]
    del value["history"]["seconds"]
    return value


def names(runs):
    return [f"{run.row} {run.seed}" for run in runs]


# --- the manifest


def test_a_table_becomes_rows_times_columns_times_seeds(manifest):
    runs = manifest()
    assert names(runs) == ["FedAvg 0", "FedAvg 1", "BASE 0", "BASE 1"]
    assert [run.value for run in runs] == [5, 5, 9, 9]
    assert runs[0].recipe.settings.rounds == 3 and runs[0].recipe.scenario == "tiny"
    assert runs[0].name == "one: FedAvg, seed 0" and runs[0].round_minutes() == 0.01
    columns = 'columns = [{ column = "Digits" }, { column = "Office31/AVG", times = 2 }]\n'
    text = manifest.path.read_text().replace("\nrows", "\n" + columns + "rows")
    text = text.replace('"XV-inter", "XV-intra"', '"XV-inter"')
    both = manifest(text=text)
    assert len(both) == 8 and both[2].column == "Office31/AVG"
    assert both[2].minutes == 2 * both[0].minutes


def test_the_most_valuable_come_first_and_what_is_shared_once(manifest, places):
    runs = manifest({}, {"name": "two", "value": 7})
    order = in_order(runs, places["kept"])
    assert names(order) == ["BASE 0", "BASE 1", "FedAvg 0", "FedAvg 1"]
    assert [run.table for run in order] == ["one", "one", "two", "two"]  # where it is worth more
    begun = order[3].state(places["kept"])
    begun.mkdir(parents=True)
    (begun / "round-000002.pt").touch()
    assert names(in_order(runs, places["kept"]))[2:] == ["FedAvg 1", "FedAvg 0"]
    assert order[3].played(places["kept"]) == 2
    assert order[3].left(places["kept"]) == pytest.approx(0.01)


def test_a_long_beginning_that_is_kept_in_parts_needs_the_time_of_one(manifest, places):
    manifest()
    text = manifest.path.read_text()
    longer = text.replace("minutes = 0.03", "minutes = 40.03, first = 40, parts = 80")
    assert longer != text
    assert max(run.needs(places["kept"]) for run in manifest(text=longer)) < 0.52
    whole = longer.replace("parts = 80, ", "")
    assert max(run.needs(places["kept"]) for run in manifest(text=whole)) > 40


@pytest.mark.parametrize("old, new, hint", [
    ('method = "fedavg"', 'method = "fedavgg"', "did you mean 'fedavg'"),
    ('method = "fedavg"', 'method = "fccl"', "unknown method of this recipe 'fccl'"),
    ('recipe = "start"', 'recipe = "fedlgdd"', "unknown recipe 'fedlgdd'"),
    ('scenario = "tiny"', 'scenario = "tinny"', "did you mean 'tiny'"),
    ('paper = "FCCL+"', 'paper = "FCCL++"', r"did you mean 'FCCL\+'"),
    ('"XV-inter", "XV-intra"', '"XV"', "unknown table 'XV'"),
    ('row = "FedAvg"', 'row = "Fedavg"', "did you mean 'FedAvg'"),
    ("batch_size", "bach_size", "did you mean 'batch_size'"),
    ("seeds = [0, 1]", "seeds = [0, 0]", "different whole numbers"),
    ("seeds = [0, 1]", "seed = [0, 1]", "did you mean 'seeds'"),
    ("value = 5", 'value = "5"', "a finite number"),
    ("value = 5", "", "no 'value'"),
    ("minutes = 0.03, gb = 1 }", "minutes = 0, gb = 1 }", "minutes above first"),
    ("minutes = 0.03, gb = 1 }", "minutes = 0.03, parts = 0, gb = 1 }", "parts = 0"),
    ('tables = ["XV-inter", "XV-intra"]', "", "no tables and no claims"),
    ('tables = ["XV-inter", "XV-intra"]', 'claims = ["x-1"]', "unknown claim 'x-1'"),
    ("[[table]]", "[[tabel]]", "did you mean 'table'"),
    ("[[table]]", "[[table", "cannot be read"),
])  # fmt: skip
def test_a_wrong_manifest_is_one_clear_error(manifest, old, new, hint):
    manifest()
    text = manifest.path.read_text()
    assert old in text
    with pytest.raises(SettingError, match=hint) as caught:
        manifest(text=text.replace(old, new, 1))
    if "queue.toml" not in str(caught.value.where):
        assert new.partition('"')[2].rstrip('"') in str(caught.value)


def test_every_run_of_the_committed_manifest_is_there_to_be_run():
    runs = load()
    assert len(runs) > 100 and len({run.name for run in runs}) == len(runs)
    for run in runs:
        assert run.recipe.profile == "paper" and run.method in run.recipe.methods
        for table in run.tables:
            assert run.row in published_table(run.paper, table).attrs["rows"]
    first = in_order(runs, Path("nowhere"))[:15]
    assert {(r.method, r.seed) for r in first} == {
        (m, s) for m in ("solo", "fedmd", "rhfl", "fccl", "fccl+") for s in (0, 1, 2)
    }  # fmt: skip
    assert {(r.paper, r.tables, r.recipe.scenario) for r in first} == {
        ("FCCL+", ("XII-inter", "XII-intra"), "digits-partial")
    }
    assert all(0 < run.needs("nowhere") <= run.minutes for run in runs)
    central = {run.path("") for run in runs if run.method == "central"}
    assert len(central) == 12  # three data sets, one on two draws: the same for any N


# --- one run


class Clock:
    """Every look at it takes `step` seconds."""

    def __init__(self, step):
        self.now, self.step = -step, step

    def __call__(self):
        self.now += self.step
        return self.now


@pytest.fixture
def clock(monkeypatch):
    """A function that lets every look at the clock take so many seconds, from 0 on."""

    def steps(seconds):
        monkeypatch.setattr(worker, "time", SimpleNamespace(time=Clock(seconds)))

    return steps


def test_a_run_stops_before_the_time_is_up_and_goes_on_with_the_same_bits(manifest, places, clock):
    run = manifest()[0]
    whole = {"results": places["results"] / "whole", "kept": places["kept"] / "whole"}
    assert "100" not in play(run, **whole)  # words about its accuracy
    for deadline, played in ((25, 1), (35, 3)):
        clock(10)
        try:
            play(run, **places, deadline=deadline)
        except Paused as words:
            assert (
                str(words) == f"{played} of 3 rounds" and not run.path(places["results"]).exists()
            )
        assert run.played(places["kept"]) == (played if played < 3 else 0)
    first, second = (load_result(run.path(p["results"])) for p in (whole, places))
    assert plain(first) == plain(second)
    assert second.environment["at_once"] == 1 and second.environment["git"] == commits.commit()
    assert second.settings["precision"] == "float32"
    assert not list(run.state(places["kept"]).iterdir())


def test_a_round_that_cannot_end_is_not_begun(manifest, places, clock):
    clock(0)
    with pytest.raises(Paused, match="0 of 3 rounds"):
        play(manifest()[0], **places, deadline=5.7)  # 0.78 s, 5 s to write
    play(manifest()[0], **places, deadline=8)


# --- many runs


class FakeJob:
    """A run that takes `seconds` of a clock that `wait` moves."""

    log, seconds, now = [], 20, 0

    def __init__(self, task):
        self.task, self.until = task, FakeJob.now + FakeJob.seconds
        FakeJob.log.append((FakeJob.now, task.about.row, task.about.seed))

    def outcome(self):
        return ("done", "well") if FakeJob.now >= self.until else None

    def stop(self):
        FakeJob.log.append((FakeJob.now, "stopped", self.task.about.seed))

    @classmethod
    def wait(cls, seconds):
        cls.now += 1


@pytest.fixture
def fake(places, monkeypatch):
    FakeJob.log, FakeJob.now, FakeJob.seconds = [], 0, 20
    clock = SimpleNamespace(time=lambda: FakeJob.now, sleep=FakeJob.wait)
    monkeypatch.setattr(jobs, "Job", FakeJob)
    for module in (jobs, worker):
        monkeypatch.setattr(module, "time", clock)

    def run(runs, **options):
        return work(runs, **places, say=lambda words: None, **options)

    return run


def test_runs_begin_by_value_while_a_round_fits_into_the_time(manifest, fake):
    ended = fake(manifest(), minutes=1.2)  # 72 seconds; one takes 20, a start is allowed 25.6
    assert FakeJob.log == [(0, "BASE", 0), (20, "BASE", 1), (40, "FedAvg", 0)]
    assert [outcome for _, outcome, _ in ended] == ["done"] * 3 and FakeJob.now <= 72


def test_what_does_not_end_in_time_is_stopped(manifest, fake):
    FakeJob.seconds = 10**6
    ended = fake(manifest(), minutes=1, at_once=2)
    assert FakeJob.log[2:] == [(60, "stopped", 0), (60, "stopped", 1)]
    assert [(outcome, words) for _, outcome, words in ended] == [
        ("paused", "the time is up; 0 rounds are kept")
    ] * 2


@pytest.mark.parametrize("memory, at_once, together", [
    (10, 1, 1), (10, 3, 3), (2.5, 3, 2), (0.5, 3, 0),
])  # fmt: skip
def test_memory_and_number_decide_how_many_work_side_by_side(
    memory, at_once, together, manifest, fake
):
    fake(manifest(), minutes=9, memory=memory, at_once=at_once)
    assert sum(now == 0 for now, *_ in FakeJob.log) == together
    assert len(FakeJob.log) == (4 if together else 0)


def test_a_run_without_data_is_left_out_and_said(manifest, fake, monkeypatch):
    monkeypatch.setattr(worker, "absent", lambda run: "no data" if run.row == "BASE" else None)
    ended = fake(manifest(), minutes=9)
    assert sorted(o for _, o, _ in ended) == ["absent", "absent", "done", "done"]


@pytest.fixture
def in_processes(manifest, tmp_path, monkeypatch):
    """Runs that a process of its own can play: real scenario, little noise as its images."""
    rng = np.random.default_rng(0)
    (tmp_path / "data" / "mnist").mkdir(parents=True)
    for split in ("train", "test"):
        x, y = rng.integers(0, 256, (60, 28, 28), dtype=np.uint8), np.arange(60) % 10
        np.savez(tmp_path / "data" / "mnist" / f"{split}.npz", images=x, labels=y)
    monkeypatch.setenv("FEDTUTOR_DATA", str(tmp_path / "data"))
    queue._absent.cache_clear()

    def write(rounds):
        rows = ROWS.replace("minutes = 0.03", "minutes = 0.01").replace("gb = 1", "gb = 0.1")
        runs = manifest({"scenario": "mnist", "model": "lenet5", "rows": rows, "rounds": rounds})
        small = {"scenario.private_size": 40, "scenario.num_clients": 2, "eval_every": rounds,
                 "scenario.min_per_client": 1, "batch_size": 20, "local_epochs": 1}  # fmt: skip
        return [replace(run, recipe=run.recipe.change(small)) for run in runs]

    yield write
    queue._absent.cache_clear()


def beyond(*names: str) -> list[str]:
    """Modules that pip would not have installed along with these packages."""

    def normal(name: str) -> str:
        return re.sub(r"[-_.]+", "-", name).lower()

    allowed, waiting = {"fedtutor"}, [(name, False) for name in names]
    while waiting:
        name, extras = waiting.pop()
        if normal(name) not in allowed:
            allowed.add(normal(name))
            with suppress(metadata.PackageNotFoundError):  # one for another platform
                waiting += [(re.match(r"[\w.-]+", line).group(), "[" in line)
                            for line in metadata.requires(name) or []
                            if extras or "extra ==" not in line]  # fmt: skip
    return sorted(module for module, owners in metadata.packages_distributions().items()
                  if not allowed & {*map(normal, owners)})  # fmt: skip


@pytest.mark.slow
def test_nothing_is_needed_but_what_the_docstring_names(in_processes, tmp_path):
    """The list, packed images and a run, while no other package can be imported."""
    assert "torch, torchvision and pandas, with" in " ".join(queue.__doc__.split())
    blocked = beyond("torch", "torchvision", "pandas")
    assert {"pytest", "IPython", "matplotlib", "sklearn", "scipy", "tqdm"} <= {*blocked}
    run = in_processes(1)[0]
    code = f"""
import os, pickle, sys
for name in {blocked}:
    sys.modules[name] = None
from fedtutor.experiments import packing, worker
from fedtutor.__main__ import main
assert main(["queue", "--only", "RepShare 1, MNIST: IL", "--results", "nowhere"]) == 0
run, out = pickle.loads({pickle.dumps(run)}), {str(tmp_path)!r}
packing.pack([run], out + "/packed")
os.environ["FEDTUTOR_DATA"] = out + "/packed"
print(worker.play(run, results=out + "/results", kept=out + "/kept"))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "9 runs: 0 done" in done.stdout and "done in" in done.stdout
    assert run.path(tmp_path / "results").exists()


def test_two_at_once_are_the_same_as_one_after_the_other(in_processes, places, tmp_path):
    runs = [run for run in in_processes(2) if run.seed == 0]
    ended = work(runs, minutes=5, at_once=2, **places, say=lambda words: None)
    assert [outcome for _, outcome, _ in ended] == ["done", "done"], ended
    for run in runs:
        play(run, results=tmp_path / "alone", kept=tmp_path / "kept2", threads=2)
        alone = load_result(run.path(tmp_path / "alone"))
        beside = load_result(run.path(places["results"]))
        assert plain(alone) == plain(beside) and beside.environment["at_once"] == 2


@pytest.mark.slow
def test_a_killed_run_goes_on_with_the_same_bits(in_processes, places, tmp_path):
    run = in_processes(80)[0]
    job, until = jobs.Job(worker.task(run, places)), time.time() + 120
    while not run.played(places["kept"]) and time.time() < until and job.outcome() is None:
        time.sleep(0.01)
    job.process.kill()
    job.process.join()
    assert job.outcome()[0] == "failed" and isinstance(job.outcome()[1], jobs.Killed)
    assert 0 < run.played(places["kept"]) < 80
    play(run, **places)
    play(run, results=tmp_path / "whole", kept=tmp_path / "kept2")
    killed = load_result(run.path(places["results"]))
    assert plain(killed) == plain(load_result(run.path(tmp_path / "whole")))


# --- what is done


@pytest.fixture
def done(manifest, places):
    """Four runs with their results."""
    runs = manifest({"rounds": 1})
    for run in runs:
        play(run, **places)
    return runs


def states(runs, folder):
    found, faults = survey(runs, folder)
    return [run.path(folder) in found for run in runs], faults


def test_a_deleted_result_opens_its_run_and_no_other(done, places):
    folder = places["results"]
    assert states(done, folder) == ([True] * 4, [])
    done[1].path(folder).unlink()
    assert states(done, folder) == ([True, False, True, True], [])


def spoil_cut(path, other):
    path.write_text(path.read_text()[:400])


def spoil_altered(path, other):
    value = json.loads(path.read_text())
    value["headline"]["intra"] = 0.99
    save_json(path, value)


def spoil_foreign(path, other):
    shutil.copy(other, path)
    other.unlink()


def spoil_other_run(path, other):
    shutil.copy(other, path)


def spoil_settings(path, other):
    value = json.loads(path.read_text())
    value["settings"]["lr"] = 0.5
    save_json(path, value)


def spoil_unknown(path, other):
    value = json.loads(path.read_text())
    value["recipe"] = "fedxyz"
    save_json(path, value)


@pytest.mark.parametrize("spoil, words, still", [
    (spoil_cut, "is damaged", [False, True, True, True]),
    (spoil_altered, "'headline' and 'best' are not those", [False, True, True, True]),
    (spoil_foreign, "foreign: it belongs to start/quick/tiny/", [False, False, True, True]),
    (spoil_other_run, "duplicate of start/quick/tiny/", [False, True, True, True]),
    (spoil_settings, "of other settings than its recipe has today", [False, True, True, True]),
    (spoil_unknown, "foreign: it belongs to fedxyz/quick/tiny/", [False, True, True, True]),
])  # fmt: skip
def test_a_bad_file_is_named_and_skipped(spoil, words, still, done, places, capsys, manifest):
    folder = places["results"]
    path = done[0].path(folder)
    spoil(path, done[1].path(folder))
    found, faults = states(done, folder)
    assert found == still and len(faults) == 1
    assert faults[0].startswith(str(path.relative_to(folder))) and words in faults[0]
    options = ["--manifest", str(manifest.path), "--results", str(folder), "--device", "cpu",
               "--kept", str(places["kept"])]  # fmt: skip
    assert main(["queue", *options]) == 0
    printed = capsys.readouterr().out
    assert f"skipped {faults[0]}" in printed and f"{sum(still)} done" in printed


def test_a_copy_beside_a_result_changes_nothing(done, places):
    path = done[0].path(places["results"])
    shutil.copy(path, path.with_name(f"{path.stem} (1).json"))
    found, (fault,) = states(done, places["results"])
    assert found == [True] * 4 and "(1).json: duplicate of start/quick/tiny/fedavg" in fault


def test_estimates_give_way_to_what_was_measured_on_such_a_gpu(done, places, monkeypatch):
    folder = places["results"]
    done[1].path(folder).unlink()
    found, _ = survey(done, folder)
    assert measured(done, found, "cpu") == done  # seconds of a CPU are no minutes of a GPU
    there = {p: replace(r, environment={**r.environment, "device": "NVIDIA H100"})
             for p, r in found.items()}  # fmt: skip
    assert measured(done, there, "cpu") == done
    monkeypatch.setattr(queue, "environment", lambda device: {"device": "NVIDIA H100"})
    runs = measured(done, there, "cuda")
    result = load_result(done[0].path(folder))
    assert runs[1].minutes == pytest.approx(result.totals["seconds"] / 60) != done[1].minutes
    assert runs[1].gb == pytest.approx(result.totals["peak_memory"] / 1e9)


def test_on_a_cpu_a_run_has_the_minutes_of_a_core(done, tmp_path, monkeypatch):
    run = replace(done[0], minutes=2.0, first=0.5)
    assert run.core is None and run.on_a_core() == run
    cell = run.cell.as_posix()
    save_json(tmp_path / "queue.json", {"runs": {cell: {"minutes": 60.0}}})
    monkeypatch.setattr(queue, "TIMED", tmp_path / "queue.json")
    core = run.on_a_core()
    assert (core.minutes, core.first, core.round_minutes()) == (60, 15, 45)
    monkeypatch.setattr(queue, "TIMED", tmp_path / "nowhere.json")
    assert run.core is None


def test_what_was_timed_belongs_to_runs_of_the_queue():
    runs, cells = queue.load(), queue.timed(queue.TIMED)
    assert len(cells) > 40 and min(cells.values()) > 0.05
    assert cells.keys() <= {run.cell.as_posix() for run in runs}
    assert {run.cell.as_posix() for run in runs if run.core} == cells.keys()


def test_the_overview_says_what_is_done_begun_and_absent(done, places, monkeypatch):
    folder, kept = places["results"], places["kept"]
    done[1].path(folder).unlink()
    (done[1].state(kept) / "round-000001.pt").touch()
    monkeypatch.setattr(
        queue, "absent", lambda run: "SYN is not here" * (run.row == "BASE") or None
    )
    found, _ = survey(done, folder)
    lines = queue.overview(done, found, folder, kept).splitlines()
    assert lines[1].split() == ["9", "one", "BASE", "tiny", "0,", "1", "0.03", "?", "1", "SYN",
                                "is", "not", "here"]  # fmt: skip
    assert "0 1 (1 of 1 rounds)" in " ".join(lines[2].split())
    left = [run for run in done if run.path(folder) not in found]
    assert queue.totals(done, left, kept).startswith("4 runs: 3 done, 1 open with about 0 minutes")


def test_the_commit_is_that_of_the_clone_or_of_the_packed_note(tmp_path, monkeypatch):
    assert commits.commit() == commits.git_commit()
    monkeypatch.setattr(commits, "git_commit", lambda root: None)
    monkeypatch.setenv("FEDTUTOR_DATA", str(tmp_path))
    assert commits.commit() is None
    save_json(tmp_path / "commit.json", {"commit": "ab12", "dirty": False, "code": commits.code()})
    assert commits.commit() == {"commit": "ab12", "dirty": False}
    save_json(tmp_path / "commit.json", {"commit": "ab12", "dirty": False, "code": "another"})
    assert commits.commit() is None


# --- the command


def test_run_from_the_command_line(manifest, places, capsys, monkeypatch):
    monkeypatch.setattr(jobs, "Job", InThisProcess)
    manifest({"rounds": 1})
    options = ["--manifest", str(manifest.path), "--results", str(places["results"]),
               "--kept", str(places["kept"]), "--device", "cpu"]  # fmt: skip
    assert main(["queue", "run", "--only", "FedAvg", *options]) == 0
    printed = capsys.readouterr().out
    assert "one: FedAvg, seed 0: done in" in printed and printed.endswith("2 done\n")
    assert main(["queue", "run", "--only", "FedAvg", *options]) == 0
    assert capsys.readouterr().out.startswith("nothing to start")
    assert main(["queue", "run", "--only", "nobody", *options]) == 1
    assert "SettingError: no run" in capsys.readouterr().err


def test_checkpoints_hold_what_the_next_round_needs(manifest, places, clock):
    run = manifest()[0]
    clock(10)
    with pytest.raises(Paused):
        play(run, **places, deadline=25)
    (file,) = run.state(places["kept"]).glob("*.pt")
    value = load_tensors(file)
    assert len(value["tensors"]) < 12  # 4 networks of 2 tensors, 3 domains
    assert all(h["optimizer"] is None for h in value["holders"].values())


def test_a_paper_s_runs_and_those_of_one_table_are_those_of_the_whole_list():
    every = load()
    own = load(paper="FCCL+")
    assert own == [run for run in every if run.paper == "FCCL+"] and 0 < len(own) < len(every)
    table = load(paper="FCCL+", published="X-inter")
    assert table == [run for run in own if "X-inter" in run.tables] and 0 < len(table) < len(own)
