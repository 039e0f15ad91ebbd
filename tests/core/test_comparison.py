"""Runs side by side: the numbers of plain runs, each run once, and what is told of them."""

import json
import subprocess
import sys
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from support.federations import tiny_scenario

from fedtutor import comparison, methods, scenarios, tasks
from fedtutor.comparison import compare
from fedtutor.difference import Difference
from fedtutor.engine import checkpoints
from fedtutor.engine.files import ROOT
from fedtutor.errors import (
    DataError,
    DivergenceError,
    FedtutorError,
    ModelError,
    SettingError,
    StorageError,
    TrainingError,
)
from fedtutor.experiments import recipes
from fedtutor.experiments.results import recorded
from fedtutor.federation import Federation
from fedtutor.history import OTHERS, OWN
from fedtutor.images import Images
from fedtutor.methods import METHODS
from fedtutor.methods.fedavg import FedAvg
from fedtutor.rounds import run
from fedtutor.settings import Settings
from fedtutor.tasks import FILE, UNFINISHED

TINY = tiny_scenario()
SET = {"rounds": 2, "batch_size": 8, "lr": 0.05, "models": ["linear"], "jobs": 1}


@pytest.fixture(autouse=True)
def nothing_ran_before(monkeypatch):
    monkeypatch.setattr(tasks, "_here", {})


@pytest.fixture
def trained(monkeypatch) -> list:
    """Grows by (label, seed) with every run that is played in this process."""
    played, train = [], tasks.train

    def noted(task, *rest):
        played.append((task.label, task.seed))
        return train(task, *rest)

    monkeypatch.setattr(tasks, "train", noted)
    return played


def tiny(given, **options):
    return compare(given, **{"scenario": TINY, "seeds": 2, **SET, **options})


def bits(runs) -> list:
    """Everything but the time that it took."""
    return [
        (task.label, task.seed, {**record["history"], "seconds": 0}) for task, record in runs.pairs
    ]


# --- the numbers are those of plain runs


def plain(name: str, seed: int, **changes) -> dict:
    given = {k: v for k, v in SET.items() if k != "jobs"} | changes
    fed = Federation(TINY, methods.make(name), Settings(**given), seed=seed)
    return {**run(fed), "seconds": 0}


def test_a_run_has_the_bits_of_a_plain_one_whatever_it_is_called():
    runs = tiny({"one": "fedavg", "two": methods.make("scaffold")}, seeds=[0, 3])
    wanted = [
        ("one", 0, "fedavg"),
        ("one", 3, "fedavg"),
        ("two", 0, "scaffold"),
        ("two", 3, "scaffold"),
    ]
    assert bits(runs) == [(label, seed, plain(name, seed)) for label, seed, name in wanted]


@pytest.mark.slow
def test_processes_change_no_bit(tmp_path):
    one = tiny(["fedavg", "fedprox"], seeds=range(2), folder=tmp_path / "a")
    two = tiny(["fedavg", "fedprox"], seeds=range(2), folder=tmp_path / "b", jobs=2)
    assert bits(one) == bits(two)
    assert [r["failed"] for r in two.runs.to_dict("records")] == [""] * 4


def test_the_tables_say_what_the_histories_hold():
    runs = tiny(["fedavg", "solo"], seeds=[5, 2, 9])
    own, others = {}, {}
    for task, record in runs.pairs:
        matrix = np.array(record["history"]["accuracy"][-1]["matrix"])
        own[task.label, task.seed] = 100 * np.diag(matrix).mean()
        others[task.label, task.seed] = 100 * matrix[~np.eye(3, dtype=bool)].mean()
    for on, wanted in (("own", own), (OWN, own), ("others", others), (OTHERS, others)):
        found = runs.values(on)
        assert list(found) == ["fedavg", "solo"] and sorted(found.index) == [2, 5, 9]
        assert all(found[m][s] == pytest.approx(v) for (m, s), v in wanted.items())
    values = [own["fedavg", seed] for seed in (2, 5, 9)]
    row = runs.table().loc["fedavg"]
    assert row["mean"] == pytest.approx(np.mean(values)) and (row["n"], row["failed"]) == (3, 0)
    assert (row["low"], row["high"]) == pytest.approx(Difference(values).interval())
    found = runs.difference("fedavg", "solo", "others")
    assert found.values == pytest.approx(
        [others["fedavg", s] - others["solo", s] for s in (2, 5, 9)]
    )
    assert (found.a, found.b, found.on, found.margin) == ("fedavg", "solo", OTHERS, 1.0)
    assert runs.difference("fedavg", "solo", margin=2.0).margin == 2.0
    sent = runs.messages.groupby(["method", "seed"])["bytes"].sum()
    assert set(runs.runs[runs.runs.method == "fedavg"]["bytes"]) == set(sent["fedavg"]) != {0}
    assert len(runs.history) == 3 * 2 * 3 * 9


