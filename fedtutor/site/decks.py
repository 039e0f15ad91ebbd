"""A lesson as slides and as a handout of one page, both made from its notebook.

Nothing is marked by hand: the parts of a lesson are known by how it is written. Of each section a
slide has the paper's reason and its equations; then come every prediction, every figure or table
with what there is to see in it, printed numbers, lists, the round from scratch, the questions for
oneself, and the verdicts with their rule. What was found comes last, before the summary. The
handout has *In one minute*, the algorithm, and the questions, and no result. Both are single files
without a script: a slide fills the window (scroll, or the arrow keys), and a printer gives each its
page.
"""

import html
import re
from dataclasses import dataclass
from pathlib import Path

import nbformat
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from ..engine.files import ROOT
from ..papers.verdicts import records_in
from .pages import Renderer, Site, alternative, localized, quiet, title_of, write_framed

LEFT_OUT = ("Exercises", "Further reading", "Glossary", "Notation", "Appendix", "How to read")
REASON, PREDICT, SEEN = "**The paper's reason", "**Predict", "**What you see"
FOUND, ASKED, RULE = "**What we found", "**Ask yourself", "**How a claim is judged"
EQUATIONS = 2  # on the slide of a section
VERDICTS = 8  # on a slide
LEAST, MOST = 6, 28  # lines of a round from scratch that are shown
PRINTED = 12  # lines that a cell may print to have a slide


@dataclass
class Slide:
    """title: Markdown; text: Markdown; kind: what it is; more: HTML below the text."""

    kind: str
    title: str
    text: str = ""
    more: str = ""


def write(notebook: Path, site: Site) -> list[Path]:
    """Write `decks/NN.html` and `handouts/NN.html` of a lesson; return both, or nothing.

    A lesson is a notebook that begins with *In one minute*.
    """
    held = nbformat.read(notebook, as_version=4)
    if not any("**In one minute**" in cell.source for cell in held.cells):
        return []
    shown, name = slides(held), f"{notebook.stem.partition('_')[0]}.html"
    title, home = title_of(held), f"../{notebook.stem}.html"
    for folder, template, chosen in (
        ("decks", "deck.html.j2", shown),
        ("handouts", "handout.html.j2", handout(shown)),
    ):
        page = site.folder / folder / name
        parts = [{"kind": s.kind, "body": _html(s, page, site)} for s in chosen]
        write_framed(page, title=title, template=template, slides=parts, home=home)
    return [site.folder / folder / name for folder in ("decks", "handouts")]


def handout(shown: list[Slide]) -> list[Slide]:
    """The slides whose content stands on the handout; its questions without the replies."""
    kinds = ("title", "minute", "algorithm", "question")
    chosen = [slide for slide in shown if slide.kind in kinds]
    return [Slide(s.kind, "" if s.kind != "title" else s.title, _bare(s.text), s.more)
            for s in chosen]  # fmt: skip


def _bare(text: str) -> str:
    """A question with its choices as a list; any other text as it is."""
    if not text.startswith(ASKED):
        return text
    asked, *choices = re.split(r"<details[^>]*><summary>", text)
    names = [choice.partition("</summary>")[0] for choice in choices[1:]]
    return asked.strip() + "\n\n" + "\n".join(f"- {name}" for name in names)


def slides(notebook) -> list[Slide]:
    """The slides of an executed lesson, in order."""
    shown, section = [], ""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            if not section.startswith(LEFT_OUT):
                _of_outputs(cell, section, shown)
            continue
        blocks = _blocks(cell.source)
        for before, block in zip(["", *blocks], blocks, strict=False):
            if block.startswith("## "):
                section = block.removeprefix("## ").partition("\n")[0]
                if not section.startswith(LEFT_OUT):
                    shown.append(Slide("section", section))
            elif not section.startswith(LEFT_OUT):
                _of_text(block, section, shown)
                if section and before.endswith(":") and block.startswith("- "):
                    _listed(before, block, section, shown)
    shown.sort(key=lambda slide: 2 * (slide.title == "Summary") + (slide.kind == "found"))
    return [s for i, s in enumerate(shown) if s.text or s.more or _last_of(shown, i)]


def _last_of(shown: list[Slide], i: int) -> bool:
    """Whether a slide without text is all that its section has."""
    return not any(other.title == shown[i].title for other in shown[i + 1 :])


def _blocks(source: str) -> list[str]:
    """Paragraphs of Markdown; a heading alone, a quotation with its empty lines."""
    source = re.sub(r"^(#+ .*)\n(?!\n)", r"\1\n\n", source, flags=re.M)
    return [block.strip("\n") for block in re.split(r"\n\s*\n", source) if block.strip()]


