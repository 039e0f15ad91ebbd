"""What a network is, and how one is made: z = classifier(features(x)).

x are images [batch, channels, size, size], h = features(x) is [batch, d], logits z are
[batch, classes]. The classifier is one linear layer in every network, so h is what the papers
call feature, representation or embedding.
"""

import copy
import re
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ..errors import FedtutorError, ModelError, choose, strict, whole
from .layers import RandomLayer, channels_last, initialize, refuse_foreign_chance


@strict(ModelError)
@dataclass(frozen=True)
class Architecture:
    """A network before it knows its data: `features(in_channels, image_size)` makes a module."""

    features: Callable[[int, int], nn.Module]
    source: str  # paper and section
    smallest: int  # image size in pixels
    multiple: int = 1  # the image size must be a multiple of this
    channels_last: bool = False  # whether a CPU is faster with this layout of the images

    def __post_init__(self):
        where = "Architecture"
        try:
            signature(self.features).bind(3, 32)
        except (TypeError, ValueError) as error:
            raise ModelError(
                f"features cannot be called with (in_channels, image_size): {error}",
                where=where,
                do="give a function that makes the module: "
                "def features(in_channels, image_size): return nn.Sequential(...)",
            ) from None
        if isinstance(self.features, nn.Module):
            raise ModelError(
                "features is a finished module",
                where=where,
                do="give a function that makes one for its images",
            )
        if not isinstance(self.source, str):
            raise ModelError(
                f"source = {self.source!r}",
                where=where,
                do="say in words where the network comes from",
            )
        whole("smallest", self.smallest, 1, where, ModelError)
        whole("multiple", self.multiple, 1, where, ModelError)


MODELS: dict[str, Architecture] = {}  # `networks.py` enters those of the suite
OURS: dict[str, Architecture] = {}  # the same again: `register` warns before it replaces one
watchers: list[Callable] = []  # each is called with (network, x) for every batch; see `counting`


class Network(nn.Module):
    """features and classifier, for images of one shape; `feature_size` is d.

    `draws` says whether it needs random numbers in training, for dropout. `channels_last` is that
    of its `Architecture`; weights have PyTorch's usual layout always.
    """

    def __init__(
        self,
        body: nn.Module,
        image_shape: tuple,
        feature_size: int,
        num_classes: int,
        *,
        channels_last: bool = False,
    ):
        super().__init__()
        self.channels_last = channels_last
        self.image_shape, self.feature_size = image_shape, feature_size
        self.body = body
        self.classifier = nn.Linear(feature_size, num_classes)
        self.draws = any(isinstance(layer, RandomLayer) for layer in body.modules())

    def features(self, x: Tensor) -> Tensor:
        """x [batch, channels, size, size] to h [batch, d]; `ModelError` for another shape."""
        if x.shape[1:] != self.image_shape:
            raise ModelError(
                f"this network takes images {list(self.image_shape)}, got a batch {list(x.shape)}",
                where="models.Network.features",
                do="build the network with the in_channels and image_size of the images",
            )
        for watch in watchers:
            watch(self, x)
        return self.body(channels_last(x) if self.channels_last and x.is_cpu else x)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x))

    def state_dict(self, *args, **kwargs):
        """As in PyTorch, as a plain dict: what crosses is plain."""
        found = super().state_dict(*args, **kwargs)
        return found if args or kwargs else dict(found)


@contextmanager
def usual_layout(network: nn.Module):
    """A block in which images keep the layout in which they come.

    For what looks at single images of a batch: `torch.func.vmap` refuses another layout, and opacus
    cuts patches wrongly out of it.
    """
    kept, network.channels_last = getattr(network, "channels_last", False), False
    try:
        yield
    finally:
        network.channels_last = kept


def build(
    network: str | Architecture,
    *,
    num_classes: int,
    in_channels: int = 3,
    image_size: int = 32,
    generator: torch.Generator,
) -> Network:
    """A network of `MODELS` in training mode, on the generator's device.

    Equal seeds give equal weights, and torch's global generator is left alone. Raises
    `ModelError` for an unknown name and for classes, channels or sizes that do not fit.
    """
    where = "models.build"
    if not isinstance(network, Architecture):
        where += f", network {network!r}"
        network = MODELS[choose(network, MODELS, kind="network", where=where, error=ModelError)]
    if not isinstance(generator, torch.Generator):
        raise ModelError(
            f"the generator is a {type(generator).__name__}",
            where=where,
            do="give a torch.Generator: weights are drawn from it",
        )
    _require("num_classes", num_classes, 2, where=where)
    _require("in_channels", in_channels, 1, where=where)
    _require("image_size", image_size, network.smallest, network.multiple, where=where)
    shape = (in_channels, image_size, image_size)
    with torch.device("meta"):  # shapes without numbers: nothing is computed, nothing is drawn
        body, feature_size = _body(network, shape, where)
        model = Network(body, shape, feature_size, num_classes, channels_last=network.channels_last)
    _with_numbers(model, generator.device).train()
    initialize(model, generator=generator)
    return model


def _with_numbers(module: nn.Module, device) -> nn.Module:
    """`module`, whose tensors are shapes on "meta", with room for numbers on `device`.

    As `to_empty`, which would first import PyTorch's compiler: a second in every process.
    """
    for layer in module.modules():
        for name, value in layer.named_parameters(recurse=False):
            room = torch.empty(value.shape, dtype=value.dtype, device=device)
            setattr(layer, name, nn.Parameter(room, requires_grad=value.requires_grad))
        for name, value in layer.named_buffers(recurse=False):
            setattr(layer, name, torch.empty(value.shape, dtype=value.dtype, device=device))
    return module


