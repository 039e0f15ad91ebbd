"""Who holds which images: domains, label skew, public data.

A scenario names the clients, their private images, one test set per domain and, where a method
needs them, public images. Adding one is a function under `@register("name")` that returns a
`Scenario`; its keyword arguments are the options a recipe may set. The builders are in the files
beside this one.

Which private images a client gets is drawn with a seed of its own, `split_seed`, apart from the
seed of a run: every method sees the same images in the same hands. Test images and public images do
not depend on it, but for a share of one's own images that `scenarios.of` holds out. `compare` and
recipes that do not fix it draw with the seed of the run, so that a mean over seeds is one over
draws of images, too.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from inspect import Parameter, signature
from typing import Annotated

import torch
from pydantic import Field, InstanceOf, PlainValidator

from ..channel import SERVER
from ..engine.kinds import check_fields, checked, in_short, kinds_of, warn_if_replaced
from ..errors import DataError, SettingError, choose, strict, whole
from ..images import Images


def _images(value) -> Images:
    if isinstance(value, Images):
        return value
    raise ValueError(
        "give fedtutor.images.Images; from_arrays makes them from numpy arrays, and scenarios.of "
        "makes the whole scenario, of a torch Dataset or a folder, too"
    )


Text = Annotated[str, Field(min_length=1)]
Held = Annotated[Images, PlainValidator(_images)]


@strict(DataError)
@dataclass(frozen=True, repr=False)
class ClientData:
    """What one client holds: its name, the test set that is its own domain, its private images."""

    id: Text
    domain: Text
    private: Held

    def __post_init__(self):
        check_fields(self, "ClientData", DataError)
        if self.id == SERVER:
            raise DataError(f"a client is called {SERVER!r}", where="ClientData",
                            do="give it another id: the channel has a server")  # fmt: skip

    def __repr__(self) -> str:
        return f"ClientData({self.id!r}, domain {self.domain!r}, {self.private!r})"


@strict(DataError)
@dataclass(frozen=True, eq=False, repr=False)
class Scenario:
    """Clients, test sets and public images that fit together.

    The order of `tests` is the order of the columns of the accuracy matrix; `mean` and `std` have
    one number per channel, for pixels from 0 to 1. Images are square. Raises `DataError` where the
    parts do not fit: an empty client, a label out of range, images of another size, a client
    without a test set.
    """

    name: Text
    title: Text
    num_classes: Annotated[int, Field(ge=2)]
    clients: tuple[InstanceOf[ClientData], ...]
    tests: dict[str, Held]
    public: Held | None
    mean: tuple[float, ...]
    std: tuple[float, ...]
    stand_in: bool  # whether the data stand in for others
    class_names: tuple[str, ...]

    def __post_init__(self):
        check_fields(self, "Scenario", DataError)
        ids = [client.id for client in self.clients]
        self._require(self.clients and self.tests, "no client or no test set", "give one of each")
        self._require(len(set(ids)) == len(ids), f"two clients of one name: {ids}", "rename one")
        self._require(
            len(self.class_names) == self.num_classes,
            f"{len(self.class_names)} class names for {self.num_classes} classes",
            "give one name per class",
        )
        self._require(
            len(self.mean) == len(self.std) == self.channels and min(self.std) >= 1e-4,
            f"mean {self.mean} and std {self.std} for {self.channels} channels",
            "give one mean and one std above 0 (0.0001 or more) per channel",
        )
        self._require(
            max(*self.mean, *self.std) <= 1 and min(self.mean) >= 0,
            f"mean {self.mean} and std {self.std} are not those of pixels from 0 to 1",
            "divide those of pixels from 0 to 255 by 255",
        )
        for client in self.clients:
            choose(client.domain, self.tests, kind=f"domain of client {client.id}",
                   where=f"scenario {self.name}", error=DataError)  # fmt: skip
            self._require(
                len(client.private) > 0,
                f"client {client.id} holds no image",
                "ask for fewer clients, more images or a larger minimum per client",
            )
            client.private.check_labels(self.num_classes)
        for name, test in self.tests.items():
            self._require(len(test) > 0, f"test set {name} is empty", "give it images")
            test.check_labels(self.num_classes)
        shape = list(self.shape)
        for images in self._parts():
            self._require(
                list(images.x.shape[1:]) == shape,
                f"{images.source}: images {list(images.x.shape[1:])}, others {shape}",
                "bring all images to one size and number of channels",
            )
        self._require(
            shape[1] == shape[2],
            f"the images are {shape[1]} pixels high and {shape[2]} wide",
            "make them square: bundled.pad(images, size) or bundled.resize(images, size)",
        )

    def __repr__(self) -> str:
        held = sum(len(client.private) for client in self.clients)
        shape = " x ".join(map(str, self.shape))
        return (
            f"Scenario({self.name!r}: {len(self.clients)} clients, {held} private images {shape}, "
            f"{self.num_classes} classes, {len(self.tests)} test sets, "
            f"{len(self.public) if self.public else 'no'} public images)"
        )

    def _require(self, right, what: str, do: str) -> None:
        if not right:
            raise DataError(what, where=f"scenario {self.name}", do=do)

    def _parts(self) -> list[Images]:
        public = [] if self.public is None else [self.public]
        return [*(client.private for client in self.clients), *self.tests.values(), *public]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of every image."""
        return tuple(next(iter(self.tests.values())).x.shape[1:])

    @property
    def channels(self) -> int:
        return self.shape[0]

    @property
    def image_size(self) -> int:
        """Height and width in pixels."""
        return self.shape[1]

    @cached_property
    def fingerprint(self) -> str:
        """12 hex digits over the names of all parts and the fingerprints of their images."""
        names = [f"{client.id}/{client.domain}" for client in self.clients]
        names += [*self.tests, "public"]
        lines = [f"{n}:{p.fingerprint}" for n, p in zip(names, self._parts(), strict=False)]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]

    def describe(self) -> str:
        """One line: name, clients x private images, which data they are, fingerprint."""
        sizes = sorted({len(client.private) for client in self.clients})
        held = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
        return (
            f"{self.name}: {len(self.clients)} clients x {held} · {self.title} · {self.fingerprint}"
        )

    def normalize(self, x: torch.Tensor) -> torch.Tensor:
        """(x / 255 - mean) / std per channel: uint8 [b, c, h, w] to float32 of the same shape."""
        if x.dtype != torch.uint8 or x.ndim != 4 or x.shape[1] != self.channels:
            raise DataError(
                f"cannot normalize {x.dtype} {list(x.shape)}", where=f"scenario {self.name}",
                do=f"give uint8 [batch, {self.channels}, height, width]",
            )  # fmt: skip
        mean, std = _per_channel(self.mean, x.device), _per_channel(self.std, x.device)
        return x.to(torch.float32).div_(255).sub_(mean).div_(std)

    def inputs(self, x: torch.Tensor) -> torch.Tensor:
        """What a network sees of a client's images: `normalize`, also for virtual ones.

        Those are float32 on the same scale of 0 to 255, and may lie beside it.
        """
        if x.dtype != torch.float32 or x.ndim != 4 or x.shape[1] != self.channels:
            return self.normalize(x)
        mean, std = _per_channel(self.mean, x.device), _per_channel(self.std, x.device)
        return (x / 255 - mean) / std

    def pixels(self, x: torch.Tensor) -> torch.Tensor:
        """Back from what a network sees, float32, to the scale of 0 to 255; not clamped."""
        mean, std = _per_channel(self.mean, x.device), _per_channel(self.std, x.device)
        return (x * std + mean) * 255

    def to(self, device) -> "Scenario":
        """The same scenario with all images on `device`."""
        return replace(
            self,
            clients=tuple(replace(c, private=c.private.to(device)) for c in self.clients),
            tests={name: images.to(device) for name, images in self.tests.items()},
            public=None if self.public is None else self.public.to(device),
        )


