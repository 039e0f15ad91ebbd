"""What the papers print: tables, claims, misprints; and the rule by which a claim is judged."""

from .printed import (
    claims_of,
    columns_of,
    misprints,
    published_table,
    recomputed,
    require_table,
    tables,
)
from .verdicts import Claims, spread, verdict

__all__ = [
    "Claims",
    "claims_of",
    "columns_of",
    "misprints",
    "published_table",
    "recomputed",
    "require_table",
    "spread",
    "tables",
    "verdict",
]
