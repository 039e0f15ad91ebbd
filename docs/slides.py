"""A lesson as slides: reveal.js, without a network.

A `##` begins a stack of slides, a `###` or a figure the next slide below, and so does text that no
longer fits. Folded code stays away, and so do exercises; what a cell has drawn is shown.
"""

import re
import shutil
from importlib.resources import files
from pathlib import Path
from posixpath import normpath

import nbformat
from nbconvert import SlidesExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat.v4 import new_code_cell, new_markdown_cell

from .mathml import mathml

LEFT_OUT = ("Exercises", "Further reading", "Glossary", "Notation", "Appendix", "How to read")
TAGS = {"exercise", "check", "parameters", "links"}  # of cells that are left out
FOUND = "> **What we found.**"  # of "In one minute"
FULL, PICTURE, CODE = 150, 110, 25  # words of a slide, a picture counted in words, lines of code
TEMPLATE = """{% extends 'reveal/index.html.j2' %}
{% block html_head_js %}{% endblock %}
{% block html_head_js_mathjax %}{% endblock %}
{% block html_head_css %}<link rel="stylesheet" href="slides.css">{% endblock %}
{% block data_png %}<img src="data:image/png;base64,{{ output.data['image/png'] }}"
  alt="{{ cell.metadata.mystnb.image.alt | escape_html }}">{% endblock %}
{% block footer_js %}
<nav class="home"><a href="../notebooks/{{ resources.metadata.name }}.html">The lesson</a></nav>
<script src="reveal/dist/reveal.js"></script>
<script>Reveal.initialize({hash: true, center: false, width: 1280, height: 800,
  slideNumber: "c/t", transition: "none"});</script>
{% endblock %}"""


class Renderer(IPythonRenderer):
    """Markdown to HTML as nbconvert has it, with formulas as MathML and links into the site."""

    def inline_math(self, body):
        return mathml(body)

    def block_math(self, body):
        return mathml(body, block=True)

    def latex_environment(self, name, body):
        return mathml(rf"\\begin{{{name}}}{body}\\end{{{name}}}", block=True)

    def link(self, text, url, title=None):
        if re.match(r"\w+:", url):
            return super().link(text, url, title)
        if not (page := re.fullmatch(r"([^#]+)\.(?:ipynb|md)(#.*)?", url)):
            return text  # to another place in the lesson, or to the reference
        return super().link(text, normpath(f"../notebooks/{page[1]}.html{page[2] or ''}"), title)


def write(folder: Path, lessons: list[Path]) -> None:
    """Write the slides of staged lessons to `folder`, and reveal.js beside them."""
    home, there = files("sphinx_revealjs") / "_static" / "revealjs", folder / "reveal"
    fonts = "dist/theme/fonts/source-sans-pro"
    shutil.copytree(home / fonts, there / fonts, ignore=shutil.ignore_patterns("*.eot", "*.ttf"))
    for name in ("LICENSE", "dist/reveal.css", "dist/reveal.js", "dist/theme/white.css"):
        shutil.copy(home / name, there / name)
    shutil.copy(Path(__file__).parent / "_static" / "slides.css", folder)
    exporter = SlidesExporter(
        raw_template=TEMPLATE,
        reveal_url_prefix="reveal",
        reveal_theme="white",
        exclude_input_prompt=True,
        exclude_output_prompt=True,
    )
    exporter.register_filter(
        "markdown2html", lambda text: MarkdownWithMath(renderer=Renderer(escape=False)).render(text)
    )
    for path in lessons:
        notebook = marked(nbformat.read(path, as_version=4))
        text, _ = exporter.from_notebook_node(notebook, {"metadata": {"name": path.stem}})
        (folder / f"{path.stem}.html").write_text(text, encoding="utf-8")


def marked(notebook):
    """The notebook, cut into what slides show; every piece knows whether it begins a slide.

    What was found comes last, before the summary: it would answer the predictions.
    """
    kept, found, words, out = [], [], 0, False
    for cell in pieces(notebook.cells):
        level = len(re.match("#*", cell.source)[0]) if cell.cell_type == "markdown" else 0
        if level in (1, 2):
            out = cell.source.lstrip("# ").startswith(LEFT_OUT)
        weight = weighed(cell)
        if out or not weight:
            continue
        if cell.source.startswith(FOUND) or "**What we found" in str(cell.get("outputs")):
            cell.metadata["slideshow"] = {"slide_type": "slide"}
            found.append(cell)
            continue
        if cell.source.startswith("## Summary"):
            kept, found = kept + found, []
        full = words and (words + weight > FULL or weight == PICTURE)
        kind = "slide" if level in (1, 2) else "subslide" if level or full else "-"
        words = weight if kind != "-" else words + weight
        cell.metadata["slideshow"] = {"slide_type": kind}
        kept.append(cell)
    notebook.cells = kept + found
    return notebook


def pieces(cells):
    """Cells of one paragraph, one piece of code or one output each."""
    for cell in cells:
        tags = set(cell.metadata.get("tags", []))
        if TAGS & tags:
            continue
        if cell.cell_type == "markdown":
            whole = "<details" in cell.source or "```" in cell.source
            cut = r"\n(?=##)" if whole else r"\n\s*\n(?=[^\s>|-])|(?<=\n)(?=##)"
            cut += rf"|\n>\n(?={re.escape(FOUND)})"  # in the box of the first screen
            for text in re.split(cut, cell.source):
                yield new_markdown_cell(text)
            continue
        drawn = any("data" in output for output in cell.outputs)
        folded = "hide-input" in tags
        if not (drawn or folded) and cell.source.count("\n") < CODE:
            yield new_code_cell(cell.source)
        for output in cell.outputs:
            if "data" in output or not folded:
                about = {**cell.metadata, "transient": {"remove_source": True}}
                yield new_code_cell(outputs=[output], metadata=about)


def weighed(cell) -> int:
    """How much of a slide a piece takes, in words; what is folded takes none, and is left out."""
    if cell.cell_type == "markdown" or not cell.outputs:
        return len(cell.source) // 6 + 1
    (output,) = cell.outputs
    data = output.get("data", {})
    if "image/png" in data:
        return PICTURE
    text = data.get("text/html") or data.get("text/markdown") or output.get("text", "")
    return 0 if text.startswith("<details") else len(re.sub("<[^>]*>", "", text)) // 6
