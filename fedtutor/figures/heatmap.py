"""Heat maps: signed values, and the panels that `accuracy_matrix` shares with them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

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
    cells = Cells(data, list(map(str, rows)), list(map(str, columns)), texts)
    colors = ("RdBu_r", -limit, limit) if signed else ("Blues", 0, limit)
    return heat(cells, Words(title, xlabel, ylabel, unit), colors, square=decimals is None,
                where="matrix")  # fmt: skip


class Cells(NamedTuple):
    """Values [rows, columns] per panel, the names, what the cells say, and which are outlined."""

    values: dict[str, np.ndarray]
    rows: list[str]
    columns: list[str]
    texts: dict[str, np.ndarray] | None
    outlined: Sequence[tuple[int, int]] = ()


class Words(NamedTuple):
    title: str
    xlabel: str
    ylabel: str
    unit: str
    note: str = ""


class Plan(NamedTuple):
    """Sizes in pixels: panels per line, cells, their words (two lines in narrow cells), all."""

    per_line: int
    lines: int
    width: float
    tall: float
    separator: str
    written: bool
    turned: bool
    grid: float

    @classmethod
    def of(cls, cells: Cells, *, square: bool) -> "Plan":
        count, columns = len(cells.values), len(cells.columns)
        words = [t for v in (cells.texts or {}).values() for t in v.flat]
        room = 100 * WIDTH - 7.5 * max(map(len, cells.rows)) - 115  # for cells; the rest is names
        for separator in (" ", "\n"):  # "87 ± 2" in one line or, in narrow cells, in two
            words = [t.replace(" ", separator, 1) for t in words]
            longest = max((len(line) for t in words for line in t.split("\n")), default=0)
            need = max(7.5 * longest + 8, 26 if cells.texts else 13)
            per_line = max(1, min(count, 4, int(room // (need * columns + 14))))
            width = (room / per_line - 14) / columns
            if per_line == min(count, 4) and width >= need:
                break
        tall = 36.0 if count > 1 else max(12.0, min(56.0, 230 / len(cells.rows)))
        tall = min(width, 30.0) if square else tall
        lines, letters = -(-count // per_line), max(map(len, cells.columns))
        return cls(per_line, lines, width, tall, separator,
                   written=bool(cells.texts) and width >= need and tall >= 16,
                   turned=7.5 * letters > width and letters > 2,
                   grid=lines * (tall * len(cells.rows) + 22 * (count > 1)))  # fmt: skip


def heat(cells: Cells, words: Words, colors: tuple[str, float, float], *, square: bool,
         where: str) -> Figure:  # fmt: skip
    """Panels of one heat map; colors: the name of a color map, and the values at its ends."""
    for name, values in cells.values.items():
        same(len(cells.rows), values.shape[0], f"row names {name}".strip(), where=where)
        same(len(cells.columns), values.shape[1], f"column names {name}".strip(), where=where)
    plan = Plan.of(cells, square=square)
    bare = bool(cells.texts) and plan.grid < 110  # no room for a color bar, and no need
    below = 45 + (5 * max(map(len, cells.columns)) if plan.turned else 15)
    height = plan.grid + below + 60 + 15 * bool(words.note)
    figure = canvas(words.title, height=max(2.0, height / 100),
                    layout="compressed" if square else "constrained")  # fmt: skip
    grid = figure.subplots(plan.lines, plan.per_line, sharex=True, sharey=True, squeeze=False)
    for axes in grid.flat[len(cells.values) :]:
        axes.set_visible(False)
    for axes, name in zip(grid.flat, cells.values, strict=False):
        axes.set_title(name)
        image = _draw(axes, cells, name, plan, colors, square=square)
    _name_axes(grid, cells, plan, words, bare=bare)
    if not bare:
        bar = figure.colorbar(image, ax=grid, aspect=22, pad=0.015, fraction=0.05,
                              ticks=MaxNLocator(4))  # fmt: skip
        bar.outline.set_visible(False)
        fits = 7 * len(words.unit) < plan.grid
        bar.set_label(words.unit if fits else words.unit.replace(", ", ",\n", 1))
    caption(figure, words.note)
    return figure


def _draw(axes, cells: Cells, name: str, plan: Plan, colors, *, square: bool):
    """One panel: colors, words in the cells, outlines."""
    (cmap, low, high), values = colors, cells.values[name]
    image = axes.imshow(values, cmap=cmap, vmin=low, vmax=high,
                        aspect="equal" if square else "auto")  # fmt: skip
    axes.grid(visible=False)
    axes.set_xticks(np.arange(len(cells.columns) - 1) + 0.5, minor=True)
    axes.set_yticks(np.arange(len(cells.rows) - 1) + 0.5, minor=True)
    axes.grid(which="minor", axis="both", color="white", lw=1.5 if len(cells.rows) < 25 else 0)
    if plan.written:
        for (i, j), value in np.ndenumerate(values):
            rgb = colormaps[cmap]((value - low) / (high - low))[:3]
            axes.text(j, i, cells.texts[name][i, j].replace(" ", plan.separator, 1), size=9,
                      ha="center", va="center_baseline" if plan.separator == " " else "center",
                      color="white" if _luminance(rgb) < 0.179 else "black")  # fmt: skip
    for i, j in cells.outlined:
        axes.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, fill=False, ec=VERMILION, lw=3,
                                 clip_on=False, zorder=3, gid="own"))  # fmt: skip
    return image


def _name_axes(grid, cells: Cells, plan: Plan, words: Words, *, bare: bool) -> None:
    """Names of rows, columns and axes, each once per line of panels; not all of many."""
    step_x, step_y = -(-len(cells.columns) // 26), -(-len(cells.rows) // 30)
    grid[0, 0].set_xticks(range(0, len(cells.columns), step_x), cells.columns[::step_x])
    grid[0, 0].set_yticks(range(0, len(cells.rows), step_y), cells.rows[::step_y])
    xlabel = f"{words.xlabel} (cells: {words.unit})" if bare else words.xlabel
    for k, axes in enumerate(grid.flat[: len(cells.values)]):
        lowest = k + plan.per_line >= len(cells.values)
        axes.tick_params(axis="x", labelbottom=lowest, labelrotation=40 if plan.turned else 0)
        if plan.turned:
            for label in axes.get_xticklabels():
                label.set(ha="right", rotation_mode="anchor")
        axes.set_xlabel(xlabel if lowest else "")
        axes.set_ylabel(words.ylabel if k % plan.per_line == 0 else "")


def _luminance(rgb) -> float:
    """Relative luminance of a color (WCAG 2), which decides between black and white text."""
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
