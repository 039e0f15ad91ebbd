"""The pages: sound HTML, live links, nothing loaded, math and figures for every reader."""

import base64
import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from support import browser
from support.screenreader import as_text

from fedtutor.engine.files import ROOT
from fedtutor.errors import StorageError
from fedtutor.site.mathml import mathml
from fedtutor.site.pages import CLAIM, Site, parsed, slug, title_of, write_index, write_page

PIXEL = base64.b64encode(bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63f8ff"
    "ffff7f0009fb03fd2a86e38a0000000049454e44ae426082")).decode()  # fmt: skip
ALT = 'Two "bars": FedAvg > solo. Bars of accuracy, one per method; the second is higher.'
WORDS = "Bars of accuracy, one per method; the second is higher."
FIRST = r"""# 00 · First: math & links, `x < y`

[home](../README.md), [loop](../fedtutor/rounds.py), [data](../data/README.md),
[next](01_second.ipynb), [section](01_second.ipynb#2.-Same), [gone](02_absent.ipynb),
[folder](../data/bundled), [outside](../../secret.txt), [nothing](../absent.md), [paper](https://arxiv.org/abs/1602.05629),
[below](#2.-Same), <a href="../README.md#the-notebooks">raw</a>

## 1. Same

Inline $\sum_{k} \frac{n_k}{n} F_k(w)$ and

$$w_k \leftarrow \text{some epochs of SGD on } F_k
\qquad\qquad w \leftarrow \sum_{k=1}^{K}\frac{n_k}{n}\,w_k$$

## 2. Same

<details><summary>Hint</summary>

Think of *drift*: $\lambda < 1$.

</details>

| a | b |
|---|---|
| 1 | `x < y` |

```python
def nothing(): ...
```

![far away](https://example.org/picture.png)
"""
FRAME = """<div><style scoped>.dataframe th {}</style><script>alert(1)</script>
<table border="1" class="dataframe"><thead><tr style="text-align: right;"><th></th><th>a</th></tr>
</thead><tbody><tr><th>0</th><td>1</td></tr></tbody></table></div>"""
WIDGET = "application/vnd.jupyter.widget-view+json"


def shown(data, **metadata):
    return new_output("display_data", data=data, metadata=metadata)


def first() -> nbformat.NotebookNode:
    long = "x = '" + "long " * 60 + "'"
    outputs = [
        new_output("stream", name="stdout", text="\x1b[31mred\x1b[0m <b> & " + "wide " * 60),
        shown(
            {"image/png": PIXEL, "text/plain": WORDS}, **{"image/png": {"alt": ALT, "width": 760}}
        ),
        shown({"text/html": FRAME, "text/plain": "   a\n0  1"}),
        shown({"image/png": PIXEL, "text/plain": "<Figure size 640x480 with 1 Axes>"}),
        shown({WIDGET: {"model_id": "1"}, "text/plain": "Slider for β. " + WORDS}),
        shown({"application/javascript": "alert(2)", "text/plain": "no script"}),
        new_output("error", ename="ValueError", evalue="bad", traceback=["\x1b[31mbad <x>\x1b[0m"]),
    ]
    return new_notebook(cells=[
        new_markdown_cell(FIRST), new_code_cell(long, outputs=outputs),
        new_markdown_cell("## 2. Same"),
    ])  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """Two made notebooks, whose page names say where they come from, as a site."""
    folder = tmp_path_factory.mktemp("site")
    second = new_notebook(
        cells=[new_markdown_cell("# 01 · Second\n\n[back](00_first.ipynb)\n\n## 2. Same")]
    )
    (folder / "executed").mkdir()
    sources = []
    for stem, notebook in {"00_first": first(), "01_second": second}.items():
        sources.append(folder / "executed" / f"{stem}.ipynb")
        nbformat.write(notebook, sources[-1])
    return written(folder, sources, status="3 s; claims: 2 undecided", failed=["00_first"])


