"""The learning rate of each method in a comparison: one grid for all, on seeds of their own.

    python -m tools.tune                   run what is missing of data/tuning/grid.toml
    python -m tools.tune fedcsd-mnist-mini --jobs 2

What a run came to is a row of data/tuning/<comparison>.csv, with its commit and images, and with a
hash of its settings and parameters: a row of other ones is run again. The page beside the rows is
made anew. The recipe's rate of a method must be the best of its rows; a test holds that.
"""

import argparse
import tomllib
from dataclasses import asdict
from functools import partial

import pandas as pd
import torch

from fedtutor import compare
from fedtutor.__main__ import carry_out
from fedtutor.engine.files import DATA, ROOT, key_of, write_atomically
from fedtutor.errors import choose
from fedtutor.experiments import recipes
from fedtutor.experiments.commits import git_commit, require_committed
from fedtutor.experiments.results import parameters_of
from fedtutor.history import OTHERS, OWN
from fedtutor.tasks import LOOKS_ONLY

from . import markdown

FOLDER = DATA / "tuning"
GRID, PAGE = FOLDER / "grid.toml", FOLDER / "README.md"
BEGIN = "<!-- made by: python -m tools.tune -->"
COLUMNS = ["method", "lr", "seed", OWN, OTHERS, "failed", "settings", "images", "commit", "torch"]


def main(arguments: list[str] | None = None) -> int:
    """Run what is missing; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.tune",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("comparison", nargs="*", help="default: all of data/tuning/grid.toml")
    parser.add_argument("--jobs", type=int, help="processes at once; default one per core")
    parser.set_defaults(do=tune)
    return carry_out(parser, arguments)


def tune(options) -> int:
    grid = read_grid()
    for name in options.comparison or grid:
        asked = grid[choose(name, grid, kind="comparison", where="data/tuning/grid.toml")]
        for lr in asked["rates"]:
            run_missing(name, asked, lr, options.jobs)
    markdown.update(PAGE, page(grid), BEGIN)
    return 0


def read_grid() -> dict[str, dict]:
    """Name -> recipe, scenario, rates, seeds, overrides and methods of a comparison."""
    found = tomllib.loads(GRID.read_text(encoding="utf-8"))
    usual = {"seeds": found["seeds"], "overrides": {}}
    return {one["name"]: {**usual, "methods": None, **one} for one in found["comparison"]}


def recipe_of(asked: dict, lr: float) -> recipes.Recipe:
    changes = {**asked["overrides"], "scenario.split_seed": "seed", "lr": lr}
    place = {"profile": "quick", "scenario": asked["scenario"]}
    return recipes.load(asked["recipe"], overrides=changes, **place)


def settings_key(recipe: recipes.Recipe, method: str) -> str:
    """The same for runs that differ in rate and seed alone."""
    settings = {**asdict(recipe.settings), "lr": None}
    settings = {key: value for key, value in settings.items() if key not in LOOKS_ONLY}
    return key_of(settings, parameters_of(recipe, method), recipe.scenario, recipe.options(0))


def rows_of(name: str) -> pd.DataFrame:
    path = FOLDER / f"{name}.csv"
    if not path.exists():
        return pd.DataFrame(columns=COLUMNS)
    # Hex digits as text: 1e91623504 is a commit, and no number
    text = dict.fromkeys(["failed", "settings", "images", "commit"], str)
    return pd.read_csv(path, keep_default_na=False, na_values={OWN: "", OTHERS: ""}, dtype=text)


def run_missing(name: str, asked: dict, lr: float, jobs: int | None) -> None:
    """Run the methods that have no row with this rate, and add theirs."""
    recipe, rows = recipe_of(asked, lr), rows_of(name)
    keys = {m: settings_key(recipe, m) for m in asked["methods"] or recipe.methods}
    there = set(rows[["method", "lr", "seed", "settings"]].itertuples(index=False, name=None))
    missing = [m for m in keys if {(m, lr, s, keys[m]) for s in asked["seeds"]} - there]
    if not missing:
        return
    require_committed(FOLDER)
    commit = git_commit()["commit"]
    place = ROOT / "build" / "tuning"  # of all comparisons: some have runs in common
    runs = compare(missing, settings=recipe, seeds=asked["seeds"], jobs=jobs, folder=place)
    images = {task.seed: task.scenario.fingerprint for task, _ in runs.pairs}
    new = runs.runs.assign(
        lr=lr,
        settings=runs.runs["method"].map(keys),
        images=runs.runs["seed"].map(images),
        commit=commit[:10],
        torch=torch.__version__,
    ).round({OWN: 3, OTHERS: 3})
    stays = rows[~rows["method"].isin(missing) | (rows["lr"] != lr)]
    rows = pd.concat([stays, new[COLUMNS]] if len(stays) else [new[COLUMNS]])
    rows = rows.sort_values(["method", "lr", "seed"])
    write = partial(rows.to_csv, index=False)
    write_atomically(FOLDER / f"{name}.csv", write)
    print(f"{name}, lr {lr:g}: {', '.join(missing)}", flush=True)


def reached(name: str) -> pd.DataFrame:
    """A row per method, a column per rate: mean accuracy in percent over seeds and test sets.

    Own and other domains count alike. Missing where a seed diverged.
    """
    rows = rows_of(name)
    rows["mean"] = rows[[OWN, OTHERS]].astype(float).mean(axis=1)
    rows.loc[rows["failed"] != "", "mean"] = float("nan")
    grouped = rows.groupby(["method", "lr"])["mean"]
    return grouped.agg(lambda values: values.mean(skipna=False)).unstack()


def best(name: str) -> dict[str, float]:
    """Method -> the rate with the highest accuracy."""
    return reached(name).idxmax(axis=1).to_dict()


def page(grid: dict[str, dict]) -> str:
    parts = []
    for name, asked in grid.items():
        if not (FOLDER / f"{name}.csv").exists():
            continue
        table, chosen = reached(name), best(name)
        body = [
            [method, *(_cell(value, lr == chosen[method]) for lr, value in row.items())]
            for method, row in table.iterrows()
        ]
        seeds = ", ".join(map(str, asked["seeds"]))
        changes = "".join(f", `{key} = {value}`" for key, value in asked["overrides"].items())
        parts += [
            f"## {name}\n",
            markdown.table(["method", *(f"{lr:g}" for lr in table.columns)], body),
            f"\nRecipe {asked['recipe']}, scenario {asked['scenario']}, seeds {seeds}{changes}.\n",
        ]
    return "\n".join(parts).rstrip("\n")


def _cell(value: float, chosen: bool) -> str:
    text = "diverged" if value != value else f"{value:.1f}"
    return f"**{text}**" if chosen else text


if __name__ == "__main__":
    raise SystemExit(main())
