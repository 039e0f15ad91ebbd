"""The algorithm boxes: the numbers of the code, two sides, words for every reader."""

import io
import re
import tokenize

import pytest
from bs4 import BeautifulSoup

from fedtutor import methods
from fedtutor.engine.files import ROOT
from fedtutor.errors import SettingError, StorageError
from fedtutor.notebook import algorithm as show
from fedtutor.notebook.algorithm import as_html, as_text, boxes

LESSONS = ("fedavg", "fccl", "fccl+", "fedcsd", "repshare", "fedlgd")
NAMED = re.compile(r"\b(?:line|step)s?\s+((?:\d+(?:\s*(?:-|,|to|and|or)\s*)?)+)", re.IGNORECASE)
RANGE = re.compile(r"(\d+)(?:\s*(?:-|to)\s*(\d+))?")
THROUGH = "numbered through Algorithm 1: "  # then every number of the sentence is one of a step


def numbers_in(source: str) -> set[int]:
    """The line numbers that the comments and docstrings of a method's file use."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    texts = [t.string for t in tokens if t.type == tokenize.COMMENT or t.string.startswith('"""')]
    said = [part for text in texts for part in NAMED.findall(text)]
    for text in texts:
        sentence = " ".join(text.split()).partition(THROUGH)[2]
        said.append(sentence.partition(". ")[0])
    ranges = [found for part in said for found in RANGE.findall(part)]
    return {n for first, last in ranges for n in range(int(first), int(last or first) + 1)}


def of_box(box: dict) -> list[int]:
    return [n for row in box["rows"] for n in row.get("lines", [])]


def code(box: dict) -> str:
    return (ROOT / "fedtutor" / "methods" / box["file"]).read_text(encoding="utf-8")


def test_every_lesson_has_a_box():
    assert set(boxes()) == set(LESSONS) <= set(methods.METHODS)


@pytest.mark.parametrize("name", LESSONS)
def test_the_numbers_are_those_of_the_code(name):
    box = boxes()[name]
    assert methods.METHODS[name].__module__.endswith(box["file"].removesuffix(".py"))
    assert set(of_box(box)) == numbers_in(code(box))
    assert len(of_box(box)) == len(set(of_box(box))), "a number twice"


def test_a_number_that_only_one_of_them_has_is_seen():
    source = code(boxes()["fedavg"])
    assert numbers_in(source.replace("# line 8", "# line 9")) == {2, 4, 5, 6, 9}
    assert numbers_in('x = "line 7"  # steps 2, 3 and 5-6\n') == {2, 3, 5, 6}
    assert numbers_in("local_steps = 5  # of 12 steps, 3 at once\n") == set()


@pytest.mark.parametrize("name", LESSONS)
def test_a_box_has_six_to_twelve_rows_and_both_sides(name):
    box = boxes()[name]
    assert 6 <= len(box["rows"]) <= 12
    for row in box["rows"]:
        assert set(row) <= {"lines", "server", "client"} and row.keys() & {"server", "client"}
        for text in (row.get("server", ""), row.get("client", "")):
            assert len(text) <= 140, text
            assert not text or text.endswith("."), text
    assert all(any(side in row for row in box["rows"]) for side in ("server", "client"))


@pytest.mark.parametrize("name", LESSONS)
def test_a_box_is_a_table_that_can_be_read_aloud(name):
    box = boxes()[name]
    page = BeautifulSoup(as_html(name, box), "html.parser")
    assert [th.text for th in page.thead("th", scope="col")] == ["line", "server", box["client"]]
    assert len(page.tbody("th", scope="row")) == len(page.tbody("tr")) == len(box["rows"])
    assert name in page.caption.text and box["file"] in page.p.text
    assert not re.search(r"[{}^_]", page.tbody.text), "a symbol that was not set"


@pytest.mark.parametrize("name", LESSONS)
def test_the_plain_text_says_who_does_what(name):
    box = boxes()[name]
    lines = as_text(name, box).splitlines()
    sides = [side for row in box["rows"] for side in ("server", "client") if side in row]
    assert len(lines) == 2 + len(sides)
    for side, line in zip(sides, lines[1:-1], strict=True):
        assert f"  {'server' if side == 'server' else box['client']}: " in line
    assert not re.search(r"[{}]", "".join(lines))


def test_symbols():
    box = {"file": "a.py", "counted": "x", "client": "client", "rows": [
        {"lines": [1, 2], "server": "w_G^{t+1} < L_{CE} + Z̄_0, θ^*"}]}  # fmt: skip
    assert ("<i>w</i><sub>G</sub><sup>t+1</sup> &lt; <i>L</i><sub>CE</sub> + "
            "<i>Z̄</i><sub>0</sub>, <i>θ</i><sup>*</sup>") in as_html("a", box)  # fmt: skip
    assert "  1-2  server: w_G^(t+1) < L_CE + Z̄_0, θ^*" in as_text("a", box)
    assert "with a dot" not in as_text("a", box)


def test_shown(capsys):
    show("fedavg")
    said = capsys.readouterr().out
    assert said.startswith("The algorithm of fedavg") and "A dot marks a line" in said


def test_a_method_without_a_box():
    with pytest.raises(SettingError, match="fedcsd"):
        show("fedcds")


def test_a_file_that_is_gone_or_damaged(tmp_path, monkeypatch):
    module = __import__("sys").modules["fedtutor.notebook.algorithm"]
    monkeypatch.setattr(module, "BOXES", tmp_path / "none.toml")
    with pytest.raises(StorageError, match="cannot be read"):
        boxes()
