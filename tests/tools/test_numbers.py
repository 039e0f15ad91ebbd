"""My number is another: the page is what the results say, and each value what a hand computes."""

import json
import re
from dataclasses import replace

import pytest

from fedtutor.engine.files import ROOT, load_json, save_json
from fedtutor.errors import SettingError, StorageError
from fedtutor.experiments import results
from fedtutor.papers import ledger
from fedtutor.papers.verdicts import RECORDS
from tests.support.recorded import ROUNDS, made, recipe
from tools import numbers
from tools.numbers import NOT_YET, Effect, Row, Shelf

BETTER = ([[0.8, 0.3], [0.4, 0.9]], [[0.9, 0.5], [0.6, 0.9]])  # own: 0.85, then 0.9
START = {"recipe": "start", "method": "fedavg"}


# --- what is committed


@pytest.fixture(scope="module")
def found():
    return numbers.effects()


@pytest.fixture(scope="module")
def text():
    return (ROOT / numbers.PAGE).read_text(encoding="utf-8")


def test_all_that_is_compared_is_recorded_or_said_to_be_open(found):
    lost = [
        row.compared
        for effect in found
        for row in effect.rows
        if row.points == NOT_YET and "data/numbers.toml" in row.setting
    ]
    assert not lost, "record these runs, or mark their rows of data/numbers.toml as open"


def test_no_measured_number_is_typed_into_the_prose(text):
    prose = re.sub(r"<!-- [^\n]*made by:.*?<!-- end -->", "", text, flags=re.S)
    assert len(prose) < len(text) / 2
    assert not re.findall(r"\d+[.,]\d|[+-]\d|\d+ ?(?:%|points)|± ?\d", prose)


def test_each_effect_has_its_section_and_each_notebook_the_section_that_is_named(found, text):
    headings = re.findall(r"^### (.*)$", text, re.M)
    assert headings == [effect.title for effect in found]
    for effect in found:
        for place in {row.notebook for row in effect.rows} - {""}:
            number, section = re.fullmatch(r"(\w+), section (\d+)", place).groups()
            (path,) = ledger.NOTEBOOKS.glob(f"{number}_*.ipynb")
            sources = ["".join(cell["source"]) for cell in load_json(path)["cells"]]
            assert any(f"## {section}. " in source for source in sources), place


def test_links_of_the_overview_lead_to_headings(text):
    anchors = {numbers._anchor(title) for title in re.findall(r"^#+ (.*)$", text, re.M)}
    assert "the-network-of-the-server-or-of-the-clients" in anchors
    assert set(re.findall(r"\]\(#([^)]*)\)", text)) <= anchors


def test_readers_find_the_page():
    for page, link in (
        ("README.md", "data/results/NUMBERS.md"),
        ("data/results/README.md", "NUMBERS.md"),
    ):
        assert f"]({link})" in (ROOT / page).read_text(encoding="utf-8")


def test_the_table_has_a_line_per_comparison(found):
    table = numbers.table()
    assert list(table.columns) == list(numbers.COLUMNS)
    assert len(table) == sum(len(effect.rows) for effect in found)


def test_one_shared_network_is_as_good_at_home_as_elsewhere(found):
    """An identity, which the page states."""
    (row,) = [r for e in found for r in e.rows if "one network for all" in r.compared]
    assert row.points == "+0.0 ± 0.0" and len(row.values) > 1


def test_office_has_the_test_sets_that_its_paper_splits_off():
    here = [r for r in results.load_all().values() if r.scenario["name"] == "office-caltech"]
    assert numbers.sizes_of_tests(here) == [192, 225, 32, 59]  # a fifth of 958, 1123, 157, 295


# --- values by hand


@pytest.fixture
def shelf(tmp_path):
    """FedAvg (own 0.75 to 0.9 at two rounds), two seeds, and twice as many local epochs, one."""
    for seed, rounds in ((0, ROUNDS), (1, BETTER)):
        keep(made(seed=seed, rounds=rounds), tmp_path)
    keep(made(rounds=BETTER, given=recipe(overrides={"local_epochs": 2})), tmp_path)
    return Shelf(tmp_path, attacks=tmp_path / "attacks")


def keep(result, folder):
    results.save_result(result, folder / results.home_of(result))


def read(shelf, **row):
    row = {"compared": "a minus b", **row}
    return numbers._row(shelf, "effect", row, "here")


