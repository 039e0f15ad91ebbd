"""What a cell of a notebook calls."""

from .check import CheckError, check
from .film import film
from .slider import slider
from .start import setting, start

__all__ = ["CheckError", "check", "film", "setting", "slider", "start"]
