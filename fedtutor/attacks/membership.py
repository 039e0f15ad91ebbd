"""Membership inference: was this image among those that a network was trained on?

- `lira`: the likelihood-ratio attack (Carlini et al. 2022, "Membership Inference Attacks From First
  Principles", Sec. IV and Algorithm 1). Shadow networks, trained with and without an image, say
  what the target's confidence would be in either case.
- `kernel_ratio`: FedLGD's variant (Sec. 5.5, Fig. 6): no shadow networks; a feature of the gradient
  of each image, and densities of known members and known others by Gaussian kernels.
- the baseline: the confidence itself, the same threshold for all images ("global").
- `in_mean`: for means of features or logits: does an image point where the mean points?

Scores are larger for likelier members. Chance is an AUC of 0.5. What counts is the share of members
that are found while few others are accused: `tpr_at`.
"""

import math
from collections.abc import Callable

import numpy as np
import torch
from sklearn.metrics import roc_auc_score, roc_curve
from sklearn.neighbors import KernelDensity
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from ..engine.batches import cut
from ..engine.workers import Workers
from ..errors import DataError, SettingError, choose
from ..losses import cross_entropy
from ..models import usual_layout
from ..randomness import generator

TINY = 1e-30  # added to standard deviations, as in the authors' code


def confidence(z: Tensor, y: Tensor) -> Tensor:
    """phi = log p_y - log(sum of p_c over c != y), in float64 (Carlini et al., Eq. 6).

    z: logits [n, ..., classes], y: [n]. The logit of p_y: unlike the loss it has no wall at 0, and
    is near a normal distribution.
    """
    z = z.detach().double()
    label = y.view(-1, *[1] * (z.ndim - 1)).expand(*z.shape[:-1], 1)
    own = z.gather(-1, label)[..., 0]
    return own - z.scatter(-1, label, -math.inf).logsumexp(-1)


@torch.no_grad()
def confidences(network: nn.Module, x: Tensor, y: Tensor, *, mirrored: bool = False) -> Tensor:
    """`confidence` of every image, [n, 1], or [n, 2] with its mirror image.

    x as the network sees it. The network answers in evaluation mode, and is put back.
    """
    mode, views = network.training, [x, x.flip(3)] if mirrored else [x]
    network.eval()
    z = [torch.cat([network(part) for part in view.split(500)]) for view in views]
    network.train(mode)
    return confidence(torch.stack(z, 1), y)


def lira(target: Tensor, shadow: Tensor, keep: Tensor, *, online: bool = True,
         fixed_variance: bool = False, reading: str = "paper") -> Tensor:  # fmt: skip
    """The likelihood-ratio score of every image, float64 [n]; Carlini et al. Algorithm 1.

    target: confidences [n, views] of the attacked network; shadow: [networks, n, views];
    keep: bool [networks, n], whether an image was among the shadow network's training images.

    Location is the median and scale the standard deviation over shadow networks. Online: log of
    N(phi; in) over N(phi; out), the mean over views. Offline knows no shadow network that saw the
    image: -log Pr[Z > phi], Z from N(out), which orders as Eq. 4 does; `reading` "code" takes
    -log N(phi; out), which also accuses images that are *less* sure than expected. With
    `fixed_variance` all images share one scale: that of "in" and that of "out", where the code
    takes "in" for both. As in the code each image counts as many shadow networks as the one that
    has fewest.
    """
    choose(reading, ("paper", "code"), kind="reading", where="lira")
    shadow, target, keep = shadow.double(), target.double(), keep.bool()
    if shadow.ndim != 3 or shadow.shape[1:] != target.shape or keep.shape != shadow.shape[:2]:
        shapes = [list(v.shape) for v in (target, shadow, keep)]
        raise SettingError(f"shapes {shapes}", where="lira",
                           do="give [n, views], [networks, n, views], [networks, n]")  # fmt: skip
    mu, sd = _moments(shadow, ~keep, fixed_variance)
    if not online and reading == "paper":  # the share of a normal that lies above
        return -torch.special.log_ndtr((mu - target) / (sd + TINY)).mean(1)
    if not online:
        return -_log_normal(target, mu, sd).mean(1)
    mu_in, sd_in = _moments(shadow, keep, fixed_variance)
    if fixed_variance and reading == "code":
        sd = sd_in
    return (_log_normal(target, mu_in, sd_in) - _log_normal(target, mu, sd)).mean(1)


