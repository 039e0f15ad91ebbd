"""Figures of a comparison: seaborn on its long table, with the t interval that the tables show.

Every function returns a Matplotlib `Figure`, so that a reader goes on with plain Matplotlib. No two
methods of a figure share a color; a method of the suite has its own wherever that is free.
"""

from collections.abc import Sequence
from math import dist

import seaborn as sns
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from .difference import MARGIN, Difference
from .errors import choose
from .figures.drawing import HEIGHT, METHOD_STYLE, OKABE_ITO, QUIET, WIDTH, style
from .history import ON, OWN


def colors(methods: Sequence[str]) -> dict[str, str]:
    """Method -> a color that no other of them has.

    A method of the suite has its own where that is free; the others get the free color that is
    farthest from all that are taken.
    """
    free = list(OKABE_ITO)
    free += [c for c in sns.color_palette("husl", 24).as_hex() if c not in free]
    found = {}
    for name in sorted(methods, key=lambda name: name not in METHOD_STYLE):  # ours choose first
        wanted = METHOD_STYLE[name].color if name in METHOD_STYLE else None
        found[name] = wanted if wanted in free else _farthest(free, list(found.values()))
        free.remove(found[name])
    return {name: found[name] for name in methods}


def _farthest(free: list[str], taken: list[str]) -> str:
    """The free color whose nearest taken one is farthest away, in red, green and blue."""
    known = [to_rgb(color) for color in taken]
    return max(free, key=lambda color: min((dist(to_rgb(color), rgb) for rgb in known), default=0))


def interval(values) -> tuple[float, float]:
    """The ends of the 95 % t interval, for seaborn's `errorbar`; with one value, the value."""
    found = Difference(tuple(values))
    return found.interval() if found.n > 1 else (found.mean, found.mean)


@style()
def curves(runs, on: str = OWN, title: str = "") -> Figure:
    """Accuracy at the end of rounds: a line per method, mean over clients, 95 % band over seeds.

    runs: a `Comparison`. on: "own" or "others". A method that was tested after one round only is a
    point with its interval, because one point is no curve.
    """
    side = ON[choose(on, ON, kind="side", where="plots.curves")]
    rows = runs.history[(runs.history["on"] == side) & (runs.history["moment"] == "end")]
    rows = rows[rows["round"] > 0]  # 0: before any training
    groups = ["method", "seed", "round"]
    rows = rows.groupby(groups, observed=True, sort=False)["accuracy"].mean().reset_index()
    names = list(dict.fromkeys(runs.runs["method"]))
    palette = colors(names)
    figure, axis = _canvas()
    for name in names:
        own = rows[rows["method"] == name]
        if own["round"].nunique() == 1:
            mean, (low, high) = own["accuracy"].mean(), interval(own["accuracy"])
            axis.errorbar(
                own["round"].iloc[0],
                mean,
                [[mean - low], [high - mean]],
                fmt="o",
                color=palette[name],
                label=name,
                capsize=4,
            )
        elif len(own):
            marker = "o" if own["round"].nunique() <= 12 else None
            sns.lineplot(
                own,
                x="round",
                y="accuracy",
                color=palette[name],
                label=name,
                ax=axis,
                marker=marker,
                errorbar=interval,
                legend=False,
            )
    axis.set(xlabel="round", ylabel=f"accuracy on {side}{'s' * (side == OWN)} (%)", title=title)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    _legend(axis)
    return figure


@style()
def differences(runs, over: str, on: str = OWN, title: str = "") -> Figure:
    """Every method minus `over`: a dot per seed, the mean and its 95 % interval.

    runs: a `Comparison`. The gray band is ± 1 point, below which a difference does not matter.
    """
    names = [name for name in dict.fromkeys(runs.runs["method"]) if name != over]
    palette = colors([over, *names])
    found = {name: runs.difference(name, over, on) for name in names}
    figure, axis = _canvas()
    if on in ON:
        axis.axvspan(-MARGIN, MARGIN, color="0.93", zorder=0)
    axis.axvline(0, color=QUIET, linewidth=1)
    for place, (name, difference) in enumerate(found.items()):
        axis.plot(
            difference.values,
            [place + 0.18] * difference.n,
            "o",
            color=palette[name],
            alpha=0.5,
            markersize=5,
        )
        if difference.n > 1:
            low, high = difference.interval()
            axis.plot([low, high], [place, place], color=palette[name], linewidth=3)
        axis.plot(difference.mean, place, "D", color=palette[name], markersize=8)
        axis.annotate(
            difference.verdict,
            (1.01, place),
            xycoords=axis.get_yaxis_transform(),
            va="center",
            fontsize="small",
            annotation_clip=False,
        )
    axis.set_yticks(range(len(found)), list(found))
    axis.set_ylim(len(found) - 0.5, -0.5)
    unit = "points" if on in ON else on
    axis.set(xlabel=f"minus {over}, {ON.get(on, on)} ({unit})", title=title)
    axis.grid(axis="y", visible=False)
    return figure


def _canvas():
    """An empty figure of the suite's size and its one axis; pyplot does not know it."""
    figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots()


def _legend(axis) -> None:
    """The names beside the plot, so that they cover no curve."""
    if axis.get_legend_handles_labels()[0]:  # none, where every run has diverged
        axis.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
