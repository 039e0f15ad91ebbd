"""The pages that are made have the numbers of today."""

import pytest

from fedtutor import papers
from fedtutor.engine.files import ROOT
from fedtutor.errors import StorageError
from fedtutor.report import tables
from tools import markdown, pages


def test_the_committed_pages_are_those_of_today(tmp_path):
    made, book = tables.build(), papers.claims()
    for name in ("README.md", pages.REPRODUCED, pages.numbers.PAGE):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text(encoding="utf-8"), encoding="utf-8")
    assert pages.update(made, book, tmp_path) == [], "they are old: python -m tools.pages --write"
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    other = text.replace(" points ahead", " pints ahead")
    (tmp_path / "README.md").write_text(other, encoding="utf-8")
    assert pages.update(made, book, tmp_path) == ["README.md"]
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == text


def test_a_page_without_a_place_is_one_clear_error():
    with pytest.raises(StorageError, match="no place for what is made"):
        markdown.with_part("# nothing\n", "part", begin=pages.BEGIN)
