"""A rehearsal plays two rounds, from a checkpoint, and says what it saw; it can fail."""

import json
import math
from dataclasses import dataclass

import pytest
import torch
from support.federations import InThisProcess, assert_same_bits, tiny_scenario, weights_of

from fedtutor import methods, rounds, scenarios
from fedtutor.errors import ModelError, SettingError, StorageError, TrainingError
from fedtutor.experiments import jobs, recipes, rehearsal
from fedtutor.experiments.rehearsal import play, reduced, rehearse, table
from fedtutor.federation import Federation
from fedtutor.methods import Method
from fedtutor.methods.shared import pretraining
from tools import record

LINEAR = {"models": ["linear"], "batch_size": 8}


@pytest.fixture
def tiny(monkeypatch):
    """A scenario that takes no time."""
    monkeypatch.setitem(scenarios.SCENARIOS, "tiny", lambda: tiny_scenario())


@pytest.fixture
def recipe(tiny):
    overrides = {"rounds": 2, "eval_every": 2, **LINEAR}
    return recipes.load("start", profile="quick", scenario="tiny", overrides=overrides)


@pytest.fixture
def careless(monkeypatch):
    """A method with one hook replaced."""

    def make(**hooks):
        made = dataclass(type("Careless", (Method,), {"name": "careless", **hooks}))
        monkeypatch.setitem(methods.METHODS, "careless", made)
        return "careless"

    return make


def both(recipe, method, folder, **options):
    one = play(recipe, method, 1, checkpoint=folder, **options)
    two = play(recipe, method, 2, checkpoint=folder, **options)
    return one, two


# --- one round


@pytest.mark.parametrize("method", ["solo", "central", "fedavg", "fedmd"])
def test_round_two_goes_on_from_the_checkpoint(method, recipe, tmp_path):
    one, two = both(recipe, method, tmp_path)
    assert one["data"] == two["data"]
    assert one["data"]["clients"] == one["data"]["tests"] == ["domain0", "domain1", "domain2"]
    assert one["data"]["private"] == [24, 27, 30] and one["data"]["test"] == [30, 30, 30]
    assert one["data"]["public"] == 20
    assert one["data"]["stand_in"] and one["data"]["size"] == 4
    assert [r["round"]["number"] for r in (one, two)] == [1, 2]
    for entry in (one["round"], two["round"]):
        trained = [loss for loss in entry["loss"] if loss is not None]
        assert len(trained) == (1 if method == "central" else 3)
        assert all(math.isfinite(loss) for loss in trained)
        assert entry["seconds"] > 0 and entry["preparation"] > 0 and entry["peak_memory"] > 1e6
        assert entry["cpu_seconds"] > 0
        assert all((loss is not None) == (method == "fedmd") for loss in entry["public_loss"])
    assert sorted(path.name[:8] for path in tmp_path.iterdir()) == ["round-00", "round-00"]


@pytest.mark.parametrize("method", ["solo", "central", "fedavg", "fedmd"])
def test_both_rounds_train_and_end_where_a_run_in_one_piece_does(
    method, recipe, tmp_path, monkeypatch
):
    ends, run = [], rounds.run

    def kept(fed, **options):
        history = run(fed, **options)
        ends.append({name: value.clone() for name, value in weights_of(fed).items()})
        return history

    monkeypatch.setattr(rounds, "run", kept)
    both(recipe, method, tmp_path)
    whole = Federation(tiny_scenario(), methods.make(method), recipe.settings)
    before = {name: value.clone() for name, value in weights_of(whole).items()}
    run(whole)
    assert_same_bits(weights_of(whole), ends[1])
    everybody = {"domain0", "domain1", "domain2"}
    for one, two in ((before, ends[0]), (ends[0], ends[1])):
        changed = {name for name in two if name in one and not torch.equal(one[name], two[name])}
        learned = {name.partition("/")[0] for name in changed} - {"server"}
        assert learned == ({"domain0"} if method == "central" else everybody)


def test_without_its_checkpoint_round_two_is_refused(recipe, tmp_path):
    with pytest.raises(TrainingError, match="round 1 was played instead"):
        play(recipe, "fedavg", 2, checkpoint=tmp_path)


def test_a_third_round_is_refused(recipe, tmp_path):
    both(recipe, "fedavg", tmp_path)
    with pytest.raises(TrainingError, match="round None was played instead"):
        play(recipe, "fedavg", 3, checkpoint=tmp_path)


