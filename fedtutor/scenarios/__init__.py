"""The table of scenarios: one file per family, listed here."""

from . import corrupted, digits, mini, photos, skewed  # each enters its own
from .base import SCENARIOS, ClientData, Scenario, build, options, register
from .own import of

__all__ = [
    "SCENARIOS", "ClientData", "Scenario", "build", "corrupted", "digits", "mini", "of", "options",
    "photos", "register", "skewed",
]  # fmt: skip
