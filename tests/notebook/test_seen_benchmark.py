"""What notebook 07 reads off its tables."""

from types import SimpleNamespace

import pytest

from fedtutor.experiments import recipes
from fedtutor.experiments.arenas import SEEDS, Entry
from fedtutor.notebook import seen_benchmark as seen
from fedtutor.notebook import seen_benchmark_advice as advice

HOME = {"home": seen.OWN}
# every method of the recipe but FedLGD, whose clients train on other images
ROWS = len(recipes.load("benchmark", profile="quick").methods) - 1


def entry(name, *accuracies, sent=1000):
    results = [SimpleNamespace(
        headline={"intra": a, "inter": a / 2, "worst": a}, settings={"rounds": 1}, seed=seed,
        totals={"bytes": {"up": sent, "down": sent}, "seconds": 1.0,
                "work": {"forward": 10, "backward": 10, "cpu_seconds": 2.0},
                "start": {"forward": 0, "backward": 0, "cpu_seconds": 0.0}},
    ) for seed, a in enumerate(accuracies)]  # fmt: skip
    return Entry(name, results)


@pytest.fixture
def three():
    rows = {"solo": (0.5, 0.52, 0.51), "fedavg": (0.7, 0.72, 0.7), "mine": (0.51, 0.5, 0.52)}
    return {name: entry(name, *values) for name, values in rows.items()}


def test_intervals_are_those_of_the_rule(three):
    shown = seen.intervals(three, HOME)
    assert shown["home"]["fedavg"] == (1, 1, [1, 1, 1])
    assert shown["home"]["mine"][:2] == (2, 3)
    assert seen.fixed(shown) == (["fedavg"], 1)
    assert seen.in_ranks(shown, "mine") == "2 to 3 of 3 on the home"
    assert seen.in_ranks(shown, "fedavg") == "1 of 3 on the home"
    assert "missing" in seen.in_ranks(shown, "nobody")
    assert seen.at_the_end(shown) == ""
    last = {"home": {"solo": (1, 2, []), "moon": (3, 3, []), "fedavg": (1, 2, [])}}
    assert seen.at_the_end(last) == ", the last 1"
    assert seen.at_the_end({"home": {}}) == ""
    assert seen.title(shown, 3) == (
        "Of the library's 1 methods, 3 seeds fix the rank of 1 in the panel: FedAvg"
    )
    assert seen.title({"home": {}}, 3).endswith("the rank of 0 in the panel")
    assert seen.rows_shown(shown).startswith("Ranks count 3 rows: 1 methods, ")


def test_methods_of_this_package_are_counted(three):
    assert seen.federated(["solo", "central", "fedavg", "mine"]) == ["fedavg"]
    assert seen.entered({"solo": "", "fedavg": "", "moon": "no", "mine": ""}) == (1, 2)
    assert seen.better(three, seen.OWN) == seen.unbeaten(three, seen.OWN) == ["fedavg"]
    assert seen.leader(three, seen.OWN) == "fedavg"
    assert seen.admitted("here", {"fedavg": "", "moon": "no"}).endswith(
        "1 of 2 methods may enter, not MOON"
    )
    assert seen.admitted("here", {"fedavg": ""}).endswith("1 of 1 methods may enter")
    assert seen.winners(three, HOME) == ["home, above training alone: FedAvg"]
    assert seen._named(["fedavg", "moon", "ewc"]) == "FedAvg, MOON and EWC"


def test_above_and_below_the_floor(three):
    assert seen.beside_the_floor(three, HOME) == {"home": (["fedavg"], [])}
    table = seen.sides(three, HOME)
    assert table.iloc[0].tolist() == ["home", "FedAvg", "nobody"]
    del three["solo"]
    assert seen.beside_the_floor(three, HOME) == {"home": ([], [])}


def test_costs_are_said_of_whole_runs(three):
    three["open"] = Entry("open", open=[0])
    words = seen.costs(three, ["fedavg", "open"])
    assert words == "FedAvg 0.00 MB, 30 passes a round"
    assert seen.points(three, seen.OWN)["solo"] == ([2000] * 3, [0.5, 0.52, 0.51])


def test_an_arena_that_nobody_may_enter_says_so():
    for table in (seen.table({}), seen.bill({})):
        assert table["method"].tolist() == ["nobody may enter with these clients"]
    assert seen.beside_the_floor({}, HOME) == {"home": ([], [])}


