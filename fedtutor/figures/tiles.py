"""One small tile per number: tables in miniature, a look per state."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ..errors import SettingError, choose
from .drawing import INK, LABEL, canvas, style
from .inputs import mapping, require

TILE = 0.112  # inches from one tile to the next
ACROSS = 65  # tiles in a line
SIDE = 0.84  # of a tile's place is drawn
NAME, HEAD, GAP = 1.7, 2.2, 1.2  # room for a block's name, for a group's, between blocks; in tiles
LETTER, LINE = 0.68, 1.6  # room for a letter of a name, for a line of the legend, in tiles


class Look(NamedTuple):
    """How a tile looks: paler from state to state, and marked, so that gray shows it, too."""

    face: str
    edge: str
    mark: str = ""  # "dot", "slash", "cross"; none
    ink: str = "white"


LOOKS = (Look("#000000", "#000000", "dot"), Look("#7A3B00", "#7A3B00", "slash"),
         Look("#3F8FC5", "#3F8FC5"), Look("#FFFFFF", "#777777"),
         Look("#E4E4E4", "#8C8C8C", "cross", "#595959"))  # fmt: skip


class Block(NamedTuple):
    """Where a block stands: x and y of its corner, in tiles."""

    name: str
    rows: Sequence
    x: float
    y: float


@style()
def tiles(groups: Mapping[str, Mapping[str, Sequence[Sequence[str | None]]]], *, title: str,
          states: Sequence[str]) -> Figure:  # fmt: skip
    """Tables in miniature: a tile per number, whose look says which of `states` the number has.

    groups: group -> name of a block -> its rows; a row is a list of states, None where there is no
    number. states: one to five, the strongest first, named in the legend with how many numbers
    have it. The looks differ in lightness and in their marks, so that nobody needs the colors.
    """
    where = "tiles"
    require(0 < len(set(states)) == len(states) <= len(LOOKS), f"states = {list(states)!r}",
            where=where, error=SettingError,
            do=f"give one to {len(LOOKS)} different names")  # fmt: skip
    counts = dict.fromkeys(states, 0)
    for group, blocks in mapping(groups, where=where).items():
        for name, rows in mapping(blocks, where=f"{where}, {group}").items():
            given = [state for row in rows for state in row if state is not None]
            require(given, f"no number in {name}", where=f"{where}, {group}",
                    do="leave the block out")  # fmt: skip
            for state in given:
                counts[choose(state, states, kind="state", where=f"{where}, {group}, {name}")] += 1
    heads, placed, high = _placed(groups, y=LINE * len(states) + 0.4)
    figure = canvas(title, height=high * TILE + 0.5)
    axes = figure.add_subplot()
    axes.set(xlim=(-0.3, ACROSS + 0.5), ylim=(high, 0), aspect="equal")
    axes.set_axis_off()
    spots = []
    for k, (state, count) in enumerate(counts.items()):
        spots.append((state, 0, LINE * k))
        axes.text(1.6, LINE * k + SIDE / 2, f"{count:,} · {state}", size=LABEL, va="center")
    for name, x, y in heads:
        axes.text(x, y + 0.9, name, size=11, weight="bold", va="center")
    for block in placed:
        axes.text(block.x, block.y - 0.9, block.name, size=LABEL, va="center", color=INK)
        spots += [(state, block.x + j, block.y + i) for i, row in enumerate(block.rows)
                  for j, state in enumerate(row) if state is not None]  # fmt: skip
    for state, look in zip(states, LOOKS, strict=False):
        _draw(axes, look, [(x, y) for name, x, y in spots if name == state], state)
    return figure


def _placed(groups: Mapping, y: float) -> tuple[list[tuple], list[Block], float]:
    """(name, x, y) of the groups, the blocks, and where the last line ends, from line y on.

    Blocks stand side by side in lines; so do groups, where all their blocks fit in one line.
    """
    heads, placed, right, below = [], [], 0.0, y
    for group, blocks in groups.items():
        widths = {name: max(*map(len, rows), LETTER * len(name)) for name, rows in blocks.items()}
        whole = sum(widths.values()) + GAP * (len(widths) - 1)
        if not right or right + 2 * GAP + whole > ACROSS:
            right, y = 0.0, below
        left = right + 2 * GAP if right else 0.0
        heads.append((group, left, y))
        x, top, tallest = left, y + HEAD, 0
        for name, rows in blocks.items():
            if x > left and x + widths[name] > ACROSS:
                x, top, tallest = left, top + NAME + tallest + 0.4, 0
            placed.append(Block(name, rows, x, top + NAME))
            x, tallest = x + widths[name] + GAP, max(tallest, len(rows))
        right = left + max(whole, 1.0 * len(group)) if whole <= ACROSS else ACROSS
        below = max(below, top + NAME + tallest + 0.9)
    return heads, placed, below


def _draw(axes, look: Look, corners: list[tuple[float, float]], state: str) -> None:
    """All tiles of a state, and their marks."""
    squares = [Rectangle(corner, SIDE, SIDE) for corner in corners]
    axes.add_collection(PatchCollection(squares, fc=look.face, ec=look.edge, lw=0.6, gid=state))
    low, mid, high = 0.22 * SIDE, 0.5 * SIDE, 0.78 * SIDE
    if look.mark == "dot":
        axes.plot([x + mid for x, _ in corners], [y + mid for _, y in corners], ls="", marker="o",
                  ms=2.6, mec="none", mfc=look.ink)  # fmt: skip
    strokes = {"slash": [((low, high), (high, low))],
               "cross": [((low, high), (high, low)), ((low, low), (high, high))]}  # fmt: skip
    lines = [[(x + a, y + b) for a, b in stroke]
             for stroke in strokes.get(look.mark, ()) for x, y in corners]  # fmt: skip
    axes.add_collection(LineCollection(lines, colors=look.ink, linewidths=0.9))
