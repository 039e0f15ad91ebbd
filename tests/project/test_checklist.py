"""The self-assessment: all questions, an answer to each, and places that exist."""

import json
import re
from urllib.parse import unquote

import pytest
from scipy.stats import t

from fedtutor.engine.files import ROOT
from fedtutor.site.pages import Renderer, slug

PAGE = ROOT / "data" / "reports" / "CHECKLIST.md"
ITEMS = [
    "Claims", "Limitations", "Theory, assumptions and proofs", "Reproducibility of the results",
    "Open access to data and code", "Experimental settings and details", "Statistical significance",
    "Compute resources", "Code of ethics", "Broader impact", "Safeguards",
    "Licences of existing assets", "New assets", "Crowdsourcing and research with human subjects",
    "Approval by a review board", "Use of language models",
]  # fmt: skip
_, *PARTS = re.split(r"^## (.*)$", PAGE.read_text(encoding="utf-8"), flags=re.M)
SECTIONS = dict(zip(PARTS[::2], PARTS[1::2], strict=True))
LINKS = [link for text in SECTIONS.values() for link in re.findall(r"\]\(([^)\s]+)\)", text)]


def anchors(path) -> set[str]:
    """The anchors of a page or notebook, as this project's own pages name them."""
    if path.suffix == ".ipynb":
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        text = "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    else:
        text = path.read_text(encoding="utf-8")
    renderer = Renderer()
    renderer.render(text)
    return {anchor for _, anchor, _ in renderer.headings}


def test_every_item_is_there_in_order():
    assert list(SECTIONS) == [f"{n}. {name}" for n, name in enumerate(ITEMS, start=1)]


@pytest.mark.parametrize("name", SECTIONS)
def test_every_item_has_its_question_one_answer_and_a_place_that_shows_it(name):
    text = SECTIONS[name].strip()
    assert re.match(r"\*[A-Z][^*]+\?\*\n\n\*\*(Yes|No|Not applicable)\.\*\* [A-Z[]", text)
    assert len(re.findall(r"^\*\*(Yes|No|Not applicable)\.\*\*", text, flags=re.M)) == 1
    assert re.search(r"\]\((?!http)", text)


@pytest.mark.parametrize("link", sorted(set(LINKS)))
def test_every_link_leads_to_a_file_and_every_anchor_to_a_heading(link):
    name, _, anchor = link.partition("#")
    path = (PAGE.parent / unquote(name)).resolve()
    assert path.is_file() and path.is_relative_to(ROOT), link
    if anchor:
        # notebooks have JupyterLab's anchors, which the pages shorten as all others
        wanted = slug(unquote(anchor)) if path.suffix == ".ipynb" else anchor
        assert wanted in anchors(path), f"{link}: one of {sorted(anchors(path))}"


def test_there_are_links_with_and_without_anchors():
    assert sum("#" in link for link in LINKS) > 15 and len(LINKS) > 35


def test_what_the_rule_says_of_noise_is_right():
    """The mean of three is more than two deviations from zero: |t| > 2 sqrt(3), two degrees."""
    chance = 2 * t.sf(2 * 3**0.5, df=2)
    assert f"in about {100 * chance:.0f} of 100 cases" in SECTIONS["7. Statistical significance"]
