"""Words of the glossary are explained where a page first uses them, and nowhere else."""

from bs4 import BeautifulSoup

from fedtutor.site import glossary

PAGE = """<h1>Logits of a client</h1>
<div class="prose"><h2>Logits</h2>
<p>Two <code>logits</code>, <a href="x">logits</a>; client drift, a Client and its logits.</p>
<p>More logits, and clients.</p></div>
<div class="output">a silhouette</div>"""


def marked():
    page = BeautifulSoup(PAGE, "html.parser")
    glossary.explain(page, "00.html#glossary")
    return page


def test_the_first_use_in_prose_has_hover_text_and_a_link():
    found = marked()("a", class_="term")
    assert [link.get_text() for link in found] == ["client drift", "Client", "logits"]
    assert all(link["href"] == "00.html#glossary" for link in found)
    assert found[2]["title"] == "A network's outputs before the softmax."


def test_the_words_of_the_page_stay():
    assert marked().get_text() == BeautifulSoup(PAGE, "html.parser").get_text()


def test_every_entry_of_the_glossary_is_a_word():
    terms = glossary.terms()
    assert {"auc", "domain shift", "server", "features", "virtual images"} <= terms.keys()
    assert len(terms) >= 28
    assert all(said and "*" not in said for _, said in terms.values())
    assert terms["auc"][0] == "AUC"
