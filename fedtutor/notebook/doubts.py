"""The experiments of notebook 01b: claims that need no accuracy, and what a public half spoils.

Every function returns plain numbers for one seed. `run` is what the start cell of a notebook made.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import torch
from torch.nn.utils import parameters_to_vector

from .. import experiments, losses, measures
from ..figures import display_name
from ..methods.shared.public import teacher_logits
from ..papers import spread

FEATURES, CLASSES, BATCH, WILD = 16, 10, 128, 4  # of `turned`
HOME = ["before", "before, offsets", "after", "after, old statistics", "after, offsets"]


# --------------------------------------------------------------------- without any training


def agree(z: torch.Tensor, z_mean: torch.Tensor) -> torch.Tensor:
    """FCCL Eq. 1 and 2 for logits [images, classes]: what a client trains on photographs."""
    return losses.collaborative_loss(losses.cross_correlation(z, z_mean))


def turned(seed: int, objective: Callable, *, in_mean: bool = False) -> float:
    """How far 4 wild photographs in 128 turn the gradient of a last layer: 1 - cosine.

    Four clients have random last layers over the same random features. Wild photographs have
    features ten times as large. With `in_mean` they enter the mean logits, too.
    """
    g = torch.Generator().manual_seed(seed)
    h = torch.randn(BATCH, FEATURES, generator=g)
    W = [torch.randn(FEATURES, CLASSES, generator=g) / 4 for _ in range(4)]
    wild = torch.cat([h[:-WILD], 10 * torch.randn(WILD, FEATURES, generator=g)])
    found = []
    for features in (h, wild):
        mine = W[0].clone().requires_grad_()
        z_mean = torch.stack([(features if in_mean else h) @ w for w in W]).mean(0)
        objective(features @ mine, z_mean).backward()
        found.append(mine.grad.flatten())
    return 1 - float(torch.cosine_similarity(*found, dim=0))


def calmer(seed: int, *, in_mean: bool = False) -> float:
    """By how much wild photographs turn FCCL's step less than FedDF's; see `turned`."""
    feddf = turned(seed, losses.distillation, in_mean=in_mean)
    return feddf - turned(seed, agree, in_mean=in_mean)


# ------------------------------------------------------------------- with pretrained networks


def _started(run, method: str, seed: int, **changes):
    fed = run.federation(method, seed, **changes)
    fed.method.start(fed)
    return fed, fed.scenario.normalize(fed.scenario.public.x)


def diagonal_part(run, seed: int, *, one_domain: bool) -> float:
    """Diagonal part of Eq. 2 for equal networks, pretrained on four domains or on one."""
    fed = run.federation("fccl", seed, models=["small_cnn"])
    fed.artifacts, shared = {}, fed.clients[0].data
    for k, client in enumerate(fed.clients):
        source = shared if one_domain else client.data
        client.data = source[torch.arange(k, len(source), len(fed.clients))]  # as many for each
    fed.method.start(fed)
    photographs = fed.scenario.normalize(fed.scenario.public.x)
    z = [teacher_logits(c.model, photographs) for c in fed.clients]
    M = [losses.cross_correlation(own, torch.stack(z).mean(0)) for own in z]
    return float(np.mean([float(losses.collaborative_loss(m, lambda_=0.0)) for m in M]))


def different_classes(run, seed: int) -> bool:
    """Whether FCCL's exchange fails for clients of 10 and 7 classes and works for 10 and 10."""
    fed = run.federation("fccl", seed)
    x = fed.scenario.normalize(fed.scenario.public.x[:32])
    pair, works = fed.clients[:2], {}
    for classes in (10, 7):
        z = [pair[0].model(x), pair[1].model(x)[:, :classes]]
        try:
            mean = fed.method.exchange(fed, pair, x, z)[1]
            works[classes] = bool(fed.method.public_loss(pair[1], None, z[1], mean).isfinite())
        except RuntimeError:  # Eq. 1 needs a mean over clients, and there is none
            works[classes] = False
    return works == {10: True, 7: False}


