"""The tables of notebook 01b: FCCL and its rivals, printed beside recorded results.

`compared(run, name)` reads one table; `run` is what the start cell made.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from .. import measures
from ..errors import choose
from ..experiments.arenas import ARENAS
from ..experiments.arenas import RECIPE as BENCHMARK
from ..papers import published_table, spread, verdict
from ..papers.verdicts import HOLDS, UNDECIDED
from .doubts import accuracy
from .rows import Rows
from .seen import on_real_digits
from .start import setting

RIVALS = ("FedMD", "FML", "RCFL", "FedDF", "FedMatch")
METHODS = ("FCCL", "SOLO", *RIVALS)  # the rows of Tables 1 and 2
ALONE, AVERAGING = "SOLO", "FedAVG"
SETS = {"Tiny-ImageNet": None, "CIFAR-10": "cifar10", "Fashion-MNIST": "fashion-mnist"}
TEACHERS = ("none", "previous", "pretrained", "both")
NO_PHOTOGRAPHS = "none (training alone)"
CLIENTS = {"MNIST": "M", "USPS": "U", "SVHN": "SV", "rendered (paper: SYN)": "SY"}
ONE = {"models": ["small_cnn"]}  # the network of all clients in Table 3
AWAY, HOME = "others' digits", "own digits"


# ------------------------------------------------------------------------------ the tables


def compared(run, name: str) -> Rows:
    """A table of recorded results beside the paper's numbers: accuracy in percent.

    name: a key of `TABLES`, such as "1" or "3, own digits".
    """
    rows, title, printed, about = TABLES[choose(name, TABLES, kind="table", where="tables of FCCL")]
    found = rows(run)
    first, side = next(iter(found.values())), about.get("of", AWAY)
    keys = ("intra", "inter") if side == HOME else ("inter", "intra")
    measured = {label: accuracy(r, keys[0]) for label, r in found.items()}
    other = {label: accuracy(r, keys[1]) for label, r in found.items()}
    shown = dict(printed())
    return Rows(
        f"{title}: accuracy on {side}, in %. {setting(first)} · "
        f"{first[0].settings['rounds']} rounds · recorded",
        measured, printed=shown, less=about["less"], results=found, side=HOME,
        home={} if shown else other, decides=about.get("decides", _closest)(measured),
    )  # fmt: skip


def real(run) -> dict[str, list]:
    """Printed row -> results on real digits, one per seed."""
    return {name: on_real_digits(run, name.lower()) for name in METHODS}


def photographs(run) -> dict[str, list]:
    """Set of public photographs -> results of FCCL on real digits, one per seed."""
    changes = {name: {"scenario.public": id} if id else {} for name, id in SETS.items()}
    found = {name: on_real_digits(run, "fccl", **change) for name, change in changes.items()}
    return {NO_PHOTOGRAPHS: on_real_digits(run, "solo"), **found}


def teachers(run) -> dict[str, list]:
    """Which former selves teach -> results of FCCL on real digits, one per seed."""
    return {
        name: on_real_digits(run, "fccl", **({} if name == "both" else {"fccl.teachers": name}))
        for name in TEACHERS
    }


def equal_networks(run) -> dict[str, list]:
    """Printed row of Table 3 -> results on bundled digits with one network for all clients."""
    found = {ALONE: run.recorded("solo", **ONE)}
    silent = {"fedmd.average": True, "fedmd.public_lr": 0.0}  # the photographs change nothing
    found[AVERAGING] = run.recorded("fedmd", **ONE, **silent)
    found["FML"] = run.recorded("fml", **ONE)
    for name in ("FedMD", "RCFL", "FedDF", "FedMatch", "FCCL"):
        method = name.lower()
        found[name] = run.recorded(method, **ONE, **{f"{method}.average": True})
    return found


def fml_with_four_networks(run) -> np.ndarray:
    """FML less training alone on own digits, bundled, in points: runs of notebook 07.

    Every client has another network, and nobody is pretrained.
    """
    change = ARENAS["four networks"].changes["quick"]
    fml, solo = (run.recorded(m, recipe=BENCHMARK, **change) for m in ("fml", "solo"))
    return accuracy(fml, "intra") - accuracy(solo, "intra")


def clients(run, table: str) -> pd.DataFrame:
    """Table "1" or "2", a column per client: measured mean ± sd, and the printed number."""
    printed = published_table("FCCL", choose(table, ("1", "2"), kind="table", where="clients"))
    printed, arrow = printed.set_index("method"), "->" if table == "1" else ""
    read = measures.inter if table == "1" else measures.intra
    rows = {}
    for name, results in real(run).items():
        last = [r.history["accuracy"][-1]["matrix"] for r in results]
        found = 100 * np.array([read(matrix, range(len(matrix))) for matrix in last])
        rows[name] = [
            f"{spread(found[:, k], 1)} ({printed.loc[name, f'Digits/{short}{arrow}']:.1f})"
            for k, short in enumerate(CLIENTS.values())
        ]
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(CLIENTS))


def office_home() -> pd.DataFrame:
    """What Table 3 prints for each domain of Office-Home, in percent."""
    return published_table("FCCL", "3").set_index("method").rename_axis(None)


# ------------------------------------------------------------------------ reading of results


def sorted_out(gains: Mapping[str, Sequence[float]]) -> tuple[list[str], list[str], list[str]]:
    """Names whose differences the seeds tell from zero, above and below, and all others."""
    said = {name: verdict(list(values), +1) for name, values in gains.items()}
    above = [name for name, word in said.items() if word == HOLDS]
    neither = [name for name, word in said.items() if word == UNDECIDED]
    return above, [name for name in said if name not in above + neither], neither


def listed(names: Sequence[str]) -> str:
    """Names in a sentence: "nobody", "A", "A and B", "A, B and C"."""
    if not names:
        return "nobody"
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def since_start(results: Sequence, key: str, moment: str = "end") -> np.ndarray:
    """Points gained since before round 1: by the end, or in the first public half.

    key: "intra" or "inter"; moment: "end", or "after_collaborate" of round 1 where the runs
    observed it. One number per seed.
    """
    read, found = getattr(measures, key), []
    for r in results:
        seen = [e for e in r.history["accuracy"] if e["moment"] == moment]
        last = seen[-1] if moment == "end" else seen[0]
        own = [r.history["tests"].index(domain) for domain in r.history["domains"]]
        before, after = (np.mean(read(e["matrix"], own))
                         for e in (r.history["accuracy"][0], last))  # fmt: skip
        found.append(100 * (after - before))
    return np.array(found)


def worst_client(results: Mapping[str, Sequence], by_client: Callable) -> dict:
    """Where FCCL does worst against its best rival on others' digits, by the mean over seeds.

    by_client: results -> accuracy [seeds, clients]. Gives the client, its best rival, the
    difference per seed, and under "least" that of the worst client, chosen in each seed.
    """
    own = by_client(results["FCCL"])
    theirs = {name: by_client(results[name]) for name in RIVALS}
    behind = own - np.max(list(theirs.values()), axis=0)
    k = int(behind.mean(0).argmin())
    rival = max(RIVALS, key=lambda name: theirs[name][:, k].mean())
    return {"client": list(CLIENTS)[k].partition(" (")[0], "rival": rival,
            "gap": own[:, k] - theirs[rival][:, k], "least": behind.min(1)}  # fmt: skip


def _closest(measured: Mapping[str, np.ndarray]) -> list[str]:
    """The best row beside FCCL, by the mean over seeds."""
    return [max((name for name in measured if name != "FCCL"), key=lambda n: measured[n].mean())]


def _but(*left_out: str) -> Callable:
    return lambda measured: [name for name in measured if name not in left_out]


def _printed(table: str, part: str) -> dict[str, float]:
    """Row -> the mean of the printed numbers of a group of columns."""
    found = published_table("FCCL", table).set_index("method")
    columns = [c for c in found if c.startswith(f"{part}/") and not c.endswith("AVG")]
    return found[columns].mean(axis=1).to_dict()


TABLES: dict[str, tuple[Callable, str, Callable, dict]] = {
    # name: (rows of a run, title, printed numbers, what `compared` needs besides)
    "1": (real, "Table 1", lambda: _printed("1", "Digits"), {"less": "FCCL"}),
    "2": (real, "Table 2", lambda: _printed("2", "Digits"), {"less": "FCCL", "of": HOME}),
    "photographs": (photographs, "Fig. 7, photographs", dict,
                    {"less": NO_PHOTOGRAPHS, "decides": _but(NO_PHOTOGRAPHS)}),
    "teachers": (teachers, "Fig. 8, teachers", dict,
                 {"less": "none", "decides": lambda measured: ["both"]}),
    "3": (equal_networks, "Table 3 (printed: Office-Home)", lambda: _printed("3", "Inter"),
          {"less": AVERAGING, "decides": lambda measured: ["FCCL"]}),
    "3, own digits": (equal_networks, "Table 3 (printed: Office-Home)",
                      lambda: _printed("3", "Intra"),
                      {"less": ALONE, "of": HOME, "decides": lambda measured: ["FCCL"]}),
}  # fmt: skip
