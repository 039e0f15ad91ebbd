"""What was printed and what was measured, side by side."""

from .beside import beside, sides
from .tables import COLUMNS, EQUAL, NO_RUN, ONE, PAPER, REDUCED, build, compared

__all__ = ["COLUMNS", "EQUAL", "NO_RUN", "ONE", "PAPER", "REDUCED", "beside", "build",
           "compared", "sides"]  # fmt: skip
