"""How a reader finds a word again: what a search looks through, and the index of terms.

A page is cut at its headings. `write_search` writes search.html, which carries all sections and
the site's one script (templates/page/search.js), because a page that is opened from a disk may not
load a second file. `write_terms` writes terms.html: the glossary's words, what they mean, and the
first section of each notebook that uses them.
"""

import json
import re
from pathlib import Path

from bs4 import BeautifulSoup, NavigableString
from jinja2 import Environment, FileSystemLoader

from . import glossary

TEMPLATES = Path(__file__).parent / "templates" / "page"
HEADINGS = ["h1", "h2", "h3", "h4"]
SILENT = ["math", "style", "script", "svg"]
Section = tuple[str, str, str, str, str]  # page, its title, anchor, heading, text


def sections(body: BeautifulSoup, page: str, title: str) -> list[Section]:
    """The text of a page, cut at every heading that has an anchor; code of notebooks left out.

    page: its address from the site's folder; title: what stands before a heading in a result.
    """
    found = [["", "", []]]
    for text in body.find_all(string=True):
        if type(text) is not NavigableString or text.find_parent(SILENT):
            continue
        heading = text.find_parent(HEADINGS)
        if heading is not None and heading.get("id"):
            if found[-1][0] != heading["id"]:
                found.append([heading["id"], heading.get_text(), []])
        elif text.find_parent(class_="input") is None:
            found[-1][2].append(str(text))
    cut = ((anchor, " ".join(head.split()), " ".join(" ".join(words).split()))
           for anchor, head, words in found)  # fmt: skip
    return [(page, title, anchor, head, words) for anchor, head, words in cut if head or words]


def search_body(found: list[Section]) -> str:
    """The body of the search page: a field, the sections as JSON, and the script."""
    data = json.dumps(found, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    script = (TEMPLATES / "search.js").read_text(encoding="utf-8")
    environment = Environment(loader=FileSystemLoader(TEMPLATES))
    return environment.get_template("search.html.j2").render(data=data, script=script)


def terms_body(found: list[Section], suite: dict[str, str]) -> tuple[str, list[tuple[str, str]]]:
    """The body of the index of terms, and its sections (anchor, letter).

    suite: page -> title of the notebooks, in order; a word links to the first section of each
    notebook that uses it.
    """
    rows = []
    for key, (word, meaning) in sorted(glossary.terms().items()):
        uses = first_uses(key, found, suite)
        anchor = "-".join(re.findall(r"\w+", key))
        rows.append({"word": word, "anchor": anchor, "meaning": meaning, "uses": uses})
    letters = {row["word"][0].upper(): row["anchor"] for row in reversed(rows)}
    environment = Environment(loader=FileSystemLoader(TEMPLATES))
    body = environment.get_template("terms.html.j2").render(rows=rows)
    return body, [(anchor, letter) for letter, anchor in sorted(letters.items())]


def first_uses(word: str, found: list[Section], suite: dict[str, str]) -> list[tuple]:
    """(number of the notebook, link, heading) of the first section of each that uses `word`."""
    pattern, uses = re.compile(rf"\b{re.escape(word)}s?\b", re.I), {}
    for page, title, anchor, head, text in found:
        if page in suite and page not in uses and pattern.search(f"{head} {text}"):
            number = title.partition(" · ")[0]
            uses[page] = (number, f"{page}#{anchor}" if anchor else page, head or title)
    return [uses[page] for page in suite if page in uses]
