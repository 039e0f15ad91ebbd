"""The commands of the README and of the pages behind it are executed as they stand there."""

import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from support.notebooks import frozen

from fedtutor.engine.files import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = ("README.md", "notebooks/README.md", "fedtutor/experiments/README.md")
TEXTS = {name: (ROOT / name).read_text(encoding="utf-8") for name in PAGES}
BLOCKS = {name: re.findall(r"```(\w+)\n(.*?)```", text, flags=re.S) for name, text in TEXTS.items()}
COMMANDS = [line for blocks in BLOCKS.values() for kind, text in blocks if kind == "sh"
            for line in text.splitlines()]  # fmt: skip


def test_the_readme_is_short():
    prose = re.sub(r"```.*?```", "", README, flags=re.S)
    assert len(prose.split()) <= 900


def test_the_first_screen_has_the_three_commands():
    first_screen = README.splitlines()[:36]
    for command in ("./run notebooks --only 00", "./run tests", "./run lab"):
        assert command in first_screen
        assert command in COMMANDS


def test_ci_runs_the_commands_of_the_readme():
    script = (ROOT / ".ci" / "run").read_text()
    patterns = re.findall(r"'(\^[^']*\$)'", script)
    found = [re.findall(pattern, README, flags=re.M) for pattern in patterns]
    assert found == [["./run notebooks --only 00"], ["./run tests"]]
    parts = (patterns[0], "'.[workflow,engine]'", patterns[1])
    first, extra, second = map(script.index, parts)
    assert first < extra < second  # Snakemake, without which the workflow's tests are skipped


