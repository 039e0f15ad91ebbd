"""Figures of accuracy: over rounds, per domain, per client and test set, against bytes.

Accuracies come in as shares between 0 and 1 and are shown in percent. A spread is always one
sample standard deviation over seeds.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator
from matplotlib.transforms import Bbox

from ..errors import DataError, choose
from .drawing import (
    GRID,
    HALO,
    INK,
    LABEL,
    QUIET,
    Style,
    accuracy_axis,
    canvas,
    caption,
    legend,
    looks_of,
    method_order,
    method_style,
    style,
    y_label,
)
from .heatmap import Cells, Words, heat
from .inputs import mapping, numbers, require, same, sample_sd, seed_count
from .words import ACCURACY, display_name, human_bytes

ONE_SEED = "One seed: the spread is not known."


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
    over: str = "seeds",
) -> Figure:
    """Lines with bands of one standard deviation over seeds.

    series: method -> [seeds, points]. x: [points], default 1, 2, ... `share`: the values are
    accuracies between 0 and 1, shown from 0 to 100 %; `limits` (percent) cuts that axis, which is
    then marked. Other values: `share=False` and a `ylabel` with their unit. Up to four lines are
    labeled at their ends. `styles` (see `in_order`) is for series that are no methods; `over` says
    what the first dimension is where it is not seeds.
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
    for i, (name, look) in enumerate(looks.items()):
        values = data[name] * (100 if share else 1)
        mean, sd = values.mean(axis=0), sample_sd(values)
        if len(values) > 1:
            axes.fill_between(x, mean - sd, mean + sd, color=look.color, lw=0,
                              alpha=0.18 if len(data) <= 6 else 0.08)  # fmt: skip
        every = max(1, points // 8)
        axes.plot(x, mean, label=display_name(name), color=look.color, marker=look.marker,
                  lw=2.4 if look.strong else 1.7, zorder=3 + look.strong,
                  mfc=look.color if look.strong else "white", mew=1.4,
                  markevery=(i * every // len(looks), every))  # fmt: skip
        ends.append((display_name(name), mean[-1], look))
    axes.set_xscale(xscale)
    axes.set_xlabel(xlabel)
    if xscale == "log":
        axes.set_xticks(x, [f"{value:g}" for value in x])
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        whole = bool((x % 1 == 0).all())
        locator = MaxNLocator(8, steps=[1, 2, 5, 10], integer=whole)
        axes.xaxis.set_major_locator(locator)
    y_label(axes, ylabel)
    cut = ""
    if share:
        cut = accuracy_axis(axes, limits)
    elif limits is not None:
        axes.set_ylim(*limits)
    elif min(values.min() for values in data.values()) >= 0:
        axes.set_ylim(bottom=0)
    counts = [len(values) for values in data.values()]
    lines = seed_count(counts).replace("seeds", over)
    note = f"Line: mean over {lines}; band: one standard deviation."
    caption(figure, f"{ONE_SEED if max(counts) == 1 else note} {cut}")
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
                  marker=look.marker, mfc=look.color if look.strong else "white",
                  mew=1.4)  # fmt: skip
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
    panels = figure.subplots(1, len(domains), sharex=True, sharey=True, squeeze=False)[0]
    start = 100 * start if share else start
    counts, low, top = [], start, 100.0 if share and not start else start
    for axes, domain in zip(panels, domains, strict=True):
        for row, (name, look) in enumerate(looks.items()):
            seeds = numbers(values[name][domain], 1, where=f"bars, {name}, {domain}", share=share)
            require(seeds.min() >= 0, f"a bar of {seeds.min():g}", where=f"bars, {name}, {domain}",
                    do="give values from 0 on; `curves` and `matrix` take signs")  # fmt: skip
            seeds = seeds * (100 if share else 1)
            mean, sd = seeds.mean(), float(sample_sd(seeds))
            fill_color = look.color if look.strong else _paler(look.color)
            axes.barh(row, mean - start, left=start, height=0.7, color=fill_color,
                      edgecolor=look.color, lw=1)  # fmt: skip
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
        axes.set_title(domain)
        axes.grid(axis="x")
        axes.grid(visible=False, axis="y")
        axes.axvline(start, color=QUIET, lw=1)
    low = max(0.0, low) if start else 0.0
    room = 1 + 0.075 * len(domains)  # for the numbers
    panels[0].set_xlim(low, low + ((top - low) or 1) * room)
    if share and not start:
        panels[0].set_xticks([0, 50, 100])
    else:
        panels[0].xaxis.set_major_locator(MaxNLocator(3))
    panels[0].set_ylim(len(order) - 0.4, -0.6)
    panels[0].set_yticks(range(len(order)), [display_name(name) for name in order])
    figure.supxlabel(xlabel, size=LABEL)
    note = f"Bar, number: mean over {seed_count(counts)}; "
    note += "whisker: one standard deviation; dot: a seed."
    caption(figure, ONE_SEED if max(counts) == 1 else note)
    return figure


def _paler(color: str) -> tuple[float, ...]:
    return tuple(0.45 * c + 0.55 for c in to_rgb(color))


@style()
def accuracy_matrix(
    matrix,
    rows: Sequence[str],
    columns: Sequence[str],
    own: Sequence[str | None] | None = None,
    *,
    title: str,
    xlabel: str = "tested on",
    ylabel: str = "model of",
    decimals: int = 0,
) -> Figure:
    """Heat map of A[i, j], the accuracy of client i's model on test set j, in percent.

    matrix: [rows, columns], or [seeds, rows, columns] (then each cell says its standard
    deviation), or a dict from panel title to such an array, drawn side by side. `own` names each
    row's own column (a history's `domains`): that cell is outlined.
    """
    panels = matrix if isinstance(matrix, Mapping) else {"": matrix}
    where = "accuracy_matrix"
    data = {
        name: numbers(v, 2, 3, where=f"{where} {name}".strip(), share=True)
        for name, v in mapping(panels, where=where).items()
    }
    outlined = []
    if own is not None:
        same(len(own), len(rows), "entries of own", where=where)
        for i, column in enumerate(own):
            if column is not None:
                choose(column, columns, kind="own column", where=where, error=DataError)
                outlined.append((i, list(columns).index(column)))
    means, texts, counts = {}, {}, set()
    for name, values in data.items():
        mean = 100 * (values.mean(axis=0) if values.ndim == 3 else values)
        texts[name] = np.vectorize(lambda v: f"{v:.{decimals}f}")(mean)
        if values.ndim == 3:
            counts.add(len(values))
            if len(values) > 1:
                sd = 100 * sample_sd(values)
                texts[name] = np.vectorize(lambda t, s: f"{t} ± {s:.{decimals}f}")(texts[name], sd)
        means[name] = mean
    note = ["Outlined: the client's own domain."] if outlined else []
    if counts:
        spread = f"Mean ± one standard deviation over {seed_count(counts)}."
        note.append(ONE_SEED if max(counts) == 1 else spread)
    cells = Cells(means, list(map(str, rows)), list(map(str, columns)), texts, outlined)
    words = Words(title, xlabel, ylabel, ACCURACY, " ".join(note))
    return heat(cells, words, ("cividis", 0, 100), square=False, where=where)


@style()
def accuracy_against_bytes(
    values: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    title: str,
    xlabel: str = "bytes sent in the whole run, lower is better",
    limits: tuple[float, float] | None = None,
    named: Collection[str] | None = None,
) -> Figure:
    """What accuracy costs: one point per method, a small dot per seed, logarithmic bytes.

    values: method -> (bytes [seeds], accuracy [seeds]). Methods that send nothing stand left of
    the axis proper, above "nothing". With `named`, all other methods are gray points without name.
    """
    data, where = {}, "accuracy_against_bytes"
    for name, pair in mapping(values, where=where).items():
        require(isinstance(pair, Sequence) and len(pair) == 2, f"{name!r} has no pair",
                where=where, do="give (bytes, accuracy)")  # fmt: skip
        sent = numbers(pair[0], 1, where=f"{where}, {name}")
        share = numbers(pair[1], 1, where=f"{where}, {name}", share=True)
        same(len(share), len(sent), f"accuracies of {name!r}", where=where)
        require(sent.min() >= 0, f"{sent.min():g} bytes", where=f"{where}, {name}",
                do="count from 0")  # fmt: skip
        data[name] = (sent, 100 * share)
    positive = np.concatenate([sent[sent > 0] for sent, _ in data.values()])
    low = 10 ** np.floor(np.log10(positive.min())) if len(positive) else 1e3
    high = 10 ** np.ceil(np.log10(1.05 * positive.max())) if len(positive) else 1e6
    silent = any((sent == 0).any() for sent, _ in data.values())
    nothing = low / (high / low) ** (0.14 if len(data) <= 14 else 0.24)  # beside a wide legend

    figure = canvas(title, height=3.9)
    axes = figure.subplots()
    points, others = [], 0
    for name in method_order(data):
        look, (sent, share) = method_style(name), data[name]
        sent = np.where(sent == 0, nothing, sent)
        middle, mean = np.exp(np.log(sent).mean()), share.mean()
        if named is not None and name not in named:
            axes.plot(middle, mean, ls="", marker="o", ms=6, mew=0, color=QUIET, alpha=0.35,
                      gid="other")  # fmt: skip
            others += 1
            continue
        if len(share) > 1:
            axes.plot(sent, share, ls="", marker="o", ms=3.2, color=look.color, alpha=0.6)
            axes.errorbar(middle, mean, yerr=sample_sd(share), color=look.color, lw=1.2)
        axes.plot(middle, mean, ls="", marker=look.marker, ms=9, mew=1.6, color=look.color,
                  mfc=look.color if look.strong else "white", label=display_name(name),
                  zorder=4 + look.strong)  # fmt: skip
        points.append((display_name(name), middle, mean))
    axes.set_xscale("log")
    span = high / low
    axes.set_xlim(nothing / span**0.1 if silent else low / span**0.05, high * span**0.05)
    ticks = [10.0**k for k in range(round(np.log10(low)), round(np.log10(high)) + 1)]
    ticks = ticks[:: -(-len(ticks) // 8)]
    axes.set_xticks(([nothing] if silent else []) + ticks,
                    (["nothing"] if silent else []) + [human_bytes(t) for t in ticks])  # fmt: skip
    if silent:
        axes.axvline((nothing * low) ** 0.5, color=QUIET, lw=1, ls=(0, (2, 3)))
    axes.grid(axis="x", color=GRID)
    axes.set_xlabel(xlabel)
    y_label(axes, ACCURACY)
    cut = accuracy_axis(axes, limits)
    counts = [len(share) for _, share in data.values()]
    note = f"Large marker: mean over {seed_count(counts)}; "
    note += "line: one standard deviation; dots: seeds."
    gray = f"Gray: the means of {others} other methods." if others else ""
    caption(figure, " ".join(filter(None, [ONE_SEED if max(counts) == 1 else note, gray, cut])))
    if not _point_labels(axes, points):
        legend(figure, axes)
    return figure


def _point_labels(axes, points: list[tuple[str, float, float]]) -> bool:
    """Write each name beside its point where it hits nothing; False (and no name) if one can't."""
    axes.figure.draw_without_rendering()
    renderer = axes.figure.canvas.get_renderer()
    at = axes.transData.transform([(x, y) for _, x, y in points])
    taken = [Bbox.from_bounds(x - 7, y - 7, 14, 14) for x, y in at]
    texts = []
    for name, x, y in points:
        for dx, dy in ((8, 0), (-8, 0), (0, 11), (0, -11), (7, 8), (7, -8), (-7, 8), (-7, -8)):
            text = axes.annotate(name, (x, y), xytext=(dx, dy),
                                 textcoords="offset points", va="center_baseline", zorder=6,
                                 ha="left" if dx > 0 else "right" if dx else "center",
                                 gid="direct label", path_effects=[HALO])  # fmt: skip
            box = text.get_window_extent(renderer)
            inside = axes.bbox.contains(box.x0, box.y0) and axes.bbox.contains(box.x1, box.y1)
            if inside and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                texts.append(text)
                break
            text.remove()
        else:
            for text in texts:
                text.remove()
            return False
    return True