def _of_text(block: str, section: str, shown: list[Slide]) -> None:
    """What a paragraph adds to the slides."""
    if block.startswith("# "):
        shown.append(Slide("title", block.removeprefix("# ")))
    elif shown and shown[-1].kind == "title" and not shown[-1].text and block[0] not in ">*#":
        shown[-1].text = block
    elif block.startswith("> **"):
        for part in re.split(r"\n>\s*\n", block):
            text = re.sub(r"^> ?", "", part, flags=re.M)
            if section:
                shown.append(Slide("quote", section, text))
            elif shown and shown[-1].kind == "minute" and "\n\n" not in shown[-1].text:
                shown[-1].text += "\n\n" + text
            else:
                shown.append(Slide("minute", "In one minute", text))
    elif PREDICT in block:
        shown.append(Slide("predict", section, block))
    elif block.startswith(SEEN):
        _seen(block, section, shown)
    elif section == "Summary" and block.startswith("- "):
        shown[-1].text = block
    elif block.startswith(REASON) or "$$" in block:
        _opened(block, section, shown)


def _opened(block: str, section: str, shown: list[Slide]) -> None:
    """A reason or an equation goes to the slide that opens its section."""
    home = next((s for s in reversed(shown) if s.kind == "section" and s.title == section), None)
    if home is None or home.text.count("$$") >= 2 * EQUATIONS:
        return
    if block.startswith(REASON):
        block = _sentences(block, 4)
    home.text = f"{home.text}\n\n{block}".strip()


def _listed(before: str, block: str, section: str, shown: list[Slide]) -> None:
    """A list goes below the sentence that announces it."""
    home = shown[-1] if shown and shown[-1].text.endswith(before) else None
    if home is None:
        shown.append(home := Slide("list", section, before))
    home.text += f"\n\n{block}"


def _seen(text: str, section: str, shown: list[Slide]) -> None:
    """Two sentences below the figure, the others on the next slide."""
    paragraph, _, further = text.partition("\n\n")
    paragraph, first = " ".join(paragraph.split()), ""
    if shown and shown[-1].kind == "figure" and not shown[-1].text:
        first = shown[-1].text = _sentences(paragraph, 2)
    if rest := f"{paragraph.removeprefix(first).strip()}\n\n{further}".strip():
        shown.append(Slide("seen", section, rest))


def _sentences(text: str, most: int) -> str:
    """The first sentences of a paragraph; none is cut in a formula or an abbreviation."""
    parts = re.split(r"(?<=[.!?])\s+(?=[A-Z*$])", text)
    label = re.fullmatch(r"\*\*[^*]+\*\*( \([^)]*\))?[.:]?", parts[0]) is not None
    return " ".join(parts[: most + label])


def _of_outputs(cell, section: str, shown: list[Slide]) -> None:
    """What the outputs of a cell add to the slides."""
    for output in cell.outputs:
        data = output.get("data", {})
        text = re.sub(r"</?div[^>]*>\n*", "", data.get("text/markdown", "")).strip()
        text = re.sub(r"^> ?", "", text, flags=re.M)
        if "image/png" in data:
            alt = html.escape(alternative(output))
            source = data["image/png"].replace("\n", "")
            image = f'<img src="data:image/png;base64,{source}" alt="{alt}">'
            shown.append(Slide("figure", section or "A round", more=image))
        elif cell.source.startswith("algorithm(") and "text/html" in data:
            shown.append(Slide("algorithm", "The algorithm", more=quiet(data["text/html"])))
        elif text.startswith(RULE):
            shown.append(Slide("rule", section, text))
        elif _open(cell) and "<table" in data.get("text/html", ""):
            shown.append(Slide("table", section, more=quiet(data["text/html"])))
        elif _open(cell) and 0 < output.get("text", "").count("\n") <= PRINTED:
            shown.append(
                Slide("printed", section, more=f"<pre>{html.escape(output['text'])}</pre>")
            )
        elif text.startswith(FOUND):
            shown.append(Slide("found", "What we found", text))
        elif text.startswith(ASKED):
            shown.append(Slide("question", section, text))
        elif text and section:
            _seen(text, section, shown)
    lines = cell.source.strip().count("\n") + 1
    if "from scratch" in section and LEAST <= lines <= MOST and not cell.metadata.get("jupyter"):
        code = highlight(cell.source, get_lexer_by_name("python"), HtmlFormatter())
        shown.append(Slide("code", section, more=code))
    records = records_in(nbformat.v4.new_notebook(cells=[cell]))
    for at in range(0, len(records), VERDICTS):
        rows = "".join(f"<tr><td>{html.escape(r['claim'])}</td><td>{html.escape(r['verdict'])}"
                       "</td></tr>" for r in records[at : at + VERDICTS])  # fmt: skip
        head = '<tr><th scope="col">Claim</th><th scope="col">Verdict</th></tr>'
        table = f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>"
        shown.append(Slide("verdicts", section, more=table))


def _open(cell) -> bool:
    """Whether a reader sees what the cell does; what it shows then has a slide."""
    return not (cell.metadata.get("jupyter") or cell.metadata.get("tags"))


def _html(slide: Slide, page: Path, site: Site) -> str:
    level = "#" if slide.kind == "title" else "##"
    heading = f"{level} {slide.title}\n\n" if slide.title else ""
    body = Renderer().render(heading + slide.text)
    body = re.sub(r'(<h[12]) id="[^"]*"', r"\1", body)  # many slides have one heading
    return str(localized(body + slide.more, ROOT / "notebooks", page, site))
