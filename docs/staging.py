"""The sources of the site: what stands where in the repository, put together for Sphinx.

Pages keep their places, so that links between them lead where they lead on a code host. A link to
a file of the package leads to its part of the reference; one to what has no page becomes plain
text.
"""

import re
import shutil
from pathlib import Path
from posixpath import dirname, join, normpath

import nbformat

ROOT = Path(__file__).parents[1]
REFERENCE = "reference/fedtutor/fedtutor"  # written by autodoc2
PAGES = {  # caption in the navigation -> its pages, as patterns; what is not there is left out
    "Lessons": ["notebooks/[0-9]*.ipynb"],
    "Learn and teach": ["README.md", "notebooks/README.md", "notebooks/TEACHING.md", "glossary.md"],
    "What was found": [
        "docs/results.md",
        "data/results/REPRODUCED.md",
        "data/results/NUMBERS.md",
        "docs/differences.md",
        "docs/limits.md",
        "data/published/README.md",
        "data/results/README.md",
        "data/attacks/README.md",
        "data/rehearsals/README.md",
        "data/tuning/README.md",
    ],
    "Use it": [
        "docs/compare.md",
        "fedtutor/methods/README.md",
        "fedtutor/scenarios/README.md",
        "data/README.md",
        "fedtutor/processes/README.md",
        "fedtutor/experiments/README.md",
        "tools/workflow.md",
        "data/speed/README.md",
    ],
    "The package": [
        "fedtutor/README.md",
        REFERENCE,
        "CONTRIBUTING.md",
        "tests/README.md",
        "tools/README.md",
        "CHANGELOG.md",
    ],
}
TITLES = {"README.md": "Install, and what was found", REFERENCE: "Every public name"}
LINK = re.compile(
    r"(?P<code>```.*?```|`[^`\n]+`)"
    r"|(?<!!)\[(?P<text>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?!\w+:)(?P<path>[^()\s#]*)#?(?P<at>[^()\s]*)\)",
    re.DOTALL,
)
IMAGE = re.compile(r"!\[[^\]]*\]\(([^():\s]+)\)")
ENTRY = re.compile(r"(?:^|(?<=\. ))(\*\*[^*]+\*\*(?:, \*\*[^*]+\*\*)*): ")  # of the glossary


def stage(folder: Path, pages=PAGES, executed: Path | None = None) -> list[str]:
    """Put the sources of `pages` into `folder`; return the names of the lessons.

    executed: a folder with notebooks that take the places of the committed ones.
    """
    made = {"glossary.md": glossary()}
    found = {
        caption: [
            name
            for pattern in patterns
            for name in sorted(p.relative_to(ROOT).as_posix() for p in ROOT.glob(pattern))
            or [pattern] * (pattern in made or pattern == REFERENCE)
        ]
        for caption, patterns in pages.items()
    }
    known = {name for names in found.values() for name in names}
    lessons = {}
    for name in known - {REFERENCE}:
        if name.endswith(".ipynb"):
            fresh = executed / Path(name).name if executed else ROOT / "absent"
            notebook = nbformat.read(fresh if fresh.exists() else ROOT / name, as_version=4)
            lessons[name] = prepare(notebook, name, known)
            put(folder / name, nbformat.writes(notebook))
        else:
            text = made[name] if name in made else (ROOT / name).read_text(encoding="utf-8")
            put_page(folder, name, text, known)
    put_page(folder, "index.md", index(found, lessons), known)
    for path in ROOT.glob("fedtutor/**/*.py") if REFERENCE in known else ():
        if is_public(path):
            put(folder / path.relative_to(ROOT), path.read_text(encoding="utf-8"))
    return sorted(lessons)


