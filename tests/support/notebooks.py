"""Reading a notebook: its cells, outputs, texts, headings and sections."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path


def frozen(folder: Path) -> set[str]:
    """The lessons of a folder that wait to be written anew (`frozen.txt`)."""
    path = folder / "frozen.txt"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {line.split()[0] for line in lines if line.strip() and not line.startswith("#")}


def tags(cell) -> set[str]:
    return set(cell.metadata.get("tags", []))


def code_cells(notebook) -> list:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def numbered(notebook, kind: str = "") -> Iterator[tuple[str, dict]]:
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == kind or not kind:
            yield f"cell {number}", cell


def outputs(notebook) -> Iterator[tuple[str, dict]]:
    for place, cell in numbered(notebook, "code"):
        for output in cell.outputs:
            yield place, output


def texts(notebook) -> Iterator[tuple[str, str]]:
    """Sources and outputs as text."""
    for place, cell in numbered(notebook):
        yield place, cell.source
    for place, output in outputs(notebook):
        parts = [v for k, v in output.get("data", {}).items() if k.startswith("text/")]
        yield place, "\n".join([output.get("text", ""), *parts])


def lines_of(cell) -> Iterator[str]:
    """The lines of a Markdown cell that are not code."""
    fenced = False
    for line in cell.source.splitlines():
        fenced ^= line.lstrip().startswith("```")
        if not fenced:
            yield line


def headings(notebook) -> Iterator[tuple[int, str]]:
    for _, cell in numbered(notebook, "markdown"):
        for line in lines_of(cell):
            if match := re.match(r"(#{1,6}) +(.*)", line):
                yield len(match[1]), match[2].strip()


def section_names(notebook, known: Sequence[str]) -> Iterator[str]:
    """Headings without their numbers, and the bold words that open a paragraph, list or quote."""
    for _, cell in numbered(notebook, "markdown"):
        for line in lines_of(cell):
            line = line.removeprefix("> ")
            if match := re.match(r"#+ +(?:\d+\. +)?(.*)|\*\*(.+?)\*\*", line):
                name = (match[1] or match[2] or "").strip(" :")
                yield next((s for s in known if name.startswith(s)), name)


def hidden(cell) -> bool:
    """Whether a code cell shows its output only, until its reader unfolds the input."""
    return bool(cell.metadata.get("jupyter", {}).get("source_hidden"))


def shown_as_markdown(cell) -> str:
    """The Markdown that a cell has printed."""
    found = [output.get("data", {}).get("text/markdown", "") for output in cell.get("outputs", [])]
    return "\n".join(filter(None, found))
