"""A random tenth of all runs, played again on another processor."""

from dataclasses import replace

import pytest
from support.recorded import ROUNDS, made, recipe

from fedtutor.__main__ import main
from fedtutor.experiments import again, environment, replays, results
from fedtutor.experiments.run import run as train

OURS = {"git": {"commit": "0" * 40, "dirty": False}, "processor": "another one"}


@pytest.fixture(scope="module")
def played():
    """Two seeds of a small run, as if another processor had recorded them."""
    small = recipe(overrides={"rounds": 1, "local_epochs": 1, "models": ["lenet5"]})
    both = [train(small, "solo", seed=seed, threads=1) for seed in (0, 1)]
    return small, [replace(run, environment={**run.environment, **OURS}) for run in both]


@pytest.fixture
def recorded(played, tmp_path):
    small, both = played
    for run in both:
        path = results.result_path(small, run.method, run.seed, folder=tmp_path / "first")
        results.save_result(run, path)
    return tmp_path / "first"


@pytest.fixture
def every(monkeypatch):
    """Every run is chosen."""
    monkeypatch.setattr(replays, "SHARE", 1)


def test_a_tenth_is_chosen_by_the_names_alone():
    lots = [replays._lot(f"run-{number}") % replays.SHARE == 0 for number in range(5000)]
    assert 0.08 < sum(lots) / len(lots) < 0.12


def test_of_the_recorded_results_about_a_tenth_is_chosen():
    found = replays.chosen()
    settled = [run for run in results.load_all(results.RESULTS).values()
               if isinstance(run, results.Result) and again.settled(run)]  # fmt: skip
    assert 0.06 < len(found) / len(settled) < 0.14
    assert list(found) == sorted(found, key=replays._lot)


def test_what_other_code_recorded_is_not_chosen(recorded, every):
    assert len(replays.chosen(recorded)) == 2
    for path, run in list(results.load_all(recorded).items())[:1]:
        other = {"hash": "0" * 12, "files": {}}
        results.save_result(replace(run, environment={**run.environment, "code": other}), path)
    assert len(replays.chosen(recorded)) == 1


def test_a_run_is_played_again_once_and_compared(recorded, every, tmp_path):
    said, there = [], tmp_path / "here"
    assert replays.play(folder=recorded, to=there, say=said.append) == 0
    assert said[0].startswith("2 runs") and len(list(there.rglob("*.jsonl"))) == 1
    assert replays.play(folder=recorded, to=there, say=said.append) == 0
    assert said[-1].startswith("0 runs")
    table = replays.compared(there, first=recorded)
    assert set(table["side"]) == set(replays.SIDES) and len(table) == 4
    assert (table["processor"] == 0).all()  # this very machine made both
    own = table[table["side"] == "own domain"].sort_values("run")
    zero, one = (100 * run.headline["intra"] for run in results.load_all(recorded).values())
    assert own["seed"].tolist() == pytest.approx([one - zero, zero - one])


def test_a_difference_is_in_points_and_has_its_sign(tmp_path):
    lower = [[[share - 0.02 for share in row] for row in matrix] for matrix in ROUNDS]
    for folder, seed, rounds in (("first", 0, ROUNDS), ("first", 3, lower), ("here", 0, lower)):
        run = made("fedavg", seed=seed, rounds=rounds)
        path = results.result_path(recipe(), "fedavg", seed, folder=tmp_path / folder)
        results.save_result(run, path)
    table = replays.compared(tmp_path / "here", first=tmp_path / "first")
    assert table["processor"].tolist() == pytest.approx([-2.0, -2.0])
    assert table["seed"].tolist() == pytest.approx([-2.0, -2.0])


def test_its_own_recordings_are_passed_over(recorded, every, tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "processor", lambda: "another one")
    said = []
    assert replays.play(folder=recorded, to=tmp_path / "here", say=said.append) == 0
    assert said[0].startswith("0 runs to play again on: another one;") and len(said) == 1


def test_a_dry_run_plays_nothing(recorded, every, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(replays, "REPLAYS", tmp_path / "here")
    assert main(["again", "--elsewhere", "--dry-run", "--results", str(recorded)]) == 0
    assert capsys.readouterr().out.startswith("2 runs to play again")
    assert not (tmp_path / "here").exists()


def test_part_of_them_can_be_asked_for(recorded, every, tmp_path):
    said, there = [], tmp_path / "here"
    replays.play(folder=recorded, to=there, only="nothing has this name", say=said.append)
    assert said[-1].startswith("0 runs")
    replays.play(folder=recorded, to=there, only="seed1", minutes=0, say=said.append)
    assert said[-2].startswith("1 runs") and said[-1] == "the time is up; 1 runs are left"
    replays.play(folder=recorded, to=there, only="seed1", say=said.append)
    assert said[-1].startswith("1/1") and len(list(there.rglob("*.jsonl"))) == 1


def test_a_run_that_cannot_be_played_is_named_and_the_others_go_on(
    recorded, every, tmp_path, capsys, monkeypatch
):
    calls, plain = [], again.rebuilt

    def refused(run):
        calls.append(run.seed)
        if len(calls) == 1:
            raise again.SettingError("images are absent", where="here", do="get them")
        return plain(run)

    monkeypatch.setattr(again, "rebuilt", refused)
    monkeypatch.setattr(replays, "REPLAYS", tmp_path / "here")
    assert main(["again", "--elsewhere", "--results", str(recorded)]) == 1
    out = capsys.readouterr().out
    assert "FAILED: images are absent" in out and "2/2" in out
    assert len(list((tmp_path / "here").rglob("*.jsonl"))) == 1


def test_what_was_never_recorded_has_no_difference(recorded, tmp_path):
    assert replays.compared(tmp_path / "nothing", first=recorded).empty
