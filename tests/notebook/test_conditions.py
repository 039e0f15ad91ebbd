"""The rows in the papers' own conditions: read, compared, said; every method has its answer."""

import numpy as np

from fedtutor.experiments import arenas, ranks, recipes
from fedtutor.experiments.arenas import SEEDS
from fedtutor.notebook import conditions


def test_every_method_of_the_benchmark_says_whether_it_runs_as_in_its_paper():
    known = recipes.load("benchmark", profile="quick").methods
    assert set(conditions.AS_PAPER) == set(known)
    for method, words in conditions.AS_PAPER.items():
        assert words.split()[0].strip(":;") in ("yes", "no"), method
    table = arenas.entries_of(recipes.load("benchmark", profile="quick"), ["fedavg"], SEEDS)
    found = conditions.answered(ranks.table({**table, "mine": table["fedavg"]}), ["fedavg", "mine"])
    assert list(found["as its paper runs it?"]) == ["yes", conditions.YOURS]


def test_with_four_networks_no_answer_speaks_of_equal_ones():
    table = ranks.table(
        arenas.entries_of(recipes.load("benchmark", profile="quick"), ["fccl"], SEEDS)
    )
    (usual,), (four,) = (conditions.answered(table, ["fccl"], four=four)["as its paper runs it?"]
                         for four in (False, True))  # fmt: skip
    assert "equal networks" in usual and four == "no: SGD, short pretraining"
    every = conditions.AS_PAPER | conditions.WITH_FOUR
    assert set(every) == set(conditions.AS_PAPER)
    assert not [words for words in every.values() if "equal networks" in words]


def test_a_row_per_paper_minus_its_baseline(nothing_trains):
    table = conditions.beside(SEEDS)
    assert table.shape == (6, 5) and conditions.OPEN not in table.to_numpy()
    alone, fedavg = "training alone", "FedAvg"
    assert list(table["minus"]) == [alone, alone, fedavg, alone, alone, fedavg]
    found = conditions.gained(SEEDS)
    here = conditions.in_the_benchmark("repshare", SEEDS)
    assert np.allclose(found[conditions.PRINTED][conditions.HERE, "own digits"], arenas_gain(here))
    steps, there = conditions.steps(SEEDS)["difference (points)"], conditions.THERE
    own = table[f"own digits, {there}"]
    assert own[conditions.PRINTED] == steps[f"5 · {there}"]
    assert own[conditions.CODE] == steps[f"7 · {there}"]


def arenas_gain(entries):
    own = {name: [r.headline["intra"] for r in e.results] for name, e in entries.items()}
    return 100 * np.subtract(own["repshare"], own["solo"])


def test_repshare_step_by_step(nothing_trains):
    table = conditions.steps(SEEDS)
    assert table.shape == (8, 5) and conditions.OPEN not in table.to_numpy()
    assert table.iloc[0]["RepShare, own digits (%)"].startswith("10.0")
    assert len(conditions.suspects(SEEDS)) == 9
    said = conditions.told_steps(SEEDS)
    assert len(said) == 11 and "the sums made RepShare guess" in said[0]
    level = float(table.iloc[6]["difference (points)"].split()[0])
    assert ("ahead" in said[2]) == (level > 0)
    printed, pulled = (float(cell.split()[0]) for cell in table.iloc[[0, 3], 2])
    assert "as printed, no pull" in table.iloc[3, 0] and f"{pulled - printed:.0f} points" in said[8]
    unbound = float(table.iloc[7]["RepShare, own digits (%)"].split()[0])
    assert ("does not guess" in said[5]) == (unbound > 20)


def test_open_rows_are_said():
    assert conditions.OPEN in conditions.steps([17]).to_numpy()
    assert "open" in conditions.told_steps([17])[0]
    assert len(conditions.gained([17])["FCCL"][conditions.HERE, "own digits"]) == 0


def test_what_the_conditions_change_is_listed_with_its_source():
    table = conditions.all_sources()
    assert set(table["method"]) == {"FCCL", "FCCL+", "FedCSD", "RepShare", "FedLGD"}
    assert (
        not (table["our setting"] == table["its conditions"]).any()
        and table["source"].str.len().min() > 7
    )
    lenet = table[(table["method"] == "RepShare") & (table["setting"] == "models")]
    assert lenet["its conditions"].item() == "lenet5"
    assert len(conditions.levels(SEEDS)) == 12


def test_an_answer_that_changes_with_the_conditions_is_named(nothing_trains):
    named, found = conditions.changed(SEEDS), conditions.gained(SEEDS)
    assert conditions.CODE in named
    for label in (conditions.PRINTED, conditions.CODE, "FCCL+"):
        pair = [conditions._answer(found[label][where, "own digits"])
                for where in (conditions.HERE, conditions.THERE)]  # fmt: skip
        assert named.get(label, (pair[0], pair[0])) == tuple(pair)
