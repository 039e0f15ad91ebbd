"""Slides and handouts: made from a lesson as it is written, whole, and without a script."""

import base64
import re

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from fedtutor.engine.files import ROOT
from fedtutor.site import decks
from fedtutor.site.pages import Site, parsed

PIXEL = base64.b64encode(bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63f8ff"
    "ffff7f0009fb03fd2a86e38a0000000049454e44ae426082")).decode()  # fmt: skip
LESSONS = [
    path for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
    if "**In one minute**" in path.read_text(encoding="utf-8")
]  # fmt: skip
PRINTED = '<div class="printed">\n\n> **What we found.** It helps.\n\n</div>'
RULE = "> **How a claim is judged.** A number.\n>\n> - It *holds* if it is above zero."
ASKED = """**Ask yourself.** Who knows?

<details open><summary>Choose, then unfold your choice</summary>

<details><summary>the server</summary>

No, because it sees sums.

</details>

<details><summary>nobody</summary>

Yes.

</details>

</details>"""


def out(**data):
    about = {"image/png": {"alt": "A rising line."}} if "image_png" in data else {}
    data = {kind.replace("_", "/"): value for kind, value in data.items()}
    return new_output("display_data", data, metadata=about)


def asks(cell):
    return "exercise" in cell.metadata.get("tags", [])


def lesson():
    return new_notebook(cells=[
        new_markdown_cell("# 03 · Drift: why\n\nAuthors, *Paper*.\n\n**In one minute**\n\n"
                          "> **The problem.** Drift.\n>\n> **The idea.** A leash.\n>\n"
                          "> **A round.** Up.\n>\n> **The paper's promise.** 3 %."),
        new_code_cell("run.diagram()", outputs=[out(image_png=PIXEL)]),
        new_code_cell("found()", outputs=[out(text_markdown=PRINTED)]),
        new_code_cell('algorithm("x")', outputs=[out(text_html="<table></table>")]),
        new_markdown_cell("**You will be able to**\n\n- do it"),
        new_markdown_cell("## 1. Why\n\n**The paper's reason** (Sec. 2). One. Two. Three. Four. "
                          "Five.\n\nBeside it.\n\n$$a = b$$\n\nMore.\n\n**Predict.** Up or down?"),
        new_code_cell("plot()", outputs=[out(image_png=PIXEL)]),
        new_markdown_cell("**What you see.** It rises. By a lot. Third."),
        new_code_cell("question()", outputs=[out(text_markdown=ASKED)]),
        new_markdown_cell("Two ways:\n\n- up\n- down\n\n**The mask.** **Predict.** Which share?"),
        new_code_cell("print()", outputs=[new_output("stream", text="1 < 2\n")]),
        new_code_cell("hidden()", metadata={"jupyter": {"source_hidden": True}},
                      outputs=[new_output("stream", text="no slide\n"),
                               out(text_markdown="**The answer.** Less.")]),
        new_code_cell("verdict_box()", outputs=[out(text_markdown=RULE)]),
        new_markdown_cell("## 2. A whole round from scratch"),
        new_code_cell("\n".join(f"step_{n} = {n}" for n in range(10))),
        new_markdown_cell("## Exercises\n\n### Exercise 1\n\n**Predict.** Nothing."),
        new_code_cell("plot()", outputs=[out(image_png=PIXEL)]),
        new_markdown_cell("## Summary\n\n- Leashes help."),
        new_markdown_cell("## Further reading\n\n- a book"),
    ])  # fmt: skip


def test_the_slides_of_a_lesson_in_order():
    shown = decks.slides(lesson())
    assert [slide.kind for slide in shown] == [
        "title", "minute", "minute", "figure", "algorithm", "section", "predict", "figure", "seen",
        "question", "list", "predict", "printed", "seen", "rule", "code", "found", "section",
    ]  # fmt: skip
    assert shown[0].text == "Authors, *Paper*." and shown[-2].text == "**What we found.** It helps."
    assert shown[1].text == "**The problem.** Drift.\n\n**The idea.** A leash."
    assert shown[5].text == "**The paper's reason** (Sec. 2). One. Two. Three. Four.\n\n$$a = b$$"
    assert shown[7].text == "**What you see.** It rises. By a lot." and shown[8].text == "Third."
    assert shown[10].text == "Two ways:\n\n- up\n- down"
    assert shown[11].text == "**The mask.** **Predict.** Which share?"
    assert shown[12].more == "<pre>1 &lt; 2\n</pre>" and shown[13].text == "**The answer.** Less."
    assert shown[14].text.startswith("**How a claim is judged.** A number.\n\n- It *holds*")
    assert shown[-1].title == "Summary" and shown[-1].text == "- Leashes help."
    assert "step_9" in shown[-3].more


def test_a_handout_asks_and_does_not_answer():
    kept = decks.handout(decks.slides(lesson()))
    text = "\n".join(slide.text for slide in kept)
    assert "Who knows?" in text and "- the server\n- nobody" in text
    assert "because it sees sums" not in text and "It rises" not in text
    assert "We found" not in text and "It helps" not in text


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("decks")
    return Site(folder, {f"{path.stem}.html": path.stem for path in LESSONS})


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_every_lesson_has_its_slides_and_its_handout(path, site):
    pages = decks.write(path, site)
    deck, handout = (parsed(page.read_text(encoding="utf-8")) for page in pages)
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    shown = [cell for cell in cells if "exercise" not in cell.metadata.get("tags", [])]
    figures = sum("image/png" in out.get("data", {}) for cell in shown for out in cell.outputs)
    assert len(deck.select(".slide.figure img")) == figures
    assert all(image["alt"].strip() for image in deck("img"))
    assert len(deck.select(".slide.title h1")) == len(handout("h1")) == 1
    assert deck.select(".slide.found") and not handout.select(".found")
    told = nbformat.read(path, as_version=4).cells
    asked = sum(len(re.findall(r"^.*\*\*Predict", cell.source, flags=re.M)) for cell in told
                if cell.cell_type == "markdown" and not asks(cell)
                and "## Appendix" not in cell.source)  # fmt: skip
    assert len(deck.select(".slide.predict")) == asked
    for page in (deck, handout):
        assert not page(["script", "iframe"]) and not re.search(r"\$\$|\*\*", page.main.get_text())
    if "b_" not in path.stem:
        assert deck.select(".slide.predict") and len(deck.select(".slide")) >= 10


def test_what_is_no_lesson_has_no_slides(tmp_path):
    nbformat.write(new_notebook(cells=[new_markdown_cell("# A page")]), tmp_path / "00_page.ipynb")
    assert decks.write(tmp_path / "00_page.ipynb", Site(tmp_path, {})) == []
    assert not (tmp_path / "decks").exists()