def full_steps(run, seed: int, *, fresh: bool) -> float:
    """Share of the first client's weights that its fourth public batch moves by the whole rate.

    With a `fresh` Adam for each batch, as the paper's code has it, or with one that is kept.
    """
    fed, photographs = _started(run, "fccl", seed)
    model, lr = fed.clients[0].model.eval(), fed.method.public_lr
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for x in photographs.split(len(photographs) // 4):
        optimizer = torch.optim.Adam(model.parameters(), lr=lr) if fresh else optimizer
        z_mean = torch.stack([teacher_logits(c.model, x) for c in fed.clients]).mean(0)
        optimizer.zero_grad()
        agree(model(x), z_mean).backward()
        before = parameters_to_vector(model.parameters()).detach()
        optimizer.step()
        step = (parameters_to_vector(model.parameters()).detach() - before).abs()
    return float((step > 0.99 * lr).double().mean())


def first_public_half(run, method: str, seed: int, fit: Callable) -> list[float]:
    """Own-domain accuracy around the first public half, in percent, in the order of `HOME`.

    Before; with fitted offsets; after; after, with the statistics of batch normalization put back;
    after, with fitted offsets. `fit(z, y)` makes one number per class from logits [images, classes]
    and labels [images] of the private images.
    """
    fed, _ = _started(run, method, seed)
    old = [{n: b.clone() for n, b in c.model.named_buffers()} for c in fed.clients]
    before, fitted = _at_home(fed), _at_home(fed, fit)
    fed.begin_round(1)
    fed.method.collaborate(fed, fed.clients)
    after, repaired = _at_home(fed), _at_home(fed, fit)
    for c, buffers in zip(fed.clients, old, strict=True):
        c.model.load_state_dict(buffers, strict=False)
    return [before, fitted, after, _at_home(fed), repaired]


def _at_home(fed, fit: Callable | None = None) -> float:
    found = []
    for c in fed.clients:
        test, normalize = fed.scenario.tests[c.domain], fed.scenario.normalize
        z = teacher_logits(c.model, normalize(test.x))
        if fit:
            z = z + fit(teacher_logits(c.model, normalize(c.data.x)), c.data.y)
        found.append(float((z.argmax(1) == test.y).double().mean()))
    return 100 * float(np.mean(found))


# ------------------------------------------------------------------------ reading of results


def accuracy(results: Sequence, key: str) -> np.ndarray:
    """One number per seed from the last round, in percent; key: "intra" or "inter"."""
    return 100 * np.array([r.headline[key] for r in results])


def by_client(results: Sequence) -> np.ndarray:
    """Accuracy of each client on the other domains, [seeds, clients], in percent."""
    last = [r.history["accuracy"][-1]["matrix"] for r in results]
    return 100 * np.array([measures.inter(matrix, range(len(matrix))) for matrix in last])


def before_local(results: Sequence) -> np.ndarray:
    """Accuracy on other domains after the last public half, one number per seed, in percent.

    The runs observed "after_collaborate".
    """
    last = [[e for e in r.history["accuracy"] if e["moment"] == "after_collaborate"][-1]["matrix"]
            for r in results]  # fmt: skip
    return 100 * np.array([np.mean(measures.inter(m, range(len(m)))) for m in last])


def late_gain(results: Sequence, key: str, *, last: int = 10) -> np.ndarray:
    """Per seed, the gain over the last rounds: mean of five rounds less that of five before."""
    curves = [[at[key] for at in experiments.accuracies(r.history)] for r in results]
    curves = 100 * np.array(curves)
    return curves[:, -5:].mean(1) - curves[:, -last - 5 : -last].mean(1)


def home_table(found: dict) -> pd.DataFrame:
    """Method -> `first_public_half` [seeds, moments], as a table of mean ± sd in percent."""
    shown = [name for name in HOME if name != "before, offsets"]
    rows = [[spread(values[:, HOME.index(name)], 1) for name in shown] for values in found.values()]
    return pd.DataFrame(rows, columns=shown, index=[display_name(method) for method in found])
