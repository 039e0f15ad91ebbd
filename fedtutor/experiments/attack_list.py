"""The studies of notebook 06, at the settings at which they are committed, and those that wait.

`study` reads the numbers of one from `data/attacks/<name>.json`, or computes them. The file holds
what was asked, on which machine it was computed, and numbers: no weights, no images, no pixels.
What takes longer than a reading waits in `data/attacks/queue.toml`, with minutes:

    python -m fedtutor queue attacks                what waits, then as many as the minutes allow
    python -m fedtutor queue attacks --only NAME    that one, of either list, anew
"""

import json
import os
import time
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from statistics import mean

from ..engine.files import ROOT, damaged, load_json, save_json, shown
from ..errors import StorageError, choose
from ..papers import spread
from . import code_hash, jobs, looks, recipes, stale
from .attack_messages import ATTACKS, averages, papers
from .attack_studies import OVERFIT, figure_six, likelihood, many_pictures, memory
from .commits import require_committed
from .environment import environment
from .recipes import checked, read_toml

FOLDER = ROOT / "data" / "attacks"
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

TRAINED = {  # study -> methods and networks that it trains, beside those that its options name
    likelihood: ["fedavg", *OVERFIT["models"]],
    memory: ["fedavg", "small_convnet"],
    many_pictures: ["fedavg", "fedlgd"],
    papers: [*ATTACKS],
    averages: ["repshare"],
    figure_six: [],
}
BY_RECIPE = (figure_six, papers, averages)  # these play runs of the recipe "attacks"


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
                         "environment": {**environment(), "code": code_now(function, options)},
                         "numbers": numbers,
                         "cpu_seconds": round(time.process_time() - began, 1)})  # fmt: skip
    return numbers


def listed() -> dict[str, tuple[Callable, dict]]:
    """Every study by name: its function and its options."""
    return STUDIES | {row["name"]: (row["function"], row["options"]) for row in waiting()}


def code_now(function: Callable, options: dict) -> dict:
    """`code_hash.code_of_study`: the study's function, what it trains, and its recipe's values."""
    if (root := looks.root_of(function)) is None:
        return {"hash": None, "unknown": f"{function.__name__} is not in the package"}
    names, values = [*TRAINED.get(function, ()), *_texts(options)], {}
    if function in BY_RECIPE:
        recipe = recipes.load("attacks", profile=options.get("profile", "quick"),
                              scenario=options.get("scenario"))  # fmt: skip
        values = recipe.values()
        names += [recipe.scenario, *recipe.settings.models]
    return code_hash.code_of_study(root, names, values)


def _texts(value) -> list[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [text for part in value for text in _texts(part)]
    return [value] if isinstance(value, str) else []


def states() -> list[dict]:
    """One row per recorded study, as `stale.states` has them for results.

    Unknown: recorded before studies knew their code, damaged, or of a study that is not listed.
    """
    rows, known = [], listed()
    for path in sorted(FOLDER.glob("*.json")):
        try:
            about = load_json(path)["environment"]
            git, made = about.get("git") or {}, about.get("code")
        except (AttributeError, KeyError, StorageError, TypeError):
            git, made = {}, {"hash": None, "unknown": "it cannot be read"}
        now = code_now(*known[path.stem]) if path.stem in known else {}
        state, words = stale.UNKNOWN, "here no study has that name"
        if now:
            state, words = stale.compared(made, now)
        rows.append({"folder": "attacks", "result": path.stem, "state": state, "changed": words,
                     "dirty": bool(git.get("dirty")),
                     "commit": (git.get("commit") or "")[:7]})  # fmt: skip
    return rows


def _file(name: str) -> Path:
    return FOLDER / f"{name}.json"


def waiting(path: Path = QUEUE) -> list[dict]:
    """Rows of the queue, most valuable first: name, value, minutes, device, function, options.

    Raises `SettingError` for what is unknown, missing or of the wrong type.
    """
    rows = []
    for number, row in enumerate(read_toml(path)["study"], start=1):
        where = f"{shown(path)}, study {row.get('name', number)!r}"
        row = checked(row, KEYS, tuple(KEYS), where)
        function, options = STUDIES[choose(row["like"], STUDIES, kind="study", where=where)]
        rows.append({**row, "function": function, "options": {**options, **row["options"]}})
    return sorted(rows, key=lambda row: -row["value"])


def queued() -> list[dict]:
    """name | data | size (networks or seeds) | minutes | on | done, one row per queued study."""
    rows = []
    for row in waiting():
        o = row["options"]
        count = (f"{o['networks'] + o['targets']} networks" if "networks" in o
                 else f"{len(o['seeds'])} seeds")  # fmt: skip
        rows.append({"name": row["name"], "data": o.get("pool") or o["scenario"], "size": count,
                     "minutes": round(row["minutes"]), "on": row["device"],
                     "done": _file(row["name"]).exists()})  # fmt: skip
    return rows


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


def work(*, minutes: float, only: str = "", device: str = "cpu", threads: int = 1,
         say: Callable = print) -> list[str]:  # fmt: skip
    """Play what waits, most valuable first, as far as `minutes` go by estimate; the names played.

    `only`: the study of that name, of either list, even where it is done. What needs another device
    or data that are not here is named and left, and so is one that fails.
    """
    began, played, tasks = time.monotonic(), [], []
    rows = [row for row in waiting() if not _file(row["name"]).exists()]
    if only:
        choose(only, listed(), kind="study", where="queue attacks")
        rows = [{"name": only, "minutes": 0.0, "device": device}]
    options = {"recompute": True, "keep": True, "device": device, "threads": threads}
    for row in rows:
        if row["device"] == "cuda" and not device.startswith("cuda"):
            say(f"{row['name']}: left, it is for cuda")
        else:
            tasks.append(jobs.Task(study, (row["name"],), options, about=row["name"],
                                   minutes=row["minutes"]))  # fmt: skip
    left = {task.about: task.minutes for task in tasks}
    for task, outcome, value in jobs.through(
        tasks, minutes=minutes, finish=True,
        refuse=lambda task: require_committed(FOLDER),  # before the first start
    ):  # fmt: skip
        del left[task.about]
        if outcome == jobs.DONE:
            played.append(task.about)
            say(f"{task.about}: {(time.monotonic() - began) / 60:.1f} minutes so far")
        else:
            say(f"{task.about}: left, {getattr(value, 'what', value)}")
    for name, needs in left.items():
        say(f"{name}: left, it needs about {needs:g} minutes")
    return played
