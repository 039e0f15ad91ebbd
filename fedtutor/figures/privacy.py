"""Figures of attacks: ROC curves on logarithmic axes, and what a defense costs."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from .drawing import GRAY, GRID, QUIET, canvas, caption, in_order, legend, style, y_label
from .inputs import mapping, numbers, pair, require, same, sample_sd, spread_note

LEAST, TICKS = 0.003, (0.01, 0.1, 1.0)  # where the axes begin, what they name


@style()
def roc(
    panels: Mapping[str, Mapping[str, Sequence]], rates: Sequence[float], *, title: str,
    over: str = "attacked networks",
) -> Figure:  # fmt: skip
    """ROC curves, both axes logarithmic: what matters is few false alarms, on the left.

    panels: panel title -> name of an attack -> true positive rates [attacks, rates]; rates: false
    positive rates [rates], rising, above 0. Curves begin at the rate `LEAST`; the diagonal is
    chance. Names have one color in all panels.
    """
    panels = {name: mapping(lines, where=f"roc, {name}")
              for name, lines in mapping(panels, where="roc").items()}  # fmt: skip
    rates = numbers(rates, 1, where="roc, rates", share=True)
    require(rates.min() > 0 and (np.diff(rates) > 0).all(), "rates that do not rise from above 0",
            where="roc", do="give rising false positive rates above 0")  # fmt: skip
    looks = in_order(list(dict.fromkeys(n for lines in panels.values() for n in lines)))
    shown = rates >= LEAST
    figure = canvas(title, height=3.9)
    grid = figure.subplots(1, len(panels), squeeze=False, sharex=True, sharey=True)[0]
    counts = []
    for axes, (panel, lines) in zip(grid, panels.items(), strict=True):
        axes.axline((LEAST, LEAST), (1, 1), color=GRAY, lw=1, ls=(0, (4, 3)), label="chance",
                    zorder=1)  # fmt: skip
        for name, values in lines.items():
            tpr = numbers(values, 2, where=f"roc, {name}", share=True)
            same(tpr.shape[1], len(rates), f"rates of {name!r}", where="roc")
            mean, sd = tpr.mean(axis=0)[shown], sample_sd(tpr)[shown]
            look = looks[name]
            axes.fill_between(rates[shown], np.maximum(mean - sd, LEAST / 2), mean + sd,
                              color=look.color, alpha=0.15, lw=0)  # fmt: skip
            axes.plot(rates[shown], np.maximum(mean, LEAST / 2), color=look.color, lw=2,
                      label=name, marker=look.marker, markevery=4, ms=5)  # fmt: skip
            counts.append(len(tpr))
        axes.set(xscale="log", yscale="log", xlim=(LEAST, 1), ylim=(LEAST, 1.05))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_locator(NullLocator())
            axis.set_ticks(TICKS, [f"{100 * t:g} %" for t in TICKS])
        axes.grid(axis="both", color=GRID)
        axes.set_title(panel, pad=20)
        axes.set_xlabel("others accused")
    y_label(grid[0], "members found")
    note = "Line: mean over {}; band: one standard deviation."
    caption(figure, spread_note(note, counts, over))
    legend(figure, *grid)
    return figure


@style()
def against_accuracy(
    panels: Mapping[str, Mapping[str, tuple[Sequence[float], Sequence[float]]]], *, title: str,
    chance: Sequence[float], joined: Sequence[Sequence[str]] = (),
) -> Figure:  # fmt: skip
    """What a defense costs and what it brings: one point per defense, a small dot per network.

    panels: what is on the vertical axis -> defense -> (accuracies [networks], that [networks]),
    shares from 0 to 1; the same defenses in all panels, one above the other. `chance`: what
    guessing reaches, one per panel. `joined`: each a defense in several strengths, on one line
    and of one color; the others have hollow markers.
    """
    where = "against_accuracy"
    panels = {words: mapping(values, where=f"{where}, {words}")
              for words, values in mapping(panels, where=where).items()}  # fmt: skip
    same(len(chance), len(panels), "numbers for chance", where=where)
    names = list(next(iter(panels.values())))
    family = {name: line[0] for line in joined for name in line}
    colors = in_order(list(dict.fromkeys(family.get(name, name) for name in names)))
    figure, counts = canvas(title, height=1.5 + 2.4 * len(panels)), []
    grid = figure.subplots(len(panels), 1, squeeze=False, sharex=True)[:, 0]
    for axes, level, (words, values) in zip(grid, chance, panels.items(), strict=True):
        require(list(values) == names, f"defenses in {words!r} differ", where=where,
                do="give all panels the same")  # fmt: skip
        axes.axhline(100 * level, color=GRAY, lw=1, ls=(0, (4, 3)), label="guessing", zorder=1)
        means = {}
        for name, look in in_order(names).items():
            color = colors[family.get(name, name)].color
            lists = pair(values[name], where=f"{where}, {name}", shares=(True, True))
            accuracy, found = (100 * shares for shares in lists)
            counts.append(len(found))
            means[name] = accuracy.mean(), found.mean()
            axes.plot(accuracy, found, ls="", marker="o", ms=2.6, color=color, alpha=0.5)
            axes.errorbar(*means[name], xerr=float(sample_sd(accuracy)),
                          yerr=float(sample_sd(found)), color=color, lw=1)  # fmt: skip
            axes.plot(*means[name], ls="", marker=look.marker, ms=8, color=color, mew=1.6,
                      mfc=color if name in family else "none", label=name, zorder=3)  # fmt: skip
        for line in joined:
            axes.plot(*zip(*(means[name] for name in line), strict=True),
                      color=colors[line[0]].color, lw=1, ls=(0, (1, 1)))  # fmt: skip
        axes.grid(axis="both", color=GRID)
        y_label(axes, words)
        axes.yaxis.label.set_color(QUIET)
    grid[0].set_xlim(0, 100)
    grid[-1].set_xlabel("accuracy on images it never saw (%), higher is better")
    note = "Marker: mean over {}; lines: one standard deviation; dots: networks."
    caption(figure, spread_note(note, counts, "attacked networks"))
    legend(figure, *grid)
    return figure
