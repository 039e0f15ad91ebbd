"""The cache: what was downloaded, unpacked or prepared once, and is read from then on.

It is `data/cache`, or the folder that the environment variable FEDTUTOR_CACHE names. Whatever lies
there is whole: everything is made under a hidden temporary name and renamed, behind a lock, so that
neither an interruption nor a second process leaves or sees half a file. To start anew, delete it.
"""

import os
import shutil
import socket
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import numpy as np

from ..engine.files import CLONE, DATA, locked, shown
from ..errors import DataError, StorageError

TIMEOUT = 30  # seconds without an answer from a server
DAMAGED = (OSError, ValueError, EOFError, KeyError, IndexError, zipfile.BadZipFile, zlib.error,
           tarfile.TarError)  # fmt: skip


def folder() -> Path:
    """Where the cache lies."""
    own = DATA / "cache" if CLONE else Path.home() / ".cache" / "fedtutor"
    return Path(os.environ.get("FEDTUTOR_CACHE") or own)


def made_once(target: Path, make: Callable[[Path], Path]) -> Path:
    """`target`; if it is not there, make(folder) makes it in an empty folder and says its path.

    One process at a time; whatever else is left in the folder is deleted.
    """
    if target.exists():
        return target
    do = "free some space, or set FEDTUTOR_CACHE to a folder that can be written to"
    half = f".{target.name}.half-"
    try:
        with locked(target, do):
            if not target.exists():
                for left in target.parent.glob(f"{half}*"):  # by a killed process
                    shutil.rmtree(left, ignore_errors=True)
                with tempfile.TemporaryDirectory(
                    prefix=half, dir=target.parent, ignore_cleanup_errors=True
                ) as folder:
                    os.replace(make(Path(folder)), target)
    except OSError as error:
        raise StorageError(f"cannot write {target.name}: {error.strerror or error}",
                           where=shown(target.parent), do=do) from None  # fmt: skip
    return target


def fetch(urls: Sequence[str], target: Path, md5: str, *, where: str, do: str) -> Path:
    """`target`, downloaded from the first of `urls` that answers, if it is not there yet.

    A file with another checksum is deleted and fetched once more; then, or where no server
    answers, `DataError` with `where` else we looked and what to `do` without us.
    """

    from torchvision.datasets.utils import download_url  # takes long to import, is rarely used

    def download(folder: Path) -> Path:
        problem, wrong = "", 0
        for url in urls:
            for _ in range(2):
                try:
                    download_url(url, str(folder), target.name, md5)
                    return folder / target.name
                except RuntimeError:  # torchvision's word for a wrong checksum
                    problem, wrong = "wrong checksum", wrong + 1
                    (folder / target.name).unlink(missing_ok=True)
                except (OSError, EOFError) as error:
                    problem = f"no answer ({getattr(error, 'reason', error)})"
                    break  # the same server would not answer better
        problem = "wrong checksum, twice" if wrong > 1 else problem
        raise DataError(f"{target.name} cannot be downloaded: {problem}",
                        where=f"{where}; then {', '.join(urls)}", do=do)  # fmt: skip

    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT)
    try:
        return made_once(target, download)
    finally:
        socket.setdefaulttimeout(before)


def unpack(archive: Path) -> Path:
    """The folder with the content of a .zip or .tar archive, unpacked once.

    Raises `DataError` for an archive that is truncated or damaged, or that has a member outside
    its own folder (absolute, "..", a link that leads out): nothing of it is kept.
    """
    state = archive.stat()
    name = f"{archive.name.split('.')[0]}-{state.st_size:x}-{state.st_mtime_ns:x}"

    def extract(temporary: Path) -> Path:
        with reading(archive):
            _extract(archive, temporary / name)
        return temporary / name

    return made_once(folder() / "unpacked" / name, extract)


def _extract(archive: Path, target: Path) -> None:
    zipped = zipfile.is_zipfile(archive)
    with zipfile.ZipFile(archive) if zipped else tarfile.open(archive) as file:
        names = map(PurePosixPath, file.namelist() if zipped else file.getnames())
        outside = [str(name) for name in names if name.is_absolute() or ".." in name.parts]
        filtered = not zipped and hasattr(tarfile, "data_filter")  # from Python 3.11.4 on
        if not zipped and not filtered:
            outside += [m.name for m in file.getmembers() if not (m.isfile() or m.isdir())]
        try:
            if not outside:
                file.extractall(target, **({"filter": "data"} if filtered else {}))
        except getattr(tarfile, "FilterError", ()) as error:  # a link that leads out, or a device
            outside = [error.tarinfo.name]
    if outside:
        raise DataError(
            f"{archive.name} would write outside its folder: {outside[0]!r}", where=shown(archive),
            do="do not trust it; fetch it again from its source",
        )  # fmt: skip


def prepared(name: str, shape: tuple[int, ...], fill: Callable[[np.ndarray], None]) -> np.ndarray:
    """A uint8 array that `fill` wrote once, mapped from the cache; read only.

    `name` has to say everything that the content depends on.
    """

    def make(temporary: Path) -> Path:
        array = np.lib.format.open_memmap(temporary / "made.npy", "w+", np.uint8, shape)
        fill(array)
        array.flush()
        return temporary / "made.npy"

    target = made_once(folder() / "prepared" / f"{name}.npy", make)
    with reading(target, do="delete the file; it is made anew"):
        array = np.load(target, mmap_mode="r", allow_pickle=False)
        if array.shape != shape or array.dtype != np.uint8:
            raise ValueError("another shape")
    return array


@contextmanager
def reading(path: Path, *, do: str = "fetch it again from its source, see data/README.md"):
    """Turn whatever a reader raises for a damaged file into one `DataError`."""
    try:
        yield
    except FileNotFoundError as error:
        missing = Path(error.filename or path)
        raise DataError(f"{missing.name} is missing", where=shown(missing.parent), do=do) from None
    except DAMAGED as error:
        if "Object arrays" in str(error):  # numpy's words, and those of arrays.py
            raise DataError(
                f"{path.name} holds pickled objects, which are never loaded", where=shown(path),
                do="store plain arrays with numpy.savez_compressed",
            ) from None  # fmt: skip
        raise DataError(f"{path.name} is damaged or truncated", where=shown(path), do=do) from None