def _moments(shadow: Tensor, mask: Tensor, fixed: bool) -> tuple[Tensor, Tensor]:
    """Median [n, views] and standard deviation (divisor n) over the shadow networks in `mask`."""
    count = int(mask.sum(0).min())
    if count < 2:
        raise DataError(f"an image has {count} shadow networks with it or without it", where="lira",
                        do="train more of them; `coins` deals images evenly")  # fmt: skip
    order = (~mask).to(torch.int8).argsort(dim=0, stable=True)[:count]
    values = shadow.gather(0, order[..., None].expand(*order.shape, shadow.shape[2]))
    return values.quantile(0.5, dim=0), values.std(dim=None if fixed else 0, correction=0)


def _log_normal(phi: Tensor, mu: Tensor, sd: Tensor) -> Tensor:
    z = (phi - mu) / (sd + TINY)
    return -(z**2) / 2 - torch.log(sd + TINY) - math.log(2 * math.pi) / 2


def coins(networks: int, images: int, *, seed: int) -> Tensor:
    """keep [networks, images]: every image is in exactly half of the networks, drawn at random."""
    if networks < 4 or networks % 2:
        raise SettingError(f"{networks} shadow networks", where="coins",
                           do="give an even number of at least 4")  # fmt: skip
    order = torch.rand(networks, images, generator=generator(seed, "shadows", "coins")).argsort(0)
    return order < networks // 2


def shadows(keep: Tensor, train: Callable, *, threads: int = 1) -> Tensor:
    """`train(images, number)` for every row of `keep`, in parallel, stacked in order.

    `images`: indices that this shadow network may see; `number`: its own, for its random numbers.
    What `train` returns, such as `confidences` of all images, must not depend on anything else;
    then neither does the result depend on `threads`.
    """
    jobs = [(row.nonzero()[:, 0], number) for number, row in enumerate(keep)]
    pool = Workers(threads, torch.device("cpu"), "float32")
    with pool.open():
        found = pool.map(lambda job: train(*job), jobs, [len(index) for index, _ in jobs])
    return torch.stack(found)


def imitate(network: nn.Module, x: Tensor, y: Tensor, *, epochs: int, batch_size: int, lr: float,
            momentum: float = 0.0, own: torch.Generator) -> nn.Module:  # fmt: skip
    """Train `network` in place as a client does (`rounds.local_update`), and return it.

    x as the network sees it. A lone last image joins the batch before it, as there.
    """
    optimizer = torch.optim.SGD(network.parameters(), lr=lr, momentum=momentum)
    network.train()
    for _ in range(epochs):
        order = torch.randperm(len(y), generator=own).to(x.device)
        for index in cut(order, batch_size):
            optimizer.zero_grad()
            cross_entropy(network(x[index]), y[index]).backward()
            optimizer.step()
    return network


