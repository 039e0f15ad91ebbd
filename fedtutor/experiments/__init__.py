"""What was run, with which settings and code, and what came out."""

from .results import RESULTS, Result, accuracies, headlines, load_result, matrices, summary

__all__ = ["RESULTS", "Result", "accuracies", "headlines", "load_result", "matrices", "summary"]
