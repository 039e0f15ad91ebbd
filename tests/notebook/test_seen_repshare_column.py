"""The column at the paper's own settings: who is ahead, where all rows were run."""

import numpy as np
import pytest

from fedtutor.notebook import seen_repshare_column as column


def test_only_columns_with_all_rows_count(monkeypatch):
    def results(run, method, clients, data, **changes):
        draw = "the author's images" if "scenario.draw" in changes else "our draw"
        assert data == "fashion-mnist"
        return run.get((method, clients, draw), [])

    monkeypatch.setattr(column, "of_paper", results)
    monkeypatch.setattr(column, "points", np.array)
    run = {("repshare", 2, "our draw"): [88.0], ("solo", 2, "our draw"): [86.0],
           ("fd", 2, "our draw"): [85.0], ("repshare", 10, "our draw"): [81.0],
           ("solo", 10, "our draw"): [82.0], ("fd", 10, "our draw"): [79.0],
           ("repshare", 10, "the author's images"): [81.0]}  # fmt: skip
    label = "RepShare, averaged losses"
    run["repshare", 2, "our draw"].append(89.0)  # a seed that its rivals do not have
    found = column.leads(run, label)
    assert {place: {name: gains.tolist() for name, gains in columns.items()}
            for place, columns in found.items()} == {
        (2, "our draw"): {"IL": [2.0], "FD": [3.0]},
        (10, "our draw"): {"IL": [-1.0], "FD": [2.0]},
    }  # fmt: skip
    assert "in 1 of the 2 columns" in column.told(found, label)
    assert column.told(found, label).endswith("with 1 seed at most.")
    run["solo", 2, "our draw"].append(86.5), run["fd", 2, "our draw"].append(85.5)
    assert "with 2 seeds at most" in column.told(column.leads(run, label), label)
    assert column.told({}, label) == "No column has all three rows yet."
    assert column.leads(run, label, ["CL"]) == {}
    with pytest.raises(KeyError):
        column.leads(run, "no such row")
