"""Every method side by side: who may enter, and what is trained and recorded (notebook 07).

Settings are those of `data/recipes/benchmark.toml`, in three arenas. Whether a method may enter is
asked of its own code: it starts on a few images, and what it raises is the answer. A method that
raises or diverges later has that in its row, and stops nothing. What is made of the results, tables
and ranks, is in `ranks.py`.

    python -m fedtutor benchmark                  record what is missing in data/results
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import torch

from .. import figures, methods, rounds, scenarios
from ..distillation import prepare
from ..engine.files import load_json, save_json
from ..errors import FedtutorError, SettingError, TrainingError, choose
from ..federation import Federation
from . import jobs, recipes, results, stale
from .commits import require_committed
from .environment import made_by
from .results import Result
from .run import run as train

RECIPE = "benchmark"
SEEDS = (0, 1, 2)
FEW = 40  # private images per client where a method is only tried


@dataclass(frozen=True)
class Arena:
    """A way to compare: what it changes in the recipe, per profile.

    `guests_of` names a recipe whose methods may enter, beside the floor, the ceiling and readers'
    own methods; without it everybody may, whose code does not refuse.
    """

    words: str
    changes: dict[str, dict] = field(default_factory=lambda: {"quick": {}, "paper": {}})
    guests_of: str = ""


FOUR = {"quick": ["small_resnet", "small_cnn", "small_mobile", "small_mixer"],
        "paper": ["resnet10", "resnet12", "efficientnet_b0", "mobilenetv2"]}  # fmt: skip
VIRTUAL = {"virtual_ipc": 10, "client_epochs": [], "batch_size": 32, "observe": []}
ARENAS = {
    "one network": Arena("everybody has the same network, so weights can be averaged"),
    "four networks": Arena(
        "every client has another network, as in FCCL",
        {profile: {"models": names} for profile, names in FOUR.items()},
    ),
    "virtual images": Arena(
        "everybody trains on distilled images, as in FedLGD",
        {"quick": {**VIRTUAL, "models": ["small_convnet"], "local_epochs": 5},
         "paper": {**VIRTUAL, "models": ["convnet"], "local_epochs": 20}},
        guests_of="fedlgd",
    ),
}  # fmt: skip
STUDIES = {  # recorded, too: (scenario, arena) -> changes, and for whom
    ("digits-mini", "one network"): [
        ({"lr": 0.01, "observe": []}, ("solo", "fedavg", "scaffold", "fedavgm", "moon", "vhl")),
    ],
    ("digits-partial", "one network"): [
        ({"fedavg.weighting": "uniform", "fednova.weighting": "uniform",
          "scaffold.weighting": "samples", "observe": []}, ("fedavg", "fednova", "scaffold")),
    ],
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
    few = [replace(c, private=c.private[:FEW]) for c in scenario.clients]
    settings = replace(recipe.settings, virtual_steps=0)
    try:
        made = methods.make(method, **recipe.methods.get(method, {}))
        fed = Federation(replace(scenario, clients=tuple(few)), made, settings)
        with fed.workers():
            prepare(fed)
            made.start(fed)
    except FedtutorError as error:
        return error.what
    except Exception:
        return ""
    return ""


def refusals(recipe: recipes.Recipe, arena: str, scenario, *, only: Sequence[str] = ()) -> dict:
    """Method -> why it may not enter an arena ("": it may), in the usual order.

    Asked are those of the recipe and the reader's own, or those in `only`. A method of the table
    in `methods/__init__.py` that has no settings in the recipe does not enter.
    """
    inside, guests = in_arena(recipe, arena), None
    if name := ARENAS[arena].guests_of:
        invited = recipes.load(name, profile=recipe.profile)
        guests, host = {"solo", "central", *invited.methods}, invited.paper
    found = {}
    known = [name for name in methods.METHODS if name in recipe.methods]
    for method in figures.method_order(list(only or known + own_methods(recipe))):
        left_out = guests and method in known and method not in guests
        found[method] = (
            f"not in the comparison of {host}" if left_out
            else refusal(inside, method, scenario)
        )  # fmt: skip
    return found


def own_methods(recipe: recipes.Recipe) -> list[str]:
    """Methods that neither the recipe knows nor this package: those of the reader."""
    package = f"{methods.__name__}."
    return [name for name, cls in methods.METHODS.items()
            if name not in recipe.methods and not cls.__module__.startswith(package)]  # fmt: skip


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

    Trained now, with all seeds of the notebook, are the methods in `live`, the reader's own, and
    all where the reader asks to recompute; what is recorded counts only if all settings are those
    of this notebook. `only`: these methods alone.
    """
    recipe = in_arena(run.recipe, arena, **changes)
    more = {k: v for k, v in recipe.overrides.items() if run.recipe.overrides.get(k) != v}
    entries, own = {}, own_methods(run.recipe)
    for method, reason in refusals(run.recipe, arena, run.scenario, only=only).items():
        if reason:
            continue
        now = method in live or method in own or run.recipe.recompute
        entry = entries[method] = Entry(method, live=now, chance=1 / run.scenario.num_classes)
        for seed in run.seeds:
            if now:
                _try(run, entry, seed, more)
            else:
                _look(entry, recipe, seed)
    stale.warn(r for e in entries.values() if not e.live for r in e.results)
    return entries


