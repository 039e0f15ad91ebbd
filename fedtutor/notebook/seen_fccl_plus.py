"""What notebook 02 sees inside a federation whose clients share logits and similarities.

`first_round` is a look (`run.looks("fccl+", seen_fccl_plus.first_round)`). The others play a round
or read results.
"""

import copy
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from .. import losses, measures, rounds
from ..federation import Federation
from ..figures import display_name, human_bytes
from ..figures.drawing import GRAY, SKY, VERMILION, canvas, style
from ..methods.shared.public import teacher_logits
from ..papers import published_table, spread, weakest
from .frame import sentence

SOME, FEW = 128, 10  # photographs: for the share of the softmax, and in a picture
MOMENTS = ("as it begins", "as it ends")  # of the local half
HETEROGENEOUS = ("solo", "fedmd", "feddf", "fedmatch", "rhfl", "fccl")  # rivals, Table VIII
ALONE = ("fedavg", "fedprox", "moon")  # need equal networks
WHERE = {"intra": "own digits", "inter": "the digits of others"}


def photographs(fed) -> torch.Tensor:
    """The public images, as networks take them."""
    return fed.scenario.normalize(fed.scenario.public.x)


def features(model, x: torch.Tensor) -> torch.Tensor:
    """What a network computes before its classifier: [images, width]."""
    with torch.no_grad():
        return model.eval().features(x)


