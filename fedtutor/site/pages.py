"""Executed notebooks as a small site: pages to read, without a script, a font or a network.

`write_page` makes one self-contained page of one executed notebook, and a page of every file of
the project that it links to; `write_index` makes the contents page. Figures keep their
descriptions as alternative texts, math is MathML, a widget is the picture or text saved beside it.
"""

import base64
import html
import mimetypes
import os
import re
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import nbformat
import yaml
from bs4 import BeautifulSoup
from jinja2 import Environment, FileSystemLoader
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound
from traitlets.config import Config

from ..engine.files import ROOT, write_atomically
from . import finding, glossary, results
from .mathml import mathml

TEMPLATES = Path(__file__).parent / "templates"
CLAIM = "Federated learning under heterogeneity: five papers to understand and to check."
SHOWN = ["text/html", "text/markdown", "image/svg+xml", "text/latex", "image/png", "image/jpeg",
         "text/plain"]  # the first one that an output has; no widgets, no JavaScript  # fmt: skip
LARGEST = 150_000  # bytes of a linked file that is still worth a page
LOUD = ["script", "style", "iframe", "object", "link", "base", "meta"]


def parsed(text: str | BeautifulSoup) -> BeautifulSoup:
    return BeautifulSoup(text, "html.parser") if isinstance(text, str) else text


def _for_everybody(text: BeautifulSoup) -> BeautifulSoup:
    """Boxes that scroll can be reached by keyboard; an empty cell is no header."""
    for box in text.select(".scroll, .equation, pre, figure"):
        box["tabindex"] = "0"
    for cell in text("th"):
        if not cell.get_text(strip=True) and cell.find("img") is None:
            cell.name = "td"
            del cell["scope"]
    return text


# ------------------------------------------------------------------------------------ Markdown


class Renderer(IPythonRenderer):
    """Markdown to HTML: math as MathML, headings with readable anchors, remembered in order."""

    def __init__(self):
        super().__init__(escape=False)
        self.headings: list[tuple[int, str, str]] = []  # level, anchor, text

    def heading(self, text: str, level: int, **attrs) -> str:
        start, taken = slug(text), {known for _, known, _ in self.headings}
        twins = (f"{start}-{n}" for n in count(2))
        anchor = next(name for name in chain([start], twins) if name not in taken)
        self.headings.append((level, anchor, _without_links(text)))
        return f'<h{level} id="{anchor}">{text}</h{level}>\n'

    def inline_math(self, body: str) -> str:
        return mathml(body)

    def block_math(self, body: str) -> str:
        return mathml(body, block=True)

    def latex_environment(self, name: str, body: str) -> str:
        return mathml(rf"\begin{{{name}}}{body}\end{{{name}}}", block=True)

    def table(self, text: str) -> str:
        return f'<div class="scroll"><table>\n{text}</table></div>\n'

    def render(self, source: str) -> str:
        return MarkdownWithMath(renderer=self).render(source)

    def sections(self) -> list[tuple[str, str]]:
        """Anchor and text of the headings of level 2."""
        return [(anchor, text) for level, anchor, text in self.headings if level == 2]


def slug(text: str) -> str:
    """The anchor of a heading: `1. The idea: weights travel` is `1-the-idea-weights-travel`."""
    return "-".join(re.findall(r"\w+", _words(text).lower())) or "section"


def _words(text: str) -> str:
    """The text of a piece of HTML."""
    return parsed(f"<p>{text}</p>").get_text()


def _without_links(text: str) -> str:
    piece = parsed(f"<p>{text}</p>")
    for link in piece("a"):
        link.unwrap()
    return piece.p.decode_contents()


# --------------------------------------------------------------------------------------- pages


