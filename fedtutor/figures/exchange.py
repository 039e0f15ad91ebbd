"""Who sends what: a sequence diagram of a round, from what the channel counted."""

from collections.abc import Mapping, Sequence
from itertools import groupby

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import FancyBboxPatch

from ..errors import SettingError, choose
from .drawing import BLUE, GRID, INK, QUIET, VERMILION, WIDTH, canvas, caption, style
from .inputs import require
from .words import human_bytes

DIRECTIONS = ("up", "down", "peer", "client")
COLORS = {"up": VERMILION, "down": BLUE, "peer": INK}
SIZE, HEAD = 11, 12.5  # points: what is sent, who sends it
EDGE, SERVER, CLIENT = WIDTH - 0.2, 0.75, WIDTH - 1.25  # inches from the left: lines of life
TOP, GAP, LINE, GROUP, PAD = (
    0.58,
    0.2,
    0.19,
    0.28,
    0.12,
)  # inches
FLAT = "#F4F4F4"


@style()
def who_sends_what(rows: Sequence[Mapping], *, title: str, clients: int,
                   notes: Sequence[str] = ()) -> Figure:  # fmt: skip
    """A sequence diagram: the server at the left, one client at the right, an arrow per row.

    rows: as `experiments.exchange` returns them, in the order of the round. A row needs
    "direction" ("up", "down", "peer", or "client" for what a client does by itself), "name",
    "shape", "bytes" (a number, or (least, most)) and "times"; it can have "when", in words, and
    "clients", where not all of them send it. Neighbors with the same "times" and "when" stand in a
    box that says so. clients: how many there are. notes: lines for the foot.
    """
    rows = [_checked(row) for row in rows]
    ends = f"client k ({clients} of them)" if clients != 1 else "the only client"
    measure = _Measure(CLIENT - SERVER - 0.3)
    groups = [(key, [(row, _label(row, clients, measure)) for row in part])
              for key, part in groupby(rows, _group)]  # fmt: skip
    height = TOP + sum(_height(key, part) for key, part in groups) + 0.1
    nothing = not any(row["direction"] != "client" for row in rows)
    height += 0.4 * nothing
    figure = canvas(title, height=height + 0.75 + 0.16 * len(notes))
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set(xlim=(0, EDGE), ylim=(height, 0))
    for x, words in ((SERVER, "server"), (CLIENT, ends)):
        axes.plot([x, x], [0.4, height], color=QUIET, lw=1.6, zorder=1)
        _box(axes, x, 0.2, words)
    y = TOP
    for key, part in groups:
        y = _draw_group(axes, y, key, part)
    if nothing:
        axes.text((SERVER + CLIENT) / 2, y + 0.15, "nothing is sent", size=SIZE, ha="center",
                  va="center", color=QUIET)  # fmt: skip
    for note in notes:
        caption(figure, note)
    return figure


def _checked(row: Mapping) -> dict:
    where = "who_sends_what"
    wanted = ("direction", "name", "shape", "bytes", "times")
    there = isinstance(row, Mapping) and all(part in row for part in wanted)
    require(there, f"the row {row!r}", where=where, error=SettingError,
            do=f"give a dict with {', '.join(wanted)}")  # fmt: skip
    choose(row["direction"], DIRECTIONS, kind="direction", where=where)
    return {"when": "", "clients": None, **row}


def _group(row: dict) -> tuple:
    return row["times"], row["when"]


class _Measure:
    """How wide a text is, in inches, and as lines that fit between the two lines of life."""

    def __init__(self, limit: float):
        self.limit, self.dpi = limit, 100
        self.renderer = FigureCanvasAgg(Figure(dpi=self.dpi)).get_renderer()

    def lines(self, text: str, weight: str = "normal") -> list[str]:
        """`text` on as few lines as it fits."""
        found = [""]
        for word in text.split():
            longer = f"{found[-1]} {word}".strip()
            fits = self(longer, weight) <= self.limit
            found[-1:] = [longer] if fits or not found[-1] else [found[-1], word]
        return found

    def __call__(self, text: str, weight: str = "normal") -> float:
        font = FontProperties(family=["DejaVu Sans"], size=SIZE, weight=weight)
        return self.renderer.get_text_width_height_descent(text, font, False)[0] / self.dpi


