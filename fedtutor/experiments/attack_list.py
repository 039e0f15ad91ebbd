"""The studies of notebook 06, at the settings at which they are committed, and those that wait.

`study` reads the numbers of one from `data/attacks/<name>.json`, or computes them. The file holds
what was asked, on which machine it was computed, and numbers: no weights, no images, no pixels.
What takes longer than a reading is listed in `data/attacks/queue.toml`, with minutes.
`python -m tools.record attack NAME` computes one of either list anew.
"""

import json
import os
import time
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from statistics import mean

from ..engine.files import DATA, damaged, load_json, save_json, shown
from ..engine.kinds import checked
from ..errors import choose
from ..papers import spread
from .attack_messages import averages, papers
from .attack_studies import figure_six, likelihood, many_pictures, memory
from .commits import require_committed
from .environment import environment
from .recipes import read_toml

FOLDER = DATA / "attacks"
QUEUE = FOLDER / "queue.toml"
PARTS = {"format", "name", "setting", "environment", "cpu_seconds", "numbers"}
KEYS = {"name": str, "like": str, "value": float, "minutes": float, "device": str, "options": dict}
TWO = {"seeds": [0, 1, 2], "clients": ["street", "synthetic"], "private_size": 200}
FIG6 = {
    "scenario": "digits-five-partial", "clients": ["synthetic", "mnist_m"],
    "moments": [1, 2, 5, 10], "settings": {"rounds": 10, "local_epochs": 10},
    "variants": {"FedAvg": ["fedavg", {}], "FedLGD": ["fedlgd", {"virtual_ipc": 10}],
                 "FedAvg on virtual images": ["fedavg", {"virtual_ipc": 10}]},
}  # fmt: skip
CONVNET = {"models": ["small_convnet"], "lr": 0.1, "momentum": 0.0}
BATCHES = {**CONVNET, "batch_size": 128, "lr": 0.4}  # four times both: a pass goes as far
DISTILLED = {"local_epochs": 48, "virtual_ipc": 10, "virtual_steps": 60, "virtual_lr": 30.0,
             "virtual_batch": 16}  # fmt: skip
DEFENSES = {  # what the client of section 7 does: options of `likelihood`
    "no-defense": {"settings": CONVNET},
    "stopped-2": {"settings": {**CONVNET, "local_epochs": 2}},
    "stopped-4": {"settings": {**CONVNET, "local_epochs": 4}},
    "batches": {"settings": BATCHES},
    "clipping": {"settings": CONVNET, "private": {"clip": 1.0, "noise": 0.0}},
    "noise-0.3": {"settings": CONVNET, "private": {"clip": 1.0, "noise": 0.3}},
    "noise-1": {"settings": CONVNET, "private": {"clip": 1.0, "noise": 1.0}},
    "noise-3": {"settings": CONVNET, "private": {"clip": 1.0, "noise": 3.0}},
    "noise-1-batches": {"settings": BATCHES, "private": {"clip": 1.0, "noise": 1.0}},
    "distillation": {"settings": {**CONVNET, **DISTILLED}},
}  # fmt: skip
KINDS = {"lira": "ratio", "offline": "offline", "threshold": "threshold"}
STUDIES: dict[str, tuple[Callable, dict]] = {  # what the notebook reads
    "figure-6": (figure_six, {"seeds": [0, 1, 2], **FIG6}),
    "papers": (papers, {**TWO, "settings": {"rounds": 3, "virtual_steps": 30}}),
    "averages": (averages, {**TWO, "sizes": [1, 3, 10], "rounds": 10}),
    "memory": (memory, {"seeds": [0, 1, 2], "pool": "street", "ipc": 10,
                        "inits": ["statistics", "real"], "settings": DISTILLED}),
    "pictures-cifar10": (many_pictures, {"seeds": [0, 1, 2], "pool": "cifar10",
                                         "network": "plain_cnn"}),
    **{name: (likelihood, {"pool": "street", "networks": 12, "targets": 5, **options})
       for name, options in DEFENSES.items()},
}  # fmt: skip


def study(name: str, *, recompute: bool = False, keep: bool = False, device="cpu",
          threads: int = 1, **changes) -> dict:  # fmt: skip
    """The numbers of a study of either list: from its file, or computed now.

    `changes` replace options of its own. They are computed where the file is absent, of another
    setting, or `recompute` is asked; and kept with `keep` or where FEDTUTOR_RECORD is set. `device`
    and `threads` are for those that make use of them: the setting does not name them. Raises
    `StorageError` for a damaged file, and `SettingError` where code is uncommitted.
    """
    lists = listed()
    function, options = lists[choose(name, lists, kind="study", where="attacks.study")]
    options, known = {**options, **changes}, signature(function).parameters
    where = {k: v for k, v in {"device": device, "threads": threads}.items() if k in known}
    setting = json.loads(json.dumps({"study": function.__name__, **options}))
    path = _file(name)
    if path.exists() and not recompute:
        value = load_json(path)
        if not isinstance(value, dict) or value.keys() != PARTS or value["format"] != 1:
            raise damaged(path, ValueError("its parts are not those of a kept attack"))
        if value["setting"] == setting:
            return value["numbers"]
    if keep := keep or bool(os.environ.get("FEDTUTOR_RECORD")):
        require_committed(FOLDER)
    began = time.process_time()
    numbers = json.loads(json.dumps(function(**options, **where)))
    if keep:
        save_json(path, {"format": 1, "name": name, "setting": setting,
                         "environment": environment(),
                         "numbers": numbers,
                         "cpu_seconds": round(time.process_time() - began, 1)})  # fmt: skip
    return numbers


def listed() -> dict[str, tuple[Callable, dict]]:
    """Every study by name: its function and its options."""
    return STUDIES | {row["name"]: (row["function"], row["options"]) for row in waiting()}


def _file(name: str) -> Path:
    return FOLDER / f"{name}.json"


def waiting(path: Path = QUEUE) -> list[dict]:
    """Rows of the queue, most valuable first: name, value, minutes, device, function, options.

    Raises `SettingError` for what is unknown, missing or of the wrong type.
    """
    rows = []
    for number, row in enumerate(read_toml(path)["study"], start=1):
        where = f"{shown(path)}, study {row.get('name', number)!r}"
        row = checked(row, KEYS, where, needed=KEYS)
        function, options = STUDIES[choose(row["like"], STUDIES, kind="study", where=where)]
        rows.append({**row, "function": function, "options": {**options, **row["options"]}})
    return sorted(rows, key=lambda row: -row["value"])


def sizes() -> list[dict]:
    """What was found with more shadow networks, or in another setting, each below its original.

    study | data | networks | AUC of the ratio, offline, one threshold | found at 1 %, by the best;
    mean and standard deviation over the attacked networks.
    """
    rows = {}
    for row in waiting():
        if row["function"] is not likelihood or not _file(row["name"]).exists():
            continue
        for name, o in ((row["like"], STUDIES[row["like"]][1]), (row["name"], row["options"])):
            found = study(name)
            areas = {f"AUC, {words}": spread(found[k]["auc"]) for k, words in KINDS.items()}
            tpr = max((found[k]["tpr"] for k in KINDS), key=mean)
            rows[name] = {"study": row["like"], "data": o["pool"], "networks": o["networks"],
                          **areas, "found at 1 %": spread(tpr, 3)}  # fmt: skip
    return list(rows.values())
