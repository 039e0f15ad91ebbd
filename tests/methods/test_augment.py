import math
import time

import pytest
import torch
from torchvision.transforms.v2 import functional as tv

from fedtutor import models
from fedtutor.errors import DataError, SettingError
from fedtutor.methods.shared import augment as a
from fedtutor.methods.shared.augment import KINDS, augment

ACTIVE = [kind for kind in KINDS if kind != "none"]


def own(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def noise(count: int = 16, *, channels: int = 3, size: int = 32, seed: int = 0) -> torch.Tensor:
    shape = (count, channels, size, size)
    return torch.randint(0, 256, shape, generator=own(seed)).to(torch.uint8)


def ramp(count: int, size: int = 32) -> torch.Tensor:
    """Red says the row, green the column, blue the number 100; eight levels per pixel."""
    row = (8 * torch.arange(size))[:, None].expand(size, size)
    one = torch.stack([row, row.T, torch.full_like(row, 100)]).to(torch.uint8)
    return one.repeat(count, 1, 1, 1)


@pytest.mark.parametrize("kind", ACTIVE)
def test_shape_type_and_the_generator_alone(kind):
    x = noise()
    before = x.clone()
    torch.manual_seed(1)
    out = augment(kind, x, own())
    torch.manual_seed(2)
    assert torch.equal(out, augment(kind, x, own())) and torch.equal(x, before)
    assert out.shape == x.shape and out.dtype == torch.uint8
    assert not torch.equal(out, augment(kind, x, own(1)))
    assert not torch.equal(out, x)


def test_none_returns_the_images():
    x = noise()
    assert augment("none", x, own()) is x


@pytest.mark.parametrize("kind", ACTIVE)
def test_every_image_has_its_own_draws(kind):
    views = augment(kind, noise(1).repeat(16, 1, 1, 1), own())
    assert len({view.numpy().tobytes() for view in views}) > 12


@pytest.mark.parametrize("kind", ACTIVE)
def test_gray_images_and_other_sizes(kind):
    assert augment(kind, noise(channels=1, size=28), own()).shape == (16, 1, 28, 28)


def test_weak_shows_a_box_of_the_right_size_in_the_image():
    views = augment("weak", ramp(2000), own()).float() / 8
    height = (views[:, 0, -1] - views[:, 0, 0]).mean(1) * 32 / 31
    width = views[:, 1, :, -1] - views[:, 1, :, 0]
    flipped = width.mean(1) < 0
    width = width.mean(1).abs() * 32 / 31
    area = height * width / 32**2
    assert 0.17 < area.min() < 0.23 and 0.95 < area.max() < 1.01
    assert abs(area.mean() - 0.6) < 0.02  # uniform in 0.2 to 1
    ratio = width / height
    assert ratio.min() > 0.72 and ratio.max() < 1.4 and abs(ratio.log().mean()) < 0.02
    assert 0.46 < flipped.float().mean() < 0.54
    assert (views[:, 2] == 12.5).all()  # a flat channel stays flat: nothing comes in from outside


def test_weak_is_the_crop_and_resize_of_torchvision():
    x = noise(8)
    center, half = a._boxes(x, own())
    ours = a._crop_and_flip(x.float(), own())
    mirror = torch.rand(8 * 5, generator=own())[-8:] < 0.5
    grid = torch.linspace(-31 / 32, 31 / 32, 32)
    for i in range(8):
        across = center[0, i] + half[0, i] * (grid.flip(0) if mirror[i] else grid)
        down = center[1, i] + half[1, i] * grid
        columns, rows = ((v + 1) * 16 - 0.5 for v in (across, down))  # in pixels
        for r, c in ((0, 0), (5, 30), (31, 17)):
            top, left = math.floor(rows[r]), math.floor(columns[c])
            down_, right = float(rows[r]) - top, float(columns[c]) - left
            value = 0.0
            for dy, wy in ((0, 1 - down_), (1, down_)):
                for dx, wx in ((0, 1 - right), (1, right)):
                    at = min(max(top + dy, 0), 31), min(max(left + dx, 0), 31)
                    value = value + wy * wx * x[i, :, at[0], at[1]].float()
            assert (ours[i, :, r, c] - value).abs().max() < 0.05


def test_weak_code_is_a_move_by_up_to_four_pixels_and_a_flip():
    x = noise(300)
    views = augment("weak_code", x, own())
    seen = set()
    for image, view in zip(x, views, strict=True):
        padded = torch.nn.functional.pad(image, (4,) * 4)
        found = [(top, left, flip) for top in range(9) for left in range(9) for flip in (0, 1)
                 if torch.equal(view.flip(2) if flip else view,
                                padded[:, top : top + 32, left : left + 32])]  # fmt: skip
        assert len(found) == 1
        seen.add(found[0])
    assert len({top for top, _, _ in seen}) == len({left for _, left, _ in seen}) == 9
    assert len({flip for _, _, flip in seen}) == 2


def test_each_color_operation_is_that_of_torchvision():
    x = noise(6).float()
    turn = torch.tensor([-0.1, -0.05, 0.0, 0.01, 0.07, 0.1])
    hue = torch.stack([tv.adjust_hue(i / 255, float(t)) * 255
                       for i, t in zip(x, turn, strict=True)])  # fmt: skip
    assert (a._hue(x, turn) - hue).abs().max() < 0.01
    gray = a._luminance(x)
    assert (gray - tv.rgb_to_grayscale(x)).abs().max() < 0.2
    factor = torch.full((6, 1, 1, 1), 1.3)
    saturated = tv.adjust_saturation(x / 255, 1.3) * 255
    assert (a._mixed(x, gray, factor) - saturated).abs().max() < 0.2
    contrast = tv.adjust_contrast(x / 255, 1.3) * 255
    assert (a._mixed(x, gray.mean((1, 2, 3), keepdim=True), factor) - contrast).abs().max() < 0.2


def test_strong_grays_a_fifth_and_leaves_a_fifth_uncolored():
    x = noise(2000, size=8)
    weak, strong = (
        augment("weak", x, own()),
        augment("strong", x, own()),
    )  # the same crops: color draws come last
    gray = (strong == strong[:, :1]).flatten(1).all(1)
    assert 0.17 < gray.float().mean() < 0.23
    same = ((weak.int() - strong.int()).abs() <= 1).flatten(1).all(1)
    assert abs(same.float().mean() - 0.2 * 0.8) < 0.03


def test_conference_rotates_by_at_most_15_degrees():
    x = torch.zeros(500, 1, 33, 33, dtype=torch.uint8)
    x[:, :, 16, :] = 255  # a horizontal line through the middle
    views = augment("conference", x, own()).float()
    columns = views[:, 0, :, [8, 24]]
    seen = columns.amax(1).bool().all(1)
    rise = columns.argmax(1).float()
    angle = torch.atan((rise[seen, 1] - rise[seen, 0]) / 16).rad2deg()
    assert seen.float().mean() > 0.9 and 11 < angle.max() < 19 and -19 < angle.min() < -11


@pytest.mark.serial
def test_it_costs_less_than_one_exchange_of_logits():
    """Per batch of 128: like one training step of a small network (4 and 14 ms, alone).

    The bound is wide, because machines are busy; a loop over images would miss it by far.
    """
    x, generator = noise(128), own()
    net = models.build("small_cnn", num_classes=10, generator=own())

    def step():
        net(x.float() / 255).sum().backward()

    def best(work):
        times = []
        for _ in range(9):
            start = time.perf_counter()
            work()
            times.append(time.perf_counter() - start)
        return min(times)

    step_takes = best(step)
    for kind in ("weak", "strong"):
        assert best(lambda kind=kind: augment(kind, x, generator)) < 8 * step_takes, kind


@pytest.mark.parametrize("x", [noise().float(), noise()[0], noise()[:, :2]])
def test_other_inputs_are_refused(x):
    for kind in ACTIVE:
        with pytest.raises(DataError, match="give uint8"):
            augment(kind, x, own())


def test_unknown_kind():
    with pytest.raises(SettingError, match=r"unknown augmentation 'weka'.*\n.*\n.*'weak'"):
        augment("weka", noise(), own())
