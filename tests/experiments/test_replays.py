"""What a last digit costs: runs that another processor played again."""

import pytest
from support.recorded import ROUNDS, made, recipe

from fedtutor.experiments import replays, results


def test_a_difference_is_in_points_and_has_its_sign(tmp_path):
    lower = [[[share - 0.02 for share in row] for row in matrix] for matrix in ROUNDS]
    for folder, seed, rounds in (("first", 0, ROUNDS), ("first", 3, lower), ("here", 0, lower)):
        run = made("fedavg", seed=seed, rounds=rounds)
        path = results.result_path(recipe(), "fedavg", seed, folder=tmp_path / folder)
        results.save_result(run, path)
    table = replays.compared(tmp_path / "here", first=tmp_path / "first")
    assert table["processor"].tolist() == pytest.approx([-2.0, -2.0])
    assert table["seed"].tolist() == pytest.approx([-2.0, -2.0])


def test_what_was_never_recorded_has_no_difference(tmp_path):
    path = results.result_path(recipe(), "fedavg", 0, folder=tmp_path / "first")
    results.save_result(made("fedavg"), path)
    assert replays.compared(tmp_path / "nothing", first=tmp_path / "first").empty
