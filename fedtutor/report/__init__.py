"""What was printed and what was measured, side by side."""

from .tables import COLUMNS, EQUAL, NO_RUN, PAPER, REDUCED, beside, build

__all__ = ["COLUMNS", "EQUAL", "NO_RUN", "PAPER", "REDUCED", "beside", "build"]
