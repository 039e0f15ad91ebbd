"""Recipes: the settings of a paper or notebook, each value with its source.

One TOML file per paper in `data/recipes/`. Every setting in it is a small table

    [settings.lr]
    quick = 0.05
    paper = 0.001
    source = "quick: ours, ...; paper: FCCL+ Sec. 4.1"

A profile that is left out of a table takes the default of the code. Inside, and in `overrides`,
a setting has a flat key: `rounds` (a field of `Settings`), `scenario.beta` (an option of the
scenario), `fedprox.mu` (a parameter of a method).

A paper with several scenarios has one recipe. What differs on one of them stands below its name,

    [at.office-caltech.settings.models]
    paper = ["alexnet_bn"]
    source = "FedCSD Sec. V-A"

and replaces the recipe's value where that scenario is chosen; so do scenario_options and methods.

What a paper names for its own method stands, in the same form, below [conditions.<name>]. Nothing
of it counts until it is asked for: `named` gives it as overrides.
"""

import json
import tomllib
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd

from .. import scenarios
from ..engine.files import DATA, once_per_version, shown
from ..engine.kinds import is_a, words_of
from ..errors import SettingError, choose
from ..methods import METHODS, Method, make, parameters
from ..scenarios import SCENARIOS
from ..settings import FIELDS, Settings

RECIPES = DATA / "recipes"
PROFILES = ("quick", "paper")
PARTS = ("scenario_options", "settings", "methods")
SET_BY_YOU = "you: overrides"
NOT_IN_RECIPE = "ours: the default of the code, not in the recipe"


@dataclass(frozen=True)
class Recipe:
    """A recipe for one profile, overrides applied; every value is resolved and checked."""

    name: str
    title: str
    paper: str  # short name of the paper, or whatever the notebook is about
    profile: str
    scenario: str
    scenario_options: dict  # all options of the scenario
    settings: Settings
    methods: dict[str, dict]  # all parameters of each method that the recipe or an override names
    overrides: dict  # as given, without "recompute"
    recompute: bool  # run again what `data/results/` already holds
    origins: dict[str, str]  # flat key -> source sentence

    def change(self, changes: dict) -> "Recipe":
        """This recipe with more overrides; those that were given before stay."""
        overrides = {"recompute": self.recompute, **self.overrides, **changes}
        return load(self.name, profile=self.profile, overrides=overrides, scenario=self.scenario)

    def build(self) -> scenarios.Scenario:
        """Its scenario."""
        return scenarios.build(self.scenario, **self.scenario_options)

    def make(self, method: str) -> Method:
        """A method with its parameters; one that it does not name has those of the code."""
        return make(method, **self.methods.get(method, {}))

    def values(self) -> dict:
        """Flat key -> value, in the order scenario, settings, methods."""
        options = {f"scenario.{k}": v for k, v in self.scenario_options.items()}
        methods = {f"{m}.{k}": v for m, given in self.methods.items() for k, v in given.items()}
        return {"scenario": self.scenario, **options, **asdict(self.settings), **methods}

    def sources(self) -> pd.DataFrame:
        """setting | value | source, one row per value that this run uses."""
        rows = [(k, v, self.origins.get(k, NOT_IN_RECIPE)) for k, v in self.values().items()]
        return pd.DataFrame(rows, columns=["setting", "value", "source"])