@pytest.mark.parametrize("number, error, said, where", [
    (1, TrainingError, "a weight of client domain0 is not finite", "careless, round 1"),
    (2, ModelError, "the network of client domain0 holds nan or infinity",
     "careless, round 2, evaluation at 'end'"),  # before the last round nobody is tested
])  # fmt: skip
def test_a_weight_that_is_not_finite_is_noticed(
    number, error, said, where, recipe, careless, tmp_path
):
    @torch.no_grad()
    def after_local(self, client):
        if client.round_ == number:
            client.model.classifier.bias[0] = math.inf

    name = careless(after_local=after_local)
    with pytest.raises(error, match=said) as caught:
        both(recipe, name, tmp_path)
    assert caught.value.where == where


@pytest.mark.parametrize("number", [1, 2])
def test_a_loss_that_is_not_finite_is_noticed(number, recipe, careless, tmp_path):
    def local_loss(self, client, x, y):
        more = math.inf if client.round_ == number else 0.0
        return Method.local_loss(self, client, x, y) + more

    with pytest.raises(TrainingError, match=r"loss .* is inf") as caught:
        both(recipe, careless(local_loss=local_loss), tmp_path)
    assert f"round {number}" in str(caught.value)


# --- all methods, in processes of their own


def test_a_rehearsal_from_the_command_line(tmp_path, capsys):
    small = {"scenario.private_size": 20, "models": ["small_cnn"], "solo.pretrain_epochs": 1}
    words = ["rehearse", "fccl", "--profile", "quick", "--device", "cpu", "--methods", "solo"]
    words += ["--output", str(tmp_path), "--overrides", json.dumps(small)]
    assert record.main(words) == 0
    printed = capsys.readouterr().out
    assert "solo: rounds of" in printed and "peak (GB)" in printed
    path = tmp_path / "fccl-digits-mini.json"
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    value = json.loads(path.read_text())
    assert (value["recipe"], value["scenario"]) == ("fccl", "digits-mini")
    (solo,) = value["rows"]
    assert solo["error"] is None and [r["number"] for r in solo["rounds"]] == [1, 2]
    assert solo["data"]["private"] == [20] * 4
    assert solo["reduced"]["solo.pretrain_epochs"] == [10, 1]
    assert solo["environment"]["torch"] == torch.__version__
    assert str(tmp_path) not in path.read_text()


@pytest.fixture
def here(monkeypatch, tiny, tmp_path):
    """Rehearse the methods of FCCL in this process, on the tiny scenario."""
    monkeypatch.setattr(jobs, "Job", InThisProcess)

    def call(*names, folder=tmp_path / "out", artifacts=None, **more):
        overrides = {**LINEAR, **{f"{name}.pretrain_epochs": 1 for name in names}, **more}
        return rehearse(
            "fccl", names=names, profile="quick", scenario="tiny", overrides=overrides,
            folder=folder, artifacts=artifacts, threads=1, say=lambda words: None,
        )  # fmt: skip

    return call


def test_an_error_of_one_method_stops_no_other(here):
    failed, solo = here("fccl", "solo", **{"fccl.lambda_col": 1e300})
    assert failed["method"] == "fccl" and "rounds" not in failed
    assert failed["error"].startswith("DivergenceError: the public loss of client domain0 is inf")
    assert solo["method"] == "solo" and solo["error"] is None


def test_a_killed_process_is_told_from_an_error(here, monkeypatch):
    def killed(*arguments, **options):
        raise jobs.Killed("its process ended with -9")

    monkeypatch.setattr(rehearsal, "play", killed)
    (row,) = here("solo")
    assert row["error"] == "the process of round 1 was killed: too little memory?"


def test_pretraining_is_done_once_for_all_methods(here, monkeypatch, tmp_path):
    trained, train = [], pretraining._train
    monkeypatch.setattr(
        pretraining, "_train", lambda c, *more: trained.append(c.id) or train(c, *more)
    )
    assert not any(row["error"] for row in here("solo", "fccl"))
    assert trained == ["domain0", "domain1", "domain2"]
    for _ in range(2):
        here("solo", artifacts=tmp_path / "shared")
    assert len(trained) == 6 and len(list((tmp_path / "shared").glob("*.pt"))) == 3


def test_the_exit_status_says_that_a_method_failed(here, tmp_path, capsys):
    words = ["rehearse", "fccl", "--profile", "quick", "--scenario", "tiny", "--methods", "solo"]
    words += ["--output", str(tmp_path), "--overrides", '{"models": ["linear", "linear"]}']
    assert record.main(words) == 1
    assert "SettingError: 2 networks for 3 clients" in capsys.readouterr().out


