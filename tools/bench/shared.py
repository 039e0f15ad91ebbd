"""The floor that several threads share: the same passes, and as little Python as can be.

Each thread has one network whose weights and gradients are views into two vectors, with convolution
kernels in the layout of the images. A step is forward, backward, one fused update of one tensor,
and one `zero_()`. The clients' batches are ready beforehand; the longest client comes first. There
is no server, no message, no hook: what a federation takes beyond this is its own.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import torch

from fedtutor.engine.batches import cut
from fedtutor.engine.optimizers import new_optimizer
from fedtutor.losses import cross_entropy


def shared(work, device: str, threads: int) -> Callable:
    """A round of it, as a function; its `steps` says how many it makes."""
    fed = work.federation(device=device)
    settings, jobs = fed.settings, []
    for client in fed.clients:
        images, labels = client.data.x, client.data.y
        parts = cut(torch.arange(len(labels), device=device), settings.batch_size)
        ready = [(fed.scenario.normalize(images[i]), labels[i]) for i in parts]
        jobs.append(ready * settings.local_epochs)
    jobs.sort(key=len)
    networks = [fed.make().train() for _ in range(threads)]
    stations = [(network, *flat(network, settings)) for network in networks]

    def train(network, optimizer, gradients, waiting):
        torch.set_num_threads(1)
        while waiting:
            try:
                job = waiting.pop()  # the longest that is left
            except IndexError:  # another thread took it
                return
            for x, y in job:
                cross_entropy(network(x), y).backward()
                optimizer.step()
                gradients.zero_()

    def a_round():
        waiting = [*jobs]
        with ThreadPoolExecutor(threads) as pool:
            for done in [pool.submit(train, *station, waiting) for station in stations]:
                done.result()

    a_round.steps, a_round.networks = sum(map(len, jobs)), networks
    return a_round


def flat(network, settings) -> tuple:
    """(an optimizer of all weights as one vector, their gradients as another)."""
    own = list(network.parameters())
    weights, gradients = (torch.zeros(sum(p.numel() for p in own)) for _ in range(2))
    begin = 0
    for p in own:
        view, grad = (_view(v, begin, p, network.channels_last) for v in (weights, gradients))
        view.copy_(p.detach())
        p.data, p.grad = view, grad
        begin += p.numel()
    weights.grad = gradients
    return new_optimizer(SimpleNamespace(parameters=lambda: [weights]), settings), gradients


def _view(vector: torch.Tensor, begin: int, p: torch.Tensor, channels_last: bool) -> torch.Tensor:
    """The part of `vector` from `begin` on, in the shape of `p`."""
    part = vector[begin : begin + p.numel()]
    if channels_last and p.ndim == 4:
        rows, channels, height, width = p.shape
        return part.view(rows, height, width, channels).permute(0, 3, 1, 2)
    return part.view(p.shape)
