"""Other Pythons and PyTorches: which ones nox takes, what is counted, what the page says."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from support.noxfile import EARLIEST, PINNED, PYTHONS

from fedtutor.engine.files import ROOT, load_json, save_json
from tools import markdown
from tools import versions as page

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TESTS = """
import pytest
def test_right(): pass
def test_wrong(): assert False
@pytest.mark.skip
def test_left_out(): pass
@pytest.fixture
def broken(): raise RuntimeError
def test_without_its_fixture(broken): pass
"""


def test_the_page_says_what_was_played():
    text = page.PAGE.read_text(encoding="utf-8")
    wanted = markdown.with_part(text, page.table(load_json(page.VERSIONS)), begin=page.BEGIN)
    assert text == wanted, "run python -m tools.versions"


def test_what_is_in_the_table_was_played_as_a_whole():
    for row in load_json(page.VERSIONS):
        assert row["whole"] and not row["only"] and re.fullmatch("[0-9a-f]{40}", row["commit"])
        assert row["python"].rpartition(".")[0] in PYTHONS
        assert row["torch"].partition("+")[0] in (PINNED["torch"], EARLIEST["torch"])


def test_the_first_of_both_are_those_that_the_package_asks_for():
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"
    assert f"torch>={EARLIEST['torch'].removesuffix('.0')}" in PROJECT["dependencies"]


@pytest.mark.parametrize("pins", [PINNED, EARLIEST], ids=["pinned", "earliest"])
def test_torchvision_belongs_to_torch(pins):
    """PyTorch 2.11 came with torchvision 0.26, and both have counted on together."""
    torch, vision = (int(pins[name].split(".")[1]) for name in ("torch", "torchvision"))
    assert vision == torch + 15


def test_what_is_played_stands_in_run():
    run = (ROOT / "run").read_text(encoding="utf-8").replace('"', "")
    assert all(f"run_pytest {' '.join(words)} " in run for words in page.CALLS["units"])
    notebooks = re.search(r"-m pytest ([^\n]*?) \\\n +\$frozen \$\{without:\+\$without\}\n", run)
    assert notebooks[1].split() == page.CALLS["notebooks"][0]
    for about in page.QUIET.values():
        assert all(f"{name}={value}" in run for name, value in about.items())


def test_nox_knows_the_sessions():
    if not (nox := shutil.which("nox")):
        pytest.skip("nox is not installed")
    told = subprocess.run([nox, "--list"], cwd=ROOT, capture_output=True, text=True, check=True)
    for python in PYTHONS:
        for which in ("pinned", "earliest"):
            assert f"units-{python}({which})" in told.stdout


@pytest.fixture
def played(tmp_path, monkeypatch):
    """`page.play` with these tests; the working tree is said to be as given."""
    (tmp_path / "test_some.py").write_text(TESTS)
    here = ["-p", "no:cacheprovider", f"--rootdir={tmp_path}", str(tmp_path)]

    def play(only, *commits):
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take seconds to load
        monkeypatch.setattr(page, "CALLS", {"units": [here, [*here, "-m", "serial"]]})
        monkeypatch.setattr(page, "clean_commit", iter(commits).__next__)
        return page.play("units", only)

    return play


def test_pytest_counts(played):
    row = played([], "a" * 40, "a" * 40)
    assert (row["passed"], row["failed"], row["skipped"]) == (1, 2, 1)
    assert row["whole"] and row["commit"] == "a" * 40
    assert row["python"] == sys.version.split()[0]


def test_a_part_is_not_the_whole_and_a_commit_is_one_commit(played):
    row = played(["-k", "right or wrong"], "a" * 40, "b" * 40)
    assert (row["passed"], row["failed"]) == (1, 1)
    assert not row["whole"] and row["commit"] is None


def test_what_pytest_did_not_end_is_not_the_whole(played, monkeypatch):
    monkeypatch.setattr(page, "NOTHING_CHOSEN", 99)  # a status as that of an interruption
    assert not played([], "a" * 40, "a" * 40)["whole"]


def row(**about):
    usual = {"part": "units", "only": [], "python": "3.12.1", "torch": "2.14.0"}
    counts = {"passed": 1000, "failed": 0, "skipped": 3, "seconds": 1800}
    made = {"commit": "a" * 40, "whole": True, "system": "Linux x86_64"}
    return usual | counts | made | about


def test_into_the_table_comes_what_is_whole_and_committed(tmp_path, monkeypatch, capsys):
    for name in ("PLAYED", "VERSIONS", "PAGE"):
        monkeypatch.setattr(page, name, tmp_path / name.lower())
    page.PAGE.write_text(f"before\n{page.BEGIN}\n\nold\n\n<!-- end -->\nafter\n")
    save_json(page.VERSIONS, [row(failed=7), row(python="3.11.7", torch="2.14.0+cpu")])
    save_json(
        page.PLAYED,
        [
            row(failed=2),
            row(python="3.13.0", commit=None),
            row(torch="2.11.0", only=["tests/losses"], whole=False),
            row(part="notebooks", torch="2.11.0"),
        ],
    )
    assert page.main([]) == 0
    kept = load_json(page.VERSIONS)
    assert [(r["part"], r["python"], r["torch"], r["failed"]) for r in kept] == [
        ("units", "3.11.7", "2.14.0+cpu", 0),
        ("units", "3.12.1", "2.14.0", 2),
        ("notebooks", "3.12.1", "2.11.0", 0),
    ]
    text = page.PAGE.read_text()
    assert "| unit tests | 3.12.1 | 2.14.0 | 1,000 | 2 | 3 | 30 | aaaaaaa |" in text
    assert text.startswith("before") and text.endswith("after\n") and "old" not in text


def test_two_plays_of_one_combination_are_one_line():
    rows = page.merged([row(torch="2.14.0+cpu", failed=1)], [row(python="3.12.9")])
    assert [r["python"] for r in rows] == ["3.12.9"]
    assert Path(page.PLAYED).parent.name == ".nox"
