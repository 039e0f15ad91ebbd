"""Which claims get no verdict: the F test by hand, what it gates and what not."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from fedtutor.engine.files import load_json
from fedtutor.papers import claims_of, printed
from fedtutor.papers.verdicts import GATES
from fedtutor.report import tables
from tools import gates

SEEDS = 5
NOISE = np.random.default_rng(0).normal(0, 1, (4, SEEDS))


def cells(rows, *, column="Digits/AVG", table="1", run="a run", seeds="0, 1, 2, 3, 4", **more):
    """Measured cells of one column; rows: name -> one accuracy per seed."""
    return [
        {
            "paper": "FCCL",
            "table": table,
            "run": run,
            "column": column,
            "row": name,
            "seeds": seeds,
            "values": tuple(values),
            "setting": tables.REDUCED,
            **more,
        }
        for name, values in rows.items()
    ]


def report(*columns):
    return SimpleNamespace(cells=pd.DataFrame([cell for column in columns for cell in column]))


def level(baseline=50.0, lead=0.0, base="BASE"):
    """Four rows; the last is ahead of the others by `lead` points."""
    names = [base, "FedMD", "FedDF", "FCCL"]
    return {n: baseline + NOISE[k] + lead * (k == 3) for k, n in enumerate(names)}


@pytest.fixture
def asked(monkeypatch):
    """Replaces the published claims: id -> its keys, of Table 1 if they name no other."""

    def claims(**keys):
        every = [
            {"id": id, "paper": "FCCL", "kind": "ranking", "tables": ["1"], **own}
            for id, own in keys.items()
        ]
        monkeypatch.setattr(gates, "claims_of", lambda paper: every if paper == "FCCL" else [])

    claims(one={})
    return claims


# --- the F test


def test_the_f_test_of_paired_rows_by_hand():
    x = np.array([[3.0, 5.0, 4.0, 8.0], [4.0, 7.0, 5.0, 9.0], [3.5, 5.0, 6.0, 8.5]])  # rows, seeds
    rows, seeds = x.shape
    between = seeds * ((x.mean(1) - x.mean()) ** 2).sum()
    rest = ((x - x.mean(1, keepdims=True) - x.mean(0) + x.mean()) ** 2).sum()
    f = (between / (rows - 1)) / (rest / ((rows - 1) * (seeds - 1)))
    p = stats.f.sf(f, rows - 1, (rows - 1) * (seeds - 1))
    assert gates.paired_f(dict(zip("abc", x.tolist(), strict=True))) == pytest.approx(p, rel=1e-9)


def test_of_two_rows_it_is_the_paired_t_test():
    one, other = 50 + NOISE[0], 51 + 3 * NOISE[1]
    found = gates.paired_f({"one": one, "other": other})
    assert found == pytest.approx(stats.ttest_rel(one, other).pvalue, rel=1e-9)


def test_what_a_seed_adds_to_all_rows_is_no_difference():
    hard = np.array([0.0, 20.0, -15.0, 8.0, 3.0])
    moved = {name: values + hard for name, values in level(lead=4).items()}
    assert gates.paired_f(moved) == pytest.approx(gates.paired_f(level(lead=4)))


# --- what is gated


def test_where_no_row_differs_rankings_and_ablations_have_no_verdict(asked):
    asked(
        ranking={},
        ablation={"kind": "ablation"},
        cost={"kind": "cost"},
        mechanism={"kind": "mechanism"},
        equal={"equal": True},
        elsewhere={"tables": ["2"]},
        nowhere={"tables": []},
    )
    assert list(gates.gates(report(cells(level())))) == ["ranking", "ablation"]
    assert gates.gates(report(cells(level(lead=5)))) == {}


def test_claims_of_another_paper_are_not_gated(asked):
    other = [{**cell, "paper": "FedLGD"} for cell in cells(level())]
    assert gates.gates(report(other)) == {}


def test_one_column_whose_rows_differ_is_enough(asked):
    flat, steep = cells(level(), column="Digits/M"), cells(level(lead=5), column="Digits/U")
    assert gates.gates(report(flat, steep)) == {}
    more = cells(level(), column="Digits/U")
    assert "(F test over methods, 2 columns, smallest p" in gates.gates(report(flat, more))["one"]


def test_a_claim_of_two_tables_may_be_seen_in_either(asked):
    asked(both={"tables": ["1", "2"]}, first={})
    found = gates.gates(report(cells(level()), cells(level(lead=5), table="2")))
    assert list(found) == ["first"]


def test_a_baseline_near_chance_gates(asked):
    assert (
        "at most at 15 %, and guessing gives 10 %"
        in (gates.gates(report(cells(level(15, lead=40))))["one"])
    )
    assert gates.gates(report(cells(level(22, lead=40)))) == {}
    good = cells(level(60, lead=5), column="Digits/M")
    assert gates.gates(report(cells(level(15, lead=40)), good)) == {}
    flat = cells(level(60), column="Digits/M")  # a good baseline, where nothing differs
    assert "15 %" in gates.gates(report(cells(level(15, lead=40)), flat))["one"]


@pytest.mark.parametrize(
    "column, gated",
    [("CIFAR-100 beta=5", False), ("Office31/AVG", False), ("CIFAR10 N=2", True)],
)
def test_chance_is_that_of_the_columns_classes(asked, column, gated):
    found = gates.gates(report(cells(level(8, lead=10), column=column)))
    assert ("one" in found) == gated


@pytest.mark.parametrize("base", ["FedAvg", "BASE", "SOLO", "IL"])
def test_the_baseline_is_known_by_its_name_wherever_it_stands(base):
    rows = level(15, lead=40, base=base)
    turned = dict(reversed(rows.items()))
    (found,) = gates.columns(report(cells(turned))).itertuples()
    assert found.baseline == pytest.approx(np.mean(rows[base]))


def test_a_column_counts_with_three_rows_of_the_same_seeds():
    rows = level()
    few = cells(dict(list(rows.items())[:2]))
    assert gates.columns(report(few)).empty
    other = cells({"FCCL": rows["FCCL"][:2]}, seeds="0, 1")
    assert gates.columns(report(few, other)).empty  # it cannot be paired
    alone = cells({"FCCL": rows["FCCL"][:1]}, seeds="0")
    assert gates.columns(report(few, alone)).empty
    assert gates.columns(report(few, cells({"FCCL": ()}, setting=tables.OPEN))).empty
    (found,) = gates.columns(report(cells(rows), other)).itertuples()
    assert found.p == pytest.approx(gates.paired_f(rows))
    assert len(gates.columns(report(cells(rows), cells(rows, run="another")))) == 2


# --- the file


def test_the_committed_file_is_what_is_computed_today():
    again = "python -m tools.gates --write"
    assert load_json(GATES) == gates.gates(tables.build()), again


def test_what_is_gated_are_claims_that_expect_a_difference():
    known = {claim["id"]: claim for paper in printed.PAPERS for claim in claims_of(paper)}
    found = load_json(GATES)
    for name, why in found.items():
        assert known[name]["kind"] in gates.KINDS and "equal" not in known[name]
        assert why[0].isupper() and why.endswith(".")
    assert len(found) < len(known) / 10


def test_it_prints_the_reasons_and_writes_only_when_asked(asked, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(gates, "build", lambda: report(cells(level())))
    monkeypatch.setattr(gates, "GATES", tmp_path / "gates.json")
    assert gates.main([]) == 0
    assert capsys.readouterr().out.startswith("one: No row of Table 1 differs")
    assert not (tmp_path / "gates.json").exists()
    assert gates.main(["--write"]) == 0
    assert load_json(tmp_path / "gates.json").keys() == {"one"}
