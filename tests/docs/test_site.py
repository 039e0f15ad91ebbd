"""The site: what a reader would miss. Two lessons and a few pages of it are built, once."""

import json
import re
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import pytest
from devtools import Browser
from nbformat.v4 import new_markdown_cell
from support import browser

from fedtutor import papers
from fedtutor.engine.files import ROOT

pytestmark = pytest.mark.slow
BUILD = """
import json, sys
from pathlib import Path
from docs.__main__ import build
build(Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]))
"""
PAGES = {
    "Lessons": ["notebooks/03_*.ipynb", "notebooks/03b_*.ipynb"],
    "Pages": ["fedtutor/methods/README.md", "data/README.md", "glossary.md", "docs/results.md"],
}
(LESSON,), (TABLES,) = (list((ROOT / "notebooks").glob(f"{n}_*.ipynb")) for n in ("03", "03b"))


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    """The small site; its second lesson has just been executed."""
    folder = tmp_path_factory.mktemp("docs")
    notebook = nbformat.read(TABLES, as_version=4)
    notebook.cells.insert(1, new_markdown_cell("Executed a moment ago."))
    (folder / "executed").mkdir()
    nbformat.write(notebook, folder / "executed" / TABLES.name)
    words = [folder / "site", folder / "executed", json.dumps(PAGES)]
    subprocess.run([sys.executable, "-c", BUILD, *words], cwd=ROOT, check=True)
    return folder / "site"


class Elements(HTMLParser):
    """Every element of a page with its attributes, as `seen`, and the text, as `said`."""

    def __init__(self, path: Path):
        super().__init__()
        self.seen, self.said, self.quiet = [], "", 0
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        self.quiet += tag in ("script", "style", "pre", "code")

    def handle_endtag(self, tag):
        self.quiet -= tag in ("script", "style", "pre", "code")

    def handle_data(self, data):
        self.said += data * (not self.quiet)

    def all(self, tag: str) -> list[dict]:
        return [about for name, about in self.seen if name == tag]


def pages(site: Path) -> list[Path]:
    return [path for path in site.rglob("*.html") if "_static" not in path.parts]


def lesson(site: Path) -> Path:
    return site / "notebooks" / f"{LESSON.stem}.html"


def slides(site: Path) -> Path:
    return site / "slides" / f"{LESSON.stem}.html"


def test_a_folded_cell_is_behind_a_fold_and_its_output_in_the_open(site):
    cells = nbformat.read(LESSON, as_version=4).cells
    folded = [cell for cell in cells if cell.metadata.get("jupyter", {}).get("source_hidden")]
    page = Elements(lesson(site))
    folds = [a for a in page.all("details") if "hide" in a.get("class", "")]
    assert len(folds) == len(folded) > 0
    assert not any("open" in fold for fold in folds)
    assert page.said.count("Show the code") == len(folded)
    assert "What we found" in page.said


@pytest.mark.parametrize("page", [lesson, slides])
def test_formulas_are_mathml_with_their_latex_for_readers_by_ear(site, page):
    drawn = Elements(page(site))
    assert len(drawn.all("math")) > 50
    assert all(about["alttext"] for about in drawn.all("math"))
    assert "$" not in drawn.said and "\\mathcal" not in drawn.said


@pytest.mark.parametrize("page", [lesson, slides])
def test_every_figure_says_what_it_shows(site, page):
    outputs = [
        out
        for cell in nbformat.read(LESSON, as_version=4).cells
        for out in cell.get("outputs", [])
        if "exercise" not in cell.metadata.get("tags", [])
        if "image/png" in out.get("data", {})
    ]
    said = [about.get("alt", "") for about in Elements(page(site)).all("img")]
    assert said == [" ".join(out.metadata["image/png"]["alt"].split()) for out in outputs] != []


def test_no_page_loads_anything_from_elsewhere(site):
    for path in pages(site):
        for tag, about in Elements(path).seen:
            address = about.get("src") or (tag == "link" and about.get("href")) or ""
            assert not re.match(r"(https?:)?//", address), (path.name, address)
    for path in site.rglob("*.css"):
        assert not re.search(r"url\(\W?(https?:)?//", path.read_text(encoding="utf-8")), path.name


def test_every_link_leads_somewhere(site):
    read = {path: Elements(path) for path in pages(site)}
    named = {
        path: {about["id"] for _, about in page.seen if about.get("id")}
        for path, page in read.items()
    }
    count = 0
    for path, page in read.items():
        for tag, about in page.seen:
            address = urlsplit(about.get("href") or about.get("src") or "")
            if address.scheme or (tag == "a" and path.parent.name == "slides" and not address.path):
                continue
            target = (path.parent / unquote(address.path)).resolve() if address.path else path
            assert target.is_file(), (path.name, address)
            at = unquote(address.fragment)
            if at and target.name != "results.html":
                assert at in named[target], (path.name, address)
            count += 1
    assert count > 200


