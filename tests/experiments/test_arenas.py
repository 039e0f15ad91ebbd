"""Who may enter, what a row says, which ranks carry; a method that fails stops nobody."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from support.federations import tiny_scenario

from fedtutor import figures, methods
from fedtutor.errors import DataError, SettingError
from fedtutor.experiments import arenas, ranks, recipes, results
from fedtutor.experiments.arenas import ARENAS, Entry, gather, in_arena
from fedtutor.experiments.ranks import forgets
from fedtutor.experiments.run import run as train
from fedtutor.methods.fedavg import FedAvg


@pytest.fixture
def own(own_tables):
    """A table of methods that a test may add to."""
    return methods.METHODS


def result(accuracy, *, moments=(), seed=0, **totals):
    rows = [[0.5, accuracy], [accuracy, 0.5]]
    inside = [{"round": 2, "moment": m, "epoch": None, "matrix": matrix} for m, matrix in moments]
    end = {"round": 2, "moment": "end", "epoch": None, "matrix": rows}
    history = {"tests": ["a", "b"], "domains": ["a", "b"], "accuracy": [*inside, end]}
    return SimpleNamespace(
        history=history, headline={"round": 2, "intra": 0.5, "inter": accuracy, "worst": 0.5},
        totals=totals, settings={"rounds": 2}, seed=seed,
    )  # fmt: skip


# --------------------------------------------------------------------------------- who may enter


def test_the_code_says_who_may_enter(run):
    recipe = run.recipe.change({"virtual_steps": 0})
    found = {arena: arenas.refusals(recipe, arena, run.scenario) for arena in ("one network",)}
    assert "virtual images" in found["one network"]["fedlgd"]
    assert not found["one network"]["fedavg"] and not found["one network"]["fccl"]
    unequal = run.recipe.change({"models": ["linear", "noisy", "linear"]})
    assert "averages weights" in arenas.refusal(unequal, "fedavg", run.scenario)
    assert arenas.refusal(unequal, "kd", run.scenario) == ""
    without = arenas.refusal(run.recipe, "kd", tiny_scenario(public=False))
    assert "public images" in without


def test_an_arena_of_guests_asks_their_recipe_and_lets_own_methods_in(run, own):
    @methods.register("newcomer")
    @dataclass
    class Newcomer(FedAvg):
        pass

    names = ["fedavg", "fedrs", "newcomer"]
    recipe = run.recipe.change({"virtual_lr": 1.0})
    found = arenas.refusals(recipe, "virtual images", digits(), only=names)
    assert found == {"fedavg": "", "fedrs": "not in the comparison of FedLGD", "newcomer": ""}
    assert arenas.own_methods(run.recipe) == ["newcomer"]


def digits():
    from dataclasses import replace

    from fedtutor import scenarios

    scenario = scenarios.build("digits-mini", private_size=20)
    return replace(scenario, tests={n: t[:20] for n, t in scenario.tests.items()})


def test_every_arena_is_one_of_the_recipe():
    for profile in recipes.PROFILES:
        recipe = recipes.load("benchmark", profile=profile)
        assert set(recipe.methods) <= set(methods.METHODS)
        for arena in ARENAS:
            assert in_arena(recipe, arena).settings.optimizer == "sgd"
    with pytest.raises(SettingError, match="did you mean 'one network'"):
        in_arena(recipe, "one networks")
    at = recipes.load("benchmark", profile="quick", scenario="digits-partial").settings
    assert at.client_epochs == [10, 9, 1, 1]


def test_every_parameter_of_the_recipe_has_its_source():
    for profile in recipes.PROFILES:
        recipe = recipes.load("benchmark", profile=profile)
        named = {f"{m}.{k}" for m, given in recipe.methods.items() for k in given}
        assert not named - {*recipe.origins}


# ------------------------------------------------------------------------------------- the table


def test_a_method_that_raises_or_diverges_has_its_row_and_stops_nobody(run, own):
    @methods.register("raises")
    @dataclass
    class Raises(FedAvg):
        def local_loss(self, client, x, y):
            raise ValueError("no such thing")

    @methods.register("diverges")
    @dataclass
    class Diverges(FedAvg):
        def local_loss(self, client, x, y):
            return super().local_loss(client, x, y) / 0.0

    @methods.register("breaks")
    @dataclass
    class Breaks(FedAvg):
        def start(self, fed):
            raise ZeroDivisionError

    names = ["fedavg", "raises", "diverges", "breaks"]
    entries = gather(run, "one network", live=["fedavg"], only=names)
    assert list(entries) == names
    table = ranks.table(entries).set_index("method")
    assert table.loc["FedAvg", "note"] == "" and "±" in table.loc["FedAvg", "own domain (%)"]
    assert table.loc["raises", "note"] == "2 of 2 seeds raised ValueError: no such thing"
    assert "2 of 2 seeds diverged: the loss of client domain0" in table.loc["diverges", "note"]
    assert table.loc["breaks", "note"] == "2 of 2 seeds raised ZeroDivisionError: no words"
    assert (table.loc["raises"].drop(["from", "note"]) == "-").all()
    assert list(ranks.values(entries, "own domain (%)")) == ["fedavg"]


def test_recorded_rows_count_only_with_the_settings_of_the_notebook(run):
    recipe = in_arena(run.recipe, "one network")
    for seed in run.seeds:
        train(recipe, "fedavg", seed=seed, scenario=run.scenario, threads=1,
                     folder=results.RESULTS)  # fmt: skip
    found = gather(run, "one network", only=["fedavg", "solo"])
    assert found["fedavg"].whole and not found["fedavg"].live
    assert found["solo"].note == "open: not recorded yet" and found["solo"].open == [0, 1]
    other = gather(run, "one network", only=["fedavg"], lr=0.3)
    assert other["fedavg"].open == [0, 1]
    cost = ranks.table(found, ranks.COSTS).set_index("method").loc["FedAvg"]
    assert cost["passes"] == f"{3 * (24 + 27 + 30):,}" and cost["before"] == "0"
    result = found["fedavg"].results[0]
    held = result.totals["start"]["peak_memory"]
    megabytes = ranks.values(found, ranks.MEMORY)["fedavg"][0] / 1e6
    assert megabytes == (result.totals["peak_memory"] - held) / 1e6 < held / 1e6
    found["fedavg"].live = True
    assert ranks.table(found, ranks.COSTS).iloc[0][ranks.MEMORY] == "-"


def test_of_what_is_live_the_first_seed_is_trained_and_the_others_read(run):
    recipe = in_arena(run.recipe, "one network")
    kept = train(recipe, "fedavg", seed=1, scenario=run.scenario, threads=1,
                 folder=results.RESULTS)  # fmt: skip
    found = gather(run, "one network", live=["fedavg"], only=["fedavg"])["fedavg"]
    assert found.whole and found.live and [r.seed for r in found.results] == [0, 1]
    assert found.results[1].totals == kept.totals  # read, with its seconds
    assert len(run.results) == 1


def test_chance_is_said():
    entry = Entry("fedavg", [result(0.1)], chance=0.4)
    assert entry.note == "1 of 1 seeds at chance" and entry.whole
    assert Entry("fedavg", [result(0.1)], chance=0.1).note == ""


def test_forgetting_by_hand():
    before, after = [[0.9, 0.6], [0.8, 0.9]], [[0.9, 0.5], [0.4, 0.9]]
    moments = (("after_collaborate", before), ("after_local", after))
    assert forgets(result(0.1, moments=moments)) == pytest.approx((0.1 + 0.4) / 2)
    alone = (("after_collaborate", [before[0], None]), ("after_local", [after[0], None]))
    assert forgets(result(0.1, moments=alone)) == pytest.approx(0.1)
    assert forgets(result(0.1)) is None


def test_passes_of_a_result():
    work = {"forward": 30, "backward": 10, "cpu_seconds": 1.0}
    found = {"fedavg": Entry("fedavg", [result(0.1, work=work, start={**work, "forward": 4})]),
             "resumed": Entry("resumed", [result(0.1)])}  # fmt: skip
    assert ranks.values(found, "passes") == {"fedavg": [(30 + 2 * 10) / 2]}
    assert ranks.values(found, "before") == {"fedavg": [4 + 2 * 10]}
    row = ranks.table(found, ranks.COSTS).set_index("method").loc["resumed"]
    assert row["passes"] == row["before"] == row["CPU (s)"] == "-"


# ------------------------------------------------------------------------------------- the ranks


def test_a_method_beats_another_where_the_interval_lies_above_zero():
    base = [0.50, 0.60, 0.55, 0.40]
    up = [b + gain for b, gain in zip(base, [0.02, 0.004, 0.019, 0.03], strict=True)]
    assert ranks.beats(up, base) and not ranks.beats(base, up)  # in points: +1.8 [+0.1, +3.5]
    assert not ranks.beats(up[:3], base[:3])  # each seed above, and the interval contains zero
    assert not ranks.beats(base, base) and not ranks.beats([0.9], [0.1])  # one seed says nothing


def test_ranks_by_hand():
    rows = {"a": [0.80, 0.82, 0.84], "b": [0.70, 0.72, 0.74], "c": [0.79, 0.83, 0.83]}
    frame = ranks.ranks(rows).set_index("method")
    assert list(frame.index) == ["a", "c", "b"]
    assert frame[["first", "last"]].values.tolist() == [[1, 2], [1, 2], [3, 3]]
    assert frame.loc["c", "per seed"] == [2, 1, 2]


def test_equal_methods_share_all_their_ranks():
    rows = {"a": [0.8, 0.7, 0.75], "b": [0.8, 0.7, 0.75], "c": [0.1, 0.02, 0.05]}
    frame = ranks.ranks(rows).set_index("method")
    assert frame.loc["a", ["first", "last"]].tolist() == [1, 2]
    assert frame.loc["b", "per seed"] == [1, 1, 1]
    assert len(ranks.ranks({})) == 0


def test_who_stands_beside_whom():
    rows = {"a": [0.80, 0.82, 0.84], "b": [0.70, 0.72, 0.74], "c": [0.79, 0.83, 0.83]}
    assert ranks.beside(rows, "b") == (["a", "c"], [])
    assert ranks.beside(rows, "a") == ([], ["b"])


def test_two_tables_agree_where_both_tell_a_pair_apart():
    rows = {
        "a": [0.80, 0.82, 0.84],
        "b": [0.70, 0.72, 0.74],
        "c": [0.79, 0.83, 0.83],
        "e": [0.9, 0.9, 0.9],
    }
    turned = {"a": rows["b"], "b": rows["a"], "c": rows["c"], "d": [0.1, 0.1, 0.1]}
    assert ranks.agreement(rows, {n: rows[n] for n in "abc"}) == (2, 0)
    assert ranks.agreement(rows, turned) == (0, 1)  # c and b: open in the second table


def test_the_figure_draws_every_interval():
    figure = figures.ranks({"home": {"fedavg": (1, 2, [1, 2]), "solo": (1, 2, [2, 1])},
                            "away": {"fedavg": (1, 1, [1, 1])}}, title="Two methods")  # fmt: skip
    home, away = figure.axes
    assert [len(axes.lines) for axes in (home, away)] == [4, 2]
    assert list(home.lines[0].get_xdata()) == [0.7, 2.3]
    assert [label.get_text() for label in home.get_yticklabels()] == ["FedAvg", "local only (solo)"]
    with pytest.raises(DataError, match="1 methods"):
        figures.ranks({"home": {"solo": (1, 1, [1])}}, title="One method")
