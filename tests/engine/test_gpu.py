"""What only a GPU can show; without one these tests are skipped.

A GPU adds in another order than a CPU, so that results are close, not equal.
"""

import pytest
import torch
from support.every import every_method, ready
from support.federations import weights_of

from fedtutor import compare, rounds
from fedtutor.methods import METHODS

DEVICE = "cuda"
pytestmark = pytest.mark.gpu


def assert_close(a: dict, b: dict, *, atol: float = 1e-3) -> None:
    assert a.keys() == b.keys()
    for name in a:
        left, right = a[name].cpu(), b[name].cpu()
        assert torch.isfinite(left).all(), name
        assert torch.allclose(left, right, atol=atol), name


def tolerance(name: str) -> float:
    """Adam turns a difference in rounding into one of its steps, as long as the learning rate."""
    return 20 * getattr(METHODS[name](), "public_lr", 5e-5)


@every_method
def test_the_weights_of_the_cpu(name):
    """Two rounds of tiny networks, before small differences grow."""
    if name == "fedlgd":
        pytest.skip("it draws the networks of its matching on the device")
    weights = []
    for device in ("cpu", DEVICE):
        rounds.run(fed := ready(name, device=device))
        weights.append(weights_of(fed))
        assert all(value.device.type == device for value in weights[-1].values())
    assert_close(*weights, atol=tolerance(name))


@every_method
def test_a_stopped_run_goes_on(name, tmp_path):
    whole = ready(name, device=DEVICE)
    rounds.run(whole)
    first = ready(name, device=DEVICE)
    rounds.run(first, checkpoint=tmp_path, every=0, progress=lambda numbers: list(numbers)[:1])
    resumed = ready(name, device=DEVICE)
    rounds.run(resumed, checkpoint=tmp_path)
    assert_close(weights_of(whole), weights_of(resumed), atol=tolerance(name))


@every_method
def test_the_host_does_not_wait_between_the_batches_of_an_epoch(name, monkeypatch):
    """PyTorch itself raises where it would have to."""
    usual = rounds.loaded

    def watched(*args):
        for batch in usual(*args):
            torch.cuda.set_sync_debug_mode("error")
            try:
                yield batch
            finally:
                torch.cuda.set_sync_debug_mode("default")

    monkeypatch.setattr(rounds, "loaded", watched)
    rounds.run(ready(name, device=DEVICE))


def test_compare_comes_to_what_it_comes_to_on_the_cpu(tmp_path):
    few = {"scenario": "digits-mini", "rounds": 2, "seeds": [0], "eval_every": 2}
    found = [
        compare(["solo", "fedavg"], device=device, folder=tmp_path / device, **few).values("others")
        for device in ("cpu", DEVICE)
    ]
    assert (found[0] - found[1]).abs().max().max() < 5  # points; both have trained for two rounds
