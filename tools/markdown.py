"""What is made in pages of Markdown: tables, and the part of a page between two marks."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from fedtutor.engine.files import shown, write_atomically
from fedtutor.errors import StorageError

END = "<!-- end -->"


def table(header: Sequence[str], rows: Iterable[Sequence]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def with_part(text: str, part: str, *, begin: str, where: str = "README.md") -> str:
    """The `text` of the page `where` with `part` between the mark `begin` and the next `END`."""
    before, _, rest = text.partition(begin)
    _, found, after = rest.partition(END)
    if not found:
        raise StorageError(
            f"{where} has no place for what is made",
            where=where,
            do=f"put {begin} and {END} on lines of their own",
        )
    return f"{before}{begin}\n\n{part}\n\n{END}{after}"


def update(page: Path, part: str, begin: str) -> bool:
    """Put `part` into a page; return whether that changed it."""
    text = page.read_text(encoding="utf-8")
    new = with_part(text, part, begin=begin, where=shown(page))
    if new != text:
        write_atomically(page, lambda path: Path(path).write_text(new, encoding="utf-8"))
    return new != text
