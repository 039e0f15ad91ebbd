"""The bricks of `networks.py`, and the two places where a network meets random numbers.

Weights are drawn once, by `initialize`. Dropout draws in every training step, from a generator
that `models.use_generator` attaches. Neither touches torch's global generator.
Images are x [batch, channels, height, width], features h [batch, d].
"""

import math

import torch
from torch import Tensor, nn

from ..errors import ModelError

# Layers whose `reset_parameters` draws nothing: it sets constants.
CONSTANT = (nn.BatchNorm1d, nn.BatchNorm2d, nn.GroupNorm, nn.LayerNorm, nn.PReLU)

# ---------------------------------------------------------------- randomness


def initialize(model: nn.Module, *, generator: torch.Generator) -> None:
    """Draw all weights anew, from the distributions that PyTorch itself uses by default.

    Linear layers and convolutions: uniform in +-1/sqrt(inputs of one output), weight then bias.
    Normalization: weight 1, bias 0, running mean 0, running variance 1. PReLU: its constant.
    A layer of one's own has a method `draw_weights(generator)` that fills its weights and buffers.
    Raises `ModelError` for a layer with weights of another kind.
    """
    for name, layer in model.named_modules():
        if hasattr(layer, "draw_weights"):
            _drawn_by_itself(name, layer, generator)
        elif isinstance(layer, (nn.Linear, nn.Conv2d)):
            nn.init.kaiming_uniform_(layer.weight, a=math.sqrt(5), generator=generator)
            if layer.bias is not None:
                bound = 1 / math.sqrt(layer.weight[0].numel())
                nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
        elif isinstance(layer, CONSTANT):
            layer.reset_parameters()
        elif [*layer.parameters(recurse=False), *layer.buffers(recurse=False)]:
            raise ModelError(
                f"no rule to draw the weights of a {type(layer).__name__}",
                where="layers.initialize",
                do=f"give class {type(layer).__name__} a method draw_weights(self, generator) that "
                "fills its weights and buffers, such as self.weight.normal_(generator=generator); "
                "or build from Linear, Conv2d, PReLU and normalization layers",
            )


@torch.no_grad()
def _drawn_by_itself(name: str, layer: nn.Module, generator: torch.Generator) -> None:
    """Let a layer fill what it holds; raise `ModelError` where it forgets something."""
    held = [*layer.named_parameters(recurse=False), *layer.named_buffers(recurse=False)]
    numbers = [(key, value) for key, value in held if value.is_floating_point()]
    for _, value in numbers:
        value.fill_(math.nan)
    layer.draw_weights(generator)
    left = [key for key, value in numbers if value.isnan().any()]
    if left:
        raise ModelError(
            f"draw_weights of {type(layer).__name__} leaves {', '.join(left)} unset",
            where=f"layer {name!r}",
            do="fill every weight and every buffer of the layer",
        )


DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout)
FOREIGN = {  # layer of PyTorch that draws from torch's global generator -> what to take instead
    (
        *DROPOUTS,
        nn.FeatureAlphaDropout,
    ): "fedtutor.models.layers.Dropout, or DropConnect for images",
    nn.RReLU: "nn.LeakyReLU, whose slope is not random",
    nn.FractionalMaxPool2d: "nn.MaxPool2d",
    nn.FractionalMaxPool3d: "nn.MaxPool3d",
    (nn.MultiheadAttention, nn.RNNBase): "dropout=0, and fedtutor.models.layers.Dropout behind it",
}


def refuse_foreign_chance(model: nn.Module) -> None:
    """Raise `ModelError` for a layer that draws from torch's global generator in training.

    Such a network would give other bits with every number of threads and after every resume.
    """
    for name, layer in model.named_modules():
        for kind, instead in FOREIGN.items():
            silent = getattr(layer, "p", getattr(layer, "dropout", 1)) == 0
            if isinstance(layer, kind) and not silent:
                raise ModelError(
                    f"{type(layer).__name__} draws from torch's global random numbers",
                    where=f"layer {name!r} of the network",
                    do=f"take {instead}",
                )


class RandomLayer(nn.Module):
    """Switches numbers off with probability `p` in training; does nothing in evaluation.

    What stays is divided by 1 - p, so that the mean is kept. Raises `ModelError` in training
    without a generator on the images' device.
    """

    def __init__(self, p: float):
        super().__init__()
        number = isinstance(p, int | float) and not isinstance(p, bool)
        if not (number and 0 <= p < 1):
            raise ModelError(
                f"p = {p!r}", where=type(self).__name__, do="give a probability from 0, below 1"
            )
        self.p, self.generator = p, None

    def __getstate__(self):  # a copy of a network has no generator until it gets one
        return {**self.__dict__, "generator": None}

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        if self.generator is None or self.generator.device.type != x.device.type:
            raise ModelError(
                f"{type(self).__name__} has no generator on {x.device.type} to draw from",
                where="a network in training mode",
                do="call models.use_generator(model, generator), or model.eval()",
            )
        drawn = torch.rand(self.shape(x), generator=self.generator, device=x.device)
        return x * ((drawn >= self.p) / (1 - self.p)).to(x.dtype)


class Dropout(RandomLayer):
    """Drops single numbers (Srivastava et al. 2014)."""

    def shape(self, x: Tensor) -> torch.Size:
        return x.shape


class DropConnect(RandomLayer):
    """Drops whole images of the batch from one branch of a block (Huang et al. 2016)."""

    def shape(self, x: Tensor) -> tuple[int, ...]:
        return (len(x), 1, 1, 1)


# ---------------------------------------------------------------- wiring


