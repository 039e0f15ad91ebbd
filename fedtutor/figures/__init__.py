"""The one plotting style, and every figure that two notebooks share.

Each function returns a matplotlib `Figure`; `show` is the door by which it reaches the reader:

    figure = curves({"fedavg": shares}, title=finding("fedavg", "solo", a, b))
    show(figure, "Line chart: accuracy in percent per round ...", footer="digits-mini, quick, ...")

Accuracies come in as shares between 0 and 1 and are shown in percent. A spread is always one
sample standard deviation over seeds. The map, each file building on those above it:

    inputs.py    what the figures are given, checked
    words.py     display names, percent, bytes, and `finding`, the title computed from data
    drawing.py   palette, the look of each method, `style`, canvas, caption, axes
    heatmap.py   `matrix`, and the heat map under `accuracy_matrix`
    accuracy.py  `curves`, `bars`, `accuracy_matrix`
    costs.py     `accuracy_against_bytes`
    ranks.py     `ranks`
    images.py    `tsne_panels`, `contact_sheet`, `class_histogram`
    privacy.py   `roc`, `against_accuracy`
    output.py    `show` and `to_png`, the door out
"""

from .accuracy import ONE_SEED, accuracy_matrix, bars, curves
from .costs import accuracy_against_bytes
from .drawing import (
    BLACK,
    BLUE,
    BROWN,
    CLASS_COLORS,
    DPI,
    GRAY,
    GREEN,
    GRID,
    HALO,
    HEIGHT,
    INK,
    LABEL,
    METHOD_STYLE,
    OKABE_ITO,
    OLIVE,
    ORANGE,
    OTHER_MARKERS,
    PURPLE,
    QUIET,
    RC,
    SCREEN,
    SKY,
    VERMILION,
    WIDTH,
    Style,
    in_order,
    method_order,
    method_style,
    style,
)
from .heatmap import matrix
from .images import class_histogram, contact_sheet, embed, tsne_panels
from .output import MEASURED_TABLE, show, to_png
from .privacy import against_accuracy, roc
from .ranks import ranks
from .words import ACCURACY, DISPLAY, IN_A_SENTENCE, display_name, finding, human_bytes, percent

__all__ = [
    "ACCURACY", "BLACK", "BLUE", "BROWN", "CLASS_COLORS", "DISPLAY", "DPI", "GRAY", "GREEN",
    "GRID", "HALO", "HEIGHT", "INK", "IN_A_SENTENCE", "LABEL", "MEASURED_TABLE", "METHOD_STYLE",
    "OKABE_ITO", "OLIVE", "ONE_SEED", "ORANGE", "OTHER_MARKERS", "PURPLE", "QUIET", "RC",
    "SCREEN", "SKY", "VERMILION", "WIDTH", "Style", "accuracy_against_bytes", "accuracy_matrix",
    "against_accuracy", "bars", "class_histogram", "contact_sheet", "curves", "display_name",
    "embed", "finding", "human_bytes", "in_order", "matrix", "method_order", "method_style",
    "percent", "ranks", "roc", "show", "style", "to_png", "tsne_panels",
]  # fmt: skip
