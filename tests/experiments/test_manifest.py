"""A manifest: its runs, what is found done, and how the rest is played."""

import json
import shutil
import time
from dataclasses import asdict, replace

import numpy as np
import pytest
from support.federations import tiny_scenario

from fedtutor import scenarios
from fedtutor.engine.files import save_json
from fedtutor.errors import SettingError
from fedtutor.experiments import commits, jobs
from fedtutor.experiments import manifest as queue
from fedtutor.experiments.manifest import load, survey
from fedtutor.experiments.results import load_result
from fedtutor.experiments.worker import play
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
    assert runs[0].name == "one: FedAvg, seed 0"
    columns = 'columns = [{ column = "Digits" }, { column = "Office31/AVG", times = 2 }]\n'
    text = manifest.path.read_text().replace("\nrows", "\n" + columns + "rows")
    text = text.replace('"XV-inter", "XV-intra"', '"XV-inter"')
    both = manifest(text=text)
    assert len(both) == 8 and both[2].column == "Office31/AVG"
    assert both[2].minutes == 2 * both[0].minutes


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
    ("value = 5", 'value = "5"', "a valid number"),
    ("value = 5", "", "no 'value'"),
    ("minutes = 0.03, gb = 1 }", "minutes = 0, gb = 1 }", "minutes and gb above 0"),
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


# --- one run


# --- many runs


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


def test_a_run_leaves_one_result_and_no_checkpoint(manifest, places):
    run = manifest()[0]
    assert play(run, **places).startswith("done in")
    made = load_result(run.path(places["results"]))
    assert made.environment["git"] == commits.git_commit()
    assert made.settings["precision"] == "float32"
    assert not list(run.state(places["kept"]).iterdir())


@pytest.mark.slow
def test_a_killed_run_goes_on_with_the_same_bits(in_processes, places, tmp_path):
    run = in_processes(80)[0]
    job, until = jobs.Job(jobs.Task(play, (run,), places)), time.time() + 120
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
def test_a_bad_file_is_named_and_skipped(spoil, words, still, done, places):
    folder = places["results"]
    path = done[0].path(folder)
    spoil(path, done[1].path(folder))
    found, faults = states(done, folder)
    assert found == still and len(faults) == 1
    assert faults[0].startswith(str(path.relative_to(folder))) and words in faults[0]


def test_a_copy_beside_a_result_changes_nothing(done, places):
    path = done[0].path(places["results"])
    shutil.copy(path, path.with_name(f"{path.stem} (1).json"))
    found, (fault,) = states(done, places["results"])
    assert found == [True] * 4 and "(1).json: duplicate of start/quick/tiny/fedavg" in fault


def test_a_paper_s_runs_and_those_of_one_table_are_those_of_the_whole_list():
    every = load()
    own = load(paper="FCCL+")
    assert own == [run for run in every if run.paper == "FCCL+"] and 0 < len(own) < len(every)
    table = load(paper="FCCL+", published="X-inter")
    assert table == [run for run in own if "X-inter" in run.tables] and 0 < len(table) < len(own)
