"""Files that are never half written: results as JSON, tensors as checkpoints.

Everything is written to a temporary name beside its target and renamed, so a reader sees the old
file or the new one and nothing in between. Nothing is unpickled: tensors are read with
`weights_only=True`.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import torch
from filelock import FileLock

from ..errors import SettingError, StorageError

PACKAGE = Path(__file__).resolve().parents[1]
CLONE = (PACKAGE.parent / "data" / "published").is_dir()  # else it is installed without its clone
ROOT = PACKAGE.parent if CLONE else Path.cwd()  # what is written lies below it
DATA = PACKAGE.parent / "data" if CLONE else PACKAGE / "data"


def key_of(*parts) -> str:
    """12 hex digits that identify settings, data and seed."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def shown(path: Path) -> str:
    """`path` as a reader sees it: relative to the project where it lies inside it."""
    path = Path(path).resolve()
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def here(path: Path) -> str:
    """A path as it is called from the current folder; absolute where it lies elsewhere."""
    path = Path(path).resolve()
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def numbered(folder: Path, only: Sequence[str] = (), *, kind: str = "notebook") -> list[Path]:
    """The notebooks `NN_name.ipynb` in `folder`, or those that `only` names by number or name.

    Raises `SettingError` where one of them, or any at all, is not there.
    """
    names = {
        path: {path.stem, path.stem.partition("_")[0]}
        for path in sorted(Path(folder).glob("[0-9][0-9]*.ipynb"))
    }
    if not names:
        raise SettingError("no notebook", where=shown(folder), do="name another folder")
    for wanted in only:
        if not any(wanted in known for known in names.values()):
            numbers = ", ".join(path.stem.partition("_")[0] for path in names)
            raise SettingError(
                f"no {kind} {wanted!r}", where=shown(folder), do=f"choose from {numbers}"
            )
    return [path for path, known in names.items() if not only or known & set(only)]


def write_atomically(path: Path, write) -> None:
    """Call `write(temporary_path)`, then rename that file to `path`.

    Raises `StorageError` where the folder cannot be written to.
    """
    path, temporary = Path(path), None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
        write(temporary)
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        do = "make the folder writable, free some space, or choose another output folder"
        raise _unwritable(path, error, do) from None
    finally:
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)


@contextmanager
def locked(path: Path, do: str = "make the folder writable, or choose another one"):
    """One process at a time; raises `StorageError` where the folder cannot be written to."""
    path = Path(path)
    lock = FileLock(path.parent / f".{path.name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except OSError as error:
        raise _unwritable(path, error, do) from None
    try:
        yield
    finally:
        lock.release()


def save_json(path: Path, value) -> None:
    """Write `value` as JSON; raises `StorageError` for what JSON has not, such as nan."""
    try:
        text = json.dumps(value, indent=1, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise StorageError(
            f"what belongs in {Path(path).name} is no JSON ({error})",
            where=shown(path),
            do="mend what computed it",
        ) from None
    write_atomically(path, lambda name: Path(name).write_text(text + "\n", encoding="utf-8"))


def load_json(path: Path):
    """Read JSON; a missing or truncated file is a `StorageError`."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StorageError(
            f"{Path(path).name} is not there", where=shown(path), do="run the experiment first"
        ) from None
    except (OSError, ValueError) as error:
        raise damaged(path, error) from None


def once_per_version(read: Callable) -> Callable:
    """`read(path)`, done again only where the file has changed. All callers share what it returns:
    nobody may write into it."""

    @lru_cache(maxsize=4096)  # results lie in as many files as there are runs
    def kept(path: Path, version: tuple):
        return read(path)

    def look(path):
        try:
            found = os.stat(path)
        except OSError:
            return read(path)  # it says what is wrong
        return kept(Path(path), (found.st_mtime_ns, found.st_size))

    return look


def save_tensors(path: Path, value) -> None:
    """Write nested dicts and lists of tensors and plain values."""

    def write(name):
        with open(name, "wb", buffering=0) as file:
            target = _Target(file)
            try:
                torch.save(value, target)
            except RuntimeError as error:  # what PyTorch makes of a disk that is full
                raise target.error or error from None

    write_atomically(path, write)


class _Target:
    """A file that remembers why it could not be written."""

    def __init__(self, file):
        self.file, self.error = file, None

    def write(self, content) -> int:
        try:
            left = memoryview(content).cast("B")
            while left:  # the end of a disk may come within a write
                left = left[self.file.write(left) :]
        except OSError as error:
            self.error = error
            raise
        return len(content)

    def flush(self) -> None:
        pass  # nothing is buffered


def load_tensors(path: Path, device="cpu"):
    """Read what `save_tensors` wrote; a damaged file is a `StorageError`."""
    try:
        return torch.load(path, map_location=device, weights_only=True)
    except Exception as error:  # torch raises many kinds for a truncated archive
        raise damaged(path, error) from None


def _unwritable(path: Path, error: OSError, do: str) -> StorageError:
    what = f"cannot write {path.name}: {error.strerror or error}"
    return StorageError(what, where=shown(path.parent), do=do)


def damaged(path: Path, error: Exception) -> StorageError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return StorageError(
        f"{Path(path).name} is damaged ({reason[:120]})",
        where=shown(path),
        do="delete the file and run again; it is made anew",
    )
