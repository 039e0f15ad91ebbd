"""Executed notebooks as pages."""
