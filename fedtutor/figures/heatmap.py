"""Heat maps: signed values, and what `accuracy_matrix` shares with them."""

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
    spreads=None,
    signed: bool = True,
) -> Figure:
    """Heat map of signed values (correlations, gains) with 0 in the middle of the colors.

    values: [rows, columns] or a dict from panel title to such arrays of one shape. The colors go
    from -limit to limit (default: the largest magnitude). `decimals`: write the numbers, too;
    with `spreads` (as values; standard deviations over seeds, NaN for one seed) as `mean ± spread`.
    Counts and shares are not `signed`: their colors begin with 0.
    """
    panels = mapping(values if isinstance(values, Mapping) else {"": values}, where="matrix")
    data = {name: numbers(v, 2, where=f"matrix {name}".strip()) for name, v in panels.items()}
    shape = next(iter(data.values())).shape
    rows = range(shape[0]) if rows is None else rows
    columns = range(shape[1]) if columns is None else columns
    limit = max(np.abs(v).max() for v in data.values()) or 1.0 if limit is None else limit
    require(limit > 0, f"limit {limit}", where="matrix", do="give a number above 0",
            error=SettingError)  # fmt: skip
    texts = None
    if decimals is not None:
        write = np.vectorize(lambda v: f"{v:z.{decimals}f}".replace("-", "\N{MINUS SIGN}"))
        texts = {name: write(v) for name, v in data.items()}
        if spreads is not None:
            beside = spreads if isinstance(spreads, Mapping) else {"": spreads}
            for name, v in data.items():
                one = np.asarray(beside[name], dtype=float)
                same(one.shape, v.shape, "shapes of spreads and values", where="matrix")
                words = np.where(np.isfinite(one), np.char.add(" ± ", write(one)), "")
                texts[name] = np.char.add(texts[name], words)
    colors = ("RdBu_r", -limit, limit) if signed else ("Blues", 0, limit)
    return heat(Heat(data, rows, columns, title, xlabel, ylabel, unit, colors, texts))


class Heat(NamedTuple):
    """What a heat map shows; one without texts has square cells."""

    values: dict[str, np.ndarray]  # panel title -> [rows, columns]
    rows: Sequence
    columns: Sequence
    title: str
    xlabel: str
    ylabel: str
    unit: str
    colors: tuple[str, float, float]  # the name of a color map, and the values at its ends
    texts: dict[str, np.ndarray] | None = None
    outlined: Sequence[tuple[int, int]] = ()
    note: str = ""


class Plan(NamedTuple):
    """Where the parts go; `grid` is the height of all panels in pixels."""

    per_line: int
    separator: str  # between the words of a cell: narrow cells have two lines
    written: bool
    turned: bool
    grid: float