def title_of(notebook) -> str:
    """The text of the notebook's first heading."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and cell.source.startswith("# "):
            return cell.source.splitlines()[0].removeprefix("# ").strip()
    return "untitled"


@dataclass
class Site:
    """The pages of one folder; `titles`: the notebooks of the suite, page -> title, in order."""

    folder: Path
    titles: dict[str, str]
    sections: dict[str, list] = field(default_factory=dict)  # of each page that is written
    sources: set[Path] = field(default_factory=set)  # files of the project that have their page
    found: list[finding.Section] = field(default_factory=list)  # what a search looks through


def write_page(executed: Path, site: Site) -> None:
    """Convert an executed notebook to one self-contained HTML file of the same name."""
    notebook, renderer = nbformat.read(executed, as_version=4), Renderer()
    page = site.folder / f"{Path(executed).stem}.html"
    ran_at = notebook.metadata.get("papermill", {}).get("input_path")
    folder = Path(ran_at).resolve().parent if ran_at else ROOT / "notebooks"
    exporter = HTMLExporter(
        template_name="page", extra_template_basedirs=[str(TEMPLATES)],
        config=Config({"NbConvertBase": {"display_data_priority": SHOWN}}),
    )  # fmt: skip
    for name, job in {"prose": renderer.render, "alternative": alternative,
                      "quiet_html": quiet}.items():  # fmt: skip
        exporter.register_filter(name, job)
    body, _ = exporter.from_notebook_node(notebook)
    site.sections[page.name] = renderer.sections()
    suite = list(site.titles)
    at = suite.index(page.name)
    beside = (("prev", "Previous", suite[at - 1 : at]), ("next", "Next", suite[at + 1 : at + 2]))
    neighbors = [(kind, word, other, site.titles[other].partition(": ")[0])
                 for kind, word, others in beside for other in others]  # fmt: skip
    title, text = title_of(notebook), localized(body, folder, page, site)
    site.found += finding.sections(text, page.name, _plain(title).partition(": ")[0])
    write_framed(page, title=title, body=text, sections=renderer.sections(), home="index.html",
                 neighbors=neighbors, cited=citation(page.stem, title))  # fmt: skip


def citation(stem: str, title: str) -> str:
    """A BibTeX entry of a notebook, from CITATION.cff."""
    about = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    names = " and ".join(f"{{{author['name']}}}" for author in about["authors"])
    return (f"@misc{{fedtutor_{stem},\n  title = {{{_plain(title)}}},\n  author = {names},\n"
            f"  howpublished = {{fedtutor {about['version']}, notebooks/{stem}.ipynb}},\n"
            f"  year = {{{about['date-released'].year}}}\n}}")  # fmt: skip


def write_framed(page: Path, *, title: str, template: str = "frame.html.j2", **parts) -> None:
    """Fill in a template of this folder and write the page; `parts` are the template's names.

    "body" is HTML or what `parsed` made of it; who reads by keyboard or by ear can use all of it.
    "style" is CSS that this page alone needs.
    """
    if "body" in parts:
        parts["body"] = str(_for_everybody(parsed(parts["body"])))
    environment = Environment(loader=FileSystemLoader(TEMPLATES / "page"))
    css = (TEMPLATES / "page" / "page.css").read_text(encoding="utf-8") + parts.pop("style", "")
    title = html.escape(_plain(title))
    text = environment.get_template(template).render(css=css, title=title, **parts)
    write_atomically(page, lambda name: Path(name).write_text(text, encoding="utf-8"))


def _plain(title: str) -> str:
    """A title without the marks of Markdown."""
    return re.sub(r"[`*$]", "", title)


def alternative(output) -> str:
    """What an image shows, in words: its own description, or else the text saved beside it."""
    for about in output.metadata.values():
        if isinstance(about, dict) and about.get("alt"):
            return about["alt"]
    text = " ".join(output.data.get("text/plain", "").split())
    return text if text and not text.startswith("<") else "A picture without a description"


def quiet(text: str) -> str:
    """HTML of an output without scripts, styles and frames; tables with named header cells."""
    output = parsed(text)
    for loud in output(LOUD):
        loud.decompose()
    for table in output("table", class_="dataframe"):
        table.attrs.pop("border", None)
        for row in table("tr", style="text-align: right;"):
            del row["style"]
        for cell in [] if table.find(scope=True) else table("th"):
            if cell.attrs:
                continue
            if cell.find_parent("thead") is None:
                cell["scope"] = "row"
            elif cell.contents:
                cell["scope"] = "col"
            else:
                cell.name = "td"
    return str(output)


# --------------------------------------------------------------------------------------- links


def localized(body: str, folder: Path, page: Path, site: Site) -> BeautifulSoup:
    """`body` with links and images that were relative to `folder` and are right for `page`.

    A link to a text file of the project leads to a page of it under `source/`, which is written
    here; one to a notebook leads to its page. What has none, and is not on the web, becomes plain
    text. Images are embedded.
    """
    text = parsed(body)
    anchors = {tag["id"] for tag in text.find_all(id=True)}
    for link in text("a", href=True):
        parts = urlsplit(link["href"])
        if parts.scheme or parts.netloc:
            continue
        to = unquote(parts.fragment)
        if not parts.path:  # to a heading as JupyterLab or GitHub name it, or to a raw anchor
            link["href"] = "#" + (parts.fragment if to in anchors else slug(to))
            continue
        file = (folder / unquote(parts.path)).resolve()
        if file.parent == ROOT / "build":  # a page that is made beside the notebooks'
            link["href"] = _relative(site.folder / file.name, page)
            continue
        if file.suffix == ".ipynb":
            target = site.folder / f"{file.stem}.html"
            if target.name not in site.titles and not target.is_file():
                link.insert_after(" (not in this site)")
                link.unwrap()
                continue
        elif (target := _source_page(file, site)) is None:
            path = file.relative_to(ROOT) if file.is_relative_to(ROOT) else parts.path
            link.insert_after(" (", text.new_tag("code", string=str(path)), ")")
            link.unwrap()
            continue
        fragment = "#" + slug(to) if to else ""
        link.attrs = {"href": _relative(target, page) + fragment}
    for image in text("img", src=True):
        url = image["src"]
        if url.startswith("data:"):
            continue
        file = (folder / unquote(url)).resolve()
        if urlsplit(url).scheme or not file.is_relative_to(ROOT) or not file.is_file():
            code = text.new_tag("code", string=url)
            image.replace_with(f"[{image.get('alt', 'image')}: ", code, "]")
            continue
        kind = mimetypes.guess_type(file.name)[0] or "image/png"
        data = base64.b64encode(file.read_bytes()).decode("ascii")
        image["src"] = f"data:{kind};base64,{data}"
    where = f"{glossary.NOTEBOOK}.html"
    if where in site.titles and page.name in site.titles and page.name != where:
        glossary.explain(text, f"{where}#glossary")
    return text


def _relative(target: Path, page: Path) -> str:
    return quote(Path(os.path.relpath(target, page.parent)).as_posix())


def _source_page(file: Path, site: Site) -> Path | None:
    """Write the page of a text file of the project, and of those it links to; else None."""
    if not file.is_relative_to(ROOT) or not file.is_file() or file.stat().st_size > LARGEST:
        return None
    name = file.relative_to(ROOT)
    page = site.folder / "source" / name.parent / f"{name.name}.html"
    if any(part.startswith(".") for part in name.parts):
        return None
    if file in site.sources:
        return page
    try:
        text = file.read_text(encoding="utf-8")
    except ValueError:
        return None
    site.sources.add(file)
    title, renderer = name.as_posix(), Renderer()
    if file.suffix == ".md":
        body = f'<div class="prose">\n{renderer.render(text)}</div>'
        body = localized(body, file.parent, page, site)
        title = next((t for level, _, t in renderer.headings if level == 1), title)
        address = page.relative_to(site.folder).as_posix()
        site.found += finding.sections(body, address, name.as_posix())
    else:
        try:
            lexer = get_lexer_for_filename(file.name, stripnl=False)
        except ClassNotFound:
            lexer = TextLexer()
        code = highlight(text, lexer, HtmlFormatter())
        body = f'<h1>{html.escape(title)}</h1>\n<div class="input">\n{code}</div>'
    write_framed(page, title=_words(title), body=body, sections=renderer.sections(),
                 home=_relative(site.folder / "index.html", page))  # fmt: skip
    return page


# ---------------------------------------------------------------------------------- whole site


def write_index(site: Site, rows: list[dict], reference: Path | None = None) -> None:
    """The contents page: one row per notebook, with its sections, time and verdicts; beside it the
    search, the index of terms and the results.

    rows: page (a file name in the site), status, failed; `reference`: the first page of api.py's.
    """
    about = _source_page(ROOT / "README.md", site)
    index = site.folder / "index.html"
    notebooks = []
    for row in rows:
        name, _, claim = _plain(site.titles[row["page"]]).partition(": ")
        claim = claim[:1].upper() + claim[1:]
        sections = site.sections.get(row["page"], [])
        notebooks.append({**row, "name": name, "claim": claim, "sections": sections})
    write_framed(index, title="fedtutor", template="contents.html.j2", kind="contents-page",
                 claim=CLAIM, about=about and _relative(about, index), notebooks=notebooks,
                 reference=reference and _relative(reference, index))  # fmt: skip
    for name, title, body, parts in (
        ("search", "Search", finding.search_body(site.found), []),
        ("terms", "Index of terms", *finding.terms_body(site.found, site.titles)),
    ):
        write_framed(site.folder / f"{name}.html", title=title, body=body, sections=parts,
                     home="index.html")  # fmt: skip
    write_framed(site.folder / "results.html", title="Results", body=results.body(site.titles),
                 style=results.style(), kind="results-page", home="index.html")  # fmt: skip
