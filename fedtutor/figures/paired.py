"""Differences drawn as differences: paired points around zero, with their spread."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..engine.kinds import twelve_digits
from ..errors import SettingError, choose
from .drawing import (
    HALO,
    INK,
    METHOD_STYLE,
    Style,
    canvas,
    caption,
    method_order,
    method_style,
    row_panels,
    style,
)
from .inputs import mapping, numbers, require, sample_sd, spread_note

ROW, MOST = 0.46, 24  # inches; rows


@style()
def paired(differences: Mapping[str, Mapping[str, Sequence[float]]], *, title: str,
           unit: str = "points", order: Sequence[str] | None = None,
           left: str = "", right: str = "", dot: str = "seed") -> Figure:  # fmt: skip
    """Paired differences: a panel per key, a row per label, a small dot per seed around zero.

    differences: panel -> label -> one difference per seed, in `unit`; a label that is missing in a
    panel has an empty row there. The large marker is the mean, the line one standard deviation to
    both sides, the number the mean. left, right: what a difference below and above zero means,
    such as "worse than alone" and "better than alone". order: the rows from top to bottom;
    otherwise methods stand in the suite's order, other labels as they come. dot: what a small dot
    is, if not a seed, such as "run".
    """
    panels, where = _panels(differences), "paired"
    labels = list(dict.fromkeys(label for rows in panels.values() for label in rows))
    if order is not None:
        for label in order:
            choose(label, labels, kind="label", where=f"{where}, order")
        missing = [label for label in labels if label not in order]
        require(not missing and len(set(order)) == len(order), f"order = {list(order)!r}",
                where=where, error=SettingError, do=f"name each row once: {labels}")  # fmt: skip
    labels = method_order(labels) if order is None else list(order)
    require(len(labels) <= MOST, f"{len(labels)} rows", where=where, error=SettingError,
            do=f"draw at most {MOST} of them")  # fmt: skip
    figure = canvas(title, height=1.55 + ROW * len(labels))
    drawn, digits = row_panels(figure, list(panels), labels), _digits(panels)
    for axes, rows in zip(drawn, panels.values(), strict=True):
        axes.axvline(0, color=INK, lw=1.4, zorder=1.5)
        for label, values in rows.items():
            _row(axes, labels.index(label), values, _look(label), digits)
    _limits(drawn[0], panels)
    sides = {"left": left, "right": right}
    sides = [f"{side} of zero: {means}" for side, means in sides.items() if means]
    figure.supxlabel("   ·   ".join([f"difference ({unit})", *sides]), size=10.5)
    counts = [len(values) for rows in panels.values() for values in rows.values()]
    note = f"Dot: a {dot}; large marker and number: mean over {{}}; line: ± one standard deviation."
    caption(figure, spread_note(note, counts, over=f"{dot}s"))
    return figure


def _panels(differences) -> dict[str, dict[str, np.ndarray]]:
    where = "paired"
    return {
        panel: {label: numbers(values, 1, where=f"{where}, {panel}, {label}")
                for label, values in mapping(rows, where=f"{where}, {panel}").items()}
        for panel, rows in mapping(differences, where=where).items()
    }  # fmt: skip


def _look(label: str) -> Style:
    return method_style(label) if label in METHOD_STYLE else Style(INK, "o", True)


def _row(axes, row: int, values: np.ndarray, look: Style, digits: int) -> None:
    mean, sd = values.mean(), sample_sd(values)
    if len(values) > 1:
        axes.plot([mean - sd, mean + sd], [row, row], color=look.color, lw=3, alpha=0.55,
                  solid_capstyle="butt", zorder=2)  # fmt: skip
        axes.plot(values, [row + 0.2] * len(values), ls="", marker="o", ms=4, mfc="white", mec=INK,
                  mew=0.9, gid="seeds", zorder=3)  # fmt: skip
    axes.plot(mean, row, ls="", marker=look.marker, ms=9, mew=1.6, color=look.color, mfc=look.fill,
              gid="mean", zorder=4)  # fmt: skip
    axes.annotate(_signed(mean, digits), (mean, row), xytext=(0, 7), textcoords="offset points",
                  ha="center", va="bottom", path_effects=[HALO], zorder=5)  # fmt: skip


def _digits(panels: dict) -> int:
    """Digits behind the point that the spread allows, the same for all numbers of the figure."""
    every = [values for rows in panels.values() for values in rows.values()]
    spreads = [sample_sd(values) for values in every] + [abs(v.mean()) for v in every]
    several = [sd for sd in spreads[: len(every)] if sd > 0]
    size = float(np.median(several)) if several else max(spreads)
    if size >= 9.95 or size == 0:
        return 0
    return max(1, -int(np.floor(np.log10(size))))


def _signed(mean: float, digits: int) -> str:
    """The mean with its sign: +12, −0.8; 0 where nothing of it is left; as `papers.spread` says."""
    mean = twelve_digits(mean)
    text = f"{mean:+.{digits}f}".replace("-", "−")
    return text if float(f"{mean:.{digits}f}") else "0"


def _limits(axes, panels: dict) -> None:
    """From below the smallest to above the largest seed, with zero and room for the numbers."""
    values = [v for rows in panels.values() for one in rows.values() for v in one]
    low, high = min(0.0, *values), max(0.0, *values)
    room = 0.14 * (high - low) or 1.0
    axes.set_xlim(low - room, high + room)
    axes.xaxis.set_major_locator(MaxNLocator(max(2, 12 // len(panels)), steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}".replace("-", "−"))
