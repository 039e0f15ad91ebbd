"""The results page: every number and claim once, found by the script that is shipped."""

import json
import re
import shutil
import subprocess

import pytest
from support import browser

from fedtutor import papers
from fedtutor.papers import ledger
from fedtutor.report import overview, tables
from fedtutor.site import results
from fedtutor.site.pages import Site, parsed, write_framed, write_index

PAGES = {"01b": "01b_fccl_tables.html", "08": "08_reproduction_report.html"}
TITLES = {"01b_fccl_tables.html": "01b", "08_reproduction_report.html": "08"}


@pytest.fixture(scope="module")
def made():
    return tables.build()


@pytest.fixture(scope="module")
def page():
    return parsed(results.body(TITLES))


def read(page, name: str) -> list[dict]:
    """The rows of a table of the page, key -> text."""
    section = page.find(id=name)
    keys = [head["data-key"] for head in section.select("thead th")]
    return [dict(zip(keys, [cell.get_text() for cell in row("td")], strict=True))
            for row in section.select("tbody tr")]  # fmt: skip


def test_every_printed_number_is_there_with_its_state(page, made):
    rows, found = read(page, "numbers"), overview.numbers(made)
    places = {(r["paper"], r["table"], r["row"], r["column"]) for r in rows}
    assert places == set(found[tables.PLACE].itertuples(index=False, name=None))
    best = {line[1:5]: results.SHORT[line.state] for line in found.itertuples()}
    states = {}
    for r in rows:
        place = r["paper"], r["table"], r["row"], r["column"]
        states.setdefault(place, set()).add(r["state"])
        assert bool(r["measured"]) == (r["state"] not in ("data absent", "not yet measured"))
    assert all(best[place] in seen for place, seen in states.items())
    open_ones = {"data absent", "not yet measured"}
    for place, seen in states.items():
        assert seen <= open_ones if best[place] in open_ones else not seen & open_ones, place
    assert len(rows) > len(places), "some numbers have two runs"


def test_numbers_are_those_of_the_report(page, made):
    lines = made.cells[(made.cells["paper"] == "RepShare") & (made.cells["setting"] == "paper")]
    rows = [r for r in read(page, "numbers") if r["state"] == "paper's setting"]
    told = {(r["run"], r["row"], r["column"], r["measured"], r["verdict"]) for r in rows
            if r["paper"] == "RepShare"}  # fmt: skip
    columns = ["run", "row", "column", "measured", "verdict"]
    assert told == set(lines[columns].itertuples(index=False, name=None))
    mended = [r for r in read(page, "numbers") if "likely" in r["printed"]]
    assert len({(r["table"], r["row"], r["column"]) for r in mended}) > 5


def test_every_claim_is_there_with_its_verdict(page):
    book = papers.claims()
    rows = read(page, "claims")
    assert len(rows) == len(book)
    told = {r["claim"].partition(":")[0]: (r["verdict"], r["measured"], r["kind"]) for r in rows}
    assert told.keys() == set(book.index)
    assert told["fccl-01"][:2] == (book.loc["fccl-01", "verdict"].partition(":")[0],
                                   book.loc["fccl-01", "measured"])  # fmt: skip
    ours = book.index[book["paper"] == ledger.OURS]
    assert {id for id, (_, _, kind) in told.items() if kind == "ours"} == set(ours)


def test_links_lead_to_pages_of_this_site_only(page):
    assert {link["href"] for link in page("a")} == set(TITLES)
    rows = page.find(id="numbers").select("tbody tr")
    linked = [row.a.get_text() for row in rows if row.a]
    assert set(linked) == {"01b"} and len(linked) < len(rows)


def test_heads_have_a_scope_and_fields_a_name(page):
    for section in page.select(".lookup"):
        assert all(head["scope"] == "col" for head in section("th"))
        labels = section.select("form label")
        assert all(label.find(["select", "input"]) and label.get_text(strip=True)
                   for label in labels)  # fmt: skip
        asked = {field["name"] for field in section.select("select")}
        keys = {head["data-key"] for head in section("th") if "data-filtered" in head.attrs}
        assert asked == keys and len(asked) >= 4


def test_what_is_printed_cannot_become_markup(monkeypatch, made):
    book = papers.claims()
    book.loc["fccl-01", "claim"] = "<b>x</b> & 'y'"
    monkeypatch.setattr(results, "_read", lambda: (made, book))
    text = results.body({})
    assert "&lt;b&gt;x&lt;/b&gt;" in text and "<b>x</b>" not in text


