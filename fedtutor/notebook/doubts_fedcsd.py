"""The experiments of notebook 03b that need little or no training.

Most return one number for one seed; `run` is what the start cell of a notebook made.
"""

import numpy as np
import torch
from torch.nn.functional import one_hot

from .. import losses, rounds


def played(run, method: str, seed: int, count: int, **changes):
    """A federation after `count` rounds."""
    fed = run.federation(method, seed, **changes)
    with fed.workers():
        fed.method.start(fed)
        for number in range(1, count + 1):
            rounds.play_round(fed, number)
    return fed


def bytes_by_name(run, method: str, **changes) -> dict[str, int]:
    """What the channel counted in round 1, name of the payload -> bytes, all clients, both ways."""
    found = {}
    fed = played(run, method, run.seeds[0], 1, local_epochs=1, **changes)
    for row in fed.channel.table():
        found[row["name"]] = found.get(row["name"], 0) + row["bytes"]
    return found


def proper(seed: int) -> bool:
    """Whether scores of random logits and prototypes lie in [0, 1] and sum to 1."""
    z, P = torch.randn(2, 100, 100, generator=torch.Generator().manual_seed(seed))
    scores = losses.similarity_scores(losses.prototype_similarity(z, P))
    sums = (scores.sum(1) - 1).abs().max() < 1e-5
    return bool(scores.min() >= 0 and scores.max() <= 1 and sums)


def turned(seed: int) -> float:
    """Largest change of a cosine if sums are divided by the owners of a class instead of all."""
    g = torch.Generator().manual_seed(seed)
    own, has = torch.randn(10, 10, 10, generator=g), torch.rand(10, 10, generator=g) > 0.6
    own = own * has[:, :, None]
    z, P = torch.randn(50, 10, generator=g), losses.mean_prototypes(own, has.float())
    deltas = [losses.prototype_similarity(z, p) for p in (losses.global_prototypes(own), P)]
    return float((deltas[0] - deltas[1]).abs().max())


def stricter(seed: int) -> bool:
    """Whether Eq. 13 keeps every image that Eq. 16 keeps, for 10 and 100 classes."""
    g, found = torch.Generator().manual_seed(seed), []
    for classes in (10, 100):
        z = torch.randn(5000, classes, generator=g)
        y = torch.randint(classes, (5000,), generator=g)
        found.append(bool((losses.forcible_mask(z, y) <= losses.adaptive_mask(z, y)).all()))
    return all(found)


def unequal(run, seed: int) -> float:
    """Largest difference between the server's moving average and a client's, after two rounds."""
    kept = []
    for at in ("server", "client"):
        fed = played(run, "fedcsd", seed, 2, **{"fedcsd.teacher_at": at, "local_epochs": 1})
        kept.append(fed.clients[0].models["teacher"].state_dict())
    return max(float((kept[0][name] - w).abs().max()) for name, w in kept[1].items())


def read_off(run, seed: int) -> float:
    """Share of (client, class) pairs whose ownership the uploaded prototypes tell rightly."""
    fed = played(run, "fedcsd", seed, 1, local_epochs=1, record={"names": ["prototypes"]})
    uploads = sent_up(fed, 1)
    classes = len(run.scenario.class_names)
    truth = [torch.bincount(c.data.y, minlength=classes) > 0 for c in fed.clients]
    told = [uploads[c.id].any(1) for c in fed.clients]
    return float((torch.stack(told) == torch.stack(truth)).double().mean())


def sent_up(fed, number: int) -> dict[str, torch.Tensor]:
    """Client -> the prototypes that it sent in a round, of a federation that recorded them."""
    return {m.source: m.payload for m in fed.channel.messages
            if m.target == "server" and m.round_ == number}  # fmt: skip


def scored(fed, prototypes, *, cosines: bool = False) -> np.ndarray:
    """Mean score of: the true class, other classes with a prototype, classes without one.

    Over all clients' private images; `prototypes(client)` are the [classes, classes] that it uses.
    nan where there is no such class. With `cosines`, the means of what scores are made of.
    """
    total = torch.zeros(3, 2).double()
    for client in fed.clients:
        with torch.no_grad():
            z = client.model.eval()(fed.scenario.normalize(client.data.x))
        P = prototypes(client)
        similar = losses.prototype_similarity(z, P)
        scores = similar if cosines else losses.similarity_scores(similar)
        true = one_hot(client.data.y, len(P)).bool()
        for i, kind in enumerate((true, ~true & P.any(1), ~true & ~P.any(1))):
            total[i] += torch.tensor([float(scores[kind].sum()), float(kind.sum())])
    return (total[:, 0] / total[:, 1]).numpy()
