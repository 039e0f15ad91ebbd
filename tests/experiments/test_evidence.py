"""Results keep what a number depends on, come back as they were, and refuse to be damaged."""

import json
import os
import sys
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.recorded import ROUNDS, SCENARIO, git, history, made, recipe

from fedtutor import scenarios
from fedtutor.engine.checkpoints import Checkpoints
from fedtutor.errors import SettingError, StorageError
from fedtutor.experiments import environment as machine
from fedtutor.experiments import results
from fedtutor.experiments import run as running
from fedtutor.experiments.commits import git_commit
from fedtutor.experiments.environment import environment, peak_memory
from fedtutor.experiments.results import (
    RESULTS,
    accuracies,
    load_result,
    result_path,
    save_result,
)
from fedtutor.experiments.run import run

shares = st.floats(0, 1)


# --- what is in a result


def test_the_last_round_is_the_headline_and_the_best_is_beside_it():
    r = made()
    assert r.headline == {"round": 2, "intra": 0.8, "inter": 0.45, "worst": 0.7}
    assert r.best == {"round": 1, "intra": pytest.approx(0.85), "inter": 0.25, "worst": 0.8}


def test_only_states_after_a_round_count():
    assert [row["round"] for row in accuracies(history(*ROUNDS))] == [1, 2]


def test_one_test_set_has_no_inter_domain_accuracy():
    r = made(rounds=([[0.5], [0.7]],), tests=("mnist",))
    assert r.headline == {"round": 1, "intra": 0.6, "inter": None, "worst": 0.5}


def test_totals_are_counted_per_direction():
    r = made()
    assert r.totals["bytes"] == {"up": 150, "down": 300, "peer": 0}
    assert r.totals["seconds"] == 0.75 and r.totals["peak_memory"] > 1e6


def test_settings_parameters_and_data_are_resolved():
    r = made("fedprox", given=recipe(overrides={"fedprox.mu": 0.5, "lr": 0.1}))
    assert r.parameters["mu"] == 0.5 and r.parameters["weighting"] == "samples"
    assert r.settings == asdict(recipe(overrides={"lr": 0.1}).settings)
    assert r.overrides == {"fedprox.mu": 0.5, "lr": 0.1}
    options = {"private_size": 320, "split_seed": 0}
    assert r.scenario == {"name": "digits-mini", "title": "a stand-in", "options": options,
                          "stand_in": True, "fingerprint": "0123456789ab"}  # fmt: skip


def test_the_environment_names_versions_and_no_machine():
    found = environment(threads=3)
    assert found["torch"] == torch.__version__ and found["threads"] == 3
    assert {"python", "torchvision", "numpy", "platform", "device", "git"} <= set(found)
    text = json.dumps(asdict(made()))
    assert "/" + os.path.join(*os.getcwd().split("/")[:2]) + "/" not in text
    assert os.uname().nodename not in text and os.path.expanduser("~") + "/" not in text


@pytest.mark.skipif(sys.platform != "linux", reason="asks the Linux kernel")
def test_peak_memory_is_that_of_the_process_in_bytes():
    lines = Path("/proc/self/status").read_text().splitlines()
    kilobytes = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    assert peak_memory() == pytest.approx(1024 * kilobytes, rel=0.2)


# --- the commit


def test_the_commit_is_dirty_where_code_or_recipes_differ(tmp_path):
    assert git_commit(tmp_path) is None  # no clone
    git(tmp_path, "init", "-q")
    assert git_commit(tmp_path) is None  # no commit
    code = tmp_path / "fedtutor" / "losses.py"
    code.parent.mkdir()
    code.write_text("1")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    clean = git_commit(tmp_path)
    assert len(clean["commit"]) == 40 and clean["dirty"] is False
    (tmp_path / "result.json").write_text("{}")
    assert git_commit(tmp_path) == clean
    code.write_text("2")
    assert git_commit(tmp_path) == {**clean, "dirty": True}
    assert git_commit(code.parent) is None  # inside another clone


