"""Heat maps: signed values, and the panels that `accuracy_matrix` shares with them."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from ..errors import SettingError
from .drawing import VERMILION, WIDTH, canvas, caption, style
from .inputs import mapping, numbers, require, same


@style()
def matrix(
    values,
    *,
    title: str,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    xlabel: str,
    ylabel: str,
    unit: str,
    limit: float | None = None,
    decimals: int | None = None,
    signed: bool = True,
) -> Figure:
    """Heat map of signed values (correlations, gains) with 0 in the middle of the colors.

    values: [rows, columns] or a dict from panel title to such arrays of one shape. The colors go
    from -limit to limit (default: the largest magnitude). `decimals`: write the numbers, too.
    Counts and shares are not `signed`: their colors begin with 0.
    """
    panels = mapping(values if isinstance(values, Mapping) else {"": values}, where="matrix")
    data = {name: numbers(v, 2, where=f"matrix {name}".strip()) for name, v in panels.items()}
    shape = next(iter(data.values())).shape
    rows = [str(i) for i in range(shape[0])] if rows is None else rows
    columns = [str(i) for i in range(shape[1])] if columns is None else columns
    limit = max(np.abs(v).max() for v in data.values()) or 1.0 if limit is None else limit
    require(limit > 0, f"limit {limit}", where="matrix", do="give a number above 0",
            error=SettingError)  # fmt: skip
    texts = None
    if decimals is not None:
        write = np.vectorize(lambda v: f"{v:z.{decimals}f}".replace("-", "\N{MINUS SIGN}"))
        texts = {name: write(v) for name, v in data.items()}
    return heat(data, texts, rows, columns, title=title, xlabel=xlabel, ylabel=ylabel, unit=unit,
                cmap="RdBu_r" if signed else "Blues",
                limits=(-limit if signed else 0, limit), outlined=[], note="",
                square=decimals is None, where="matrix")  # fmt: skip


def heat(data, texts, rows, columns, *, title, xlabel, ylabel, unit, cmap, limits, outlined,
         note, square, where) -> Figure:  # fmt: skip
    """Panels of one heat map; `texts` are the words in the cells, left out where they don't fit."""
    for name, values in data.items():
        same(len(rows), values.shape[0], f"row names {name}".strip(), where=where)
        same(len(columns), values.shape[1], f"column names {name}".strip(), where=where)
    rows, columns = [str(name) for name in rows], [str(name) for name in columns]
    several, letters = len(data) > 1, max(map(len, columns))
    words = [t for v in (texts or {}).values() for t in v.flat]
    room = 100 * WIDTH - 7.5 * max(map(len, rows)) - 115  # pixels for cells; the rest is names
    for separator in (" ", "\n"):  # "87 ± 2" in one line or, in narrow cells, in two
        words = [t.replace(" ", separator, 1) for t in words]
        longest = max((len(line) for t in words for line in t.split("\n")), default=0)
        need = max(7.5 * longest + 8, 26 if texts else 13)  # pixels of a cell
        per_line = max(1, min(len(data), 4, int(room // (need * len(columns) + 14))))
        width = (room / per_line - 14) / len(columns)
        if per_line == min(len(data), 4) and width >= need:
            break
    lines = -(-len(data) // per_line)
    if square:
        tall = min(width, 30.0)
    else:
        tall = max(12.0, min(56.0, 230 / len(rows))) if not several else 36.0
    turned = 7.5 * letters > width and letters > 2
    below = 45 + (5 * letters if turned else 15)
    grid_height = lines * (tall * len(rows) + 22 * several)
    bare = bool(texts) and grid_height < 110  # no room for a color bar, and no need
    height = grid_height + below + 60 + 15 * bool(note)
    layout = "compressed" if square else "constrained"
    figure = canvas(title, height=max(2.0, height / 100), layout=layout)
    grid = figure.subplots(lines, per_line, sharex=True, sharey=True, squeeze=False)
    colors = colormaps[cmap]
    for axes in grid.flat[len(data) :]:
        axes.set_visible(False)
    for axes, (name, values) in zip(grid.flat, data.items(), strict=False):
        image = axes.imshow(values, cmap=cmap, vmin=limits[0], vmax=limits[1],
                            aspect="equal" if square else "auto")  # fmt: skip
        axes.set_title(name)
        axes.grid(visible=False)
        axes.set_xticks(np.arange(len(columns) - 1) + 0.5, minor=True)
        axes.set_yticks(np.arange(len(rows) - 1) + 0.5, minor=True)
        axes.grid(which="minor", axis="both", color="white", lw=1.5 if len(rows) < 25 else 0)
        if texts and width >= need and tall >= 16:
            for (i, j), value in np.ndenumerate(values):
                rgb = colors((value - limits[0]) / (limits[1] - limits[0]))[:3]
                axes.text(j, i, texts[name][i, j].replace(" ", separator, 1), size=9,
                          ha="center", va="center_baseline" if separator == " " else "center",
                          color="white" if _luminance(rgb) < 0.179 else "black")  # fmt: skip
        for i, j in outlined:
            axes.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, fill=False, ec=VERMILION, lw=3,
                                     clip_on=False, zorder=3, gid="own"))  # fmt: skip
    step_x, step_y = -(-len(columns) // 26), -(-len(rows) // 30)
    grid[0, 0].set_xticks(range(0, len(columns), step_x), list(columns)[::step_x])
    grid[0, 0].set_yticks(range(0, len(rows), step_y), list(rows)[::step_y])
    for k, axes in enumerate(grid.flat[: len(data)]):
        lowest = k + per_line >= len(data)
        axes.tick_params(axis="x", labelbottom=lowest, labelrotation=40 if turned else 0)
        if turned:
            for label in axes.get_xticklabels():
                label.set(ha="right", rotation_mode="anchor")
        axes.set_xlabel((f"{xlabel} (cells: {unit})" if bare else xlabel) if lowest else "")
        axes.set_ylabel(ylabel if k % per_line == 0 else "")
    if not bare:
        bar = figure.colorbar(image, ax=grid, aspect=22, pad=0.015, fraction=0.05,
                              ticks=MaxNLocator(4))  # fmt: skip
        bar.outline.set_visible(False)
        bar.set_label(unit if 7 * len(unit) < grid_height else unit.replace(", ", ",\n", 1))
    caption(figure, note)
    return figure


def _luminance(rgb) -> float:
    """Relative luminance of a color (WCAG 2), which decides between black and white text."""
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
