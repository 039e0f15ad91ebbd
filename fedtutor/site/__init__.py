"""Executed notebooks as pages, and the reference of the package beside them."""
