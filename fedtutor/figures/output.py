"""The door out: a figure becomes a PNG, with a description in words and a folded table."""

import html
import io
import re
from textwrap import fill

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from PIL import Image

from ..errors import SettingError
from .drawing import DPI, SCREEN, caption, style
from .inputs import require


def show(
    figure: Figure, description: str, *, footer: str | None = None, table=None,
    recorded: bool = False,
) -> None:  # fmt: skip
    """Render `figure` once, display it with its description, and close it.

    description: kind of plot, axes, what to see, in words that no rerun changes: no measured
    numbers (the title has those). It is the output's text/plain, which nbval compares, and with
    the title the image's alternative text. It also goes folded below the figure, because not
    every viewer shows alternative texts. `footer` names data, profile and seeds. `table`, a
    DataFrame, goes into the same fold; its numbers are compared between runs only if `recorded`
    (they come from committed results), see `MEASURED_TABLE`. Outside IPython the figure is only
    rendered.
    """
    try:
        words = _checked_description(description)
        require(isinstance(figure, Figure), f"a {type(figure).__name__}", where="show",
                do="give a matplotlib Figure")  # fmt: skip
        titles = [axes.get_title(side) for axes in figure.axes for side in ("left", "center")]
        heading = " ".join(next(filter(None, [figure.get_suptitle(), *titles]), "").split())
        require(heading, "a figure without a title", where="show", error=SettingError,
                do="state the finding in its title, see `finding`")  # fmt: skip
        png = to_png(figure, footer=footer)
        width = round(SCREEN * figure.get_figwidth())
    finally:
        if isinstance(figure, Figure):
            plt.close(figure)
    alt = " ".join(filter(None, (f"{heading}.", words, footer)))
    _display(
        {"image/png": png, "text/plain": fill(words, 96)},
        {"image/png": {"alt": alt, "width": width}},
    )
    _display(_folded(words, table, recorded=recorded), {})


def to_png(figure: Figure, *, footer: str | None = None) -> bytes:
    """The figure as PNG; equal figures give equal bytes. `footer` is the last line at the foot.

    256 colors are enough for a chart and make its file, and the notebook's, three times smaller;
    a sheet of photographs keeps all of them.
    """
    with style():
        if not isinstance(figure.get_layout_engine(), ConstrainedLayoutEngine):
            figure.set_layout_engine("constrained")
        caption(figure, footer)
        canvas = io.BytesIO()
        figure.savefig(canvas, format="png", dpi=DPI, pil_kwargs={"compress_level": 1})
    full = Image.open(canvas).convert("RGB")
    small = full.quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    off = np.abs(np.asarray(full, dtype=int) - np.asarray(small.convert("RGB"))) > 12
    png = io.BytesIO()
    (full if off.any(axis=-1).mean() > 0.02 else small).save(png, format="png", optimize=True)
    return png.getvalue()


# For nbval's --nbval-sanitize-with: what is between these tags may differ from run to run.
MEASURED_TABLE = r'<details class="measured">[\s\S]*?</details>'


def _checked_description(text: str) -> str:
    words = " ".join(text.split()) if isinstance(text, str) else ""
    require(len(words.split()) >= 8, f"description {text!r}", where="show", error=SettingError,
            do="say in 8 words or more: kind of plot, axes, what to see")  # fmt: skip
    found = re.search(r"\d*\.\d+|\d+[eE][-+]?\d+|±", words)
    require(not found, f"the description says {found and found[0]!r}", where="show",
            error=SettingError,
            do="use words that no rerun changes; numbers go into title and table")  # fmt: skip
    return words


def _folded(words: str, table, *, recorded: bool) -> dict[str, str]:
    text = html.escape(words)
    if table is None:
        page = f"<details><summary>Description of the figure</summary>\n<p>{text}</p>\n</details>"
        return {"text/html": page, "text/plain": "(the same description, folded below the figure)"}
    require(hasattr(table, "to_html") and len(table), f"a {type(table).__name__}",
            where="show, table", do="give a DataFrame with at least one row")  # fmt: skip
    names = [" / ".join(map(str, c)) if isinstance(c, tuple) else str(c) for c in table.columns]
    count = f"{len(table)} row" + ("s" if len(table) > 1 else "")
    index = type(table.index).__name__ != "RangeIndex"
    body = table.to_html(index=index, border=0, float_format=lambda v: f"{v:.4g}")
    head, rest = body.split("</thead>")
    rest = rest.replace("<th>", '<th scope="row">')
    body = head.replace("<th>", '<th scope="col">') + "</thead>" + rest
    page = (
        f'<details class="{"recorded" if recorded else "measured"}">'
        f"<summary>Description of the figure and the table behind it</summary>\n"
        f"<p>{text}</p>\n{body}\n</details>"
    )
    plain = f"Table behind the figure: {count}, columns {', '.join(names)}."
    return {"text/html": page, "text/plain": fill(plain, 96)}


def _display(data: dict, metadata: dict) -> None:
    try:
        from IPython import get_ipython
        from IPython.display import display
    except ImportError:  # a plain script: there is nobody to show it to
        return
    if get_ipython() is not None:
        display(data, metadata=metadata, raw=True)
