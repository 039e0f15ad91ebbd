"""The one plotting style: palette, the look of each method, the canvas, its caption and axes.

Colors are those of Okabe and Ito (2008); a method keeps its color and marker in the whole suite.
Nothing here touches matplotlib's global settings.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

import numpy as np
from matplotlib import cycler
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patheffects import withStroke
from matplotlib.style import context
from matplotlib.ticker import MaxNLocator

from ..errors import SettingError
from .inputs import require
from .words import display_name

# ------------------------------------------------------------------------------ colors, markers

INK, QUIET, GRID = "#222222", "#595959", "#E2E2E2"
BLACK, GRAY = "#000000", "#808080"
ORANGE, SKY, GREEN, BLUE = "#E69F00", "#56B4E9", "#009E73", "#0072B2"
VERMILION, PURPLE, OLIVE, BROWN = "#D55E00", "#CC79A7", "#8C8200", "#7A3B00"
OKABE_ITO = (BLUE, ORANGE, GREEN, PURPLE, VERMILION, SKY, BLACK, GRAY)
CLASS_COLORS = (*OKABE_ITO, OLIVE, BROWN)


class Style(NamedTuple):
    """How a series looks: `strong` ones have filled markers and a wider line."""

    color: str
    marker: str
    strong: bool = False

    @property
    def fill(self) -> str:
        return self.color if self.strong else "white"


METHOD_STYLE = {  # the order of every legend, table and bar chart
    "solo": Style(GRAY, "v"), "central": Style(BLACK, "^"), "fedavg": Style(SKY, "o"),
    "fedprox": Style(GREEN, "^"), "fednova": Style(ORANGE, "^"), "scaffold": Style(BLUE, "v"),
    "fedavgm": Style(SKY, "s"), "moon": Style(PURPLE, "D"), "fedproto": Style(VERMILION, "^"),
    "fedproc": Style(BLACK, "s"), "fedrs": Style(GRAY, "^"), "fedgkd": Style(ORANGE, "v"),
    "feddyn": Style(BLUE, "o"), "fedadam": Style(SKY, "^"), "fedyogi": Style(SKY, "v"),
    "fedbn": Style(VERMILION, "o"), "fedper": Style(PURPLE, "o"), "fedrep": Style(PURPLE, "s"),
    "ditto": Style(GREEN, "o"),
    "logit-distillation": Style(VERMILION, "v"), "feature-distillation": Style(GREEN, "v"),
    "ewc": Style(BLUE, "D"), "vhl": Style(BLACK, "D"), "kd": Style(VERMILION, "s"),
    "fedmd": Style(SKY, "D"),
    "feddf": Style(GREEN, "s"), "fedmatch": Style(PURPLE, "v"), "rhfl": Style(BLUE, "^"),
    "fml": Style(BLACK, "v"), "rcfl": Style(GRAY, "s"), "fd": Style(ORANGE, "s"),
    "fccl": Style(ORANGE, "o", True), "fccl+": Style(VERMILION, "P", True),
    "fedcsd": Style(BLUE, "s", True), "repshare": Style(GREEN, "D", True),
    "fedlgd": Style(PURPLE, "*", True),
}  # fmt: skip
OTHER_MARKERS = ("h", "X", "p", ">", "<")  # no method of the suite has these


def method_style(method: str) -> Style:
    """Color and marker of a method; a reader's own gets a pair that its name alone decides."""
    if method in METHOD_STYLE:
        return METHOD_STYLE[method]
    digest = sha256(str(method).encode()).digest()
    color, marker = OKABE_ITO[digest[0] % 6], OTHER_MARKERS[digest[1] % len(OTHER_MARKERS)]
    return Style(color, marker, True)


