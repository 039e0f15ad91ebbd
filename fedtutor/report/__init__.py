"""What was printed and what was measured, side by side."""
