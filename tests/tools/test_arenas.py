"""What notebook 07 reads is recorded as far as it is missing, and a failure is kept."""

from types import SimpleNamespace

import pytest
import torch
from support.federations import InThisProcess
from support.notebook_run import notebook_run

from fedtutor import methods
from fedtutor.errors import SettingError, TrainingError
from fedtutor.experiments import arenas, jobs, recipes, results
from fedtutor.experiments.arenas import gather, in_arena
from tools import arenas as recorder
from tools import record


@pytest.fixture
def run(monkeypatch, tmp_path):
    """A notebook's run on tiny data, with nothing recorded."""
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    return notebook_run()


def test_recording_goes_on_where_it_ended(monkeypatch, tmp_path):
    tried, said = [], []

    def played(recipe, method, seed, folder):
        tried.append((method, seed))
        if seed and method == "fccl":
            raise jobs.Killed("its process ended with -9: too little memory?")
        return "FAILED: TrainingError: nan" if method == "fccl" else "0.1 s, intra 0.500"

    left = [(recipes.load("benchmark", profile="quick"), m, s) for m in ("fccl", "fedavg")
            for s in (0, 1)]  # fmt: skip
    monkeypatch.setattr(jobs, "Job", InThisProcess)
    monkeypatch.setattr(recorder, "_recorded", played)
    monkeypatch.setattr(recorder, "missing", lambda *a, **k: left)
    monkeypatch.setattr(torch, "set_num_threads", lambda n: None)
    options = {"folder": tmp_path, "say": said.append}
    assert recorder.record("digits-mini", **options) == 2
    assert tried == [("fccl", 0), ("fccl", 1), ("fedavg", 0), ("fedavg", 1)]
    assert said[2].startswith("2/4 fccl seed 1") and "too little memory" in said[2]


@pytest.mark.parametrize("error, kept", [
    (TrainingError("the loss is nan", where="here", do="slow down"), "diverged: the loss is nan"),
    (KeyError("z"), "raised KeyError: 'z'"),
    (MemoryError("full"), ""),  # this machine's fault, to be tried again
])  # fmt: skip
def test_how_a_run_failed_is_kept_and_not_tried_again(monkeypatch, run, tmp_path, error, kept):
    def fails(*given, **options):
        raise error

    monkeypatch.setattr(recorder, "train", fails)
    recipe = in_arena(run.recipe, "one network")
    said = recorder._recorded(recipe, "fedavg", 0, tmp_path)
    assert said.startswith("FAILED")
    assert arenas.kept(recipe, "fedavg", 0, tmp_path).get("what", "") == kept
    assert not arenas.kept(recipe.change({"lr": 0.5}), "fedavg", 0, tmp_path)
    assert not arenas.kept(recipe, "fedavg", 1, tmp_path)
    entry = gather(run, "one network", only=["fedavg"])["fedavg"]
    assert entry.failed == ({0: kept} if kept else {}) and not entry.whole
    assert entry.open == ([1] if kept else [0, 1])


def test_what_failed_is_not_missing(monkeypatch, tmp_path):
    names = ["solo"]
    before = recorder.missing("digits-mini", folder=tmp_path, names=names)
    monkeypatch.setattr(recorder, "train", lambda *a, **k: 1 / 0)
    recipe, method, seed = before[0]
    assert "ZeroDivisionError" in recorder._recorded(recipe, method, seed, tmp_path)
    left = recorder.missing("digits-mini", folder=tmp_path, names=names)
    assert len(left) == len(before) - 1 and (recipe, method, seed) not in left


def test_what_is_missing_is_asked_of_the_folder(tmp_path):
    names = ["solo", "fedlgd"]
    left = recorder.missing("digits-mini", folder=tmp_path, names=names)
    found = {(m, tuple(r.settings.models), r.settings.lr) for r, m, _ in left}
    assert ("fedlgd", ("small_convnet",), 0.02) in found
    alike = [r.settings.lr for r, m, _ in left if m == "fedlgd"]  # the arena's, and its paper's
    assert sorted(alike) == [0.01] * 3 + [0.02] * 3
    assert {seed for _, _, seed in left} == {0, 1, 2}
    assert not [m for _, m, _ in left if m not in names]


def test_what_the_notebook_reads_is_recorded():
    seeds = SimpleNamespace(seeds=arenas.SEEDS)
    assert not recorder.missing("digits-mini", names=["central", "fedlgd", "vhl"])
    for (scenario, arena), studies in recorder.STUDIES.items():
        for changes, names in studies:
            assert all(
                e.whole for e in arenas.shelf(seeds, scenario, arena, names, **changes).values()
            )


def test_ctrl_c_is_one_line(monkeypatch, capsys):
    def stop(*given, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(recorder, "record", stop)
    assert record.main(["benchmark"]) == 130
    said = capsys.readouterr()
    assert said.out.startswith("stopped; what is done is kept") and said.out.count("\n") == 1


def test_a_method_without_a_table_is_not_recorded_in_silence(monkeypatch, tmp_path):
    monkeypatch.setitem(methods.METHODS, "newcomer", methods.fedavg.FedAvg)
    with pytest.raises(SettingError, match=r"newcomer has no table") as caught:
        recorder.missing("digits-mini", names=["newcomer"], folder=tmp_path)
    assert "[methods.newcomer]" in caught.value.do
