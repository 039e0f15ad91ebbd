"""The tables of notebook 04b: RepShare and its rivals beside what the paper prints.

`run` is what the start cell made. Accuracies are of the last round, in percent, one per seed.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import pandas as pd
import torch

from ..papers import published_table, spread
from .rows import Rows, signed, starred, told
from .seen_repshare import curve, points
from .start import setting

CODE = {"repshare.reading": "code"}  # the author's means over features and classes
OWN = {"fedavg.start_from": "client"}  # each client of FedAvg starts from weights of its own
METHODS = {
    "FL": ("fedavg", {}),
    "IL": ("solo", {}),
    "FD": ("fd", {}),
    "RepShare": ("repshare", CODE),
    "CL": ("central", {}),
}
COLUMN = {  # label -> row of Table 1, method, clients, changes
    "CL": ("CL", "central", 10, {}),
    "FL, own starts": ("FL", "fedavg", 10, OWN),
    "FL, common start": ("FL", "fedavg", 10, {}),
    "IL": ("IL", "solo", 10, {}),
    "FD, weight 10": ("FD", "fd", 10, {}),
    "FD, weight 0.1": ("FD", "fd", 10, {"fd.lambda_": 0.1}),
    "RepShare": ("RepShare", "repshare", 10, CODE),
}
FASHION = {  # the same of Fashion-MNIST, as it fills
    "CL": COLUMN["CL"],
    "FL, own starts": COLUMN["FL, own starts"],
    "FL, common start": COLUMN["FL, common start"],
    "IL": COLUMN["IL"],
    "FD": COLUMN["FD, weight 10"],
    "RepShare, averaged losses": COLUMN["RepShare"],
    "RepShare, summed losses": ("RepShare", "repshare", 10, {}),
}
SMALL = {"eval_every": 100, "scenario.test_size": 2000}
AUTHORS = {  # the first 1,200 images of the file, dealt evenly, as in the author's code
    "scenario.draw": "first",
    "scenario.partition": "dirichlet",
    "scenario.beta": 1e15,
    "eval_every": 100,
}
EVEN = {key: value for key, value in AUTHORS.items() if key != "scenario.draw"}
FIRST = {key: value for key, value in AUTHORS.items() if key != "eval_every"}
IMAGES = "the author's 1,200 images"
CHOICES = {
    "batches of 64, not 32": {"batch_size": 64},
    "batches of 16, not 32": {"batch_size": 16},
    "pixels not normalized": {"scenario.norm": "none"},
    "a second draw": {"scenario.split_seed": 1},
}
SAME_IMAGES = tuple(CHOICES)[:3]  # that leave the draw as it is
THREE = {"scenario.num_clients": 3, "scenario.private_size": 360, "eval_every": 60}
PULL, TELL = (0.0, 1.0, 10.0, 100.0), (0.0, 1.0, 10.0)  # weights: the distance, the discriminator
SETS = {"fashion-mnist": "Fashion-MNIST", "cifar10": "CIFAR10"}
OPEN = "open"
SIZES = (1, 2, 5, 10)  # images in a mean that is attacked
REDUCED = {"rounds": 20, "eval_every": 20, "scenario.test_size": 500}


def of_paper(run, method: str, clients: int = 10, data: str = "mnist", **changes) -> list:
    """Results at the paper's settings, with seeds 0, 1 and 2; of MNIST all, else what is there."""
    few = {} if clients == 10 or method == "central" else {"scenario.num_clients": clients}
    return run.recorded(method, None if data == "mnist" else data, profile="paper",
                        seeds=[0, 1, 2], compute=data == "mnist", **few, **changes)  # fmt: skip


def printed(images: str = "MNIST", clients: int = 10) -> dict[str, float]:
    """Row -> printed accuracy of a column of Table 1."""
    table = published_table("RepShare", "1").set_index("method")
    return table[f"{images} N={clients}"].to_dict()


