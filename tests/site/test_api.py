"""The reference: every public name, with what its docstring says of shapes, units and errors."""

import ast
import re
from html import unescape
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import fedtutor
from fedtutor.engine.files import ROOT
from fedtutor.site.api import FOLDER, inline, prose, write_reference
from fedtutor.site.pages import Site, write_index

HOME = ROOT / "fedtutor"
WINGS = sorted(path.parent.name for path in HOME.glob("*/__init__.py"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    site = Site(tmp_path_factory.mktemp("site"), {})
    write_index(site, [], write_reference(site))
    return site.folder


def page(folder: Path, name: str) -> str:
    return (folder / FOLDER / f"{name}.html").read_text(encoding="utf-8")


def part(text: str, anchor: str) -> str:
    """What stands below the heading with this anchor, in plain words."""
    found = re.search(rf'id="{re.escape(anchor)}">(.*?)(?=<h[1-4] |</main>)', text, flags=re.S)
    assert found, anchor
    return " ".join(unescape(re.sub(r"</?(h|p|pre|ul|li)[^>]*>|<[^>]+>", _gap, found[1])).split())


def _gap(tag: re.Match) -> str:
    return " " if tag[1] else ""


def defined(path: Path) -> list[str]:
    """The public functions and classes that a file defines at its top."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [node.name for node in tree.body if isinstance(node, kinds) and node.name[0] != "_"]


def test_there_is_a_page_for_the_door_the_core_and_every_wing(folder):
    names = {path.stem for path in (folder / FOLDER).glob("*.html")}
    assert names == {"index", "core", *WINGS} and len(WINGS) == 14


@pytest.mark.parametrize("wing", ["core", *WINGS])
def test_every_public_name_of_a_wing_has_its_part(folder, wing):
    text, top = page(folder, wing), HOME if wing == "core" else HOME / wing
    files = [path for path in (top.glob("*.py") if wing == "core" else top.rglob("*.py"))
             if path.name[0] != "_"]  # fmt: skip
    wanted = [f"{'.'.join(path.relative_to(top).with_suffix('').parts)}.{name}"
              for path in files for name in defined(path)]  # fmt: skip
    assert len(wanted) > 4
    assert [name for name in wanted if f'id="{name}"' not in text] == []
    assert set(re.findall(r'<h3 id="([^"]*)"', text)) == {*wanted}  # and nothing that is imported
    assert not re.search(r'id="[^"]*\._', text)


def test_every_name_at_the_door_leads_to_its_part(folder):
    text = page(folder, "index")
    links = dict(re.findall(r'<a href="([\w.#]+)"><code>(\w+)</code>', text))
    for name in fedtutor.__all__:
        (link,) = {link for link, word in links.items() if word == name}
        target, _, anchor = link.partition("#")
        assert not anchor or f'id="{anchor}"' in page(folder, target.removesuffix(".html"))
    assert links["core.html#federation.Federation"] == "Federation"
    assert links["methods.html"] == "methods"


def test_losses_show_signatures_shapes_units_and_equations(folder):
    text = page(folder, "losses")
    found = part(text, "fedcsd.prototype_similarity")
    assert "prototype_similarity(z: Tensor, prototypes: Tensor) -> Tensor" in found
    assert "z: [batch, d], prototypes: [classes, d]" in found and "FedCSD Eq. 8" in found
    assert "in nats" in part(text, "repshare.information_bound")
    for path in (HOME / "losses").glob("[a-z]*.py"):  # what a loss raises, where one does
        for name in re.findall(r"Raises `(\w+)`", path.read_text(encoding="utf-8")):
            assert f"Raises <code>{name}</code>" in text


def test_errors_and_units_are_shown(folder):
    raised = part(page(folder, "papers"), "verdicts.verdict")
    assert "Raises SettingError for values that are no numbers." in raised
    assert "Raises DataError for other types" in part(
        page(folder, "datasets"), "bundled.from_arrays"
    )
    assert "in percent" in part(page(folder, "report"), "tables.accuracy")


def test_classes_show_their_fields_bases_and_methods(folder):
    core = page(folder, "core")
    assert "lr: float = 0.01" in part(core, "settings.Settings")
    assert "Raises a FedtutorError where scenario" in part(core, "federation.Federation")
    assert "# a FedtutorError" in part(core, "errors.DataError")
    assert 'id="federation.Federation.each"' in core and 'id="methods"' not in core
    assert 'id="asking.ask"' in page(folder, "engine")
    assert "repshare.RepShare.local_loss" in page(folder, "methods")
    assert 'id="shared.public"' in page(folder, "methods")


def test_pages_are_sound_and_load_nothing(folder):
    for path in (folder / FOLDER).glob("*.html"):
        text = path.read_text(encoding="utf-8")
        ids = re.findall(r' id="([^"]*)"', text)
        assert len(ids) == len(set(ids)), path
        levels = [int(n) for n in re.findall(r"<h([1-6])\b", text)]
        assert levels[0] == 1 and levels.count(1) == 1
        assert max((b - a for a, b in pairwise(levels)), default=0) <= 1, path
        assert not re.search(r"<script|<iframe|@import|url\(", text)
        for link in re.findall(r'<a[^>]* href="([^"]*)"', text):
            parts = urlsplit(link)
            target = path.parent / unquote(parts.path) if parts.path else path
            assert target.is_file() and not parts.scheme, link
            if parts.fragment:
                assert f'id="{unquote(parts.fragment)}"' in target.read_text(encoding="utf-8")


def test_the_contents_page_leads_to_the_reference(folder):
    index = (folder / "index.html").read_text(encoding="utf-8")
    assert f'href="{FOLDER}/index.html"' in index


@pytest.mark.parametrize("text, html", [
    ("A `name` & <more>.", "<p>A <code>name</code> &amp; &lt;more&gt;.</p>"),
    ("One\nline.\n\nTwo.", "<p>One line.</p>\n<p>Two.</p>"),
    ("- a\n  b\n- c", "<ul><li>a b</li><li>c</li></ul>"),
    ("See:\n\n    x = 1\n    y", "<p>See:</p>\n<pre>    x = 1\n    y</pre>"),
    ("a.py    <one>\nbee.py  two", "<pre>a.py    &lt;one&gt;\nbee.py  two</pre>"),
    ("", ""),
])  # fmt: skip
def test_docstrings_as_html(text, html):
    assert prose(text) == html


def test_one_line_has_no_line_breaks():
    assert inline("a\n  `b`") == "a <code>b</code>"
