"""Gradient inversion: the authors' numbers, plain loops, and what the attack must know."""

import math
from functools import partial
from pathlib import Path

import pytest
import torch
from support.loops import close, golden
from torch import nn

from fedtutor import attacks, losses, models, scenarios
from fedtutor.attacks import quality
from fedtutor.datasets import bundled
from fedtutor.errors import DataError, ModelError, SettingError
from fedtutor.methods.shared import privacy
from fedtutor.models import Architecture, networks
from fedtutor.randomness import generator
from fedtutor.scenarios.common import MNIST

pytestmark = pytest.mark.usefixtures("one_thread")


def with_norm(channels: int, size: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(size**2, 12), nn.BatchNorm1d(12), nn.ReLU())


def network_of(features=networks.plain_cnn, seed=0, size=28):
    return models.build(
        Architecture(features, "", 4),
        num_classes=10,
        in_channels=1,
        image_size=size,
        generator=generator("victim", seed),
    )


def digits(count: int):
    data = bundled.mnist_sample()
    order = torch.randperm(len(data), generator=generator("digits"))[:count]
    scenario = scenarios.build("mnist-mini", num_clients=1, private_size=20)
    return scenario.normalize(data.x[order]), data.y[order]


def sent(network, x, y, **options) -> list[torch.Tensor]:
    return [g.detach() for g in attacks.gradient(network, x, y, **options)]


def quality_of(found, x) -> float:
    """PSNR of the mean squared error over the batch, in dB."""
    ours, original = (attacks.unit(v, *MNIST) for v in (found.x, x))
    return -10 * math.log10(float(attacks.mse(ours, attacks.paired(ours, original)).mean()))


# ------------------------------------------------------------------------------ golden numbers


def test_golden_costs_and_their_gradients():
    g = golden("inverting_gradients")
    trial = [g[f"g_trial{i}"].requires_grad_() for i in range(4)]
    target = [g[f"g_true{i}"] for i in range(4)]
    cost = attacks.cosine_cost(trial, target)
    close(cost.detach(), g["sim_equal"])
    close(attacks.squared_cost(trial, target).detach(), g["l2_equal"])
    for i, slope in enumerate(torch.autograd.grad(cost, trial)):
        close(slope, g[f"grad_sim{i}"])


def test_golden_total_variation():
    g = golden("inverting_gradients")
    x = g["image"].requires_grad_()
    value = attacks.total_variation(x)
    close(value.detach(), g["tv"])
    close(torch.autograd.grad(value, x)[0], g["grad_tv"])


def test_costs_and_variation_against_loops():
    own = torch.Generator().manual_seed(0)
    a, b = (
        [torch.randn(*s, generator=own, dtype=torch.float64) for s in ((3, 2), (4,))]
        for _ in range(2)
    )
    flat = [[float(v) for t in side for v in t.flatten()] for side in (a, b)]
    dot = sum(u * v for u, v in zip(*flat, strict=True))
    lengths = [math.sqrt(sum(v * v for v in side)) for side in flat]
    close(attacks.cosine_cost(a, b), 1 - dot / (lengths[0] * lengths[1]))
    close(attacks.cosine_cost([5 * t for t in a], b), attacks.cosine_cost(a, b))
    close(attacks.squared_cost(a, b), sum((u - v) ** 2 for u, v in zip(*flat, strict=True)))
    x = torch.randn(2, 1, 3, 4, generator=own, dtype=torch.float64)
    rows = [
        abs(float(x[i, 0, r, c + 1] - x[i, 0, r, c]))
        for i in range(2)
        for r in range(3)
        for c in range(3)
    ]
    columns = [
        abs(float(x[i, 0, r + 1, c] - x[i, 0, r, c]))
        for i in range(2)
        for r in range(2)
        for c in range(4)
    ]
    close(attacks.total_variation(x), sum(rows) / 18 + sum(columns) / 16)


# ------------------------------------------------- what the attack must know: the cost of the truth


def cost_of_truth(network, target, x, y, imitate=attacks.gradient) -> float:
    """What the search would reach at the client's own images: 0 if it computes as the client."""
    return float(attacks.cosine_cost(imitate(network, x, y), target).detach())


