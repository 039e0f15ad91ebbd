"""A printed table beside ours, and all results as a frame."""

import json

import pandas as pd
import pytest

from fedtutor import experiments, papers, report
from fedtutor.errors import SettingError
from fedtutor.experiments import frame, manifest, results
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


@pytest.mark.parametrize("paper, table", papers.tables())
def test_the_summary_is_short_and_the_lines_are_folded(paper, table):
    told = report.beside(paper, table)
    if not len(told):
        return
    brief, page = told.brief(), told._repr_html_()
    assert 1 <= len(brief) <= 8 and 3 <= len(brief.columns) <= 5
    assert brief.columns.is_unique and set(brief["row"]) <= set(told["row"])
    opened, folded = page.split("<details>")
    assert opened.count("<tr>") == len(brief) + 1
    assert folded.count("<tr>") == len(told) + 1
    assert brief.to_string(index=False) in repr(told)


def test_a_summary_has_means_and_leads():
    told = report.beside("FCCL", "1", part="Digits")
    brief, printed = told.brief().set_index("row"), papers.published_table("FCCL", "1")
    printed = printed.set_index("method")["Digits/AVG"]
    for row in brief.index:
        assert float(brief.loc[row, "printed"]) == pytest.approx(printed[row], abs=0.051)
    ahead = brief["FCCL ahead, printed"].drop("FCCL").astype(float)
    assert ahead["FML"] == ahead.min() == pytest.approx(printed["FCCL"] - printed["FML"], abs=0.051)
    measured = {row: text.split(" ±")[0] for row, text in brief["measured"].items()}
    leads = {row: text.split(" ±")[0] for row, text in brief["FCCL ahead, measured"].items()}
    for row in ahead.index:
        gap = float(measured["FCCL"]) - float(measured[row])
        assert float(leads[row]) == pytest.approx(gap, abs=0.11)
    closest = min(ahead.index, key=lambda row: float(leads[row]))
    opened = told._repr_html_().split("<details>")[0]
    assert opened.count("font-weight: bold") == 1
    marked = opened.split("font-weight: bold")[0].rsplit("<tr>", 1)[1]
    assert f"<td>{closest}</td>" in marked


def test_given_results_stand_in_for_absent_data():
    found = experiments.results.load_all()
    two = [r for r in found.values() if isinstance(r, results.Result) and r.headline["inter"]][:2]
    told = report.beside("FCCL", "3", ours={"FedMD": two})
    brief = told.brief().set_index("row")
    assert brief.loc["FedMD", "measured (Inter)"] == papers.spread(
        [100 * r.headline["inter"] for r in two], 1
    )
    assert set(brief["measured (Intra)"].drop("FedMD")) == {"-"}
    assert told._repr_html_().split("<details>")[0].count("font-weight: bold") == 2
    assert "stand-in data" in repr(told)
    assert (told["measured"] == "").all()  # the lines remain what the paper's data gave
    fold = told._repr_html_().split("<details>")[1]
    assert "none was measured" in fold and ">measured</th>" not in fold  # no empty columns
    assert ">open because</th>" in fold and ">printed</th>" in fold


def test_a_smaller_run_was_recorded_elsewhere():
    told = report.beside("FCCL", "1")
    smaller = told[(told["measured"] != "") & told["open because"].str.contains("this machine")]
    assert smaller["open because"].str.endswith("measured is our smaller or other setting").all()
    absent = told[told["measured"] == ""]["open because"]
    assert not absent.str.contains("recording").any()


def test_what_is_open_is_open_for_the_papers_own_data(monkeypatch):
    monkeypatch.setattr(manifest, "absent", lambda run: f"{run.recipe.scenario} is not here")
    for table, own in (("III", {"cifar100-skew"}), ("I", {"cifar100-skew", "femnist-skew"})):
        why = report.beside("FedCSD", table)["open because"]
        said = why.str.extract("not on this machine: ([^;)]+)")[0].dropna()
        assert set(said) == own  # not the scenario that stands in for it, fashion-mnist


def test_a_small_deviation_is_seen():
    found = experiments.results.load_all().values()
    one = next(r for r in found if isinstance(r, results.Result) and r.headline["inter"])
    row = report.sides({"twice the same": [one, one]}).loc["twice the same"]
    assert all(text.endswith("± 0.00") for text in row)


def test_sides_are_own_and_other_domains():
    found = experiments.results.load_all()
    two = [r for r in found.values() if isinstance(r, results.Result) and r.headline["inter"]][:2]
    table = report.sides({"two": two})
    assert list(table.columns) == ["own domain", "other domains"]
    assert table.loc["two", "own domain"] == papers.spread(
        [100 * r.headline["intra"] for r in two], 1
    )


def test_unknown_parts_and_rows_are_answered_with_the_nearest():
    with pytest.raises(SettingError, match="'Digits'"):
        report.beside("FCCL", "1", part="Digit")
    with pytest.raises(SettingError, match="'FedMD'"):
        report.beside("FCCL", "1", of="FedMDD")
    with pytest.raises(SettingError, match="'FedMD'"):
        report.beside("FCCL", "3", ours={"FedM": []})


def test_unknown_names_are_answered_with_the_nearest():
    with pytest.raises(SettingError, match=r"'FCCL\+'"):
        report.beside("FCL+", "X")
    with pytest.raises(SettingError, match="'X-inter' or 'X-intra'"):
        report.beside("FCCL+", "X")