def moved(run) -> dict[str, dict[str, np.ndarray]]:
    """Row -> unprinted choice -> points by which it changes accuracy at N = 10, one per seed.

    Everything else stays as in our runs; both sides of a difference have the same test images.
    """
    found: dict[str, dict[str, np.ndarray]] = {}
    for row, (method, own) in METHODS.items():
        start = points(of_paper(run, method, **own, **SMALL))
        found[row] = {
            choice: points(of_paper(run, method, **own, **SMALL, **change)) - start
            for choice, change in CHOICES.items()
        }
        whole = points(of_paper(run, method, **own))
        found[row][IMAGES] = points(of_paper(run, method, **own, **AUTHORS)) - whole
    return found


def moves(found: Mapping[str, Mapping[str, Sequence[float]]]) -> pd.DataFrame:
    """What `moved` found as texts: a choice per line, a row of Table 1 per column."""
    return pd.DataFrame(
        {row: {choice: starred(gains) for choice, gains in choices.items()}
         for row, choices in found.items()}
    )  # fmt: skip


def leads(run) -> dict[str, np.ndarray]:
    """RepShare minus FD with our choices and with each of `CHOICES`; points per seed.

    All count the same 2,000 test images.
    """
    tried = {"as we run them, on our draw": {}, **CHOICES}
    return {choice: points(of_paper(run, "repshare", **CODE, **SMALL, **change))
            - points(of_paper(run, "fd", **SMALL, **change))
            for choice, change in tried.items()}  # fmt: skip


def both_draws(run, rows: Mapping[str, tuple] = COLUMN, data: str = "mnist") -> pd.DataFrame:
    """Printed, measured on our random draw, and on the author's images.

    rows: label -> (row of Table 1, method, clients, changes). A dagger: more than two standard
    deviations from the print. What is not recorded of other data than MNIST is `OPEN`.
    """
    table, authors = {}, AUTHORS if data == "mnist" else FIRST
    for label, (row, method, clients, changes) in rows.items():
        known = printed({"mnist": "MNIST", **SETS}[data], clients)[row]
        sides = [points(of_paper(run, method, clients, data, **changes, **images))
                 for images in ({}, authors)]  # fmt: skip
        table[label] = [f"{known:.1f}", *(_cell(values, known) for values in sides)]
    return pd.DataFrame(table, index=["printed", "our draw", "the author's images"]).T


def off_print(run, rows: Mapping[str, tuple], data: str) -> dict[str, float]:
    """Row -> points by which the mean on our draw is off the print, of those that were run."""
    found = {}
    for label, (row, method, clients, changes) in rows.items():
        values = points(of_paper(run, method, clients, data, **changes))
        if len(values):
            known = printed({"mnist": "MNIST", **SETS}[data], clients)[row]
            found[label] = float(np.mean(values)) - known
    return found


def _cell(values: Sequence[float], known: float) -> str:
    if not len(values):
        return OPEN
    several = len(values) > 1
    return spread(values, 1) + (" †" * far(values, known) if several else " (one seed)")


def on_all_tests(run, row: str, other: str) -> np.ndarray:
    """A row of `COLUMN` minus another on our draw, all 10,000 test images; points per seed."""
    both = [COLUMN[label][1:] for label in (row, other)]
    one, two = (points(of_paper(run, method, n, **changes)) for method, n, changes in both)
    return one - two


def far(values: Sequence[float], known: float) -> bool:
    """Whether a mean over seeds is more than two standard deviations from a printed number."""
    return bool(abs(np.mean(values) - known) > 2 * np.std(values, ddof=1))


def variants(run, method: str, title: str, first: str,
             changes: Mapping[str, Mapping], **own) -> Rows:  # fmt: skip
    """A baseline in several variants at N = 10, each less the first."""
    tried = {first: own, **changes}
    results = {label: of_paper(run, method, **SMALL, **change) for label, change in tried.items()}
    measured = {label: points(found) for label, found in results.items()}
    about = setting(results[first])
    caption = f"{title}: accuracy in %. {about} · 2,000 test images · recorded"
    return Rows(caption, measured, less=first, base="the author's", results=results,
                decides=list(changes)[:2])  # fmt: skip