def test_an_accuracy_can_be_the_mean_over_the_last_evaluated_rounds():
    runs = tiny(["fedavg", "solo"], seeds=[0, 1])
    made = {"fedavg": [9, 10, 20, 60], "solo": [9, 5, 25, 30]}  # per cent, round 0 first
    for task, record in runs.pairs:
        levels = [(level + task.seed) / 100 for level in made[task.label]]
        record["history"] = record["history"] | {"accuracy": [
            {"round": 2 * r, "moment": moment, "epoch": None,
             "matrix": [[level, level / 2, level / 2]] * 3 if moment == "end" else [[1.0] * 3] * 3}
            for r, level in enumerate(levels)
            for moment in ("after_collaborate", "end")[r == 0 :]
        ]}  # fmt: skip
        record["history"]["domains"] = ["domain0"] * 3
    for last, fedavg, solo in ((1, 60, 30), (2, 40, 27.5), (3, 30, 20)):
        assert list(runs.values(last=last)["fedavg"]) == pytest.approx([fedavg, fedavg + 1])
        assert runs.table(last=last)["mean"].tolist() == pytest.approx([fedavg + 0.5, solo + 0.5])
        others = runs.difference("fedavg", "solo", on="others", last=last)
        assert others.values == pytest.approx([(fedavg - solo) / 2] * 2)
    assert list(runs.runs[OWN]) == list(runs.values(last=1).to_numpy().T.flatten())
    with pytest.raises(SettingError, match=r"last = 4, but fedavg was evaluated after 3 rounds"):
        runs.table(last=4)
    with pytest.raises(SettingError, match="last = 0"):
        runs.table(last=0)


def test_a_run_of_top_answers_says_so():
    plain, top = tiny("solo", seeds=[0]), tiny("solo", seeds=[0], top=2)
    assert top.runs[OWN][0] > plain.runs[OWN][0]
    assert top.setting[0].endswith(", top-2 accuracy") and "top" not in plain.setting[0]
    assert top.curves().axes[0].get_ylabel() == "top-2 accuracy (%)"
    with pytest.raises(SettingError, match="top = 4 for 3 classes"):
        tiny("solo", seeds=[0], top=4)


def test_one_test_set_has_no_other_domains():
    one = replace(
        TINY,
        tests={"all": TINY.tests["domain0"]},
        clients=tuple(replace(c, domain="all") for c in TINY.clients),
    )
    runs = tiny("fedavg", scenario=one)
    assert runs.runs[OTHERS].isna().all() and runs.runs[OWN].notna().all()
    table = runs.table("others")
    assert table.loc["fedavg", "n"] == 0 and np.isnan(table.loc["fedavg", "mean"])


def test_one_seed_has_no_interval():
    row = tiny("fedavg", seeds=[4]).table().loc["fedavg"]
    assert row["n"] == 1 and np.isnan(row["low"]) and row["mean"] > 0


# --- once is enough


def test_what_ran_is_not_run_again(trained):
    first = tiny(["fedavg", "fedprox"], seeds=range(2))
    again = tiny(["fedavg", "fedprox", "solo"], seeds=range(3))
    assert len(trained) == 9 and len(set(trained)) == 9
    assert bits(first) == [row for row in bits(again) if row[0] != "solo" and row[1] < 2]


def test_a_folder_is_read_by_another_session(trained, tmp_path, monkeypatch):
    first = tiny("fedavg", seeds=range(2), folder=tmp_path)
    monkeypatch.setattr(tasks, "_here", {})
    again = tiny({"called otherwise": "fedavg"}, seeds=range(2), folder=tmp_path)
    assert len(trained) == 2 and len((tmp_path / FILE).read_text().splitlines()) == 2
    assert [row[1:] for row in bits(first)] == [row[1:] for row in bits(again)]
    assert not list((tmp_path / UNFINISHED).glob("*"))
    tiny("fedavg", seeds=range(2))
    assert len(trained) == 4  # without the folder nobody knows


def test_two_labels_of_one_run_are_run_once(trained):
    runs = tiny({"a": "fedavg", "b": methods.make("fedavg")})
    assert len(trained) == 1 and runs.difference("a", "b").values == (0.0,)


@pytest.mark.parametrize(
    "change",
    [
        {"lr": 0.06},
        {"seeds": 3},
        {"rounds": 3},
        {"models": ["hidden"]},
        {"scenario": tiny_scenario(count=27)},
        {"given": "solo"},
        {"given": methods.make("fedprox", mu=0.02)},
    ],
    ids=str,
)
def test_what_comes_to_other_numbers_runs_again(trained, change):
    options = {"given": "fedprox", **change}
    tiny("fedprox")
    tiny(options.pop("given"), **options)
    assert len(trained) == 2
    tiny("fedprox")
    assert len(trained) == 2


