"""Which commit runs, and whether code or recipes differ from it: no result from uncommitted code.

What lies below `data/`, results, rehearsals and attacks, is read by others. So nothing is recorded
there while a file that decides numbers differs from the commit that the result would name. A
folder of a reader's own takes every result; one from changed files says `dirty`.
"""

import hashlib
import subprocess
from contextlib import suppress
from pathlib import Path

from ..datasets import sources
from ..engine.files import ROOT, load_json, shown
from ..errors import SettingError

DECIDE = ("fedtutor", "data/recipes")


def git_commit(root: Path = ROOT) -> dict | None:
    """{"commit", "dirty"}: dirty where code or recipes differ from it; None outside a clone."""
    with suppress(OSError, subprocess.CalledProcessError):  # no git, or no commit yet
        if (found := changed(root)) is not None:
            return {"commit": _git(root, "rev-parse", "HEAD").strip(), "dirty": bool(found)}
    return None


def changed(root: Path = ROOT) -> list[str] | None:
    """Files of code or recipes that differ from the commit or are new; None outside a clone."""
    try:
        if Path(_git(root, "rev-parse", "--show-toplevel").strip()).resolve() != root.resolve():
            return None
        listed = _git(root, "status", "--porcelain", "-z", "-uall", "--no-renames", "--", *DECIDE)
    except (OSError, subprocess.CalledProcessError):
        return None
    return sorted(entry[3:] for entry in listed.split("\0") if entry)


def commit(root: Path = ROOT) -> dict | None:
    """The commit that runs: of the clone, or what `queue pack` noted, if the code is the same."""
    if found := git_commit(root):
        return found
    for folder in sources.folders_of_data():
        if (file := folder / "commit.json").exists():
            note = load_json(file)
            if isinstance(note, dict) and note.get("code") == code():
                return {key: note[key] for key in ("commit", "dirty")}
    return None


def code() -> str:
    """12 hex digits over the package's files and the recipes, byte by byte."""
    digest = hashlib.sha256()
    for file in sorted([*ROOT.glob("fedtutor/**/*.py"), *ROOT.glob("data/recipes/*.toml")]):
        digest.update(str(file.relative_to(ROOT)).encode() + file.read_bytes())
    return digest.hexdigest()[:12]


def uncommitted(folder, *, root: Path = ROOT) -> list[str]:
    """Why nothing may be recorded in `folder`: files that differ from the commit, else []."""
    if not Path(folder).resolve().is_relative_to((root / "data").resolve()):
        return []
    if (found := changed(root)) is not None:
        return found
    note = commit(root) or {}
    return ["what `queue pack` noted here as uncommitted"] if note.get("dirty") else []


def require_committed(folder, *, root: Path = ROOT) -> None:
    """Raise `SettingError` where a result in `folder` could not name the code that made it."""
    if files := uncommitted(folder, root=root):
        raise SettingError(
            f"uncommitted changes: {first(files, 5)}", where=f"recording into {shown(folder)}",
            do="commit them first, so that the result can name the code that made it; or record "
            "into a folder of your own, outside data/",
        )  # fmt: skip


def first(names: list[str], count: int) -> str:
    """The first names, and how many more there are."""
    more = len(names) - count
    return ", ".join(names[:count]) + (f" and {more} more" if more > 0 else "")


def _git(root: Path, *words: str) -> str:
    command = ["git", "-C", str(root), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