class Sum(nn.Module):
    """main(x) + skip(x): the residual connection."""

    def __init__(self, main: nn.Module, skip: nn.Module):
        super().__init__()
        self.main, self.skip = main, skip

    def forward(self, x: Tensor) -> Tensor:
        return self.main(x) + self.skip(x)


class Branches(nn.Module):
    """The outputs of several branches, side by side as channels."""

    def __init__(self, *branches: nn.Module):
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], dim=1)


class Unused(nn.Module):
    """Weights that official code owns and never calls: counted and sent, but frozen."""

    def __init__(self, layer: nn.Module):
        super().__init__()
        self.layer = layer.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return x


def channels_last(x: Tensor) -> Tensor:
    """The same images with the channels of a pixel side by side in memory."""
    if x.shape[1] == 1:  # said by the strides, or PyTorch takes it for the usual layout
        return x.reshape(len(x), *x.shape[2:], 1).permute(0, 3, 1, 2)
    return x.contiguous(memory_format=torch.channels_last)


class GlobalAverage(nn.Module):
    """Mean over all positions: [batch, channels, height, width] to [batch, channels]."""

    def forward(self, x: Tensor) -> Tensor:
        if x.is_contiguous():
            return x.mean((2, 3))
        # Channels last: so its gradient has that layout, too, and the ReLU before it need not mix
        return x.permute(0, 2, 3, 1).flatten(1, 2).mean(1)


# ---------------------------------------------------------------- convolutions


def conv(
    c_in: int,
    c_out: int,
    kernel: int = 3,
    stride: int = 1,
    *,
    padding: int | None = None,
    groups: int = 1,
    bias: bool = False,
    norm=nn.BatchNorm2d,
    activation=nn.ReLU,
):
    """Convolution, normalization, activation; without `padding`, stride 1 keeps the size."""
    padding = kernel // 2 if padding is None else padding
    return nn.Sequential(
        nn.Conv2d(c_in, c_out, kernel, stride, padding, groups=groups, bias=bias),
        norm(c_out),
        activation(),
    )


def shortcut(c_in: int, c_out: int, stride: int, norm=nn.BatchNorm2d) -> nn.Module:
    """The skip branch: nothing, or a 1x1 convolution where the shape changes."""
    if stride == 1 and c_in == c_out:
        return nn.Identity()
    return conv(c_in, c_out, 1, stride, norm=norm, activation=nn.Identity)


def instance_norm(channels: int) -> nn.Module:
    """FedLGD's norm: group norm with one channel per group; no running statistics."""
    return nn.GroupNorm(channels, channels)


# ---------------------------------------------------------------- residual blocks


def basic_block(c_in: int, c_out: int, stride: int, norm=nn.BatchNorm2d) -> nn.Module:
    """ReLU(main + skip), two 3x3 convolutions (He et al. 2016)."""
    second = conv(c_out, c_out, norm=norm, activation=nn.Identity)
    main = nn.Sequential(conv(c_in, c_out, 3, stride, norm=norm), second)
    return nn.Sequential(Sum(main, shortcut(c_in, c_out, stride, norm)), nn.ReLU())


def bottleneck(c_in: int, c_out: int, stride: int, norm=nn.BatchNorm2d) -> nn.Module:
    """ReLU(main + skip), 1x1 to a quarter of the channels, 3x3, 1x1 back."""
    third = conv(c_out // 4, c_out, 1, norm=norm, activation=nn.Identity)
    main = nn.Sequential(
        conv(c_in, c_out // 4, 1, norm=norm),
        conv(c_out // 4, c_out // 4, 3, stride, norm=norm),
        third,
    )
    return nn.Sequential(Sum(main, shortcut(c_in, c_out, stride, norm)), nn.ReLU())


def repshare_block(c_in: int, c_out: int, stride: int, norm=nn.BatchNorm2d) -> nn.Module:
    """ReLU(main) + skip: RepShare's code adds after the second ReLU, not before."""
    main = nn.Sequential(conv(c_in, c_out, 3, stride, norm=norm), conv(c_out, c_out, norm=norm))
    return Sum(main, shortcut(c_in, c_out, stride, norm))


# ---------------------------------------------------------------- attention, patches


class SqueezeExcite(nn.Module):
    """Scales each channel by a number in 0..1 that the whole image decides (Hu et al. 2018)."""

    def __init__(self, channels: int, squeezed: int):
        super().__init__()
        self.squeeze = nn.Conv2d(channels, squeezed, 1)
        self.excite = nn.Conv2d(squeezed, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = nn.functional.silu(self.squeeze(x.mean((2, 3), keepdim=True)))
        return x * self.excite(h).sigmoid()


class Patches(nn.Module):
    """Cuts images into patches and maps each to `width` numbers: [batch, patches, width]."""

    def __init__(self, in_channels: int, width: int, patch: int):
        super().__init__()
        self.project = nn.Conv2d(in_channels, width, patch, patch)

    def forward(self, x: Tensor) -> Tensor:
        return self.project(x).permute(0, 2, 3, 1).flatten(1, 2)


class MixerLayer(nn.Module):
    """Mixes patches, then the numbers of each patch (Tolstikhin et al. 2021, Eq. 1)."""

    def __init__(self, patches: int, width: int):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.across = nn.Sequential(nn.Linear(patches, 32), nn.ReLU(), nn.Linear(32, patches))
        self.within = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, width))

    def forward(self, h: Tensor) -> Tensor:
        h = h + self.across(self.norms[0](h).transpose(1, 2)).transpose(1, 2)
        return h + self.within(self.norms[1](h))
