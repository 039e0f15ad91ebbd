"""Figures of a comparison: seaborn on its long table, with the t interval that the tables show.

Every function returns a Matplotlib `Figure`, so that a reader goes on with plain Matplotlib. In a
notebook it shows itself, with `alt`, one or two sentences, for those who do not see it. No two
methods of a figure share a color; a method of the suite has its own wherever that is free.
"""

from collections.abc import Mapping, Sequence
from math import dist

import pandas as pd
import seaborn as sns
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from .difference import Difference
from .errors import choose
from .figures.drawing import HEIGHT, METHOD_STYLE, OKABE_ITO, QUIET, SCREEN, WIDTH, style
from .figures.output import to_png
from .history import ON, OWN


def colors(methods: Sequence[str]) -> dict[str, str]:
    """Method -> a color that no other of them has.

    A method of the suite has its own where that is free; the others get the free color that is
    farthest from all that are taken.
    """
    free = list(OKABE_ITO)
    more = sns.color_palette("husl", max(24, len(methods))).as_hex()
    free += [c for c in more if c not in free]
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


class Picture(Figure):
    """A Matplotlib figure that carries its description; pyplot does not know it."""

    alt = ""

    def _repr_mimebundle_(self, include=None, exclude=None):
        text = self.alt or self.get_suptitle() or "a figure"
        return {"image/png": to_png(self), "text/plain": text}, {
            "image/png": {"alt": text, "width": round(SCREEN * self.get_figwidth())}
        }


@style()
def curves(runs, on: str | Sequence[str] = OWN, title: str = "", alt: str = "") -> Picture:
    """Accuracy at the end of rounds: a line per method, mean over clients, 95 % band over seeds.

    runs: a `Comparison`. on: "own" or "others", or both, a panel each. A method that was tested
    after one round only is a point with its interval, because one point is no curve.
    """
    sides = [choose_side(side) for side in ([on] if isinstance(on, str) else on)]
    names = list(dict.fromkeys(runs.runs["method"]))
    palette = colors(names)
    figure, panels = canvas(title, alt, len(sides))
    for axis, side in zip(panels, sides, strict=True):
        rows = runs.history[(runs.history["on"] == side) & (runs.history["moment"] == "end")]
        rows = rows[rows["round"] > 0]  # before any training there is nothing to compare
        keys = ["method", "seed", "round"]
        rows = rows.groupby(keys, observed=True, sort=False)["accuracy"].mean().reset_index()
        for name in names:
            _line(axis, rows[rows["method"] == name], name, palette[name])
        axis.set(xlabel="round", ylabel="", title=side)
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    top = runs.pairs[0][0].settings.top
    panels[0].set_ylabel(f"top-{top} accuracy (%)" if top > 1 else "accuracy (%)")
    if panels[-1].get_legend_handles_labels()[0]:  # none, where every run has diverged
        panels[-1].legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


def differences(
    runs, over: str, on: str | Sequence[str] = OWN, title: str = "", alt: str = ""
) -> Picture:
    """Every method minus `over`: a dot per seed, the mean, its 95 % and its 90 % interval.

    runs: a `Comparison`. on: "own" or "others", or both, or the name of what was measured. The
    gray band is ± 1 point, below which a difference of accuracies does not matter.
    """
    names = [name for name in dict.fromkeys(runs.runs["method"]) if name != over]
    sides = [on] if isinstance(on, str) else list(on)
    found = {side: {name: runs.difference(name, over, side) for name in names} for side in sides}
    return paired(
        {ON.get(side, side): rows for side, rows in found.items()},
        xlabel=f"minus {over}" + " (points)" * (sides[0] in ON),
        palette=colors([over, *names]),
        title=title,
        alt=alt,
    )


@style()
def paired(
    panels: Mapping[str, Mapping[str, Difference]],
    *,
    xlabel: str = "points",
    palette: Mapping[str, str] | None = None,
    title: str = "",
    alt: str = "",
) -> Picture:
    """Differences around zero: panel -> row -> `Difference`."""
    names = list(next(iter(panels.values())))
    palette = palette or dict.fromkeys(names, OKABE_ITO[0])
    figure, axes = canvas(title, alt, len(panels), height=1.2 + 0.62 * len(names))
    figure.get_layout_engine().set(wspace=0.08)  # a dot belongs to one panel
    for axis, (side, rows) in zip(axes, panels.items(), strict=True):
        for place, name in enumerate(names):
            _interval(axis, rows[name], place, palette[name])
            if len(panels) == 1:
                axis.annotate(
                    rows[name].verdict,
                    (1.02, place),
                    xycoords=axis.get_yaxis_transform(),
                    va="center",
                    annotation_clip=False,
                )
        margins = {found.margin for found in rows.values()} - {None}
        if len(margins) == 1:
            axis.axvspan(-min(margins), min(margins), color="0.93", zorder=0)
        axis.axvline(0, color=QUIET, linewidth=1, zorder=1)
        axis.set(xlabel=xlabel, title=side, ylim=(len(names) - 0.4, -0.6))
        axis.grid(axis="y", visible=False)
        axis.set_yticks(range(len(names)), names if axis is axes[0] else [""] * len(names))
    return figure


