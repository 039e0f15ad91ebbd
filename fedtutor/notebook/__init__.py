"""What a cell of a notebook calls."""

from .algorithm import algorithm
from .check import CheckError, check
from .frame import folded, question, say, sentence, tell, verdict_box
from .start import setting, start

__all__ = ["CheckError", "algorithm", "check", "folded", "question", "say", "sentence",
           "setting", "start", "tell", "verdict_box"]  # fmt: skip
