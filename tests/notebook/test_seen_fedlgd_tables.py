"""The tables of notebook 05b: recorded rows beside the print, and what a print tells."""

import pytest

from fedtutor.notebook import seen_fedlgd_tables as tables
from fedtutor.notebook.start import start
from fedtutor.papers import direction

PARAMETERS = {"profile": "quick", "scenario": None, "seeds": [0, 1, 2], "methods": ["fedlgd"],
              "device": "cpu", "overrides": {}}  # fmt: skip


@pytest.fixture(scope="module")
def run():
    return start(dict(PARAMETERS), recipe="fedlgd")


def test_every_table_is_recorded(run, nothing_trains):
    rows = [tables.first(run, name) for name in tables.COLUMNS]
    rows += [tables.second(run, name) for name in tables.CELLS]
    rows += [tables.apart(run), tables.starts(run), tables.epochs(run), tables.batches(run)]
    for table in rows:
        assert all(len(values) == 3 for values in table.measured.values()), table.caption
    assert rows[0].printed["FedProto"] == 66.8  # printed 668.0
    assert rows[0].printed["FedLGD"] == 80.6 and rows[2].printed["FedLGD"] == 65.5


def test_knobs_are_recorded_and_the_usual_ones_are_the_method_itself(run, nothing_trains):
    grids = tables.weighed(run)
    by_rounds, others = tables.distilled(run)
    usual = tables.points(tables.of(run, "fedlgd"))
    assert grids["contrastive"][:, 2] == pytest.approx(usual)
    assert by_rounds[:, 3] == pytest.approx(usual)
    assert others["five selected, every 5 rounds"] == pytest.approx(usual)
    assert grids["MMD"].shape == (3, 4) and len(others) == 9


def test_a_lead_is_that_over_the_rival_that_decides(run, nothing_trains):
    rows = tables.first(run, "ConvNet, IPC 10")
    rivals = [name for name in rows.measured if name != "FedLGD"]
    leads = {name: rows.measured["FedLGD"] - rows.measured[name] for name in rivals}
    decides = rows.rival("FedLGD", rivals)
    assert rows.lead("FedLGD", rivals) == pytest.approx(leads[decides])
    assert direction(leads[decides]) == min(map(direction, leads.values()))


def test_the_fewest_images_that_fit_printed_percentages():
    sheet = tables.sheet()["test images, at least"]
    assert sheet.to_dict() == {"Drishti": 19, "Acrima": 50, "Rim": 100, "Refuge": 200}


def test_the_parts_of_a_round_are_what_passes_are_counted(run):
    part = tables.parts(run)
    together = part["own"] + part["anchors"] + part["steps"] * part["anchors"]
    assert tables.passes(run, 0) == 2 * together
    refined = part["own"] + part["refining"] * (part["private"] + part["own"])
    assert tables.passes(run, 2) == 2 * refined