@pytest.mark.parametrize(
    "measure, expected",
    [
        ("own domain", [80, 90]),
        ("other domains", [45, 55]),
        ("all domains", [62.5, 72.5]),
        ("worst client", [70, 90]),
        ("best round", [85, 90]),
        ("mean of the last three", [82.5, 87.5]),
    ],
)
def test_a_measure_is_what_a_hand_reads_off_the_matrix(shelf, measure, expected):
    found = shelf.values({**START, "measure": measure})
    assert list(found) == [0, 1] and list(found.values()) == pytest.approx(expected)


def test_two_sides_are_subtracted_seed_by_seed(shelf):
    row = read(shelf, run=START, minus={"measure": "other domains"}, notebook="00, section 4")
    assert row.values == pytest.approx((35, 35)) and row.points == "+35.0 ± 0.0"
    assert (
        row.setting == f"FedAvg, digits-mini, quick, {recipe().settings.rounds} rounds, seeds 0, 1"
    )
    one = read(shelf, run={**START, "with": {"local_epochs": 2}}, minus={"with": {}})
    assert one.values == pytest.approx((10,)) and one.points == "+10.0"  # seed 0 has both
    back = read(shelf, run=START, minus={"with": {"local_epochs": 2}})
    assert back.values == pytest.approx((-10,)) and back.points == "-10.0"
    apart = read(shelf, run=START, minus={"with": {"local_epochs": 2}}, apart=True)
    assert apart.values == pytest.approx((10,)) and apart.points == "10.0" and apart.difference


def test_a_level_has_no_sign_and_nothing_recorded_is_said(shelf):
    level = read(shelf, run=START)
    assert level.points == "85.0 ± 7.1" and not level.difference
    nothing = read(shelf, run={**START, "method": "solo"}, minus={"measure": "other domains"})
    assert nothing.points == NOT_YET and nothing.values == () and not nothing.difference
    planned = read(shelf, open="a run of next year")
    assert (planned.points, planned.setting) == (NOT_YET, "would need: a run of next year")


def test_moments_inside_a_round_are_read_there(shelf, tmp_path):
    result = made(seed=5)
    entries = [
        {**e, "matrix": [[0.5, 0.25], [0.125, 0.75]]} if e["moment"] == "after_local" else e
        for e in result.history["accuracy"]
    ]
    result = replace(result, history={**result.history, "accuracy": entries})
    keep(result, tmp_path)
    alone = Shelf(tmp_path / "one")
    keep(result, tmp_path / "one")
    assert alone.values({**START, "measure": "before averaging"}) == {5: 62.5}
    assert alone.values({**START, "measure": "before averaging, other domains"}) == {5: 18.75}
    with pytest.raises(StorageError, match="nothing was noted at 'after_collaborate'"):
        alone.values({**START, "measure": "after the exchange"})
    with pytest.raises(
        StorageError, match="nothing was noted at 'after_local'"
    ):  # there a client sat out
        shelf.values({**START, "measure": "before averaging"})


def test_over_images_a_large_test_set_counts_more(tmp_path):
    """Accuracies are thirds on the first test set and halves on the second: 3 and 2 images."""
    result = made(rounds=([[1 / 3, 0.5], [2 / 3, 1.0]],) * 2)
    tested = [e for e in result.history["accuracy"] if e["moment"] == "end" and e["round"]]
    result = replace(result, history={**result.history, "accuracy": tested})
    keep(result, tmp_path)
    assert numbers.sizes_of_tests([result]) == [3, 2]
    found = Shelf(tmp_path).values({**START, "measure": "over images"})
    assert found[0] == pytest.approx(100 * (1 + 2) / 5)  # the mean over clients is 67


def test_a_weight_chosen_by_its_own_test_images_is_never_below_the_others_choice(tmp_path):
    for option, own in ((1, (0.5, 0.9, 0.5)), (2, (0.6, 0.6, 0.6))):
        for seed, value in enumerate(own):
            keep(
                made(
                    seed=seed,
                    rounds=([[value, 0], [0, value]],) * 2,
                    given=recipe(overrides={"local_epochs": option}),
                ),
                tmp_path,
            )
    options = [{"local_epochs": 1}, {"local_epochs": 2}]
    # the others prefer 1 (0.7), 2 (0.6), 1 (0.7); own choice: 2, 1, 2
    found = Shelf(tmp_path).chosen(START, options)
    assert found == pytest.approx({0: 10, 1: 30, 2: 10})
    row = read(Shelf(tmp_path), run=START, choose=options)
    assert row.points == "+16.7 ± 11.5" and row.difference
    assert Shelf(tmp_path / "empty").chosen(START, options) == {}


