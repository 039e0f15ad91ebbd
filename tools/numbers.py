"""My number is another: what moves a federated accuracy, and by how much in our recorded results.

`data/numbers.toml` says what is compared; every value is computed here, from the results in
`data/results`, from what the notebooks recorded for their claims, and from the attacks in
`data/attacks`. The tables of `data/results/NUMBERS.md` are made of it:

    python -m tools.pages
"""

import math
import re
import statistics
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path

import pandas as pd

from fedtutor import papers
from fedtutor.engine.files import ROOT, load_json, shown
from fedtutor.errors import SettingError, StorageError, choose
from fedtutor.experiments import attack_list, recipes, results
from fedtutor.figures import display_name
from fedtutor.papers import ledger, spread

from . import markdown

LIST = ROOT / "data" / "numbers.toml"
PAGE = "data/results/NUMBERS.md"  # its prose is written by hand
HOW = "made by: python -m tools.pages -->"
NOT_YET = "not measured yet"
KEYS = {"compared": str, "notebook": str, "run": dict, "claim": str, "study": str, "number": str,
        "choose": list, "every": bool, "open": str, "minus": dict, "apart": bool}  # fmt: skip
SOURCES = ("run", "claim", "study", "every", "open")
DIFFERENCES = {"minus", "choose", "claim"}
RUN = {"recipe": str, "profile": str, "scenario": str, "method": str, "measure": str, "with": dict}
COLUMNS = ("effect", "what is compared", "points", "setting", "notebook")
SEEDS = range(20)  # a run is looked for under each of these seeds


@dataclass(frozen=True)
class Row:
    """One comparison: a value per seed (empty where nothing is recorded), and what it stands for.

    `points` is mean ± standard deviation over seeds (divisor n - 1), in percentage points.
    """

    effect: str  # title
    compared: str
    values: tuple[float, ...]
    points: str
    setting: str
    notebook: str  # like "04b, section 2"; "" where no notebook shows it
    difference: bool = False  # between two things; else a level, a deviation, or nothing yet

    @property
    def mean(self) -> float:
        """The mean over seeds; 0 where nothing is recorded."""
        return statistics.fmean(self.values) if self.values else 0.0


@dataclass(frozen=True)
class Effect:
    """What moves a number: the name of its table on the page, its title there, its rows."""

    name: str
    title: str
    rows: tuple[Row, ...]

    @property
    def largest(self) -> Row:
        """The difference whose mean is farthest from zero, or the first row if none is measured."""
        differences = [row for row in self.rows if row.difference]
        return max(differences, key=lambda row: abs(row.mean), default=self.rows[0])

    @property
    def size(self) -> float:
        """Of the largest difference, in points; 0 where there is none."""
        return abs(self.largest.mean) if self.largest.difference else 0.0


# ------------------------------------------------------------------------- what is read off a run


def _last(result: results.Result, moment: str = "end") -> list[list[float]]:
    """The last accuracy matrix of a moment, [clients, tests]; StorageError where there is none."""
    found = [e["matrix"] for e in result.history["accuracy"] if e["moment"] == moment]
    if not found or None in found[-1]:
        raise StorageError(f"nothing was noted at {moment!r} for every client",
                           where=f"{result.method}, seed {result.seed}, of {result.recipe}",
                           do=f"record it with observe = [{moment!r}]")  # fmt: skip
    return found[-1]


def _own(result: results.Result, moment: str) -> float:
    own = [result.history["tests"].index(name) for name in result.history["domains"]]
    return statistics.fmean(row[j] for row, j in zip(_last(result, moment), own, strict=True))


def _elsewhere(result: results.Result, moment: str) -> float:
    own = [result.history["tests"].index(name) for name in result.history["domains"]]
    pairs = zip(_last(result, moment), own, strict=True)
    return statistics.fmean(statistics.fmean(row[:j] + row[j + 1 :]) for row, j in pairs)


MEASURES: dict[str, Callable[[results.Result], float]] = {  # shares from 0 to 1
    "own domain": lambda r: r.headline["intra"],
    "other domains": lambda r: r.headline["inter"],
    "all domains": lambda r: statistics.fmean(a for row in _last(r) for a in row),
    "worst client": lambda r: r.headline["worst"],
    "best round": lambda r: r.best["intra"],
    "mean of the last three": lambda r: statistics.fmean(
        row["intra"] for row in results.accuracies(r.history)[-3:]
    ),
    "before averaging": lambda r: _own(r, "after_local"),
    "before averaging, other domains": lambda r: _elsewhere(r, "after_local"),
    "after the exchange": lambda r: _own(r, "after_collaborate"),
}
OVER_IMAGES = "over images"  # asks all results of the scenario how large its test sets are


def sizes_of_tests(found: Sequence[results.Result]) -> list[int]:
    """How many images each test set has, by the accuracies of results on the same data.

    An accuracy is a whole number of images over all images. So the size is the smallest number
    that makes a whole number of each accuracy; with many results it is the true one, with few
    perhaps a divisor of it.
    """
    columns = zip(*(row for r in found for e in r.history["accuracy"]
                    for row in e["matrix"] if row), strict=True)  # fmt: skip
    return [math.lcm(*(Fraction(a).limit_denominator(100_000).denominator for a in column))
            for column in columns]  # fmt: skip


