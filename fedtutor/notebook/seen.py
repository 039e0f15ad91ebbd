"""What notebook 01 sees inside a federation of clients that share logits of public images.

`agreement` is a look (`run.looks("fccl", seen.agreement)`); the other functions read results.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import torch

from .. import losses, measures
from ..difference import Difference
from ..errors import choose
from ..methods.shared.public import teacher_logits
from ..papers import direction, published_table
from .rows import signed

IMAGES = 300  # test images of one domain, for the silhouette of features
# method: its name in a sentence, its row in the paper's Table 1
RIVALS = {"solo": ("trained alone", "SOLO"), "fedmd": ("FedMD", "FedMD"),
          "feddf": ("FedDF", "FedDF")}  # fmt: skip


def public_logits(fed) -> dict[str, torch.Tensor]:
    """Client -> its logits of all public images, [images, classes]."""
    x = fed.scenario.normalize(fed.scenario.public.x)
    return {client.id: teacher_logits(client.model, x) for client in fed.clients}


def clients(fed) -> pd.DataFrame:
    """One row per client: images, network, weights, and how many logits it answers with."""
    x = fed.scenario.normalize(fed.scenario.public.x[:2])
    rows = [
        {
            "private images": len(client.data),
            "network": client.network,
            "weights": f"{sum(p.numel() for p in client.model.parameters()):,}",
            "logits per image": teacher_logits(client.model, x).shape[1],
        }
        for client in fed.clients
    ]
    return pd.DataFrame(rows, index=[client.id for client in fed.clients])


def same_answer(logits: dict[str, torch.Tensor]) -> float:
    """How often two clients give an image the same class, mean over pairs: a share."""
    named = [z.argmax(1) for z in logits.values()]
    pairs = [(a, b) for i, a in enumerate(named) for b in named[i + 1 :]]
    return float(np.mean([(a == b).double().mean().item() for a, b in pairs]))


def agreement(fed) -> dict:
    """Do the classes of a client go with those of the *others*? Plain numbers, ready for JSON.

    For "public" images and for each client's own "private" ones: "diagonal", the mean entry of the
    diagonal of FCCL Eq. 1, and "size", the mean absolute entry off it, both means over clients;
    "diagonals", the mean diagonal of each client; "matrix", Eq. 1 of the first client [classes,
    classes]. Each client is compared with the mean
    logits of the others, because Eq. 1's own mean contains the client: strangers start near 0.
    "fit": cross-entropy on the private images, in nats, mean over clients. "groups": how far the
    classes stand apart in the first client's features (`silhouettes`), on two domains.
    """
    normalize, by_client = fed.scenario.normalize, {"public": [], "private": []}
    seen_by = torch.stack(list(public_logits(fed).values()))
    fits = []
    for i, client in enumerate(fed.clients):
        x = normalize(client.data.x)
        z = torch.stack([teacher_logits(c.model, x) for c in fed.clients])
        fits.append(losses.cross_entropy(z[i], client.data.y).item())
        for kind, logits in (("public", seen_by), ("private", z)):
            others = (logits.sum(0) - logits[i]) / (len(logits) - 1)
            by_client[kind].append(losses.cross_correlation(logits[i], others).double().cpu())
    found = {kind: _summary(torch.stack(matrices)) for kind, matrices in by_client.items()}
    return found | {"fit": float(np.mean(fits)), "groups": silhouettes(fed)}


def _summary(matrices: torch.Tensor) -> dict:
    """Of [clients, classes, classes]: the means, and the first client's matrix."""
    own = torch.eye(matrices.shape[-1], dtype=torch.bool)
    return {
        "diagonal": float(matrices[:, own].mean()),
        "size": float(matrices[:, ~own].abs().mean()),
        "diagonals": matrices[:, own].mean(1).tolist(),
        "matrix": [[round(v, 4) for v in row] for row in matrices[0].tolist()],
    }