def heat(shown: Heat) -> Figure:
    """Draw panels side by side, with one color bar for all of them."""
    shown = shown._replace(rows=list(map(str, shown.rows)), columns=list(map(str, shown.columns)))
    for name, values in shown.values.items():
        same(len(shown.rows), values.shape[0], f"row names {name}".strip(), where="heat map")
        same(len(shown.columns), values.shape[1], f"column names {name}".strip(), where="heat map")
    plan = _plan(shown)
    bare = bool(shown.texts) and plan.grid < 110  # no room for a color bar, and no need
    below = 45 + (5 * max(map(len, shown.columns)) if plan.turned else 15)
    height = plan.grid + below + 60 + 15 * bool(shown.note)
    figure = canvas(shown.title, height=max(2.0, height / 100),
                    layout="constrained" if shown.texts else "compressed")  # fmt: skip
    grid = figure.subplots(-(-len(shown.values) // plan.per_line), plan.per_line, sharex=True,
                           sharey=True, squeeze=False)  # fmt: skip
    for axes in grid.flat[len(shown.values) :]:
        axes.set_visible(False)
    for axes, name in zip(grid.flat, shown.values, strict=False):
        image = _draw(axes, shown, name, plan)
    _name_axes(grid, shown, plan, f"{shown.xlabel} (cells: {shown.unit})" if bare else shown.xlabel)
    if not bare:
        bar = figure.colorbar(image, ax=grid, aspect=22, pad=0.015, fraction=0.05,
                              ticks=MaxNLocator(4))  # fmt: skip
        bar.outline.set_visible(False)
        fits = 7 * len(shown.unit) < plan.grid
        bar.set_label(shown.unit if fits else shown.unit.replace(", ", ",\n", 1))
    caption(figure, shown.note)
    return figure


def _plan(shown: Heat) -> Plan:
    """As many panels in a line as leave room for the words in the cells."""
    count, columns = len(shown.values), len(shown.columns)
    words = [t for v in (shown.texts or {}).values() for t in v.flat]
    room = 100 * WIDTH - 7.5 * max(map(len, shown.rows)) - 115  # for cells; the rest is names
    for separator in (" ", "\n"):  # "87 ± 2" in one line or, in narrow cells, in two
        lines = [line for t in words for line in t.replace(" ", separator, 1).split("\n")]
        need = max(7.5 * max(map(len, lines), default=0) + 8, 26 if words else 13)
        per_line = max(1, min(count, 4, int(room // (need * columns + 14))))
        width = (room / per_line - 14) / columns
        if per_line == min(count, 4) and width >= need:
            break
    tall = 36.0 if count > 1 else max(12.0, min(56.0, 230 / len(shown.rows)))
    tall = tall if words else min(width, 30.0)
    letters = max(map(len, shown.columns))
    return Plan(per_line, separator, written=bool(words) and width >= need and tall >= 16,
                turned=7.5 * letters > width and letters > 2,
                grid=-(-count // per_line) * (tall * len(shown.rows) + 22 * (count > 1)),
                )  # fmt: skip


def _draw(axes, shown: Heat, name: str, plan: Plan):
    """One panel: colors, words in the cells, outlines."""
    (cmap, low, high), values = shown.colors, shown.values[name]
    image = axes.imshow(values, cmap=cmap, vmin=low, vmax=high,
                        aspect="auto" if shown.texts else "equal")  # fmt: skip
    axes.set_title(name)
    axes.grid(visible=False)
    axes.set_xticks(np.arange(len(shown.columns) - 1) + 0.5, minor=True)
    axes.set_yticks(np.arange(len(shown.rows) - 1) + 0.5, minor=True)
    axes.grid(which="minor", axis="both", color="white", lw=1.5 if len(shown.rows) < 25 else 0)
    if plan.written:
        for (i, j), value in np.ndenumerate(values):
            rgb = colormaps[cmap]((value - low) / (high - low))[:3]
            axes.text(j, i, shown.texts[name][i, j].replace(" ", plan.separator, 1), size=9,
                      ha="center", va="center_baseline" if plan.separator == " " else "center",
                      color="white" if _luminance(rgb) < 0.179 else "black")  # fmt: skip
    for i, j in shown.outlined:
        axes.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, fill=False, ec=VERMILION, lw=3,
                                 clip_on=False, zorder=3, gid="own"))  # fmt: skip
    return image


def _name_axes(grid, shown: Heat, plan: Plan, xlabel: str) -> None:
    """Names of rows, columns and axes, each once per line of panels; not all of many."""
    step_x, step_y = -(-len(shown.columns) // 26), -(-len(shown.rows) // 30)
    grid[0, 0].set_xticks(range(0, len(shown.columns), step_x), shown.columns[::step_x])
    grid[0, 0].set_yticks(range(0, len(shown.rows), step_y), shown.rows[::step_y])
    for k, axes in enumerate(grid.flat[: len(shown.values)]):
        lowest = k + plan.per_line >= len(shown.values)
        axes.tick_params(axis="x", labelbottom=lowest, labelrotation=40 if plan.turned else 0)
        if plan.turned:
            for label in axes.get_xticklabels():
                label.set(ha="right", rotation_mode="anchor")
        axes.set_xlabel(xlabel if lowest else "")
        axes.set_ylabel(shown.ylabel if k % plan.per_line == 0 else "")


def _luminance(rgb) -> float:
    """Relative luminance of a color (WCAG 2), which decides between black and white text."""
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