SCALE = 1.0


def helper(loss):
    return SCALE * loss


@dataclass
class Mine(FedAvg):
    strength: float = 1.0

    def local_loss(self, client, x, y):
        return self.strength * helper(super().local_loss(client, x, y))


def test_other_code_of_a_method_runs_again(trained, monkeypatch):
    tiny(Mine)
    tiny(Mine())
    assert len(trained) == 1 and trained == [("mine", 2)]
    tiny(Mine(strength=0.5))
    assert len(trained) == 2
    with monkeypatch.context() as changed:
        changed.setitem(globals(), "SCALE", 2.0)
        tiny(Mine)
        assert len(trained) == 3
    with monkeypatch.context() as changed:
        changed.setitem(globals(), "helper", lambda loss: 3 * loss)
        tiny(Mine)
        assert len(trained) == 4
    with monkeypatch.context() as changed:
        changed.setattr(Mine, "after_step", lambda self, client: None)
        tiny(Mine)
        assert len(trained) == 5
    tiny(Mine)
    assert len(trained) == 5


def test_a_hook_that_is_set_in_a_method_is_another_method(trained):
    method = methods.make("fedavg")
    usual = tiny(method)
    method.local_loss = lambda client, x, y: 0.0 * client.model(x).sum()
    other = tiny(method)
    assert len(trained) == 2 and bits(usual) != bits(other)


def test_another_network_of_a_reader_under_the_same_name_runs_again(trained, monkeypatch):
    from torch import nn

    from fedtutor import models

    tiny("fedavg", models=["linear"])

    def other(channels, size):
        return nn.Sequential(nn.Flatten(), nn.Tanh())

    monkeypatch.setitem(models.MODELS, "linear", models.Architecture(other, "other", 1))
    tiny("fedavg", models=["linear"])
    assert len(trained) == 2


# --- looking changes nothing


def test_a_run_that_was_tested_more_often_answers_a_coarser_question(trained):
    fine = tiny("fedavg", rounds=4)
    assert fine.history["round"].unique().tolist() == [0, 1, 2, 3, 4]
    coarse = tiny("fedavg", rounds=4, eval_every=2)
    assert len(trained) == 1 and coarse.values().equals(fine.values())


def test_a_finer_question_runs_again_and_then_both_are_answered(trained):
    coarse = tiny("fedavg", rounds=4, eval_every=3)
    fine = tiny("fedavg", rounds=4)
    assert len(trained) == 2 and coarse.values().equals(fine.values())
    tiny("fedavg", rounds=4, eval_every=3)
    assert len(trained) == 2
    inside = tiny("fedavg", rounds=4, observe=["after_local"])
    assert len(trained) == 3 and "after_local" in set(inside.history["moment"])
    tiny("fedavg", rounds=4, observe=["after_local (last round)"])
    assert len(trained) == 3


def test_a_look_in_the_last_round_is_none_in_every_round(trained):
    last = tiny("fedavg", observe=["after_local (last round)"])
    assert last.history.query("moment == 'after_local'")["round"].unique().tolist() == [2]
    every = tiny("fedavg", observe=["after_local"])
    assert every.history.query("moment == 'after_local'")["round"].unique().tolist() == [1, 2]
    assert len(trained) == 2


# --- runs that fail


def test_a_run_that_diverges_is_a_row_with_its_reason(trained, tmp_path):
    asked = {"seeds": range(2), "lr": 1e38, "folder": tmp_path}
    runs = tiny({"far": "fedavg", "near": "solo"}, **asked)
    reasons = runs.runs["failed"].tolist()
    assert all("nan" in r or "inf" in r for r in reasons) and "far, round" in reasons[0]
    assert {"method", "seed"} <= {*runs.history} & {*runs.messages}
    table = runs.table()
    assert table["failed"].tolist() == [2, 2] and table["n"].tolist() == [0, 0]
    assert table["mean"].isna().all() and runs.history.empty and runs.messages.empty
    with pytest.raises(SettingError, match="no seed has numbers of both"):
        runs.difference("far", "near")
    tiny({"far": "fedavg", "near": "solo"}, **asked)
    assert len(trained) == 4


@dataclass
class Sometimes(FedAvg):
    """Diverges with seed 1, with an error of its own for seed 7."""

    def after_local(self, client):
        if client.seed == 1:
            raise DivergenceError("no number", where="here", do="nothing")
        if client.seed == 7:
            raise ValueError("a mistake in the code")