def gradient_norms(network: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Log of the length of each image's own gradient, float64 [n, 1].

    The network computes in evaluation mode, one image at a time, and is not changed. Which feature
    of the gradients FedLGD took, it does not say.
    """
    mode = network.training
    network.eval()
    weights = {k: p.detach() for k, p in network.named_parameters() if p.requires_grad}
    buffers = dict(network.named_buffers())

    def one(weights, x, y):
        z = functional_call(network, (weights, buffers), (x[None],))
        return cross_entropy(z, y[None])

    each = vmap(grad(one), in_dims=(None, 0, 0))
    rows = []  # squared length of each weight tensor's part
    for part, labels in zip(x.split(100), y.split(100), strict=True):
        with usual_layout(network):
            found = each(weights, part, labels).values()
        rows.append(torch.stack([g.double().flatten(1).square().sum(1) for g in found], 1))
    network.train(mode)
    return (torch.cat(rows).sum(1, keepdim=True) + TINY).log() / 2


def kernel_ratio(members: Tensor, others: Tensor, candidates: Tensor) -> Tensor:
    """Log density among known members less log density among known others, float64 [n].

    Features [m, d], [o, d], [n, d]. Gaussian kernels; every feature is divided by its standard
    deviation over all known images, and the bandwidth is Scott's, count**(-1 / (d + 4)).
    """
    known = torch.cat([members, others])
    if min(len(members), len(others)) < 2:
        raise DataError("fewer than two known members or others", where="kernel_ratio",
                        do="know at least two of each")  # fmt: skip
    scale = known.std(0).clamp(min=TINY)
    found = []
    for part in (members, others):
        width = len(part) ** (-1 / (part.shape[1] + 4))
        density = KernelDensity(bandwidth=width).fit((part / scale).double().cpu().numpy())
        found.append(density.score_samples((candidates / scale).double().cpu().numpy()))
    return torch.from_numpy(found[0] - found[1])


def kernel_attack(features: Tensor, member: Tensor, *, seed: int) -> Tensor:
    """`kernel_ratio` of every image, with densities of the half to which it does not belong.

    The attacker of this variant knows for half of the images whether they are members.
    """
    order = torch.randperm(len(member), generator=generator(seed, "kernels", "halves"))
    scores = torch.empty(len(member), dtype=torch.float64)
    for known, asked in ((order[::2], order[1::2]), (order[1::2], order[::2])):
        inside = member[known].bool()
        scores[asked] = kernel_ratio(features[known[inside]], features[known[~inside]],
                                     features[asked])  # fmt: skip
    return scores


def in_mean(h: Tensor, mean: Tensor, reference: Tensor) -> Tensor:
    """How far h [n, d] points where `mean` [d] points, seen from `reference` [d]; float64 [n].

    <h - reference, mean - reference> / |mean - reference| (the statistic of Dwork et al. 2015,
    "Robust Traceability from Trace Amounts"): an image in a mean of n pulls it its own way.
    """
    away = (mean - reference).double()
    return (h - reference).double() @ away / away.norm().clamp(min=TINY)


def roc(scores, member) -> tuple[np.ndarray, np.ndarray]:
    """False and true positive rates at every threshold, from (0, 0) to (1, 1)."""
    scores, member = _checked(scores, member)
    return roc_curve(member, scores, drop_intermediate=False)[:2]


def auc(scores, member) -> float:
    """Chance that a member scores higher than another image; ties count one half."""
    scores, member = _checked(scores, member)
    return float(roc_auc_score(member, scores))


def tpr_at(scores, member, fpr: float = 0.01) -> float:
    """Share of members found at a threshold that accuses at most `fpr` of the others.

    Raises `DataError` where too few others are there to say: 5 false alarms must be possible, and
    below 1 % ten.
    """
    scores, member = _checked(scores, member)
    needed = math.ceil((5 if fpr >= 0.01 else 10) / fpr - 1e-9)
    if (others := int((~member).sum())) < needed:
        raise DataError(f"{others} non-members are too few for {100 * fpr:g} % false positives",
                        where="tpr_at", do=f"give at least {needed:,}")  # fmt: skip
    false, true = roc(scores, member)
    return float(true[false <= fpr].max())


def _checked(scores, member) -> tuple[np.ndarray, np.ndarray]:
    scores = np.asarray(torch.as_tensor(scores).detach().cpu(), dtype=np.float64)
    member = np.asarray(torch.as_tensor(member).cpu()).astype(bool)
    right = scores.shape == member.shape and scores.ndim == 1 and np.isfinite(scores).all()
    if not right or member.all() or not member.any():
        raise DataError(
            f"{scores.shape} scores for {int(member.sum())} members and {int((~member).sum())} "
            "others, or scores that are no numbers", where="attacks",
            do="give one finite score per image, and images of both kinds",
        )  # fmt: skip
    return scores, member
