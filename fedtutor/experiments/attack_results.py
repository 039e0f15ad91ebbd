"""Attacks that take minutes: computed once, committed as small JSON files, and read again.

`data/attacks/<name>.json` holds what was asked, on which machine it was computed, and the numbers
that came out: no weights, no images, no pixels.
"""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

from ..engine.files import ROOT, damaged, load_json, save_json
from .commits import require_committed
from .environment import environment

FOLDER = ROOT / "data" / "attacks"
PARTS = {"format", "name", "setting", "environment", "cpu_seconds", "numbers"}


def kept(name: str, setting: dict, compute: Callable, *, folder: Path | None = None,
         recompute: bool = False, keep: bool = False) -> dict:  # fmt: skip
    """The numbers in the file `name`, if they are of this `setting`; else what `compute()` returns.

    Both are plain values, ready for JSON. What was computed is kept in `folder` (else `FOLDER`)
    with `keep`, or where the environment variable FEDTUTOR_RECORD is set. Raises `StorageError`
    for a damaged file, and `SettingError` where the folder takes nothing of uncommitted code.
    """
    path = Path(folder or FOLDER) / f"{name}.json"
    setting = json.loads(json.dumps(setting))
    if path.exists() and not recompute:
        value = load_json(path)
        if not isinstance(value, dict) or value.keys() != PARTS or value["format"] != 1:
            raise damaged(path, ValueError("its parts are not those of a kept attack"))
        if value["setting"] == setting:
            return value["numbers"]
    keep = keep or bool(os.environ.get("FEDTUTOR_RECORD"))
    if keep:
        require_committed(path.parent)
    began = time.process_time()
    numbers = json.loads(json.dumps(compute()))
    if keep:
        save_json(path, {"format": 1, "name": name, "setting": setting,
                         "environment": environment(), "numbers": numbers,
                         "cpu_seconds": round(time.process_time() - began, 1)})  # fmt: skip
    return numbers
