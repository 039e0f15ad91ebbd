import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.federations import images, tiny_scenario

from fedtutor.errors import ModelError, SettingError
from fedtutor.measures import (
    accuracy,
    class_abroad,
    class_distance,
    divergence,
    inter,
    intra,
    mean_loss,
    mmd,
    neighbors_abroad,
    weight_distance,
)

MATRIX = [[0.9, 0.1, 0.2], [0.3, 0.8, 0.5], [0.0, 0.4, 0.7]]


def test_intra_is_the_own_column_and_inter_the_mean_of_the_rest():
    assert intra(MATRIX, [0, 1, 2]) == [0.9, 0.8, 0.7]
    assert inter(MATRIX, [0, 1, 2]) == pytest.approx([0.15, 0.4, 0.2])
    assert intra(MATRIX, [2, 0, 1]) == [0.2, 0.3, 0.4]


def test_inter_is_absent_with_one_test_set():
    assert inter([[0.5], [0.6]], [0, 0]) is None


@given(st.integers(1, 40), st.integers(1, 50))
def test_accuracy_counts_images_whatever_the_batch(count, batch_size):
    scenario, data = tiny_scenario(), images(count, seed=1)

    def always_class_0(x):
        return torch.eye(3)[torch.zeros(len(x), dtype=torch.long)]

    expected = sum(int(label) == 0 for label in data.y) / count
    assert accuracy(always_class_0, data, scenario, batch_size=batch_size) == pytest.approx(
        expected
    )


@given(st.integers(1, 40), st.integers(1, 50), st.integers(1, 3))
def test_an_answer_is_right_where_the_label_is_among_the_top_logits(count, batch_size, top):
    scenario, data = tiny_scenario(), images(count, seed=1)

    def predict(x):
        return x.flatten(1)[:, :3]

    right = 0
    for z, label in zip(predict(scenario.normalize(data.x)).tolist(), data.y.tolist(), strict=True):
        best = sorted(range(3), key=lambda c: -z[c])[:top]  # of equal logits the first class
        right += label in best
    found = accuracy(predict, data, scenario, batch_size=batch_size, top=top)
    assert found == right / count and (top < 3 or found == 1)


def test_of_equal_logits_the_first_classes_count():
    data = images(9, seed=1)
    for top in (1, 2, 3):
        found = accuracy(lambda x: torch.zeros(len(x), 3), data, tiny_scenario(), top=top)
        assert found == float((data.y < top).double().mean())


def test_accuracy_refuses_a_wrong_class_count():
    with pytest.raises(ModelError, match="num_classes=3"):
        accuracy(lambda x: torch.zeros(len(x), 4), images(5, seed=1), tiny_scenario())


@given(st.integers(1, 40), st.integers(1, 50))
def test_mean_loss_is_that_of_a_plain_loop_whatever_the_batch(count, batch_size):
    scenario, data = tiny_scenario(), images(count, seed=1)

    def predict(x):
        return 3 * x.flatten(1)[:, :3]

    total = 0.0
    for z, label in zip(predict(scenario.normalize(data.x)).tolist(), data.y.tolist(), strict=True):
        total += math.log(sum(math.exp(v) for v in z)) - z[label]
    found = mean_loss(predict, data, scenario, batch_size=batch_size)
    assert found == pytest.approx(total / count, rel=1e-6)
    assert mean_loss(lambda x: torch.zeros(len(x), 3), data, scenario) == pytest.approx(math.log(3))


def test_weight_distance_is_euclidean_over_all_weights():
    a = {"w": torch.tensor([1.0, 2.0]), "b": torch.tensor([0.0]), "steps": torch.tensor(3)}
    b = {"w": torch.tensor([1.0, 5.0]), "b": torch.tensor([4.0]), "steps": torch.tensor(9)}
    assert weight_distance(a, b) == pytest.approx(5.0)


def test_divergence_against_a_plain_loop():
    own = torch.Generator().manual_seed(0)
    z, other = (torch.randn(4, 3, generator=own, dtype=torch.float64) for _ in range(2))
    total = 0.0
    for a, b in zip(z.tolist(), other.tolist(), strict=True):
        p = [math.exp(v) / sum(map(math.exp, a)) for v in a]
        q = [math.exp(v) / sum(map(math.exp, b)) for v in b]
        total += sum(i * math.log(i / j) for i, j in zip(p, q, strict=True))
    assert divergence(z, other) == pytest.approx(total / 4, rel=1e-12)
    assert divergence(z, z) == 0
    assert divergence(z, z + 7) == pytest.approx(0, abs=1e-12)  # a common shift is no drift


def test_neighbors_by_hand():
    """Group 0 at 0, 1 and 10; group 1 at 9, 11.5 and 12."""
    h = torch.tensor([[0.0], [1.0], [10.0], [9.0], [11.5], [12.0]])
    of, y = torch.tensor([0, 0, 0, 1, 1, 1]), torch.tensor([5, 5, 6, 6, 5, 5])
    assert neighbors_abroad(h, of, nearest=1) == pytest.approx(2 / 6)  # 10 and 9
    assert class_abroad(h, y, of) == pytest.approx(2 / 6)  # only 10 and 9 meet their class
    assert class_abroad(h, torch.zeros(6), of) == 1


def test_distance_of_classes_is_the_mean_of_their_mmds():
    g = torch.Generator().manual_seed(0)
    h, other = torch.randn(6, 3, generator=g), torch.randn(5, 3, generator=g)
    y, k = torch.tensor([0, 0, 1, 1, 2, 2]), torch.tensor([0, 1, 1, 3, 3])
    expected = (mmd(h[:2], other[:1], bandwidth=2.0) + mmd(h[2:4], other[1:3], bandwidth=2.0)) / 2
    assert class_distance(h, y, other, k, bandwidth=2.0) == pytest.approx(expected)
    assert class_distance(h, y, h, y, bandwidth=2.0) == 0
    with pytest.raises(SettingError, match="no class in common"):
        class_distance(h, y, other, k + 10, bandwidth=2.0)
