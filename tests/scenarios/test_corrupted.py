"""CIFAR10C of FedLGD: who gets how many of a class, in the small setting and in the paper's."""

import numpy as np
import pytest
import torch
from support import trees

from fedtutor.errors import SettingError
from fedtutor.experiments import recipes
from fedtutor.images import Images
from fedtutor.scenarios import build, corrupted
from fedtutor.scenarios.partitions import dirichlet_partition

LABELS = torch.arange(6000) % 10


def options(profile: str) -> dict:
    recipe = recipes.load("fedlgd", profile=profile, scenario="cifar10-c-rebuilt")
    return recipe.options(0)


def dealt(beta: float, least: int, seeds=range(30), labels=LABELS) -> np.ndarray:
    """How many images of each class each of three clients gets, [seeds, 3, 10]."""
    found = []
    for seed in seeds:
        own = np.random.default_rng(seed)
        parts = dirichlet_partition(labels, 3, beta, own, min_per_class=least)
        assert sorted(torch.cat(parts).tolist()) == list(range(len(labels)))
        found.append([np.bincount(labels[part], minlength=10) for part in parts])
    return np.array(found)


@pytest.fixture
def rebuilt(tmp_path, monkeypatch):
    """Small images with CIFAR-10's labels; nothing corrupts them, so that they are still known."""
    monkeypatch.setenv("FEDTUTOR_DATA", str(tmp_path))
    trees.npz(tmp_path, "cifar10", "test", trees.pixels(700, 32, 32, 3), trees.ten(700))

    def corruption(base, name, *, severity, rows, size):
        return Images(base.x[:, :, :size, :size], base.y, name)

    monkeypatch.setattr(corrupted.rebuilt, "corrupted", corruption)


def test_alpha_acts_in_the_small_setting(rebuilt):
    small = options("quick")
    counts = {}
    for beta in (2.0, 5.0):
        scenario = build("cifar10-c-rebuilt", **{**small, "beta": beta})
        assert len(scenario.clients) == 57
        held = [torch.bincount(c.private.y, minlength=10) for c in scenario.clients]
        counts[beta] = torch.stack(held)
        assert counts[beta].sum() == 19 * small["private_size"]
        assert counts[beta].min() >= small["min_per_class"] > 0
    assert not torch.equal(counts[2.0], counts[5.0])
    uneven = {beta: float(c.float().std()) for beta, c in counts.items()}
    assert uneven[2.0] > 1.2 * uneven[5.0]


def test_the_papers_setting_can_be_met_and_alpha_is_what_the_docstring_says():
    paper = options("paper")
    assert (paper["parts"], paper["beta"], paper["private_size"]) == (3, 2.0, 6000)
    assert paper["min_per_class"] == 100
    alone = dealt(2.0, 0)
    assert 0.3 < (alone.min(1) >= 100).mean() < 0.5  # four classes of ten
    assert not (alone.min((1, 2)) >= 100).any()
    for beta, as_even in ((2.0, 9.0), (5.0, 21.0)):
        held = dealt(beta, 100)
        assert held.min() >= 100
        assert held.std() == pytest.approx(dealt(beta, 0).std() / 2, rel=0.1)
        assert held.std() == pytest.approx(dealt(as_even, 0).std(), rel=0.15)


@pytest.mark.parametrize("least", [1, 199, 200])
def test_what_is_left_is_dealt_and_nothing_may_be_left(least):
    assert dealt(2.0, least, seeds=range(3)).min() >= least
    short = torch.cat([LABELS[LABELS != 3], torch.full((3 * least,), 3)])
    held = dealt(2.0, least, seeds=range(3), labels=short)
    assert (held[:, :, 3] == least).all()


def test_without_a_minimum_the_split_is_what_it_was():
    """Number by number: class by class by the Dirichlet, and a full client gets no more."""
    own, by_hand = np.random.default_rng(4), [[], [], []]
    for label in range(10):
        rows = own.permutation(np.flatnonzero(LABELS.numpy() == label))
        room = [k for k in range(3) if sum(map(len, by_hand[k])) < 2000]
        cuts = (np.cumsum(own.dirichlet([2.0] * len(room)))[:-1] * len(rows)).astype(int)
        for k, part in zip(room, np.split(rows, cuts), strict=True):
            by_hand[k].append(part)
    parts = dirichlet_partition(LABELS, 3, 2.0, np.random.default_rng(4))
    for part, rows in zip(parts, by_hand, strict=True):
        assert sorted(part.tolist()) == sorted(np.concatenate(rows).tolist())


def test_a_minimum_that_cannot_be_met_is_one_clear_error(rebuilt):
    few = {"private_size": 100, "test_size": 10}
    with pytest.raises(
        SettingError, match=r"class \d has \d+ images, .*3 clients 20 each"
    ) as error:
        build("cifar10-c-rebuilt", min_per_class=20, **few)
    assert "smaller min_per_class" in str(error.value)
    with pytest.raises(SettingError, match="min_per_class = -1"):
        build("cifar10-c-rebuilt", min_per_class=-1, **few)
