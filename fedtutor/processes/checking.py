"""`methods.check`: does a method keep the promises on which the rest of the project relies?

It is to a method what `check_estimator` of scikit-learn is to an estimator. It runs rounds, also as
if every client had a process of its own, and `fedtutor.methods` must not import these; so it lives
here, and `fedtutor.methods` fetches it by the table in `fedtutor/__init__.py`.
"""

import copy
import io
import sys
import textwrap
import traceback
from contextlib import redirect_stderr
from dataclasses import fields, replace
from tempfile import TemporaryDirectory

from .. import rounds, scenarios
from ..engine.kinds import in_short
from ..errors import FedtutorError, SettingError, choose
from ..federation import Federation
from ..methods import METHODS, Method
from ..methods.checks import require_contract
from ..settings import Settings
from .messages import rehearsed
from .noted import chance, differing, held, living, watched, weights

FEW = 40  # images of each client and of each test set
SETTINGS = Settings(batch_size=32, lr=0.02, momentum=0.9)  # of data/recipes/benchmark.toml
TWO_ROUNDS = {"rounds": 2, "eval_every": 2, "local_epochs": 1, "client_epochs": [], "observe": []}


def check(method, *, scenario=None, settings: Settings | None = None) -> bool:
    """Run a method on a few images and print a line for each promise; whether it keeps them all.

    `method` is a registered name, a class that extends `Method`, or an object of such a class; it
    need not be registered. It runs two rounds of one local epoch on `scenario` (an object or a
    name; by default the bundled digits), with `settings` for everything else. Below the promises
    stands what happened in the second round, because only its author knows whether that is meant.

    What the method raises is printed as a broken promise. Raises `SettingError` for an argument
    that is no method, no scenario or no settings.
    """
    trial = Trial(method, scenario, settings)
    note = "" if trial.registered else ' Write @register("a-name") above it to run it by name.'
    _print("", f"{trial.name} runs two rounds on a few images of {trial.scenario.name}.{note}")
    broken, held_back = 0, io.StringIO()
    with redirect_stderr(held_back):  # warnings come after the lines printed here
        for promise, advice, find in PROMISES:
            try:
                found = find(trial)
                wrong = advice.format(found) if found else ""
            except Exception as error:  # a reader's method may raise anything
                wrong = _in_words(error)
            _print("BROKEN  " if wrong else "kept    ", f"{promise} {wrong}".strip())
            broken += bool(wrong)
            if wrong and find is two_rounds:
                _print("", "The other promises could not be checked.")
                break
        else:
            _print("", "In the second round (only you know whether this is what you mean):")
            for sentence in trial.seen:
                _print("- ", sentence)
    sys.stderr.write(held_back.getvalue())
    return not broken


class Trial:
    """A method on a few images, and what was noted while it was run for the first time."""

    def __init__(self, method, scenario, settings):
        if isinstance(method, str):
            method = METHODS[choose(method, METHODS, kind="method", where="methods.check")]
        self.given = method if isinstance(method, Method) else None
        self.cls = cls = method if self.given is None else type(method)
        scenario = "digits-mini" if scenario is None else scenario
        scenario = scenarios.build(scenario) if isinstance(scenario, str) else scenario
        settings = SETTINGS if settings is None else settings
        right_method = isinstance(cls, type) and issubclass(cls, Method)
        for name, value, right, do in (
            ("method", method, right_method, "give a registered name or what extends Method"),
            ("scenario", scenario, isinstance(scenario, scenarios.Scenario), "give its name"),
            ("settings", settings, isinstance(settings, Settings), "give Settings(lr=0.02)"),
        ):
            if not right:
                raise SettingError(f"the {name} is {in_short(value)}", where="methods.check", do=do)
        self.registered = METHODS.get(cls.name) is cls
        self.name = cls.name if self.registered else cls.__name__
        clients = tuple(replace(c, private=c.private[:FEW]) for c in scenario.clients)
        tests = {name: images[:FEW] for name, images in scenario.tests.items()}
        self.scenario = replace(scenario, clients=clients, tests=tests)
        self.settings = replace(settings, **TWO_ROUNDS)

    def method(self) -> Method:
        """One that no other run has, so that runs share nothing that lies on `self`."""
        made = self.cls() if self.given is None else copy.deepcopy(self.given)
        if not self.registered:  # its name is that of the class which it extends
            made.name = self.name
        return made

    def new(self, *, threads: int = 1) -> Federation:
        return Federation(self.scenario, self.method(), self.settings, threads=threads)


# --- what the promises look at: each function returns what is wrong, or "" or False


