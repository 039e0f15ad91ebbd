"""What other code recorded is played again, from what each result says of itself."""

import json
from dataclasses import asdict, replace

import pytest

from fedtutor.__main__ import main
from fedtutor.experiments import again, recipes, results, stale
from fedtutor.experiments.run import run as train


@pytest.fixture(scope="module")
def played():
    """A result of the code of today, as small as the bundled data allow."""
    overrides = {"rounds": 1, "local_epochs": 1, "models": ["lenet5"]}
    recipe = recipes.load("start", profile="quick", overrides=overrides)
    return recipe, train(recipe, "solo", seed=0, threads=1)


def kept(result, recipe, folder, **environment):
    """The result below a folder; `environment`: what it says of its making."""
    changed = replace(result, environment={**result.environment, **environment})
    path = results.result_path(recipe, result.method, result.seed, folder=folder)
    results.save_result(changed, path)
    return path


OTHER = {"code": {"hash": "0" * 12, "files": {}}, "git": {"commit": "0" * 40, "dirty": False}}
OURS = {"git": {"commit": "0" * 40, "dirty": False}}


def test_what_is_of_today_and_committed_is_left_alone(played, tmp_path):
    recipe, result = played
    kept(result, recipe, tmp_path, **OURS)
    assert again.to_do(folder=tmp_path) == ([], [])


@pytest.mark.parametrize("made", [
    OTHER, {"code": None, **OURS}, {"git": {"commit": "0" * 40, "dirty": True}},
])  # fmt: skip
def test_stale_unknown_and_dirty_ones_are_to_be_done(played, tmp_path, made):
    recipe, result = played
    kept(result, recipe, tmp_path, **made)
    ((asked, method, seed, seconds),), lost = again.to_do(folder=tmp_path)
    assert asdict(asked.settings) == result.settings and asked.overrides == result.overrides
    took = result.totals["seconds"] + result.totals["start"]["cpu_seconds"]
    assert (method, seed, seconds) == ("solo", 0, took) and not lost
    assert again.to_do(folder=tmp_path, only="elsewhere") == ([], [])


def test_further_seeds_where_every_run_is_short(played, tmp_path):
    recipe, result = played
    kept(result, recipe, tmp_path, **OURS)
    wanted, _ = again.to_do(folder=tmp_path, seeds=(0, 3, 4), under=1e6)
    assert [run[2] for run in wanted] == [3, 4]
    assert again.to_do(folder=tmp_path, seeds=(3, 4), under=0) == ([], [])


def test_it_is_played_folded_and_then_settled(played, tmp_path, capsys):
    recipe, result = played
    path = kept(result, recipe, tmp_path, **OTHER)
    asked = ["again", "--results", str(tmp_path), "--seeds", "3", "--under", "1e6"]
    assert main([*asked, "--dry-run"]) == 0 and path.is_file()
    assert "2 runs to do" in capsys.readouterr().out
    assert main([*asked, "--at-once", "2"]) == 0
    (lines,) = tmp_path.rglob("*.jsonl")
    new = [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]
    assert not path.exists() and sorted(one["seed"] for one in new) == [0, 3]
    first = next(one for one in new if one["seed"] == 0)
    assert first["history"]["accuracy"] == result.history["accuracy"]
    assert first["environment"]["code"]["hash"] == result.environment["code"]["hash"]
    found = results.load_all(tmp_path).values()
    assert not any(stale.is_stale(one) for one in found)


def test_what_cannot_be_rebuilt_is_named(played, tmp_path, capsys):
    recipe, result = played
    other = replace(result, settings={**result.settings, "lr": 0.5})
    kept(other, recipe, tmp_path, **OTHER)
    assert main(["again", "--results", str(tmp_path)]) == 0
    assert "cannot be rebuilt" in capsys.readouterr().out
