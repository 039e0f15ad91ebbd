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
The profile "paper" is refused for a scenario that has no such section, since a paper's networks and
epochs for one scenario say nothing about another.

A learning rate that was tuned for one method stands among its parameters, as

    [methods.fedprox]
    lr = { quick = 0.03, source = "ours: best of five, data/tuning" }

and goes before the recipe's `lr`; an override of `lr` goes before both, for all methods alike.

Each seed of a run has private images of its own, because `scenario.split_seed` is "seed", which
stands for its number, unless a recipe fixes it. Test images and public images are always the same.

What a paper names for its own method, or for one of its figures, stands, in the same form, below
[conditions.<name>]. Nothing of it counts until it is asked for: `named` gives it as overrides.
"""

import tomllib
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from pydantic import JsonValue, StringConstraints

from .. import scenarios
from ..engine.files import DATA, once_per_version, shown
from ..engine.kinds import checked, kinds_of, typed
from ..errors import SettingError, choose
from ..methods import METHODS, Method, make, parameters
from ..scenarios import SCENARIOS
from ..settings import FIELDS, Settings

RECIPES = DATA / "recipes"
PROFILES = ("quick", "paper")
PARTS = {
    "scenario_options": dict[str, dict],
    "settings": dict[str, dict],
    "methods": dict[str, dict[str, dict]],
}
PLACES = {"at": dict[str, dict], "conditions": dict[str, dict]}
FILE = {"title": str, "paper": str, "scenario": dict, **PLACES, **PARTS}
SENTENCE = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
ENTRY = {"quick": Any, "paper": Any, "source": SENTENCE}
SPLIT, DRAWN = "split_seed", "seed"  # which private images: those of the run's own seed
RATE = "lr"  # the setting that may differ between methods
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
    scenario_options: dict  # all options of the scenario; split_seed may be "seed"
    settings: Settings
    methods: dict[str, dict]  # all parameters of each method that the recipe or an override names
    rates: dict[str, float]  # learning rates that were tuned for one method
    overrides: dict  # as given, without "recompute"
    recompute: bool  # run again what `data/results/` already holds
    origins: dict[str, str]  # flat key -> source sentence

    def change(self, changes: dict, *, scenario: str | None = None) -> "Recipe":
        """This recipe with more overrides, or for another scenario; former overrides stay."""
        overrides = {"recompute": self.recompute, **self.overrides, **changes}
        scenario = scenario or self.scenario
        return load(self.name, profile=self.profile, overrides=overrides, scenario=scenario)

    @property
    def draws(self) -> bool:
        """Whether each seed has private images of its own."""
        return self.scenario_options.get(SPLIT) == DRAWN

    def options(self, seed: int) -> dict:
        """The options of its scenario for a run with this seed."""
        return {**self.scenario_options, **({SPLIT: seed} if self.draws else {})}

    def build(self, seed: int = 0) -> scenarios.Scenario:
        """Its scenario, for a run with this seed."""
        return scenarios.build(self.scenario, **self.options(seed))

    def make(self, method: str) -> Method:
        """A method with its parameters; one that it does not name has those of the code."""
        return make(method, **self.methods.get(method, {}))

    def settings_of(self, method: str) -> Settings:
        """The settings of a method: the recipe's, with the learning rate that was tuned for it."""
        return replace(self.settings, lr=self.rates.get(method, self.settings.lr))

    def values(self) -> dict:
        """Flat key -> value, in the order scenario, settings, methods."""
        options = {f"scenario.{k}": v for k, v in self.scenario_options.items()}
        methods = {f"{m}.{k}": v for m, given in self.methods.items() for k, v in given.items()}
        rates = {f"{method}.{RATE}": lr for method, lr in self.rates.items()}
        return {"scenario": self.scenario, **options, **asdict(self.settings), **methods, **rates}

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
    `SettingError` for whatever is unknown, ill-typed, not a number or without a source, and in
    profile "paper" for a scenario of which the recipe has nothing. The scenario itself is looked up
    when it is built.
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
    if profile == "paper" and scenario in SCENARIOS and scenario not in (own_scenario, *at):
        raise SettingError(
            f"no values of the paper for scenario {scenario!r}",
            where=where,
            do=f"choose a scenario that has some, {', '.join([own_scenario, *at])}; or take the "
            f"profile 'quick'; or write them below [at.{scenario}] in data/recipes/{name}.toml",
        )
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
    known |= {f"{m}.{RATE}" for m in names}
    known |= {f"scenario.{option}" for option in scenarios.options(scenario)}
    if scenario not in SCENARIOS:
        known |= {key for key in entries if key.startswith("scenario.")}
    for key in given:
        choose(key, known, kind="override", where="overrides")
    recompute = typed("recompute", given.pop("recompute", False), bool, "overrides")
    if RATE in given:  # for all methods alike
        values = {key: v for key, v in values.items() if not key.endswith(f".{RATE}")}
    values |= given
    origins |= dict.fromkeys(given, SET_BY_YOU)
    for key, value in values.items():
        at_fault = "overrides" if key in given else where
        values[key] = typed(key, value, JsonValue, at_fault)
        field = RATE if key.endswith(f".{RATE}") else key
        if field in FIELDS:
            values[key] = typed(key, value, kinds_of(Settings)[field], at_fault)
    rates = {m: values.pop(f"{m}.{RATE}") for m in names if f"{m}.{RATE}" in values}
    options = scenarios.options(scenario)
    options |= {SPLIT: DRAWN} if SPLIT in options else {}
    return Recipe(
        name=name, title=title, paper=paper, profile=profile, scenario=scenario,
        scenario_options={**options, **_below("scenario", values)},
        settings=Settings(**{key: value for key, value in values.items() if key in FIELDS}),
        methods={method: _parameters(method, _below(method, values)) for method in names},
        rates=rates, overrides=given, recompute=recompute, origins=origins,
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
    where = shown(path)
    needed = ("title", "paper", "scenario")
    table = checked(read_toml(path), FILE, where, called="part", needed=needed)
    here, methods = f"{where}, [scenario]", list(table.get("methods", {}))
    name = checked(table["scenario"], {"name": dict}, here, needed=("name",))["name"]
    found = {"scenario": _entry("scenario", name, where), **_entries(table, methods, where)}
    for place in table.get("at", {}):
        choose(place, SCENARIOS, kind="scenario", where=f"{where}, [at]")
    differ = {head: {} for head in PLACES}
    for head, places in differ.items():
        for place, below in table.get(head, {}).items():
            here = f"{where}, [{head}.{place}]"
            places[place] = _entries(checked(below, PARTS, here, called="part"), methods, here)
    return table["title"], table["paper"], methods, found, *differ.values()


def _entries(table: dict, methods: list[str], where: str) -> dict[str, dict]:
    """Flat key -> {quick, paper, source} from tables scenario_options, settings and methods."""
    options, settings, below = (table.get(part, {}) for part in PARTS)
    found = {f"scenario.{key}": entry for key, entry in options.items()}
    for key, entry in settings.items():
        found[choose(key, FIELDS, kind="setting", where=where)] = entry
    for method, entries in below.items():
        choose(method, methods, kind="method of this recipe", where=where)
        known = parameters(method)  # raises for one that is not registered
        for key, entry in entries.items():
            choose(key, [*known, RATE], kind="parameter", where=f"{where}, method {method}")
            found[f"{method}.{key}"] = entry
    return {key: _entry(key, entry, where) for key, entry in found.items()}


def _entry(key: str, entry: dict, where: str) -> dict:
    if not entry.keys() & set(PROFILES):
        raise SettingError(f"{key!r} has no value", where=where, do="give it quick, paper, or both")
    return checked(entry, ENTRY, f"{where}, {key}", needed=("source",))


def _parameters(method: str, given: dict) -> dict:
    """All parameters of `method`, those in `given` replaced, checked by the method itself."""
    make(method, **given)
    return {**parameters(method), **given}


def _below(name: str, values: dict) -> dict:
    """{"mu": 0.1} of {"fedprox.mu": 0.1, ...} for the name "fedprox"."""
    return {k.partition(".")[2]: v for k, v in values.items() if k.startswith(f"{name}.")}