def test_with_one_test_set_there_is_one_question():
    assert list(seen.questions(SimpleNamespace(tests={"a": 1}))) == ["own domain"]
    assert len(seen.questions(SimpleNamespace(tests={"a": 1, "b": 2}))) == 2


def test_what_is_recorded_is_whole(nothing_trains):
    known = seen.recorded()
    assert len(known) == ROWS and all(e.whole for e in known.values())
    assert list(known)[:2] == ["solo", "central"]
    assert len(seen.recorded("four networks")) == 13
    assert seen.table(known)["as its paper runs it?"].notna().all()
    assert len(seen.bill(known)) == ROWS
    real = seen.real_digits({"one network": list(known)})
    assert (seen.again(real, seen.COLUMNS)["same order"] > 50).all()


def test_every_method_says_what_it_does(nothing_trains):
    table = seen.who(seen.recorded()).set_index("method")
    assert (table["what it does"].str.split().str.len() > 3).all()
    assert table.loc["FedProx"].tolist() == ["FedAvg with a leash.", "weights, number of images"]
    assert table.loc["local only (solo)", "what crosses"] == "nothing"


def test_what_to_take_follows_from_the_tables(nothing_trains):
    known = seen.recorded()
    four = seen.recorded("four networks")
    said = " ".join(advice.advice(known, known, four, four))
    best = seen.unbeaten(known, seen.OTHERS)
    assert set(best) <= set(seen.better(known, seen.OTHERS)) and said.count("times FedAvg") == len(
        best
    )
    home = seen.at_home(known["fedavg"])
    assert len(home) == len(SEEDS) and min(home) > known["fedavg"].results[0].headline["intra"]


def test_an_arena_is_read_where_nothing_was_changed(nothing_trains):
    recipe = SimpleNamespace(overrides={}, recompute=False)
    run = SimpleNamespace(recipe=recipe, scenario=SimpleNamespace(name=seen.SCENARIO))
    assert len(seen.arena(run, "virtual images")) == 9
    table = seen.entrance({"here": {"fedavg": "it averages"}, "there": {"fedavg": ""}})
    assert table.loc["FedAvg"].tolist() == ["it averages", "yes"]


def test_who_is_first_is_said_with_its_rank(nothing_trains):
    known = seen.recorded()
    *who, paper = seen.first(known, seen.COLUMNS)
    who = " ".join(who)
    shown = seen.intervals(known, seen.COLUMNS)
    assert f"of {len(seen.federated(known))} methods" in paper and len(known) == ROWS
    assert f"Ranks count {ROWS} rows" in who
    for question, column in seen.COLUMNS.items():
        name = seen.leader(known, column)
        assert f"{seen.display_name(name)} (" in who and f"on the {question}" in who
        first, last, _ = shown[question][name]
        for other in seen.federated(known):
            better = shown[question][other][0] <= first and shown[question][other][1] < last
            assert f"But {seen.display_name(other)} (" in who or not better
    for method in seen.fixed(shown)[0]:
        as_printed = seen.AS_PAPER[method].startswith("yes")
        assert as_printed or f"{seen.display_name(method)} (" in paper
    assert "nobody" in seen.first({}, {})[0]


def test_a_method_is_set_beside_training_alone(nothing_trains):
    four = seen.recorded("four networks")
    fccl, plus = seen.minus_alone(four, seen.COLUMNS, ["fccl", "fccl+"])
    assert fccl.startswith("FCCL minus") and plus.startswith("FCCL+ minus")
    behind = seen.beside_the_floor(four, seen.COLUMNS)["own domain"][1]
    own = fccl.partition("own domain ")[2]
    assert ("fccl" in behind) == (own.startswith("-") and own.endswith("*"))
    assert seen.minus_alone({}, seen.COLUMNS, ["fccl"]) == []


def test_virtual_images_are_told_with_their_price(nothing_trains):
    virtual = seen.recorded("virtual images")
    price, lead = seen.told_virtual(virtual, 6)
    assert "times the passes" in price and "FedLGD" in lead
    less = seen.gains(virtual, "fedlgd", "fedavg", seen.OWN).mean()
    assert ("behind" in lead) == (less < 0) and f"{abs(less):.1f}" in lead
    assert "open" in seen.told_virtual({}, 6)[0]
