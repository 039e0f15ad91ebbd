"""The tables of notebook 05b: FedLGD and its rivals beside what the paper prints.

`run` is what the start cell made. Accuracies are of the last round, means over the test sets, in
percent, one per seed.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import numpy as np
import pandas as pd
import torch

from .. import rounds
from ..engine import counting
from ..figures import display_name
from ..papers import published_table
from .rows import Rows
from .seen_repshare import curve, points
from .start import setting

DIGITS, CORRUPTED = "digits-five-partial", "cifar10-c-rebuilt"
METHODS = ("fedavg", "fedprox", "fednova", "scaffold", "moon", "fedproto", "vhl", "fedlgd")
ONE_METHOD = ("FedNova", "FedProx")  # FedAvg, and nearly so
PLOTTED = ("fedavg", "fedprox", "scaffold", "vhl", "fedlgd")  # Fig. 10
FEW = ("fedavg", "vhl", "fedlgd")  # of the methods of Fig. 11
COLUMNS = {  # column of Table 1 -> what it changes, network and images per class in the print
    "ConvNet, IPC 10": ({}, "ConvNet", 10),
    "ConvNet, IPC 50": ({"virtual_ipc": 50}, "ConvNet", 50),
    "ResNet, IPC 10": ({"models": ["small_resnet_in"]}, "ResNet18", 10),
}
REPAIRED = {668.0: 66.8}  # a misprint of Table 1 (FedProto): the mean of its five cells
NOISE, PLAIN = {"fedlgd.selected": 0}, {"fedlgd.lambda_": 0.0}
NOISY, FULL = "N: noise anchors, λ = 0", "N + both: FedLGD"
CONTROLS = {
    "FedAvg": ("fedavg", {}),
    "FedAvg, 62 rounds": ("fedavg", {"rounds": 62}),
    "FedAvg, 350 steps of DM": ("fedavg", {"virtual_steps": 350}),
    "FedAvg, 15 images per class": ("fedavg", {"virtual_ipc": 15}),
    NOISY: ("fedlgd", NOISE | PLAIN),
    "N + regularizer": ("fedlgd", NOISE),
    "N + refining": ("fedlgd", PLAIN),
    FULL: ("fedlgd", {}),
}
LAMBDAS, SELECTED = (0.1, 1.0, 10.0, 20.0), (0, 1, 3, 5, 10)
STEPS = ((0, 0), (10, 0), (0, 20), (10, 20), (30, 20), (10, 60))  # local, global
USUAL = {"lambda_": 10.0, "selected": 5, "every": 5, "regularizer": "contrastive",
         "local_steps": 10, "global_steps": 20}  # fmt: skip
RATIOS = (1.0, 0.5, 0.2)  # how many of the clients take part in a round
CELLS = {  # column of Tables 2 and 5 -> what it changes, column of the print
    "all clients, α = 2": ({}, "ratio=1 IPC=10"),
    "half of the clients, α = 2": ({"participation": 0.5}, "ratio=0.5 IPC=10"),
    "a fifth of the clients, α = 2": ({"participation": 0.2}, "ratio=0.2 IPC=10"),
    "all clients, α = 5": ({"scenario.beta": 5.0}, ""),
}
EYES = {"D": "Drishti", "A": "Acrima", "Ri": "Rim", "Re": "Refuge"}  # Table 3
STARTS = {"noise": {"virtual_init": "noise"}, "statistics": {}, "private images":
          {"virtual_init": "real"}}  # fmt: skip


def of(run, method: str, data: str = DIGITS, **changes) -> list:
    """Recorded results, one per seed of the notebook, of long runs with fewer."""
    return run.recorded(method, data, seeds=run.few_seeds if data == DIGITS else None, **changes)


def lgd(run, **own) -> np.ndarray:
    """Accuracy of FedLGD on the digits with parameters of its own, such as `selected=3`."""
    usual = all(value == USUAL[name] for name, value in own.items())
    changes = {} if usual else {f"fedlgd.{name}": value for name, value in own.items()}
    return points(of(run, "fedlgd", **changes))


def book(table: str) -> pd.DataFrame:
    """A printed table, a row per method."""
    return published_table("FedLGD", table).replace(REPAIRED).set_index("method")


def _rows(caption: str, results: Mapping[str, list], **more) -> Rows:
    about = setting(next(iter(results.values())))
    measured = {label: points(found) for label, found in results.items()}
    return Rows(f"{caption}: accuracy in %. {about} · recorded", measured, results=results, **more)


def _all(run, data: str, **changes) -> dict[str, list]:
    methods = dict.fromkeys([*METHODS, *run.methods])
    return {display_name(m): of(run, m, data, **changes) for m in methods}


def first(run, column: str) -> Rows:
    """A column of Table 1: five digit sets, eight methods on virtual images."""
    change, network, ipc = COLUMNS[column]
    table = published_table("FedLGD", "1").replace(REPAIRED)
    table = table[table["arch"] == network].set_index("method")
    known = {display_name(m.lower()): v for m, v in table[f"Average IPC={ipc}"].items()}
    return _rows(f"Table 1, {column}", _all(run, DIGITS, **change), less="FedAvg",
                 printed=known, decides=("FedLGD", "VHL"))  # fmt: skip


def second(run, column: str) -> Rows:
    """A column of Tables 2 and 5: clients that each have a corruption of their own."""
    change, name = CELLS[column]
    known = {}
    if name:
        known = {display_name(m.lower()): v for m, v in book("2")[name].items()}
    table = "Table 2" if name else "Table 5"
    return _rows(f"{table}, {column}", _all(run, CORRUPTED, **change), less="FedAvg",
                 printed=known, decides=("FedLGD",))  # fmt: skip


def apart(run) -> Rows:
    """FedLGD's lead taken apart: FedAvg with as much of everything, and FedLGD part by part."""
    results = {name: of(run, method, **change) for name, (method, change) in CONTROLS.items()}
    return _rows("ConvNet, IPC 10", results, less="FedAvg",
                 decides=("FedAvg, 15 images per class", NOISY, FULL))  # fmt: skip


