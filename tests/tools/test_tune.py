"""Learning rates: the recipe has the best of the grid, on seeds that nothing reports."""

import pandas as pd
import pytest

from fedtutor.experiments import manifest, recipes, results
from fedtutor.history import OTHERS, OWN
from tools import markdown, tune

GRID = tune.read_grid()
QUEUES = [manifest.MANIFEST.with_name(f"{name}.toml") for name in ("measured", "waiting")]
DONE = [name for name in GRID if (tune.FOLDER / f"{name}.csv").exists()]


@pytest.mark.parametrize("name", DONE)
def test_every_method_was_tried_with_every_rate_and_seed_at_the_settings_of_today(name):
    asked, rows = GRID[name], tune.rows_of(name)
    recipe = tune.recipe_of(asked, asked["rates"][0])
    there = set(rows[["method", "lr", "seed", "settings"]].itertuples(index=False, name=None))
    assert there == {
        (method, lr, seed, tune.settings_key(recipe, method))
        for method in asked["methods"] or recipe.methods
        for lr in asked["rates"]
        for seed in asked["seeds"]
    }
    assert rows["images"].nunique() <= len(asked["seeds"]) and (rows["commit"] != "").all()


@pytest.mark.parametrize("name", DONE)
def test_the_recipe_has_the_best_rate(name):
    """Or the rows of a table with changes of its own, where the comparison has the same."""
    asked = GRID[name]
    recipe = recipes.load(asked["recipe"], profile="quick", scenario=asked["scenario"])
    rows = [run for path in QUEUES for run in manifest.load(path)]
    for method, lr in tune.best(name).items():
        if not asked["overrides"]:
            assert recipe.settings_of(method).lr == lr, method
            continue
        key = tune.settings_key(tune.recipe_of(asked, lr), method)
        mine = [run for run in rows if run.method == method]
        mine = [run for run in mine if tune.settings_key(run.recipe, method) == key]
        assert mine and {run.recipe.settings_of(method).lr for run in mine} == {lr}, method


def test_no_result_has_a_seed_of_the_grid():
    tuned = {seed for asked in GRID.values() for seed in asked["seeds"]}
    assert not tuned & {found.seed for found in results.load_all().values()}
    for path in (manifest.MANIFEST, manifest.MANIFEST.with_name("measured.toml")):
        assert not tuned & {run.seed for run in manifest.load(path)}


def test_the_page_is_made_of_the_rows():
    text = tune.PAGE.read_text(encoding="utf-8")
    assert text == markdown.with_part(text, tune.page(GRID), begin=tune.BEGIN)


@pytest.fixture
def small(tmp_path, monkeypatch):
    rows = [
        ("a", 0.1, 0, 50.0, 20.0, ""), ("a", 0.1, 1, 60.0, 30.0, ""),
        ("a", 1.0, 0, 90.0, 60.0, ""), ("a", 1.0, 1, None, None, "diverged"),
        ("b", 0.1, 0, 50.0, None, ""), ("b", 0.1, 1, 52.0, None, ""),
        ("b", 1.0, 0, 52.0, None, ""), ("b", 1.0, 1, 52.0, None, ""),
    ]  # fmt: skip
    frame = pd.DataFrame(rows, columns=["method", "lr", "seed", OWN, OTHERS, "failed"])
    frame.assign(settings="", images="", commit="", torch="").to_csv(
        tmp_path / "small.csv", index=False
    )
    monkeypatch.setattr(tune, "FOLDER", tmp_path)
    return {"small": {"recipe": "r", "scenario": "s", "seeds": [0, 1], "overrides": {}}}


def test_the_best_rate_has_the_highest_mean_and_no_seed_that_diverged(small):
    assert tune.reached("small").loc["a", 0.1] == pytest.approx(40.0)
    assert tune.best("small") == {"a": 0.1, "b": 1.0}


def test_a_page_marks_the_best(small):
    lines = tune.page(small).splitlines()
    assert "| a | **40.0** | diverged |" in lines and "| b | 51.0 | **52.0** |" in lines


def test_what_is_missing_is_run_once_and_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tune, "FOLDER", tmp_path)
    monkeypatch.setattr(tune, "ROOT", tmp_path)
    asked = {
        "recipe": "fedcsd", "scenario": "mnist-mini", "seeds": [100, 101], "methods": ["fedavg"],
        "overrides": {"rounds": 1, "local_epochs": 1, "scenario.private_size": 200},
    }  # fmt: skip
    tune.run_missing("tiny", asked, 0.1, 1)
    rows = tune.rows_of("tiny")
    assert list(rows["seed"]) == [100, 101] and rows["images"].nunique() == 2
    assert rows[OWN].between(0, 100).all() and (rows["failed"] == "").all()
    capsys.readouterr()
    tune.run_missing("tiny", asked, 0.1, 1)
    assert not capsys.readouterr().out  # nothing was left
    asked["overrides"]["rounds"] = 2
    tune.run_missing("tiny", asked, 0.1, 1)
    assert len(tune.rows_of("tiny")) == 2  # other settings take the place


def test_hex_digits_that_look_like_a_number_stay_text(small, tmp_path):
    path = tmp_path / "small.csv"
    path.write_text(
        path.read_text().replace("0.1,0,50.0,20.0,,,,,", "0.1,0,50.0,20.0,,1e5,2,1e91623504,")
    )
    row = tune.rows_of("small").iloc[0]
    assert (row["settings"], row["images"], row["commit"]) == ("1e5", "2", "1e91623504")


def test_an_unknown_comparison_is_one_error(capsys):
    assert tune.main(["no-such"]) != 0
    assert "unknown comparison 'no-such'" in capsys.readouterr().err
