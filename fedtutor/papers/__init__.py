"""What the papers print: tables, claims, misprints; and the rule by which a claim is judged."""