def shelf(run, scenario: str, arena: str, names: Sequence[str], **changes) -> dict[str, Entry]:
    """What is recorded of `names` on another scenario, whose data need not be here."""
    recipe = in_arena(recipes.load(RECIPE, profile="quick", scenario=scenario), arena, **changes)
    entries = {}
    for name in names:
        entry = entries[name] = Entry(name)
        for seed in run.seeds:
            if name in recipe.methods:
                _look(entry, recipe, seed)
            else:  # a reader's own is trained elsewhere
                entry.open.append(seed)
    stale.warn(r for e in entries.values() for r in e.results)
    return entries


def _look(entry: Entry, recipe: recipes.Recipe, seed: int) -> None:
    """What `data/results` has of one run: a result, how it failed, or nothing."""
    options = {"folder": results.RESULTS, "warn": False}  # `warn` says it once for all
    if found := results.recorded(recipe, entry.method, seed, **options):
        entry.results.append(found)
    elif words := failed(recipe, entry.method, seed):
        entry.failed[seed] = words
    else:
        entry.open.append(seed)


def _try(run, entry: Entry, seed: int, changes: dict) -> None:
    try:
        entry.results.append(run(entry.method, seed, **changes))
    except Exception as error:  # a reader's method may raise anything, and others have their turn
        entry.failed[seed] = _words(error)


def _words(error: Exception) -> str:
    if isinstance(error, TrainingError):
        return f"diverged: {error.what}"
    words = getattr(error, "what", None) or str(error).partition("\n")[0] or "no words"
    return f"raised {type(error).__name__}: {words}"


# ------------------------------------------------------------------------------- your own method


def examine(run, method: str) -> bool:
    """Try a method on a few images and print one line per promise; whether it keeps all."""
    choose(method, methods.METHODS, kind="method", where="examine")
    lines = {}
    try:
        first, again = _tried(run, method), _tried(run, method, threads=2)
        stopped = _tried(run, method, stop=True)
        sent = sum(row["bytes"] for row in first.history["bytes"])
        lines["plays two rounds"] = "yes"
        lines["what crosses is counted"] = f"{figures.human_bytes(sent)} in two rounds"
        lines["same bits with two threads"] = "yes" if _equal(first, again) else "NO"
        lines["same bits after a stop"] = "yes" if _equal(first, stopped) else "NO"
    except FedtutorError as error:
        lines["plays two rounds"] = f"NO: {type(error).__name__}: {error.what}"
    except Exception as error:
        lines["plays two rounds"] = f"NO: {type(error).__name__}: {str(error)[:60] or 'no words'}"
    for words, answer in lines.items():
        print(f"{words:<28} {answer}")
    return not any(answer.startswith("NO") for answer in lines.values())


def _tried(run, method: str, *, threads: int = 1, stop: bool = False) -> Federation:
    """Two rounds on a few images; with `stop`, the second one is played from a checkpoint."""
    import tempfile

    few = [replace(c, private=c.private[:FEW]) for c in run.scenario.clients]
    tests = {name: images[:FEW] for name, images in run.scenario.tests.items()}
    scenario = replace(run.scenario, clients=tuple(few), tests=tests)
    settings = replace(run.recipe.settings, rounds=2, eval_every=2, observe=[], client_epochs=[],
                       local_epochs=1)  # fmt: skip

    def federation():
        made = methods.make(method, **run.recipe.methods.get(method, {}))
        return Federation(scenario, made, settings, threads=threads, artifacts=run.artifacts)

    fed = federation()
    with tempfile.TemporaryDirectory() as folder:
        options = {"checkpoint": folder, "every": 0} if stop else {}
        if stop:
            rounds.run(fed, progress=lambda numbers: list(numbers)[:1], **options)
            fed = federation()
        rounds.run(fed, **options)
    return fed


def _equal(a: Federation, b: Federation) -> bool:
    """Whether both hold the same weights, to the last bit."""
    pairs = [(x, y) for x, y in zip((a.server, *a.clients), (b.server, *b.clients), strict=True)]
    for x, y in pairs:
        for role in x.models:
            one, other = x.models[role].state_dict(), y.models[role].state_dict()
            if not all(torch.equal(one[name], other[name]) for name in one):
                return False
    return True


# ------------------------------------------------------------------------------------- recording