def silhouettes(fed) -> list[float]:
    """How far classes stand apart in the first client's features: on its own domain, on the next.

    The silhouette of Rousseeuw 1987, from -1 to 1; 1 where each class is a tight group of its own,
    0 where groups touch.
    """
    from sklearn.metrics import silhouette_score

    model, found = fed.clients[0].model.eval(), []
    for images in list(fed.scenario.tests.values())[:2]:
        with torch.no_grad():
            h = model.features(fed.scenario.normalize(images.x[:IMAGES]))
        found.append(float(silhouette_score(h.cpu().numpy(), images.y[:IMAGES].cpu().numpy())))
    return found


def last(looks: Sequence[Sequence[dict]], *keys) -> np.ndarray:
    """One number per seed: what `agreement` found after the last round, under `keys`."""
    found = []
    for seen in looks:
        value = seen[-1]
        for key in keys:
            value = value[key]
        found.append(value)
    return np.array(found)


def of_first(looks: Sequence[Sequence[dict]], kind: str, when: int = -1) -> dict[str, np.ndarray]:
    """Mean entry "on" and "off" the diagonal of the first client's matrix, with its sign.

    Of what `agreement` found at moment `when`, for "public" or "private" images: one number per
    seed. It is the only matrix that `agreement` keeps whole.
    """
    found = np.array([seen[when][kind]["matrix"] for seen in looks])
    own = np.eye(found.shape[-1], dtype=bool)
    return {"on": found[:, own].mean(1), "off": found[:, ~own].mean(1)}


def widest(comparisons: Mapping[str, Sequence[float]]) -> str:
    """Which of several differences decides a claim that all of them are about zero.

    It is the one whose 90 % interval reaches farthest from zero: if this one lies within a margin,
    all do. comparisons: what is compared -> one number per seed.
    """
    found = {name: Difference(values) for name, values in comparisons.items()}
    return max(found, key=lambda name: (max(map(abs, found[name].interval(0.9))),
                                        abs(found[name].mean)))  # fmt: skip


def gains(results: Sequence, baseline: Sequence, key: str) -> list[float]:
    """Accuracy of `results` less that of `baseline`, in points, one number per shared seed.

    key: "intra" (own domain) or "inter" (other domains), from the last round.
    """
    without = {r.seed: r.headline[key] for r in baseline}
    return [100 * (r.headline[key] - without[r.seed]) for r in results if r.seed in without]


def points(gains: Sequence[float]) -> str:
    """Mean ± sd with its sign, "+4.1 ± 0.8", or "undecided (+0.6 ± 2.2)" if its side is open."""
    told = direction(list(gains)) != 0
    return signed(gains) if told else f"undecided ({signed(gains)})"


def decided(panels: Mapping[str, Mapping[str, Sequence[float]]]) -> dict:
    """Of panel -> row -> one number per seed: what the seeds tell from zero, without the rest."""
    found = {
        panel: {row: v for row, v in rows.items() if direction(list(v)) != 0}
        for panel, rows in panels.items()
    }
    return {panel: rows for panel, rows in found.items() if rows}


def beside_rivals(mini: Mapping[str, Sequence], partial: Mapping[str, Sequence],
                  key: str = "inter") -> pd.DataFrame:  # fmt: skip
    """FCCL minus each of `RIVALS` in points, rivals minus training alone, and the print beside.

    mini, partial: method -> results, one per seed. key: "inter" (others' digits; printed in Table
    1) or "intra" (own digits; Table 2).
    """
    if choose(key, ("inter", "intra"), kind="key", where="beside_rivals") == "inter":
        side, printed = "others' digits", published_table("FCCL", "1").set_index("method")
        printed = printed["Digits/AVG"]
    else:
        side, printed = "own digits", published_table("FCCL", "2").set_index("method")
        printed = printed.filter(like="Digits/").mean(axis=1)
    pairs = [("fccl", rival) for rival in RIVALS]
    pairs += [(rival, "solo") for rival in RIVALS if rival != "solo"]
    names = {"fccl": ("FCCL", "FCCL")} | RIVALS
    found = {}
    for one, other in pairs:
        (name, row), (rival, base) = names[one], names[other]
        cells = found[f"{name} minus {rival}"] = {}
        for where, runs in (("mini", mini), ("partial", partial)):
            cells[f"{side}, {where}"] = points(gains(runs[one], runs[other], key))
        cells[f"{side}, paper"] = f"{printed[row] - printed[base]:+.1f}"
    return pd.DataFrame.from_dict(found, orient="index")