def grid(run) -> dict[tuple[float, float], list]:
    """(weight of the distance, of the discriminator) -> results; both 0 is training alone."""

    def weighed(pull: float, tell: float) -> list:
        if not pull and not tell:
            return run.recorded("solo", **THREE)
        changes = {"repshare.lambda_kd": pull} if pull != 10.0 else {}
        changes |= {"repshare.lambda_disc": tell} if tell != 1.0 else {}
        return run.recorded("repshare", **THREE, **CODE, **changes)

    return {(pull, tell): weighed(pull, tell) for pull in PULL for tell in TELL}


def other_images(run, name: str, clients: int = 10) -> Rows:
    """The column of another data set, early in training: 600 images, LeNet5, 20 rounds."""
    given = {**REDUCED, "scenario.num_clients": clients}
    results = {row: run.recorded(method, name, **given, **own)
               for row, (method, own) in METHODS.items() if row != "CL"}  # fmt: skip
    words = SETS[name].replace("CIFAR10", "CIFAR-10")
    known = {row: printed(SETS[name], clients)[row] for row in results}
    caption = (f"Table 1, {words}, N = {clients}: accuracy in %. {setting(results['IL'])} · "
               "600 images, LeNet5, 20 rounds · recorded")  # fmt: skip
    return Rows(caption, {row: points(found) for row, found in results.items()}, less="IL",
                printed=known, decides=["RepShare"], results=results)  # fmt: skip


def ranks(rows: Rows) -> str:
    """Whether each printed row is ahead of the next here, too, by the rule of `told`, with points.

    In words, such as "*a before b* stays (+3.1 ± 1.1)".
    """
    order, said = sorted(rows.printed, key=rows.printed.get, reverse=True), []
    for one, two in pairwise(order):
        gains = rows.gains(one, two)
        word = "is not told" if not told(gains) else "stays" if gains.mean() > 0 else "is reversed"
        said.append(f"*{one} before {two}* {word} ({signed(gains)})")
    return ", ".join(said)


def central(run, name: str) -> np.ndarray:
    """Accuracy of central training on another data set, as `other_images` has it."""
    return points(run.recorded("central", name, **REDUCED, **{"scenario.num_clients": 10}))


def situations(run, *, noise: float, clip: float) -> dict[str, tuple[list, list]]:
    """What the paper states and does not run -> (RepShare, training alone), results per seed."""
    mixed = {**THREE, "models": ["lenet5", "simple_cnn", "lenet5"]}
    half = {**THREE, "participation": 0.5}  # rounded up: two of three take part
    alone = run.recorded("solo", **THREE)
    private = {"repshare.clip": clip, "repshare.noise": noise}

    def shared(**changes) -> list:
        return run.recorded("repshare", **CODE, **changes)

    return {
        "as in section 3": (shared(**THREE), alone),
        "two kinds of networks": (shared(**mixed), run.recorded("solo", **mixed)),
        "one of three clients offline": (shared(**half), run.recorded("solo", **half)),
        "no server": (shared(**THREE, **{"repshare.topology": "peer"}), alone),
        "noise on the means": (shared(**THREE, **private), alone),
    }


def lead_at(run) -> dict[int, np.ndarray]:
    """Round -> points by which RepShare is ahead of training alone at N = 10, one per seed."""
    alone, shares = (curve(of_paper(run, m, **own)) for m, own in
                     (METHODS["IL"], METHODS["RepShare"]))  # fmt: skip
    ahead = 100 * (shares - alone)  # every ten rounds
    return {20: ahead[:, 1], 100: ahead[:, -1]}


def over_fd(run, weight: float) -> list[np.ndarray]:
    """RepShare minus FD with a weight, on our draw and on the author's images; points per seed."""
    own = {} if weight == 10.0 else {"fd.lambda_": weight}
    return [points(of_paper(run, "repshare", **CODE, **images))
            - points(of_paper(run, "fd", **own, **images)) for images in ({}, AUTHORS)]  # fmt: skip


