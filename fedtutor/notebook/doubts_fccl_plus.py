"""The experiments of notebook 02b that need little or no training.

Most return plain numbers for one seed; `run` is what the start cell of a notebook made.
"""

import copy
import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from sklearn.metrics import silhouette_score
from torch.utils.flop_counter import FlopCounterMode

from .. import losses, measures
from ..methods.shared.public import teacher_logits
from ..models.layers import Dropout
from .doubts import agree


def first_features(fed) -> dict[str, tuple]:
    """Domain -> (features of its test images in the first client's network, their classes)."""
    found, model = {}, fed.clients[0].model.eval()
    for name in list(fed.scenario.tests)[:2]:  # the client's own domain, and another
        test = fed.scenario.tests[name][:300]
        with torch.no_grad():
            found[name] = model.features(fed.scenario.normalize(test.x)).cpu(), test.y.cpu()
    return found


def silhouettes(run, seed: int, **changes) -> list[float]:
    """How clean the classes' groups are after two rounds of FCCL+, in two domains (-1 to 1)."""
    last = run.watch("fccl+", seed, first_features, rounds=2, **changes)[-1]
    return [float(silhouette_score(h, y)) for h, y in last.values()]


def where_least(seed: int) -> float:
    """Mean entry off the diagonal where Eq. 2, with both sums weighted alike, is least."""
    g = torch.Generator().manual_seed(seed)
    z = torch.randn(64, 10, generator=g).requires_grad_()
    optimizer = torch.optim.Adam([z], lr=0.1)
    for _ in range(300):
        M = losses.cross_correlation(z, z)
        optimizer.zero_grad()
        losses.collaborative_loss(M, lambda_=1.0).backward()
        optimizer.step()
    return float((M.sum() - M.trace()).detach() / 90)


def turned_by_wild(seed: int) -> tuple[float, float, float]:
    """(largest entry of Eq. 1, turn of FedDF's step, turn of FCCM's): 1 - cosine, 4 wild of 128.

    The logits are random, those of wild photographs ten times as large, and the mean is clean.
    """
    g = torch.Generator().manual_seed(seed)
    torch.randn(64, 10, generator=g)  # those of `where_least`
    z, mean = torch.randn(128, 10, generator=g), torch.randn(128, 10, generator=g)
    turns = []
    for loss in (losses.distillation, agree):
        wild = torch.cat([z[:124], 10 * torch.randn(4, 10, generator=g)])
        steps = []
        for logits in (z.clone().requires_grad_(), wild.requires_grad_()):
            (step,) = torch.autograd.grad(loss(logits, mean), logits)
            steps.append(step[:124].flatten())
        turns.append(1 - float(torch.cosine_similarity(*steps, dim=0)))
    return float(losses.cross_correlation(z, mean).abs().max()), *turns


def operations(work: Callable) -> int:
    """Multiplications and additions of the matrix products and convolutions in `work()`."""
    with FlopCounterMode(display=False) as counter:
        work()
    return counter.get_total_flops()


def local_work(fed) -> dict[str, float]:
    """What a local step costs besides, in shares of one pass of a batch through the network.

    "similarities" of the batch's features, for a distillation of relations; "penalty": three
    operations for each weight there and back, as FedProx needs.
    """
    client = fed.clients[0]
    x = fed.scenario.normalize(client.data.x[:32])
    forward, h = operations(lambda: client.model(x)), client.model.features(x).detach()
    weights = sum(p.numel() for p in client.model.parameters())
    relation = operations(lambda: losses.instance_similarity(h))
    return {"similarities": relation / forward, "penalty": 6 * weights / forward}


def bound(seed: int, m: int = 320, delta: float = 0.05, K: int = 4, size: int = 10) -> tuple:
    """(risk, bound without its last term, last term) of Theorem 3.1 for threshold classifiers.

    K clients draw m inputs each from own distributions over `size` inputs; delta: the share of
    draws for which the bound may fail. No threshold is right on every input.
    """
    rng = np.random.default_rng(seed)
    H = np.array([(np.arange(size) >= t) ^ flip for t in range(size + 1) for flip in (0, 1)])
    y = (np.arange(size) >= 5) ^ (np.arange(size) == 7)
    D = rng.dirichlet(np.ones(size), K)
    seen = np.array([rng.multinomial(m, p) / m for p in D])
    wrong = (y != H).astype(float)  # [hypotheses, inputs]
    learned = [H[np.argmin(wrong @ p)] for p in seen]
    risk = float(np.abs(np.mean(learned, 0) - y) @ D.mean(0))
    differ = (H[:, None] != H[None]).astype(float).reshape(-1, size)
    d = [2 * np.abs(differ @ (p - D.mean(0))).max() for p in D]
    both = [np.min(wrong @ (p + D.mean(0))) for p in D]
    first = float(np.min(wrong @ seen.mean(0)) + np.mean(np.array(d) / 2 + both))
    return risk, first, (4 + math.sqrt(math.log(2 * (2 * m + 1)))) / (delta / K * math.sqrt(2 * m))


def moved_by_neighbors(fed, client: int, size: int) -> float:
    """Share of a teacher's probability that moves if batches of `size` normalize themselves.

    Mean over the private images; dropout stays off.
    """
    client = fed.clients[client]
    x = fed.scenario.normalize(client.data.x)
    alone = teacher_logits(client.model, x).softmax(1)
    teacher = copy.deepcopy(client.model).train()  # training mode moves running statistics
    for layer in teacher.modules():
        layer.train(not isinstance(layer, Dropout))  # parents come first
    with torch.no_grad():
        beside = torch.cat([teacher(part).softmax(1) for part in x.split(size)])
    return float((beside - alone).abs().sum(1).mean() / 2)


def by_client(results: Sequence) -> np.ndarray:
    """[seeds, clients, (other domains, own domain)] after the last round, in percent."""
    last = [np.array(r.history["accuracy"][-1]["matrix"]) for r in results]
    return 100 * np.array([np.stack([measures.inter(A, range(len(A))), np.diag(A)], 1)
                           for A in last])  # fmt: skip