@cache
def _per_channel(values: tuple[float, ...], device: torch.device) -> torch.Tensor:
    with torch.inference_mode(False):  # cached, so it must not become an inference tensor
        return torch.tensor(values, dtype=torch.float32, device=device).view(1, -1, 1, 1)


SCENARIOS: dict[str, Callable[..., Scenario]] = {}


def register(name: str):
    """Decorator: make a function that returns a `Scenario` available under `name`.

    Raises `SettingError` for what is no function, and for an option without a default. A scenario
    of the suite that is replaced is a warning.
    """
    where = "scenarios.register"
    if not (isinstance(name, str) and name.strip()):
        raise SettingError(f"the name of a scenario is {in_short(name)}", where=where,
                           do='write @register("my-scenario") above the function')  # fmt: skip

    def enter(builder):
        try:
            options = None if isinstance(builder, type) else signature(builder).parameters
        except (TypeError, ValueError):  # no function, or one that Python knows nothing of
            options = None
        if options is None:
            raise SettingError(f"{name!r} is {in_short(builder)}", where=where,
                               do="give a function that returns a Scenario") from None  # fmt: skip
        for option in options.values():
            if option.default is Parameter.empty:
                raise SettingError(
                    f"option {option.name!r} of scenario {name!r} has no default", where=where,
                    do=f"write one, such as {option.name}=0; recipes name each option",
                )  # fmt: skip
        warn_if_replaced("scenario", name, SCENARIOS.get(name), builder)
        SCENARIOS[name] = builder
        return builder

    return enter


def options(name: str) -> dict:
    """The options of a scenario with their defaults; none where there is no such scenario."""
    known = signature(SCENARIOS[name]).parameters if name in SCENARIOS else {}
    return {option: about.default for option, about in known.items()}


def build(name: str, **options) -> Scenario:
    """The scenario called `name`.

    Raises `SettingError` for an unknown name or option, an option of the wrong type, and where the
    function behind the name returns something else.
    """
    builder = SCENARIOS[choose(name, SCENARIOS, kind="scenario", where="scenarios")]
    where = f"scenario {name}"
    if "split_seed" in options:
        whole("split_seed", options["split_seed"], 0, where)
    scenario = builder(**checked(options, kinds_of(builder), where, called="option"))
    if not isinstance(scenario, Scenario):
        raise SettingError(f"{name!r} returned {in_short(scenario)}", where=where,
                           do="return a Scenario from the registered function")  # fmt: skip
    return scenario
