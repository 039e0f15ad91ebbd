"""Every network: functions that make what turns images into features, and `MODELS`, their list.

The list names where each network comes from and the smallest image it takes. Written anew;
parameter counts, shapes and outputs agree with the authors' code (tests/models/test_networks.py).
"""

from functools import partial

from torch import nn

from ..errors import ModelError, whole
from .base import MODELS, OURS, Architecture
from .layers import (
    Branches,
    DropConnect,
    Dropout,
    GlobalAverage,
    SqueezeExcite,
    Sum,
    Unused,
    basic_block,
    bottleneck,
    conv,
    instance_norm,
    repshare_block,
    shortcut,
)
from .small import plain_cnn, small_cnn, small_mixer, small_mobile, small_resnet

# ---------------------------------------------------------------- residual networks


def resnet(
    in_channels: int,
    image_size: int,
    *,
    blocks: tuple,
    block=basic_block,
    widen: int = 1,
    norm=nn.BatchNorm2d,
    stem: tuple[int, int] = (3, 1),
) -> nn.Module:
    """ResNet for small images: stem (kernel, stride) without pooling, four stages, global average.

    At 32 pixels the global average is the 4x4 pooling of the FCCL and FedLGD code. FedCSD's code
    starts ResNet50's convolutions from a Kaiming normal distribution; here PyTorch's default.
    """
    layers, c_in = [conv(in_channels, 64, *stem, norm=norm)], 64
    for width, count, first_stride in zip((64, 128, 256, 512), blocks, (1, 2, 2, 2), strict=True):
        for stride in [first_stride] + [1] * (count - 1):
            layers.append(block(c_in, widen * width, stride, norm))
            c_in = widen * width
    return nn.Sequential(*layers, GlobalAverage())


def resnet18_repshare(in_channels: int, image_size: int) -> nn.Module:
    """RepShare's ResNet18: its own block, then 256 shared features in -1..1 (d' = 256)."""
    trunk = resnet(in_channels, image_size, blocks=(2, 2, 2, 2), block=repshare_block)
    return nn.Sequential(trunk, nn.Linear(512, 256), nn.Tanh())


def resnet9(in_channels: int, image_size: int) -> nn.Module:
    """RepShare's ResNet9: 128 shared features in -1..1 (d' = 128)."""
    return nn.Sequential(
        conv(in_channels, 64),
        conv(64, 128),
        nn.MaxPool2d(2),
        repshare_block(128, 128, 1),
        conv(128, 256),
        nn.MaxPool2d(2),
        conv(256, 256),
        nn.MaxPool2d(2),
        repshare_block(256, 256, 1),
        nn.MaxPool2d(2),
        GlobalAverage(),
        nn.Linear(256, 128),
        nn.Tanh(),
    )


# ---------------------------------------------------------------- mobile, efficient, inception


def mobilenetv2(in_channels: int, image_size: int) -> nn.Module:
    """MobileNetV2 (Sandler et al. 2018), strides for 32 pixels as in FCCL's code.

    FCCL's code also gives a block a 1x1 shortcut where only the channels change.
    """
    layers, c_in = [conv(in_channels, 32)], 32
    for expand, c_out, count, first_stride in [
        (1, 16, 1, 1),
        (6, 24, 2, 1),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ]:
        for stride in [first_stride] + [1] * (count - 1):
            wide = expand * c_in
            main = nn.Sequential(
                conv(c_in, wide, 1),
                conv(wide, wide, 3, stride, groups=wide),
                conv(wide, c_out, 1, activation=nn.Identity),
            )
            layers.append(Sum(main, shortcut(c_in, c_out, 1)) if stride == 1 else main)
            c_in = c_out
    return nn.Sequential(*layers, conv(c_in, 1280, 1), GlobalAverage())


