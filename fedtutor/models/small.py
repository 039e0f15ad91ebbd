"""Small networks for the quick profile: four different ways to see an image, and one that leaks.

A batch of 32 images takes a few milliseconds on one core. They are ours; `networks.py` lists them.
"""

from functools import partial

from torch import nn

from .layers import Dropout, MixerLayer, Patches, basic_block, conv


def small_cnn(in_channels: int, image_size: int) -> nn.Module:
    """Two 5x5 convolutions with max pooling; group norm, so nothing but weights to average."""
    norm, side = partial(nn.GroupNorm, 4), (image_size + 1) // 2 // 2 // 2
    return nn.Sequential(
        conv(in_channels, 16, 5, 2, bias=True, norm=norm),
        nn.MaxPool2d(2),
        conv(16, 32, 5, bias=True, norm=norm),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * side**2, 64),
        nn.ReLU(),
    )


def small_resnet(in_channels: int, image_size: int, *, norm=nn.BatchNorm2d) -> nn.Module:
    """A strided stem and two residual blocks."""
    side = -(-image_size // 8) // 2  # halved three times, rounded up, then pooled
    return nn.Sequential(
        conv(in_channels, 16, 3, 2, norm=norm),
        basic_block(16, 24, 2, norm),
        basic_block(24, 48, 2, norm),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(48 * side**2, 48),
        nn.ReLU(),
    )


def small_mobile(in_channels: int, image_size: int) -> nn.Module:
    """Depthwise-separable convolutions (each channel alone, then all of one pixel), dropout."""

    def separable(c_in, c_out):
        alone = nn.Conv2d(c_in, c_in, 3, stride=2, padding=1, groups=c_in)
        return nn.Sequential(alone, conv(c_in, c_out, 1))

    side = -(-image_size // 8)  # halved three times, rounded up
    return nn.Sequential(
        conv(in_channels, 16, 5, 2),
        separable(16, 32),
        separable(32, 64),
        nn.Flatten(),
        nn.Linear(64 * side**2, 96),
        nn.ReLU(),
        Dropout(0.2),
    )


def small_mixer(in_channels: int, image_size: int) -> nn.Module:
    """No convolution across pixels: 4x4 patches, mixed by small perceptrons, LayerNorm."""
    patches = (image_size // 4) ** 2
    return nn.Sequential(
        Patches(in_channels, 32, 4),
        MixerLayer(patches, 32),
        MixerLayer(patches, 32),
        nn.LayerNorm(32),
        nn.Flatten(),
        nn.Linear(32 * patches, 32),
        nn.ReLU(),
    )


def plain_cnn(in_channels: int, image_size: int) -> nn.Module:
    """Two strided convolutions with smooth activations; nothing pools and nothing normalizes.

    The kind of network whose gradients give images away (notebook 06).
    """
    return nn.Sequential(
        nn.Conv2d(in_channels, 32, 5, 2, 2),
        nn.GELU(),
        nn.Conv2d(32, 64, 3, 2, 1),
        nn.GELU(),
        nn.Flatten(),
    )