def load(
    name: str, *, profile: str, overrides: dict | None = None, scenario: str | None = None
) -> Recipe:
    """The recipe `name` for `profile` ("quick" or "paper").

    `scenario` replaces the recipe's scenario (the recipe's options belong to its own scenario and
    are dropped with it, those below [at.<scenario>] come in); `overrides` replaces single values,
    e.g. `{"rounds": 4, "fedprox.mu": 0.1, "scenario.beta": 0.1, "recompute": True}`. Raises
    `SettingError` for whatever is unknown, ill-typed, not a number or without a source. The
    scenario itself is looked up when it is built.
    """
    choose(profile, PROFILES, kind="profile", where=f"recipe {name}")
    title, paper, methods, entries, at, _ = _read(name)
    where = f"recipe {name}, profile {profile}"
    used = {key: entry for key, entry in entries.items() if profile in entry}
    own_scenario = used.pop("scenario", {}).get(profile)
    origins = {"scenario": entries["scenario"]["source"]}
    if scenario is not None and scenario != own_scenario:
        used = {k: v for k, v in used.items() if not k.startswith("scenario.")}
        origins["scenario"] = "you: scenario"
    scenario = typed("scenario", own_scenario if scenario is None else scenario, str, where)
    used |= {key: entry for key, entry in at.get(scenario, {}).items() if profile in entry}
    values = {key: deepcopy(entry[profile]) for key, entry in used.items()}
    origins |= {key: entry["source"] for key, entry in used.items()}
    if not isinstance(overrides, dict | None):
        raise SettingError(
            f"overrides is a {type(overrides).__name__}", where="overrides",
            do='give a table, such as {"rounds": 4, "fedprox.mu": 0.1}',
        )  # fmt: skip
    given = dict(overrides or {})
    heads = (key.partition(".")[0] for key in given if isinstance(key, str) and "." in key)
    names = list(dict.fromkeys([*methods, *(head for head in heads if head in METHODS)]))
    known = {*FIELDS, "recompute", *(f"{m}.{key}" for m in names for key in parameters(m))}
    known |= {f"scenario.{option}" for option in scenarios.options(scenario)}
    if scenario not in SCENARIOS:
        known |= {key for key in entries if key.startswith("scenario.")}
    for key in given:
        choose(key, known, kind="override", where="overrides")
    recompute = typed("recompute", given.pop("recompute", False), bool, "overrides")
    values |= given
    origins |= dict.fromkeys(given, SET_BY_YOU)
    for key, value in values.items():
        at_fault = "overrides" if key in given else where
        _require_plain(key, value, at_fault)
        if key in FIELDS:
            values[key] = typed(key, value, FIELDS[key].type, at_fault)
    return Recipe(
        name=name, title=title, paper=paper, profile=profile, scenario=scenario,
        scenario_options={**scenarios.options(scenario), **_below("scenario", values)},
        settings=Settings(**{key: value for key, value in values.items() if key in FIELDS}),
        methods={method: _parameters(method, _below(method, values)) for method in names},
        overrides=given, recompute=recompute, origins=origins,
    )  # fmt: skip


def named(recipe: str, conditions: str, profile: str) -> tuple[dict, dict[str, str]]:
    """(overrides, flat key -> source) of a recipe's [conditions.<name>], for one profile."""
    *_, known = _read(recipe)
    entries = known[choose(conditions, known, kind="conditions", where=f"recipe {recipe}")]
    used = {key: entry for key, entry in entries.items() if profile in entry}
    return ({key: deepcopy(entry[profile]) for key, entry in used.items()},
            {key: entry["source"] for key, entry in used.items()})  # fmt: skip


