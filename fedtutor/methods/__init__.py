"""The table of methods: one file per method, listed here."""

from . import (
    alone,
    ditto,
    ewc,
    fccl,
    fccl_plus,
    fd,
    feature_distillation,
    fedavg,
    fedavgm,
    fedbn,
    fedcsd,
    feddf,
    feddyn,
    fedgkd,
    fedlgd,
    fedmatch,
    fedmd,
    fednova,
    fedopt,
    fedper,
    fedproc,
    fedproto,
    fedprox,
    fedrep,
    fedrs,
    fml,
    kd,
    logit_distillation,
    moon,
    rcfl,
    repshare,
    rhfl,
    scaffold,
    vhl,
)
from .base import METHODS, Method, make, parameters, register


def __getattr__(name: str):
    """`methods.check` plays rounds, so it lives above this package, and the door knows where."""
    if name == "check":
        from .. import check

        return check
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), "check"]