def missing(scenario: str, *, folder=results.RESULTS, names: Sequence[str] = ()) -> list[tuple]:
    """(recipe, method, seed) of all runs on a scenario that have neither a result nor failed.

    What other code recorded does not count: that is to be done again.
    """
    recipe = recipes.load(RECIPE, profile="quick", scenario=scenario)
    for name in names:
        choose(name, methods.METHODS, kind="method", where="benchmark")
        if name not in recipe.methods:
            raise SettingError(
                f"{name} has no table in {RECIPE}.toml, so nothing of it is recorded",
                where="benchmark",
                do=f"add [methods.{name}] to data/recipes/{RECIPE}.toml, or leave it out",
            )
    data, found = scenarios.build(recipe.scenario, **recipe.scenario_options), []
    for arena in ARENAS:
        asked = refusals(recipe, arena, data, only=names or list(recipe.methods))
        enter = [m for m, reason in asked.items() if not reason]
        for changes, those in (({}, enter), *STUDIES.get((scenario, arena), [])):
            inside = in_arena(recipe, arena, **changes)
            found += [(inside, m, seed) for m in those for seed in SEEDS
                      if m in recipe.methods and (not names or m in names)
                      and not _done(inside, m, seed, folder)]  # fmt: skip
    return found


def _done(recipe: recipes.Recipe, method: str, seed: int, folder) -> bool:
    """Whether the code of today gave a result, or failed; unknown code counts as that of today."""
    if there := results.recorded(recipe, method, seed, folder=folder, warn=False):
        return not stale.is_stale(there)
    if not failed(recipe, method, seed, folder=folder):
        return False
    made = load_json(_failure(recipe, method, seed, folder))["environment"]
    settings = asdict(recipe.settings)
    return stale.standing(method, settings, recipe.scenario, made)[0] != stale.STALE


def failed(recipe: recipes.Recipe, method: str, seed: int, *, folder=None) -> str:
    """How a recorded run with these settings failed; "" if none did. Delete the file to retry."""
    path = _failure(recipe, method, seed, folder or results.RESULTS)
    if not path.exists():
        return ""
    found = load_json(path)
    return found["what"] if found["asked"] == _asked(recipe, method) else ""


def _there(recipe: recipes.Recipe, method: str, seed: int, folder) -> bool:
    """Whether a file says something of such a run, be it of other code."""
    there = results.recorded(recipe, method, seed, folder=folder, warn=False)
    return bool(there or failed(recipe, method, seed, folder=folder))


def _failure(recipe: recipes.Recipe, method: str, seed: int, folder) -> Path:
    """Beside where its result would lie."""
    return results.result_path(recipe, method, seed, folder=folder).with_suffix(".failed")


def _asked(recipe: recipes.Recipe, method: str) -> dict:
    return {"settings": asdict(recipe.settings), "parameters": recipe.methods[method],
            "options": recipe.scenario_options}  # fmt: skip


def record(scenario: str, *, minutes: float, names: Sequence[str] = (),
           folder=results.RESULTS, say: Callable = print) -> int:  # fmt: skip
    """Train what is missing on a scenario until the time is up; how many runs failed.

    Each run has a process of its own, so that its peak memory is its own, one thread, and no
    artifacts, so that its work is whole. A result is written as soon as it is there, and so is how
    a run failed: started again, it goes on where it was.
    """
    torch.set_num_threads(1)  # before a fork
    asked = {"folder": folder, "names": names}
    left = jobs.alone(jobs.Task(missing, (scenario,), asked, threads=1, fork=True))
    again = sum(_there(*run, folder) for run in left)
    say(f"{scenario}: {len(left)} runs to do"
        + f", {again} of them again ({stale.WORDS})" * bool(again))  # fmt: skip
    if left:
        require_committed(folder)
    tasks = [jobs.Task(_recorded, (*run, folder), threads=1, fork=True) for run in left]
    number = count = 0
    for task, outcome, said in jobs.through(tasks, minutes=minutes, finish=True):
        recipe, method, seed, _ = task.given
        if outcome == jobs.FAILED:
            said = f"FAILED: {said}"
        number, count = number + 1, count + said.startswith("FAILED")
        networks = ", ".join(recipe.settings.models)
        say(f"{number}/{len(left)} {method} seed {seed} ({networks}): {said}")
    if number < len(left):
        say(f"the time is up; {len(left) - number} runs are left")
    return count


def _recorded(recipe: recipes.Recipe, method: str, seed: int, folder) -> str:
    """Train and keep a result, or how that failed; in words."""
    try:
        done = train(recipe, method, seed=seed, threads=1, folder=folder)
        _failure(recipe, method, seed, folder).unlink(missing_ok=True)
        return f"{done.totals['seconds']:.1f} s, intra {done.headline['intra']:.3f}"
    except (OSError, MemoryError) as error:  # this machine's: to be tried again
        return f"FAILED here: {type(error).__name__}: {error}"
    except Exception as error:  # whatever it is, the next run has its turn
        entry = {"what": _words(error), "asked": _asked(recipe, method),
                 "environment": made_by(recipe, method)}  # fmt: skip
        save_json(_failure(recipe, method, seed, folder), entry)
        return f"FAILED: {entry['what']}"
