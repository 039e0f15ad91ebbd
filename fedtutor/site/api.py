"""The reference: every public name of the package with its signature and docstring, as pages.

griffe reads the source and imports nothing. A page for the door, one for the core, one per wing;
in it a section per file, in it a part per function or class. A docstring is shown as it is written:
paragraphs, lists, and, where lines are set in columns, just so.
"""

import ast
import re
import textwrap
from collections.abc import Iterator
from html import escape
from pathlib import Path

import griffe

from ..engine.files import ROOT
from .pages import Site, write_framed

PACKAGE = __name__.partition(".")[0]
CORE = "core"
FOLDER = "reference"
ABOUT_CORE = """The files at the top: a round, the stage, and what both need.

fedtutor/README.md says in which order to read them."""
WIDTH = 88  # characters of a signature in a line
LONGEST = 160  # characters of a constant's value that are shown


def write_reference(site: Site) -> Path:
    """Write all pages of the reference below `site.folder`; return the first, the door's."""
    package = griffe.load(PACKAGE, search_paths=[str(ROOT)], allow_inspection=False)
    pages, home = {}, site.folder / FOLDER / "index.html"
    for name, (about, modules) in sections_of(package).items():
        pages[name] = about
        headings = [(part, f"<code>{escape(part)}</code>") for part, _ in modules]
        body = prose(about) + "".join(_module(*module) for module in modules)
        title = "The core" if name == CORE else f"{PACKAGE}.{name}"
        _write(home.with_name(f"{name}.html"), title, body, headings)
    _write(home, "Reference", _door(package, pages), [])
    return home


def sections_of(package) -> dict[str, tuple[str, list]]:
    """Page -> (docstring, [(name of a file, its module)]): the core, then the wings by name."""
    inside = [module for name, module in sorted(package.modules.items()) if name[0] != "_"]
    flat = [(module.name, module) for module in inside if _is_file(module)]
    wings = {module.name: (_docstring(module), list(_files(module)))
             for module in inside if not _is_file(module)}  # fmt: skip
    return {CORE: (ABOUT_CORE, flat), **wings}


def _is_file(module) -> bool:
    return module.filepath.name != "__init__.py"


def _files(wing, before: str = "") -> Iterator[tuple]:
    """(name, module) of all files below a wing, "shared.public" for one in a folder."""
    for name, module in sorted(wing.modules.items()):
        if _is_file(module):
            yield before + name, module
        else:
            yield from _files(module, f"{before}{name}.")


def _write(page: Path, title: str, body: str, headings: list) -> None:
    above = [] if page.stem == "index" else [("up", "Reference", "index.html", "all pages")]
    write_framed(page, title=title, body=f'<div class="prose"><h1>{escape(title)}</h1>{body}</div>',
                 sections=headings, home="../index.html", neighbors=above)  # fmt: skip


# --- what stands on a page


def _door(package, pages: dict[str, str]) -> str:
    """The names that a program imports first, and a line per page."""
    homes = ast.literal_eval(str(package["_HOMES"].value))
    names = []
    for name in package.exports:
        where = f"{homes[name]}.{name}" if name in homes else name
        link = f"{CORE}.html#{where}" if name in homes else f"{name}.html"
        names.append((name, link, _first(_docstring(package[where]))))
    wings = [(name, f"{name}.html", _first(about)) for name, about in pages.items()]
    line = f"from {PACKAGE} import {', '.join(package.exports)}"
    return (
        "<p>Made from the docstrings. Most programs need what stands at the door: "
        f"<code>{line}</code>.</p><h2>The door</h2>{_list(names)}<h2>All pages</h2>{_list(wings)}"
    )


def _list(rows: list[tuple[str, str, str]]) -> str:
    items = (f'<tr><td><a href="{link}"><code>{escape(name)}</code></a></td>'
             f"<td>{inline(words)}</td></tr>" for name, link, words in rows)  # fmt: skip
    head = '<thead><tr><th scope="col">Name</th><th scope="col">What it is</th></tr></thead>'
    return f'<div class="scroll"><table>{head}<tbody>{"".join(items)}</tbody></table></div>'


def _module(name: str, module) -> str:
    """A section: what the file is about, its constants, its functions and classes."""
    parts = [f'<h2 id="{name}"><code>{escape(name)}</code></h2>', prose(_docstring(module))]
    public = [m for m in module.members.values() if not (m.is_alias or m.name[0] == "_")]
    if constants := [m for m in public if m.is_attribute]:
        parts.append(_code("\n".join(_constant(m) for m in constants)))
    for member in public:
        if member.is_function or member.is_class:
            parts.append(_member(member, f"{name}.{member.name}", 3))
            inner = member.members.values() if member.is_class else ()
            parts += [_member(m, f"{name}.{member.name}.{m.name}", 4) for m in inner
                      if m.name[0] != "_" and not m.is_alias and _speaks(m)]  # fmt: skip
    return "\n".join(parts)


def _speaks(member) -> bool:
    """Whether a member of a class has a part of its own: a method, or what has a docstring."""
    return member.is_function or (member.is_attribute and bool(member.docstring))


def _member(member, anchor: str, level: int) -> str:
    title = f'<h{level} id="{anchor}"><code>{escape(member.name)}</code></h{level}>'
    lines = [] if member.is_attribute else [_filled(str(member.signature()))]
    if member.is_class and member.bases:
        lines.append(f"# a {', '.join(map(str, member.bases))}")
    return title + (_code("\n".join(lines)) if lines else "") + prose(_docstring(member))


def _constant(member) -> str:
    value = str(member.value)
    return f"{member.name} = {value}" if len(value) <= LONGEST else f"{member.name} = ..."


# --- docstrings


def prose(text: str) -> str:
    """A docstring as HTML: paragraphs, lists of "- ", and lines in columns or code as they are."""
    return "\n".join(map(_paragraph, re.split(r"\n\s*\n", textwrap.dedent(text).strip("\n"))))


def _paragraph(text: str) -> str:
    lines = text.splitlines()
    if text.startswith("- "):
        points = re.split(r"\n(?=- )", text)
        return "<ul>" + "".join(f"<li>{inline(point[2:])}</li>" for point in points) + "</ul>"
    if any(line.startswith("    ") or re.search(r"\S {2,}\S", line) for line in lines):
        return _code(text)
    return f"<p>{inline(text)}</p>" if text.strip() else ""


def inline(text: str) -> str:
    """Escaped text on one line, `names` as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(" ".join(text.split()), quote=False))


def _code(text: str) -> str:
    return f"<pre>{escape(text, quote=False)}</pre>"


def _filled(signature: str) -> str:
    return textwrap.fill(signature, WIDTH, subsequent_indent="    ", break_long_words=False,
                         break_on_hyphens=False)  # fmt: skip


def _docstring(member) -> str:
    return member.docstring.value if member.docstring else ""


def _first(text: str) -> str:
    return re.split(r"\n\s*\n", text.strip())[0] if text.strip() else ""