def test_a_difference_is_taken_over_the_seeds_that_both_have():
    runs = tiny([Sometimes, "solo"], seeds=range(4))
    assert runs.table()["n"].tolist() == [3, 4] and runs.table()["failed"].tolist() == [1, 0]
    wide = runs.values()
    assert runs.difference("sometimes", "solo").values == tuple(
        wide["sometimes"][s] - wide["solo"][s] for s in (0, 2, 3)
    )


def test_an_error_of_the_code_is_raised_and_what_had_ended_is_kept(trained, tmp_path):
    with pytest.raises(ValueError, match="a mistake in the code"):
        tiny(Sometimes, seeds=[0, 1, 7, 8], folder=tmp_path)
    lines = [json.loads(line) for line in (tmp_path / FILE).read_text().splitlines()]
    assert [line["seed"] for line in lines] == [0, 1]
    assert [bool(line["failed"]) for line in lines] == [False, True]
    tiny(Sometimes, seeds=[0, 1, 8], folder=tmp_path)
    assert trained == [("sometimes", s) for s in (0, 1, 7, 8)]


@pytest.mark.parametrize("error", [DivergenceError, TrainingError, ModelError])
def test_divergence_can_be_caught_as_what_it_was_before(error):
    with pytest.raises(error):
        run(Federation(TINY, methods.make("fedavg"), Settings(lr=1e38, models=["linear"])))


# --- runs that stop


class Log:
    """An `on_round` that notes rounds, and breaks off after one of them."""

    def __init__(self, stop: int = 0):
        self.stop, self.rounds = stop, []

    def __call__(self, fed):
        self.rounds.append((fed.seed, fed.round_))
        if fed.round_ == self.stop:
            raise KeyboardInterrupt


def test_on_round_is_called_after_each_round():
    log = Log()
    tiny("fedavg", seeds=range(2), on_round=log)
    assert log.rounds == [(0, 1), (0, 2), (1, 1), (1, 2)]


def test_a_stop_after_the_last_round_loses_nothing():
    fed = Federation(TINY, methods.make("fedavg"), Settings(rounds=2, models=["linear"]))
    with pytest.raises(KeyboardInterrupt):
        run(fed, on_round=Log(stop=1))
    assert fed.finished == 1
    run(fed, on_round=(log := Log()))
    assert log.rounds == [(0, 2)]
    whole = Federation(TINY, methods.make("fedavg"), Settings(rounds=2, models=["linear"]))
    assert {**run(whole), "seconds": 0} == {**fed.history, "seconds": 0}


@pytest.mark.parametrize(
    ("again", "change"),
    [("fedavg", {}), ({"other label": "fedavg"}, {}), ("fedavg", {"eval_every": 3})],
    ids=["the same", "another label", "tested less often"],
)
@pytest.mark.parametrize("saved", [True, False])
def test_an_interrupted_run_goes_on_with_equal_bits(tmp_path, monkeypatch, again, change, saved):
    """saved: whether there was time for a checkpoint after round 1."""
    asked = {"rounds": 3, "keep_optimizer": True, "momentum": 0.9, "folder": tmp_path}
    with monkeypatch.context() as clock:
        ticks = iter(range(0, 10**6, 1000 if saved else 1))
        clock.setattr(checkpoints.time, "monotonic", lambda: float(next(ticks)))
        with pytest.raises(KeyboardInterrupt):
            tiny("fedavg", on_round=Log(stop=1), **asked)
    assert not (tmp_path / FILE).exists()
    went_on = tiny(again, on_round=(log := Log()), **(asked | change))
    if not change and again == "fedavg":
        assert log.rounds == [(2, n) for n in ((2, 3) if saved else (1, 2, 3))]
    whole = tiny(again, **(asked | change | {"folder": None}))
    assert bits(went_on) == bits(whole)
    assert (tmp_path / FILE).exists()


# --- the file


def test_a_line_that_was_cut_short_is_run_again(trained, tmp_path):
    first = tiny("fedavg", seeds=range(3), folder=tmp_path)
    path = tmp_path / FILE
    whole = path.read_text()
    for cut in (40, 1):  # in the middle, and right before its end
        path.write_text(whole[:-cut])
        del trained[:]
        again = tiny("fedavg", seeds=range(3), folder=tmp_path)
        assert trained == [("fedavg", 2)] and bits(again) == bits(first)
        assert len([json.loads(line) for line in path.read_text().splitlines()]) == 3
        tiny("fedavg", seeds=range(3), folder=tmp_path)
        assert len(trained) == 1


def test_a_line_that_is_damaged_is_named(tmp_path):
    tiny("fedavg", seeds=range(3), folder=tmp_path)
    path = tmp_path / FILE
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], lines[1][:50], lines[2], ""]))
    with pytest.raises(StorageError, match="line 2 is damaged") as caught:
        tiny("fedavg", folder=tmp_path)
    assert FILE in caught.value.where
    path.write_text("\n".join([lines[0], "[1]", lines[2], ""]))
    with pytest.raises(StorageError, match="line 2"):
        tiny("fedavg", folder=tmp_path)