def apart_over_rounds(run) -> Rows:
    """The rows of `apart` in the mean over the tested rounds, without the one that has more."""
    controls = {k: v for k, v in CONTROLS.items() if "rounds" not in v[1]}
    results = {name: of(run, method, **change) for name, (method, change) in controls.items()}
    means = {name: 100 * curve(found).mean(1) for name, found in results.items()}
    tested = len(curve(results["FedAvg"])[0])
    caption = f"Accuracy in %, mean over {tested} tested rounds"
    return Rows(f"{caption}. {setting(results[FULL])} · recorded", means, less="FedAvg",
                results=results)  # fmt: skip


def twin_rows(run) -> pd.DataFrame:
    """How far FedNova and FedProx lie from FedAvg: measured by seed, and in printed tables."""
    ours = first(run, "ConvNet, IPC 10")
    one, two, rows = published_table("FedLGD", "1").replace(REPAIRED), book("2"), {}
    one = one.set_index(["arch", "method"])[["Average IPC=10", "Average IPC=50"]]
    for name in ONE_METHOD:
        gains = ours.gains(name)
        told = zip(run.few_seeds, gains, strict=True)
        rows[name] = {f"seed {seed}": f"{v:+.1f}" for seed, v in told}
        digits = [one.loc[net, name] - one.loc[net, "FedAvg"] for net in ("ConvNet", "ResNet18")]
        for table, v in (
            ("Table 1, 4 columns", np.concatenate(digits)),
            ("Table 2, 6 columns", (two.loc[name] - two.loc["FedAvg"]).to_numpy()),
        ):
            rows[name][f"printed, {table}"] = f"{min(v):+.1f} to {max(v):+.1f}"
    return pd.DataFrame(rows).T


def weighed(run) -> dict[str, np.ndarray]:
    """Fig. 3a: loss of the regularizer -> accuracy [seeds, weights of `LAMBDAS`]."""
    losses = {"contrastive": {}, "MMD": {"regularizer": "mmd"}}
    return {
        name: np.array([lgd(run, **loss, lambda_=w) for w in LAMBDAS]).T
        for name, loss in losses.items()
    }


def distilled(run) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Fig. 3b to 3d: accuracy [seeds, `SELECTED`]; and the other spacings and steps, by name."""
    by_rounds = np.array([lgd(run, selected=k) for k in SELECTED]).T
    others = {f"five selected, every {d} rounds": lgd(run, every=d) for d in (1, 5, 10)}
    for local, remote in STEPS:
        words = f"{local} steps of local images, {remote} of anchors"
        others[words] = lgd(run, local_steps=local, global_steps=remote)
    return by_rounds, others


def starts(run) -> Rows:
    """As Table 7: what virtual images begin with, each less its method's class statistics."""
    results, less = {}, {}
    for method in ("fedavg", "fedlgd"):
        for words, change in STARTS.items():
            label = f"{display_name(method)}, {words}"
            results[label] = of(run, method, **change)
            less[label] = f"{display_name(method)}, statistics"
    return _rows("As Table 7, where virtual images begin", results, less=less,
                 base="statistics")  # fmt: skip


