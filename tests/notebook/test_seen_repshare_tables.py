"""The tables of notebook 04b: recorded rows, and what an attacker reads off features."""

import numpy as np
import pytest
import torch

from fedtutor.notebook import seen_repshare_tables as tables
from fedtutor.notebook.rows import Rows
from fedtutor.notebook.start import start
from fedtutor.papers import direction

PARAMETERS = {"profile": "quick", "scenario": None, "seeds": [0, 1, 2], "methods": ["repshare"],
              "device": "cpu", "overrides": {}}  # fmt: skip


@pytest.fixture(scope="module")
def run():
    return start(dict(PARAMETERS), recipe="repshare")


def test_every_choice_is_recorded_for_every_row(run, nothing_trains):
    found = tables.moved(run)
    assert list(found) == list(tables.METHODS)
    for choices in found.values():
        assert list(choices) == [*tables.CHOICES, tables.IMAGES]
        assert all(len(gains) == 3 for gains in choices.values())
    assert tables.moves(found).shape == (5, 5)
    first, *others = tables.leads(run).items()
    for choice, gap in others:  # each is the first, moved as its two methods are
        moved = found["RepShare"][choice] - found["FD"][choice]
        assert gap - first[1] == pytest.approx(moved)
    assert [choice for choice, _ in others] == list(tables.CHOICES)


def test_the_grid_and_other_images_are_recorded(run, nothing_trains):
    assert len(tables.grid(run)) == 12
    for name in tables.SETS:
        rows = tables.other_images(run, name)
        assert not np.any(rows.gains("IL")) and set(rows.printed) == set(rows.measured)


def test_far_is_more_than_two_deviations_from_the_print():
    assert not tables.far([1.0, 2.0, 3.0], 3.9) and tables.far([1.0, 2.0, 3.0], 4.1)


def test_a_single_image_is_found_and_a_stranger_is_guessed():
    h = torch.randn(24, 8, generator=torch.Generator().manual_seed(0))
    y = torch.arange(2).repeat(12)
    assert tables.betrayed(h, y, 1) == 1.0
    assert 0.5 < tables.betrayed(h, y, 8) < tables.betrayed(h, y, 2) < 1.0


def test_a_linear_feature_explains_all_pixels_and_noise_none():
    g = torch.Generator().manual_seed(1)
    x, y = torch.randn(300, 4, generator=g), torch.zeros(300)
    own, others = slice(0, 100), slice(100, 300)

    def explained(h):
        return tables.explained([(h[part], x[part], y[part]) for part in (own, others)])

    assert explained(2 * x + 1) == pytest.approx(1.0, abs=1e-3)
    assert abs(explained(torch.randn(300, 4, generator=g))) < 0.1


def test_repshare_begins_late_and_is_compared_on_both_draws(run, nothing_trains):
    ahead = tables.lead_at(run)
    assert ahead[20].mean() < 0 < ahead[100].mean()
    assert [gains.shape for gains in tables.over_fd(run, 0.1)] == [(3,), (3,)]
    table = tables.ahead_of_fd(run)
    assert table.shape == (3, 2) and (table == "not run").sum().sum() == 1


def test_the_first_box_has_the_numbers_of_the_table(run, nothing_trains):
    gains = tables.on_all_tests(run, "FL, common start", "FL, own starts")
    levels = tables.both_draws(run)["our draw"]
    high, low = (float(levels[f"FL, {name}"].split()[0]) for name in ("common start", "own starts"))
    assert gains.mean() == pytest.approx(high - low, abs=0.1)


def test_a_printed_rank_stays_is_reversed_or_is_not_told():
    measured = {"a": [1.0, 1.1, 1.2], "b": [3.0, 3.1, 3.2], "c": [2.0, 3.1, 4.2], "d": [0, 0, 0.1]}
    rows = Rows("", measured, less="a", printed={"d": 1.0, "a": 4.0, "b": 3.0, "c": 2.0})
    said = ("*a before b* is reversed (-2.0 ± 0.0), *b before c* is not told (0.0 ± 1.0), "
            "*c before d* stays (+3.1 ± 1.1)")  # fmt: skip
    assert tables.ranks(rows) == said


def test_memory_helps_as_the_text_of_notebook_04_says(run, nothing_trains):
    kept = tables.points(tables.of_paper(run, "fedavg", **tables.SMALL, **tables.OWN))
    anew = tables.of_paper(run, "fedavg", **tables.SMALL, **tables.OWN, keep_optimizer=False)
    assert direction(kept - tables.points(anew)) == 1


def test_a_cell_that_is_not_recorded_is_open(run, nothing_trains):
    assert tables._cell([], 82.1) == tables.OPEN
    assert tables._cell([80.0], 82.1) == "80.0 (one seed)"
    assert tables._cell([80.0, 80.2, 80.4], 82.1) == "80.2 ± 0.2 †"
    assert tables._cell([80.0, 82.0, 84.0], 82.1) == "82.0 ± 2.0"
    rows = {"IL, N = 5": ("IL", "solo", 5, {})}
    found = tables.both_draws(run, rows, "fashion-mnist")
    known = tables.printed("Fashion-MNIST", 5)["IL"]
    assert found["printed"].tolist() == [f"{known:.1f}"]
    for cell in found.iloc[0, 1:]:
        assert cell == tables.OPEN or float(cell.split()[0])


def test_central_training_is_one_for_all_numbers_of_clients(run, nothing_trains):
    rows = {f"CL, N = {n}": ("CL", "central", n, {}) for n in (2, 5, 10)}
    assert tables.both_draws(run, rows, "fashion-mnist")["our draw"].nunique() == 1
    (value,) = {tuple(tables.points(tables.of_paper(run, "central", n))) for n in (2, 10)}
    assert len(value) == 3