def test_a_line_tells_a_reader_what_it_was(tmp_path):
    tiny({"mine": methods.make("fedprox", mu=0.3)}, seeds=[6], folder=tmp_path)
    (line,) = (tmp_path / FILE).read_text().splitlines()
    record = json.loads(line)
    assert (record["method"], record["seed"], record["failed"]) == ("mine", 6, "")
    assert record["parameters"]["mu"] == 0.3 and record["settings"]["lr"] == 0.05
    assert record["scenario"]["fingerprint"] == TINY.fingerprint


# --- what is asked for


def test_methods_can_be_named_in_four_ways():
    given = {"a": "fedavg", "b": methods.make("solo"), "c": Mine, "d": Mine(strength=2.0)}
    assert list(tiny(given).values()) == list("abcd")
    assert list(tiny(["fedavg", METHODS["solo"], Mine]).values()) == ["fedavg", "solo", "mine"]


@pytest.mark.parametrize(
    ("given", "options", "words"),
    [
        (["fedavg", "fedavg"], {}, "two methods are called 'fedavg'"),
        ([Mine(), Mine(strength=2.0)], {}, "two methods are called 'mine'"),
        ("fedavgg", {}, "did you mean 'fedavg'"),
        (["fedavg"], {"round": 3}, "did you mean 'rounds'"),
        (["fedavg"], {"lr": "high"}, "lr = 'high'"),
        ([], {}, "methods"),
        ([3], {}, "3 is no method"),
        (["fedavg"], {"seeds": [0, 0]}, "seeds"),
        (["fedavg"], {"seeds": [-1]}, "seeds"),
        (["fedavg"], {"seeds": []}, "seeds"),
        (["fedavg"], {"jobs": 0}, "jobs"),
        (["fedavg"], {"jobs": 1.0}, "jobs"),
        (["fedavg"], {"scenario": "digits-mni"}, "did you mean 'digits-mini'"),
        (["fedavg"], {"settings": {"rounds": 3}}, "Settings"),
        (["fedavg"], {"models": ["linaer"]}, "did you mean 'linear'"),
    ],
)
def test_what_cannot_be_is_said_in_our_words(given, options, words):
    with pytest.raises(FedtutorError) as caught:
        tiny(given, **options)
    assert words in str(caught.value)


def test_what_was_not_compared_is_named_with_what_is_near():
    runs = tiny(["fedavg", "solo"], measure=rounds_played)
    for ask, words in (
        (lambda: runs.difference("fedavgg", "solo"), "did you mean 'fedavg'"),
        (lambda: runs.difference("fedavg", "sollo"), "did you mean 'solo'"),
        (lambda: runs.table("other"), "did you mean 'other"),
        (lambda: runs.values("rounds_playd"), "did you mean 'rounds_played'"),
        (lambda: runs.curves("owns"), "did you mean 'own'"),
        (lambda: runs.differences("fedavgg"), "did you mean 'fedavg'"),
    ):
        with pytest.raises(SettingError) as caught:
            ask()
        assert words in str(caught.value)


def test_settings_by_keyword_go_before_those_of_an_object():
    base = Settings(rounds=7, lr=0.02, models=["linear"])
    runs = compare("fedavg", scenario=TINY, settings=base, seeds=1, jobs=1, rounds=1)
    used = runs.pairs[0][0].settings
    assert (used.rounds, used.lr) == (1, 0.02)


# --- measures


def rounds_played(fed):
    return fed.round_


def several(fed):
    weight = fed.server.model.classifier.weight if fed.server.models else torch.zeros(1)
    return {"norm": weight.detach().norm(), "seed twice": 2 * fed.seed}


def test_measures_are_kept_with_the_run(trained, tmp_path):
    asked = {"seeds": range(2), "folder": tmp_path}
    runs = tiny(["fedavg", "fedprox"], measure=rounds_played, **asked)
    assert (runs.values("rounds_played") == 2).all(axis=None)
    more = tiny(["fedavg", "fedprox"], measure=several, **asked)
    assert len(trained) == 8 and more.values("seed twice")["fedavg"].tolist() == [0, 2]
    found = more.difference("fedavg", "fedprox", on="norm")
    wide = more.values("norm")
    assert found.values == tuple(wide["fedavg"] - wide["fedprox"])
    assert (found.on, found.unit, found.margin) == ("norm", "", None) and found.values[0]
    assert more.table("norm").loc["fedavg", "mean"] == pytest.approx(wide["fedavg"].mean())
    again = tiny(["fedavg", "fedprox"], measure=rounds_played, **asked)  # the first is still there
    plain = tiny(["fedavg", "fedprox"], **asked)
    assert len(trained) == 8 and again.values("rounds_played").loc[1, "fedavg"] == 2
    with pytest.raises(SettingError, match="unknown side or measure"):
        plain.values("norm")


