"""SGD and Adam for small networks: the bits of `torch.optim` at half its cost.

On the CPU `torch.optim` goes from tensor to tensor, and looks at many options for each; on a small
network that is a tenth of a training step. Here one call works on the list of all tensors.
`state_dict` has the format of `torch.optim`.
"""

from collections.abc import Iterable

import torch
from torch import Tensor


class Optimizer:
    """A step on all tensors whose gradient is there; those without one are left alone."""

    names: tuple[str, ...] = ()  # of what is kept per tensor, in the words of `torch.optim`

    def __init__(self, parameters: Iterable[Tensor], *, lr: float, weight_decay: float = 0.0):
        self.parameters = list(parameters)
        self.param_groups = [{"params": self.parameters, "lr": lr}]
        self.weight_decay = weight_decay
        # Tensors that have made equally many steps: their numbers, how many, what is kept.
        self._groups: list[tuple[list[int], int, list[list[Tensor]]]] = [
            (list(range(len(self.parameters))), 0, [])
        ]

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for p in self.parameters:
            p.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """One step, in place."""
        lr, after = self.param_groups[0]["lr"], []
        for numbers, count, kept in self._groups:
            grads = [self.parameters[i].grad for i in numbers]
            if any(g is None for g in grads):
                after += self._split(numbers, count, kept, grads)
            else:
                after.append((numbers, count, kept))
        for k, (numbers, count, kept) in enumerate(after):
            own = [self.parameters[i] for i in numbers]
            grads = [p.grad for p in own]
            if grads and grads[0] is not None:
                if self.weight_decay:
                    grads = torch._foreach_add(grads, own, alpha=self.weight_decay)
                after[k] = numbers, count + 1, self._move(own, grads, kept, count + 1, lr)
        self._groups = after

    def _move(self, own: list, grads: list, kept: list, count: int, lr: float) -> list:
        """Step number `count` of the tensors `own`; returns what to keep."""
        raise NotImplementedError

    def _split(self, numbers, count, kept, grads) -> list[tuple]:
        """A group in two: those with a gradient and those without."""
        parts = []
        for absent in (False, True):
            chosen = [k for k, g in enumerate(grads) if (g is None) == absent]
            if chosen:
                parts.append(([numbers[k] for k in chosen], count,
                              [[values[k] for k in chosen] for values in kept]))  # fmt: skip
        return parts

    def state_dict(self) -> dict:
        """What is kept per tensor, and the number of its steps."""
        state = {}
        for numbers, count, kept in self._groups:
            for k, i in enumerate(numbers):
                if count:
                    values = {name: part[k] for name, part in zip(self.names, kept, strict=True)}
                    state[i] = {"step": torch.tensor(float(count)), **values}
        groups = [{"lr": self.param_groups[0]["lr"], "params": list(range(len(self.parameters)))}]
        return {"state": dict(sorted(state.items())), "param_groups": groups}

    def load_state_dict(self, value: dict) -> None:
        """Go on from what `state_dict` returned, here or in `torch.optim`."""
        self.param_groups[0]["lr"] = value["param_groups"][0]["lr"]
        found: dict[int, list[int]] = {}
        for i in range(len(self.parameters)):
            # SGD of torch.optim counts no steps: whoever has a memory has made some
            state = value["state"].get(i, {})
            found.setdefault(int(state.get("step", bool(state))), []).append(i)
        self._groups = [
            (numbers, count, [[value["state"][i][name].clone() for i in numbers]
                              for name in self.names] if count else [])
            for count, numbers in found.items()
        ]  # fmt: skip


class SGD(Optimizer):
    """b <- momentum b + g, w <- w - lr b, with g the gradient plus `weight_decay` w."""

    def __init__(self, parameters, *, lr: float, momentum: float = 0.0, weight_decay: float = 0.0):
        super().__init__(parameters, lr=lr, weight_decay=weight_decay)
        self.momentum = momentum
        self.names = ("momentum_buffer",) if momentum else ()

    def _move(self, own, grads, kept, count, lr):
        if self.momentum and count == 1:
            kept = [[g.clone() for g in grads]]
        elif self.momentum:
            torch._foreach_mul_(kept[0], self.momentum)
            torch._foreach_add_(kept[0], grads)
        torch._foreach_add_(own, kept[0] if self.momentum else grads, alpha=-lr)
        return kept


class Adam(Optimizer):
    """Kingma and Ba 2015, Algorithm 1; beta 0.9 and 0.999, epsilon 1e-8."""

    names = ("exp_avg", "exp_avg_sq")
    betas, eps = (0.9, 0.999), 1e-8

    def _move(self, own, grads, kept, count, lr):
        if count == 1:
            kept = [[torch.zeros_like(p) for p in own] for _ in self.names]
        (mean, square), (beta1, beta2) = kept, self.betas
        torch._foreach_lerp_(mean, grads, 1 - beta1)
        torch._foreach_mul_(square, beta2)
        torch._foreach_addcmul_(square, grads, grads, value=1 - beta2)
        root = torch._foreach_sqrt(square)
        torch._foreach_div_(root, (1 - beta2**count) ** 0.5)
        torch._foreach_add_(root, self.eps)
        torch._foreach_addcdiv_(own, mean, root, value=-lr / (1 - beta1**count))
        return kept


def new_optimizer(client, settings) -> Optimizer:
    """The local optimizer that the settings ask for, without memory."""
    common = {"lr": settings.lr, "weight_decay": settings.weight_decay}
    if settings.optimizer == "adam":
        return Adam(client.parameters(), **common)
    return SGD(client.parameters(), momentum=settings.momentum, **common)
