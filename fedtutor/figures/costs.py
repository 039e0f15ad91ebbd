"""What accuracy costs: bytes sent, on a logarithmic axis."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from .drawing import (
    GRID,
    HALO,
    QUIET,
    accuracy_axis,
    canvas,
    caption,
    legend,
    method_order,
    method_style,
    style,
    y_label,
)
from .inputs import mapping, pair, require, sample_sd, spread_note
from .words import ACCURACY, display_name, human_bytes


@style()
def accuracy_against_bytes(
    values: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    title: str,
    named: Collection[str] | None = None,
) -> Figure:
    """What accuracy costs: one point per method, a small dot per seed, logarithmic bytes.

    values: method -> (bytes [seeds], accuracy [seeds]). Methods that send nothing stand left of
    the axis proper, above "nothing". With `named`, all other methods are gray points without name.
    """
    data, where = {}, "accuracy_against_bytes"
    for name, lists in mapping(values, where=where).items():
        sent, share = pair(lists, where=f"{where}, {name}", shares=(False, True))
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
                  mfc=look.fill, label=display_name(name), zorder=4 + look.strong)  # fmt: skip
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
    axes.set_xlabel("bytes sent in the whole run, lower is better")
    y_label(axes, ACCURACY)
    accuracy_axis(axes)
    note = "Large marker: mean over {}; line: one standard deviation; dots: seeds."
    note = spread_note(note, [len(share) for _, share in data.values()])
    gray = f"Gray: the means of {others} other methods." if others else ""
    caption(figure, " ".join(filter(None, [note, gray])))
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