@style()
def matrix(
    values: pd.DataFrame,
    *,
    title: str = "",
    alt: str = "",
    unit: str = "%",
    decimals: int = 0,
    limits: tuple[float, float] | None = None,
) -> Picture:
    """A table as a heat map with its numbers; rows and columns keep their names."""
    return matrices({"": values}, title=title, alt=alt, unit=unit, decimals=decimals, limits=limits)


@style()
def matrices(
    panels: Mapping[str, pd.DataFrame],
    *,
    own: Mapping[str, str] | None = None,
    title: str = "",
    alt: str = "",
    unit: str = "%",
    decimals: int = 0,
    limits: tuple[float, float] | None = None,
) -> Picture:
    """Tables with the same rows and columns as heat maps side by side, with one scale of colors.

    own: row -> the column of its own domain, which is outlined.
    """
    count, first = len(panels), next(iter(panels.values()))
    figure, axes = canvas(title, alt, count, height=1.6 + (0.42 + 0.1 * (count > 1)) * len(first))
    ends = [value for table in panels.values() for value in (table.min().min(), table.max().max())]
    low, top = limits or (min(ends), max(ends))
    for axis, (name, table) in zip(axes, panels.items(), strict=True):
        sns.heatmap(
            table,
            annot=True,
            fmt=f".{decimals}f",
            cmap="cividis",
            vmin=low,
            vmax=top,
            linewidths=1,
            cbar=axis is axes[-1],
            cbar_kws={"label": unit},
            ax=axis,
        )
        for row, column in (own or {}).items():
            corner = table.columns.get_loc(column), table.index.get_loc(row)
            axis.add_patch(Rectangle(corner, 1, 1, fill=False, ec="black", lw=2.5, clip_on=False))
        axis.tick_params(axis="y", rotation=0)
        axis.tick_params(axis="x", rotation=45 if count > 1 else 0)
        axis.set(xlabel=table.columns.name or "", ylabel="", title=name)
        if axis is not axes[0]:
            axis.set_yticklabels([""] * len(table))
    axes[0].set_ylabel(first.index.name or "")
    return figure


@style()
def images(rows: Mapping[str, Tensor], *, title: str = "", alt: str = "") -> Picture:
    """Images in rows: name -> uint8 [images, channels, height, width], as many in every row."""
    count = max(len(x) for x in rows.values())
    figure, _ = canvas(title, alt, 0, height=0.45 + 0.62 * len(rows))
    axes = figure.subplots(len(rows), count, squeeze=False)
    for (name, x), line in zip(rows.items(), axes, strict=True):
        for axis in line:
            axis.set_axis_off()
        for axis, image in zip(line, x, strict=False):
            pixels = image.permute(1, 2, 0).squeeze(-1).cpu().numpy()
            axis.imshow(pixels, cmap="gray", vmin=0, vmax=255)
        line[0].text(-0.3, 0.5, name, transform=line[0].transAxes, ha="right", va="center")
    return figure


@style()
def canvas(title: str = "", alt: str = "", panels: int = 1, height: float = HEIGHT):
    """(an empty figure in the suite's style, its axes side by side)."""
    figure = Picture(figsize=(WIDTH, round(height, 2)), layout="constrained")
    FigureCanvasAgg(figure)
    figure.alt = " ".join(alt.split())
    if title:
        figure.suptitle(title, x=0.01, ha="left", wrap=True)
    return figure, list(figure.subplots(1, panels, squeeze=False)[0]) if panels else []


def choose_side(on: str) -> str:
    """ "own domain" or "other domains"."""
    return ON.get(on) or choose(on, ON, kind="side", where="plots")


@style()
def _line(axis, rows: pd.DataFrame, name: str, color: str) -> None:
    """One method: a curve with its band, or one point with its interval."""
    look = {"color": color, "label": name}
    if rows["round"].nunique() == 1:
        mean, (low, high) = rows["accuracy"].mean(), interval(rows["accuracy"])
        reach = [[mean - low], [high - mean]]
        axis.errorbar(rows["round"].iloc[0], mean, reach, fmt="o", capsize=4, **look)
    elif len(rows):
        marker = "o" if rows["round"].nunique() <= 12 else None
        sns.lineplot(
            rows,
            x="round",
            y="accuracy",
            ax=axis,
            marker=marker,
            errorbar=interval,
            legend=False,
            **look,
        )


def _interval(axis, found: Difference, place: float, color: str) -> None:
    """The 95 % interval thin, the 90 % interval thick, the mean; seeds in a row of their own."""
    axis.plot(found.values, [place + 0.24] * found.n, "o", color=color, alpha=0.55, markersize=5)
    if found.n > 1:
        axis.plot(found.interval(0.95), [place, place], color=color, linewidth=1.5)
        axis.plot(found.interval(0.90), [place, place], color=color, linewidth=4)
    axis.plot(found.mean, place, "D", color=color, markersize=7)