def epochs(run) -> Rows:
    """As Fig. 11: local epochs, each less its method's one epoch."""
    results, less = {}, {}
    for method in FEW:
        for n in (1, 2, 5):
            label = f"{display_name(method)}, {n} epoch{'s' * (n > 1)}"
            results[label] = of(run, method, **({} if n == 1 else {"local_epochs": n}))
            less[label] = f"{display_name(method)}, 1 epoch"
    return _rows("As Fig. 11, local epochs", results, less=less, base="one epoch")


def batches(run) -> Rows:
    """As Table 6: FedLGD with other batch sizes."""
    sizes = {
        n: of(run, "fedlgd", **({} if n == 32 else {"batch_size": n})) for n in (8, 16, 32, 64)
    }
    results = {f"batches of {n}": found for n, found in sizes.items()}
    return _rows("As Table 6, FedLGD", results, less="batches of 32")


def over_rounds(run) -> dict[str, np.ndarray]:
    """Fig. 10: method -> accuracy in every fifth round, [seeds, 10], in percent."""
    return {m: 100 * curve(of(run, m)) for m in PLOTTED}


def sheet() -> pd.DataFrame:
    """Table 3: for each test set the fewest images that fit its printed percentages, and so on."""
    third, found = book("3"), {}
    for test, name in EYES.items():
        column = third[test]
        n = next(n for n in range(2, 1000) if _fits(column.drop("FedAvg"), n))
        share = column["FedLGD"] / 100
        found[name] = {
            "test images, at least": n,
            "FedAvg's number fits": _fits([column["FedAvg"]], n),
            "FedLGD minus FedProx, images": round((share - column["FedProx"] / 100) * n),
            "FedLGD's standard error, points": round(100 * (share * (1 - share) / n) ** 0.5, 1),
        }
    return pd.DataFrame(found).T


def _fits(shares: Sequence[float], n: int) -> bool:
    """Whether all printed percentages can be so many of n images, rounded or cut off."""
    possible = 100 * np.arange(n + 1) / n
    return all(abs(possible - share).min() < 0.1 for share in shares)


# --- live


@torch.no_grad()
def own_and_test(fed) -> list[float] | None:
    """After the last round: the global network on the clients' own images and on test images.

    In percent, means over images.
    """
    if fed.round_ < fed.settings.rounds:
        return None
    network, hit = fed.server.model.eval(), []
    for images in ([client.data for client in fed.clients], fed.scenario.tests.values()):
        right = [network(fed.scenario.inputs(part.x)).argmax(1) == part.y for part in images]
        hit.append(100 * float(torch.cat(right).double().mean()))
    return hit


def twins(run, one: str, other: str, rounds_: int = 4) -> list[float]:
    """The largest difference of a weight of the server's after each of the first rounds."""
    pairs = zip(_weights(run, one), _weights(run, other), strict=True)
    return [float((a - b).abs().max()) for a, b in islice(pairs, rounds_)]


def _weights(run, method: str) -> Iterator[torch.Tensor]:
    fed = run.federation(method, run.seeds[0], virtual_ipc=0, rounds=100, eval_every=100)
    with fed.workers():
        fed.begin()
        for number in range(1, 101):
            rounds.play_round(fed, number)
            now = fed.server.model.parameters()
            yield torch.cat([p.detach().flatten().cpu() for p in now])


def passes(run, selected: int) -> int:
    """Images per client that enter a network in two rounds, so many of them selected."""
    changes = {"fedlgd.selected": selected, "fedlgd.every": 1, "fedlgd.global_steps": 0}
    fed = run.federation("fedlgd", run.seeds[0], virtual_steps=1, eval_every=100, rounds=100,
                         **changes)  # fmt: skip
    with fed.workers():
        fed.begin()
        with counting.Work() as work:  # the server, with no steps, sends none
            for number in (1, 2):
                rounds.play_round(fed, number)
    return work.forward // len(fed.clients)


def parts(run) -> dict[str, int]:
    """What a round of `passes` is made of, for the first client: images, and steps of batches."""
    fed = run.federation("fedlgd", run.seeds[0])
    s, method, held = fed.settings, fed.method, torch.bincount(fed.clients[0].data.y)
    own, anchors = s.virtual_ipc * int((held > 0).sum()), method.global_ipc * len(held)
    private = held.clamp(max=s.virtual_batch) if s.virtual_batch else held
    return {"own": own, "anchors": anchors, "steps": math.ceil((own + anchors) / s.batch_size),
            "private": int(private.sum()), "refining": method.local_steps}  # fmt: skip