def test_other_code_of_a_measure_measures_again(trained):
    def measure(fed):
        return 1

    first = tiny("fedavg", measure=measure).values("measure")

    def measure(fed):
        return 2

    assert first.iloc[0, 0] == 1 and len(trained) == 1
    assert tiny("fedavg", measure=measure).values("measure").iloc[0, 0] == 2


def test_a_measure_that_has_no_answer_is_a_missing_number(trained, tmp_path):
    def half(fed):
        return float("nan") if fed.seed else 3.0

    for _ in range(2):
        runs = tiny("fedavg", seeds=range(2), measure=half, folder=tmp_path)
        assert runs.table("half").loc["fedavg", ["mean", "n"]].tolist() == [3.0, 1]
    assert len(trained) == 2


def test_a_measure_returns_numbers():
    with pytest.raises(SettingError, match="rounds returned 'many'"):

        def rounds(fed):
            return "many"

        tiny("fedavg", measure=rounds)


# --- the images of a seed


def test_each_seed_draws_images_of_its_own_by_name_and_not_of_an_object(monkeypatch, own_tables):
    @scenarios.register("tiny-drawn")
    def drawn(*, split_seed: int = 0):
        return tiny_scenario(count=24 + 3 * split_seed)

    @scenarios.register("tiny-one")
    def one():
        return TINY

    def images_of(**options) -> list[str]:
        runs = tiny("fedavg", seeds=range(3), **options)
        return [task.scenario.fingerprint for task, _ in runs.pairs]

    wanted = [tiny_scenario(count=24 + 3 * seed).fingerprint for seed in range(3)]
    assert images_of(scenario="tiny-drawn") == wanted
    assert images_of(scenario=lambda seed: tiny_scenario(count=24 + 3 * seed)) == wanted
    assert images_of(scenario=TINY) == [TINY.fingerprint] * 3 == images_of(scenario="tiny-one")
    recipe = recipes.load("start", profile="quick", overrides={"models": ["linear"]})
    assert images_of(scenario="tiny-drawn", settings=recipe) == wanted
    with pytest.raises(DataError, match="is no scenario"):
        tiny("fedavg", scenario=lambda seed: "digits-mini")


@pytest.mark.parametrize("split_seed, draws", [("seed", 2), (0, 1)])
def test_a_recipe_says_whether_each_seed_draws(split_seed, draws):
    changes = {"models": ["small_cnn"], "scenario.split_seed": split_seed}
    recipe = recipes.load("repshare", profile="quick", overrides=changes)
    runs = compare("solo", settings=recipe, seeds=range(2), rounds=1, jobs=1)
    own = [task.scenario.fingerprint for task, _ in runs.pairs]
    assert own == [recipe.build(seed).fingerprint for seed in range(2)] and len({*own}) == draws
    assert [sum(len(c.private) for c in t.scenario.clients) for t, _ in runs.pairs] == [600, 600]


def test_a_recipe_on_another_scenario_has_what_it_says_of_that():
    recipe = recipes.load("fedlgd", profile="quick", overrides={"rounds": 1})
    there = recipes.load("fedlgd", profile="quick", scenario="digits-five-partial")
    asked, images = comparison._settings(recipe, "digits-five-partial", {})
    assert images.name == asked.scenario == there.scenario != recipe.scenario
    assert images.options == asked.scenario_options == there.scenario_options
    assert asked.settings == replace(there.settings, rounds=1)


def test_images_of_arrays():
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 255, (60, 8, 8), dtype=np.uint8), np.arange(60) % 3
    scenario = scenarios.of((x, y), clients=2, tests=0.3)
    runs = tiny(["fedavg", "solo"], scenario=scenario, seeds=range(2))
    assert runs.values().notna().all(axis=None) and isinstance(scenario.public, Images | None)


# --- recipes


OBSERVED = {"observe": ["after_collaborate"]}  # as FCCL's runs are committed