def written(folder: Path, sources: list[Path], *, status: str = "1 s", failed=()) -> Path:
    titles = {f"{path.stem}.html": title_of(nbformat.read(path, as_version=4)) for path in sources}
    suite = Site(folder, titles)
    for path in sources:
        write_page(path, suite)
    write_index(suite, [{"page": f"{path.stem}.html", "status": status,
                         "failed": path.stem in failed} for path in sources])  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def committed(tmp_path_factory) -> Path:
    """The notebooks as they are committed, as a site."""
    sources = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
    return written(tmp_path_factory.mktemp("committed"), sources)


@pytest.fixture(params=["site", pytest.param("committed", marks=pytest.mark.slow)])
def any_site(request) -> Path:
    return request.getfixturevalue(request.param)


class Elements(HTMLParser):
    """Every element with its attributes; fails where tags do not nest."""

    VOID = frozenset(("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta"))

    def __init__(self, text: str):
        super().__init__()
        self.open, self.seen = [], []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"an attribute twice in <{tag}>"
        self.seen.append((tag, dict(attrs)))
        if tag in ("p", "div", "table", "ul", "h1", "h2", "h3", "pre", "figure", "details"):
            assert "p" not in self.open, f"<{tag}> in <p>, line {self.getpos()[0]}"
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert tag in self.VOID, f"<{tag}/>"
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()

    def all(self, tag: str) -> list[dict]:
        return [about for name, about in self.seen if name == tag]


