"""A printed table beside ours, and all results as a frame."""

import json

import pandas as pd
import pytest

from fedtutor import experiments, papers, report
from fedtutor.errors import SettingError
from fedtutor.experiments import frame, results
from fedtutor.report.beside import ABOUT
from fedtutor.report.tables import OPEN, PAPER


def test_all_results_are_one_frame():
    every = experiments.runs()
    assert len(every) == sum(isinstance(r, results.Result) for r in results.load_all().values())
    assert not every.duplicated(frame.KEYS).any()
    assert every.index.is_unique


def test_a_row_says_what_the_result_says():
    every = experiments.runs(recipe="fedcsd", scenario="mnist-mini")
    place = every.index[every["changes"] != ""][0]
    row, found = every.loc[place], results.load_result(results.RESULTS / f"{place}.json")
    assert row["intra"] == pytest.approx(100 * found.headline["intra"])
    assert row["worst"] == pytest.approx(100 * found.headline["worst"])
    assert pd.isna(row["inter"]) and found.headline["inter"] is None
    assert row["bytes_up"] == found.totals["bytes"]["up"]
    assert json.loads(row["changes"]).items() <= found.overrides.items()
    assert row["commit"] == found.environment["git"]["commit"]


def test_the_history_has_every_accuracy():
    some = experiments.runs(recipe="repshare", method="repshare")[:3]
    history = some.history
    for place in some.index:
        found = results.load_result(results.RESULTS / f"{place}.json").history
        told = history[history["run"] == place]
        matrices = [row for at in found["accuracy"] for row in at["matrix"] if row is not None]
        assert list(told["accuracy"]) == [100 * value for row in matrices for value in row]
        assert set(told["client"]) <= set(found["clients"])
    last = history[history["run"] == some.index[0]].groupby("round")["accuracy"].mean().iloc[-1]
    assert last == pytest.approx(some["intra"].iloc[0])  # all clients have the same test set


def test_rows_are_chosen_by_name():
    some = experiments.runs(recipe="fccl", method=["fccl", "fedmd"])
    assert set(some["method"]) == {"fccl", "fedmd"} and set(some["recipe"]) == {"fccl"}
    for wrong, near in (({"recipe": "fcl"}, "'fccl'"), ({"recip": "fccl"}, "'recipe'"),
                        ({"method": "fedavgg"}, "'fedavg'")):  # fmt: skip
        with pytest.raises(SettingError, match=near):
            experiments.runs(**wrong)


def test_an_empty_folder_has_no_runs(tmp_path):
    assert len(experiments.runs(tmp_path)) == 0
    with pytest.raises(SettingError, match="no folder"):
        experiments.runs(tmp_path / "nowhere")


@pytest.mark.parametrize("paper, table", papers.tables())
def test_every_printed_number_has_a_line(paper, table):
    told = report.beside(paper, table)
    cells = papers.printed.accuracies()
    mine = cells[(cells["paper"] == paper) & (cells["table"] == table)]
    assert set(zip(told["row"], told["column"], strict=True)) == set(
        zip(mine["row"], mine["column"], strict=True)
    )
    decides = told["setting"] == ABOUT[PAPER]
    assert (told["verdict"] != "").eq(decides).all()
    assert (told["open because"] == "").eq(decides).all()
    assert (told["measured"] == "").eq(told["setting"] == ABOUT[OPEN]).all()


def test_the_deciding_lines_are_bold():
    told = report.beside("RepShare", "1")
    page = told[told["verdict"] != ""].head(2)._repr_html_()
    assert page.count("font-weight: bold") >= 1
    assert "font-weight" not in told[told["verdict"] == ""].head(2)._repr_html_()


def test_unknown_names_are_answered_with_the_nearest():
    with pytest.raises(SettingError, match=r"'FCCL\+'"):
        report.beside("FCL+", "X")
    with pytest.raises(SettingError, match="'X-inter' or 'X-intra'"):
        report.beside("FCCL+", "X")
