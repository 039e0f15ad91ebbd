"""The page `data/results/NUMBERS.md`: its prose is written by hand, its tables are made here."""

import re
from collections.abc import Sequence
from pathlib import Path

from ..engine.files import ROOT, shown, write_atomically
from ..errors import SettingError
from ..papers import ledger
from .numbers import COLUMNS, LIST, NOT_YET, Effect, Shelf, effects
from .tables import with_part

PAGE = ROOT / "data" / "results" / "NUMBERS.md"
HOW = "made by: python -m fedtutor report --numbers -->"


def parts(found: Sequence[Effect], notebooks: Path = ledger.NOTEBOOKS) -> dict[str, str]:
    """Mark that begins a part of the page -> Markdown: the overview, and a table per effect."""
    made = {_mark("overview"): _overview(found, notebooks)}
    for effect in found:
        lines = [(r.compared, r.points, r.setting, _link(r.notebook, notebooks))
                 for r in effect.rows]  # fmt: skip
        made[_mark(effect.name)] = _markdown(COLUMNS[1:], lines)
    return made


def _overview(found: Sequence[Effect], notebooks: Path) -> str:
    """A line per effect, the largest difference first."""
    head = ("what moves the number", "largest difference", "which is", "notebook")
    lines = []
    for effect in sorted(found, key=lambda effect: -effect.size):
        row = effect.largest
        title = f"[{effect.title}](#{_anchor(effect.title)})"
        left = sum(other is not row and other.points == NOT_YET for other in effect.rows)
        which = row.compared + f" ({left} more {NOT_YET})" * bool(left)
        lines.append((title, row.points, which, _link(row.notebook, notebooks)))
    return _markdown(head, lines)


def page(text: str, made: dict[str, str]) -> str:
    """The page's `text` with every part in its place; `StorageError` where a mark is absent."""
    for mark, part in made.items():
        text = with_part(text, part, begin=mark, where=shown(PAGE))
    return text


def update_page(path: Path | None = None, shelf: Shelf | None = None) -> bool:
    """Make the tables of the page anew; return whether it changed."""
    path = path or PAGE
    text = path.read_text(encoding="utf-8")
    new = page(text, parts(effects(shelf)))
    if new != text:
        write_atomically(path, lambda name: Path(name).write_text(new, encoding="utf-8"))
    return new != text


def _mark(name: str) -> str:
    return f"<!-- {name}, {HOW}"


def _anchor(title: str) -> str:
    """How a page links to the heading `## title`."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _link(notebook: str, folder: Path) -> str:
    """`04b, section 2` as a link from the page to the notebook."""
    if not notebook:
        return ""
    number = notebook.partition(",")[0]
    names = sorted(path.name for path in Path(folder).glob(f"{number}_*.ipynb"))
    if len(names) != 1:
        raise SettingError(f"no notebook {number}", where=shown(LIST), do="name one that is there")
    return f"[{notebook}](../../notebooks/{names[0]})"


def _markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
