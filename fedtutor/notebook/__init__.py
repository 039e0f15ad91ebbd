"""What a cell of a notebook calls."""

from .algorithm import algorithm
from .check import CheckError, check
from .film import film
from .frame import folded, question, say, sentence, tell, verdict_box
from .slider import slider
from .start import setting, start

__all__ = ["CheckError", "algorithm", "check", "film", "folded", "question", "say", "sentence",
           "setting", "slider", "start", "tell", "verdict_box"]  # fmt: skip
