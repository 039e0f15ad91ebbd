"""Pack the images that runs of the queue need, to carry them to a machine without a network.

A packed file has the format of its original (`data/README.md`) with only the images that a scenario
takes: all labels, the images of some rows, and `rows`, their numbers. Scenarios built from it are
the same, bit for bit; asking it for another image is an error. A file that is needed whole is
copied. Beside them lies `commit.json`: which code packed, for the results of that machine.
"""

import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ..datasets import sources
from ..datasets.arrays import packed
from ..datasets.cache import reading
from ..engine.files import shown, write_atomically
from ..errors import DataError, SettingError
from . import commits
from .manifest import Run, absent

MB = 10**6


def pack(runs: Sequence[Run], out, *, limit: float = 60, say: Callable = print) -> list[Run]:
    """Write what `runs` need to the folder `out`, at most `limit` MB; returns the runs that fit.

    In their order: the first whose images do not fit ends the list; runs without data here are left
    out. Raises `SettingError` for a folder that is not empty, `DataError` where nothing fits or a
    set does not lie in .npz files.
    """
    out, needed, files, fitting, seen = Path(out), {}, {}, [], set()
    if out.exists() and any(out.iterdir()):
        raise SettingError(f"{out.name} is not empty", where=shown(out), do="name a new folder")
    for run in runs:
        data = run.recipe.scenario, json.dumps(run.recipe.scenario_options, sort_keys=True)
        if (reason := absent(run)) is not None:
            say(f"{run.name}: left out, {reason}")
            continue
        if data not in seen:
            rows = _merged(needed, _rows(run))
            changed = {key: packed_file(*key, rows[key]) for key in rows
                       if key not in needed or len(rows[key]) > len(needed[key])}  # fmt: skip
            total = sum(len(content) for _, content in {**files, **changed}.values())
            if total > limit * MB:
                say(f"{run.name}: does not fit, {total / MB:.1f} MB with what is before it")
                break
            needed, files = rows, {**files, **changed}
            seen.add(data)
        fitting.append(run)
    if not fitting:
        raise DataError("nothing to pack", where=f"at most {limit} MB",
                        do="raise --limit-mb, or get the data first")  # fmt: skip
    for (name, _), (file, content) in files.items():
        write_atomically(out / name / file, lambda path, c=content: Path(path).write_bytes(c))
    found = commits.git_commit() or {"commit": None, "dirty": True}
    if found["dirty"]:
        say("code or recipes are not committed: what these images go with can record nothing below "
            "data/, only into a folder of its own (--results)")  # fmt: skip
    note = json.dumps({**found, "code": commits.code()}, indent=1) + "\n"
    write_atomically(out / "commit.json", lambda path: Path(path).write_text(note))
    size = sum(len(content) for _, content in files.values()) / MB
    say(f"{len(fitting)} runs, {len(files)} files, {size:.1f} MB in {shown(out)}")
    return fitting


def _rows(run: Run) -> dict[tuple[str, str], np.ndarray]:
    """(set, split) -> the numbers of the images that the run's scenario takes, ascending."""
    with sources.noted() as notes:
        run.recipe.build()
    taken = {}
    for name, split, index in notes:
        taken = _merged(taken, {(name, split): np.unique(index)})
    return taken


def _merged(one: dict, other: dict) -> dict:
    return {key: np.union1d(one.get(key, []), other.get(key, [])).astype(np.int64)
            for key in {**one, **other}}  # fmt: skip


def packed_file(name: str, split: str, rows: np.ndarray) -> tuple[str, bytes]:
    """The file's name and content: that of the set's split with the images at `rows`, ascending."""
    for folder in sources.folders_of_data():
        for file in (f"{split}.npz", f"{split}_jpeg.npz"):
            if (path := folder / name / file).is_file():
                return file, _cut(path, rows)
    raise DataError(
        f"{name}, {split}, does not lie in an .npz file, and only these are packed",
        where=" and ".join(shown(folder / name) for folder in sources.folders_of_data()),
        do="carry its folder as it is, or write it as data/README.md describes",
    )


def _cut(path: Path, rows: np.ndarray) -> bytes:
    with reading(path), np.load(path, allow_pickle=False) as file:
        y = file["labels"]
        if len(rows) == len(y):
            return path.read_bytes()
        place = packed(path, len(y))[1](rows)
        if "jpeg" not in file.files:
            arrays = {"images": file["images"][place]}
        else:
            jpeg, offsets = file["jpeg"], file["offsets"]
            parts = [jpeg[offsets[i] : offsets[i + 1]] for i in place]
            ends = np.cumsum([0, *(len(part) for part in parts)])
            arrays = {"jpeg": np.concatenate(parts), "offsets": ends}
    content = io.BytesIO()
    np.savez_compressed(content, **arrays, labels=y, rows=rows)
    return content.getvalue()
