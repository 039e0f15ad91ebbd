"""What the papers print: claims, tables, misprints; and the rule by which a claim is judged."""

from .ledger import claims
from .printed import claims_of, columns_of, misprints, published_table, recomputed, tables
from .verdicts import Claims, direction, spread, weakest

__all__ = [
    "Claims",
    "claims",
    "claims_of",
    "columns_of",
    "direction",
    "misprints",
    "published_table",
    "recomputed",
    "spread",
    "tables",
    "weakest",
]
