"""Networks that a client may hold, and the layers that they are made of."""

from . import networks
from .base import (
    MODELS,
    Architecture,
    Network,
    build,
    register,
    use_generator,
    usual_layout,
)

__all__ = [
    "MODELS",
    "Architecture",
    "Network",
    "build",
    "networks",
    "register",
    "use_generator",
    "usual_layout",
]
