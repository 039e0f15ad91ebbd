"""The local optimizers SGD, Adam and AdamW: the bits of `torch.optim` at a fraction of its cost.

`torch.optim` looks at many options for each tensor, which on a small network takes a tenth of a
training step. Here one fused kernel, that of `torch.optim.SGD(..., fused=True)`, works on all
tensors at once. These kernels are private functions of PyTorch; where a version lacks them, the
optimizers of `torch.optim` do the work. `state_dict` has the format of `torch.optim` both ways.
"""

import json
from collections.abc import Iterable
from functools import lru_cache

import torch
from torch import Tensor
from torch.optim import lr_scheduler

from ..errors import SettingError, choose

SCHEDULES = sorted(
    name
    for name, kind in vars(lr_scheduler).items()
    if isinstance(kind, type) and issubclass(kind, lr_scheduler.LRScheduler) and name[0] != "_"
)


class Optimizer:
    """A step on all tensors that have a gradient; the others stay as they are."""

    names: tuple[str, ...] = ()  # of what is kept per tensor, in the words of `torch.optim`
    kernel = ""  # the fused function in `torch`

    def __init__(self, parameters: Iterable[Tensor], *, lr: float, weight_decay: float = 0.0):
        self.parameters = list(parameters)
        self.param_groups = [{"params": self.parameters, "lr": lr}]
        self.common = {"weight_decay": weight_decay, "maximize": False}
        self.kept: dict[int, list[Tensor]] = {}  # of each tensor that has made a step

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for p in self.parameters:
            p.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """One step, in place."""
        own, grads, kept = [], [], []
        for i, p in enumerate(self.parameters):
            if p.grad is not None:
                if i not in self.kept:
                    self.kept[i] = self._begin(p)
                own.append(p)
                grads.append(_laid_out_as(p, p.grad))
                kept.append(self.kept[i])
        if own:
            columns = [list(column) for column in zip(*kept, strict=True)]
            self._move(own, grads, *columns, lr=self.param_groups[0]["lr"], **self.common)

    def _begin(self, p: Tensor) -> list[Tensor]:
        """What is kept of a tensor that has not made a step; nothing is known of it yet."""
        return [torch.zeros_like(p) for _ in self.names]

    def _move(self, own: list, grads: list, *kept: list, lr: float, **common) -> None:
        """A step of the tensors `own`; what is kept changes in place."""
        raise NotImplementedError

    def state_dict(self) -> dict:
        """What is kept per tensor."""
        state = {
            i: dict(zip(self.names, kept, strict=True))
            for i, kept in sorted(self.kept.items())
            if kept
        }
        groups = [{"lr": self.param_groups[0]["lr"], "params": list(range(len(self.parameters)))}]
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, value: dict) -> None:
        """Go on from what `state_dict` returned, here or in `torch.optim`."""
        self.param_groups[0]["lr"] = value["param_groups"][0]["lr"]
        for i, state in value["state"].items():
            values, p = [state[name].clone() for name in self.names], self.parameters[i]
            self.kept[i] = [_laid_out_as(p, v) if v.shape == p.shape else v for v in values]


def _laid_out_as(p: Tensor, value: Tensor) -> Tensor:
    """`value` in the layout of `p`: a fused kernel goes through the memory of both side by side."""
    return value if value.stride() == p.stride() else torch.empty_like(p).copy_(value)


class SGD(Optimizer):
    """b <- momentum b + g, w <- w - lr b, with g the gradient plus `weight_decay` w."""

    kernel = "_fused_sgd_"

    def __init__(self, parameters, *, lr: float, momentum: float = 0.0, weight_decay: float = 0.0):
        super().__init__(parameters, lr=lr, weight_decay=weight_decay)
        self.common |= {"momentum": momentum, "dampening": 0.0, "nesterov": False}
        self.common["is_first_step"] = False
        self.names = ("momentum_buffer",) if momentum else ()

    def _move(self, own, grads, *kept, lr, **common):
        getattr(torch, self.kernel)(own, grads, *kept or ([],), lr=lr, **common)


class Adam(Optimizer):
    """Kingma and Ba 2015, Algorithm 1; beta 0.9 and 0.999, epsilon 1e-8."""

    names = ("step", "exp_avg", "exp_avg_sq")
    kernel = "_fused_adam_"

    def __init__(self, parameters, *, lr: float, weight_decay: float = 0.0):
        super().__init__(parameters, lr=lr, weight_decay=weight_decay)
        self.common |= {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "amsgrad": False}

    def _begin(self, p):
        return [torch.zeros((), device=p.device), torch.zeros_like(p), torch.zeros_like(p)]

    def _move(self, own, grads, steps, means, squares, *, lr, **common):
        torch._foreach_add_(steps, 1)
        getattr(torch, self.kernel)(own, grads, means, squares, [], steps, lr=lr, **common)


class AdamW(Adam):
    """Loshchilov and Hutter 2019, Algorithm 2: the weights decay beside Adam's step, not in it."""

    kernel = "_fused_adamw_"


KINDS = {"sgd": SGD, "adam": Adam, "adamw": AdamW}


def new_optimizer(client, settings) -> Optimizer | torch.optim.Optimizer:
    """The local optimizer that the settings ask for, without memory."""
    kind = KINDS[settings.optimizer]
    given = {"lr": settings.lr, "weight_decay": settings.weight_decay}
    if kind is SGD:
        given["momentum"] = settings.momentum
    if not hasattr(torch, kind.kernel):
        kind = getattr(torch.optim, kind.__name__)
    return kind(client.parameters(), **given)


def learning_rates(settings) -> list[float]:
    """The learning rate of each round, from the settings `lr` and `lr_schedule`.

    `lr_schedule` names a scheduler of `torch.optim.lr_scheduler` and its arguments, such as
    {"name": "StepLR", "step_size": 10}; its steps are rounds. Raises `SettingError` for a name or
    arguments that PyTorch does not know.
    """
    return _rates(settings.lr, json.dumps(settings.lr_schedule), settings.rounds)


@lru_cache
def _rates(lr: float, schedule: str, rounds: int) -> list[float]:
    given = json.loads(schedule)
    if not given:
        return [lr]
    name = choose(given.pop("name", None), SCHEDULES, kind="name", where="setting 'lr_schedule'")
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=lr)
    rates = []
    try:
        scheduler = getattr(lr_scheduler, name)(optimizer, **given)
        for _ in range(rounds):
            rates.append(float(optimizer.param_groups[0]["lr"]))
            optimizer.step()
            scheduler.step()
    except (TypeError, ValueError, AttributeError) as error:
        raise SettingError(
            f"{name} cannot be made of {given}: {error}",
            where="setting 'lr_schedule'",
            do="give the arguments of torch.optim.lr_scheduler." + name,
        ) from None
    return rates