def test_deviations_are_those_of_runs_that_differ_in_the_seed_alone(shelf, tmp_path):
    for seed, rounds in ((0, ROUNDS), (1, ROUNDS)):
        keep(made("solo", seed=seed, rounds=rounds), tmp_path)
    row = read(shelf, every=True)
    assert sorted(row.values) == pytest.approx([0, 7.0710678])  # the single one has none
    assert row.setting == "2 settings of data/results" and "half are below 3.5" in row.points


def test_what_notebooks_and_attacks_recorded_is_read_too(shelf, tmp_path):
    record = {
        "claim": "c",
        "where": "w",
        "paper": "-",
        "measured": "",
        "verdict": "holds",
        "setting": "digits-mini · quick · seeds 0, 1; measured here",
        "live": True,
        "unit": "points",
        "claimed": 1,
    }
    records = [
        {**record, "id": "x-01", "values": [1.0, 2.0]},
        {**record, "id": "x-02", "values": [4.0, 6.0]},
    ]
    cell = {"cell_type": "code", "source": "", "outputs": [{"data": {RECORDS: records}}]}
    (tmp_path / "00_x.ipynb").write_text(json.dumps({"cells": [cell]}), encoding="utf-8")
    attacks = {"lira": {"auc": [0.75, 0.5]}, "threshold": {"auc": [0.5, 0.5]}}
    save_json(tmp_path / "attacks" / "a.json", {"numbers": attacks})
    shelf = replace(shelf, notebooks=tmp_path)
    row = read(shelf, claim="x-02", minus={"claim": "x-01"})
    assert row.values == (3, 4) and row.setting == "digits-mini, quick, seeds 0, 1"
    assert read(shelf, claim="x-02").points == "+5.0 ± 1.4"
    attack = read(shelf, study="a", number="lira.auc", minus={"number": "threshold.auc"})
    assert attack.values == (25, 0) and "2 attacked networks" in attack.setting
    assert read(shelf, study="b", number="lira.auc").points == NOT_YET
    with pytest.raises(SettingError, match="x-01"):
        read(shelf, claim="x-1")


# --- the overview


def test_the_overview_begins_with_the_largest_and_says_what_is_open():
    def row(words, *values):
        return Row("e", words, values, "?" if values else NOT_YET, "s", "", bool(values))

    small = Effect("s", "Small", (row("a", 1.0), row("b", -2.0), row("c")))
    none, large = Effect("n", "None, yet", (row("d"),)), Effect("l", "Large?", (row("e", -3.0),))
    assert (small.largest.compared, small.size, none.size) == ("b", 2, 0)
    lines = numbers.parts([none, small, large])[numbers._mark("overview")].splitlines()
    assert [line.split("]")[0][3:] for line in lines[2:]] == ["Large?", "Small", "None, yet"]
    assert (
        "| b (1 more not measured yet) |" in lines[3] and "(#none-yet) | not measured" in lines[4]
    )


# --- mistakes, and the command


@pytest.mark.parametrize(
    "row, words",
    [
        ({"run": START, "claim": "x"}, "2 sources"),
        ({}, "0 sources"),
        ({"run": {**START, "mesure": "own domain"}}, "mean 'measure'"),
        ({"run": {**START, "measure": "own"}}, "unknown measure"),
        ({"run": {**START, "method": "fedavgg"}}, "mean 'fedavg'"),
        ({"run": START, "minus": {"wiht": {}}}, "mean 'with'"),
        ({"run": START, "apart": 1}, "give a bool"),
    ],
)
def test_a_misspelt_row_is_one_clear_error(shelf, row, words):
    with pytest.raises(SettingError, match=words):
        read(shelf, **row)


def test_a_list_that_is_none_and_a_notebook_that_is_not_there(tmp_path):
    (tmp_path / "list.toml").write_text("[[effect", encoding="utf-8")
    with pytest.raises(SettingError, match="no list of effects"):
        numbers.effects(path=tmp_path / "list.toml")
    with pytest.raises(SettingError, match="no notebook 77"):
        numbers._link("77, section 1", ledger.NOTEBOOKS)


def test_one_test_set_has_no_other_domains(tmp_path):
    keep(made(tests=("mnist",), rounds=([[0.5], [0.25]],) * 2), tmp_path)
    with pytest.raises(SettingError, match="one test set"):
        Shelf(tmp_path).values({**START, "measure": "other domains"})