def test_what_is_committed_of_a_recipe_is_read(trained):
    recipe = recipes.load("fccl", profile="quick", overrides=OBSERVED)
    runs = compare(["fccl", "fedmd"], settings=recipe, seeds=range(2), jobs=1)
    assert not trained
    for method in ("fccl", "fedmd"):
        for seed in range(2):
            kept = recorded(recipe, method, seed)
            assert runs.values("own")[method][seed] == pytest.approx(100 * kept.headline["intra"])
            assert runs.values("others")[method][seed] == pytest.approx(
                100 * kept.headline["inter"]
            )


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ([methods.make("fedmd", **{})], {"lr": 0.001}),
        ({"fedmd": Mine()}, {}),
        ({"fedmd": "solo"}, {}),
        (["fedmd"], {"measure": rounds_played}),
        (["fedmd"], {"scenario": TINY}),
        (["fedmd"], {"seeds": [9999]}),
    ],
    ids=["other settings", "own class", "another method", "measure", "images", "seed"],
)
def test_what_is_not_what_was_committed_is_run(given, options, monkeypatch):
    """A committed result is never given out for another question."""
    asked = []

    def stop(tasks, *rest):
        asked.extend(tasks)
        raise InterruptedError

    monkeypatch.setattr(comparison, "play", stop)
    recipe = recipes.load("fccl", profile="quick", overrides=OBSERVED)
    with pytest.raises(InterruptedError):
        compare(given, settings=recipe, **{"seeds": [0], "jobs": 1, **options})
    assert len(asked) == 1


def test_a_method_with_other_parameters_than_those_of_the_recipe_is_run(monkeypatch):
    recipe = recipes.load("fccl", profile="quick", overrides=OBSERVED)
    usual = recipe.make("fccl")
    name, value = next((k, v) for k, v in vars(usual).items() if isinstance(v, float))
    monkeypatch.setattr(comparison, "play", lambda tasks, *rest: tasks and 1 / 0)
    compare([usual], settings=recipe, seeds=[0])
    with pytest.raises(ZeroDivisionError):
        compare([replace(usual, **{name: value / 2})], settings=recipe, seeds=[0])
    hooked = recipe.make("fccl")
    hooked.after_step = lambda client: None
    with pytest.raises(ZeroDivisionError):
        compare([hooked], settings=recipe, seeds=[0])


# --- other processes


def test_what_cannot_be_sent_runs_here_with_a_warning(trained):
    class Held(Log):
        def __reduce__(self):
            raise TypeError("it holds a file")

    log = Held()
    with pytest.warns(UserWarning, match="it holds a file"):
        runs = tiny("fedavg", seeds=range(2), jobs=2, on_round=log)
    assert len(trained) == 2 and len(log.rounds) == 4
    assert (runs.runs["failed"] == "").all()


SCRIPT = """
import sys
from dataclasses import dataclass

import numpy as np
from torch import nn

from fedtutor import compare, models, scenarios
from fedtutor.methods.fedavg import FedAvg

SCALE = 0.5


def helper(loss):
    return SCALE * loss


@dataclass
class Mine(FedAvg):
    def local_loss(self, client, x, y):
        return helper(super().local_loss(client, x, y))


def features(channels, size):
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * size**2, 5), nn.Tanh())


def first_weight(fed):
    return float(fed.server.model.classifier.weight[0, 0])


if __name__ == "__main__":
    models.register("own-network", models.Architecture(features, "mine", 1))
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, (60, 8, 8), dtype=np.uint8), np.arange(60) % 3
    found = []
    for jobs in (2, 1, 2):
        folder = f"{sys.argv[1]}/{jobs}"
        runs = compare([Mine, "fedavg"], scenario=scenarios.of(images, clients=2), seeds=range(2),
                       models=["own-network"], rounds=2, batch_size=8, jobs=jobs, folder=folder,
                       measure=first_weight)
        found.append((runs.values("first_weight").to_json(), runs.values().to_json()))
        print(jobs, len(open(folder + "/runs.jsonl").readlines()))
    assert found[0] == found[1] == found[2], found
    assert runs.values("first_weight").notna().all(axis=None)
    assert (runs.values("first_weight")["mine"] != runs.values("first_weight")["fedavg"]).all()
"""