def put(path: Path, text: str) -> None:
    """Write a file and the folders that it needs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def put_page(folder: Path, name: str, text: str, known: set[str]) -> None:
    """Write a page of text; its pictures come with it."""
    put(folder / name, linked(text, name, known))
    for image in IMAGE.findall(text):
        place = normpath(join(dirname(name), image))
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / place, folder / place)


def is_public(module: Path) -> bool:
    """Whether a file of the package is in the reference; a folder is what its first file is."""
    return module.name == "__init__.py" or not module.name.startswith("_")


def linked(text: str, name: str, known: set[str]) -> str:
    """Markdown of the page `name` without links to what is no page; `known` are the pages."""

    def one(match: re.Match) -> str:
        if match["code"]:
            return match["code"]
        said, path, anchor = match["text"], match["path"], match["at"]
        if path.endswith(".ipynb") or (name.endswith(".ipynb") and not path):
            anchor = re.sub(r"[^\w-]", "", anchor).lower()  # JupyterLab's names of headings
        at = f"#{anchor}" if anchor else ""
        target = normpath(join(dirname(name), path))
        if not path or target in known:
            return f"[{said}]({path}{at})"
        if f"{target}/README.md" in known:
            return f"[{said}]({path.rstrip('/')}/README.md)"
        module = ROOT / target.removesuffix("/__init__.py")
        if REFERENCE in known and target.startswith("fedtutor/") and module.exists():
            dotted = ".".join(module.relative_to(ROOT).with_suffix("").parts)
            return f"[{said}](#{dotted})" if is_public(module) else said
        return said

    return LINK.sub(one, text)


def prepare(notebook, name: str, known: set[str]) -> str:
    """Make a notebook ready for Sphinx, in place; return its title."""
    notebook.metadata = {k: v for k, v in notebook.metadata.items() if k in ("kernelspec",)}
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = linked(cell.source, name, known)
            continue
        if cell.metadata.get("jupyter", {}).get("source_hidden"):
            cell.metadata["tags"] = [*cell.metadata.get("tags", []), "hide-input"]
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "text/markdown" in data:
                data["text/markdown"] = linked(data["text/markdown"], name, known)
            if "image/png" in data:
                said = output.metadata.get("image/png", {}).get("alt") or data.get("text/plain", "")
                cell.metadata["mystnb"] = {"image": {"alt": " ".join(said.split())}}
    title = notebook.cells[0].source.partition("\n")[0].removeprefix("# ")
    slides = f'<p><a href="../slides/{Path(name).stem}.html">Slides of this lesson</a></p>'
    links = nbformat.v4.new_markdown_cell(slides, metadata={"tags": ["links"]})
    notebook.cells.insert(1, links)
    return title


def index(found: dict[str, list[str]], lessons: dict[str, str]) -> str:
    """The first page: docs/index.md with the table of lessons and the navigation."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows, trees = ["| lesson | what it is about | |", "|---|---|---|"], []
    for name in sorted(lessons):
        title, _, about = lessons[name].partition(": ")
        slides = f'<a href="slides/{Path(name).stem}.html">slides</a>'
        rows.append(f"| [{title}]({name}) | {about[:1].upper()}{about[1:]} | {slides} |")
    for caption, names in found.items():
        titles = TITLES | {name: title.partition(": ")[0] for name, title in lessons.items()}
        entries = [f"{titles[name]} <{name}>" if name in titles else name for name in names]
        trees.append(
            "\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", "", *entries, "```"])
        )
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    text = text.replace("<!-- picture -->", re.search(r"^!\[.*\]\(.*\)$", readme, re.M)[0])
    return "\n\n".join([text.replace("<!-- lessons -->", "\n".join(rows)), *trees, ""])


def glossary() -> str:
    """The glossary, from that of lesson 00."""
    notebook = nbformat.read(ROOT / "notebooks" / "00_start_here.ipynb", as_version=4)
    source = next(c.source for c in notebook.cells if "## Glossary" in c.source)
    source = source.partition("## Glossary")[2].partition("\n## ")[0].replace("</details>", "")
    lines = ["# Glossary", "", "The words of lesson 00.", "", "````{glossary}"]
    for entry in re.split(r"\n- ", source)[1:]:
        _, *parts = ENTRY.split(" ".join(entry.split()))
        for words, said in zip(parts[::2], parts[1::2], strict=True):
            lines += [*words.replace("**", "").split(", "), f"  {said[:1].upper()}{said[1:]}", ""]
    return "\n".join([*lines, "````", ""])