# ------------------------------------------------------------------------- what is recorded


@dataclass(frozen=True)
class Shelf:
    """Where values are read: a folder of results, one of executed notebooks, one of attacks."""

    folder: Path = results.RESULTS
    notebooks: Path = ledger.NOTEBOOKS
    attacks: Path = attack_list.FOLDER

    @cached_property
    def claims(self) -> pd.DataFrame:
        return papers.claims(folder=self.notebooks)

    @cached_property
    def every(self) -> list[list[results.Result]]:
        """All that can be read, grouped: results of a group differ in the seed alone."""
        groups = {}
        for path, found in results.load_all(self.folder).items():
            if isinstance(found, results.Result):
                cell = path.parent, re.sub(r"-seed\d+", "", path.stem)
                groups.setdefault(cell, []).append(found)
        return list(groups.values())

    def runs(self, side: dict) -> dict[int, results.Result]:
        """What is recorded of a run, by seed."""
        profile, scenario = side.get("profile", "quick"), side.get("scenario")
        recipe = recipes.load(side["recipe"], profile=profile, scenario=scenario,
                              overrides=side.get("with"))  # fmt: skip
        choose(side["method"], recipe.methods, kind="method of this recipe", where=shown(LIST))
        found = {seed: results.recorded(recipe, side["method"], seed, folder=self.folder)
            for seed in SEEDS}  # fmt: skip
        return {seed: result for seed, result in found.items() if result}

    def values(self, side: dict) -> dict[int, float]:
        """Seed -> value in percent, of a run, a claim or an attack; empty where there is none."""
        if "claim" in side:
            choose(side["claim"], self.claims.index, kind="claim", where=shown(LIST))
            return dict(enumerate(self.claims.at[side["claim"], "values"]))
        if "study" in side:
            path = self.attacks / f"{side['study']}.json"
            kind, _, number = side["number"].partition(".")
            found = load_json(path)["numbers"][kind][number] if path.exists() else []
            return {seed: 100 * value for seed, value in enumerate(found)}
        measure = side.get("measure", "own domain")
        choose(measure, [*MEASURES, OVER_IMAGES], kind="measure", where=shown(LIST))
        runs = self.runs(side)
        read = self.over_images if measure == OVER_IMAGES else MEASURES[measure]
        values = {seed: read(result) for seed, result in runs.items()}
        if None in values.values():
            raise SettingError(f"{side['method']} has one test set, so no {measure}",
                               where=shown(LIST), do="ask for another measure")  # fmt: skip
        return {seed: 100 * value for seed, value in values.items()}

    def over_images(self, result: results.Result) -> float:
        """Share of all test images that are right: each client on its own, larger sets count more.

        The sizes are asked of all results on the same data (`sizes_of_tests`).
        """
        data = result.scenario["fingerprint"]
        sizes = sizes_of_tests([r for group in self.every for r in group
                            if r.scenario["fingerprint"] == data])  # fmt: skip
        own = [result.history["tests"].index(name) for name in result.history["domains"]]
        right = [sizes[j] * row[j] for row, j in zip(_last(result), own, strict=True)]
        return sum(right) / sum(sizes[j] for j in own)

    def chosen(self, side: dict, options: Sequence[dict]) -> dict[int, float]:
        """What it brings to choose by the test images, by seed.

        The best of `options` for each seed's own test images, minus the option whose mean over the
        other seeds is best.
        """
        grid = pd.DataFrame([self.values({**side, "with": o}) for o in options]).T.dropna()
        if len(grid) < 2:
            return {}
        return {seed: float(row.max() - row[grid.drop(seed).mean().idxmax()])
                for seed, row in grid.iterrows()}  # fmt: skip


# ------------------------------------------------------------------------- the list, and its rows


def effects(shelf: Shelf | None = None, path: Path = LIST) -> list[Effect]:
    """All effects of the list, computed from what is recorded.

    Raises `SettingError` for a row of the list that is misspelt, and what reading results raises.
    """
    shelf, where = shelf or Shelf(), shown(path)
    try:
        given = tomllib.loads(Path(path).read_text(encoding="utf-8"))["effect"]
    except (OSError, KeyError, tomllib.TOMLDecodeError) as error:
        raise SettingError(f"no list of effects ({error})", where=where,
                           do="write it as data/numbers.toml is") from None  # fmt: skip
    return [Effect(e["name"], e["title"],
                   tuple(_row(shelf, e["title"], row, f"{where}, {e['name']}") for row in e["row"]))
            for e in given]  # fmt: skip


def table(shelf: Shelf | None = None) -> pd.DataFrame:
    """effect | what is compared | points | setting | notebook, one line per comparison."""
    rows = [row for effect in effects(shelf) for row in effect.rows]
    return pd.DataFrame([(r.effect, r.compared, r.points, r.setting, r.notebook) for r in rows],
                        columns=COLUMNS)  # fmt: skip