@pytest.mark.slow
def test_code_of_a_script_reaches_the_processes(tmp_path):
    """A method, a network and a measure that are written in `__main__`."""
    script = tmp_path / "mine.py"
    script.write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        capture_output=True,
        text=True,
        env={"PATH": "", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        timeout=300,
        cwd=Path(tmp_path),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["2", "4", "1", "4", "2", "4"]


# --- a file that is committed


@pytest.fixture
def committed(tmp_path, monkeypatch, trained):
    """Two runs as a lesson commits them; another session reads them."""
    path = tmp_path / "lessons" / "one.jsonl"
    with monkeypatch.context() as patch:
        patch.setenv("FEDTUTOR_RECORD", "1")
        tiny("fedavg", seeds=range(2), recorded=path, measure=rounds_played)
    path.with_suffix(".lock").unlink(missing_ok=True)
    monkeypatch.setattr(tasks, "_here", {})
    trained.clear()
    return path


def test_committed_runs_are_read_and_nothing_is_trained(committed, trained):
    wanted = [plain("fedavg", seed) for seed in range(2)]
    runs = tiny(
        {"called otherwise": "fedavg"},
        seeds=range(2),
        recorded=str(committed),
        measure=rounds_played,
    )
    assert not trained and [history for *_, history in bits(runs)] == wanted
    assert runs.values("rounds_played")["called otherwise"].tolist() == [2.0, 2.0]


def test_what_is_not_committed_is_trained_and_written_only_where_asked(
    committed, trained, monkeypatch
):
    before = committed.read_bytes()
    tiny(["fedavg", "solo"], seeds=range(3), recorded=committed)
    assert sorted(trained) == [("fedavg", 2), ("solo", 0), ("solo", 1), ("solo", 2)]
    assert committed.read_bytes() == before
    tiny("fedavg", seeds=[0], rounds=3, recorded=committed)
    assert trained[-1] == ("fedavg", 0) and len(trained) == 5
    monkeypatch.setattr(tasks, "_here", {})
    monkeypatch.setenv("FEDTUTOR_RECORD", "1")
    tiny(["fedavg", "solo"], seeds=range(2), recorded=committed)
    added = committed.read_bytes().removeprefix(before).splitlines()
    assert [(line["method"], line["seed"]) for line in map(json.loads, added)] == [
        ("solo", 0),
        ("solo", 1),
    ]


def test_where_lessons_are_validated_a_run_that_is_not_committed_is_an_error(
    committed, trained, monkeypatch
):
    """It would be trained again unseen, and come to other bits on another processor."""
    monkeypatch.setenv("FEDTUTOR_VALIDATE", "1")
    tiny("fedavg", seeds=range(2), recorded=committed)
    with pytest.raises(StorageError, match="2 of 2 runs, as they are asked for now"):
        tiny("fedavg", seeds=range(2), recorded=committed, measure=other_number)
    assert not trained


def test_a_file_of_committed_runs_need_not_exist(tmp_path, trained):
    runs = tiny("fedavg", recorded=tmp_path / "lessons" / "none.jsonl")
    assert len(trained) == 1 and runs.values().notna().all(axis=None)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("cut", [False, True], ids=["whole", "cut short"])
def test_committed_runs_are_read_where_nobody_may_write(committed, trained, monkeypatch, cut):
    if cut:
        committed.write_bytes(committed.read_bytes() + b'{"id": "half')
    before = committed.read_bytes()

    def forbidden(*given, **options):
        raise PermissionError(13, "read-only")

    monkeypatch.setattr(tasks, "_locked", forbidden)
    monkeypatch.setattr(Path, "write_text", forbidden)
    committed.chmod(0o444)
    committed.parent.chmod(0o555)
    try:
        tiny("fedavg", seeds=range(2), recorded=committed)
    finally:
        committed.parent.chmod(0o755)
    assert not trained and list(committed.parent.iterdir()) == [committed]
    assert committed.read_bytes() == before


def test_a_folder_and_a_committed_file_are_both_read(committed, trained, tmp_path):
    folder = tmp_path / "own"
    tiny("fedavg", seeds=[2], folder=folder)
    trained.clear()
    tiny("fedavg", seeds=range(3), folder=folder, recorded=committed)
    assert not trained and len((folder / FILE).read_text().splitlines()) == 1


def other_number(fed) -> float:
    return 7.0


def test_a_second_measure_keeps_the_first(committed, trained, monkeypatch):
    """A session that records asks one question more of runs that are committed."""
    with monkeypatch.context() as patch:
        patch.setenv("FEDTUTOR_RECORD", "1")
        tiny("fedavg", seeds=range(2), recorded=committed, measure=other_number)
    monkeypatch.setattr(tasks, "_here", {})
    trained.clear()
    for measure in (rounds_played, other_number):
        tiny("fedavg", seeds=range(2), recorded=committed, measure=measure)
    assert not trained


def test_what_this_process_has_run_is_recorded_too(trained, tmp_path, monkeypatch):
    """The cell was run before; then somebody records."""
    path = tmp_path / "one.jsonl"
    tiny("fedavg", seeds=range(2), recorded=path)
    monkeypatch.setenv("FEDTUTOR_RECORD", "1")
    tiny("fedavg", seeds=range(2), recorded=path)
    assert len(path.read_text().splitlines()) == 2
    tiny("fedavg", seeds=range(2), recorded=path)
    assert len(path.read_text().splitlines()) == 2 and len(trained) == 2


def test_a_damaged_line_of_a_committed_file_is_named(committed):
    committed.write_text(committed.read_text() + "no run\n")
    with pytest.raises(StorageError, match="line 3 is damaged"):
        tiny("fedavg", recorded=committed)