@pytest.fixture
def at_once(monkeypatch):
    """Rows without processes: what `_played` returns is given."""
    answers = {}

    def played(recipe, method, **options):
        entry = {"preparation": 9.0, "seconds": 1.5, "cpu_seconds": 3.0, "peak_memory": 2 * 10**9}
        data = {"private": [30, 4], "public": 5, "test": [6]}
        good = {"error": None, "data": data, "rounds": [entry, {**entry, "seconds": 2.5}]}
        return answers.get(method, good)

    monkeypatch.setattr(rehearsal, "_played", played)
    return answers


def test_rows_are_replaced_by_what_is_rehearsed_again(at_once, tmp_path):
    options = {"profile": "quick", "folder": tmp_path, "say": lambda words: None}
    at_once["fedmd"] = {"error": "TrainingError: bad"}
    rehearse("fccl", names=["fedmd", "solo"], threads=2, **options)
    rehearse("fccl", names=["solo"], overrides={"lr": 0.01}, **options)
    rehearse("fccl", names=["solo"], threads=1, **options)
    at_once.clear()
    rehearse("fccl", names=["fedmd"], threads=2, **options)
    rehearse("start", names=["solo"], **options)
    found = table("fccl", folder=tmp_path)
    assert list(found["method"]) == ["solo"] * 3 + ["fedmd"] and not any(found["error"])
    assert list(found["peak (GB)"]) == [2.0] * 4 and list(found["round 2 (s)"]) == [2.5] * 4
    assert found["reduced"][0] == "eval_every 1 → 2; rounds 20 → 2"
    assert found["reduced"][1] == "eval_every 1 → 2; lr 0.003 → 0.01; rounds 20 → 2"
    assert found["private images"][0] == "30, 4" and found["public images"][0] == 5
    assert found["batches"][0] == "32 private, 64 public"
    assert list(table("start", folder=tmp_path)["method"]) == ["solo"]


def test_a_failed_method_is_a_row_of_the_table(at_once, tmp_path):
    at_once["fedmd"] = {"error": "TrainingError: bad"}
    rehearse("fccl", names=["fedmd"], profile="quick", folder=tmp_path, say=lambda words: None)
    row = table("fccl", folder=tmp_path).iloc[0]
    assert row["error"] == "TrainingError: bad" and row["peak (GB)"] is None


def test_without_names_all_methods_of_the_recipe_have_their_turn(at_once, tmp_path):
    said = []
    rows = rehearse("fccl", profile="quick", folder=tmp_path, say=said.append)
    assert [row["method"] for row in rows] == list(recipes.load("fccl", profile="quick").methods)
    assert said[0] == "solo: rounds of 1.5 and 2.5 s, 2.00 GB"


def test_what_is_smaller_than_in_the_recipe_is_written_down():
    full = recipes.load("fccl", profile="paper")
    here = recipes.load("fccl", profile="paper", scenario="digits-partial", overrides={
        "scenario.public_size": 1024, "scenario.test_size": 500, "fccl.pretrain_epochs": 1,
        "solo.pretrain_epochs": 1, "batch_size": 512})  # fmt: skip
    assert reduced(full, here, "fccl") == {
        "scenario": ["digits", "digits-partial"], "scenario.public": ["cifar100", "tiny-imagenet"],
        "scenario.public_size": [5000, 1024], "scenario.test_size": [None, 500],
        "fccl.pretrain_epochs": [50, 1],
    }  # fmt: skip
    assert reduced(full, full, "fccl") == {}


# --- bad input


@pytest.mark.parametrize("name, options, hint", [
    ("fcl", {}, "did you mean 'fccl'"),
    ("fccl", {"names": ["fedmdd"]}, "did you mean 'fedmd'"),
    ("fccl", {"scenario": "digits-parts"}, "did you mean 'digits-partial'"),
    ("fccl", {"overrides": {"round": 1}}, "did you mean 'rounds'"),
    ("fccl", {"overrides": "x"}, "overrides is a str"),
    ("fccl", {"profile": "papr"}, "did you mean 'paper'"),
])  # fmt: skip
def test_a_wrong_call_is_one_clear_error(name, options, hint, tmp_path):
    with pytest.raises(SettingError, match=hint):
        rehearse(name, folder=tmp_path, **options)
    assert not list(tmp_path.iterdir())


def test_no_rehearsal_and_a_damaged_one_are_clear_errors(at_once, tmp_path):
    with pytest.raises(StorageError, match=r"python -m tools\.record rehearse fccl"):
        table("fccl", folder=tmp_path)
    rehearse("fccl", names=["solo"], profile="quick", folder=tmp_path, say=lambda words: None)
    path = tmp_path / "fccl-digits-mini.json"
    for text in (path.read_text()[:-9], "[]", '{"format": 2}'):
        path.write_text(text)
        with pytest.raises(StorageError, match="damaged"):
            table("fccl", folder=tmp_path)
