"""What was printed and what was measured, side by side."""

from .beside import beside, sides
from .tables import AGREES, COLUMNS, NO_RUN, ONE, PAPER, REDUCED, build

__all__ = ["AGREES", "COLUMNS", "NO_RUN", "ONE", "PAPER", "REDUCED", "beside", "build", "sides"]