@pytest.fixture
def called(tmp_path):
    """`./run tests` with words behind it, where pytest ends as it is told.

    What is returned: the exit status, and the words of every call of pytest.
    """
    for name in ("run", "requirements.txt", "requirements-dev.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "notebooks").mkdir(exist_ok=True)
    shutil.copy(ROOT / "notebooks" / "frozen.txt", tmp_path / "notebooks")
    mark = "made-from-$(cat requirements.txt pyproject.toml | cksum | cut -d' ' -f1)"
    tests = "tests-from-$(cksum <requirements-dev.txt | cut -d' ' -f1)"
    make = f"mkdir -p .venv/bin && touch .venv/{mark} .venv/{tests}"
    subprocess.run(make, shell=True, check=True, cwd=tmp_path)
    programs = {
        "ruff": "#!/bin/sh\n",
        "python": '#!/bin/sh\necho "$@" >> calls\nexit $(sed -n "$(wc -l < calls)p" statuses)\n',
    }
    for name, text in programs.items():
        (tmp_path / ".venv" / "bin" / name).write_text(text)
        (tmp_path / ".venv" / "bin" / name).chmod(0o755)

    def call(statuses, *words):
        (tmp_path / "calls").unlink(missing_ok=True)
        (tmp_path / "statuses").write_text("\n".join(map(str, statuses)))
        done = subprocess.run(["./run", "tests", *words], cwd=tmp_path, capture_output=True)
        return done.returncode, (tmp_path / "calls").read_text().splitlines()

    return call


@pytest.mark.parametrize("statuses, ends, calls", [
    ((0, 0, 0), 0, 3), ((0, 5, 0), 0, 3), ((5, 0, 0), 0, 3), ((5, 5, 0), 5, 2), ((1, 0, 0), 1, 1),
    ((0, 1, 0), 1, 2), ((0, 0, 1), 1, 3),
])  # fmt: skip
def test_run_tests_fails_with_any_part_and_where_no_test_is_chosen(called, statuses, ends, calls):
    status, found = called(statuses)
    assert (status, len(found)) == (ends, calls)


def test_what_measures_time_is_played_alone_whatever_is_asked(called):
    _, (side_by_side, alone, _) = called((0, 0, 0), "-n", "4")
    assert re.findall(r"-n (\d)", side_by_side) == ["2", "4"]
    assert re.findall(r"-n (\d)", alone)[-1] == "0" and "-m serial" in alone


def test_notebook_09_is_left_out_only_where_its_extra_is_missing(called, tmp_path):
    left_out = "--ignore=notebooks/09_real_federation.ipynb"
    assert left_out in called((0, 0, 0))[1][-1].split()
    (tmp_path / ".venv/lib/python3.11/site-packages/nvflare").mkdir(parents=True)
    assert "09" not in called((0, 0, 0))[1][-1]


def test_lessons_of_the_second_edition_are_not_validated(called):
    *_, validated = called((0, 0, 0))[1]
    waiting = {f"--ignore-glob=*/{stem}.ipynb" for stem in frozen(ROOT / "notebooks")}
    assert waiting == {word for word in validated.split() if "-glob" in word}


def every_page():
    folders = ("fedtutor", "data", "notebooks", "tests", "tools", "docs")
    return [*ROOT.glob("*.md"), *(p for name in folders for p in (ROOT / name).rglob("*.md"))]


def test_every_link_leads_somewhere():
    for page in every_page():
        if page == ROOT / "docs" / "index.md":  # the site's first page; Sphinx follows its links
            continue
        for target in re.findall(r"\]\(([^)#\s]+)\)", page.read_text(encoding="utf-8")):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_python_examples_run():
    """The README's federation, and after it the method of one's own from the page on methods."""
    page = (ROOT / "fedtutor" / "methods" / "README.md").read_text(encoding="utf-8")
    smooth = re.findall(r"```python\n(.*?)```", page, flags=re.S)[0]
    code = "\n".join(text for kind, text in BLOCKS["README.md"] if kind == "python") + smooth
    code += """
fed = Federation(scenario, methods.make("smooth"), Settings(rounds=1, lr=0.05), seed=0)
assert run(fed)["accuracy"][-1]["moment"] == "end"
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[[")


def test_the_example_of_the_page_on_tables_runs():
    kinds = dict(BLOCKS["fedtutor/experiments/README.md"])
    done = subprocess.run([sys.executable, "-c", kinds["python"]], capture_output=True, text=True,
                          cwd=ROOT)  # fmt: skip
    assert done.returncode == 0, done.stderr


def jobs_on_the_pages():
    """Every `fedtutor JOB` in the commands of all pages, without comments and environment."""
    texts = "".join(page.read_text(encoding="utf-8") for page in every_page())
    found = []
    for line in "".join(re.findall(r"```sh\n(.*?)```", texts, flags=re.S)).splitlines():
        words = line.partition(" #")[0].split()
        if "fedtutor" in words:
            found.append(words[words.index("fedtutor") + 1 :])
    return found


def test_every_job_on_the_pages_exists():
    from fedtutor.__main__ import command_line

    jobs = jobs_on_the_pages()
    assert len(jobs) >= 6
    for words in jobs:
        command_line().parse_args([word.strip('"') for word in shlex.split(" ".join(words))])


def test_every_tool_on_the_pages_exists():
    texts = "".join(page.read_text(encoding="utf-8") for page in every_page())
    tools = set(re.findall(r"python -m (tools[\w.]*|docs)\b", texts))
    assert len(tools) >= 10
    assert not [name for name in tools if find_spec(name) is None]


@pytest.mark.parametrize("name", ["number", "reading"])
def test_an_issue_form_is_sound(name):
    form = yaml.safe_load((ROOT / ".github/ISSUE_TEMPLATE" / f"{name}.yml").read_text())
    ids = [part["id"] for part in form["body"] if part["type"] != "markdown"]
    assert form["name"] and form["description"] and len(ids) == len(set(ids)) >= 3
    assert all(part["attributes"].get("label") or part["type"] == "markdown"
               for part in form["body"])  # fmt: skip


@pytest.fixture
def a_copy(tmp_path):
    """The project as a clone has it, notebooks first."""
    for name in ("notebooks", "data", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("cache"))
    return tmp_path


def papermill_commands():
    return [line for line in COMMANDS if line.startswith("papermill ")]


@pytest.mark.parametrize("command", papermill_commands())
def test_the_papermill_command_works(command, a_copy):
    tool = Path(sys.executable).with_name("papermill")
    shorter = command.replace('"rounds": 4', '"rounds": 4, "scenario.private_size": 60')
    assert shorter != command
    done = subprocess.run(f'"{tool}"{shorter.removeprefix("papermill")} --cwd notebooks',
                          shell=True, cwd=a_copy, capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert (a_copy / "out.ipynb").exists()


def test_a_misspelt_parameter_fails_in_the_first_cell(a_copy):
    tool = Path(sys.executable).with_name("papermill")
    command = [tool, "notebooks/00_start_here.ipynb", "out.ipynb", "-p", "profle", "paper"]
    done = subprocess.run(command, cwd=a_copy, capture_output=True, text=True)
    assert done.returncode != 0
    assert "unknown parameter 'profle'" in done.stderr
    assert "did you mean 'profile'" in done.stderr