def test_the_truth_costs_nothing_only_in_the_clients_mode():
    x, y = digits(6)
    network = network_of(with_norm).train()
    target = sent(network, x, y)  # clients train in training mode: statistics of the batch
    assert cost_of_truth(network, target, x, y) < 1e-6
    assert cost_of_truth(network.eval(), target, x, y) > 0.05


SMOOTH = partial(nn.functional.cross_entropy, label_smoothing=0.3)


def test_the_truth_costs_nothing_only_with_the_clients_loss():
    """And the search finds less with another: of a network that has learned a little."""
    x, y = digits(46)
    network = network_of()
    attacks.imitate(network, x[6:], y[6:], epochs=3, batch_size=8, lr=0.1, own=generator("learn"))
    target = sent(network, x[:6], y[:6], loss=SMOOTH)
    theirs = partial(attacks.gradient, loss=SMOOTH)
    assert cost_of_truth(network, target, x[:6], y[:6], theirs) < 1e-6
    assert cost_of_truth(network, target, x[:6], y[:6]) > 0.02
    one = sent(network, x[:1], y[:1], loss=SMOOTH)
    right, wrong = (
        quality_of(
            attacks.invert(
                network, one, y[:1], mean=MNIST[0], std=MNIST[1], steps=200, imitate=imitate
            ),
            x[:1],
        )
        for imitate in (theirs, attacks.gradient)
    )
    assert right > 50 and wrong < right - 20


def test_smoothing_only_shortens_the_gradient_where_all_classes_are_equally_likely():
    """p - smoothed label is then (1 - smoothing)(p - label): the same direction."""
    x, y = digits(6)
    network = network_of()
    with torch.no_grad():
        for weight in network.classifier.parameters():
            weight.mul_(1e-4)
    plain, smooth = sent(network, x, y), sent(network, x, y, loss=SMOOTH)
    assert float(attacks.cosine_cost(smooth, plain)) < 1e-6
    ratio = smooth[-1].norm() / plain[-1].norm()
    assert float(ratio) == pytest.approx(0.7, abs=1e-3)


def test_the_truth_costs_nothing_only_with_the_weights_of_that_round():
    x, y = digits(6)
    network = network_of()
    target = sent(network, x, y)
    assert cost_of_truth(network_of(seed=1), target, x, y) > 0.1


def test_several_steps_need_their_own_imitation():
    """The way of FedAvg's local steps, in its order, is matched exactly; a gradient not."""
    x, y = digits(6)
    network = network_of()
    steps = partial(attacks.local_steps, lr=0.1, batch_size=2, epochs=2)
    network_after = network_of()
    optimizer = torch.optim.SGD(network_after.parameters(), lr=0.1)
    for _ in range(2):
        for i in (0, 2, 4):
            optimizer.zero_grad()
            losses.cross_entropy(network_after(x[i : i + 2]), y[i : i + 2]).backward()
            optimizer.step()
    target = attacks.way_of(network, network.state_dict(), network_after.state_dict())
    assert cost_of_truth(network, target, x, y, steps) < 1e-6
    assert cost_of_truth(network, target, x, y) > 1e-3
    one = attacks.local_steps(network, x, y, lr=0.1, batch_size=6)
    for a, b in zip(one, attacks.gradient(network, x, y), strict=True):
        assert torch.allclose(a, 0.1 * b, atol=1e-7)


def test_one_digit_is_found_in_an_update_of_several_steps():
    """With the way of the same steps; taken for one gradient, less of it."""
    x, y = digits(1)
    network = network_of()
    steps = partial(attacks.local_steps, lr=0.1, batch_size=1, epochs=5)
    target = [t.detach() for t in steps(network, x, y)]
    right, wrong = (
        quality_of(
            attacks.invert(
                network, target, y, mean=MNIST[0], std=MNIST[1], steps=200, imitate=imitate
            ),
            x,
        )
        for imitate in (steps, attacks.gradient)
    )
    assert right > 25 and wrong < right - 10


# ------------------------------------------------------------------------------------- labels


def test_the_label_of_one_image_is_read_off():
    x, y = digits(20)
    network = network_of()
    for i in range(20):
        assert attacks.labels_from(network, sent(network, x[i : i + 1], y[i : i + 1])) == y[i]


