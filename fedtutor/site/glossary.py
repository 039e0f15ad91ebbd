"""Words of notebook 00's glossary, explained where a page first uses them."""

import re
from functools import cache

import nbformat
from bs4 import BeautifulSoup, NavigableString, Tag

from ..engine.files import ROOT

NOTEBOOK = "00_start_here"
HEAD = re.compile(r"(?:^|(?<=\. ))(\*\*[^*]+\*\*(?:, \*\*[^*]+\*\*)*): ")
APART = ["a", "code", "pre", "math", "h1", "h2", "h3", "h4", "summary", "th", "script", "style"]


@cache
def terms() -> dict[str, tuple[str, str]]:
    """Word, in lower case -> (as it is written, what the glossary says of it), as plain text."""
    path = ROOT / "notebooks" / f"{NOTEBOOK}.ipynb"
    cells = nbformat.read(path, as_version=4).cells
    source = next(cell.source for cell in cells if cell.source.startswith("## Glossary"))
    found = {}
    for entry in re.split(r"\n- ", source)[1:]:
        entry = " ".join(entry.split())
        heads = list(HEAD.finditer(entry))
        ends = [*(head.start() for head in heads[1:]), len(entry)]
        for head, end in zip(heads, ends, strict=True):
            said = _plain(entry[head.end() : end])
            for word in re.split(r", ", _plain(head[1])):
                found[word.lower()] = word, said[:1].upper() + said[1:]
    return found


def _plain(text: str) -> str:
    return re.sub(r"\*|\$|`", "", text).strip()


def explain(page: BeautifulSoup, target: str) -> None:
    """Mark the first use of each word in the prose of a page: hover text, and a link to `target`.

    Headings, code, formulas and links are left alone. Longer words come first, so that in "client
    drift" nobody marks "client".
    """
    left = dict(sorted(terms().items(), key=lambda pair: -len(pair[0])))
    for text in page.find_all(string=True):
        if not left:
            return
        if text.find_parent(class_="prose") is None or text.find_parent(APART):
            continue
        pieces = _marked(str(text), left, page, target)
        if len(pieces) > 1:
            text.replace_with(*pieces)


def _marked(text: str, left: dict, page: BeautifulSoup, target: str) -> list[str | Tag]:
    """The text in pieces; what is explained is taken out of `left`."""
    pieces: list[str | Tag] = []
    words = "|".join(map(re.escape, left))
    at = 0
    for match in re.finditer(rf"\b({words})s?\b", text, re.I):
        word = match[1].lower()
        if word not in left:
            continue
        link = page.new_tag("a", href=target, title=left.pop(word)[1], attrs={"class": "term"})
        link.string = match[0]
        pieces += [NavigableString(text[at : match.start()]), link]
        at = match.end()
    return [*pieces, NavigableString(text[at:])]
