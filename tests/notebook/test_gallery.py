import numpy as np
import pytest
import torch
from support.federations import tiny_scenario

from fedtutor import measures, scenarios
from fedtutor.errors import SettingError
from fedtutor.figures import to_png
from fedtutor.images import Images
from fedtutor.notebook import gallery


def test_all_four_of_a_bundled_scenario():
    scenario = scenarios.build("digits-mini", private_size=60)
    for look in (gallery.sheet, gallery.classes, gallery.intensities, gallery.distances):
        figure, table = look(scenario)
        assert to_png(figure)[:4] == b"\x89PNG" and len(table)
        assert "digits-mini" in figure.get_suptitle()


def test_class_counts_and_the_title():
    scenario = scenarios.build("mnist-mini", num_clients=3, partition="dirichlet", beta=0.1)
    figure, table = gallery.classes(scenario)
    assert table.drop(columns="client").to_numpy().sum() == 2000 and len(table) == 3
    shares = table.drop(columns="client").to_numpy()
    share = round(100 * (shares.max(1) / shares.sum(1)).mean())
    assert f"on average {share} %" in figure.get_suptitle().replace("\n", " ")


def test_intensities_are_shares_of_all_pixels():
    _, table = gallery.intensities(scenarios.build("digits-mini", private_size=60))
    assert list(table["from intensity"]) == list(range(0, 256, 16)) and table.shape == (16, 13)
    assert np.allclose(table.drop(columns="from intensity").sum(), 100, atol=0.1)
    assert table["mnist, R"][0] > 70 > 20 > table["street, R"][0]


def test_distances_between_and_within_domains():
    figure, table = gallery.distances(scenarios.build("digits-mini", private_size=60))
    values = table.drop(columns="domain").to_numpy()
    assert np.allclose(values, values.T) and values.diagonal().max() < 0.15
    assert values[~np.eye(4, dtype=bool)].min() > values.diagonal().max()
    names = list(table["domain"])
    i, j = np.unravel_index(values.argmax(), values.shape)
    assert {names[i], names[j]} <= set(figure.get_suptitle().replace("\n", " ").split())
    assert figure.axes[-1].get_ylim() == pytest.approx((0, 2**0.5))  # no distance below 0


def test_distances_are_means_over_seeds_of_halves_of_equal_size():
    scenario = scenarios.build("digits-mini", private_size=60)
    found, bandwidth = gallery.halves(scenario, seed=1)
    assert {half.shape for both in found.values() for half in both} == {(150, 3 * 8 * 8)}
    one = [gallery.between(scenario, seed=seed) for seed in (0, 1)]
    first, second = found["street"]
    assert one[1][2, 2] == pytest.approx(measures.mmd(first, second, bandwidth=bandwidth))
    _, table = gallery.distances(scenario, seeds=(0, 1))
    assert np.allclose(table.drop(columns="domain"), np.mean(one, axis=0), atol=0.001)


def test_equal_classes_are_said_in_words():
    figure, _ = gallery.classes(scenarios.build("digits-mini", private_size=60))
    assert "equally many images of every class" in figure.get_suptitle().replace("\n", " ")


def test_the_sheet_shows_each_class_once_and_the_public_images():
    _, table = gallery.sheet(tiny_scenario())
    assert list(table["data"]) == ["domain0", "domain1", "domain2", "public"]
    x = torch.arange(30, dtype=torch.uint8).view(30, 1, 1, 1).expand(30, 1, 4, 4).contiguous()
    some = gallery._one_per_class(Images(x, torch.arange(30) % 10, "n"), 10,
                                  torch.Generator().manual_seed(0))  # fmt: skip
    assert (some[:, 0, 0, 0].long() % 10).tolist() == list(range(10))


def test_one_domain_and_many():
    assert "one domain" in gallery.distances(scenarios.build("mnist-mini"))[0].get_suptitle()
    many = tiny_scenario(clients=15)
    figure, table = gallery.sheet(many)
    assert "3 domains more" in figure.get_suptitle() and len(table) == 13


# mmd


def test_mmd_equals_the_definition():
    own = torch.Generator().manual_seed(0)
    h, g = torch.randn(7, 3, generator=own), torch.randn(5, 3, generator=own) + 1
    total = 0.0
    for a, b, sign in ((h, h, 1), (g, g, 1), (h, g, -2)):
        kernel = 0.0
        for u in a.double():
            for v in b.double():
                kernel += float(torch.exp(-((u - v) ** 2).sum() / (2 * 1.5**2)))
        total += sign * kernel / (len(a) * len(b))
    assert measures.mmd(h, g, bandwidth=1.5) == pytest.approx(total**0.5)
    assert measures.mmd(h, h, bandwidth=1.5) == 0
    assert measures.mmd(h, g + 1000, bandwidth=0.01) == pytest.approx((1 / 7 + 1 / 5) ** 0.5)


def test_median_distance():
    h = torch.tensor([[0.0], [1.0], [4.0]])
    assert measures.median_distance(h) == 3


@pytest.mark.parametrize("bandwidth", [0, -1, float("nan")])
def test_mmd_refuses(bandwidth):
    with pytest.raises(SettingError, match="bandwidth above 0"):
        measures.mmd(torch.ones(2, 3), torch.ones(2, 3), bandwidth=bandwidth)
    with pytest.raises(SettingError, match="two sets"):
        measures.mmd(torch.ones(2, 3), torch.ones(2, 4), bandwidth=1.0)