def test_labels_of_a_batch_are_counted():
    x, y = digits(16)
    network = network_of()
    target = [0.1 * g for g in sent(network, x, y)]
    found = attacks.labels_from(network, target, 16, scale=0.1)
    assert found.tolist() == sorted(y.tolist())
    sure = network_of()
    with torch.no_grad():
        sure.classifier.bias[3] = 5.0  # says 3 to everything
    assert len(attacks.labels_from(sure, sent(sure, x, y), 16)) == 16  # wrong, but as many


# ------------------------------------------------------------------------------------- search


@pytest.fixture(scope="module")
def one_and_eight():
    x, y = digits(8)
    network = network_of()
    return (
        x,
        y,
        network,
        {
            n: attacks.invert(
                network, sent(network, x[:n], y[:n]), y[:n], mean=MNIST[0], std=MNIST[1], steps=200
            )
            for n in (1, 8)
        },
    )


def test_one_digit_is_found_and_eight_are_blurred(one_and_eight):
    x, _, _, found = one_and_eight
    one, eight = (quality_of(found[n], x[:n]) for n in (1, 8))
    assert one > 25
    assert eight < one - 5


def test_noise_of_differential_privacy_defeats_it(one_and_eight):
    """Clipped to length 1 and noise of deviation 1 on every weight (noise multiplier 1)."""
    x, y, network, found = one_and_eight
    loss = privacy.private_loss(
        network, x[:1], y[:1], clip=1.0, noise=1.0, generator=generator("dp")
    )
    target = torch.autograd.grad(loss, list(network.parameters()))
    noisy = attacks.invert(network, target, y[:1], mean=MNIST[0], std=MNIST[1], steps=200)
    black = quality_of(attacks.Reconstruction(x[:1] * 0 + float(x.min()), y, 0), x[:1])
    assert quality_of(noisy, x[:1]) < min(quality_of(found[1], x[:1]) - 15, black)


def small_search(**options):
    x, y = digits(2)
    network = network_of(with_norm).train()
    return attacks.invert(
        network,
        sent(network, x, y),
        y,
        mean=MNIST[0],
        std=MNIST[1],
        **{"steps": 8, "restarts": 2, **options},
    ), network


def test_the_same_seed_gives_the_same_bits_and_leaves_the_network_alone():
    before = {k: v.clone() for k, v in network_of(with_norm).state_dict().items()}
    first, network = small_search()
    torch.set_num_threads(2)
    again, _ = small_search()
    torch.set_num_threads(1)
    assert torch.equal(first.x, again.x)
    assert not torch.equal(first.x, small_search(seed=1)[0].x)
    assert first.cost < small_search(restarts=1)[0].cost  # here the second start wins
    assert network.state_dict()["body.2.num_batches_tracked"] == 1  # of `sent`, not of the attack
    assert torch.equal(network.state_dict()["body.1.weight"], before["body.1.weight"])


def test_pixels_stay_in_their_box():
    x = small_search(lr=5.0)[0].x
    low, high = ((v - MNIST[0][0]) / MNIST[1][0] for v in (0, 1))
    assert float(x.min()) >= low - 1e-6 and float(x.max()) <= high + 1e-6


def test_another_cost_is_a_function():
    x, y = digits(1)
    network = network_of()
    few, many = (
        attacks.invert(
            network,
            sent(network, x, y),
            y,
            mean=MNIST[0],
            std=MNIST[1],
            steps=n,
            cost=attacks.squared_cost,
        ).cost
        for n in (1, 40)
    )
    assert many < few / 2


@pytest.mark.parametrize(
    "error, words, options",
    [
        (SettingError, "steps = 0", {"steps": 0}),
        (SettingError, "restarts = 0", {"restarts": 0}),
    ],
)
def test_bad_options_are_one_clear_error(error, words, options):
    with pytest.raises(error, match=words):
        small_search(**options)


def test_an_update_that_does_not_fit_is_one_clear_error():
    x, y = digits(1)
    network = network_of(with_norm).eval()
    target = sent(network, x, y)
    for bad, words in (
        (target[:-1], "5 tensors for 6 weights"),
        ([*target[:-1], target[-1] / 0], "no number"),
    ):
        with pytest.raises(DataError, match=words):
            attacks.invert(network, bad, y, mean=MNIST[0], std=MNIST[1])


# ------------------------------------------------------------------------------------- quality