def test_the_index_and_every_page_lead_to_it(tmp_path):
    write_index(Site(tmp_path, {}), [])
    for name in ("index", "search", "results", "source/README.md"):
        text = (tmp_path / f"{name}.html").read_text(encoding="utf-8")
        assert re.search(r'href="(\.\./)*results\.html"', text), name
    assert results.style() in (tmp_path / "results.html").read_text(encoding="utf-8")
    assert results.style() not in (tmp_path / "index.html").read_text(encoding="utf-8")


# ---------------------------------------------------------------------------------- the script

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs node")


def ran(call: str):
    """What an expression of the shipped script `s` gives."""
    job = f"const s = require('{results.SCRIPT}'); console.log(JSON.stringify({call}))"
    done = subprocess.run(["node", "-e", job], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


ROWS = [{"paper": "FCCL", "row": "FedMD", "measured": "9.5 ± 1.0"},
        {"paper": "FCCL+", "row": "FedMD", "measured": "41.2"},
        {"paper": "FCCL+", "row": "Größe (x)", "measured": ""}]  # fmt: skip


@needs_node
@pytest.mark.parametrize(("chosen", "kept"), [
    ({}, [0, 1, 2]), ({"paper": "FCCL"}, [0]), ({"paper": "FCCL+", "row": "FedMD"}, [1]),
    ({"words": "fedmd 41"}, [1]), ({"words": "GROSSE"}, []), ({"words": "große (X"}, [2]),
    ({"words": "  "}, [0, 1, 2]), ({"paper": "", "words": "fccl"}, [0, 1, 2]), ({"row": "x"}, []),
    ({"words": ".*"}, []),
])  # fmt: skip
def test_the_script_keeps(chosen, kept):
    told = ran(f"{json.dumps(ROWS)}.map((r) => s.keeps(r, {json.dumps(chosen)}))")
    assert [n for n, yes in enumerate(told) if yes] == kept


@needs_node
def test_a_list_offers_what_the_other_choices_leave():
    call = f"s.values({json.dumps(ROWS)}, 'row', {{paper: 'FCCL', row: 'Größe (x)'}})"
    assert ran(call) == ["FedMD"]
    assert ran(f"s.values({json.dumps(ROWS)}, 'paper', {{}})") == ["FCCL", "FCCL+"]


@needs_node
@pytest.mark.parametrize(("texts", "how", "order"), [
    (["b", "a", "", "B2", "B10"], {}, [1, 0, 3, 4, 2]),
    (["9.5 ± 1", "41.2", "", "-3.0", "exact"], {"number": True}, [3, 0, 1, 2, 4]),
    (["9.5 ± 1", "41.2", "", "-3.0"], {"number": True, "down": True}, [1, 0, 3, 2]),
    (["1,200", "700", "−5"], {"number": True}, [2, 1, 0]),
    (["x", "x", "x"], {"down": True}, [0, 1, 2]),
])  # fmt: skip
def test_the_script_sorts(texts, how, order):
    cells = json.dumps([{"text": text} for text in texts])
    assert ran(f"s.sorted({cells}, {json.dumps(how)})") == order


@needs_node
def test_tables_are_sorted_as_they_are_printed():
    cells = json.dumps([{"text": "II", "order": 1}, {"text": "X", "order": 2},
                        {"text": "XII-inter", "order": 0}])  # fmt: skip
    assert ran(f"s.sorted({cells})") == [2, 0, 1]
    assert [ran(f"s.next('{now}')") for now in ("none", "ascending", "descending")] == [
        "ascending", "descending", "none"]  # fmt: skip


@pytest.mark.skipif(browser.find() is None, reason="needs a Chromium")
def test_a_linked_view_opens_filtered(tmp_path):
    page = tmp_path / "results.html"
    write_framed(page, title="Results", body=results.body({}), style=results.style())
    asked = f"{page.as_uri()}?numbers.paper=FCCL&numbers.table=1&claims.verdict=holds"
    command = [browser.find(), *browser.OFFLINE, f"--user-data-dir={tmp_path}/profile",
               "--dump-dom", asked]  # fmt: skip
    told = subprocess.run(command, check=True, timeout=120, capture_output=True, text=True).stdout
    shown = parsed(told)
    views = {"numbers": {"paper": "FCCL", "table": "1"}, "claims": {"verdict": "holds"}}
    for name, asks in views.items():
        section = shown.find(id=name)
        keys = [head["data-key"] for head in section.select("thead th")]
        rows = [row for row in section.select("tbody tr") if "hidden" not in row.attrs]
        assert 0 < len(rows) < len(section.select("tbody tr"))
        for key, value in asks.items():
            assert {row("td")[keys.index(key)].get_text() for row in rows} == {value}
        assert section.find(role="status").get_text().startswith(f"{len(rows)} of ")
        assert len(section.select("th button")) == len(keys)