def test_no_git_is_no_commit(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_commit() is None


# --- round trip, and files that are not whole


def test_a_result_comes_back_as_it_was(tmp_path):
    r = made()
    path = result_path(recipe(), "fedavg", 0, folder=tmp_path)
    save_result(r, path)
    assert load_result(path) == r
    assert [p.name for p in path.parent.iterdir()] == ["fedavg-seed0.json"]


@given(st.lists(st.lists(st.lists(shares, min_size=2, max_size=2), min_size=2, max_size=2),
                min_size=1, max_size=4), st.integers(0, 2**31))  # fmt: skip
def test_any_history_comes_back_as_it_was(tmp_path_factory, rounds, seed):
    path = tmp_path_factory.mktemp("r") / "r.json"
    r = made(rounds=rounds, seed=seed)
    save_result(r, path)
    assert load_result(path) == r


def test_the_place_of_a_result():
    path = result_path(recipe(), "fccl+", 3)
    assert path == RESULTS / "start" / "quick" / "digits-mini" / "fccl+-seed3.json"


def test_a_trial_never_takes_the_place_of_the_recipes_own_result():
    own = result_path(recipe(), "fedprox", 0)
    names = {own}
    for overrides in ({"rounds": 1}, {"rounds": 2}, {"fedprox.mu": 1.0},
                      {"scenario.private_size": 9}):  # fmt: skip
        names.add(result_path(recipe(overrides=overrides), "fedprox", 0))
    assert len(names) == 5
    for overrides in ({"recompute": True}, {"fedavg.weighting": "uniform"}):
        assert result_path(recipe(overrides=overrides), "fedprox", 0) == own


def saved(tmp_path):
    path = tmp_path / "r.json"
    save_result(made(), path)
    return path, json.loads(path.read_text())


@pytest.mark.parametrize("cut", [0, 1, 100, -3])
def test_a_truncated_result_is_one_clear_error(cut, tmp_path):
    path, _ = saved(tmp_path)
    path.write_text(path.read_text()[:cut])
    with pytest.raises(StorageError, match="run again"):
        load_result(path)


def test_a_missing_result_says_to_run_the_experiment(tmp_path):
    with pytest.raises(StorageError, match="run the experiment"):
        load_result(tmp_path / "r.json")


def without(key):
    return lambda v: v.pop(key)


def to(value, *keys):
    def change(v):
        for key in keys[:-1]:
            v = v[key]
        v[keys[-1]] = value

    return change


@pytest.mark.parametrize("change, hint", [
    *[(without(key), key) for key in ("seed", "history", "settings", "totals", "environment")],
    (without("format"), "not a result"),
    (to(99, "format"), "format 99"),
    (to("0", "seed"), "seed"),
    (to(True, "seed"), "seed"),
    (to([], "history"), "history"),
    (to(1, "colour"), "colour"),
    (lambda v: v["history"].pop("clients"), "clients"),
    (lambda v: v["scenario"].pop("fingerprint"), "fingerprint"),
    (lambda v: v["environment"].pop("torch"), "torch"),
    (lambda v: v["totals"].pop("bytes"), "bytes"),
    (to([], "history", "accuracy"), "headline"),
    (to([{}], "history", "accuracy"), "matrix"),
    (to(3, "history", "accuracy"), "damaged"),
    (to([[0.5, 0.5]], "history", "accuracy", 4, "matrix"), "wrong shape"),
    (to([[0.5], [0.5]], "history", "accuracy", 4, "matrix"), "wrong shape"),
    (to([[0.5, 0.5], [0.5, 1.5]], "history", "accuracy", 4, "matrix"), "outside 0 to 1"),
    (to([[0.5, 0.5], [0.5, float("nan")]], "history", "accuracy", 4, "matrix"), "damaged"),
    (to([[0.5, 0.5], [0.5, "0.5"]], "history", "accuracy", 4, "matrix"), "damaged"),
    (to([[0.5, 0.5], None], "history", "accuracy", 4, "matrix"), "damaged"),
    (to(["elsewhere", "usps"], "history", "domains"), "damaged"),
    (to(float("nan"), "history", "loss", 0, "values", 0), "damaged"),
    (to(0.99, "headline", "intra"), "headline"),
    (to(7, "best", "round"), "headline"),
])  # fmt: skip
def test_a_wrong_result_is_one_clear_error(change, hint, tmp_path):
    path, value = saved(tmp_path)
    change(value)
    path.write_text(json.dumps(value))
    with pytest.raises(StorageError) as error:
        load_result(path)
    assert hint in str(error.value) and "run again" in str(error.value)


@pytest.mark.parametrize("content", ["[]", "3", "null", '"text"', "{}"])
def test_json_that_is_no_result_is_one_clear_error(content, tmp_path):
    (tmp_path / "r.json").write_text(content)
    with pytest.raises(StorageError, match="not a result"):
        load_result(tmp_path / "r.json")


def test_a_result_that_is_not_whole_is_not_written(tmp_path):
    broken = replace(made(), totals={"seconds": float("nan"), "peak_memory": 1, "bytes": {}})
    with pytest.raises(StorageError, match="not whole"):
        save_result(broken, tmp_path / "r.json")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_to_is_one_clear_error(tmp_path):
    (tmp_path / "start").write_text("a file where a folder should be")
    with pytest.raises(StorageError, match="another output folder"):
        save_result(made(), result_path(recipe(), "fedavg", 0, folder=tmp_path))


# --- running


@pytest.fixture
def played(monkeypatch):
    """`rounds.run` and the federation replaced; the list says what was played."""
    calls = []

    def federation(scenario, method, settings, *, seed, device, threads, artifacts=None):
        return SimpleNamespace(scenario=scenario, method=method, settings=settings, seed=seed,
                               device=device, threads=threads)  # fmt: skip

    def play(fed, *, checkpoint, progress):
        calls.append((fed.method.name, fed.seed))
        assert list(progress(range(2))) == [0, 1] and fed.threads >= 1
        return history(*ROUNDS)

    monkeypatch.setattr(running, "Federation", federation)
    monkeypatch.setattr(running.rounds, "run", play)
    return calls


def test_a_run_returns_and_keeps_its_result(played, tmp_path):
    r = run(recipe(), "fedprox", seed=2, scenario=SCENARIO, folder=tmp_path, threads=2)
    assert played == [("fedprox", 2)] and (r.method, r.seed) == ("fedprox", 2)
    assert load_result(tmp_path / "start/quick/digits-mini/fedprox-seed2.json") == r
    assert run(recipe(), "solo", seed=0, scenario=SCENARIO).method == "solo"


def test_a_run_on_other_data_than_the_recipes_is_refused(played):
    with pytest.raises(SettingError, match="mnist-mini"):
        run(recipe(scenario="mnist-mini"), "solo", seed=0, scenario=SCENARIO)


@pytest.mark.parametrize("name", ["fedavgg", "", None])
def test_an_unknown_method_is_refused(played, name):
    with pytest.raises(SettingError, match="choose one of"):
        run(recipe(), name, seed=0, scenario=SCENARIO)


def test_a_recorded_result_is_found_whatever_is_changed_elsewhere(played, tmp_path):
    for method in ("solo", "fedavg"):
        run(recipe(), method, seed=0, scenario=SCENARIO, folder=tmp_path)

    def there(**more):
        asked = recipe(**more)
        return [name for name in ("solo", "fedavg")
                if results.recorded(asked, name, 0, folder=tmp_path)]  # fmt: skip

    assert there() == there(overrides={"recompute": True}) == ["solo", "fedavg"]
    assert there(overrides={"fedprox.mu": 1.0}) == ["solo", "fedavg"]  # concerns neither
    assert there(overrides={"fedavg.weighting": "uniform"}) == ["solo"]
    assert there(overrides={"rounds": 3}) == []
    (tmp_path / "start/quick/digits-mini/solo-seed0.json").unlink()
    assert there() == ["fedavg"]


@pytest.mark.parametrize("keys, value", [
    (("settings", "lr"), 0.9), (("parameters", "mu"), 9.0), (("scenario", "options", "beta"), 9.0),
    (("seed",), 1), (("method",), "fedavg"),
])  # fmt: skip
def test_a_result_of_another_recipe_is_not_the_recorded_one(played, tmp_path, keys, value):
    run(recipe(), "fedprox", seed=0, scenario=SCENARIO, folder=tmp_path)
    path = result_path(recipe(), "fedprox", 0, folder=tmp_path)
    content = json.loads(path.read_text())
    to(value, *keys)(content)
    path.write_text(json.dumps(content))
    assert results.recorded(recipe(), "fedprox", 0, folder=tmp_path) is None


def test_a_scenario_option_younger_than_a_result_counts_as_its_default(played, tmp_path):
    run(recipe(), "fedprox", seed=0, scenario=SCENARIO, folder=tmp_path)
    path = result_path(recipe(), "fedprox", 0, folder=tmp_path)
    content = json.loads(path.read_text())
    options, defaults = content["scenario"]["options"], scenarios.options("digits-mini")
    kept = {name: v for name, v in options.items() if v != defaults[name]}
    assert kept != options
    path.write_text(json.dumps({**content, "scenario": {**content["scenario"], "options": kept}}))
    assert results.recorded(recipe(), "fedprox", 0, folder=tmp_path) is not None
    content["scenario"]["options"] = {**options, "split_seed": 9}
    path.write_text(json.dumps(content))
    assert results.recorded(recipe(), "fedprox", 0, folder=tmp_path) is None


# --- memory


def test_memory_is_unknown_where_the_system_does_not_count_it(monkeypatch):
    monkeypatch.setattr(machine.Path, "exists", lambda path: False)
    monkeypatch.setitem(sys.modules, "resource", None)
    assert peak_memory() is None


def test_memory_is_the_largest_that_this_process_had():
    before = peak_memory()
    size = before + 100_000_000  # more than ever before, whatever is held now
    torch.ones(size // 4)
    assert size <= peak_memory() <= before + size + 1_000_000  # the system counts in lots


# --- the real thing, once


def test_a_real_run_gives_a_whole_result_and_goes_on_from_a_checkpoint(tmp_path):
    overrides = {"rounds": 2, "local_epochs": 1, "scenario.num_clients": 2,
                 "scenario.private_size": 64}  # fmt: skip
    small = recipe(scenario="mnist-mini", overrides=overrides)
    state = Checkpoints(tmp_path / "state", every=0)
    first = run(small, "fedavg", seed=1, threads=1, folder=tmp_path, checkpoint=state)
    assert load_result(result_path(small, "fedavg", 1, folder=tmp_path)) == first
    assert first.headline["round"] == 2 and first.scenario["options"]["num_clients"] == 2
    sent = first.totals["bytes"]
    assert sent["up"] == sent["down"] + 2 * 8 > 16  # the two image counts
    again = run(small, "fedavg", seed=1, threads=2, checkpoint=state)
    assert again.history == first.history  # nothing was left to play
    fresh = run(small, "fedavg", seed=1, threads=2)
    assert fresh.history["accuracy"] == first.history["accuracy"]
    assert first.scenario["options"]["split_seed"] == 1
    assert first.scenario["fingerprint"] == small.build(1).fingerprint != small.build().fingerprint
