"""The table of scenarios: one file per family, listed here."""

from . import corrupted, digits, mini, photos, skewed  # each enters its own
from .base import SCENARIOS, ClientData, Scenario, build, register

__all__ = [
    "SCENARIOS", "ClientData", "Scenario", "build", "corrupted", "digits", "mini", "photos",
    "register", "skewed",
]  # fmt: skip