def register(name: str, network: Architecture) -> Architecture:
    """Make `network` available under `name`, as `MODELS` has those of the suite; returns it.

    It is tried on two black images, in training mode. Raises `ModelError` for one that
    cannot be built, returns anything but features [batch, d], or draws from torch's global
    generator. A network of the suite that is replaced is a warning.
    """
    where = f"network {name!r}"
    if not (isinstance(name, str) and re.fullmatch(r"[\w+-]+", name)):
        raise ModelError(
            f"{name!r} cannot be the name of a network",
            where="models.register",
            do="write letters, digits, + and -, such as 'my_cnn'",
        )
    if not isinstance(network, Architecture):
        raise ModelError(
            f"a {type(network).__name__} is no Architecture",
            where=where,
            do="wrap what makes the module: Architecture(features, source, smallest)",
        )
    size = -(-network.smallest // network.multiple) * network.multiple
    with torch.device("meta"):
        body, _ = _body(network, (3, size, size), where)
    own = torch.Generator()
    initialize(_with_numbers(body, "cpu").train(), generator=own)
    use_generator(body, own)
    with _NoGlobalChance(where):
        body(torch.zeros(2, 3, size, size))
    if name in OURS and network is not OURS[name]:
        warnings.warn(
            f"{name!r} is a network of the suite; from now on it is yours. Choose "
            "another name to have both",
            UserWarning,
            stacklevel=2,
        )
    MODELS[name] = network
    return network


class _NoGlobalChance(TorchFunctionMode):
    """Refuses every function of PyTorch that moves its global random numbers."""

    def __init__(self, where: str):
        super().__init__()
        self.where = where

    def __torch_function__(self, func, types, args=(), kwargs=None):
        before = torch.get_rng_state()
        value = func(*args, **(kwargs or {}))
        if not torch.equal(torch.get_rng_state(), before):
            torch.set_rng_state(before)
            raise ModelError(
                f"{func.__name__} draws from torch's global random numbers",
                where=self.where,
                do="take the Dropout of fedtutor.models.layers, or extend its RandomLayer",
            )
        return value


_tried: dict[tuple[Architecture, tuple], int] = {}  # d of networks that took such images before


def _body(network: Architecture, shape: tuple, where: str) -> tuple[nn.Module, int]:
    """The network's module on the meta device, and d; `ModelError` for what is no features."""
    try:
        body = network.features(shape[0], shape[-1])
        _require_new(body, where)
        if (network, shape) in _tried:
            return body, _tried[network, shape]
        with torch.device("cpu"):
            h = _with_numbers(copy.deepcopy(body), "cpu").eval()(torch.zeros(2, *shape))
    except FedtutorError:
        raise
    except Exception as error:  # of the layers inside, of any kind
        raise ModelError(
            f"it does not take a batch {[2, *shape]}: {type(error).__name__}, "
            f"{str(error).splitlines()[0] if str(error) else 'no words'}",
            where=where,
            do="try features(in_channels, image_size) on torch.zeros of this shape",
        ) from error
    if not isinstance(h, Tensor) or h.ndim != 2 or len(h) != 2:
        found = list(h.shape) if isinstance(h, Tensor) else f"a {type(h).__name__}"
        more = "; layers.GlobalAverage() or nn.Flatten() at the end makes one of a map"
        raise ModelError(
            f"for 2 images the network returns {found}, not features [2, d]",
            where=where,
            do="return one vector per image" + more * isinstance(h, Tensor),
        )
    _tried[network, shape] = h.shape[1]
    return body, h.shape[1]


def _require_new(body, where: str) -> None:
    """Raise `ModelError` for what is no module that was made just now, for one client."""
    if not isinstance(body, nn.Module):
        raise ModelError(
            f"features made a {type(body).__name__}", where=where, do="return the nn.Module itself"
        )
    for name, layer in body.named_modules():
        for key, value in vars(layer).items():
            if isinstance(value, Tensor):
                path = f"{name}.{key}".lstrip(".")
                raise ModelError(
                    f"{path} is a tensor that no device and no checkpoint would know of",
                    where=where,
                    do=f"write self.register_buffer({key!r}, ...), and fill it in draw_weights",
                )
    held = dict([*body.named_parameters(), *body.named_buffers()])
    old = [name for name, value in held.items() if not value.is_meta]
    if old:
        raise ModelError(
            f"{old[0]} was there before: all clients would share one network",
            where=where,
            do="make new layers in each call of features(in_channels, image_size)",
        )
    refuse_foreign_chance(body)


def use_generator(model: nn.Module, generator: torch.Generator | None) -> None:
    """Let dropout and drop-connect of `model` draw from `generator`; None detaches it.

    A copy of a model starts detached, so that no two models share a stream by accident.
    """
    for layer in model.modules():
        if isinstance(layer, RandomLayer):
            layer.generator = generator


def _require(name: str, value: int, least: int, multiple: int = 1, *, where: str) -> None:
    if type(value) is not int or value < least or value % multiple:
        also = f" and a multiple of {multiple}" if multiple > 1 else ""
        raise ModelError(
            f"{name} = {value!r} does not fit this network",
            where=where,
            do=f"{name} must be a whole number of at least {least}{also}",
        )
