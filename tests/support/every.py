"""Every method of the table on a federation so small that its tests take no time.

Where a method's defaults ask for more than three clients with a handful of tiny images have, it
says here what it plays with.
"""

import pytest
from support.federations import assert_same_bits, federation, tiny_scenario, weights_of

from fedtutor.methods import METHODS, Method, make

PARAMETERS = {
    "fccl": {"pretrain_epochs": 1},
    "fedlgd": {"local_steps": 2, "global_steps": 2, "global_ipc": 2, "every": 2},
    "fml": {"meme": "linear"},
    "repshare": {"lambda_kd": 0.1, "lambda_disc": 0.1},
}
SETTINGS = {"fedlgd": {"virtual_ipc": 2, "virtual_steps": 2}}
LGD = {"every": 2, "selected": 2, "local_steps": 3, "global_steps": 3, "global_ipc": 2}
ON = {"virtual_ipc": 2, "virtual_steps": 3}  # virtual images
CROWDED = {"momentum": 0.9, "participation": 0.7, "rounds": 3}
NAMES = sorted(METHODS)
every_method = pytest.mark.parametrize("name", NAMES)


def small(name: str, **parameters) -> Method:
    return make(name, **{**PARAMETERS.get(name, {}), **parameters})


def ready(name: str, *, method: Method | None = None, **changes):
    """A federation of three clients and two rounds, not yet played."""
    options = {"models": ["hidden"], "rounds": 2, **SETTINGS.get(name, {}), **changes}
    return federation(method or small(name), **options)


def crowded(name: str, threads: int = 1, method: Method | None = None, **changes):
    """Four clients of which some sit out, three rounds, momentum."""
    options = {"scenario": tiny_scenario(clients=4), **CROWDED, **changes}
    return ready(name, method=method, threads=threads, **options)


def same(a, b) -> None:
    """Weights, buffers and history of two runs, but for the seconds."""
    assert_same_bits(weights_of(a), weights_of(b))
    assert {**a.history, "seconds": 0} == {**b.history, "seconds": 0}