def alike(fed) -> dict[str, torch.Tensor]:
    """Client -> cosines between the features of ten photographs, [10, 10]."""
    x = photographs(fed)
    x = x[torch.arange(0, len(x), len(x) // FEW)[:FEW]]
    return {c.id: losses.instance_similarity(features(c.model, x), mu=1.0).cpu()
            for c in fed.clients}  # fmt: skip


def on_itself(fed, *, mu: float = 0.02) -> dict[str, float]:
    """Client -> the share of the softmax that an image has if Eq. 3 keeps its diagonal."""
    x, found = photographs(fed)[:SOME], {}
    for c in fed.clients:
        s = losses.instance_similarity(features(c.model, x), mu=mu)
        found[c.id] = float(s.softmax(1).diagonal().mean())
    return found


def answers(fed) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Students' logits, labels, teachers' logits of all private images: [images, ...] each."""
    found = []
    for c in fed.clients:
        x = fed.scenario.normalize(c.data.x)
        student, teacher = (teacher_logits(m, x) for m in (c.model, c.models["previous"]))
        found.append((student, c.data.y, teacher))
    return tuple(torch.cat(parts).cpu() for parts in zip(*found, strict=True))


def local_half(fed) -> dict[str, tuple]:
    """Play round 1 of a started federation; the `answers` as its local half begins and ends."""
    fed.begin_round(1)
    fed.method.collaborate(fed, fed.clients)
    begins = answers(fed)
    fed.each(fed.clients, lambda client: rounds.local_update(fed, client))
    return dict(zip(MOMENTS, (begins, answers(fed)), strict=True))


def pull(student, y, teacher, *, tau: float) -> torch.Tensor:
    """What KD does to the logit of the true class (Eq. 12, both parts), [images]; below 0 helps."""
    return losses.target_logit_gradient(student, y, teacher, tau=tau)[1:].sum(0)


def fights(found: Mapping[str, tuple], *, tau: float) -> dict[str, float]:
    """Moment -> share of private images on which the teacher's gradient fights the label."""
    return {moment: float((pull(*of, tau=tau) > 0).double().mean()) for moment, of in found.items()}


def first_round(fed) -> dict:
    """A look. Before round 1: `fights` in round 1, and `on_itself`; later nothing.

    Round 1 is played in a federation of its own, so that the watched one stays as it is.
    """
    if fed.round_:
        return {}
    twin = Federation(
        fed.scenario, copy.copy(fed.method), fed.settings, seed=fed.seed, device=str(fed.device),
        artifacts=fed.artifacts,
    )  # fmt: skip
    twin.method.start(twin)
    itself = float(np.mean(list(on_itself(twin).values())))
    return {"on itself": itself, **fights(local_half(twin), tau=twin.method.tau)}


def bill(run, methods: Sequence[str]) -> tuple[pd.DataFrame, dict]:
    """What crosses in one round, and how many networks a client holds, beside Table III.

    Also {method: {name of a message: bytes}}. Methods that average have equal networks.
    """
    printed = published_table("FCCL+", "III").set_index("method")["param_space"]
    rows, crossed = [], {}
    for method in methods:
        equal = {"models": ["small_cnn"]} if method in ALONE else {}
        fed = run.federation(method, run.seeds[0], rounds=1, **equal)
        fed.method.start(fed)
        rounds.play_round(fed, 1)
        names = crossed[method] = {}
        for row in fed.channel.table():
            names[row["name"]] = names.get(row["name"], 0) + row["bytes"]
        received = {"received"} if method == "fedprox" else set()  # the mean that pulls
        sent = sorted(names, key=lambda name: (name.removeprefix("mean "), len(name)))
        rows.append({
            "what crosses": ", ".join(sent), "one round": human_bytes(sum(names.values())),
            "networks per client": len({"model", *fed.clients[0].models} | received),
            "printed in Table III": int(printed[display_name(method)].partition("|")[0] or 1),
        })  # fmt: skip
    return pd.DataFrame(rows, index=[display_name(m) for m in methods]), crossed


def percent_of(results: Sequence, key: str) -> dict[int, float]:
    """Seed -> accuracy of the last round, in percent; key: "intra" or "inter"."""
    return {r.seed: 100 * r.headline[key] for r in results}


def accuracy(runs: Mapping[str, Sequence], key: str) -> dict[str, np.ndarray]:
    """Method -> accuracy in percent, one per seed that all methods have."""
    found = {method: percent_of(results, key) for method, results in shared(runs).items()}
    return {method: np.array([of[seed] for seed in sorted(of)]) for method, of in found.items()}


def leads(runs: Mapping[str, Sequence], key: str, over: Sequence[str]) -> dict[str, np.ndarray]:
    """ "FCCL+ less FedMD on own digits" and so on -> points, one number per seed.

    key: "intra" or "inter"; over: the rivals. `deciding` picks the one that decides a claim.
    """
    at = accuracy(runs, key)
    return {f"FCCL+ less {named(method)} on {WHERE[key]}": at["fccl+"] - at[method]
            for method in over}  # fmt: skip


def deciding(comparisons: Mapping[str, Sequence[float]], note: str = "") -> tuple:
    """(the comparisons, a sentence on the one that decides whether all are above zero).

    comparisons: what is compared, in words -> points, one number per seed; see `papers.weakest`.
    note: what stands behind the name of the comparison. The sentence has a place for "{value}".
    """
    name = weakest(comparisons)
    said = f"{name[0].upper()}{name[1:]}, the comparison that decides{note}: {{value}} points."
    return comparisons, said


def points(gain: Sequence[float]) -> str:
    """ "+4.1 ± 1.4 points", or "undecided (-0.1 ± 1.4 points)" if its side is open."""
    return sentence(
        gain, above="+{value} points", below="-{value} points",
        unclear="undecided ({signed} points)", digits=1, signed=spread(gain, 1, signed=True),
    )  # fmt: skip


def named(method: str) -> str:
    """A method's name in a sentence."""
    return "training alone" if method == "solo" else display_name(method)


def shared(runs: Mapping[str, Sequence]) -> dict[str, list]:
    """The results of the seeds that all methods have: a long run has fewer."""
    seeds = set.intersection(*({r.seed for r in results} for results in runs.values()))
    return {method: [r for r in results if r.seed in seeds] for method, results in runs.items()}


def leads_by_client(runs: Mapping[str, Sequence], over: Sequence[str]) -> dict[str, dict]:
    """Client -> the same as `leads` for its accuracy on the digits of others."""
    paired = shared({method: runs[method] for method in ("fccl+", *over)})
    clients = paired["fccl+"][0].history["domains"]

    def last(method):  # [clients, seeds]
        matrices = [r.history["accuracy"][-1]["matrix"] for r in paired[method]]
        return 100 * np.array([measures.inter(m, range(len(m))) for m in matrices]).T

    ours, theirs = last("fccl+"), {method: last(method) for method in over}
    return {
        client: {f"FCCL+ less {named(method)} on {WHERE['inter']}, {client} client":
                 ours[i] - theirs[method][i] for method in over}
        for i, client in enumerate(clients)
    }  # fmt: skip


def halves(results: Sequence) -> np.ndarray:
    """Accuracy on the own domain after each half of each round, [seeds, 2 rounds], in percent.

    The runs observed "after_collaborate". Whoever trains alone has no public half: there its
    accuracy is that of the end of the round before.
    """
    found = []
    for r in results:
        own = [r.history["tests"].index(domain) for domain in r.history["domains"]]
        home = {(e["round"], e["moment"]): np.mean(measures.intra(e["matrix"], own))
                for e in r.history["accuracy"]}  # fmt: skip
        last = max(round_ for round_, _ in home)
        found.append([
            accuracy for n in range(1, last + 1) for accuracy in
            (home.get((n, "after_collaborate"), home[n - 1, "end"]), home[n, "end"])
        ])  # fmt: skip
    return 100 * np.array(found)


def highest_and_calmest(home: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Is FCCL+ at the ends of rounds (Fig. 6) highest, and does it fluctuate least? In points.

    What is compared -> one number per seed: the lead of FCCL+ over FedMD and FCCL after the last
    round, and how much less than both it changes from round to round (standard deviation).
    home: `halves` of each method.
    """
    ends = {method: of[:, 1::2] for method, of in home.items()}
    moves = {method: np.diff(of, axis=1).std(1) for method, of in ends.items()}
    found = {}
    for method in ("fedmd", "fccl"):
        name = named(method)
        found[f"FCCL+ less {name} after the last round"] = (ends["fccl+"] - ends[method])[:, -1]
        found[f"fluctuation of {name} less that of FCCL+"] = moves[method] - moves["fccl+"]
    return found


@style()
def sides(pulls: Mapping[str, Sequence[float]], *, title: str) -> Figure:
    """Two histograms: on how many images the teacher helps the label, and fights it.

    pulls: panel -> gradient of the teacher on the true class, [images]; below 0 it helps.
    """
    figure = canvas(title, height=3.1)
    panels = figure.subplots(1, len(pulls), sharex=True, sharey=True, squeeze=False)[0]
    most = max(abs(float(v)) for values in pulls.values() for v in values)
    edges = most * np.arange(-20, 21) / 20  # zero is an edge: no bar has both colors
    for axes, (name, values) in zip(panels, pulls.items(), strict=True):
        values = np.asarray(values, dtype=float)
        counts, _ = np.histogram(values, edges)
        colors = [VERMILION if left >= 0 else SKY for left in edges[:-1]]
        axes.bar(edges[:-1], counts, np.diff(edges), align="edge", color=colors, ec="white", lw=0.4)
        axes.axvline(0, color=GRAY, lw=1.2)
        axes.set_title(f"{name}: fights on {100 * (values > 0).mean():.0f} %")
        axes.text(0.03, 0.9, "helps the label", transform=axes.transAxes)
        axes.text(0.97, 0.9, "fights the label", transform=axes.transAxes, ha="right")
    panels[0].set_ylabel("private images")
    figure.supxlabel("gradient of the teacher on the true class", size=10.5)
    return figure
