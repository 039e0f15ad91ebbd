"""The long tables: every number of a history, once, under the right name."""

import json
import math

import pandas as pd
import pytest
from support.federations import federation, played

from fedtutor.engine.files import ROOT
from fedtutor.history import ACCURACIES, MESSAGES, OTHERS, OWN, History, long_table
from fedtutor.rounds import run

LINES = sorted((ROOT / "data" / "results").rglob("*.jsonl"))
COLUMNS = list(ACCURACIES)


def loops(history: dict) -> list[tuple]:
    """The rows of `long_table`, written as plain loops."""
    rows = []
    for at in history["accuracy"]:
        for client, domain, row in zip(
            history["clients"], history["domains"], at["matrix"], strict=True
        ):
            for test, value in zip(history["tests"], row or [], strict=bool(row)):
                on = OWN if test == domain else OTHERS
                when = at["round"], at["moment"], at["epoch"]
                rows.append((*when, client, test, on, 100 * value))
    return rows


def rows_of(frame: pd.DataFrame) -> list[tuple]:
    """With None for a missing epoch."""
    rows = frame[COLUMNS].astype(object).itertuples(index=False, name=None)
    return [
        tuple(None if isinstance(v, float) and math.isnan(v) else v for v in row) for row in rows
    ]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"participation": 0.5, "observe": ["after_local"]},
        {"observe": ["local_epoch", "after_collaborate"], "eval_every": 2},
        {"rounds": 1, "observe": ["after_aggregate (last round)"]},
    ],
)
def test_every_accuracy_of_a_run_is_a_row(options):
    history = run(federation(**options))
    assert isinstance(history, History)
    assert rows_of(history.accuracies()) == loops(history)


def test_who_sat_out_has_no_row():
    history = played(participation=0.5, observe=["after_local"]).history
    inside = history.accuracies().query("moment == 'after_local'")
    trained = [sum(v is not None for v in at["values"]) for at in history["loss"]]
    assert trained == [2, 2, 2]
    assert inside.groupby("round").client.nunique().tolist() == trained
    for at in history["loss"]:
        took_part = {c for c, v in zip(history["clients"], at["values"], strict=True) if v}
        assert set(inside[inside["round"] == at["round"]].client) == took_part


def test_a_local_epoch_has_its_number_and_nothing_else_has():
    found = played(observe=["local_epoch"], local_epochs=3, rounds=2).history.accuracies()
    inside = found["moment"] == "local_epoch"
    assert found[inside].groupby(["round", "epoch"]).size().to_dict() == {
        (n, epoch): 9 for n in (1, 2) for epoch in (1, 2, 3)
    }
    assert found[~inside].epoch.isna().all() and set(found[~inside]["round"]) == {0, 1, 2}


def test_clients_with_unequal_epochs_have_as_many_rows_as_epochs():
    found = played(observe=["local_epoch"], client_epochs=[1, 3, 2], rounds=1).history.accuracies()
    inside = found[found["moment"] == "local_epoch"]
    assert inside.groupby("client", observed=True).epoch.max().tolist() == [1, 3, 2]


def test_accuracies_are_in_percent_and_own_is_the_own_domain():
    history = played().history
    found = history.accuracies()
    matrix = history["accuracy"][-1]["matrix"]
    last = found[found["round"] == 3]
    own = last[last["on"] == OWN].sort_values("client")
    assert own.accuracy.tolist() == pytest.approx([100 * matrix[i][i] for i in range(3)])
    assert (own.client.astype(str) == own.test.astype(str)).all()
    assert len(last[last["on"] == OTHERS]) == 6 and found.accuracy.max() > 50


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "feddf"])
def test_messages_add_up_to_what_crossed_the_channel(method):
    fed = federation(method)
    crossed = []
    fed.channel.filters.append(lambda message, own: crossed.append(message) or message.payload)
    found = run(fed).messages(method=method)
    assert found["bytes"].sum() == sum(message.bytes for message in crossed) > 0
    assert found["messages"].sum() == len(crossed)
    up = found[found["target"] == "server"]
    assert set(up["source"]) == {"clients"} and set(found.method) == {method}
    assert up["bytes"].sum() == sum(m.bytes for m in crossed if m.target == "server")
    assert list(found.columns) == ["method", *MESSAGES]


def test_who_talks_to_whom():
    row = {"round": 1, "name": "weights", "bytes": 8, "messages": 2}
    history = History(bytes=[row | {"direction": d} for d in ("up", "down", "peer")])
    ends = [(r.source, r.target) for r in history.messages().itertuples()]
    assert ends == [("clients", "server"), ("server", "clients"), ("clients", "clients")]


def test_labels_are_the_first_columns():
    one, two = played(rounds=1).history, played(rounds=2, seed=1).history
    frame = long_table([({"method": "x", "seed": 0}, one), ({"method": "y", "seed": 1}, two)])
    assert list(frame.columns) == ["method", "seed", *COLUMNS]
    assert frame.groupby(["method", "seed"], observed=True).size().to_dict() == {
        ("x", 0): 18, ("y", 1): 27,
    }  # fmt: skip
    assert rows_of(frame[frame.method == "y"]) == loops(two)
    assert two.accuracies(method="y", seed=1)["seed"].unique().tolist() == [1]
    assert rows_of(one.accuracies(anything="else")) == loops(one)


def test_runs_need_not_have_the_same_clients_or_tests():
    from support.federations import tiny_scenario

    one, two = (played(scenario=tiny_scenario(clients=k)).history for k in (2, 4))
    frame = long_table([({"k": 2}, one), ({"k": 4}, two)])
    assert rows_of(frame) == loops(one) + loops(two)


def test_nothing_is_an_empty_table_with_its_columns():
    for runs in ([], [({}, federation().history)]):
        frame = long_table(runs)
        assert list(frame.columns) == COLUMNS and frame.empty
        assert frame.groupby("on", observed=True)["accuracy"].mean().empty
    assert list(History(bytes=[]).messages().columns) == list(MESSAGES)


@pytest.mark.parametrize("path", LINES, ids=lambda path: f"{path.parts[-3]}/{path.stem}")
def test_recorded_results_melt_to_what_plain_loops_find(path):
    """All lines of the file in one table; every twentieth number by number."""
    found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    frame = long_table(({"run": one["run"]}, one["history"]) for one in found)
    counts = frame.groupby("run", observed=True).size().to_dict()
    assert counts == {one["run"]: len(loops(one["history"])) for one in found}
    for one in found[::20]:
        rows = loops(one["history"])
        assert rows_of(frame[frame.run == one["run"]]) == rows
        means = one["headline"]["intra"], one["headline"]["inter"]
        last = frame[(frame.run == one["run"]) & (frame.moment == "end")]
        last = last[last["round"] == one["headline"]["round"]]
        for mean, on in zip(means, (OWN, OTHERS), strict=True):
            values = last[last["on"] == on].accuracy
            assert values.empty if mean is None else values.mean() == pytest.approx(100 * mean)
