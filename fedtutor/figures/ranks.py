"""Ranks with their spread: for each method the places that the seeds leave open."""

from collections.abc import Mapping

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from .drawing import INK, canvas, caption, method_style, row_panels, style
from .inputs import mapping, require


@style()
def ranks(panels: Mapping[str, Mapping[str, tuple]], *, title: str) -> Figure:
    """One panel per question, one row per method: a bar from the first to the last place.

    panels: question -> method -> (first, last, places per seed), as `experiments.ranks.ranks`
    computes them. Rows stand in the order of the first panel; a method that is missing in a panel
    has an empty row there. A small dot is a seed's own ranking, in which luck has its part.
    """
    panels = mapping(panels, where="ranks")
    order = list(dict.fromkeys(name for rows in panels.values() for name in rows))
    require(len(order) > 1, f"{len(order)} methods", where="ranks", do="give two or more")
    figure = canvas(title, height=1.35 + 0.2 * len(order))
    for axes, rows in zip(row_panels(figure, list(panels), order), panels.values(), strict=True):
        for name, (first, last, seeds) in rows.items():
            row = order.index(name)
            axes.plot([first - 0.3, last + 0.3], [row, row], lw=7, alpha=0.45,
                      color=method_style(name).color, solid_capstyle="butt")  # fmt: skip
            axes.plot(seeds, [row] * len(seeds), ls="", marker="o", ms=3.2, mfc="white", mec=INK,
                      mew=0.8, gid="seeds")  # fmt: skip
        axes.set_xlabel("rank, 1 is best")
    axes.set_xlim(0.2, len(order) + 0.8)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=3))
    caption(figure, "Bar: the ranks that the paired seeds leave open; dot: the rank in one seed.")
    return figure
