"""Search and index of terms: every section is found by its words, by the script that is shipped."""

import json
import re
import shutil
import subprocess

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from fedtutor.engine.files import ROOT
from fedtutor.site import finding
from fedtutor.site.pages import Site, citation, parsed, write_index, write_page

SCRIPT = finding.TEMPLATES / "search.js"
BODY = """<h1 id="top">01 · Drift</h1><p>Clients <em>drift</em> apart.</p>
<div class="input"><pre>secret_code()</pre></div><div class="outputs"><pre>42 points</pre></div>
<h2 id="a-cafe">A café</h2><p>Weights &lt; logits. <math><mi>w</mi></math></p><h3>No anchor</h3>
<p>last</p>"""


def cut():
    return finding.sections(parsed(BODY), "01.html", "01 · Drift")


def test_a_page_is_cut_at_its_headings():
    assert cut() == [
        ("01.html", "01 · Drift", "top", "01 · Drift", "Clients drift apart. 42 points"),
        ("01.html", "01 · Drift", "a-cafe", "A café", "Weights < logits. No anchor last"),
    ]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("found")
    output = new_output("stream", text="a silhouette </script> of 0.5")
    notebook = new_notebook(cells=[
        new_markdown_cell("# 07 · Drift: why\\n\\nLogits of a client."),
        new_code_cell("print(1)", outputs=[output]),
        new_markdown_cell("## 1. Prototypes\\n\\nA prototype is a mean."),
    ])  # fmt: skip
    for cell in notebook.cells:
        cell.source = cell.source.replace("\\n", "\n")
    nbformat.write(notebook, folder / "07_drift.ipynb")
    suite = Site(folder, {"07_drift.html": "07 · Drift: why"})
    write_page(folder / "07_drift.ipynb", suite)
    write_index(suite, [{"page": "07_drift.html", "failed": False, "status": ""}])
    return folder


def test_the_search_page_carries_every_section_once(site):
    text = (site / "search.html").read_text(encoding="utf-8")
    data = re.search(r'id="sections"[^>]*>(.*?)</script>', text, re.DOTALL)[1]
    mine = [row for row in json.loads(data) if row[0] == "07_drift.html"]
    assert [row[2:4] for row in mine] == [["07-drift-why", "07 · Drift: why"],
                                          ["1-prototypes", "1. Prototypes"]]  # fmt: skip
    assert mine[0][4] == "Logits of a client. a silhouette </script> of 0.5"
    assert any(row[0].startswith("source/README.md") for row in json.loads(data))


def test_terms_lead_to_the_first_section_that_uses_them(site):
    text = parsed((site / "terms.html").read_text(encoding="utf-8"))
    said = text.find(id="prototype").find_next("dd")
    assert [(link["href"], link.get_text()) for link in said("a")] == [
        ("07_drift.html#1-prototypes", "07")
    ]
    assert not text.find(id="aggregation").find_next("dd")("a")
    assert text.find(id="auc").get_text() == "AUC"


def test_every_page_leads_to_search_and_terms(site):
    for page, up in (("07_drift.html", ""), ("source/README.md.html", "../")):
        text = (site / page).read_text(encoding="utf-8")
        assert f'href="{up}search.html">Search' in text and f'href="{up}terms.html">Terms' in text


def test_a_notebook_says_how_to_cite_it():
    said = citation("03_x", "03 · FedCSD: why *this*")
    assert "title = {03 · FedCSD: why this}" in said and "notebooks/03_x.ipynb" in said
    version = re.search(r"^version: (.+)", (ROOT / "CITATION.cff").read_text(), re.M)[1]
    assert f"fedtutor {version}" in said and said.count("{") == said.count("}")


# ---------------------------------------------------------------------------------- the script


def searched(query: str, sections=None) -> list:
    """Anchors that the shipped script finds, the best first."""
    rows = cut() if sections is None else sections
    asked = f"{json.dumps(rows)}, {json.dumps(query)}"
    job = f"const s = require('{SCRIPT}'); console.log(JSON.stringify(s.find({asked})))"
    done = subprocess.run(["node", "-e", job], check=True, capture_output=True, text=True)
    return [row["anchor"] for row in json.loads(done.stdout)]


needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs node")


@needs_node
@pytest.mark.parametrize(("query", "anchors"), [
    ("drift", ["top", "a-cafe"]), ("WEIGH", ["a-cafe"]), ("cafe", ["a-cafe"]), ("eights", []),
    ("", []), ("clients apart", ["top"]), ("clients weights", []), ("a.*", []), ("42", ["top"]),
])  # fmt: skip
def test_the_script_finds(query, anchors):
    assert searched(query) == anchors


@needs_node
def test_a_heading_counts_more_than_the_text():
    rows = [("p", "t", "text", "x", "mean mean"), ("p", "t", "head", "The mean", "nothing")]
    assert searched("mean", rows) == ["head", "text"]