def read_toml(path: Path) -> dict:
    """The tables of a file; raises `SettingError` where it cannot be read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # TOMLDecodeError and UnicodeDecodeError are ValueErrors
        raise SettingError(
            f"{path.name} cannot be read ({error})", where=shown(path),
            do="mend it, or fetch the file again: it may be cut short",
        ) from None  # fmt: skip


def _read(name: str) -> tuple:
    """Title, paper, methods, and flat key -> {quick, paper, source} of a recipe file.

    The last two are scenario, and name of conditions -> flat key -> {quick, paper, source}: what
    differs there.
    """
    names = [path.stem for path in RECIPES.glob("*.toml")]
    return _parts(RECIPES / f"{choose(name, names, kind='recipe', where=shown(RECIPES))}.toml")


@once_per_version
def _parts(path: Path) -> tuple:
    table, where = read_toml(path), shown(path)
    tops = ("title", "paper", "scenario", "at", "conditions", *PARTS)
    for key in table:
        choose(key, tops, kind="part", where=where)
    for key in ("title", "paper"):
        if not isinstance(table.get(key), str):
            raise SettingError(f"no {key}", where=where, do=f'write {key} = "..." at the top')
    scenario = _table_of(table, "scenario", where)
    for key in scenario:
        choose(key, ("name",), kind="part of [scenario]", where=where)
    if not scenario:
        raise SettingError("no scenario", where=where, do="write a table [scenario.name]")
    _check_entry("scenario", _table_of(scenario, "name", where), where)
    methods = list(_table_of(table, "methods", where))
    found = {"scenario": scenario["name"], **_entries(table, methods, where)}
    for place in _table_of(table, "at", where):
        choose(place, SCENARIOS, kind="scenario", where=f"{where}, [at]")
    differ = {"at": {}, "conditions": {}}
    for head, places in differ.items():
        for place in _table_of(table, head, where):
            below, here = _table_of(table[head], place, where), f"{where}, [{head}.{place}]"
            for key in below:
                choose(key, PARTS, kind="part", where=here)
            places[place] = _entries(below, methods, here)
    return table["title"], table["paper"], methods, found, *differ.values()


def _entries(table: dict, methods: list[str], where: str) -> dict[str, dict]:
    """Flat key -> {quick, paper, source} from tables scenario_options, settings and methods."""
    options, settings, below = (_table_of(table, key, where) for key in PARTS)
    found = {f"scenario.{key}": entry for key, entry in options.items()}
    for key, entry in settings.items():
        found[choose(key, FIELDS, kind="setting", where=where)] = entry
    for method in below:
        choose(method, methods, kind="method of this recipe", where=where)
        known = parameters(method)  # raises for one that is not registered
        for key, entry in _table_of(below, method, where).items():
            choose(key, known, kind="parameter", where=f"{where}, method {method}")
            found[f"{method}.{key}"] = entry
    for key, entry in found.items():
        _check_entry(key, entry, where)
    return found


def _check_entry(key: str, entry, where: str) -> None:
    for part in _table_of({key: entry}, key, where):
        choose(part, (*PROFILES, "source"), kind=f"part of {key!r}", where=where)
    source = entry.get("source")
    if not (isinstance(source, str) and source.strip()):
        raise SettingError(
            f"{key!r} has no source", where=where,
            do="say where the value comes from: section, table, code line, or 'ours: why'",
        )  # fmt: skip
    if len(entry) < 2:
        raise SettingError(f"{key!r} has no value", where=where, do="give it quick, paper, or both")


def _parameters(method: str, given: dict) -> dict:
    """All parameters of `method`, those in `given` replaced, checked by the method itself."""
    make(method, **given)
    return {**parameters(method), **given}


def _below(name: str, values: dict) -> dict:
    """{"mu": 0.1} of {"fedprox.mu": 0.1, ...} for the name "fedprox"."""
    return {k.partition(".")[2]: v for k, v in values.items() if k.startswith(f"{name}.")}


def _table_of(tables: dict, key: str, where: str) -> dict:
    """The table at `key`, empty where there is none."""
    if isinstance(value := tables.get(key, {}), dict):
        return value
    raise SettingError(
        f"{key!r} is not a table", where=where, do=f"write [...{key}] with quick, paper and source"
    )


def typed(key: str, value, kind, where: str):
    """`value` if it is of `kind`, as a float where that is a number."""
    huge = isinstance(value, int) and abs(value) >= 2**53
    if not is_a(value, kind) or (kind is float and huge):
        raise SettingError(f"{key} = {value!r}", where=where, do=f"give {words_of(kind, value)}")
    return float(value) if kind is float else value


def checked(given: dict, known: dict, needed: Sequence[str], where: str) -> dict:
    """A copy of `given`, after a look at its keys and types."""
    for key in given:
        choose(key, known, kind="key", where=where)
    for key in needed:
        if key not in given:
            raise SettingError(f"no {key!r}", where=where, do=f"give it: {', '.join(needed)}")
    return {key: typed(key, value, known[key], where) for key, value in given.items()}


def _require_plain(key: str, value, where: str) -> None:
    """Refuse what JSON cannot hold: other types, and numbers that are not finite."""
    try:
        plain = json.loads(json.dumps(value, allow_nan=False)) == value
    except (TypeError, ValueError, RecursionError):
        plain = False
    if not plain:
        raise SettingError(
            f"{key} = {value!r}", where=where,
            do="give a finite number, a text, true or false, or a list or table of these",
        )  # fmt: skip