def in_order(names: Sequence[str]) -> dict[str, Style]:
    """Styles for series that are no methods (domains, clients, settings), by their position."""
    markers = ("o", "s", "^", "D", "v", "P", "X", "*")
    return {
        name: Style(OKABE_ITO[i % 8], markers[(i + i // 8) % 8], True)
        for i, name in enumerate(names)
    }


def method_order(names) -> list[str]:
    """`names` in the suite's fixed order; unknown ones last, as they came."""
    return [n for n in METHOD_STYLE if n in names] + [n for n in names if n not in METHOD_STYLE]


def looks_of(names, styles: Mapping[str, Style] | None, *, where: str) -> dict[str, Style]:
    """The style of each series, in the order in which they are drawn."""
    if styles is None:
        return {name: method_style(name) for name in method_order(names)}
    missing = [name for name in names if name not in styles]
    require(not missing, f"no style for {missing}", where=where, error=SettingError,
            do="give one for each series, for example by `in_order(names)`")  # fmt: skip
    return {name: styles[name] for name in names}


# -------------------------------------------------------------------------------- one canvas

WIDTH, HEIGHT = 7.6, 3.6  # inches
SCREEN, DPI = 100, 200  # pixels per inch on screen and in the file: sharp on dense screens
LABEL = 9.5  # points: 13 pixels on screen
HALO = withStroke(linewidth=3, foreground="white")
RC = {
    "font.family": ["DejaVu Sans"], "font.size": LABEL, "text.color": INK,
    "text.parse_math": False, "figure.facecolor": "white", "figure.dpi": SCREEN,
    "figure.constrained_layout.w_pad": 0.07, "figure.constrained_layout.h_pad": 0.06,
    "figure.titlesize": 12, "figure.titleweight": "bold",
    "axes.facecolor": "white", "axes.titlesize": 10, "axes.titlelocation": "left",
    "axes.titlepad": 5, "axes.labelsize": LABEL, "axes.labelcolor": INK, "axes.edgecolor": QUIET,
    "axes.spines.top": False, "axes.spines.right": False, "axes.spines.left": False,
    "axes.spines.bottom": False, "axes.grid": True, "axes.grid.axis": "y",
    "axes.axisbelow": True, "axes.prop_cycle": cycler(color=OKABE_ITO),
    "grid.color": GRID, "grid.linewidth": 0.8, "xtick.color": INK, "ytick.color": INK,
    "xtick.labelsize": LABEL, "ytick.labelsize": LABEL, "xtick.major.size": 0,
    "ytick.major.size": 0, "xtick.minor.size": 0, "ytick.minor.size": 0,
    "legend.facecolor": "white", "legend.edgecolor": "white", "legend.framealpha": 1.0,
    "legend.fontsize": LABEL, "lines.linewidth": 1.7,
    "lines.markersize": 6, "image.cmap": "cividis", "image.interpolation": "nearest",
}  # fmt: skip


def style():
    """The suite's plotting style inside a `with` block (or as a decorator), and only there."""
    return context(RC, after_reset=True)


def canvas(title: str, *, height: float = HEIGHT, layout: str = "constrained") -> Figure:
    """An empty figure of the suite's width under its title; `height` in inches."""
    require(isinstance(title, str) and len(title.split()) > 1, f"title {title!r}",
            where="figures", do="state the finding in words, see `finding`",
            error=SettingError)  # fmt: skip
    figure = Figure(figsize=(WIDTH, round(height, 2)), layout=layout)
    FigureCanvasAgg(figure)
    lines = _wrapped(figure, title, size=12, weight="bold")
    require(len(lines) <= 3, f"the title takes {len(lines)} lines", where="figures",
            do="shorten it to 3 at most", error=SettingError)  # fmt: skip
    figure.suptitle("\n".join(lines), x=0.07 / WIDTH, ha="left", linespacing=1.25)
    return figure


def _wrapped(figure: Figure, text: str, **font) -> list[str]:
    """`text` as lines that fit the figure's width."""
    renderer, font = FigureCanvasAgg(figure).get_renderer(), FontProperties(**font)
    limit = figure.bbox.width * (1 - 0.2 / WIDTH)
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        fits = renderer.get_text_width_height_descent(longer, font, False)[0] <= limit
        lines[-1:] = [longer] if fits or not lines[-1] else [lines[-1], word]
    return lines


def caption(figure: Figure, text: str | None) -> None:
    """Add `text` as a paragraph to the small gray words at the foot, and keep room for them."""
    old = next((t for t in figure.texts if t.get_gid() == "caption"), None)
    lines = old.get_text().splitlines() if old else []
    if old:
        old.remove()
    lines += _wrapped(figure, text, size=8) if text else []
    wide, high = figure.get_size_inches()
    room = 0.155 * len(lines) + 0.06 * bool(lines)  # inches
    figure.text(0.07 / wide, 0.07 / high, "\n".join(lines), size=8, color=QUIET, va="bottom",
                linespacing=1.3, gid="caption").set_in_layout(False)  # fmt: skip
    if label := figure.get_supxlabel():  # constrained layout would put it on the caption
        figure.supxlabel(label, y=(room + 0.05) / high, size=LABEL)
        room += 0.22
    figure.get_layout_engine().set(rect=(0, room / high, 1, 1 - room / high))


def y_label(axes, text: str) -> None:
    """The unit of the y axis, horizontally above it."""
    axes.set_ylabel(text, rotation=0, ha="left", va="bottom", color=QUIET)
    axes.yaxis.set_label_coords(0, 1.02)


def accuracy_axis(axes, limits: tuple[float, float] | None = None) -> str:
    """Set the range of a percent axis; an axis that is cut gets a mark and a sentence."""
    low, high = (0, 100) if limits is None else limits
    require(0 <= low < high <= 100, f"limits {limits}", where="figures",
            do="give percent, low below high", error=SettingError)  # fmt: skip
    axes.set_ylim(low, high)
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10], integer=True))
    if low == 0:
        return ""
    zigzag = [0, 0, -0.008, 0.008, -0.008, 0.008, 0, 0]
    axes.plot(zigzag, np.linspace(0, 0.16, 8), transform=axes.transAxes, color=INK, lw=1.2,
              clip_on=False, gid="cut")  # fmt: skip
    return f"The accuracy axis starts at {low:g} %."


def legend(figure: Figure, *panels) -> None:
    """The names of all series in all panels, right of them."""
    named = {}
    for axes in panels:
        named |= dict(zip(*axes.get_legend_handles_labels()[::-1], strict=True))
    figure.legend(named.values(), named.keys(), loc="outside right center", handlelength=1.8,
                  ncols=1 + (len(named) > 14),
                  labelspacing=0.35 if len(named) <= 30 else 0.1)  # fmt: skip


def row_panels(figure: Figure, titles: Sequence[str], names: Sequence[str]):
    """Panels side by side, one per title, with a row per method named at the left."""
    panels = figure.subplots(1, len(titles), sharex=True, sharey=True, squeeze=False)[0]
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title)
        axes.grid(axis="x")
        axes.grid(visible=False, axis="y")
    panels[0].set_ylim(len(names) - 0.4, -0.6)
    panels[0].set_yticks(range(len(names)), [display_name(name) for name in names])
    return panels
