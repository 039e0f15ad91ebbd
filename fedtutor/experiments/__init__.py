"""What was run, with which settings and code, and what came out."""
