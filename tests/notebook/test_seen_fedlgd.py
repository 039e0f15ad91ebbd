"""What notebook 05 sees: distances of clients, directions of pixels, images that are distilled."""

import numpy as np
import pytest
import torch

from fedtutor import Federation, Settings, figures, losses, methods, rounds, scenarios
from fedtutor.distillation import initial, virtual_images
from fedtutor.notebook import seen_fedlgd as seen

QUICK = {"rounds": 1, "models": ["small_convnet"], "virtual_ipc": 2, "virtual_lr": 30.0,
         "virtual_momentum": 0.5, "virtual_batch": 4, "batch_size": 20}  # fmt: skip


@pytest.fixture(scope="module")
def made():
    return scenarios.build("digits-mini", private_size=40)


def federation(made, method="fedavg", **changes):
    return Federation(made, methods.METHODS[method](), Settings(**QUICK | changes), seed=1)


@pytest.fixture(scope="module")
def watched(made):
    """What the look saw before and after the only round; the federation afterwards."""
    fed = federation(made, virtual_steps=2)
    fed.begin()
    before = seen.clients_apart(fed)
    rounds.play_round(fed, 1)
    return [before, seen.clients_apart(fed)], fed


def test_distances_are_there_for_every_space_kind_and_pair(watched):
    moments, _ = watched
    far = {space: rows for seen_ in moments for space, rows in seen_["mmd"].items()}
    assert tuple(far) == seen.SPACES
    for rows in far.values():
        assert np.array(rows).shape == (3, 6) and (np.array(rows) > 0).all()
    assert moments[1]["h"].shape[:2] == (2, 40) and moments[1]["h"].abs().max() == 127
    assert moments[1]["y"].tolist() == 2 * [c for c in range(10) for _ in range(2)]


def test_between_the_first_and_the_last_round_nothing_is_seen(made):
    fed = federation(made, rounds=2, virtual_steps=0)
    fed.begin()
    rounds.play_round(fed, 1)
    assert seen.clients_apart(fed) == {}


def test_a_look_leaves_the_federation_as_it_was(watched):
    _, fed = watched
    before = [w.clone() for w in fed.server.model.state_dict().values()]
    images = {name: v.x.clone() for name, v in virtual_images(fed).items()}
    seen.clients_apart(fed)
    after = fed.server.model.state_dict().values()
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert all(torch.equal(v.x, images[name]) for name, v in virtual_images(fed).items())


def test_change_is_the_mean_over_pairs_of_the_change_of_each():
    far = [[1.0, 2.0], [1.1, 2.0], [0.5, 3.0]]  # private, random, distilled
    moment = {"mmd": dict.fromkeys(seen.SPACES, far), "mixed": [0.1, 0.2, 0.3]}
    moment |= {"cosine": [1.0, 0.5, 0.25], "away": 0.75}
    found = seen.change([[moment, {"mmd": {}, "mixed": [0.1, 0.2, 0.3]}]] * 2)
    assert found["pixels"] == pytest.approx(np.array([[5, 0], [5, 0]]))
    assert seen.mixed([[moment]]) == pytest.approx(np.array([[10, 20, 30]]))
    assert seen.cosines([[moment]])[seen.GOALS[1]] == pytest.approx([0.5])
    assert seen.away([[moment]]) == pytest.approx([0.75])


def test_images_that_are_private_are_no_farther_than_private_ones(watched):
    _, fed = watched
    own = torch.Generator().manual_seed(0)
    private = {
        c.id: initial(c.private, fed.scenario, ipc=2, init="real", own=own) for c in fed.clients
    }
    assert seen.from_private(fed, private) == pytest.approx(-1, abs=0.05)
    assert seen.from_private(fed, virtual_images(fed)) > 0


def test_the_client_that_decides_has_the_least_distance(watched):
    _, fed = watched
    own = torch.Generator().manual_seed(0)
    made = dict(virtual_images(fed))
    assert seen.nearest_client(fed, made) in made
    for client in fed.clients:  # one alone has private images
        copied = initial(client.private, fed.scenario, ipc=2, init="real", own=own)
        assert seen.nearest_client(fed, made | {client.id: copied}) == client.id


