"""fedtutor: federated learning under heterogeneity, to understand and to check.

What most programs need stands here; `fedtutor/README.md` says where everything else lives:

    from fedtutor import Federation, Settings, compare, methods, plots, run, scenarios
"""

from importlib import import_module

__version__ = "0.1.0"
__all__ = [
    "Federation",
    "Settings",
    "compare",
    "losses",
    "methods",
    "papers",
    "plots",
    "run",
    "scenarios",
]

_HOMES = {
    "Federation": "federation",
    "Settings": "settings",
    "compare": "comparison",
    "run": "rounds",
    "check": "processes.checking",  # called as `methods.check`
}


def __getattr__(name: str):
    """Import a name when it is asked for: a module of the core never waits for a wing."""
    if name in _HOMES:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    if name in __all__:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
