"""The first cell: parameters are checked, text from papermill is read, mistakes are explained."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.notebooks import frozen

from fedtutor import scenarios
from fedtutor.errors import SettingError
from fedtutor.experiments import commits, results
from fedtutor.notebook.start import Run, setting, start

GIVEN = {
    "profile": "quick", "scenario": None, "seeds": [0, 1], "methods": ["solo", "fedavg"],
    "device": "cpu", "overrides": {"rounds": 1, "local_epochs": 1},
}  # fmt: skip


def begin(**changes) -> Run:
    return start({**GIVEN, **changes}, recipe="start")


def test_a_run_knows_what_the_parameters_mean(capsys):
    run = begin()
    assert (run.seeds, run.methods, run.device) == ([0, 1], ["solo", "fedavg"], "cpu")
    assert run.recipe.settings.rounds == 1
    assert run.scenario.name == "digits-mini"
    assert run.footer == "digits-mini · quick · seeds 0, 1"
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("environment: ") and len(lines) == 3
    assert run.scenario.fingerprint in lines[2]


def test_text_from_papermill_is_read_as_json():
    run = begin(seeds="[0,1,2]", methods='["solo"]', overrides='{"rounds": 4}')
    assert (run.seeds, run.methods, run.recipe.settings.rounds) == ([0, 1, 2], ["solo"], 4)
    assert begin(seeds="3").seeds == [3]
    assert begin(seeds=3, methods="solo").methods == ["solo"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"profle": "paper"}, "unknown parameter 'profle'(.|\n)*did you mean 'profile'"),
        ({"profile": "papr"}, "unknown profile 'papr'(.|\n)*did you mean 'paper'"),
        ({"scenario": "digit-mini"}, "unknown scenario(.|\n)*did you mean 'digits-mini'"),
        ({"methods": ["fedavgg"]}, "unknown method 'fedavgg'(.|\n)*did you mean 'fedavg'"),
        ({"methods": []}, "methods = "),
        ({"methods": "solo,fedavg"}, """not JSON(.|\n)*-p methods '\\["solo", "fedavg"\\]'"""),
        ({"methods": "[solo, fedavg]"}, """not JSON(.|\n)*-p methods '\\["solo", "fedavg"\\]'"""),
        ({"overrides": "rounds=4,lr=1"}, """not JSON(.|\n)*-p overrides '\\{"rounds": 4\\}'"""),
        ({"seeds": "0,1"}, 'not JSON(.|\n)*-p seeds "\\[0, 1, 2\\]"'),
        ({"device": "gpu"}, "unknown device 'gpu'"),
        ({"device": "cuda:97"}, "device 'cuda:97' is not there"),
        ({"device": 0}, "unknown device 0"),
        ({"seeds": "[0,"}, "not JSON"),
        ({"seeds": []}, "seeds = "),
        ({"seeds": [0, 0]}, "seeds = "),
        ({"seeds": [True]}, "seeds = "),
        ({"seeds": [-1]}, "seeds = "),
        ({"seeds": "zero"}, "seeds = 'zero'"),
        ({"overrides": {"ronds": 4}}, "unknown override 'ronds'(.|\n)*did you mean 'rounds'"),
        ({"overrides": '{"rounds": "4"}'}, "rounds = '4'"),
        ({"overrides": {"rounds": 0}}, "rounds = 0"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_error_that_says_what_was_meant(changes, message):
    with pytest.raises(SettingError, match=message):
        begin(**changes)


def test_a_missing_parameter_is_named():
    with pytest.raises(SettingError, match="'seeds' is missing"):
        start({k: v for k, v in GIVEN.items() if k != "seeds"}, recipe="start")


def test_the_cell_can_be_run_again():
    run = begin()
    again = start({**GIVEN, "run": run, "figure": 1, "results": {}}, recipe="start")
    assert again.recipe == run.recipe


def test_results_are_computed_once_and_changes_are_runs_of_their_own():
    run = begin(overrides={"rounds": 1, "local_epochs": 1, "scenario.private_size": 20})
    first = run("solo", 0)
    assert run("solo", 0) is first
    assert run("solo", 0, rounds=2).headline["round"] == 2
    other = run("solo", 0, **{"scenario.private_size": 30})
    assert other.scenario["fingerprint"] != first.scenario["fingerprint"]
    assert [r.seed for r in run.each("solo")] == [0, 1]
    assert list(run.all()) == ["solo", "fedavg"]


def test_an_error_in_a_notebook_has_no_stack_trace():
    with pytest.raises(SettingError) as caught:
        begin(profile="papr")
    (line,) = caught.value._render_traceback_()
    assert line.startswith("SettingError: unknown profile") and "Traceback" not in line


def test_a_lone_notebook_says_what_it_needs(tmp_path):
    """The start cell, run where there is no fedtutor to import."""
    folder = Path(__file__).parents[2] / "notebooks"
    for path in map(folder.joinpath, (f"{name}.ipynb" for name in frozen(folder))):
        cells = [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]
        source = "".join(cells[1]["source"])
        block = "import sys; sys.modules['fedtutor'] = None\n"
        done = subprocess.run([sys.executable, "-c", block + source], capture_output=True,
                              text=True, cwd=tmp_path)  # fmt: skip
        assert done.returncode == 1
        assert "pip install -r requirements.txt" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_run_can_be_watched_and_is_not_repeated():
    run = begin()
    rounds = run.watch("solo", 0, seen_round)
    assert rounds == [0, 1]
    result = run("solo", 0)
    assert run.watch("solo", 0, seen_round) is rounds and run("solo", 0) is result


def seen_round(fed) -> int:
    return fed.round_


def test_recorded_results_are_read_and_missing_ones_computed(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    small = {"rounds": 1, "local_epochs": 1, "scenario.private_size": 40}
    monkeypatch.setenv("FEDTUTOR_RECORD", "1")
    first = begin(seeds=[0]).recorded("solo", **small)
    monkeypatch.delenv("FEDTUTOR_RECORD")
    assert len(list(tmp_path.rglob("*.json"))) == 1
    run = begin(overrides={"rounds": 3})  # the reader's own overrides do not matter
    again = run.recorded("solo", **small)
    assert again[0] == first[0] and len(again) == 2 and run.recorded("solo", **small)[1] is again[1]
    assert len(list(tmp_path.rglob("*.json"))) == 1  # seed 1 was computed and is not kept
    assert setting(again) == "digits-mini · quick · seeds 0, 1"
    other = begin(seeds=[0]).recorded("solo", recipe="fccl", rounds=1, local_epochs=1)
    assert other[0].recipe == "fccl" and again[0].recipe == "start"
    fresh = begin(seeds=[0], overrides={"recompute": True}).recorded("solo", **small)
    assert fresh[0] is not first[0] and fresh[0].headline == first[0].headline


def test_seeds_that_only_short_runs_have_are_left_out_of_long_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    small = {"rounds": 1, "local_epochs": 1, "scenario.private_size": 40}

    def seeds_of(*asked, **options) -> list[int]:
        run = begin(seeds=list(asked))
        return [r.seed for r in run.recorded("solo", **small, **options)]

    assert seeds_of(0, 3) == [0, 3]  # nothing is there: all are computed
    monkeypatch.setenv("FEDTUTOR_RECORD", "1")
    monkeypatch.setattr(commits, "changed", lambda root=None: [])
    assert seeds_of(0) == [0]
    monkeypatch.delenv("FEDTUTOR_RECORD")
    assert seeds_of(0, 1, 3, 4) == [0, 1]  # 1 is computed
    assert seeds_of(3, seeds=[0, 3]) == [0, 3]  # asked for by its number
    monkeypatch.setenv("FEDTUTOR_RECORD", "1")
    assert seeds_of(4, seeds=[4]) == [4]
    monkeypatch.delenv("FEDTUTOR_RECORD")
    assert seeds_of(0, 3, 4) == [0, 4]


def test_results_of_the_papers_profile_are_kept_in_that_profile(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    monkeypatch.delenv("FEDTUTOR_RECORD", raising=False)
    scenario = "digits"  # the paper's, with the bundled images: others are refused in its profile

    def bundled(*, private_size: int = 40):
        return replace(scenarios.build("digits-mini", private_size=private_size), name=scenario)

    monkeypatch.setitem(scenarios.SCENARIOS, scenario, bundled)
    small = {"rounds": 1, "local_epochs": 1, "models": ["small_cnn"], "scenario.private_size": 40}
    asked = {"scenario": scenario, "seeds": [1], **small}
    quick, paper = begin(), begin(profile="paper", scenario=scenario, overrides={})
    (computed,) = quick.recorded("solo", profile="paper", **asked)
    paper.recorded("solo", **asked)
    assert (computed.profile, computed.seed) == ("paper", 1)
    assert not list(tmp_path.rglob("*.json"))  # neither is the other's own setting
    paper.recorded("solo", profile="paper", **asked)
    (path,) = tmp_path.rglob("*.json")
    assert path.parts[-3] == "paper"
    assert begin().recorded("solo", profile="paper", compute=False, **asked | {"seeds": [0]}) == []
    (read,) = begin().recorded("solo", profile="paper", compute=False, **asked | {"seeds": [0, 1]})
    assert read == results.load_result(path) and read.headline == computed.headline


def test_pretrained_networks_are_shared_by_the_runs_of_a_notebook():
    run = begin(seeds=[0])
    run("solo", 0, **{"solo.pretrain_epochs": 1})
    kept = dict(run.artifacts)
    run("fccl", 0, **{"fccl.pretrain_epochs": 1})
    assert len(kept) == 4 and run.artifacts.keys() == kept.keys()