def test_a_link_to_what_has_no_page_is_plain_text(site):
    page = Elements(site / "fedtutor" / "methods" / "README.html")
    assert not [a for a in page.all("a") if a["href"].endswith(".py")]


def test_the_search_finds_the_lesson_on_drift(site):
    text = (site / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    names = set()
    for kind in ("terms", "titleterms"):
        found = index[kind].get("drift", [])
        names |= {index["docnames"][n] for n in (found if isinstance(found, list) else [found])}
    assert f"notebooks/{LESSON.stem}" in names


def test_a_notebook_that_was_just_executed_takes_the_place_of_the_committed_one(site):
    name = f"{TABLES.stem}.html"
    assert "Executed a moment ago." in Elements(site / "notebooks" / name).said
    assert "Executed a moment ago." in Elements(site / "slides" / name).said
    assert "Executed a moment ago." not in Elements(lesson(site)).said


def test_slides_ask_before_they_answer_and_leave_exercises_out(site):
    page = Elements(slides(site))
    assert len(page.all("section")) > 40
    assert "Exercise 1" not in page.said and "Hint" not in page.said
    order = [page.said.rindex(words) for words in ("Predict.", "What we found", "Summary")]
    assert order == sorted(order)


def test_every_claim_and_printed_number_is_in_the_tables(site):
    text = (site / "docs" / "results.html").read_text(encoding="utf-8")
    missing = [name for name in papers.claims().index if f"<b>{name}</b>" not in text]
    assert not missing and text.count('"data_json"') == 2
    assert f"../notebooks/{LESSON.stem}.html" in text


# -------------------------------------------------------------------------------------- Chromium


@pytest.fixture(scope="session")
def chromium():
    if browser.find() is None:
        pytest.skip("needs Chromium")
    with Browser() as opened:
        yield opened


@pytest.mark.parametrize(
    "name, query",
    [
        ("index.html", ""),
        (f"notebooks/{LESSON.stem}.html", ""),
        ("search.html", "?q=drift"),
        ("docs/results.html", ""),
        (f"slides/{LESSON.stem}.html", ""),
    ],
)
def test_nothing_is_asked_of_the_network_and_nothing_fails(chromium, site, name, query):
    page = chromium.open(site / name, query)
    assert [address for address in page.asked if address.startswith("http")] == []
    assert page.errors == []


def test_the_search_page_finds_a_lesson(chromium, site):
    page = chromium.open(site / "search.html", "?q=drift", wait=2)
    links = page.says("[...document.querySelectorAll('#search-results a')].map(a => a.href)")
    assert any(f"/{LESSON.stem}.html" in link for link in links)


def test_a_claim_has_an_address(chromium, site):
    page = chromium.open(site / "docs" / "results.html", "#fedcsd-01", wait=2)
    seen = "[...document.querySelectorAll('tr')].filter((row) => row.checkVisibility())"
    rows = page.says(f"{seen}.map((row) => row.innerText)")
    assert ["fedcsd-01" in row for row in rows if "fedcsd-" in row] == [True]


def test_the_keyboard_begins_with_a_link_to_the_text(chromium, site):
    page = chromium.open(lesson(site))
    page.press("Tab")
    time.sleep(0.5)  # it slides in
    assert page.says("document.activeElement.textContent.trim()") == "Skip to main content"
    assert page.says("document.activeElement.getBoundingClientRect().top >= 0")
    assert page.says("""[...document.querySelectorAll('main pre')].every(box =>
        box.scrollWidth <= box.clientWidth || box.tabIndex === 0)""")


@pytest.mark.parametrize("width", [1280, 400])
def test_nothing_sticks_out(chromium, site, width):
    for path in (site / "index.html", lesson(site), site / "data" / "README.html"):
        page = chromium.open(path, width=width)
        assert page.says("document.documentElement.scrollWidth") <= width, path.name


@pytest.mark.parametrize("dark", [False, True])
def test_text_formulas_and_tables_stand_out_from_the_page(chromium, site, dark):
    """At least 4.5 to 1, as WCAG wants it."""
    page = chromium.open(lesson(site), dark=dark)
    said = page.says(CONTRAST)
    assert {kind for kind, _ in said} == {"p", "math", "td", "code", "summary"}
    assert [each for each in said if each[1] < 4.5] == []


CONTRAST = """(() => {
  const numbers = (color) => (color.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, n) => sum + v * [0.2126, 0.7152, 0.0722][n], 0);
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const color = numbers(getComputedStyle(e).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  return ["p", "math", "td", "code", "summary"].flatMap((kind) =>
    [...document.querySelectorAll(`article ${kind}`)].map((element) => {
      const both = [numbers(getComputedStyle(element).color), behind(element)].map(light);
      return [kind, (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05)];
    }));
})()"""
