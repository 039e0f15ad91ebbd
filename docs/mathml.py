"""Formulas as MathML, which browsers draw without a script and screen readers read aloud."""

from html import escape

from math_core import LatexError, LatexToMathML

__all__ = ["LatexError", "mathml"]
CONVERTER = LatexToMathML(fancy_error=False)


def mathml(latex: str, *, block: bool = False) -> str:
    """The `<math>` element of a formula; a displayed one stands in a box that can be scrolled."""
    drawn = CONVERTER.convert_with_local_state(latex, displaystyle=block)
    drawn = drawn.replace("<math", f'<math alttext="{escape(" ".join(latex.split()))}"', 1)
    return f'<div class="formula" tabindex="0">{drawn}</div>' if block else drawn
