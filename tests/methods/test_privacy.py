"""Clipping, noise and what it costs."""

import math
import sys

import pytest
import torch
from support.loops import close, labels, logits

from fedtutor.errors import SettingError
from fedtutor.losses import class_prototypes
from fedtutor.methods.shared.privacy import clipped, epsilon, private_class_means


def test_long_rows_are_shortened_and_short_ones_left():
    h = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    assert clipped(h, 2.5).tolist() == [[1.5, 2.0], h[1].tolist(), [0.0, 0.0]]
    assert clipped(h, 0.0) is h


def test_weighted_means_against_plain_loops():
    for seed in range(3):
        h, y = logits(12, 3, seed=seed), labels(12, 3, seed=seed)  # class 3 is absent
        w = logits(12, seed=9 + seed).sigmoid()
        rows = []
        for c in range(4):
            own = [i for i in range(12) if int(y[i]) == c]
            total = sum(float(w[i]) for i in own)
            row = []
            for j in range(3):
                length = {i: math.sqrt(sum(float(v) ** 2 for v in h[i])) for i in own}
                parts = [float(w[i]) * float(h[i, j]) * min(1, 2 / length[i]) for i in own]
                row.append(sum(parts) / total if own else 0.0)
            rows.append(row)
        close(private_class_means(h, y, num_classes=4, weights=w, clip=2.0), rows, 1e-9)
        close(private_class_means(h, y, num_classes=4), class_prototypes(h, y, num_classes=4))


def test_another_image_moves_a_mean_by_at_most_its_share():
    """2 clip w_i / w[c], reached by the opposite feature."""
    h, y = torch.zeros(4, 2).double(), torch.tensor([0, 0, 0, 1])
    w = torch.tensor([1.0, 0.5, 0.25, 1.0]).double()
    for i in range(3):
        there, opposite = h.clone(), h.clone()
        there[i, 0], opposite[i, 0] = 100.0, -100.0
        a, b = (private_class_means(v, y, num_classes=2, weights=w, clip=3.0)
                for v in (there, opposite))  # fmt: skip
        close((a - b)[0].norm(), 2 * 3 * w[i] / 1.75)
        close((a - b)[1], torch.zeros(2))


def test_the_noise_has_the_size_it_says_and_spares_absent_classes():
    y = torch.tensor([0, 0, 0, 0, 1, 1])
    h = torch.zeros(6, 4000)
    own = torch.Generator().manual_seed(0)
    means = private_class_means(h, y, num_classes=3, clip=3.0, noise=2.0, generator=own)
    assert means[0].std().item() == pytest.approx(2.0 * 2 * 3 / 4, rel=0.05)
    assert means[1].std().item() == pytest.approx(2.0 * 2 * 3 / 2, rel=0.05)
    assert not means[2].any()
    again = private_class_means(h, y, num_classes=3, clip=3.0, noise=2.0,
                                generator=torch.Generator().manual_seed(0))  # fmt: skip
    assert torch.equal(means, again)


def gaussian_delta(eps: float, noise: float, releases: int) -> float:
    """The exact delta of so many Gaussian releases (Balle and Wang 2018, Theorem 8)."""
    mu = math.sqrt(releases) / noise

    def below(x):
        return 0.5 * math.erfc(-x / math.sqrt(2))

    return below(-eps / mu + mu / 2) - math.exp(eps) * below(-eps / mu - mu / 2)


@pytest.mark.parametrize(("noise", "releases"), [(1.0, 1), (5.0, 20), (20.0, 200)])
def test_epsilon_is_a_bound_and_not_a_loose_one(noise, releases):
    eps = epsilon(noise=noise, releases=releases, delta=1e-3)
    assert gaussian_delta(eps, noise, releases) <= 1e-3
    assert gaussian_delta(0.7 * eps, noise, releases) > 1e-3


def test_more_noise_costs_less_and_more_releases_cost_more():
    def spent(noise=5.0, releases=20, delta=1e-3, weight=1.0):
        return epsilon(noise=noise, releases=releases, delta=delta, weight=weight)

    for lower, higher in (
        (spent(noise=6.0), spent()), (spent(), spent(releases=21)), (spent(weight=0.5), spent()),
        (spent(delta=1e-2), spent()), (0.0, spent(weight=0.1)),
    ):  # fmt: skip
        assert lower < higher
    assert spent(weight=0.5) == pytest.approx(spent(noise=10.0))
    assert spent(weight=0.0) == spent(releases=0) == 0
    assert spent(noise=0.0) == math.inf


@pytest.mark.parametrize("wrong", [
    {"noise": -1.0}, {"releases": -1}, {"delta": 0.0}, {"delta": 1.0}, {"weight": 1.1},
    {"noise": math.nan},
])  # fmt: skip
def test_numbers_out_of_range_are_one_clear_error(wrong):
    with pytest.raises(SettingError, match="give noise and releases"):
        epsilon(**{"noise": 1.0, "releases": 1, "delta": 1e-3, **wrong})


def test_a_missing_accountant_is_one_clear_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "opacus.accountants.analysis", None)
    monkeypatch.setitem(sys.modules, "opacus.accountants.analysis.rdp", None)
    with pytest.raises(SettingError, match="pip install opacus"):
        epsilon(noise=1.0, releases=1, delta=1e-3)
