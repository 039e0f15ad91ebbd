"""Every method side by side: who may enter, and what is measured (notebook 07).

Settings are those of `data/recipes/benchmark.toml`, in three arenas. Whether a method may enter is
asked of its own code: it starts on a few images, and what it raises is the answer. A method that
raises or diverges later has that in its row, and stops nothing. `recording.py` records what is
missing; tables and ranks are made in `ranks.py`.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from .. import figures, methods
from ..engine.files import load_json
from ..engine.kinds import is_ours
from ..errors import FedtutorError, TrainingError, choose
from ..federation import Federation
from . import recipes, results
from .results import Result

RECIPE = "benchmark"
SEEDS = (0, 1, 2)  # that notebook 07 is recorded with
FEW = 40  # private images per client where a method is only tried


@dataclass(frozen=True)
class Arena:
    """A way to compare: what it changes in the recipe, per profile.

    `guests_of` names a recipe whose methods may enter, beside the floor, the ceiling and readers'
    own methods; without it everybody may, whose code does not refuse.
    """

    changes: dict[str, dict] = field(default_factory=lambda: {"quick": {}, "paper": {}})
    guests_of: str = ""


FOUR = {"quick": ["small_resnet", "small_cnn", "small_mobile", "small_mixer"],
        "paper": ["resnet10", "resnet12", "efficientnet_b0", "mobilenetv2"]}  # fmt: skip
VIRTUAL = {"virtual_ipc": 10, "client_epochs": [], "batch_size": 32, "observe": []}
ARENAS = {
    "one network": Arena(),  # everybody has the same, so weights can be averaged
    "four networks": Arena(  # every client has another, as in FCCL
        {profile: {"models": names} for profile, names in FOUR.items()},
    ),
    "virtual images": Arena(  # everybody trains on distilled ones, as in FedLGD
        {"quick": {**VIRTUAL, "models": ["small_convnet"], "local_epochs": 5},
         "paper": {**VIRTUAL, "models": ["convnet"], "local_epochs": 20}},
        guests_of="fedlgd",
    ),
}  # fmt: skip


def in_arena(recipe: recipes.Recipe, arena: str, **changes) -> recipes.Recipe:
    """The recipe as an arena, and `changes`, have it."""
    choose(arena, ARENAS, kind="arena", where="benchmark")
    return recipe.change({**ARENAS[arena].changes[recipe.profile], **changes})


# --------------------------------------------------------------------------------- who may enter


def refusal(recipe: recipes.Recipe, method: str, scenario) -> str:
    """What the method's own code says against this recipe on these data; "" if nothing.

    It starts with few private images and undistilled virtual ones, and plays no round. Errors that
    are no `FedtutorError` are faults of the method, and show when it runs.
    """
    settings = replace(recipe.settings, virtual_steps=0)
    try:
        fed = Federation(few(scenario), recipe.make(method), settings)
        with fed.workers():
            fed.begin()
    except Exception as error:
        return error.what if isinstance(error, FedtutorError) else ""
    return ""


def few(scenario):
    """The same scenario with a few images in each hand and each test set."""
    clients = tuple(replace(c, private=c.private[:FEW]) for c in scenario.clients)
    tests = {name: images[:FEW] for name, images in scenario.tests.items()}
    return replace(scenario, clients=clients, tests=tests)


def refusals(recipe: recipes.Recipe, arena: str, scenario, *, only: Sequence[str] = ()) -> dict:
    """Method -> why it may not enter an arena ("": it may), in the usual order.

    Asked are those of the recipe and the reader's own, or those in `only`. A method of the table
    in `methods/__init__.py` that has no settings in the recipe does not enter.
    """
    inside, guests = in_arena(recipe, arena), None
    if name := ARENAS[arena].guests_of:
        invited = recipes.load(name, profile=recipe.profile)
        guests, host = {"solo", *invited.methods}, invited.paper
    known, found = [name for name in methods.METHODS if name in recipe.methods], {}
    for method in figures.method_order(list(only or known + own_methods(recipe))):
        if guests and method in known and method not in guests:
            found[method] = f"not in the comparison of {host}"
        else:
            found[method] = refusal(inside, method, scenario)
    return found


def own_methods(recipe: recipes.Recipe) -> list[str]:
    """Methods that neither the recipe knows nor this package: those of the reader."""
    return [name for name, cls in methods.METHODS.items()
            if name not in recipe.methods and not is_ours(cls)]  # fmt: skip


# ------------------------------------------------------------------------------ what is measured


@dataclass
class Entry:
    """One method in one arena: its results, and what became of the seeds that are missing."""

    method: str
    results: list[Result] = field(default_factory=list)
    failed: dict[int, str] = field(default_factory=dict)  # seed -> what happened
    open: list[int] = field(default_factory=list)  # seeds that nobody has trained yet
    live: bool = False
    chance: float = 0.0  # accuracy of a guess

    @property
    def whole(self) -> bool:
        """Every seed has its result."""
        return bool(self.results) and not self.failed and not self.open

    @property
    def note(self) -> str:
        if self.failed:
            count = len(self.failed) + len(self.open) + len(self.results)
            words = "; ".join(dict.fromkeys(self.failed.values()))
            return f"{len(self.failed)} of {count} seeds {words}"
        if self.open:
            return "open: not recorded yet"
        lost = sum(r.headline["intra"] < 1.5 * self.chance for r in self.results)
        return f"{lost} of {len(self.results)} seeds at chance" if lost else ""


def gather(run, arena: str, *, live: Sequence[str] = (), only: Sequence[str] = (),
           **changes) -> dict[str, Entry]:  # fmt: skip
    """Everybody who may enter an arena, from `data/results` or trained now.

    Trained now are the first seed of the methods in `live`; with all seeds the reader's own, and
    all methods where the reader asks to recompute. What is recorded counts only if all settings are
    those of this notebook; what is missing of `live` is trained, too. `only`: these methods alone.
    """
    recipe = in_arena(run.recipe, arena, **changes)
    more = {k: v for k, v in recipe.overrides.items() if run.recipe.overrides.get(k) != v}
    entries, own = {}, own_methods(run.recipe)
    for method, reason in refusals(run.recipe, arena, run.scenario, only=only).items():
        if reason:
            continue
        whole = method in own or run.recipe.recompute
        now = whole or method in live
        entry = entries[method] = Entry(method, live=now, chance=1 / run.scenario.num_classes)
        for seed in run.seeds:
            first = now and seed == run.seeds[0]
            if whole or first or (now and not kept(recipe, method, seed, results.RESULTS)):
                _try(run, entry, seed, more)
            else:
                _look(entry, recipe, seed)
    return entries


def shelf(run, scenario: str, arena: str, names: Sequence[str], **changes) -> dict[str, Entry]:
    """What is recorded of `names` on another scenario, whose data need not be here."""
    recipe = in_arena(recipes.load(RECIPE, profile="quick", scenario=scenario), arena, **changes)
    return entries_of(recipe, names, run.seeds)


def entries_of(recipe: recipes.Recipe, names: Sequence[str], seeds: Sequence[int]) -> dict:
    """Method -> `Entry` with what is recorded of it at these settings."""
    entries = {name: Entry(name) for name in names}
    for entry in entries.values():
        for seed in seeds:
            _look(entry, recipe, seed)
    return entries


def _look(entry: Entry, recipe: recipes.Recipe, seed: int) -> None:
    found = kept(recipe, entry.method, seed, results.RESULTS)
    if isinstance(found, Result):
        entry.results.append(found)
    elif found:
        entry.failed[seed] = found["what"]
    else:
        entry.open.append(seed)


def kept(recipe: recipes.Recipe, method: str, seed: int, folder) -> Result | dict:
    """What a folder has of a run with these settings: a result, {"what": how it failed} or {}.

    Delete the file of a failure to try again.
    """
    if method not in recipe.methods:  # a reader's own is not recorded
        return {}
    if there := results.recorded(recipe, method, seed, folder=folder):
        return there
    path = failure_file(recipe, method, seed, folder)
    found = load_json(path) if path.exists() else {"asked": None}
    return found if found["asked"] == asked_of(recipe, method, seed) else {}


def failure_file(recipe: recipes.Recipe, method: str, seed: int, folder) -> Path:
    """Beside where its result would lie."""
    return results.result_path(recipe, method, seed, folder=folder).with_suffix(".failed")


def asked_of(recipe: recipes.Recipe, method: str, seed: int) -> dict:
    return {"settings": asdict(recipe.settings_of(method)), "parameters": recipe.methods[method],
            "options": recipe.options(seed)}  # fmt: skip


def _try(run, entry: Entry, seed: int, changes: dict) -> None:
    try:
        entry.results.append(run(entry.method, seed, **changes))
    except Exception as error:  # a reader's method may raise anything, and others have their turn
        entry.failed[seed] = in_words(error)


def in_words(error: Exception) -> str:
    if isinstance(error, TrainingError):
        return f"diverged: {error.what}"
    words = getattr(error, "what", None) or str(error).partition("\n")[0] or "no words"
    return f"raised {type(error).__name__}: {words}"