def test_measures_by_hand():
    x, original = torch.zeros(2, 1, 8, 8), torch.zeros(2, 1, 8, 8)
    x[1] += 0.1
    assert attacks.mse(x, original).tolist() == pytest.approx([0, 0.01])
    assert attacks.psnr(x, original).tolist() == [math.inf, pytest.approx(20, abs=1e-5)]
    assert attacks.ssim(x, original)[0] == 1 and attacks.ssim(x, original)[1] < 1
    assert attacks.unit(torch.tensor([[[[-9.0, 0.0, 9.0]]]]), (0.25,), (0.5,)).tolist() == [
        [[[0.0, 0.25, 1.0]]]
    ]
    with pytest.raises(DataError, match="two sets"):
        attacks.mse(x, original[:1])


def test_a_batch_is_compared_in_its_best_order():
    x = torch.rand(5, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    order = torch.tensor([3, 1, 4, 0, 2])
    assert torch.equal(attacks.paired(x[order], x), x[order])
    far, index = attacks.nearest(x[order] + 1e-3, x)
    assert index.tolist() == order.tolist() and float(far.max()) == pytest.approx(1e-6, rel=1e-2)


def test_lpips_says_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setattr(quality, "find_spec", lambda name: None)
    assert "not installed" in attacks.lpips_missing()
    monkeypatch.setattr(quality, "find_spec", lambda name: object())
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    assert "are not in PyTorch's cache" in attacks.lpips_missing()
    x = torch.zeros(1, 1, 8, 8)
    assert set(attacks.qualities(x, x)) == {"MSE", "PSNR", "SSIM"}
    with pytest.raises(DataError, match="LPIPS is left out"):
        attacks.lpips(x, x)
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / quality.BACKBONE).touch()
    assert attacks.lpips_missing() == ""


