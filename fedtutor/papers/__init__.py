"""What the papers print: tables, claims, misprints; and the rule by which a claim is judged."""

from .verdicts import Claims, claims_of, published_table, verdict

__all__ = ["Claims", "claims_of", "published_table", "verdict"]
