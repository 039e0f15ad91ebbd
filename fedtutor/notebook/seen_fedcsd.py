"""What notebook 03 sees inside a federation: drift within a round, and what a teacher says.

`drift` and `teaching` are looks (`run.looks("fedavg", seen_fedcsd.drift)`): they return plain
numbers and small tensors. After the last round they let clients go on for one more round, in a
federation of their own that begins at the networks reached.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from .. import losses, measures, methods, rounds
from ..experiments import accuracies
from ..federation import Federation
from ..methods.fedavg import average
from ..methods.shared.public import teacher_logits
from ..papers import direction

EPOCHS = (1, 2, 4, 8)  # of the one further round; the paper: 1 to 50
IMAGES = 500  # test images
SHOWN = 5  # images whose soft labels are kept
NO, FD, LD, STRONG = "FedAvg", "FD, μ = 0.01", "LD, μ = 0.001", "LD, μ = 0.1"
TRIED = {
    NO: ("fedavg", {}),
    FD: ("feature-distillation", {"mu": 0.01}),
    LD: ("logit-distillation", {"mu": 0.001}),
    STRONG: ("logit-distillation", {"mu": 0.1}),
}
CE, WEAK, STRONGER = "labels alone", "FedCSD, μ = 0.001", "FedCSD, μ = 0.1"
NOTHING = "uniform, μ = 0.1"  # neither soft labels nor mask of a teacher
KNOWING = "LD, μ = 0.1"  # the global network just received is the teacher, without a mask
LOCAL = {
    CE: ("fedavg", {}),
    WEAK: ("fedcsd", {"mu": 0.001}),
    STRONGER: ("fedcsd", {"mu": 0.1}),
    NOTHING: ("fedcsd", {"mu": 0.1, "teacher": "uniform", "mask": "none"}),
    KNOWING: ("logit-distillation", {"mu": 0.1}),
}
COLUMNS = ("logits", "features", "logits, relative", "features, relative", "local", "average")


# --- looks


def drift(fed) -> dict:
    """How clients leave the global model: each normal round, and a long one behind the last.

    "right": [model, images], mean accuracy over clients of (local, global) on (own training
    images, test images). After the last round also "groups", the silhouette of the global model's
    features, and "further": for each of `TRIED` a tensor [1 + len(EPOCHS), len(COLUMNS)] of
    distances to the global model and accuracies, on test images; row 0 is the global model.
    """
    x, y = test_images(fed)
    shared = fed.server.model.eval()
    on_test = _right(shared(x), y)
    rows = []
    for client in fed.clients:
        own, local = fed.scenario.normalize(client.data.x), client.model.eval()
        rows.append(
            [
                [_right(local(own), client.data.y), _right(local(x), y)],
                [_right(shared(own), client.data.y), on_test],
            ]
        )
    found = {"right": torch.tensor(rows).double().mean(0)}
    if fed.round_ == fed.settings.rounds:
        found["groups"] = silhouette(_answers(fed, shared.state_dict())[0], y)
        found["further"] = {name: _explore(fed, *how) for name, how in TRIED.items()}
    return found


def teaching(fed) -> dict:
    """What FedCSD's teacher says about all private images; nothing before round 1.

    "counts": of this round, images seen, kept by the mask, misclassified by the teacher, both.
    "entropy": of plain and refined soft labels, 1 is uniform (`entropy`). "spread": standard
    deviation over the classes of the logits of student, teacher and refined teacher. "cosine":
    between the gradients towards (plain, refined) teacher and towards a uniform one; "share":
    length of the refined teacher's gradient over cross-entropy's (`pulls`). After the last round
    also "groups" as in `drift`, "logits" of SHOWN images from (plain, refined) teacher, "lacking":
    the global model's accuracy on classes that a client lacks, mean over clients that lack one, and
    "further": for each of `LOCAL` (the same of the client's own network, silhouette).
    """
    if not fed.round_:
        return {}
    z, z_teacher, refined, labels = _private_logits(fed)
    counts = sum(client.state["soft_labels"][-1] for client in fed.clients)
    tau, mu = fed.method.tau, 0.001
    found = {
        "counts": counts.cpu().double(),
        "entropy": [entropy(z_teacher, tau), entropy(refined, tau)],
        "spread": [float(logits.std(1).mean()) for logits in (z, z_teacher, refined)],
        **pulls(z, z_teacher, refined, labels, tau=tau, mu=mu),
    }
    if fed.round_ == fed.settings.rounds:
        _, y = test_images(fed)
        h, z = _answers(fed, fed.server.model.state_dict())
        found["groups"] = silhouette(h, y)
        found["lacking"] = float(np.mean([_lacking(client, z, y) for client in _lackers(fed, y)]))
        shown = torch.stack([(labels == c).nonzero()[0, 0] for c in range(SHOWN)])
        found["logits"] = torch.stack([z_teacher[shown], refined[shown]]).cpu()
        found["further"] = {name: _stay(fed, *how) for name, how in LOCAL.items()}
    return found


# --- what looks measure


def test_images(fed) -> tuple[Tensor, Tensor]:
    """The first IMAGES test images as networks see them, and their labels."""
    images = next(iter(fed.scenario.tests.values()))[:IMAGES]
    return fed.scenario.normalize(images.x), images.y


def silhouette(h: Tensor, y: Tensor) -> float:
    """How much nearer features are to their own class than to the next (Rousseeuw 1987)."""
    from sklearn.metrics import silhouette_score

    return float(silhouette_score(h.cpu().numpy(), y.cpu().numpy()))


def entropy(z: Tensor, tau: float) -> float:
    """Entropy of softmax(z / tau) as a share of log C, mean over images; 1 is uniform."""
    log_q = (z.double() / tau).log_softmax(1)
    return float(-(log_q.exp() * log_q).sum(1).mean()) / math.log(z.shape[1])


def pulls(z: Tensor, z_teacher: Tensor, refined: Tensor, y: Tensor, *, tau: float,
          mu: float) -> dict:  # fmt: skip
    """Gradients of Eq. 14 at the student's logits z [images, classes], behind the mask of Eq. 13.

    "cosine": of the gradients towards (plain, refined) teacher with that towards a uniform one;
    "share": mu times the length of the refined one's, over the length of cross-entropy's.
    """
    mask, found = losses.adaptive_mask(z_teacher, y), []
    for target in (None, z_teacher, refined, torch.zeros_like(z)):
        a = z.double().requires_grad_()
        if target is None:
            loss = losses.cross_entropy(a, y)
        else:
            loss = losses.class_similarity_distillation(a, target, mask, tau=tau)
        loss.backward()
        found.append(a.grad.flatten())
    label, plain, own, flat = found
    cosines = [float(torch.cosine_similarity(g, flat, dim=0)) for g in (plain, own)]
    return {"cosine": cosines, "share": mu * float(own.norm() / label.norm())}


def _private_logits(fed) -> tuple[Tensor, ...]:
    """Of all private images: logits of global model, teacher, refined teacher; and labels."""
    x = torch.cat([fed.scenario.normalize(client.data.x) for client in fed.clients])
    y = torch.cat([client.data.y for client in fed.clients])
    z, z_teacher = (teacher_logits(fed.server.models[name], x) for name in ("model", "teacher"))
    delta = losses.prototype_similarity(z, fed.clients[0].state["prototypes"])
    return z, z_teacher, losses.refined_logits(z_teacher, losses.similarity_scores(delta)), y


def _onward(fed, method: str, options: dict, epochs: int) -> list[list[dict]]:
    """One more round from the server's networks: per client its weights after each epoch."""
    shared = {name: getattr(fed.method, name) for name in ("weighting", "evaluate", "start_from")}
    more = Federation(
        fed.scenario, methods.METHODS[method](**shared, **options),
        replace(fed.settings, local_epochs=epochs, observe=()),
        seed=fed.seed, device=str(fed.device), threads=fed.threads,
    )  # fmt: skip
    more.method.start(more)
    for name, network in more.server.models.items():
        network.load_state_dict(fed.server.models[name].state_dict())
    kept = {client.id: [] for client in more.clients}

    def keep(client):
        weights = client.model.state_dict()
        kept[client.id].append({name: value.clone() for name, value in weights.items()})

    more.method.after_epoch = keep
    with more.workers():
        rounds.play_round(more, fed.settings.rounds + 1)
    return list(kept.values())


def _explore(fed, method: str, options: dict) -> Tensor:
    """[1 + len(EPOCHS), len(COLUMNS)] of one method in a long round; see `drift`."""
    _, y = test_images(fed)
    kept, shares = _onward(fed, method, options, EPOCHS[-1]), [len(c.data) for c in fed.clients]
    before = _answers(fed, fed.server.model.state_dict())
    rows = [[0.0, 0.0, 0.0, 0.0, *[_right(before[1], y)] * 2]]
    for epoch in EPOCHS:
        weights = [copies[epoch - 1] for copies in kept]
        after = [_answers(fed, w) for w in weights]
        merged = _right(_answers(fed, average(weights, shares))[1], y)
        found = [[*_distances(before, pair), _right(pair[1], y)] for pair in after]
        rows.append([*np.mean(found, 0), merged])
    return torch.tensor(rows).double()


def _stay(fed, method: str, options: dict) -> list[float]:
    """After one more normal round: accuracy on classes a client lacks, and silhouette."""
    _, y = test_images(fed)
    kept = _onward(fed, method, options, fed.settings.local_epochs)
    lacking, groups, lackers = [], [], _lackers(fed, y)
    for client, copies in zip(fed.clients, kept, strict=True):
        h, z = _answers(fed, copies[-1])
        groups.append(silhouette(h, y))
        if client in lackers:
            lacking.append(_lacking(client, z, y))
    return [float(np.mean(lacking)), float(np.mean(groups))]


def _lackers(fed, y: Tensor) -> list:
    """The clients that lack a class of y."""
    return [c for c in fed.clients if not torch.isin(y, c.data.y.unique()).all()]


def _lacking(client, z: Tensor, y: Tensor) -> float:
    """Accuracy of logits z on the images whose class the client lacks."""
    absent = ~torch.isin(y, client.data.y.unique())
    return _right(z[absent], y[absent])


@torch.no_grad()
def _answers(fed, weights: dict) -> tuple[Tensor, Tensor]:
    """Features and logits of the test images by a network with these weights."""
    model = fed.make()
    model.load_state_dict(weights)
    h = model.eval().features(test_images(fed)[0])
    return h, model.classifier(h)


def _distances(before: tuple, after: tuple) -> list[float]:
    """KL of logits, length of the features' change, and both changes over the old lengths."""
    (h_0, z_0), (h, z) = before, after
    far = [float((new - old).norm(dim=1).mean()) for new, old in ((z, z_0), (h, h_0))]
    own = [float(old.norm(dim=1).mean()) for old in (z_0, h_0)]
    return [measures.divergence(z, z_0), far[1], far[0] / own[0], far[1] / own[1]]


def _right(z: Tensor, y: Tensor) -> float:
    return float((z.argmax(1) == y).double().mean())


# --- reading looks and results


def column(looks: Sequence, name: str, what: str) -> np.ndarray:
    """[seeds, 1 + len(EPOCHS)]: one column of what `drift` saw of one of `TRIED`."""
    place = COLUMNS.index(what)
    return np.stack([seen[-1]["further"][name][:, place].numpy() for seen in looks])


def per_round(looks: Sequence, *keys) -> np.ndarray:
    """[seeds, rounds, ...]: what a look saw after each round, under `keys`."""
    found = []
    for seen in looks:
        rows = []
        for value in seen[1:]:
            for key in keys:
                value = value[key]
            rows.append(np.asarray(value))
        found.append(rows)
    return np.array(found)


def last(looks: Sequence, *keys) -> np.ndarray:
    """One number per seed: what a look saw after the last round, under `keys`."""
    found = []
    for seen in looks:
        value = seen[-1]
        for key in keys:
            value = value[key]
        found.append(float(value))
    return np.array(found)


def stays(looks: Sequence, name: str, what: int) -> np.ndarray:
    """One number per seed: what a further round with one of `LOCAL` keeps, less labels alone.

    what: 0 for accuracy on classes that a client lacks, in points; 1 for the silhouette.
    """
    less = last(looks, "further", name, what) - last(looks, "further", CE, what)
    return less if what else 100 * less


def mean_accuracy(results: Sequence, part: slice) -> dict[int, float]:
    """Seed -> mean test accuracy over some rounds, in points."""
    return {
        r.seed: 100 * float(np.mean([a["intra"] for a in accuracies(r.history)[part]]))
        for r in results
    }


def gains(results: Sequence, baseline: Sequence, part: slice) -> list[float]:
    """Accuracy of `results` less that of `baseline` over some rounds, one per shared seed."""
    ours, theirs = mean_accuracy(results, part), mean_accuracy(baseline, part)
    return [ours[seed] - theirs[seed] for seed in ours if seed in theirs]


def leading(over: Mapping[str, Sequence[float]]) -> str:
    """One clause: how many variants are ahead of what they were compared with, and which are not.

    over: variant -> its gains, one per seed.
    """
    said = {name: direction(gains) for name, gains in over.items()}
    ahead = [name for name in said if said[name] == 1]
    if len(ahead) == len(said):
        return f"all {len(said)} variants are ahead"
    parts = [f"{len(ahead)} of {len(said)} are ahead"]
    for word, sign in (("too close to call", 0), ("behind", -1)):
        found = [variant for variant in said if said[variant] == sign]
        if found:
            verb = "is" if len(found) == 1 else "are"
            parts.append(f"{' and '.join(f'*{v}*' for v in found)} {verb} {word}")
        if found and sign == 0 and all(min(over[v]) > 0 for v in found):
            parts[-1] += " (all seeds are ahead, but too far apart)"
    return "; ".join(parts)
