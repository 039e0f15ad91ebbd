import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtutor.errors import SettingError
from fedtutor.scenarios import partitions
from fedtutor.scenarios.partitions import (
    balanced_order,
    deal,
    dirichlet_partition,
    iid_partition,
    shards_partition,
    split_words,
)

LABELS = torch.arange(1000) % 10


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_scenarios_still_hand_them_on():
    assert partitions.dirichlet_partition is dirichlet_partition
    assert partitions.iid_partition is iid_partition


def test_deal_names_the_three_and_refuses_a_fourth():
    options = {"beta": 0.5, "min_per_client": 2}
    iid, dirichlet = (deal(kind, LABELS, 4, rng(), **options) for kind in ("iid", "dirichlet"))
    assert [len(part) for part in iid] == [250] * 4
    direct = dirichlet_partition(LABELS, 4, 0.5, rng(), min_per_client=2)
    assert all(torch.equal(a, b) for a, b in zip(dirichlet, direct, strict=True))
    shards = deal("shards", LABELS, 4, rng(), shards_per_client=3, **options)
    direct = shards_partition(LABELS, 4, 3, rng())
    assert all(torch.equal(a, b) for a, b in zip(shards, direct, strict=True))
    with pytest.raises(SettingError, match="unknown partition 'dirichlett'"):
        deal("dirichlett", LABELS, 4, rng(), **options)


def assert_each_once(parts, count: int) -> None:
    assert sorted(torch.cat(parts).tolist()) == list(range(count))


@given(st.integers(1, 200), st.integers(1, 20), st.integers(0, 99))
def test_iid_deals_each_index_once(count, num_clients, seed):
    num_clients = min(num_clients, count)
    parts = iid_partition(count, num_clients, rng(seed))
    assert_each_once(parts, count)
    sizes = [len(part) for part in parts]
    assert len(sizes) == num_clients and max(sizes) - min(sizes) <= 1


@settings(deadline=None)
@given(
    labels=st.lists(st.integers(0, 5), min_size=1, max_size=150),
    num_clients=st.integers(1, 8),
    beta=st.sampled_from([1e-6, 0.05, 0.5, 1, 10.0, 1e15]),
    minimum=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_dirichlet_deals_each_index_once_or_says_why_not(labels, num_clients, beta, minimum, seed):
    labels = torch.tensor(labels)
    try:
        parts = dirichlet_partition(labels, num_clients, beta, rng(seed), min_per_client=minimum)
    except SettingError:
        return
    assert_each_once(parts, len(labels))
    assert len(parts) == num_clients and min(len(part) for part in parts) >= minimum


@given(
    labels=st.lists(st.integers(0, 5), min_size=1, max_size=150),
    num_clients=st.integers(1, 8),
    shards=st.integers(1, 5),
    minimum=st.integers(1, 9),
    seed=st.integers(0, 99),
)
def test_shards_deal_each_index_once_or_say_why_not(labels, num_clients, shards, minimum, seed):
    labels = torch.tensor(labels)
    least = len(labels) // (num_clients * shards)
    try:
        parts = shards_partition(labels, num_clients, shards, rng(seed), min_per_client=minimum)
    except SettingError:
        assert least == 0 or least * shards < minimum
        return
    assert_each_once(parts, len(labels))
    assert len(parts) == num_clients and min(len(part) for part in parts) >= minimum
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= shards


def test_shards_are_those_of_mcmahan_et_al():
    """100 clients, two of 200 shards of one label each: at most two labels, and all equal."""
    labels = torch.arange(6000) % 10
    parts = shards_partition(labels, 100, 2, rng())
    known = [len(labels[part].unique()) for part in parts]
    assert {len(part) for part in parts} == {60} and set(known) == {1, 2}
    assert known.count(2) > 80
    for part in parts:  # shards are whole: 30 images of a label, or 60
        assert set(torch.bincount(labels[part]).tolist()) <= {0, 30, 60}
    again, other = (shards_partition(labels, 100, 2, rng(seed)) for seed in (0, 1))
    assert all(torch.equal(a, b) for a, b in zip(parts, again, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(parts, other, strict=True))


@pytest.mark.parametrize("shards", [0, -1, 1.5, "2", True, None])
def test_shards_must_be_whole(shards):
    for split in (
        lambda: shards_partition(LABELS, 5, shards, rng()),
        lambda: deal("iid", LABELS, 5, rng(), beta=1.0, min_per_client=1, shards_per_client=shards),
    ):
        with pytest.raises(SettingError, match="shards_per_client"):
            split()


def test_shards_that_are_too_small():
    with pytest.raises(SettingError, match="3 shards of 0 images are not 1 images"):
        shards_partition(LABELS[:10], 4, 3, rng())
    with pytest.raises(SettingError, match="2 shards of 1 images are not 3 images"):
        shards_partition(LABELS[:10], 3, 2, rng(), min_per_client=3)


def test_a_split_in_words():
    assert split_words("iid", 0.5) == "IID split"
    assert split_words("dirichlet", 0.5) == "Dirichlet(0.5) split"
    assert split_words("shards", 0.5) == "2 shards per client"
    assert split_words("shards", 0.5, 1) == "1 shard per client"


def test_partitions_repeat_with_the_seed_and_differ_without():
    a, b, c = (dirichlet_partition(LABELS, 5, 0.5, rng(seed)) for seed in (0, 0, 1))
    assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))
    assert not all(torch.equal(x, y) for x, y in zip(a, c, strict=True))


