"""What a cell of a notebook calls."""

from .check import CheckError, check
from .slider import slider
from .start import setting, start

__all__ = ["CheckError", "check", "setting", "slider", "start"]
