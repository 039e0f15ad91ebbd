"""The algorithm of a method as a box: what the server does, and what a client does, line by line.

The words lie in `data/algorithms.toml`. The numbers are those that the comments and the docstring
in `fedtutor/methods/` use, so a reader finds a line of the box again in the code.
"""

import html
import re
import tomllib

from ..engine.files import DATA
from ..errors import StorageError, choose

BOXES = DATA / "algorithms.toml"
SIDES = ("server", "client")
SYMBOL = re.compile(r"(\w[\u0300-\u036f]?)((?:[_^](?:\{[^{}]*\}|[^\W_]|\*))+)")
SCRIPT = re.compile(r"([_^])(?:\{([^{}]*)\}|(.))")


def algorithm(method: str) -> None:
    """Show the box of a method: three columns, line, server and client, in the order of a round.

    Raises `SettingError` for a method without a box, and `StorageError` where the file of the boxes
    cannot be read. A line without a number is a step of every round (`fedtutor/rounds.py`), or one
    that the paper writes in its text.
    """
    from IPython import get_ipython
    from IPython.display import display

    known = boxes()
    box = known[choose(method, known, kind="algorithm", where="data/algorithms.toml")]
    if get_ipython() is None:
        print(as_text(method, box))
    else:
        display({"text/html": as_html(method, box), "text/plain": as_text(method, box)}, raw=True)


def boxes() -> dict[str, dict]:
    """Method -> its box: `file`, `counted`, the name of a `client`, and the `rows`."""
    try:
        return tomllib.loads(BOXES.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StorageError(
            f"the algorithm boxes cannot be read: {error}", where="data/algorithms.toml",
            do="restore the file from the repository",
        ) from error  # fmt: skip


def as_html(method: str, box: dict) -> str:
    """The box as a table with a caption, header cells that say what they head, and a note."""
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in _columns(box))
    rows = "".join(
        f'<tr><th scope="row">{_numbers(row) or "·"}</th>'
        + "".join(f'<td style="text-align: left">{_marked(row.get(s, ""))}</td>' for s in SIDES)
        + "</tr>\n"
        for row in box["rows"]
    )
    return (f'<table class="algorithm"><caption>{html.escape(_title(method, box))}</caption>\n'
            f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table>\n"
            f"<p>{_note(box, '<code>', '</code>')}</p>")  # fmt: skip


def as_text(method: str, box: dict) -> str:
    """The box line by line: number, who acts, what is done."""
    lines = [_title(method, box)]
    for row in box["rows"]:
        for side, name in zip(SIDES, _columns(box)[1:], strict=True):
            if side in row:
                lines.append(f"{_numbers(row) or '·':>5}  {name}: {_plain(row[side])}")
    return "\n".join([*lines, _note(box)])


def _columns(box: dict) -> tuple[str, str, str]:
    return "line", "server", box["client"]


def _title(method: str, box: dict) -> str:
    return f"The algorithm of {method}. {box['counted']}."


def _note(box: dict, before: str = "", after: str = "") -> str:
    note = f"The comments in {before}fedtutor/methods/{box['file']}{after} have the same numbers."
    if all(row.get("lines") for row in box["rows"]):
        return note
    return f"{note} A dot marks a line without a number."


def _numbers(row: dict) -> str:
    lines = row.get("lines", [])
    return f"{lines[0]}-{lines[-1]}" if len(lines) > 1 else "".join(map(str, lines))


def _marked(text: str) -> str:
    """`w_k^{t+1}` as an italic letter with its subscript and superscript."""

    def scripts(found: re.Match) -> str:
        tags = {"_": "sub", "^": "sup"}
        parts = [f"<{tags[mark]}>{group or one}</{tags[mark]}>"
                 for mark, group, one in SCRIPT.findall(found[2])]  # fmt: skip
        return f"<i>{found[1]}</i>{''.join(parts)}"

    return SYMBOL.sub(scripts, html.escape(text, quote=False))


def _plain(text: str) -> str:
    """`L_{CE}` as L_CE, and `w^{t+1}` as w^(t+1)."""
    text = re.sub(r"([_^])\{(\w+)\}", r"\1\2", text)
    return re.sub(r"([_^])\{([^{}]*)\}", r"\1(\2)", text)
