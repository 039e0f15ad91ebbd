"""Two ideas for the GPU, measured beside the round loop before any of them goes into it.

`rounds.py` beside this file plays both wherever there is a GPU. The rule: what is not at least
1.5 times faster than several runs at once stays out of `fedtutor.rounds`.

- streams: the round loop with a CUDA stream per client (PyTorch has 32, and hands them out in
  turn). Clients overlap only with several threads: each waits for its losses once per epoch.
- captured: FedAvg by hand. One working network, whose step is captured once per size of a batch
  as a CUDA graph; a client's weights are copied into it, and out again.

On a CPU the captured step is called instead of replayed, so that a test can compare its bits.
"""

from collections.abc import Callable

import torch

from fedtutor import rounds
from fedtutor.engine.optimizers import new_optimizer
from fedtutor.losses import cross_entropy
from fedtutor.methods.fedavg import average

WARM = 3  # steps on a stream of their own before a step is captured, as PyTorch asks for


def playing(fed) -> Callable:
    """A function that plays the next round of `fed`, which is started here."""
    fed.method.start(fed)

    def play():
        with fed.workers():
            rounds.run_round(fed, fed.round_ + 1)

    play.fed = fed
    return play


def streams(work, device: str, threads: int, seed: int = 0) -> Callable:
    """One round of ours, every client on its own stream, `threads` of them at once.

    A client's tensors never leave its stream: between rounds the main stream waits for all of
    them, and at the start of its turn each waits for the main stream. So memory that one of them
    frees is not used again too early.
    """
    fed = work.federation(device=device, threads=threads, seed=seed)
    own = {client.id: torch.cuda.Stream() for client in fed.clients}

    def each(clients, fn):
        main = torch.cuda.current_stream()

        def on_its_stream(client):
            own[client.id].wait_stream(main)
            with torch.cuda.stream(own[client.id]):
                return fn(client)

        found = fed.pool.map(on_its_stream, clients, [len(c.data) for c in clients])
        for client in clients:
            main.wait_stream(own[client.id])
        return found

    fed.each = each
    return playing(fed)


class Step:
    """One training step on tensors that keep their place: weights, optimizer's memory, a batch."""

    def __init__(self, network, settings, shape, device):
        self.network = network.train()
        self.optimizer = new_optimizer(network, settings)
        self.x = torch.empty((settings.batch_size + 1, *shape), device=device)
        self.y = torch.empty(settings.batch_size + 1, dtype=torch.int64, device=device)
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}

    def begin(self, state: dict) -> None:
        """Weights of a client, an optimizer without memory."""
        self.network.load_state_dict(state)
        for kept in self.optimizer.kept.values():
            for value in kept:
                value.zero_()  # as if no step had been made

    def __call__(self, x, y) -> None:
        self.x[: len(y)].copy_(x)
        self.y[: len(y)].copy_(y)
        if self.x.is_cuda:
            self.graphs[len(y)].replay()
        else:
            self.move(len(y))

    def capture(self, size: int) -> None:
        """Record the step for batches of `size`; it spoils the weights."""
        if size in self.graphs or not self.x.is_cuda:
            return
        self.y.zero_()
        self.x.zero_()
        apart = torch.cuda.Stream()
        apart.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(apart):
            for _ in range(WARM):
                self.move(size)
        torch.cuda.current_stream().wait_stream(apart)
        self.graphs[size] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graphs[size]):
            self.move(size)

    def move(self, size: int) -> None:
        weights = [p for p in self.optimizer.parameters if p.requires_grad]
        loss = cross_entropy(self.network(self.x[:size]), self.y[:size])
        for p, grad in zip(weights, torch.autograd.grad(loss, weights), strict=True):
            p.grad = grad
        self.optimizer.step()
        self.optimizer.zero_grad()


def captured(work, device: str, threads: int, seed: int = 0) -> Callable:
    """One round of FedAvg with the same batches and, on the CPU, the bits of ours; one thread."""
    fed = work.federation(device=device, seed=seed)
    fed.method.start(fed)
    data = fed.scenario.clients[0].private.x
    step = Step(fed.make(), fed.settings, data.shape[1:], fed.device)

    def play():
        with fed.workers():
            round_(fed, step)

    play.fed = fed
    return play


def round_(fed, step: Step) -> None:
    fed.begin_round(fed.round_ + 1)
    sent, uploads = fed.server.model.state_dict(), []
    for client in fed.clients:
        epochs = [
            list(rounds.loaded(fed, client.data, client.generator("batches")))
            for _ in range(fed.settings.local_epochs)
        ]
        for size in {len(y) for batches in epochs for _, _, y in batches}:
            step.capture(size)
        step.begin(sent)
        for batches in epochs:
            for _, x, y in batches:
                step(x, y)
        uploads.append({name: value.clone() for name, value in step.network.state_dict().items()})
    fed.server.model.load_state_dict(average(uploads, [len(c.data) for c in fed.clients]))