def efficientnet_features(in_channels: int, image_size: int, *, drop_connect: float) -> nn.Module:
    """EfficientNet-B0 (Tan and Le 2019), stem stride 1, no 1280 head, as in FCCL's code.

    The first block of that code owns an expansion it never calls: it is kept, frozen, for the
    count. Features are taken after the dropout, as there.
    """
    silu = partial(conv, activation=nn.SiLU)
    layers, c_in, done = [silu(in_channels, 32)], 32, 0
    for expand, c_out, count, kernel, first_stride in [
        (1, 16, 1, 3, 1),
        (6, 24, 2, 3, 2),
        (6, 40, 2, 5, 2),
        (6, 80, 3, 3, 2),
        (6, 112, 3, 5, 1),
        (6, 192, 4, 5, 2),
        (6, 320, 1, 3, 1),
    ]:
        for stride in [first_stride] + [1] * (count - 1):
            wide, skips = expand * c_in, stride == 1 and c_in == c_out
            main = nn.Sequential(
                Unused(silu(c_in, wide, 1)) if expand == 1 else silu(c_in, wide, 1),
                silu(wide, wide, kernel, stride, groups=wide),
                SqueezeExcite(wide, c_in // 4),
                conv(wide, c_out, 1, activation=nn.Identity),
                DropConnect(drop_connect * done / 16 if skips else 0),
            )
            layers.append(Sum(main, nn.Identity()) if skips else main)
            c_in, done = c_out, done + 1
    return nn.Sequential(*layers, GlobalAverage(), Dropout(0.2))


def googlenet(in_channels: int, image_size: int) -> nn.Module:
    """GoogLeNet (Szegedy et al. 2015) for small images, as in FCCL's code.

    BatchNorm after every convolution, a 3x3 stem without stride, and a 5x5 branch made of two
    3x3 convolutions.
    """
    biased = partial(conv, bias=True)

    def inception(c_in, one, to_three, three, to_five, five, pooled):
        return Branches(
            biased(c_in, one, 1),
            nn.Sequential(biased(c_in, to_three, 1), biased(to_three, three)),
            nn.Sequential(biased(c_in, to_five, 1), biased(to_five, five), biased(five, five)),
            nn.Sequential(nn.MaxPool2d(3, 1, 1), biased(c_in, pooled, 1)),
        )

    return nn.Sequential(
        biased(in_channels, 192),
        inception(192, 64, 96, 128, 16, 32, 32),
        inception(256, 128, 128, 192, 32, 96, 64),
        nn.MaxPool2d(3, 2, 1),
        inception(480, 192, 96, 208, 16, 48, 64),
        inception(512, 160, 112, 224, 24, 64, 64),
        inception(512, 128, 128, 256, 24, 64, 64),
        inception(512, 112, 144, 288, 32, 64, 64),
        inception(528, 256, 160, 320, 32, 128, 128),
        nn.MaxPool2d(3, 2, 1),
        inception(832, 256, 160, 320, 32, 128, 128),
        inception(832, 384, 192, 384, 48, 128, 128),
        GlobalAverage(),
    )


# ---------------------------------------------------------------- plain convolutional networks


def lenet5(in_channels: int, image_size: int) -> nn.Module:
    """RepShare's LeNet5: 84 shared features in -1..1 (d' = 84)."""
    return nn.Sequential(
        nn.Conv2d(in_channels, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 120, 3, padding=1),
        nn.ReLU(),
        GlobalAverage(),
        nn.Linear(120, 84),
        nn.Tanh(),
    )


def simple_cnn(in_channels: int, image_size: int) -> nn.Module:
    """MOON's simple CNN without projection head; h is the second hidden layer."""
    side = (image_size - 12) // 4
    return nn.Sequential(
        nn.Conv2d(in_channels, 6, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * side**2, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
    )


def simple_cnn_moon(in_channels: int, image_size: int) -> nn.Module:
    """The same with MOON's projection head: h is the 256 numbers that its contrast compares."""
    return nn.Sequential(
        simple_cnn(in_channels, image_size), nn.Linear(84, 84), nn.ReLU(), nn.Linear(84, 256)
    )


def convnet_features(in_channels: int, image_size: int, *, depth: int, width: int) -> nn.Module:
    """`depth` times: 3x3 convolution, instance norm, ReLU, 2x2 average; h is all that is left."""
    layers = []
    for c_in in [in_channels] + [width] * (depth - 1):
        layers += [conv(c_in, width, bias=True, norm=instance_norm), nn.AvgPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten())


def alexnet_bn(in_channels: int, image_size: int) -> nn.Module:
    """AlexNet with BatchNorm, as in FedBN's code; h is the second hidden layer."""
    biased, pool = partial(conv, bias=True), partial(nn.MaxPool2d, 3, 2)
    hidden = [
        nn.Linear(9216, 4096),
        nn.BatchNorm1d(4096),
        nn.ReLU(),
        nn.Linear(4096, 4096),
        nn.BatchNorm1d(4096),
        nn.ReLU(),
    ]
    return nn.Sequential(
        biased(in_channels, 64, 11, 4, padding=2),
        pool(),
        biased(64, 192, 5),
        pool(),
        biased(192, 384),
        biased(384, 256),
        biased(256, 256),
        pool(),
        nn.AdaptiveAvgPool2d(6),
        nn.Flatten(),
        *hidden,
    )


# ---------------------------------------------------------------- the list


def convnet(depth: int = 3, width: int = 128) -> Architecture:
    """FedLGD's ConvNet of any depth and width: `build(convnet(depth=2, width=32), ...)`."""
    whole("depth", depth, 1, "convnet", ModelError)
    whole("width", width, 1, "convnet", ModelError)
    features = partial(convnet_features, depth=depth, width=width)
    return Architecture(features, "FedLGD App. C.4, Table 9; norm as in its code", 2**depth)


def efficientnet_b0(drop_connect: float = 0.2) -> Architecture:
    """EfficientNet-B0; `drop_connect` is the rate that the blocks approach with depth.

    0.2 is EfficientNet's own. FCCL's code also says 0.2 but never advances its block counter,
    so every block runs at rate 0: `efficientnet_b0(drop_connect=0)` is what it trained.
    """
    features = partial(efficientnet_features, drop_connect=drop_connect)
    return Architecture(features, "FCCL Sec. 4; FCCL+ Table VI", 16, channels_last=True)


def _resnet(source: str, *blocks: int, norm=nn.BatchNorm2d, **options) -> Architecture:
    """Channels last, except with group norm and where a stem leaves small maps: slower there."""
    features = partial(resnet, blocks=blocks, norm=norm, **options)
    usual = norm is not nn.BatchNorm2d or "stem" in options
    return Architecture(features, source, 16, channels_last=not usual)


FAST = {"channels_last": True}  # as tools/bench/layouts.py measured

OURS.update(
    {
        "small_cnn": Architecture(small_cnn, "ours, quick profile", 16, **FAST),
        "small_resnet": Architecture(small_resnet, "ours, quick profile", 16, **FAST),
        "small_resnet_in": Architecture(
            partial(small_resnet, norm=instance_norm),
            "ours, small_resnet with resnet18_gn's norm",
            16,
        ),
        "small_mobile": Architecture(small_mobile, "ours, quick profile", 16, **FAST),
        "small_mixer": Architecture(small_mixer, "ours, quick profile", 8, multiple=4, **FAST),
        "plain_cnn": Architecture(plain_cnn, "ours, notebook 06", 4),
        "resnet10": _resnet("FCCL Sec. 4; FCCL+ Table VI", 1, 1, 1, 1),
        "resnet12": _resnet("FCCL+ Tables VI and XV", 2, 1, 1, 1),
        "resnet18": _resnet("FCCL Table 3; FCCL+ Table VI", 2, 2, 2, 2),
        "resnet34": _resnet("FCCL+ Table VI", 3, 4, 6, 3),
        "resnet50": _resnet("FedCSD Sec. V-A", 3, 4, 6, 3, block=bottleneck, widen=4),
        "resnet18_gn": _resnet("FedLGD code (not its Table 8)", 2, 2, 2, 2, norm=instance_norm),
        # Table 8 also prints some widths that do not fit each other: here ResNet18's
        "resnet18_fedlgd": _resnet("FedLGD App. C.4, Table 8", 2, 2, 2, 2, stem=(7, 2)),
        "mobilenetv2": Architecture(mobilenetv2, "FCCL Sec. 4; FCCL+ Table VI", 16, **FAST),
        "efficientnet_b0": efficientnet_b0(),
        "googlenet": Architecture(googlenet, "FCCL Sec. 4; FCCL+ Table VI", 16, **FAST),
        "lenet5": Architecture(lenet5, "RepShare Sec. 4, MNIST", 8, **FAST),
        "resnet9": Architecture(resnet9, "RepShare Sec. 4, Fashion-MNIST", 16, **FAST),
        "resnet18_repshare": Architecture(
            resnet18_repshare, "RepShare Sec. 4, CIFAR-10", 16, **FAST
        ),
        "convnet": convnet(),
        "small_convnet": Architecture(
            convnet(width=16).features, "ours, quick profile of FedLGD", 8
        ),
        "simple_cnn": Architecture(simple_cnn, "MOON code; FedCSD Sec. V-A, FEMNIST", 16, **FAST),
        "simple_cnn_moon": Architecture(
            simple_cnn_moon, "MOON code, with projection head", 16, **FAST
        ),
        "alexnet_bn": Architecture(alexnet_bn, "FedCSD Sec. V-A; FedBN code, 256x256", 63),
    }
)
MODELS.update(OURS)
