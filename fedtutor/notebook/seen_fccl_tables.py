"""The tables of notebook 01b: FCCL and its rivals, printed beside recorded results.

`compared(run, name)` reads one table; `run` is what the start cell made.
"""

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from .. import measures
from ..errors import choose
from ..experiments.arenas import ARENAS
from ..experiments.arenas import RECIPE as BENCHMARK
from ..papers import direction, published_table, spread, weakest
from . import rows as shared
from .doubts import accuracy, before_local
from .rows import Rows, signed, told
from .seen import on_real_digits
from .start import setting

RIVALS = ("FedMD", "FML", "RCFL", "FedDF", "FedMatch")
METHODS = ("FCCL", "SOLO", *RIVALS)  # the rows of Tables 1 and 2
ALONE, AVERAGING = "SOLO", "FedAVG"
SETS = {"Tiny-ImageNet": None, "CIFAR-10": "cifar10", "Fashion-MNIST": "fashion-mnist"}
PUBLIC = ("CIFAR-100", "ImageNet")  # with which the paper has its two gains of Fig. 8
TEACHERS = ("none", "previous", "pretrained", "both")
NO_PHOTOGRAPHS = "none (training alone)"
CLIENTS = {"MNIST": "M", "USPS": "U", "SVHN": "SV", "rendered (paper: SYN)": "SY"}
ONE = {"models": ["small_cnn"]}  # the network of all clients in Table 3
AWAY, HOME = "others' digits", "own digits"
START = "networks before round 1"
TAUGHT = [AWAY, f"{AWAY}, minus no teacher", HOME, f"{HOME}, minus no teacher",
          f"{AWAY}, change in the last training at home"]  # fmt: skip


# ------------------------------------------------------------------------------ the tables


def compared(run, name: str) -> Rows:
    """A table of recorded results beside the paper's numbers: accuracy in percent.

    name: a key of `TABLES`, such as "1" or "3, own digits".
    """
    rows, title, printed, about = TABLES[choose(name, TABLES, kind="table", where="tables of FCCL")]
    found = rows(run)
    first, side = next(iter(found.values())), about.get("of", AWAY)
    keys = ("intra", "inter") if side == HOME else ("inter", "intra")
    measured, other = ({label: accuracy(r, key) for label, r in found.items()} for key in keys)
    if about.get("start"):
        measured[START] = measured[ALONE] - since_start(found[ALONE], keys[0])
    shown = dict(printed())
    return Rows(
        f"{title}: accuracy on {side}, in %. {setting(first)} · "
        f"{first[0].settings['rounds']} rounds · recorded",
        measured, printed=shown, less=about["less"], results=found, side=HOME,
        home={} if shown else other, decides=about.get("decides", _hardest)(measured),
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


def taught(run) -> pd.DataFrame:
    """FCCL by its teachers, real digits: accuracy in percent, differences to none in points.

    The last column is the change on others' digits while the clients train at home in the last
    round. The last row has the paper's gains, with CIFAR-100 and with ImageNet.
    """
    found, rows = teachers(run), {}
    for name, results in found.items():
        row = []
        for key in ("inter", "intra"):
            values = accuracy(results, key)
            less = values - accuracy(found["none"], key)
            row += [spread(values, 1), "" if name == "none" else points(less)]
        label = "no teacher" if name == "none" else name
        rows[label] = [*row, points(accuracy(results, "inter") - before_local(results))]
    gains = published_table("FCCL", "text").set_index("method")["value"]
    cells = [f"{gain:+.1f} ({public})" for gain, public in zip(gains, PUBLIC, strict=False)]
    rows["both, printed"] = ["", cells[0], "", cells[1], ""]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=TAUGHT)
    return table.rename_axis(columns=f"Fig. 8, in %. {setting(found['none'])} · recorded")


def controls(run) -> dict[str, np.ndarray]:
    """Why RCFL and FML stand where they do in Table 3: differences in points, one per seed.

    With four networks, FML and training alone are runs of notebook 07, where nobody is pretrained.
    """
    equal, changes = equal_networks(run), {**ONE, "rcfl.average": True, "rcfl.alpha": 0.0}
    four = ARENAS["four networks"].changes["quick"]
    fml, solo = (run.recorded(m, recipe=BENCHMARK, **four) for m in ("fml", "solo"))
    average = accuracy(equal[AVERAGING], "inter")
    return {
        "RCFL, half of the way back: others' digits, minus FedAVG":
            accuracy(equal["RCFL"], "inter") - average,
        "RCFL, no way back: the same":
            accuracy(run.recorded("rcfl", **changes), "inter") - average,
        "FML, one network: own digits, minus SOLO":
            accuracy(equal["FML"], "intra") - accuracy(equal[ALONE], "intra"),
        "FML, four networks (notebook 07): the same":
            accuracy(fml, "intra") - accuracy(solo, "intra"),
    }  # fmt: skip


def in_points(gains: Mapping[str, Sequence[float]]) -> pd.DataFrame:
    """Differences, one per seed and row, as a table: mean ± sd, * where told from zero."""
    return pd.DataFrame({"points": {name: points(values) for name, values in gains.items()}})


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


def at_home(results: Sequence) -> dict[str, np.ndarray]:
    """Domain -> accuracy of its client on its own digits at the end, percent, one per seed."""
    last = [r.history["accuracy"][-1]["matrix"] for r in results]
    found = 100 * np.array([measures.intra(matrix, range(len(matrix))) for matrix in last])
    return dict(zip(results[0].history["domains"], found.T, strict=True))


def office_home() -> pd.DataFrame:
    """What Table 3 prints for each domain of Office-Home, in percent."""
    return published_table("FCCL", "3").set_index("method").rename_axis(None)


# ------------------------------------------------------------------------ reading of results


def sorted_out(gains: Mapping[str, Sequence[float]]) -> tuple[list[str], list[str], list[str]]:
    """Names whose differences the seeds tell from zero, above and below, and all others."""
    said = {name: direction(values) for name, values in gains.items()}
    above = [name for name, sign in said.items() if sign == 1]
    neither = [name for name, sign in said.items() if sign == 0]
    return above, [name for name in said if name not in above + neither], neither


def points(gains: Sequence[float]) -> str:
    """Mean ± sd with its sign, and a * where the seeds tell it from zero: "+4.1 ± 0.8*"."""
    return signed(gains) + told(gains).strip()


def gained(gains: Sequence[float]) -> str:
    """`points` without a plus, where the verb says the direction: "4.1 ± 0.8*"."""
    return points(gains).lstrip("+")


def against(what: str, other: str, gains: Sequence[float], where: str = "") -> str:
    """`rows.against`, with a * behind a difference that is told."""
    text = shared.against(what, other, gains, where)
    return re.sub(r"(?<=± )[\d.,]*\d", r"\g<0>*", text) if told(gains) else text


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


def leads(rows: Rows, rivals: Sequence[str], where: str) -> dict[str, np.ndarray]:
    """In words -> points per seed: FCCL minus each rival; `where` ends the words."""
    return {f"FCCL minus {rival} {where}": rows.gains("FCCL", rival) for rival in rivals}


def _hardest(measured: Mapping[str, np.ndarray]) -> list[str]:
    """The rival that decides whether FCCL is ahead of all of them; see `papers.weakest`."""
    return [weakest({name: measured["FCCL"] - measured[name] for name in RIVALS})]


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
    "2": (real, "Table 2", lambda: _printed("2", "Digits"),
          {"less": "FCCL", "of": HOME, "start": True}),
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
