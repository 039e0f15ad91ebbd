"""What notebook 07 doubts about its own table."""

import numpy as np

from fedtutor.experiments.arenas import SEEDS
from fedtutor.notebook import seen_benchmark as seen
from fedtutor.notebook import seen_benchmark_doubts as doubts
from fedtutor.notebook.rows import told
from fedtutor.notebook.start import start


def test_a_lead_is_asked_for_the_weighting(nothing_trains):
    found = doubts.weightings()
    assert len(found) == 6 and all(len(row) == len(SEEDS) for row in found.values())
    table, said = doubts.two_by_two(found), doubts.told_weightings(found)
    assert table.shape == (3, 3) and table.iloc[0, 0] == table.iloc[2, 0]
    assert table.iloc[0, 1] == table.iloc[1, 1] and len(said) == 4
    assert np.mean(found["fedavg", "clients alike"]) > np.mean(found["fedavg", "by images"])
    alone = {key: found["fedavg", "by images"] for key in found}
    assert doubts.told_weightings(alone)[-1] == "" and said[-1] in ("", doubts.EITHER)


def test_a_lead_is_told_on_both_data(nothing_trains):
    known, real = seen.recorded(), seen.recorded(scenario=seen.REAL)
    here, there, alone, nova = doubts.told_lead(known, real)
    apart = seen.gains(real, "fednova", "fedavg", seen.OTHERS)
    assert ("cannot be told" in nova) != bool(told(apart))
    assert not told(apart) or f"{abs(apart.mean()):.0f} ±" in nova
    for said, entries, other, column in (
        (here, known, "fedavg", seen.OTHERS), (there, real, "fedavg", seen.OTHERS),
        (alone, real, "solo", seen.OWN),
    ):  # fmt: skip
        lead = seen.gains(entries, "scaffold", other, column)
        assert (f"{abs(lead.mean()):.1f} ±" in said) == bool(told(lead))
    assert "open" in doubts.told_lead({}, real)[0]


def test_the_round_in_which_two_runs_part_is_said():
    assert doubts.grown([1e-7, 1e-7, 1e-4]) == (
        "For 2 rounds only last digits differ. In round 3 the difference is suddenly 1000 times as "
        "large."
    )
    assert doubts.grown([1e-7, 1e-7]).endswith("2 of 2.") and doubts.grown([1e-3]).endswith(
        "0 of 1."
    )


def test_luck_is_what_equal_methods_show():
    assert 0.06 < doubts.by_luck(3) < 0.09 and doubts.by_luck(5) < doubts.by_luck(3)


def test_pairs_are_counted(nothing_trains):
    known = seen.recorded()
    some = {name: known[name] for name in ("solo", "central", "fedavg")}
    table = doubts.pairs({"one": some}, seen.COLUMNS, 0.5)
    every, apart, lucky = table.loc["one, other domains"]
    assert every == apart == 3 and lucky == "2"
    said = doubts.told_pairs(table)
    assert "3 (other domains)" in said and said.endswith(" of 3 pairs; if all methods were equal, "
                                                         "luck would tell 2.")  # fmt: skip


def test_two_rows_of_one_formula(nothing_trains):
    known = seen.recorded()
    pair = {name: known[name] for name in ("solo", "fedavg", "fednova")}
    assert not doubts.twins(pair)
    home = [[100 * r.headline["intra"] for r in known[m].results] for m in ("fedavg", "fednova")]
    most = max(abs(a - b) for a, b in zip(*home, strict=True))
    assert f"up to {most:.1f} points" in doubts.rows_apart(pair)
    assert doubts.rows_apart({"fedavg": known["fedavg"]}) == ""


def test_fednova_and_fedavg_are_compared_round_by_round():
    small = {"rounds": 2, "local_epochs": 1, "eval_every": 2, "scenario.private_size": 40}
    run = start({"profile": "quick", "scenario": None, "seeds": [0], "methods": ["fedavg"],
                 "device": "cpu", "overrides": small}, recipe="benchmark")  # fmt: skip
    apart, first = doubts.one_formula(run)
    assert len(apart) == run.recipe.settings.rounds and apart[0] < 1e-5
    assert first[0].keys() == first[1].keys()
