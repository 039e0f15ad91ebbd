"""What a cell of a lesson calls: start, check, expect, judge, question, mark.

    lesson = teach.start(globals(), recipe="start", seeds=[0, 1, 2])
    runs = compare(["solo", "fedavg"], settings=lesson.settings, seeds=lesson.seeds)
    lead = runs.difference("fedavg", "solo", on="others")
    teach.expect(lead, "ahead", about=20)
    teach.judge("fcclplus-07", lead)

A sentence in Markdown says what was found, and `expect` stands below the figure and notices when
that stops being true. In validation, where the environment variable FEDTUTOR_VALIDATE is set, this
is an error; with parameters of a reader's own it is a remark.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from textwrap import fill

import pandas as pd
import torch
from matplotlib import rcParams
from torch.testing import assert_close

from . import __version__, tasks
from .comparison import different_seeds
from .difference import Difference
from .engine.files import DATA
from .engine.workers import device_of
from .errors import FedtutorError, SettingError, choose
from .evaluation import own_accuracy
from .experiments import recipes
from .experiments.run import different
from .figures.drawing import RC, SCREEN
from .figures.output import to_png
from .history import OWN
from .notebook import exercises
from .notebook.check import CheckError
from .notebook.diagram import drawn
from .notebook.start import KERNEL, NAMES, parameter
from .papers import Claims
from .papers.printed import PAPERS
from .papers.verdicts import RECORDS
from .scenarios import SCENARIOS
from .settings import Settings

USUAL = {"profile": "quick", "scenario": None, "device": "auto", "overrides": {}}
MEASURED = DATA / "measured"
PLAIN = (str, int, float, list, tuple, dict, type(None))  # what a parameter may be
mark, mark_each = exercises.mark, exercises.mark_each


class ExpectationError(FedtutorError, AssertionError):
    """A sentence of the lesson that the numbers no longer bear out."""


@dataclass
class Lesson:
    """The parameters of a lesson, checked."""

    name: str
    recipe: recipes.Recipe
    seeds: list[int]
    methods: list[str]
    device: str
    as_written: bool  # whether the text describes these parameters
    claims: Claims = field(repr=False)

    @property
    def settings(self) -> Settings:
        """The recipe's settings for this profile, with the reader's overrides."""
        return self.recipe.settings

    @property
    def scenario(self) -> str:
        """The name of the scenario."""
        return self.recipe.scenario

    @property
    def record(self):
        """The file of committed runs of this lesson, for `compare(..., recorded=...)`."""
        return MEASURED / f"{self.name}.jsonl"

    @property
    def strict(self) -> bool:
        """Whether what is not as the text says is an error."""
        return self.as_written and "FEDTUTOR_VALIDATE" in os.environ


_lesson: Lesson | None = None  # of this kernel


def start(
    names: dict,
    *,
    lesson: str,
    recipe: str,
    seeds: Iterable[int],
    methods: Iterable[str],
    overrides: Mapping | None = None,
) -> Lesson:
    """Check the six parameters in a notebook's `globals()`, and say what will run.

    lesson: its name, such as "00_start_here". seeds, methods, overrides: those that the text
    describes.
    Raises `SettingError` for a parameter that is missing, misspelt or wrong; papermill's texts,
    such as "[0, 1]", are read as JSON.
    """
    global _lesson
    if not any(isinstance(value, Lesson) for value in names.values()):  # the cell's first run
        for name in names:
            plain = isinstance(names[name], PLAIN) and name not in KERNEL
            if plain and not name.startswith("_"):
                choose(name, NAMES, kind="parameter", where="parameters cell")
    given = {name: parameter(name, names) for name in NAMES}
    written = {**USUAL, "seeds": list(seeds), "methods": list(methods)}
    written["overrides"] = dict(overrides or {})
    if isinstance(given["scenario"], str):
        choose(given["scenario"], SCENARIOS, kind="scenario", where="parameters cell")
    loaded = recipes.load(
        recipe, profile=given["profile"], scenario=given["scenario"], overrides=given["overrides"]
    )
    as_written = given == written
    _lesson = Lesson(
        lesson,
        loaded,
        different_seeds(given["seeds"], where="parameters cell"),
        different(given["methods"], where="parameters cell"),
        device_of(given["device"]),
        as_written,
        Claims(*PAPERS),
    )
    torch.set_num_threads(1)  # runs and clients go side by side instead
    rcParams.update(RC)  # a reader's plain Matplotlib looks like the figures of `plots`
    pd.set_option("display.max_colwidth", None)
    print(
        f"fedtutor {__version__}, profile {loaded.profile}, {loaded.scenario}, seeds "
        f"{', '.join(map(str, _lesson.seeds))}"
    )
    if not as_written:
        usual = ", ".join(map(str, written["seeds"]))
        print("These are parameters of your own, so some numbers will differ from the text.")
        print(f"It describes the quick profile with seeds {usual}.")
    return _lesson


def check(name: str, ours, reference, *, tolerance: float = 1e-6) -> None:
    """Print that `ours` equals `reference`, or raise `CheckError`.

    Numbers, tensors, arrays, and lists and dicts of them, in the same structure; compared in
    float64, `tolerance` relative to the reference where that is larger than 1, 0 for equal bits.
    """
    try:
        wanted = _plain(reference)
        if not _numbers_in(wanted):
            raise ValueError("there is nothing to compare")
        assert_close(_plain(ours), wanted, rtol=tolerance, atol=tolerance)
    except (AssertionError, TypeError, ValueError, RuntimeError) as error:
        raise CheckError(
            f"check {name!r} failed: {error}",
            where=name,
            do="compare the code with the equation, term by term",
        ) from None
    shown = f"within {tolerance:g}".replace("e-0", "e-") if tolerance else "equal"
    print(f"{name:<40} {shown}")


def expect(found, says: str = "", *, about: float | None = None, of: str = "") -> None:
    """Print a difference or a number that the text speaks of, and notice when it is another one.

    found: a `Difference`, with the verdict `says` ("ahead" also stands for "ahead by less than a
    point"), or a number, whose name is `of`. about: the number in the text, without a sign; points
    meet it within half of the 95 % interval, at least half a point and at most one, and everything
    else within a tenth.
    """
    if not (says or about is not None) or (says and not isinstance(found, Difference)):
        raise SettingError(
            f"says = {says!r}, about = {about!r} of a {type(found).__name__}",
            where="teach.expect",
            do="give a difference its verdict, about= or both, and a number about=",
        )
    if isinstance(found, Difference):
        print(fill(str(found), 96, subsequent_indent="    "))
        half = (found.high - found.low) / 2
        points = found.unit.startswith("point")
        room = max(0.5, min(half, 1.0)) if points else 0.1 * (about or 0.0)
        near = about is None or abs(abs(found.mean) - about) <= room
        right = near and (not says or found.verdict.startswith(says))
    else:
        print(f"{of}: {found:.3g}")
        right = about is None or abs(abs(found) - about) <= 0.1 * about
    if right:
        return
    number = "" if about is None else f"about {about:g}"
    text = ", ".join(filter(None, (says, number)))
    if _lesson and _lesson.strict:
        raise ExpectationError(
            f"the text says: {text}", where=_lesson.name, do=f"rewrite the sentence: {found}"
        )
    print(f"    The text says: {text}. With these settings it is different.")


def judge(claim: str, found, *, claimed: int = 1, exact: bool = False) -> None:
    """Print a claim of a paper and what was found, and leave the record for the ledger.

    found: a `Difference`, or several by name where the claim is about all of them (the weakest
    decides), or with `exact` one number whose sign is the fact. claimed: +1, or 0 for a claim that
    something does not matter.
    """
    ledger = _lesson.claims if _lesson else Claims(*PAPERS)
    several = isinstance(found, Mapping)
    if several and not found:
        raise SettingError("no comparisons", where=f"claim {claim}", do="give at least one")
    first = next(iter(found.values())) if several else found
    values = (
        {n: d.values for n, d in found.items()} if several else getattr(found, "values", [found])
    )
    ledger.measure(
        claim,
        values,
        claimed=claimed,
        unit=getattr(first, "unit", ""),
        exact=exact,
        setting=getattr(first, "setting", "") or "this lesson",
        stand_in=getattr(first, "stand_in", False),
        recorded=True,
    )
    record = next(r for r in ledger.records() if r["id"] == claim)
    text = f"{claim}  {record['claim']} ({record['where']})\n    {record['verdict']} here"
    text += f", with {record['at']}" if record["at"] != "-" else ""
    text += f": {record['measured']}"
    text += f". {record['because'].rstrip('.')}" if record["because"] else ""
    text += f". In size, {record['size']}" if record["size"] else ""
    _show({"text/plain": text}, {RECORDS: [record]})


def again(runs, seed: int | None = None) -> None:
    """Train the first seed of a comparison again, and say that it comes to what is recorded."""
    first = runs.pairs[0][0].seed if seed is None else seed
    known = {task.seed for task, _ in runs.pairs}
    choose(str(first), map(str, known), kind="seed", where="teach.again")
    for task, record in runs.pairs:
        if task.seed == first and not record["failed"]:
            if hasattr(task.scenario, "of"):  # a committed run has not built its images
                task = replace(task, scenario=task.scenario.of(first))
            now = tasks.train(task, None, None, os.cpu_count() or 1)
            if _agree(task.label, *({OWN: own_accuracy(one["history"])} for one in (now, record))):
                print(f"{task.label}, seed {first}: trained here again, as in the record")


def difference(table: pd.DataFrame, a, b, **about) -> Difference:
    """Column `a` minus column `b` of a table with a row per seed; see `Difference` for `about`.

    Columns are accuracies in percent, or with `unit` and `margin` anything else.
    """
    both = (table[a] - table[b]).dropna()
    return Difference(tuple(both), str(a), str(b), **about)


def diagram(method: str) -> None:
    """Show who sends what in a round of `method`, as counted in real rounds of this lesson."""
    lesson = _begun("diagram")
    figure, text = drawn(lesson.recipe, method, seed=lesson.seeds[0], device=lesson.device)
    look = {"alt": text, "width": round(SCREEN * figure.get_figwidth())}
    _show({"image/png": to_png(figure), "text/plain": text}, {"image/png": look})


def question(text: str, choices: Mapping[str, str]) -> None:
    """A question for oneself: every choice unfolds its reply; text and replies are Markdown."""
    folds = "\n\n".join(
        f"<details><summary>{choice}</summary>\n\n{reply.strip()}\n\n</details>"
        for choice, reply in choices.items()
    )
    plain = "\n".join([f"Ask yourself. {text}", *(f"- {choice}" for choice in choices)])
    _show({"text/markdown": f"**Ask yourself.** {text.strip()}\n\n{folds}", "text/plain": plain})


def _begun(who: str) -> Lesson:
    if _lesson is None:
        raise SettingError(
            "no lesson has begun", where=f"teach.{who}", do="run the cell with teach.start first"
        )
    return _lesson


def _plain(value):
    """Tensors in float64 on the CPU, in the same structure."""
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        parts = [_plain(part) for part in value]
        kinds = {(p.shape, p.dtype) if isinstance(p, torch.Tensor) else None for p in parts}
        return torch.stack(parts) if len(kinds) == 1 and None not in kinds else parts
    if isinstance(value, float):  # PyTorch would round it to float32
        return torch.tensor(value, dtype=torch.float64)
    tensor = torch.as_tensor(value).detach().cpu()
    return tensor.double() if tensor.dtype != torch.bool else tensor


def _numbers_in(value) -> int:
    """How many there are."""
    if isinstance(value, torch.Tensor):
        return value.numel()
    parts = value.values() if isinstance(value, Mapping) else value
    return sum(map(_numbers_in, parts))


def _agree(name: str, now: Mapping, kept: Mapping) -> bool:
    """Whether what was measured here is what is committed; complain where it is not."""
    same = True
    for key, value in kept.items():
        if not abs(now[key] - value) <= max(0.05 * abs(value), 0.02):  # nan is not
            same = False
            text = f"{name}: {key} is {now[key]:.3g} here and {value:.3g} in the record"
            if _lesson and _lesson.strict:
                raise ExpectationError(text, where=name, do="record it anew, or find the reason")
            print(text)
    return same


def _show(data: dict, metadata: Mapping | None = None) -> None:
    """Display all forms of one output; in a plain script, print the plain one."""
    from IPython import get_ipython
    from IPython.display import display

    if get_ipython() is None:
        print(data["text/plain"])
    else:
        display(data, metadata=metadata or {}, raw=True)
