"""`python -m fedtutor notebooks` on small notebooks: pages, summary, exit status."""

import re
import shutil

import nbformat
import papermill
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from fedtutor.__main__ import main
from fedtutor.papers import Claims
from fedtutor.papers.verdicts import RECORDS

HEAD = 'profile = "quick"'


def write(folder, name, *sources, title="01 · A claim"):
    parameters = new_code_cell(HEAD, metadata={"tags": ["parameters"]})
    cells = [new_markdown_cell(f"# {title}"), parameters]
    cells += [new_code_cell(source) for source in sources]
    folder.mkdir(exist_ok=True)
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(new_notebook(cells=cells, metadata=kernel), folder / name)


def call(tmp_path, *words):
    folder, output = str(tmp_path / "in"), str(tmp_path / "out")
    return main(["notebooks", "--folder", folder, "--output", output, *words])


def test_notebooks_become_pages(tmp_path, capsys):
    write(tmp_path / "in", "01_one.ipynb", "print(profile, 6 * 7)")
    write(tmp_path / "in", "02b_two.ipynb", "print(1)", title="02b · Another")
    write(tmp_path / "in", "notes.ipynb", "raise ValueError")
    assert call(tmp_path, "--profile", "paper") == 0
    printed = capsys.readouterr().out
    assert "01_one ... " in printed and "2 notebooks, 0 failed" in printed
    assert "paper 42" in (tmp_path / "out" / "01_one.html").read_text()
    index = (tmp_path / "out" / "index.html").read_text()
    assert 'href="01_one.html"' in index and "Another" in index


def test_verdicts_are_counted_from_the_records(tmp_path, capsys, monkeypatch):
    """Of a notebook that has been executed; what a cell prints does not count."""
    monkeypatch.setattr(papermill, "execute_notebook", lambda a, b, **_: shutil.copy(a, b))
    claims = Claims("FCCL")
    for id, values in (("fccl-01", [3, 3]), ("fccl-02", [3, 3.1]), ("fccl-03", [3, -3]),
                       ("fccl-04", [-3, -3]), ("fccl-05", [1])):  # fmt: skip
        claims.measure(id, values, claimed=1, unit="x", setting="-", stand_in=id > "fccl-03")
    for id in ("fccl-06", "fccl-07"):
        claims.not_testable(id, f"no images for {id}")
    write(tmp_path / "in", "01_one.ipynb", "claims.table()", "print('fccl-08        holds')")
    notebook = nbformat.read(tmp_path / "in" / "01_one.ipynb", as_version=4)
    shown = {"text/plain": "a table", RECORDS: claims.records()}
    notebook.cells[2].outputs = [new_output("display_data", shown)]
    notebook.cells[3].outputs = [new_output("stream", text="fccl-08        holds\n")]
    nbformat.write(notebook, tmp_path / "in" / "01_one.ipynb")
    assert call(tmp_path) == 0
    (line,) = re.findall(r"01_one \.\.\. \d+ s; claims: (.*)", capsys.readouterr().out)
    assert line == "2 holds, 2 undecided, 1 inconsistent with, 2 not testable here"
    assert line in (tmp_path / "out" / "index.html").read_text()


def test_only_picks_by_number(tmp_path, capsys):
    write(tmp_path / "in", "02_a.ipynb", "print(1)")
    write(tmp_path / "in", "02b_b.ipynb", "print(1)")
    assert call(tmp_path, "--only", "02") == 0
    assert sorted(p.name for p in (tmp_path / "out").glob("0*.html")) == ["02_a.html"]
    assert call(tmp_path, "--only", "03") == 1
    assert "no notebook '03'" in capsys.readouterr().err


def test_a_failing_notebook_is_reported_and_stops_no_other(tmp_path, capsys):
    write(tmp_path / "in", "01_bad.ipynb", "1 / 0")
    write(tmp_path / "in", "02_good.ipynb", "print(1)")
    assert call(tmp_path) == 1
    printed = capsys.readouterr().out
    assert "FAILED in cell 2: ZeroDivisionError" in printed and "2 notebooks, 1 failed" in printed
    assert (tmp_path / "out" / "01_bad.html").exists()


def test_a_folder_without_notebooks_is_one_error(tmp_path, capsys):
    (tmp_path / "in").mkdir()
    assert call(tmp_path) == 1
    assert "SettingError: no notebook" in capsys.readouterr().err


def test_a_blocked_output_folder_is_one_error(tmp_path, capsys):
    write(tmp_path / "in", "01_one.ipynb", "print(1)")
    (tmp_path / "out").write_text("in the way")
    assert call(tmp_path) == 1
    assert "StorageError: cannot write" in capsys.readouterr().err


def test_refresh_leaves_nothing_of_this_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("TQDM_DISABLE", "1")
    write(tmp_path / "in", "01_one.ipynb", "print(profile)")
    path = tmp_path / "in" / "01_one.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[-1].metadata = {"jupyter": {"source_hidden": True, "outputs_hidden": False}}
    nbformat.write(notebook, path)
    texts = []
    for _ in range(2):
        assert main(["refresh", "--folder", str(tmp_path / "in")]) == 0
        texts.append((tmp_path / "in" / "01_one.ipynb").read_text())
    assert texts[0] == texts[1] and "quick\\n" in texts[0]
    notebook = nbformat.reads(texts[0], as_version=4)
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert [cell.id for cell in notebook.cells] == ["cell-00", "cell-01", "cell-02"]
    assert all("execution" not in cell.metadata for cell in notebook.cells)
    assert notebook.cells[-1].metadata == {"jupyter": {"source_hidden": True}}  # still collapsed


def test_refresh_executes_the_solutions_beside_a_notebook(tmp_path, monkeypatch):
    monkeypatch.setenv("TQDM_DISABLE", "1")
    write(tmp_path, "01_one.ipynb", "print('asked')")
    write(tmp_path / "solutions", "01_one.ipynb", "print('solved')")
    write(tmp_path / "solutions", "02_two.ipynb", "print('not asked for')")
    assert main(["refresh", "--folder", str(tmp_path), "--only", "01"]) == 0
    assert "solved\\n" in (tmp_path / "solutions" / "01_one.ipynb").read_text()
    assert '"outputs": []' in (tmp_path / "solutions" / "02_two.ipynb").read_text()


def test_an_unknown_job_shows_the_usage():
    with pytest.raises(SystemExit):
        main(["notebook"])
