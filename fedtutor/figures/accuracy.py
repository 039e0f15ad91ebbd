"""Figures of accuracy: over rounds, per domain, per client and test set."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator

from ..errors import DataError, choose
from .drawing import (
    INK,
    LABEL,
    QUIET,
    Style,
    accuracy_axis,
    canvas,
    caption,
    legend,
    looks_of,
    row_panels,
    style,
    y_label,
)
from .heatmap import Heat, heat
from .inputs import mapping, numbers, require, same, sample_sd, spread_note
from .words import ACCURACY, display_name


@style()
def curves(
    series: Mapping[str, Sequence],
    *,
    title: str,
    x: Sequence[float] | None = None,
    xlabel: str = "round",
    ylabel: str = ACCURACY,
    share: bool = True,
    limits: tuple[float, float] | None = None,
    xscale: str = "linear",
    styles: Mapping[str, Style] | None = None,
    over: str | None = "seeds",
    marked: Sequence[int] | None = None,
) -> Figure:
    """Lines with bands of one standard deviation over seeds.

    series: method -> [seeds, points]. x: [points], default 1, 2, ... `share`: the values are
    accuracies between 0 and 1, shown from 0 to 100 %; `limits` (percent) cuts that axis, which is
    then marked. Other values: `share=False` and a `ylabel` with their unit. Up to four lines are
    labeled at their ends. `styles` (see `in_order`) is for series that are no methods; `over` says
    what the first dimension is where it is not seeds; None: the values are exact, and no note says
    how they spread. `marked`: the points, counted from 0, that have a marker on every line;
    otherwise some do, spread so that lines can be told apart.
    """
    series = mapping(series, where="curves")
    data = {n: numbers(v, 2, where=f"curves, {n}", share=share) for n, v in series.items()}
    points = next(iter(data.values())).shape[1]
    for name, values in data.items():
        same(values.shape[1], points, f"points of {name!r}", where="curves")
    x = np.arange(1, points + 1) if x is None else numbers(x, 1, where="curves, x")
    same(len(x), points, "x values", where="curves")
    choose(xscale, ("linear", "log"), kind="xscale", where="curves")
    require(xscale == "linear" or x.min() > 0, f"x from {x.min():g} on a log scale",
            where="curves", do="give x above 0")  # fmt: skip

    figure = canvas(title)
    axes = figure.subplots()
    ends = []
    looks = looks_of(data, styles, where="curves")
    every = max(1, points // 8)
    outside = [point for point in marked or () if not 0 <= point < points]
    require(not outside, f"marked = {outside}", where="curves",
            do=f"count the {points} points from 0")  # fmt: skip
    for i, (name, look) in enumerate(looks.items()):
        values = data[name] * (100 if share else 1)
        mean, sd = values.mean(axis=0), sample_sd(values)
        marks = (i * every // len(looks), every) if marked is None else list(marked)
        if len(values) > 1:
            axes.fill_between(x, mean - sd, mean + sd, color=look.color, lw=0,
                              alpha=0.18 if len(data) <= 6 else 0.08)  # fmt: skip
        axes.plot(x, mean, label=display_name(name), color=look.color, marker=look.marker,
                  lw=2.4 if look.strong else 1.7, zorder=3 + look.strong, mfc=look.fill, mew=1.4,
                  markevery=marks)  # fmt: skip
        ends.append((display_name(name), mean[-1], look))
    axes.set_xscale(xscale)
    axes.set_xlabel(xlabel)
    if xscale == "log":
        axes.set_xticks(x, [f"{value:g}" for value in x])
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        whole = bool((x % 1 == 0).all())
        axes.xaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10], integer=whole))
    y_label(axes, ylabel)
    cut = ""
    if share:
        cut = accuracy_axis(axes, limits)
    elif limits is not None:
        axes.set_ylim(*limits)
    elif min(values.min() for values in data.values()) >= 0:
        axes.set_ylim(bottom=0)
    low, high = axes.get_ylim()
    for line in axes.lines:  # a marker on the edge is drawn whole, a curve beyond it is cut
        y = line.get_ydata()
        line.set_clip_on(not (low <= min(y) and max(y) <= high))
    note = "Line: mean over {}; band: one standard deviation."
    note = "" if over is None else spread_note(note, [len(v) for v in data.values()], over)
    caption(figure, f"{note} {cut}".strip())
    if len(ends) <= 4:
        _end_labels(axes, x[-1], ends)
    else:
        legend(figure, axes)
    return figure


def _end_labels(axes, x_end: float, ends: list[tuple[str, float, Style]]) -> None:
    """Name each line right of its end, moved apart where they would overlap."""
    axes.figure.draw_without_rendering()
    low, high = axes.get_ylim()
    gap = 17 / axes.bbox.height * (high - low)
    ends = sorted(((name, np.clip(y, low, high), look) for name, y, look in ends),
                  key=lambda end: end[1])  # fmt: skip
    steps = gap * np.arange(len(ends))
    free = np.array([end[1] for end in ends]) - steps
    up, down = np.maximum.accumulate(free), np.minimum.accumulate(free[::-1])[::-1]
    y = (up + down) / 2 + steps  # pushed up and pushed down: halfway, both keep the gap
    y = y - max(0, y[-1] - high)
    y = y + max(0, low + gap / 2 - y[0])
    beside = axes.get_yaxis_transform()  # x in axes, y in data
    for (name, y_end, look), y_text in zip(ends, y, strict=True):
        start = axes.transAxes.inverted().transform(axes.transData.transform((x_end, y_end)))[0]
        axes.plot([start, 1.015], [y_end, y_text], transform=beside, color=look.color, lw=0.8,
                  clip_on=False)  # fmt: skip
        axes.plot([1.015], [y_text], transform=beside, clip_on=False, color=look.color,
                  marker=look.marker, mfc=look.fill, mew=1.4)  # fmt: skip
        axes.text(1.032, y_text, name, transform=beside, va="center_baseline", gid="direct label")


@style()
def bars(
    values: Mapping[str, Mapping[str, Sequence[float]]],
    *,
    title: str,
    xlabel: str = ACCURACY,
    share: bool = True,
    start: float = 0.0,
    styles: Mapping[str, Style] | None = None,
) -> Figure:
    """One panel per domain, one bar per method, a dot per seed, whiskers of one sd.

    values: method -> domain -> [seeds]. Every method needs every domain. `share` as in `curves`.
    Bars begin at `start`, in the units of `values`: chance, for instance.
    """
    values = mapping(values, where="bars")
    looks = looks_of(values, styles, where="bars")
    order = list(looks)
    domains = list(mapping(values[order[0]], where=f"bars, {order[0]}"))
    for name in order:
        require(set(mapping(values[name], where=f"bars, {name}")) == set(domains),
                f"domains of {name!r} differ from those of {order[0]!r}", where="bars",
                do="give every method the same domains")  # fmt: skip
    row_height = max(0.21, min(0.36, 2.2 / len(order)))
    figure = canvas(title, height=1.4 + row_height * len(order))
    panels = row_panels(figure, domains, order)
    start = 100 * start if share else start
    counts, low, top = [], start, 100.0 if share and not start else start
    for axes, domain in zip(panels, domains, strict=True):
        for row, (name, look) in enumerate(looks.items()):
            where = f"bars, {name}, {domain}"
            seeds = numbers(values[name][domain], 1, where=where, share=share)
            require(seeds.min() >= 0, f"a bar of {seeds.min():g}", where=where,
                    do="give values from 0 on; `curves` and `matrix` take signs")  # fmt: skip
            seeds = seeds * (100 if share else 1)
            mean, sd = seeds.mean(), float(sample_sd(seeds))
            paler = tuple(0.45 * c + 0.55 for c in to_rgb(look.color))
            axes.barh(row, mean - start, left=start, height=0.7, edgecolor=look.color, lw=1,
                      color=look.color if look.strong else paler)  # fmt: skip
            if len(seeds) > 1:
                axes.errorbar(mean, row, xerr=sd, color=INK, lw=1.2, capsize=2.5, zorder=3)
                offsets = row + np.linspace(-0.18, 0.18, len(seeds))
                axes.plot(seeds, offsets, ls="", marker="o", ms=3, mfc="white", mec=INK, mew=0.7,
                          zorder=4, gid="seeds")  # fmt: skip
            end = max(mean + sd, seeds.max())
            axes.annotate(f"{mean:.0f}" if share else f"{mean:.3g}", (end, row), size=8.5,
                          xytext=(5, 0), textcoords="offset points",
                          va="center_baseline")  # fmt: skip
            counts.append(len(seeds))
            low, top = min(low, mean - sd, seeds.min()), max(top, end)
        axes.axvline(start, color=QUIET, lw=1)
    low = max(0.0, low) if start else 0.0
    room = 1 + 0.075 * len(domains)  # for the numbers
    panels[0].set_xlim(low, low + ((top - low) or 1) * room)
    if share and not start:
        panels[0].set_xticks([0, 50, 100])
    else:
        panels[0].xaxis.set_major_locator(MaxNLocator(3))
    figure.supxlabel(xlabel, size=LABEL)
    note = "Bar, number: mean over {}; whisker: one standard deviation; dot: a seed."
    caption(figure, spread_note(note, counts))
    return figure


@style()
def accuracy_matrix(
    matrix,
    rows: Sequence[str],
    columns: Sequence[str],
    own: Sequence[str | None] | None = None,
    *,
    title: str,
) -> Figure:
    """Heat map of A[i, j], the accuracy of client i's model on test set j, in percent.

    matrix: [rows, columns], or [seeds, rows, columns] (then each cell says its standard
    deviation), or a dict from panel title to such an array, drawn side by side. `own` names each
    row's own column (a history's `domains`): that cell is outlined.
    """
    where, outlined, means, texts, counts = "accuracy_matrix", [], {}, {}, []
    if own is not None:
        same(len(own), len(rows), "entries of own", where=where)
        for i, column in enumerate(own):
            if column is not None:
                choose(column, columns, kind="own column", where=where, error=DataError)
                outlined.append((i, list(columns).index(column)))
    note = ["Outlined: the client's own domain."] if outlined else []
    panels = mapping(matrix if isinstance(matrix, Mapping) else {"": matrix}, where=where)
    for name, given in panels.items():
        values = 100 * numbers(given, 2, 3, where=f"{where} {name}".strip(), share=True)
        means[name] = values.mean(axis=0) if values.ndim == 3 else values
        texts[name] = np.vectorize("{:.0f}".format)(means[name])
        if values.ndim == 3:
            counts.append(len(values))
            if len(values) > 1:
                texts[name] = np.vectorize("{} ± {:.0f}".format)(texts[name], sample_sd(values))
    if counts:
        note.append(spread_note("Mean ± one standard deviation over {}.", counts))
    return heat(Heat(means, rows, columns, title, "tested on", "model of", ACCURACY,
                     ("cividis", 0, 100), texts, outlined, " ".join(note)))  # fmt: skip