def test_matching_gradients_of_weights_0_moves_pixels_as_matching_means(made):
    fed = federation(made, virtual_steps=0)
    fed.begin()
    first, fitted, own = seen.directions(fed)
    assert first == pytest.approx(1, abs=1e-4) and max(fitted, own) < 0.9


def test_a_film_begins_with_what_is_drawn_and_nears_the_mean(made):
    client = federation(made, virtual_steps=0).clients[0]
    shown = seen.film(client, 3, [0, 1, 20])
    assert len(shown) == 3 and all((v.y == 3).all() and len(v) == 10 for v in shown)
    private = client.private[client.private.y == 3]

    @torch.no_grad()
    def gap(v):
        inputs = client.scenario.inputs
        h, h_made = client.model.features(inputs(private.x)), client.model.features(inputs(v.x))
        return float(losses.distribution_matching(h, private.y, h_made, v.y, num_classes=10))

    assert gap(shown[2]) < gap(shown[0])


def test_matched_images_pull_where_they_shall(made):
    fed = federation(made, "fedlgd", virtual_steps=0)
    fed.begin()
    network = fed.server.model
    images = virtual_images(fed)[fed.clients[0].id]
    loss = losses.cross_entropy(network(made.inputs(images.x)), images.y)
    pull = [g.detach() for g in torch.autograd.grad(loss, [*network.parameters()])]
    shown, gaps = seen.matched(fed, network, pull, [0, 5])
    assert torch.allclose(shown[0].x, fed.server.state["virtual"]["x"], atol=1e-3)
    assert len(gaps) == 5 and 0 < gaps[-1] < gaps[0] < 2
    fed.server.state["virtual"] = images.state()  # those that made the pull
    assert seen.matched(fed, network, pull, [1])[1] == pytest.approx([0], abs=1e-4)


def test_marks_lie_where_the_pixels_are_and_leave_the_map_as_it_was():
    figure = figures.matrix(
        {"a": np.zeros((4, 4)), "b": np.ones((4, 4))}, title="two maps", rows=[""] * 4,
        columns=[""] * 4, xlabel="x", ylabel="y", unit="z", signed=False,
    )  # fmt: skip
    before = [(axes.get_xlim(), axes.get_ylim()) for axes in figure.axes[:2]]
    seen.mark(figure, {"i": [-1.0, 1.0], "j": [0.0, 0.0]}, [[0.5, 0.0], [0.0, -2.0]], 4)
    for axes, limits, end in zip(figure.axes[:2], before, [(3.5, 1.5), (1.5, 3.5)], strict=True):
        assert (axes.get_xlim(), axes.get_ylim()) == limits
        places = [line.get_xydata().tolist() for line in axes.lines if line.get_gid() == "image"]
        assert places == [[[-0.5, -0.5]], [[1.5, 1.5]]]  # the corner at the top left, the middle
        (ray,) = [line.get_xydata().tolist() for line in axes.lines if line.get_gid() == "ray"]
        assert ray == [[1.5, 1.5], list(end)]
        assert [t.get_text() for t in axes.texts] == ["i", "j"]


def test_a_client_distills_with_any_loss_and_a_new_network_learns_from_it(made):
    client = federation(made, virtual_steps=0).clients[0]

    def nothing(h, h_virtual):
        return 0 * h_virtual.sum()

    def means(h, h_virtual):
        return (h.mean(0) - h_virtual.mean(0)).square().sum()

    (first, y), (moved, _) = (seen.distill(loss, client, steps=3) for loss in (nothing, means))
    assert y.bincount().tolist() == [10] * 10 and not moved.requires_grad
    assert first.shape == moved.shape and not torch.equal(first, moved)
    again, _ = seen.distill(means, client, steps=3)
    assert torch.equal(moved, again)
    x, y = seen.some_private(client)
    private = {tuple(image.flatten().tolist()) for image in made.inputs(client.private.x)}
    assert {tuple(image.flatten().tolist()) for image in x} <= private
    before = [w.clone() for w in client.model.parameters()]
    assert seen.taught(x, y, client, steps=0) < 0.3 < seen.taught(x, y, client, steps=40)
    assert all(torch.equal(a, b) for a, b in zip(before, client.model.parameters(), strict=True))
