"""The table of scenarios: one file per family, listed here."""

from . import digits, photos
from .base import SCENARIOS, ClientData, Scenario, build, register

__all__ = ["SCENARIOS", "ClientData", "Scenario", "build", "digits", "photos", "register"]