def _label(row: dict, clients: int, measure: _Measure) -> tuple[list[str], list[str]]:
    """Lines above an arrow, its name, and below it, shape and bytes."""
    some = f"{row['clients']} of {clients}" if row["clients"] not in (None, clients) else ""
    if row["direction"] == "client":
        return [f"{row['name']} ({some})" if some else row["name"]], []
    size = f"{_bytes(row['bytes'])}, {some} clients" if some else _bytes(row["bytes"])
    whole = "  ·  ".join(filter(None, [row["shape"], size]))
    fits = measure(whole) <= measure.limit
    below = [whole] if fits else [*measure.lines(row["shape"]), size]
    name = f"{row['name']}, to another client" if row["direction"] == "peer" else row["name"]
    return measure.lines(name, "bold"), below


def _bytes(size) -> str:
    if not isinstance(size, Sequence):
        return human_bytes(size)
    return f"{human_bytes(size[0])} to {human_bytes(size[1])}"


def _height(key: tuple, part: list) -> float:
    return sum(_tall(*lines) for _, lines in part) + (GROUP + PAD if _words(key) else 0)


def _tall(above: list[str], below: list[str]) -> float:
    return GAP + LINE * (len(above) + len(below))


def _words(key: tuple) -> str:
    times, when = key
    return f"× {times}, {when}" if times > 1 else when


def _draw_group(axes, y: float, key: tuple, part: list) -> float:
    """Arrows from y on, in a box where they cross more or less often than once in every round."""
    words, end = _words(key), y + _height(key, part)
    if words:
        axes.add_patch(FancyBboxPatch(
            (SERVER - 0.55, y + 0.03), CLIENT - SERVER + 1.1, end - y - 0.06, fc=FLAT, ec=GRID,
            boxstyle="round,pad=0,rounding_size=0.08", zorder=0,
        ))  # fmt: skip
        axes.text(SERVER - 0.45, y + 0.18, words, size=SIZE, va="center", style="italic",
                  color=QUIET, bbox={"fc": FLAT, "ec": "none", "pad": 1.5})  # fmt: skip
        y += GROUP
    for row, lines in part:
        _draw_row(axes, y, row, *lines)
        y += _tall(*lines)
    return end


def _draw_row(axes, y: float, row: dict, above: list[str], below: list[str]) -> None:
    """An arrow with its words, from y on."""
    if row["direction"] == "client":
        _box(axes, CLIENT, y + _tall(above, below) / 2, above[0], size=SIZE, weight="normal")
        return
    y, middle = y + GAP / 2 + LINE * len(above), (SERVER + CLIENT) / 2
    color, gap = COLORS[row["direction"]], 0.04
    shape = {"arrowstyle": "-|>,head_width=0.3,head_length=0.6", "color": color, "lw": 2.2,
             "shrinkA": 0, "shrinkB": 0}  # fmt: skip
    left, right = SERVER + gap, CLIENT - gap
    begin, end = (left, right) if row["direction"] == "down" else (right, left)
    back = 0.0
    if row["direction"] == "peer":  # it leaves one client and arrives at another
        begin, end, back = middle - 0.6, right, 0.12
        axes.plot([right, begin, begin], [y, y, y + back], color=color, lw=2.2)
    axes.annotate("", (end, y + back), (begin, y + back), arrowprops=shape)
    axes.text(middle, y - 0.05, "\n".join(above), size=SIZE, ha="center", va="bottom",
              weight="bold", linespacing=1.15)  # fmt: skip
    axes.text(middle, y + back + 0.05, "\n".join(below), size=SIZE, ha="center", va="top",
              linespacing=1.15)  # fmt: skip


def _box(axes, x: float, y: float, words: str, *, size=HEAD, weight="bold") -> None:
    """Words in a white box on a line of life, never beyond the edge of the picture."""
    axes.text(x, y, words, size=size, weight=weight, ha="center", va="center", zorder=3,
              bbox={"fc": "white", "ec": QUIET, "boxstyle": "round,pad=0.3"})  # fmt: skip
