"""What the README shows: findings, the state in one line, a picture, and what installing costs.

A finding is a claim of a notebook, or a difference of recorded runs, told in a sentence for a
stranger: `data/findings.toml` has one for each verdict, so that it turns round with the seeds.
`python -m tools.pages` writes all of it.
"""

import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt

from fedtutor import figures
from fedtutor.difference import NO_DIFFERENCE, TOO_CLOSE, Difference
from fedtutor.engine.files import ROOT, load_json, shown, write_atomically
from fedtutor.errors import StorageError
from fedtutor.experiments import results
from fedtutor.experiments.arenas import ARENAS
from fedtutor.papers import verdicts
from fedtutor.papers.printed import PAPERS

from . import numbers

KEYS = {  # verdict -> the sentence of data/findings.toml
    verdicts.AHEAD: "ahead",
    verdicts.BEHIND: "behind",
    NO_DIFFERENCE: "no_difference",
    TOO_CLOSE: "too_close",
    verdicts.NO_VERDICT: "no_verdict",
}
FINDINGS = ROOT / "data" / "findings.toml"
RECORDED = "data/results/README.md"
PICTURE = ROOT / "data" / "results" / "front.png"
INSTALLATION = ROOT / "data" / "installation.json"
MARK = "<!-- made by python -m tools.pages: {} -->"
SHOWN = ("fedavg", "fedcsd", "fccl+", "fccl", "repshare", "fedlgd")
ARENA, SAW = (results.RESULTS / recipe / "quick" for recipe in ("benchmark", "fccl"))
DATA = "digits-mini"
OTHER = {  # overrides of the runs that are drawn, where they have some
    "fedlgd": ARENAS["virtual images"].changes["quick"],  # a network of its own
}


def findings(book: pd.DataFrame) -> list[str]:
    """A line of Markdown per finding, with a link; book: `papers.claims()`.

    The link leads to the notebook that shows it, or, where none does yet, to the recorded runs.

    Raises `StorageError` where `data/findings.toml` names a claim that no notebook measures, or
    one that was measured on other data than the sentence says, or runs that nobody recorded, or
    has no sentence for its verdict.
    """
    lines, shelf = [], numbers.Shelf()
    for one in tomllib.loads(FINDINGS.read_text(encoding="utf-8"))["finding"]:
        values, verdict, sign = _judged(one, book) if "claim" in one else _compared(one, shelf)
        about = f"claim {one['claim']!r}" if "claim" in one else f"the finding on {one['data']}"
        if verdict not in one:
            raise StorageError(f"no sentence for {about}, which is {verdict!r}",
                               where=shown(FINDINGS), do=f"write `{verdict} = ...`")  # fmt: skip
        said = one[verdict]
        said_by_words = {"ahead": 1, "behind": -1}.get(verdict, 0) * sign
        found = Difference([(said_by_words or 1) * v for v in values])
        value = found.estimate.replace("+", "") if said_by_words else found.estimate
        value += " points"
        where = f"[recorded]({RECORDED})"
        if "notebook" in one:
            (path,) = (ROOT / "notebooks").glob(f"{one['notebook']}_*.ipynb")
            where = f"[{one['notebook']}](notebooks/{path.name})"
        where = f"({where}: {one['data']}, {len(values)} seeds)"
        lines.append(f"- {said.format(value=value)} {where}")
    return lines


def _judged(one: dict, book: pd.DataFrame) -> tuple[list[float], str, int]:
    """Values by seed, verdict and claimed direction of a claim that a notebook judged."""
    if one["claim"] not in book.index or not book.loc[one["claim"], "values"]:
        raise StorageError(f"claim {one['claim']!r} is not measured", where=shown(FINDINGS),
                           do="name a claim of the notebook that measures it")  # fmt: skip
    row = book.loc[one["claim"]]
    if not row["setting"].startswith(one["setting"]):
        raise StorageError(
            f"claim {one['claim']!r} was measured on {row['setting']!r}", where=shown(FINDINGS),
            do=f"say so in its `setting` ({one['setting']!r}) and `data`")  # fmt: skip
    values = [one.get("scale", 1) * value for value in row["values"]]
    verdict = KEYS.get(verdicts.kind(row["verdict"]), row["verdict"])
    return values, verdict, row["claimed"] or 1


