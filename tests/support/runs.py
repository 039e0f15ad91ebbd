"""Runs that stop, and what may not be read while they play."""

from dataclasses import replace

import pytest
import torch
from support.federations import assert_same_bits, federation, images, played, weights_of
from torch.utils._python_dispatch import TorchDispatchMode

from fedtutor.federation import Federation
from fedtutor.images import Images
from fedtutor.rounds import run
from fedtutor.scenarios.base import ClientData, Scenario


class NoGlobalRandomness(TorchDispatchMode):
    """Raises for any random operation that is not given a generator."""

    RANDOM = ("rand", "normal", "uniform", "bernoulli", "dropout", "multinomial", "exponential")

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name, kwargs = str(function), kwargs or {}
        everything = [*args, *kwargs.values()]
        given = any(isinstance(a, torch.Generator) for a in everything) or any(
            isinstance(a, torch.Tensor) and a.is_meta
            for a in everything  # draws nothing
        )
        if any(word in name for word in self.RANDOM) and not given:
            raise AssertionError(f"{name} read the global generator")
        return function(*args, **kwargs)


def sized(scenario: Scenario, size: int) -> Scenario:
    return replace(
        scenario, public=None, tests={n: images(6, seed=9, size=size) for n in scenario.tests},
        clients=tuple(ClientData(c.id, c.domain, images(8, seed=1, size=size))
                      for c in scenario.clients),
    )  # fmt: skip


MIXED = {"models": ["linear", "noisy", "linear"], "optimizer": "adam", "lr": 0.01}


def plain(fed) -> dict:
    """The history without what differs from run to run."""
    return {**fed.history, "seconds": 0}


class Stop(Exception):
    pass


def resumed(method: str, folder, stopped: int, **options) -> tuple[Federation, Federation]:
    """A run without a stop, and one that went on after `stopped` rounds; they are equal."""
    whole = played(method, **options)
    with pytest.raises(Stop):
        run(federation(method, **options), checkpoint=folder, every=0,
            progress=stop_after(stopped))  # fmt: skip
    fed = federation(method, **options)
    run(fed, checkpoint=folder, every=0)
    assert_same_bits(weights_of(whole), weights_of(fed))
    assert plain(whole) == plain(fed)
    return whole, fed


def stop_after(count: int, error: type[BaseException] = Stop):
    """A `progress` that raises `error` after so many rounds, but not after the last."""

    def progress(rounds):
        for number, round_ in enumerate(rounds):
            if number == count:
                raise error
            yield round_

    return progress


def colored(scenario: Scenario, size: int = 32) -> Scenario:
    def grow(part: Images, count: int) -> Images:
        factor = size // part.x.shape[-1]
        x = part.x[:count].repeat_interleave(factor, 2).repeat_interleave(factor, 3)
        return Images(x.repeat(1, 3, 1, 1), part.y[:count], source=part.source)

    return replace(
        scenario, public=grow(scenario.public, 8), mean=(0.5,) * 3, std=(0.25,) * 3,
        clients=tuple(replace(c, private=grow(c.private, 8)) for c in scenario.clients),
        tests={name: grow(part, 2) for name, part in scenario.tests.items()},
    )  # fmt: skip
