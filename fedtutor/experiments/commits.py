"""Which commit runs, and whether code or recipes differ from it: no result from uncommitted code.

What lies below `data/`, results, rehearsals and attacks, is read by others. So nothing is recorded
there while a file that decides numbers differs from the commit that the result would name. A
folder of a reader's own takes every result; one from changed files says `dirty`.
"""

import hashlib
import subprocess
from contextlib import suppress
from pathlib import Path

from ..engine.files import PACKAGE, ROOT, shown
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
        top = Path(_git(root, "rev-parse", "--show-toplevel").strip()).resolve()
        if top != root.resolve() or not (top / "fedtutor").is_dir():
            return None
        listed = _git(root, "status", "--porcelain", "-z", "-uall", "--no-renames", "--", *DECIDE)
    except (OSError, subprocess.CalledProcessError):
        return None
    return sorted(entry[3:] for entry in listed.split("\0") if entry)


def code() -> str:
    """12 hex digits over the package's Python files, byte by byte."""
    digest = hashlib.sha256()
    for file in sorted(PACKAGE.rglob("*.py")):
        digest.update(file.relative_to(PACKAGE).as_posix().encode() + file.read_bytes())
    return digest.hexdigest()[:12]


def uncommitted(folder, *, root: Path = ROOT) -> list[str]:
    """Why nothing may be recorded in `folder`: files that differ from the commit, else []."""
    inside = Path(folder).resolve().is_relative_to((root / "data").resolve())
    return (changed(root) or []) if inside else []


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
