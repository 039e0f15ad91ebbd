r"""LaTeX to MathML, which browsers draw without a script and screen readers read aloud.

`latex2mathml` does most of the work. Mended here, because browsers draw only MathML Core:

- words it does not know (`\arg\min`, `\bm`, `aligned`, `\tag`) are put in words that it knows;
- limits of `\max`, `\min` and their kind stand below the word in a displayed equation;
- names of functions are set off from what they apply to, names in `\mathrm` are one word;
- bold, script and double-struck letters are letters of their own, cells of a table know their side;
- tildes, brackets and norms are operators; signs, bars and scripts have the space TeX gives them.
"""

import html
import re
import unicodedata
from itertools import pairwise
from xml.etree.ElementTree import Element, tostring

from latex2mathml.converter import Converter

REWRITES = [
    (r"\\operatorname\*?\{\s*arg\s*(?:\\[,;: ]|~)?\s*(max|min)\s*\}", r"\\arg\1 "),
    (r"\\arg\s*(?:\\[,;: ])?\s*\\(max|min)(?![A-Za-z])", r"\\arg\1 "),
    (r"\\bm(?![A-Za-z])", r"\\boldsymbol"),
    (r"\\(begin|end)\{(?:aligned|gathered)\}", r"\\\1{split}"),
    (r"\\tag\{([^{}]*)\}", r"\\qquad\\text{(\1)}"),
]
LIMITS = {"max", "min", "sup", "inf", "lim", "lim sup", "lim inf", "arg max", "arg min", "argmax",
          "argmin", "Pr", *"⋃⋂⨁⨂"}  # fmt: skip
OPERATORS = {"~": "∼", "\u29f5": "∖"} | {sign: sign for sign in "⟨⟩⌊⌋⌈⌉‖:∖∼′″‴"}
SCRIPTED = {"msub": 2, "msup": 2, "msubsup": 3, "munder": 2, "munderover": 3}
ARITY = SCRIPTED | {"mfrac": 2, "mroot": 2, "mover": 2}
LETTERS = {"bold", "bold-italic", "double-struck", "script", "fraktur", "sans-serif", "monospace"}
APART = ("mo", "mspace", "mtext")  # needs no space beside a function
FLUSH = {"lspace": "0", "rspace": "0"}


def mathml(latex: str, *, block: bool = False) -> str:
    """The `<math>` element of `latex`, or its source as `<code>` where that cannot be converted.

    block: a displayed equation; it may be scrolled where the screen is too narrow for it.
    """
    source, known = " ".join(latex.split()), latex
    for pattern, replacement in REWRITES:
        known = re.sub(pattern, replacement, known)
    try:
        math = Converter(display="block" if block else "inline").convert_to_element(known)
        for element in math.iter():
            element.text = re.sub("[\u2006\u2009]", " ", html.unescape(element.text or ""))
        _mend(math)
    except Exception:  # a parser's many ways to say that it cannot read this
        math = None
    if math is None or not _sound(math):
        shown = f'<code class="latex">{html.escape(source)}</code>'
    else:
        math.attrib = ({"display": "block"} if block else {}) | {"alttext": source}
        shown = tostring(math, encoding="unicode", short_empty_elements=False)
    return f'<span class="equation">{shown}</span>' if block else shown


def _sound(math: Element) -> bool:
    """Whether every element has its parts and no command was left as it stood."""
    return all(
        len(e) == ARITY.get(e.tag, len(e)) and not re.match(r"\\[A-Za-z]", e.text or "")
        for e in math.iter()
    )


def _mend(element: Element) -> None:
    for child in element:
        _mend(child)
    if element.tag in ("mi", "mo") and element.text in OPERATORS:
        element.tag, element.text = "mo", OPERATORS[element.text]
    if element.tag == "mo" and element.text in LIMITS:
        element.attrib = {"movablelimits": "true"}
        if element.text[0].isalpha():
            element.attrib |= FLUSH  # the space comes from _spaced
    elif element.tag == "mo" and len(element.text) > 1:
        element.tag, element.attrib = "mi", {}  # \operatorname
    elif element.tag == "mo" and element.text in ("|", "‖", "/"):
        element.attrib |= FLUSH
    elif element.tag == "mspace" and element.get("width") == "negativethinmathspace":
        element.set("width", "-0.167em")
    elif element.tag == "mtd":
        element.set("class", element.attrib.pop("columnalign", "center"))
    elif element.tag == "mtable":
        element.attrib = {k: v for k, v in element.attrib.items() if k == "displaystyle"} | (
            {"class": "aligned"} if "columnspacing" in element.attrib else {}
        )
    elif element.tag in ("msub", "msubsup") and "".join(element[0].itertext()) in LIMITS:
        element.tag = "munder" if element.tag == "msub" else "munderover"
    if element.tag in SCRIPTED:
        for script in list(element)[1:]:
            for operator in script.iter("mo"):
                operator.attrib |= FLUSH
    _letters(element)
    if element.tag in ("mrow", "math", "mtd", "mstyle", "msqrt"):
        _merge(element)
        _spaced(element)


def _letters(element: Element) -> None:
    """Letters of their own for bold, script and so on; MathML Core has no attribute for them."""
    variant = element.attrib.get("mathvariant")
    if variant in LETTERS and element.tag in ("mi", "mn"):
        element.text = "".join(
            _letter(c, variant.replace("-i", " i").upper()) for c in element.text
        )
    elif element.tag == "mtext" and variant in ("bold", "italic", "bold-italic"):
        element.set("class", variant)
    if variant != "normal":
        element.attrib.pop("mathvariant", None)


def _letter(character: str, style: str) -> str:
    """The character named like `MATHEMATICAL BOLD CAPITAL A`; a few are older, such as ℒ and ℝ."""
    name = re.sub("LATIN |GREEK | LETTER", "", unicodedata.name(character, ""))
    if character.isdigit():
        style = style.replace(" ITALIC", "")
    for start in ("MATHEMATICAL ", ""):
        try:
            return unicodedata.lookup(f"{start}{style} {name}")
        except KeyError:
            pass
    return character


def _merge(row: Element) -> None:
    r"""One word, not letters, for what stands in `\mathrm`."""
    word = None
    for child in list(row):
        upright = child.tag == "mi" and child.get("mathvariant") == "normal"
        if upright and word is not None:
            word.text += child.text
            word.attrib.pop("mathvariant", None)
            row.remove(child)
        else:
            word = child if upright else None


def _spaced(row: Element) -> None:
    """A thin space between the name of a function and what is no operator or bracket.

    A sign that follows a bracket, a comma or a relation belongs to what comes after it.
    """
    for before, child in pairwise(list(row)):
        follows = before.tag == "mo" and not re.match(r"[])}|‖!′⟩⌋⌉]", before.text or "")
        if child.tag == "mo" and child.text in ("−", "+", "±") and follows:
            child.set("form", "prefix")
        pairs = ((before, child), (child, before))
        if any(_is_function(one) and other.tag not in APART for one, other in pairs):
            row.insert(list(row).index(child), Element("mspace", width="0.167em"))


def _is_function(element: Element) -> bool:
    while element.tag in SCRIPTED and len(element):
        element = element[0]
    text = element.text or ""
    return element.tag in ("mi", "mo") and len(text) > 1 and text[0].isalpha()
