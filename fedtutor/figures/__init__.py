"""The one plotting style, and every figure that two notebooks share.

Each function returns a matplotlib `Figure`; `show` is the door by which it reaches the reader:

    figure = curves({"fedavg": shares}, title=finding("fedavg", "solo", a, b))
    show(figure, "Line chart: accuracy in percent per round ...", footer="digits-mini, quick, ...")

Accuracies come in as shares between 0 and 1 and are shown in percent. A spread is always one
sample standard deviation over seeds. Each file builds on those above it in this list: inputs.py
(what the figures are given, checked), words.py, drawing.py (style, canvas, axes), the figures,
output.py (the door out).
"""
# ruff: noqa: F401  (it only re-exports)

from .accuracy import accuracy_matrix, bars, curves
from .costs import accuracy_against_bytes
from .drawing import DPI, LABEL, METHOD_STYLE, WIDTH, in_order, method_order, method_style, style
from .exchange import who_sends_what
from .heatmap import matrix
from .images import class_histogram, contact_sheet, embed, tsne_panels
from .output import MEASURED_TABLE, show, to_png
from .paired import paired
from .privacy import against_accuracy, roc
from .ranks import ranks
from .tiles import tiles
from .words import ACCURACY, DISPLAY, display_name, finding, human_bytes, percent
