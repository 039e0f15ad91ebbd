"""What a reader without the pictures gets of a page.

python tests/support/screenreader.py build/00_start_here.html
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path


def as_text(page: str) -> str:
    """The words of a page in reading order, as a screen reader or a text browser has them.

    An image is `[Figure: its description]`, an equation its LaTeX, a heading has its number
    signs, and what is folded is unfolded.
    """
    reader = _Reader()
    reader.feed(page)
    reader.close()
    text = re.sub(r"[ \t]+(?=\n)", "", "".join(reader.words))
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


class _Reader(HTMLParser):
    BREAKS = frozenset(("p", "div", "li", "tr", "pre", "ul", "ol", "figure", "details", "summary",
                        "h1", "h2", "h3", "h4", "blockquote", "br", "hr"))  # fmt: skip
    SILENT = frozenset(("style", "script", "head", "math"))

    def __init__(self):
        super().__init__()
        self.words, self.silent, self.verbatim = [], 0, 0

    def handle_starttag(self, tag, attrs):
        about = dict(attrs)
        if tag == "math" and not self.silent:
            self.words.append(about.get("alttext", "[equation]"))
        elif tag == "img" and not self.silent:
            self.words.append(f"\n\n[Figure: {about.get('alt', '')}]\n\n")
        elif tag in self.BREAKS:
            self.words.append("\n")
        elif tag in ("td", "th"):
            self.words.append("  ")
        if tag in ("h1", "h2", "h3", "h4"):
            self.words.append("\n" + "#" * int(tag[1]) + " ")
        self.silent += tag in self.SILENT
        self.verbatim += tag == "pre"

    def handle_endtag(self, tag):
        self.silent -= tag in self.SILENT
        self.verbatim -= tag == "pre"
        if tag in self.BREAKS:
            self.words.append("\n")

    def handle_data(self, data):
        if not self.silent:
            self.words.append(data if self.verbatim else re.sub(r"\s+", " ", data))


if __name__ == "__main__":
    print(as_text(Path(sys.argv[1]).read_text(encoding="utf-8")))