def _compared(one: dict, shelf: numbers.Shelf) -> tuple[list[float], str, int]:
    """The same of recorded runs, `run` minus `minus`, which are written as in data/numbers.toml."""
    first, second = shelf.values(one["run"]), shelf.values({**one["run"], **one["minus"]})
    values = [first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())]
    if len(values) < 2:
        raise StorageError(f"the runs of the finding on {one['data']} are not recorded",
                           where=shown(FINDINGS), do="name recorded runs")  # fmt: skip
    return values, KEYS[verdicts.kind(Difference(values).verdict)], 1


def parts(coverage: pd.DataFrame, book: pd.DataFrame, columns: dict[str, str]) -> dict[str, str]:
    """The parts of the README: the mark at which each begins -> what stands there."""
    return {
        MARK.format("picture"): f"![{described()}]({PICTURE.relative_to(ROOT).as_posix()})",
        MARK.format("installation"): installation(),
        MARK.format("findings"): "\n".join([*findings(book), "", state(coverage, columns)]),
    }


def installation() -> str:
    """What an installation weighs, in MB, as tools/bench/installation.py measured it."""
    parts = load_json(INSTALLATION)["MB"]
    return (
        f"A reader installs {parts['reader, CPU builds']:,} MB (PyTorch's CPU builds, if there is "
        f"no NVIDIA driver) or {parts['reader']:,} MB. The tests add "
        f"{parts['tests']:,} MB, notebook 09 {parts['engine']:,} MB, the workflow "
        f"{parts['workflow']:,} MB."
    )


def state(coverage: pd.DataFrame, columns: dict[str, str]) -> str:
    """How many printed numbers were measured where, in one line; coverage: `Report.coverage`."""
    total = int(coverage["numbers"].sum())
    paper, stand_in, reduced, left = (int(coverage[name].sum()) for name in columns.values())
    other = f", {stand_in:,} there with other images" if stand_in else ""
    return (
        f"Of {total:,} accuracies that the {len(PAPERS)} papers print, {paper:,} were measured at "
        f"the paper's own setting{other}, {reduced:,} at smaller settings, {left:,} not yet."
    )


# ------------------------------------------------------------------------------------- picture


def crossed() -> dict[str, dict[str, float]]:
    """Method -> name of what crosses -> bytes per client and round, both directions, in the arena.

    What crosses in some rounds only, such as FedLGD's images, is spread over all rounds.
    """
    found = {}
    for method in SHOWN:
        run = _runs(ARENA, method, **OTHER.get(method, {}))[0]
        rounds, clients = run.settings["rounds"], len(run.history["clients"])
        sums = {}
        for row in run.history["bytes"]:
            name = row["name"].removeprefix("mean ").removeprefix("global ")
            sums[name] = sums.get(name, 0) + row["bytes"] / rounds / clients
        found[method] = sums
    return found


def saw() -> np.ndarray:
    """[seeds, moments]: FCCL's accuracy on the own domain, before round 1, then after the
    photographs and after local training, round by round."""
    seeds = []
    for run in _runs(SAW, "fccl", observe=["after_collaborate"]):
        at = sorted(run.history["accuracy"], key=lambda row: (row["round"], row["moment"]))
        seeds.append([100 * np.mean(np.diag(row["matrix"])) for row in at])
    return np.array(seeds)


def rounds(method: str) -> dict[str, int]:
    """Name of what crosses -> in how many rounds it does."""
    seen = {}
    for row in _runs(ARENA, method, **OTHER.get(method, {}))[0].history["bytes"]:
        name = row["name"].removeprefix("mean ").removeprefix("global ")
        seen.setdefault(name, set()).add(row["round"])
    return {name: len(numbers) for name, numbers in seen.items()}


def described() -> str:
    """The picture in words; what rises and falls is read off the numbers."""
    sums = {method: sum(by_name.values()) for method, by_name in crossed().items()}
    least, most = (choose(sums, key=sums.get) for choose in (min, max))
    amount, name = figures.human_bytes, figures.display_name
    there, back = swings(saw())
    return (
        f"Left: what a client sends and receives per round, {amount(sums[least])} for "
        f"{name(least)} to {amount(sums[most])} for {name(most)}. Right: in a round of FCCL, "
        f"accuracy on the own domain {'falls' if there < 0 else 'rises'} while clients agree on "
        f"photographs, and {'falls' if back < 0 else 'rises'} in local training."
    )