def pages(folder: Path) -> dict[Path, str]:
    return {path: path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.html"))}


def test_every_page_is_sound_html(any_site):
    for path, text in pages(any_site).items():
        elements = Elements(text)
        assert text.startswith("<!DOCTYPE html>"), path
        assert elements.all("html") == [{"lang": "en"}]
        assert len(elements.all("h1")) == 1, path
        assert len(elements.all("main")) == len(elements.all("title")) == 1
        ids = [about["id"] for _, about in elements.seen if "id" in about]
        assert len(ids) == len(set(ids)), path
        labels = [about["aria-label"] for about in elements.all("nav")]
        assert len(labels) == len(set(labels)), path


def test_headings_go_down_one_level_at_a_time(any_site):
    for path, text in pages(any_site).items():
        levels = [int(n) for n in re.findall(r"<h([1-6])\b", text)]
        steps = [b - a for a, b in pairwise(levels)]
        assert levels[0] == 1 and max(steps, default=0) <= 1, path


def test_no_page_loads_anything(any_site):
    """No frame or font, a script only where a reader looks up, every source in the page itself."""
    for path, text in pages(any_site).items():
        scripts = {"search.html": 2, "results.html": 1}.get(path.name, 0)
        text = re.sub(r"(<script[^>]*>).*?</script>", r"\1</script>", text, flags=re.DOTALL)
        assert text.count("<script") == scripts, path
        for tag, about in Elements(text).seen:
            assert tag not in ("iframe", "object", "embed", "base", "video"), path
            assert not any(name.startswith("on") or name == "srcset" for name in about), path
            if tag == "link" or "src" in about:
                assert (about.get("src") or about.get("href")).startswith("data:"), path
        style = "".join(re.findall(r"<style>(.*?)</style>", text, flags=re.DOTALL))
        assert style and not re.search(r"url\(|@import|@font-face|<", style), path


def test_every_link_leads_somewhere(any_site):
    count = 0
    for path, text in pages(any_site).items():
        for about in Elements(text).all("a"):
            parts = urlsplit(about["href"])
            if parts.scheme:
                assert parts.scheme in ("http", "https"), about
                continue
            target = path.parent / unquote(parts.path) if parts.path else path
            assert target.is_file(), (path, about)
            assert target.resolve().is_relative_to(any_site.resolve()), about
            if parts.fragment:
                anchor = f'id="{unquote(parts.fragment)}"'
                assert anchor in target.read_text(encoding="utf-8"), (path, about)
            count += 1
    assert count > 20


def test_links_to_files_notebooks_and_headings(site):
    text = (site / "00_first.html").read_text(encoding="utf-8")
    links = dict(re.findall(r'<a[^>]*href="([^"]*)"[^>]*>([^<]*)</a>', text))
    assert links["source/README.md.html"] == "home"
    assert links["source/README.md.html#the-notebooks"] == "raw"
    assert links["source/fedtutor/rounds.py.html"] == "loop"
    assert links["01_second.html#2-same"] == "section"
    assert links["https://arxiv.org/abs/1602.05629"] == "paper"
    assert "gone (not in this site)" in text
    assert "folder (<code>data/bundled</code>)" in text
    assert "outside (<code>../../secret.txt</code>)" in text
    assert "nothing (<code>absent.md</code>)" in text
    assert "[far away: <code>https://example.org/picture.png</code>]" in text


def test_linked_files_are_pages_themselves(site):
    code = (site / "source/fedtutor/rounds.py.html").read_text(encoding="utf-8")
    assert "<h1>fedtutor/rounds.py</h1>" in code and '<span class="k">def</span>' in code
    start = as_text((site / "source/README.md.html").read_text(encoding="utf-8"))
    assert "00 Start here (not in this site)" in start  # this site has another notebook 00


def test_contents_of_a_page_are_its_sections(site):
    text = (site / "00_first.html").read_text(encoding="utf-8")
    nav = text.partition('class="contents">')[2].partition("</nav>")[0]
    assert re.findall(r'<a href="#([^"]*)">([^<]*)</a>', nav) == [
        ("1-same", "1. Same"), ("2-same", "2. Same"), ("2-same-2", "2. Same")
    ]  # fmt: skip


def test_neighbors(site):
    one, two = (
        (site / name).read_text(encoding="utf-8") for name in ("00_first.html", "01_second.html")
    )
    following = '<a href="01_second.html" rel="next">Next: 01 · Second</a>'
    assert one.count(following) == 2 and 'rel="prev"' not in one
    assert two.count('<a href="00_first.html" rel="prev">Previous: 00 · First</a>') == 2
    assert 'rel="next"' not in two and 'href="index.html">All notebooks' in two


def test_the_contents_page(site):
    text = (site / "index.html").read_text(encoding="utf-8")
    assert CLAIM in text and '<a href="00_first.html">00 · First</a>' in text
    assert "<p>Math &amp; links, x &lt; y.</p>" in text
    assert '<a href="00_first.html#1-same">1. Same</a>' in text
    assert text.count('class="run failed"') == 1 and "3 s\nclaims: 2 undecided" in text


def test_outputs(site):
    text = (site / "00_first.html").read_text(encoding="utf-8")
    images = Elements(text).all("img")
    assert [image["alt"] for image in images] == [ALT, "A picture without a description"]
    assert images[0]["width"] == "760"
    assert '<th scope="col">a</th>' in text and '<th scope="row">0</th>' in text
    assert "alert(" not in text and "no script" in text
    assert "This cell failed." in text and '<span class="ansi-red-fg">bad &lt;x&gt;</span>' in text


def collapsed(tmp_path: Path, source: str, metadata: dict) -> str:
    """The page of a notebook with one code cell that has shown a text."""
    ran = [new_output("stream", name="stdout", text="what it shows")]
    cell = new_code_cell(source, metadata=metadata, outputs=ran)
    path = tmp_path / "executed" / "00_one.ipynb"
    path.parent.mkdir()
    nbformat.write(new_notebook(cells=[new_markdown_cell("# 00 · One"), cell]), path)
    return (written(tmp_path, [path]) / "00_one.html").read_text(encoding="utf-8")


def test_a_collapsed_cell_is_behind_show_code_and_its_output_in_the_open(tmp_path):
    text = collapsed(tmp_path, "a = 1\nb = 2\n", {"jupyter": {"source_hidden": True}})
    Elements(text)
    found = re.findall(r'<details class="hidden-code">(.*?)</details>', text, flags=re.DOTALL)
    assert len(found) == 1 and "<summary>show code (2 lines)</summary>" in found[0]
    assert '<div class="input">' in found[0] and "what it shows" not in found[0]
    assert "what it shows" in text and text.count('class="input"') == 1
    assert '<details class="hidden-code" open' not in text
    assert "show code (2 lines)" in as_text(text)


@pytest.mark.parametrize("metadata", [{}, {"jupyter": {}}, {"jupyter": {"source_hidden": False}}])
def test_any_other_cell_is_open(tmp_path, metadata):
    text = collapsed(tmp_path, "a = 1", metadata)
    assert "show code" not in text and '<div class="input">' in text


def test_a_collapsed_cell_can_be_unfolded_and_read(tmp_path):
    text = collapsed(tmp_path, "answer = 42", {"jupyter": {"source_hidden": True}})
    assert "show code (1 line)</summary>" in text
    assert "answer = 42" in parsed(text).find("details", class_="hidden-code").get_text()


def test_a_reader_without_pictures_gets_the_words(site):
    text = as_text((site / "00_first.html").read_text(encoding="utf-8"))
    assert f"[Figure: {ALT}]" in text
    assert "# 00 · First: math & links, x < y" in text and "\n## 2. Same\n" in text
    assert r"Inline \sum_{k} \frac{n_k}{n} F_k(w) and" in text
    assert "Slider for β. " + WORDS in text
    assert "Hint" in text and "Think of drift" in text
    assert "@media" not in text and "data:image" not in text


def test_every_committed_figure_says_what_it_shows(committed):
    for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        text = as_text((committed / f"{path.stem}.html").read_text(encoding="utf-8"))
        figures = re.findall(r"\[Figure: (.*?)\]\n", text, flags=re.DOTALL)
        drawn = [o["data"] for cell in notebook["cells"] for o in cell.get("outputs", [])
                 if "image/png" in o.get("data", {})]  # fmt: skip
        assert len(figures) == len(drawn) > 0
        for said, data in zip(figures, drawn, strict=True):
            words = " ".join("".join(data["text/plain"]).split())
            assert len(words.split()) >= 8 and words in said, path.name


def test_every_committed_equation_is_mathml(committed):
    for path, text in pages(committed).items():
        assert '<code class="latex">' not in text, path
    assert sum(text.count("<math") for text in pages(committed).values()) > 10


# ---------------------------------------------------------------------------------------- math


@pytest.mark.parametrize(
    ("latex", "piece"),
    [
        (r"\sum_{k=1}^{K} w_k", "<munderover><mo>∑</mo>"),
        (r"\text{some epochs of } F", "<mtext>some\u00a0epochs\u00a0of\u00a0</mtext>"),
        (r"a \qquad b", '<mspace width="2em"></mspace>'),
        (r"w \leftarrow v", "<mo>←</mo>"),
        (r"\frac{n_k}{n}", "<mfrac><mrow><msub><mi>n</mi><mi>k</mi></msub></mrow><mrow><mi>n</mi>"),
        (r"\arg\min_w F", '<munder><mo movablelimits="true" lspace="0" rspace="0">arg min</mo>'),
        (r"\operatorname*{arg\,max}_w F", ">arg max</mo><mi>w</mi></munder>"),
        (r"\max_k x", ">max</mo><mi>k</mi></munder>"),
        (r"\operatorname{softmax}(z)", "<mi>softmax</mi><mo "),
        (r"\log x", '<mi>log</mi><mspace width="0.167em"></mspace><mi>x</mi>'),
        (r"\log(x)", "<mi>log</mi><mo "),
        (r"\mathrm{KL}(p\|q)", "<mi>KL</mi>"),
        (r"\bm{x}", "<mi>𝒙</mi>"),
        (r"\boldsymbol{\mu}", "<mi>𝝁</mi>"),
        (r"\mathbb{1}", "<mn>𝟙</mn>"),
        (r"\mathcal{L}_{CE}", "<mi>ℒ</mi>"),
        (r"x \sim D", "<mo>∼</mo>"),
        (r"|x|", '<mo stretchy="false" lspace="0" rspace="0">|</mo>'),
        (r"w^{t+1}", '<mo lspace="0" rspace="0">+</mo>'),
        (r"\exp(-x)", '<mo form="prefix">−</mo>'),
        (r"\begin{aligned} a &= b \\ c &= d \end{aligned}", '<mtd class="right"><mi>a</mi></mtd>'),
        (r"\begin{cases} 1 & x<y \\ 0 \end{cases}", "<mo>&lt;</mo>"),
        (r"a \tag{3}", "<mtext>(3)</mtext>"),
        (r"a\!b", 'width="-0.167em"'),
    ],
)
def test_math(latex, piece):
    drawn = mathml(latex, block=True)
    assert piece in drawn
    Elements(drawn)
    assert drawn.startswith('<span class="equation"><math display="block" alttext="')
    assert "mathvariant" not in drawn.replace('mathvariant="normal"', "")


def test_math_in_a_line_is_no_block():
    assert mathml("x").startswith('<math alttext="x">')


@pytest.mark.parametrize("latex", [r"\unheardof x", r"\frac{a", "a_{", r"\left( x"])
def test_math_that_cannot_be_converted_shows_its_source(latex):
    assert mathml(latex) == f'<code class="latex">{latex}</code>'


# --------------------------------------------------------------------------------------- the rest


def test_slug():
    assert slug("1. The <em>idea</em>: weights &amp; β") == "1-the-idea-weights-β"
    assert slug("?!") == "section"


def test_title_of_a_notebook_without_heading():
    assert title_of(new_notebook(cells=[new_code_cell("# no heading")])) == "untitled"


def test_links_count_from_where_the_notebook_lay(tmp_path):
    notebook = new_notebook(cells=[new_markdown_cell("# S\n\n[home](../../README.md)")])
    notebook.metadata["papermill"] = {"input_path": str(ROOT / "notebooks/solutions/00.ipynb")}
    nbformat.write(notebook, tmp_path / "00.ipynb")
    write_page(tmp_path / "00.ipynb", Site(tmp_path, {"00.html": "S"}))
    assert 'href="source/README.md.html"' in (tmp_path / "00.html").read_text(encoding="utf-8")


def test_a_folder_that_is_a_file_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write"):
        write_index(Site(tmp_path / "file", {}), [])


# -------------------------------------------------------------------------------------- Chromium


@pytest.mark.skipif(browser.find() is None, reason="needs Chromium")
@pytest.mark.parametrize("width", [1280, 400])
def test_in_chromium_nothing_sticks_out_and_everything_is_seen(any_site, width):
    for path in any_site.rglob("*.html"):
        if path.parent.name == "published" or path.suffixes[0] == ".py":
            continue  # pages of the same kind as others
        seen = browser.measure(path, width=width)
        assert seen["width"] == width
        assert seen["content"] <= width and seen["wide"] == 0, path.name
        assert seen["loaded"] == [], path.name
        assert all(loaded for loaded, *_ in seen["images"])
        assert all(w > 4 and h > 6 for w, h in seen["math"]), path.name
        assert seen["folded"] == 0
        if path.stem == "00_start_here":
            assert len(seen["images"]) >= 6 and len(seen["math"]) >= 10
            assert all(w >= min(width, 760) - 32 for _, w, _ in seen["images"])
        if path.stem in ("00_start_here", "00_first"):
            assert seen["sums"] >= 1  # limits stand below the sum
