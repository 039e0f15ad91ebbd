"""Figures of images and what a model makes of them: t-SNE maps, sheets, counts of classes."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from .drawing import BLUE, CLASS_COLORS, HALO, HEIGHT, QUIET, SKY, WIDTH, canvas, caption, style
from .inputs import mapping, numbers, require, same


@style()
def tsne_panels(
    features: Mapping[str, Sequence],
    labels: Sequence[int],
    groups: Sequence[str] | None = None,
    *,
    title: str,
    class_names: Sequence[str] | None = None,
) -> Figure:
    """One t-SNE map per panel: the same images, seen by different models.

    features: panel title -> [n, d]; labels: [n]; groups: [n] names of clients or domains, which
    become markers. Positions in two panels can't be compared.
    """
    where = "tsne_panels"
    labels = numbers(labels, 1, where=f"{where}, labels").astype(int)
    names = range(labels.max() + 1) if class_names is None else class_names
    require(labels.min() >= 0 and labels.max() < len(names),
            f"labels {labels.min()} to {labels.max()}", where=where,
            do="give class indices from 0, each with a name")  # fmt: skip
    groups = np.full(len(labels), "") if groups is None else np.asarray(groups, dtype=str)
    same(len(groups), len(labels), "groups", where=where)
    panels = {name: embed(v, seed=0) for name, v in mapping(features, where=where).items()}
    for name, points in panels.items():
        same(len(labels), len(points), f"labels of {name!r}", where=where)
    return _maps(panels, labels, list(map(str, names)), groups, title=title)


def embed(features, *, seed: int, perplexity: float = 30) -> np.ndarray:
    """t-SNE (van der Maaten and Hinton 2008) of [n, d] to [n, 2], started from the PCA."""
    features = numbers(features, 2, where="tsne")
    require(len(features) >= 4 and features.shape[1] >= 2,
            f"features of shape {list(features.shape)}", where="tsne",
            do="give at least 4 samples with 2 features")  # fmt: skip
    from sklearn.manifold import TSNE  # takes a second to import, and few notebooks need it
    from threadpoolctl import threadpool_limits

    perplexity = min(perplexity, (len(features) - 1) / 3)
    with threadpool_limits(1):  # sums in one order; and threads only wait for each other here
        return TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(features)


def _maps(panels, labels, names, groups, *, title: str) -> Figure:
    """Panels of points; colors are classes, markers are groups."""
    kinds = dict(zip(dict.fromkeys(groups.tolist()), "o^sDvPX*" * len(groups), strict=False))
    classes, (lead, *_) = np.unique(labels), kinds
    colors = {label: CLASS_COLORS[label % len(CLASS_COLORS)] for label in classes}
    per_line, centers = min(len(panels), 4), []
    lines = -(-len(panels) // per_line)
    figure = canvas(title, height=max(HEIGHT, 0.9 + lines * (0.25 + 7.3 / max(per_line, 3))))
    grid = figure.subplots(lines, per_line, squeeze=False)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for axes, (name, points) in zip(grid.flat, panels.items(), strict=False):
        for label, color in colors.items():
            for group, marker in kinds.items():
                axes.scatter(*points[(labels == label) & (groups == group)].T, s=14,
                             marker=marker, color=color, lw=0, alpha=0.8)  # fmt: skip
            first = (labels == label) & (groups == lead)  # where a name goes
            mine = points[first if first.any() else labels == label]
            distance = np.linalg.norm(mine[:, None] - mine[None], axis=-1).sum(axis=0)
            centers.append((axes, names[label], mine[distance.argmin()]))
        axes.grid(visible=False)
        axes.set(title=name, xticks=[], yticks=[], facecolor="#F7F7F7")
        axes.set_aspect("equal", adjustable="datalim")
        axes.set_xlabel("direction 1 (no unit)", color=QUIET)
        axes.set_ylabel("direction 2 (no unit)", color=QUIET)
        axes.label_outer()
    few = len(classes) <= 20
    key = [(names[k], "o", color) for k, color in colors.items() if few]
    if len(kinds) > 1:
        key += [("", "", "none")] + [(group, marker, QUIET) for group, marker in kinds.items()]
    if key:
        dots = [Line2D([], [], ls="", marker=marker, color=color) for _, marker, color in key]
        figure.legend(dots, [name for name, _, _ in key], title="class" if few else "",
                      loc="outside right center", handlelength=1, handletextpad=0.3,
                      labelspacing=0.4)  # fmt: skip
    caption(figure, "Colors: classes, named where there is room. Each panel is a map of its own: "
            "compare the grouping, not the places.")  # fmt: skip
    _center_names(figure, centers)
    return figure


def _center_names(figure: Figure, centers: list) -> None:
    """Write the names of classes at their centers, unless names would overlap."""
    figure.draw_without_rendering()
    renderer, taken = figure.canvas.get_renderer(), []
    for axes, name, (x, y) in centers:
        text = axes.text(x, y, name, ha="center", va="center", size=10, weight="bold",
                         gid="class", path_effects=[HALO])  # fmt: skip
        box = text.get_window_extent(renderer)
        if any(box.overlaps(other) for other in taken):
            text.remove()
        else:
            taken.append(box)


@style()
def contact_sheet(
    rows: Mapping[str, object], columns: Sequence[str] | None = None, *, title: str
) -> Figure:
    """Rows of images, each with its name.

    rows: row title -> uint8 [n, channels, height, width] with 1 or 3 channels, at most 20 a row.
    columns: names above the columns, as many as the longest row has images.
    """
    images = {}
    for name, values in mapping(rows, where="contact_sheet").items():
        values = np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)
        fits = values.dtype == np.uint8 and values.ndim == 4 and values.size > 0
        require(fits and values.shape[1] in (1, 3) and len(values) <= 20,
                f"{values.dtype} images of shape {list(values.shape)}",
                where=f"contact_sheet, {name}",
                do="give 1 to 20 uint8 images as [n, 1 or 3, height, width]")  # fmt: skip
        images[name] = np.broadcast_to(values, (len(values), 3, *values.shape[2:]))
    widest = max(map(len, images.values()))
    if columns is not None:
        same(len(columns), widest, "column names", where="contact_sheet")
    names_width = 0.085 * max(map(len, images)) + 0.25
    cell = min((WIDTH - names_width - 0.15) / widest, 0.8)
    height = 0.85 + 0.25 * (columns is not None) + cell * len(images)
    figure = canvas(title, height=max(2.2, height))
    axes = figure.subplots()
    for i, row in enumerate(images.values()):
        for j, image in enumerate(row):
            box = (j + 0.04, j + 0.96, i + 0.96, i + 0.04)
            axes.imshow(image.transpose(1, 2, 0), extent=box)
    axes.set(xlim=(0, widest), ylim=(len(images), 0), aspect="equal", anchor="W")
    axes.grid(visible=False)
    axes.set_yticks(np.arange(len(images)) + 0.5, list(images))
    axes.xaxis.tick_top()
    axes.set_xticks(np.arange(widest) + 0.5, columns if columns is not None else [""] * widest)
    caption(figure, None)
    return figure


@style()
def class_histogram(
    counts: Mapping[str, Sequence[int]],
    *,
    title: str,
    class_names: Sequence[str] | None = None,
) -> Figure:
    """Label skew at a glance: the area of a bubble is the number of images of a class.

    counts: client -> [classes], whole numbers. The right margin says how many images a client
    has; small sheets write the counts themselves as well.
    """
    where = "class_histogram"
    counts = mapping(counts, where=where)
    data = {name: numbers(v, 1, where=f"{where}, {name}") for name, v in counts.items()}
    classes = len(next(iter(data.values())))
    for name, values in data.items():
        same(len(values), classes, f"classes of {name!r}", where=where)
        require(values.min() >= 0 and not (values % 1).any(), f"counts of {name!r}",
                where=where, do="give whole numbers from 0")  # fmt: skip
    class_names = range(classes) if class_names is None else class_names
    same(len(class_names), classes, "class names", where=where)
    table = np.stack(list(data.values()))
    written = classes <= 12 and len(data) <= 12
    row = 0.48 if written else max(0.125, min(0.35, 7 / len(data)))  # inches
    figure = canvas(title, height=max(2.2, 1.75 + row * len(data)))
    axes = figure.subplots()
    i, j = np.nonzero(table)
    diameter = 72 * (0.3 if written else min(row, max((WIDTH - 2) / classes, 0.16)))  # points
    axes.scatter(j, i, s=diameter**2 * table[i, j] / max(table.max(), 1), color=SKY, ec=BLUE,
                 lw=0.8, clip_on=False, zorder=3, alpha=0.85)  # fmt: skip
    if written:
        for a, b in zip(i, j, strict=True):
            axes.annotate(f"{table[a, b]:,.0f}", (b, a), xytext=(0, -16), size=7.5, color=QUIET,
                          textcoords="offset points", ha="center", va="center")  # fmt: skip
    axes.set(xlim=(-0.6, classes - 0.4), ylim=(len(data) - (0.25 if written else 0.4), -0.65))
    step_x, step_y = -(-classes // 26), -(-len(data) // 40)
    axes.set_xticks(range(0, classes, step_x), list(class_names)[::step_x])
    axes.set_yticks(range(0, len(data), step_y), list(data)[::step_y])
    axes.set(xlabel="class", ylabel="client")
    axes.grid(axis="both")
    totals = axes.secondary_yaxis("right")
    totals.set_yticks(range(0, len(data), step_y),
                      [f"{total:,.0f}" for total in table.sum(axis=1)[::step_y]])  # fmt: skip
    totals.set_ylabel("all", rotation=0, ha="left", va="bottom", color=QUIET)
    totals.yaxis.set_label_coords(1.01, 1.0)
    totals.spines["right"].set_visible(False)
    caption(figure, "Area of a bubble: number of images of the class; no bubble: none.")
    return figure