def over_rounds(results: Sequence, key: str = "intra") -> np.ndarray:
    """Accuracy after the last round minus before the first, in points, one number per seed.

    key: "intra" (own domain) or "inter" (other domains); mean over clients.
    """
    measure = getattr(measures, key)
    ends = [[r.history["accuracy"][n]["matrix"] for n in (-1, 0)] for r in results]
    found = [[np.mean(measure(matrix, _own(r))) for matrix in two]
             for r, two in zip(results, ends, strict=True)]  # fmt: skip
    return 100 * np.subtract(*np.transpose(found))


def at_home(results: Sequence, key: str = "intra") -> list[float]:
    """By how much accuracy climbs from the public half to the end of a round, in points.

    key: "intra" (own domain) or "inter" (other domains). Mean over rounds and clients, one number
    per seed; the runs observed "after_collaborate".
    """
    by_round = [_by_round(r, key) for r in results]
    return [float(np.mean([seen[-1] - seen[0] for r, seen in found.items() if r]))
            for found in by_round]  # fmt: skip


def on_photographs(results: Sequence, key: str = "intra") -> list[float]:
    """How accuracy changes in the public half of a round, in points; the rest as in `at_home`."""
    by_round = [_by_round(r, key) for r in results]
    return [float(np.mean([seen[0] - found[r - 1][-1] for r, seen in found.items()
                           if r - 1 in found]))
            for found in by_round]  # fmt: skip


def _by_round(result, key: str) -> dict[int, list[float]]:
    """Round -> accuracy at its observed moments, in points, mean over clients; 0: the start."""
    measure, found = getattr(measures, key), {}
    for e in result.history["accuracy"]:
        found.setdefault(e["round"], []).append(100 * np.mean(measure(e["matrix"], _own(result))))
    return found


def mean_over_rounds(results: Sequence, key: str = "intra") -> np.ndarray:
    """Accuracy at the ends of rounds, mean over rounds and clients, in percent, one per seed."""
    by_round = [_by_round(r, key) for r in results]
    return np.array([np.mean([seen[-1] for r, seen in found.items() if r]) for found in by_round])


def through_rounds(results: Sequence, epochs: int, *, rounds: int = 2) -> dict:
    """Accuracy since the end of a round, in points, through the last rounds of a run.

    The runs observed "after_collaborate" and "local_epoch". Own digits, digits of others -> [seeds,
    1 + rounds * (1 + epochs)], beginning with the end of the round before these.
    """
    sides = {"own digits": measures.intra, "digits of others": measures.inter}
    moments, count = ("after_collaborate", "local_epoch"), 1 + rounds * (1 + epochs)
    curves = {}
    for words, measure in sides.items():
        rows = []
        for r in results:
            seen = [e for e in r.history["accuracy"] if e["moment"] in moments][-count:]
            rows.append([np.mean(measure(e["matrix"], _own(r))) for e in seen])
        curves[words] = 100 * (np.array(rows) - np.array(rows)[:, :1])
    return curves


def _own(result) -> list[int]:
    """The column of each client's own domain in an accuracy matrix."""
    return [result.history["tests"].index(domain) for domain in result.history["domains"]]


def crossed(results: Sequence) -> pd.DataFrame:
    """Every kind of message that the channel counted in these runs: its name and its sizes."""
    rows = pd.DataFrame([row for r in results for row in r.history["bytes"]])
    return rows.groupby("name")["bytes"].agg(["min", "max"])


REDUCED = {"rounds": 10, "eval_every": 5, "client_epochs": [10, 9, 1, 1],
           "public_batch_size": 256, "scenario.public_size": 2000,
           "scenario.test_size": 1000}  # fmt: skip


def on_real_digits(run, method: str, **changes) -> list:
    """Recorded results on MNIST, USPS, SVHN and rendered digits, in a setting that fits a CPU."""
    if method == "fccl":
        changes = {"observe": ["after_collaborate"], **changes}
    return run.recorded(method, "digits-partial", **REDUCED, **changes)