def _row(shelf: Shelf, effect: str, row: dict, where: str) -> Row:
    _require(row, KEYS, where)
    _require(row.get("run", {}), RUN, where)
    source = [key for key in SOURCES if key in row]
    if len(source) != 1 or "compared" not in row:
        raise SettingError(f"{row.get('compared', 'a row')!r} has {len(source)} sources",
                           where=where, do=f"give one of {', '.join(SOURCES)}")  # fmt: skip
    notebook = row.get("notebook", "")
    if "open" in row:
        return Row(effect, row["compared"], (), NOT_YET, f"would need: {row['open']}", notebook)
    if "every" in row:
        return Row(effect, row["compared"], *_deviations(shelf.every), notebook)
    first = row["run"] if "run" in row else {k: row[k] for k in ("claim", "study", "number")
                                             if k in row}  # fmt: skip
    if "choose" in row:
        found = shelf.chosen(first, row["choose"])
        first = {**first, "with": row["choose"][0]}
    elif "minus" in row:
        _require(row["minus"], {**RUN, "claim": str, "study": str, "number": str}, where)
        pair = [shelf.values(side) for side in (first, {**first, **row["minus"]})]
        found = {seed: pair[0][seed] - pair[1][seed] for seed in pair[0] if seed in pair[1]}
    else:
        found = shelf.values(first)
    apart, difference = row.get("apart", False), not row.keys().isdisjoint(DIFFERENCES)
    values = [round(value, 9) + 0.0 for value in found.values()]  # zero has no sign
    values = tuple(abs(value) if apart else value for value in values)
    points = spread(values, 1, signed=difference and not apart) if values else NOT_YET
    return Row(effect, row["compared"], values, points, _setting(shelf, first, list(found)),
               notebook, difference and bool(values))  # fmt: skip


def _setting(shelf: Shelf, side: dict, seeds: Sequence[int]) -> str:
    """On which data, over how many rounds, which seeds."""
    if "claim" in side:
        return str(shelf.claims.at[side["claim"], "setting"]).partition(";")[0].replace(" · ", ", ")
    if "study" in side:
        return f"street digits, {len(seeds)} attacked networks"
    if not seeds:
        return "would need: the runs that data/numbers.toml names here"
    run = shelf.runs(side)[seeds[0]]
    which = f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
    return (f"{display_name(run.method)}, {run.scenario['name']}, {run.profile}, "
            f"{run.settings['rounds']} rounds, {which}")  # fmt: skip


def _deviations(groups: Sequence[Sequence[results.Result]]) -> tuple:
    """Values, words and setting of the row that looks at everything: deviations over seeds."""
    found = [statistics.stdev(100 * r.headline["intra"] for r in group)
             for group in groups if len(group) > 1]  # fmt: skip
    if len(found) < 2:
        return (), NOT_YET, "would need: recorded runs with several seeds"
    tenths = statistics.quantiles(found, n=10)
    words = f"half are below {tenths[4]:.1f}, nine in ten below {tenths[8]:.1f}"
    return tuple(found), words, f"{len(found)} settings of data/results"


def _require(given: dict, known: dict, where: str) -> None:
    for key, value in given.items():
        kind = known[choose(key, known, kind="key", where=where)]
        if not isinstance(value, kind):
            raise SettingError(f"{key} = {value!r}", where=where, do=f"give a {kind.__name__}")


# --- the page


def parts(found: Sequence[Effect], notebooks: Path = ledger.NOTEBOOKS) -> dict[str, str]:
    """Mark that begins a part of the page -> Markdown: the overview, and a table per effect."""
    made = {_mark("overview"): _overview(found, notebooks)}
    for effect in found:
        lines = [(r.compared, r.points, r.setting, _link(r.notebook, notebooks))
                 for r in effect.rows]  # fmt: skip
        made[_mark(effect.name)] = markdown.table(COLUMNS[1:], lines)
    return made


def _overview(found: Sequence[Effect], notebooks: Path) -> str:
    """A line per effect, the largest difference first."""
    head = ("what moves the number", "largest difference", "which is", "notebook")
    lines = []
    for effect in sorted(found, key=lambda effect: -effect.size):
        row = effect.largest
        title = f"[{effect.title}](#{_anchor(effect.title)})"
        left = sum(other is not row and other.points == NOT_YET for other in effect.rows)
        which = row.compared + f" ({left} more {NOT_YET})" * bool(left)
        lines.append((title, row.points, which, _link(row.notebook, notebooks)))
    return markdown.table(head, lines)


def _mark(name: str) -> str:
    return f"<!-- {name}, {HOW}"


def _anchor(title: str) -> str:
    """How a page links to the heading `## title`."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _link(notebook: str, folder: Path) -> str:
    """`04b, section 2` as a link from the page to the notebook."""
    if not notebook:
        return ""
    number = notebook.partition(",")[0]
    names = sorted(path.name for path in Path(folder).glob(f"{number}_*.ipynb"))
    if len(names) != 1:
        raise SettingError(f"no notebook {number}", where=shown(LIST), do="name one that is there")
    return f"[{notebook}](../../notebooks/{names[0]})"