def test_lpips_joins_the_measures_where_its_weights_are(monkeypatch):
    """By the library, its own small layers and an AlexNet that was never trained."""
    import torchvision

    lpips = pytest.importorskip("lpips")
    untrained = torchvision.models.AlexNet
    torch.manual_seed(0)
    monkeypatch.setattr(lpips.pretrained_networks.tv, "alexnet", lambda **_: untrained())
    monkeypatch.setattr(quality, "lpips_missing", lambda: "")
    x = torch.rand(3, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    near, far = (x + a * torch.randn(x.shape, generator=generator("far")) for a in (0.01, 0.5))
    found = [attacks.qualities(v.clamp(0, 1), x)["LPIPS"] for v in (x, near, far)]
    assert found[0].tolist() == [0, 0, 0] and found[0].dtype == torch.float64
    assert (found[0] < found[1]).all() and (found[1] < found[2]).all()


# --------------------------------------------------------------------------- private gradients


def test_a_private_gradient_is_clipped_image_by_image():
    x, y = digits(3)
    network = network_of()
    loss = privacy.private_loss(network, x, y, clip=0.5, noise=0.0, generator=generator("n"))
    ours = torch.autograd.grad(loss, list(network.parameters()))
    total = [torch.zeros_like(p) for p in network.parameters()]
    for i in range(3):
        g = sent(network, x[i : i + 1], y[i : i + 1])
        length = math.sqrt(sum(float(v.square().sum()) for v in g))
        assert length > 0.5
        total = [t + v * min(1, 0.5 / length) for t, v in zip(total, g, strict=True)]
    for a, b in zip(ours, total, strict=True):
        assert torch.allclose(a, b / 3, atol=1e-6)
    plain_loss = losses.cross_entropy(network(x), y)
    assert torch.allclose(loss, plain_loss, atol=1e-5)
    assert all(p.grad is None for p in network.parameters())
    assert not any(hasattr(p, "grad_sample") for p in network.parameters())


def test_noise_has_the_stated_size_and_the_generators_bits():
    x, y = digits(4)
    network = network_of()

    def drawn(seed, noise):
        loss = privacy.private_loss(network, x, y, clip=0.5, noise=noise, generator=generator(seed))
        return torch.cat([g.flatten() for g in torch.autograd.grad(loss, network.parameters())])

    noise = drawn(0, 2.0) - drawn(0, 0.0)
    assert float(noise.std()) == pytest.approx(2.0 * 0.5 / 4, rel=0.02)
    assert torch.equal(drawn(0, 2.0), drawn(0, 2.0))
    assert not torch.equal(drawn(0, 2.0), drawn(1, 2.0))


def test_a_network_in_which_images_meet_is_refused():
    x, y = digits(3)
    with pytest.raises(ModelError, match="cannot separate images"):
        privacy.private_loss(
            network_of(with_norm), x, y, clip=1.0, noise=1.0, generator=generator("n")
        )


def test_cost_in_epsilon():
    assert privacy.sgd_epsilon(noise=1.0, steps=0, rate=0.1, delta=1e-3) == 0
    assert privacy.sgd_epsilon(noise=0.0, steps=5, rate=0.1, delta=1e-3) == math.inf
    full = privacy.sgd_epsilon(noise=4.0, steps=10, rate=1.0, delta=1e-3)
    assert full == pytest.approx(privacy.epsilon(noise=4.0, releases=10, delta=1e-3), rel=1e-3)
    assert privacy.sgd_epsilon(noise=4.0, steps=10, rate=0.1, delta=1e-3) < full / 2
    for bad in ({"rate": 0.0}, {"rate": 1.5}, {"delta": 0.0}, {"noise": -1.0}):
        with pytest.raises(SettingError, match="sgd_epsilon"):
            privacy.sgd_epsilon(**{"noise": 1.0, "steps": 5, "rate": 0.1, "delta": 1e-3, **bad})


def backbone(folder) -> dict:
    """A file as torchvision would have downloaded it: AlexNet's weights, drawn here."""
    import torchvision

    with torch.device("meta"):
        shapes = torchvision.models.alexnet(weights=None).state_dict()
    own, state = torch.Generator().manual_seed(1), {}
    for name, value in shapes.items():
        state[name] = torch.zeros(1).expand(value.shape)  # kept as one number; no part of LPIPS
        if name.startswith("features"):
            state[name] = torch.randn(value.shape, generator=own) * 0.05
    (folder / "hub" / "checkpoints").mkdir(parents=True)
    torch.save(state, folder / "hub" / "checkpoints" / quality.BACKBONE)
    return state


def test_lpips_with_a_backbone_file_is_the_formula_of_its_paper(monkeypatch, tmp_path):
    """Zhang et al. 2018, Eq. 1: unit features, squared differences, weighted, averaged over pixels.

    Weights are those that come with the library; the AlexNet is one of ours in its file's place.
    """
    lpips = pytest.importorskip("lpips")
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    assert quality.BACKBONE in attacks.lpips_missing()
    state = {k: v.double() for k, v in backbone(tmp_path).items() if k.startswith("features")}
    assert attacks.lpips_missing() == ""
    own = torch.Generator().manual_seed(0)
    x, original = (torch.rand(2, 3, 64, 64, generator=own) for _ in range(2))
    small = Path(lpips.__file__).parent / "weights" / "v0.1" / "alex.pth"
    linear = torch.load(small, weights_only=True, map_location="cpu")

    def layers_of(pixels):
        h = (2 * pixels.double() - 1 - SHIFT.view(1, 3, 1, 1)) / SCALE.view(1, 3, 1, 1)
        found = []
        for place, (stride, padding, pooled) in {
            0: (4, 2, True),
            3: (1, 2, True),
            6: (1, 1, False),
            8: (1, 1, False),
            10: (1, 1, False),
        }.items():
            w, b = (state[f"features.{place}.{part}"] for part in ("weight", "bias"))
            h = torch.nn.functional.conv2d(h, w, b, stride, padding).relu()
            found.append(h)
            h = torch.nn.functional.max_pool2d(h, 3, 2) if pooled else h
        return found

    expected = torch.zeros(2, dtype=torch.float64)
    for k, (a, b) in enumerate(zip(layers_of(x), layers_of(original), strict=True)):
        a, b = (h / h.square().sum(1, keepdim=True).sqrt().clamp(min=1e-10) for h in (a, b))
        weight = linear[f"lin{k}.model.1.weight"].double().view(1, -1, 1, 1)
        expected += (weight * (a - b) ** 2).sum(1).mean((1, 2))
    close(attacks.lpips(x, original), expected, 1e-4)
    assert attacks.lpips(x, x).tolist() == [0, 0]


SHIFT = torch.tensor([-0.030, -0.088, -0.188], dtype=torch.float64)  # of the library's scaling
SCALE = torch.tensor([0.458, 0.448, 0.450], dtype=torch.float64)