def test_beta_sets_the_skew():
    def skew(beta):
        """Mean share of a client's largest class; 0.1 is no skew, 1 is one class each."""
        shares = []
        for seed in range(5):
            for part in dirichlet_partition(LABELS, 10, beta, rng(seed)):
                shares.append(torch.bincount(LABELS[part]).max().item() / len(part))
        return np.mean(shares)

    assert skew(0.05) > 0.6 > 0.5 > skew(0.5) > 0.25 > 0.12 > skew(1e6)


def test_a_full_client_gets_no_more():
    """At most n / K images plus one class: the cap of the split in MOON's code."""
    for seed in range(20):
        parts = dirichlet_partition(LABELS, 5, 0.1, rng(seed))
        assert max(len(part) for part in parts) < 1000 / 5 + 100


@pytest.mark.parametrize("beta", [0, -0.5, float("nan"), float("inf"), "0.5", True, None])
def test_beta_must_be_above_zero(beta):
    with pytest.raises(SettingError, match=r"beta = .*\n.*\n.*above 0"):
        dirichlet_partition(LABELS, 5, beta, rng())


def test_more_clients_than_images():
    for split in (
        lambda: iid_partition(3, 4, rng()),
        lambda: dirichlet_partition(LABELS[:3], 4, 0.5, rng()),
        lambda: shards_partition(LABELS[:3], 4, 1, rng()),
    ):
        with pytest.raises(SettingError, match="3 images cannot give 4 clients 1 each"):
            split()


def test_a_minimum_out_of_reach_ends_in_a_clear_error(monkeypatch):
    monkeypatch.setattr(partitions, "TRIES", 20)
    with pytest.raises(SettingError, match=r"in 20 tries\n.*\n.*raise beta"):
        dirichlet_partition(LABELS, 50, 0.01, rng(), min_per_client=20)


def test_balanced_order_is_a_permutation_with_balanced_prefixes():
    labels = torch.tensor([0] * 50 + [1] * 30 + [2] * 20)[torch.randperm(100)]
    order = balanced_order(labels, rng())
    assert sorted(order.tolist()) == list(range(100))
    for length in (3, 9, 30, 60):
        assert torch.bincount(labels[order[:length]]).tolist() == [length // 3] * 3
    assert not torch.equal(order, balanced_order(labels, rng(1)))