def parameters(trial: Trial) -> str:
    cls = trial.cls
    if "__dataclass_params__" not in vars(cls):  # that of the class it extends does not count
        return f"{cls.__name__} has no @dataclass of its own"
    require_contract(cls, trial.name, Method)
    usual = cls()
    other = {bool: lambda v: not v, int: lambda v: v + 1, float: lambda v: v / 2 or 0.5}
    for name, value in ((f.name, getattr(usual, f.name)) for f in fields(cls)):
        for given in (value, other.get(type(value), lambda same: same)(value)):
            try:
                kept = getattr(cls(**{name: given}), name)
            except SettingError:  # it is beyond the limits that the class names
                continue
            except TypeError as error:
                return f"{name} = {given!r} could not be given ({error})"
            if kept != given:
                return f"{name} = {given!r} was given, and self.{name} is {kept!r}"
    return ""


def two_rounds(trial: Trial) -> None:
    """Raise what the method raises, and note what other promises look at."""
    fed = trial.fed = trial.new()
    on_self, random_numbers = held(fed.method), chance()
    trial.seen = watched(fed)
    trial.changed = differing(on_self, held(fed.method))
    trial.drawn = differing(random_numbers, chance())
    trial.weights = weights(fed.server, *fed.clients)


def two_threads(trial: Trial) -> bool:
    other = trial.new(threads=2)
    rounds.run(other)
    return weights(other.server, *other.clients) != trial.weights


def stop_and_resume(trial: Trial) -> bool:
    with TemporaryDirectory() as folder:
        first, second = trial.new(), trial.new()
        rounds.run(first, checkpoint=folder, every=0, progress=lambda n: list(n)[:1])
        rounds.run(second, checkpoint=folder, every=0)
    return weights(second.server, *second.clients) != trial.weights


def clients_apart(trial: Trial) -> bool:
    there = rehearsed(trial.scenario, trial.method(), trial.settings)
    rounds.run(there)
    clients = [site.client for site in there.sites.values()]
    equal = [there.history[k] == trial.fed.history[k] for k in ("accuracy", "loss", "bytes")]
    return not all(equal) or weights(there.server, *clients) != trial.weights


PROMISES = (  # what is promised; if it is broken: what is wrong, what to do; who finds it out
    (
        "It is a dataclass, and its parameters have defaults and can be set.",
        "{}; write @dataclass above the class, and let nothing else set its parameters.",
        parameters,
    ),
    ("It runs two rounds.", "", two_rounds),
    (
        "The global random numbers are left alone.",
        "Those of {} were drawn from or seeded, so no run can be repeated; give each draw "
        "generator=client.generator(purpose).",
        lambda trial: trial.drawn,
    ),
    (
        "Nothing on self changes during a run.",
        "This one changed {}, which no checkpoint and no other process has; keep it in "
        "client.state or fed.server.state.",
        lambda trial: trial.changed,
    ),
    (
        "What a client keeps are copies of weights.",
        "{} is a weight itself, and changes with it; keep w.detach().clone().",
        lambda trial: "".join(living(trial.fed)[:1]),
    ),
    (
        "Two threads come to the same bits as one.",
        "The weights differ, because a client depends on others, or on when it runs; let it "
        "change nothing but itself, and draw random numbers from client.generator(purpose).",
        two_threads,
    ),
    (
        "A stop, and a resume from the checkpoint, come to the same bits.",
        "The weights differ, because something is not in the checkpoint; keep values in "
        "client.state or fed.server.state, and networks in client.models or fed.server.models.",
        stop_and_resume,
    ),
    (
        "Clients in processes of their own come to the same bits.",
        "The results differ, because clients and server share something; hand it over by "
        "fed.download, fed.upload or fed.ask.",
        clients_apart,
    ),
)


# --- what is printed


def _in_words(error: Exception) -> str:
    """What was raised, where, and what to do."""
    if isinstance(error, FedtutorError):
        return f"An error says: {error.what} ({error.where}); {error.do}."
    said = f"It raised {type(error).__name__}: {str(error).partition(chr(10))[0]}"
    if isinstance(error, KeyError):
        said += " is missing; make it in start, after super().start(fed), for a client by fed.ask"
    frames = [*traceback.walk_tb(error.__traceback__)]
    own = [(f, line) for f, line in frames if isinstance(f.f_locals.get("self"), Method)]
    places = [f"; look at {frame.f_code.co_name}, line {line}" for frame, line in own]
    return f"{said}{''.join(places[-1:])}."


def _print(mark: str, words: str) -> None:
    print(textwrap.fill(words, 92, initial_indent=mark, subsequent_indent=" " * len(mark)))