def on_second_draw(run) -> np.ndarray:
    """RepShare minus FD on a second random draw, 2,000 test images; points per seed."""
    return leads(run)["a second draw"]


def ahead_of_fd(run) -> pd.DataFrame:
    """RepShare minus FD on three draws, with two weights of FD, as texts."""
    ours, first = over_fd(run, 10.0)
    small, small_first = over_fd(run, 0.1)
    table = {
        "our draw": [ours, small],
        "a second random draw (2,000 test images)": [on_second_draw(run), None],
        "the author's images": [first, small_first],
    }
    names = [f"RepShare minus FD, weight {weight:g}" for weight in (10, 0.1)]
    texts = {draw: ["not run" if gains is None else starred(gains) for gains in both]
             for draw, both in table.items()}  # fmt: skip
    return pd.DataFrame(texts, index=names).T


def who_lacks(fed) -> pd.DataFrame:
    """Per client the classes it has, and of how many it gets means and observations in round 2."""
    fed.method.start(fed)
    for round_ in (1, 2):  # what was sent in round 1 arrives in round 2
        fed.begin_round(round_)
        fed.method.collaborate(fed, fed.clients)
        received = {client.id: client.state["received"] for client in fed.clients}
        fed.method.aggregate(fed, fed.clients)
    return pd.DataFrame({
        client.id: {
            "classes it has": len(client.data.y.unique()),
            "global means it gets": int(received[client.id]["owned"].sum()),
            "observations it gets": int(received[client.id]["known"].sum()),
        }
        for client in fed.clients
    }).T  # fmt: skip


# --- what an attacker reads off


@torch.no_grad()
def leaks(fed) -> dict:
    """What the first client's features tell, before round 1 and after the last; else nothing.

    "found": `betrayed` for means of `SIZES` images; "explained": `explained`.
    """
    if fed.round_ not in (0, fed.settings.rounds):
        return {}
    client = fed.clients[0]
    others = next(iter(fed.scenario.tests.values()))[torch.arange(1000)]
    found = []
    for images in (client.data, others):
        x = fed.scenario.normalize(images.x.to(fed.device))
        h = client.model.eval().features(x)
        found.append((h.cpu(), x.flatten(1).cpu(), images.y.cpu()))
    client.model.train()
    h, _, y = found[0]
    return {"found": [betrayed(h, y, n) for n in SIZES], "explained": explained(found)}


def betrayed(h: torch.Tensor, y: torch.Tensor, n: int, *, draws: int = 20) -> float:
    """Share of pairs in which an image in a mean of n is nearer to it than one that is not.

    h: features [images, d], y: labels. Both images of a pair are of the mean's class; one half is
    guessing.
    """
    g, wins = torch.Generator().manual_seed(0), []
    for c in y.unique():
        mine = h[y == c]
        for _ in range(draws if len(mine) > n else 0):
            mixed = mine[torch.randperm(len(mine), generator=g)]
            distance = (mixed - mixed[:n].mean(0)).norm(dim=1)
            wins.append(float((distance[:n, None] < distance[None, n:]).double().mean()))
    return float(np.mean(wins))


def explained(moment: Sequence[tuple]) -> float:
    """Share of the pixels' variance that a linear decoder from features explains.

    moment: (features, pixels, labels) of the client's own images, on which the decoder is judged,
    and of others, on which it is fitted.
    """
    (h, x, _), (h_other, x_other, _) = moment
    A, own = (torch.cat([v, torch.ones(len(v), 1)], 1) for v in (h_other, h))
    decoder = torch.linalg.solve(A.T @ A + 1e-2 * torch.eye(A.shape[1]), A.T @ x_other)
    left = (own @ decoder - x).square().sum()
    return 1 - float(left / (x - x_other.mean(0)).square().sum())