def swings(seeds: np.ndarray) -> tuple[float, float]:
    """Mean change by the photographs, and by local training, in points; seeds: see `saw`."""
    change = np.diff(seeds, axis=1)
    return float(change[:, ::2].mean()), float(change[:, 1::2].mean())


def _runs(folder: Path, method: str, **overrides) -> list:
    """Recorded runs of a method with these overrides, by seed.

    Where there are none, those with the only other ones it has: FedLGD has a network of its own.
    """
    found = [run for run in results.load_all(folder).values()
             if run.method == method and run.scenario["name"] == DATA]  # fmt: skip
    same = [run for run in found if run.overrides == overrides]
    if not same and (not found or any(run.overrides != found[0].overrides for run in found)):
        raise StorageError(f"no run of {method} with {overrides} to draw", where=shown(folder),
                           do="record it as data/results/README.md says")  # fmt: skip
    return sorted(same or found, key=lambda run: run.seed)


def draw(path: Path = PICTURE) -> Path:
    """Write the README's picture: what crosses the channel, beside the saw-tooth of a round."""
    figure, axes = plt.subplots(1, 2, figsize=(11, 3.7), width_ratios=(6, 5), layout="constrained")
    with figures.style():
        _bars(axes[0])
        _saw_tooth(axes[1], saw())
    write_atomically(path, lambda name: figure.savefig(name, dpi=110, format="png",
                                                       metadata={"Software": None}))  # fmt: skip
    plt.close(figure)
    return path


def _bars(axes) -> None:
    parts = crossed()
    sums = {method: sum(by_name.values()) for method, by_name in parts.items()}
    order = sorted(sums, key=sums.get)
    for place, method in enumerate(order):
        look = figures.method_style(method)
        axes.plot([1, sums[method]], [place, place], color="0.88", lw=1, zorder=0)
        axes.plot(sums[method], place, "o", color=look.color, ms=9)
        largest = sorted(parts[method], key=parts[method].get)[-2:][::-1]
        run, seen = _runs(ARENA, method, **OTHER.get(method, {}))[0], rounds(method)
        every = run.settings["rounds"]
        names = ", ".join(n if seen[n] == every else f"{n} (in {seen[n]} of {every} rounds)"
                          for n in largest if parts[method][n] > 0.02 * sums[method])  # fmt: skip
        label = f"  {figures.human_bytes(sums[method])}: {names}"
        if "models" in run.overrides:
            label += f"\n  with a network of its own, {run.settings['models'][0]}"
        axes.text(sums[method] * 1.1, place, label, va="center", fontsize=9)
    axes.set_yticks(range(len(order)), [figures.display_name(method) for method in order])
    axes.set(xscale="log", xlim=(5e3, 2e8), ylim=(-0.6, len(order) - 0.4))
    axes.set_xlabel("bytes through the channel per client and round, log scale")
    axes.set_title("What a client sends and receives", loc="left", fontweight="bold")
    _plain(axes)


def _saw_tooth(axes, seeds: np.ndarray) -> None:
    mean, x = seeds.mean(0), np.arange(seeds.shape[1]) / 2
    axes.plot(x, seeds.T, color="0.8", lw=0.8)
    axes.plot(x, mean, color=figures.method_style("fccl").color, lw=2.2)
    axes.plot(x[1::2], mean[1::2], "o", color="#d55e00", label="after agreeing on photographs")
    axes.plot(x[::2], mean[::2], "o", color="#0072b2", label="after local training")
    every = 1 if x[-1] <= 12 else 2
    ticks = range(0, int(x[-1]) + 1, every)
    axes.set(xlabel="round", ylabel="accuracy on the own domain (%)", xticks=ticks)
    there, back = swings(seeds)
    title = ("A round of FCCL forgets, and learns again" if there < 0 < back
             else "Accuracy within FCCL's rounds")  # fmt: skip
    axes.set_title(title, loc="left", fontweight="bold")
    axes.legend(frameon=False, loc="lower right")
    _plain(axes)


def _plain(axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
