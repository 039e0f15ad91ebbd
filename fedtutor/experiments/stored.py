"""Where results lie: a file per run while runs are under way, one file of lines when they are done.

    <recipe>/<profile>/<scenario>/<method>-seed<k>.json    a run
    <recipe>/<profile>/<scenario>.jsonl                    the same folded, a run per line

Both are read as if every run had its file; where one has both, its own file counts, as folding
takes it away. Everybody who reads results does so here. What was read is kept while its file keeps
size and time: do not change what you get.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from ..engine.files import damaged, once_per_version, write_atomically
from ..errors import StorageError

DIGITS = 6  # of a folded loss; accuracies are kept as they are
CRATE = "ro-crate-metadata.json"  # describes a folder of results, and is none: report/metadata.py


@dataclass
class Entry:
    """What lies at the place of a run: its content, or why that cannot be read."""

    file: Path  # its own, or "<file>, line <n>"
    value: object = None
    error: StorageError | None = None
    result: object = None  # the checked `Result`, once somebody asked for it

    def damaged(self, why: Exception) -> StorageError:
        """What to raise for it: only the file or line that is to go is named."""
        found, part = damaged(self.file, why), "line" if "line" in self.file.suffix else "file"
        return StorageError(found.what, where=found.where,
                            do=f"delete that {part} and run again; it is made anew")  # fmt: skip


def entries(folder) -> dict[Path, Entry]:
    """All runs below a folder, by the path of a run's own file, in its order."""
    found = {}
    for pattern in ("*.jsonl", "*.json"):  # a run's own file is the newer one
        for file in Path(folder).rglob(pattern):
            found |= _entries_of(file) if file.name != CRATE else {}
    return {path: found[path] for path in sorted(found, key=str)}


def entry(path) -> Entry | None:
    """What lies at the path of one run; None where there is nothing."""
    path = Path(path)
    for file in (path, folded(path)):
        if file.exists() and (found := _entries_of(file).get(path)):
            return found
    return None


def folded(path: Path) -> Path:
    """The file of lines that a run belongs to."""
    return path.parent.with_name(f"{path.parent.name}.jsonl")


def _entries_of(file: Path) -> dict[Path, Entry]:
    try:
        return _read(file)
    except (OSError, ValueError) as error:
        return {file: Entry(file, error=damaged(file, error))}


@once_per_version
def _read(file: Path) -> dict[Path, Entry]:
    text = file.read_text(encoding="utf-8")
    return _lines(file, text) if file.suffix == ".jsonl" else {file: _parsed(file, text)}


def _lines(file: Path, text: str) -> dict[Path, Entry]:
    found = {}
    for number, line in enumerate(text.splitlines(), start=1):
        this = _parsed(file.with_name(f"{file.name}, line {number}"), line)
        path = this.file
        if isinstance(this.value, dict) and isinstance(this.value.get("run"), str):
            path = file.with_suffix("") / f"{this.value.pop('run')}.json"
        elif not this.error:
            this.error = this.damaged(ValueError("it does not say which run it is"))
        if path in found:
            path = this.file
            this = Entry(path, error=this.damaged(ValueError("its run is there twice")))
        found[path] = this
    return found


def _parsed(file: Path, text: str) -> Entry:
    try:
        return Entry(file, json.loads(text, parse_constant=_refuse))
    except (ValueError, RecursionError) as error:
        return Entry(file, error=Entry(file).damaged(error))


def _refuse(name: str):
    raise ValueError(f"{name} is no number")


def fold(runs: dict[Path, dict]) -> None:
    """Write runs, path -> content, as lines beside those that are there.

    Lines are sorted by the run, keys by name. A run's own file goes when its line is written.
    """
    by_file = {}
    for path, value in runs.items():
        by_file.setdefault(folded(path), {})[path] = value
    for file, new in by_file.items():
        before = _entries_of(file) if file.exists() else {}
        if broken := [e.error for e in before.values() if e.error]:
            raise broken[0]
        every = {path: found.value for path, found in before.items()} | new
        text = ""
        for path in sorted(every, key=lambda path: path.stem):
            content = {"run": path.stem, **rounded(every[path])}
            text += json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
            text += "\n"
        write_atomically(file, lambda name, t=text: Path(name).write_text(t, encoding="utf-8"))
        for path in new:
            path.unlink(missing_ok=True)


def rounded(value: dict) -> dict:
    """The content of a run, losses at `DIGITS` decimals; what a look saw is as it is."""
    if "history" not in value:
        return value
    losses = [
        {**row, "values": [v if v is None else round(v, DIGITS) for v in row["values"]]}
        for row in value["history"]["loss"]
    ]
    return {**value, "history": {**value["history"], "loss": losses}}
