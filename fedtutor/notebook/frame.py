"""The words of a lesson that a cell prints: sentences with numbers, the verdict box, questions.

    say(gain, above="FCCL+ gains {value} points over FCCL on real digits.",
              below="FCCL+ loses {value} points against FCCL on real digits.",
              unclear="On real digits, FCCL+ and FCCL differ by less than their spread.")

What a sentence says follows from the values, so it cannot be out of date; a value for which nobody
wrote a wording stops the cell. Everything is shown as Markdown or HTML without a script, with a
text/plain beside it for readers without either.
"""

import html
import re
from collections.abc import Mapping, Sequence
from numbers import Real
from statistics import fmean
from string import Formatter

from ..errors import SettingError, choose
from ..papers import direction, spread
from ..papers.cards import scoped_table

# For nbval's --nbval-sanitize-with: a sentence of live numbers may differ on another processor.
PRINTED_HERE = r'<div class="printed">[\s\S]*?</div>'
PLAIN = "Printed from this run: "

VERDICT_BOX = """\
> **How a claim is judged.** A claim becomes one number per seed: the two things that it compares,
> subtracted seed by seed. We show their mean and, in brackets, its 95 % interval.
>
> - It is *ahead* if the whole interval lies on the side of zero that the claim expects, and
>   *behind* if it lies on the other side. Where it also lies within a point of zero, we add how
>   little it is.
> - Otherwise we ask whether the difference is too small to matter. It makes *no difference that
>   matters* if two one-sided tests (the 90 % interval) keep it within one point.
> - Otherwise it is *too close to call*: these seeds cannot say, and more of them might.
> - There is *no verdict* where our setting could not have shown the effect. The reason is given.
> - *Holds* and *does not hold* are for exact facts, such as a count of bytes. *Not testable here*
>   names the data set that is absent.
>
> A method is ahead of *all* rivals only if it is ahead of each, so the closest one decides. It is
> behind *some* if one comparison says so after a correction (Holm's) for looking at several. What
> we find, we find *here*: the card says with which images and settings.
"""


def say(values: Sequence[float], *, above: str | None, below: str | None,
        unclear: str | None = None, digits: int | None = None, recorded: bool = False,
        **numbers) -> None:  # fmt: skip
    """Show one sentence from measured values, as Markdown; see `sentence`.

    `recorded` says that the values come from committed results, so that the validation of the
    notebooks compares every digit; a sentence of live values may differ on another processor.
    """
    text = sentence(values, above=above, below=below, unclear=unclear, digits=digits, **numbers)
    tell(text, recorded=recorded)


def sentence(values: Sequence[float], *, above: str | None, below: str | None,
             unclear: str | None = None, digits: int | None = None, **numbers) -> str:  # fmt: skip
    """The wording that fits the values, one per seed, with its numbers filled in.

    `above` is for a positive mean over seeds, `below` for a negative one. `unclear`, if given, is
    for values whose 95 % interval contains zero (see `papers.direction`); that of one seed always
    does. In a wording, "{value}" is the mean ± standard deviation, "{mean}" the mean alone: without
    their sign where the wording says the direction, with it in `unclear`. Both have `digits` behind
    the point, or as many as the spread allows. Other names in braces are given by keyword: a
    text or a number, with a format if need be ("{share:.0%}"), or one number per seed.

    Raises `SettingError` if no wording fits, if a wording asks for a number that is not given, and
    if none asks for one that is.
    """
    wordings = {"above": above, "below": below, "unclear": unclear}
    _check_names(wordings, numbers)
    unsure = direction(values) == 0
    values = [float(value) for value in values]
    mean = fmean(values)
    sign = "above" if mean > 0 else "below" if mean < 0 else "unclear"
    name = "unclear" if unsure and unclear is not None else sign
    if wordings[name] is None:
        raise SettingError(
            f"no wording for {spread(values, None, signed=True)}",
            where="sentence", do=f"write what it says then: {name} = \"...\"",
        )  # fmt: skip
    plain = [-v for v in values] if mean < 0 and name != "unclear" else values
    value = spread(plain, digits, signed=name == "unclear")
    given = {"value": value, "mean": value.partition(" ±")[0]}
    given |= {key: _shown(number, digits) for key, number in numbers.items()}
    return _Words().vformat(wordings[name], (), given)


def tell(*parts: str, recorded: bool = False) -> None:
    """Show texts and sentences as one paragraph of Markdown; see `say` for `recorded`."""
    text = " ".join(" ".join(part.split()) for part in parts if part)
    if not text:
        raise SettingError("nothing to tell", where="tell", do="give at least one text")
    if recorded:
        _show({"text/markdown": text, "text/plain": text})
    else:
        page = f'<div class="printed">\n\n{text}\n\n</div>'
        _show({"text/markdown": page, "text/plain": PLAIN + text})


def verdict_box() -> None:
    """Show what the words of a verdict mean: the same box in every notebook."""
    _show({"text/markdown": VERDICT_BOX, "text/plain": re.sub(r"(?m)^> ?|\*", "", VERDICT_BOX)})


def question(text: str, choices: Mapping[str, str]) -> None:
    """A question for oneself: every choice unfolds its reply, without a script.

    `text` and the replies are Markdown, with math; a choice is plain text with `code`. Give two
    choices or more, each with a reply that says why it is right or wrong.
    """
    good = isinstance(choices, Mapping) and len(choices) > 1
    if not good or not text.strip() or not all(reply.strip() for reply in choices.values()):
        raise SettingError(
            f"question {text!r}", where="question",
            do="give a text, and a reply for each of two choices or more",
        )  # fmt: skip
    folds = "\n\n".join(
        f"<details><summary>{_inline(choice)}</summary>\n\n{reply.strip()}\n\n</details>"
        for choice, reply in choices.items()
    )
    page = (
        f"**Ask yourself.** {text.strip()}\n\n"
        f"<details open><summary>Choose, then unfold your choice</summary>\n\n{folds}\n\n</details>"
    )
    plain = "\n".join([f"Ask yourself. {' '.join(text.split())}", *(f"- {c}" for c in choices)])
    _show({"text/markdown": page, "text/plain": plain})


def folded(table, summary: str, *, recorded: bool = False) -> None:
    """Show a DataFrame in a fold; `summary` is the line that opens it.

    Use it for every table of more than eight rows or five columns. `recorded` as in `say`.
    """
    if not hasattr(table, "to_html") or not len(table) or not summary.strip():
        raise SettingError(
            f"a {type(table).__name__} below {summary!r}", where="folded",
            do="give a DataFrame with at least one row, and a line that opens it",
        )  # fmt: skip
    kind = "recorded" if recorded else "measured"  # nbval compares what was recorded
    page = (f'<details class="{kind}"><summary>{_inline(summary)}</summary>\n'
            f"{scoped_table(table)}\n</details>")  # fmt: skip
    rows = f"{len(table)} row{'s' * (len(table) > 1)}"
    names = ", ".join(" / ".join(map(str, c)) if isinstance(c, tuple) else str(c) for c in table)
    _show({"text/html": page, "text/plain": f"{summary} (a folded table: {rows}; {names})"})


class _Words(Formatter):
    """`str.format`, but a number without a format has four digits at most."""

    def format_field(self, value, spec):
        if not spec and isinstance(value, Real) and not isinstance(value, int):
            return f"{value:.4g}"
        return super().format_field(value, spec)


def _check_names(wordings: dict[str, str | None], numbers: dict) -> None:
    """What the wordings ask for is given, and what is given is asked for."""
    asked = {}
    for wording in filter(None, wordings.values()):
        try:
            found = [name for _, name, _, _ in Formatter().parse(wording) if name is not None]
        except ValueError as error:
            raise SettingError(f"{wording!r}: {error}", where="sentence",
                               do="write {name}, and {{ for a brace") from None  # fmt: skip
        asked |= dict.fromkeys(re.split(r"[.\[]", name)[0] for name in found)
    if own := {"value", "mean"} & numbers.keys():
        raise SettingError(f"a number called {own.pop()!r}", where="sentence",
                           do="give it another name: this one is made from the values")  # fmt: skip
    for name in asked:
        choose(name, {"value", "mean", *numbers}, kind="number", where="sentence")
    for name in numbers:
        choose(name, asked, kind="number", where="sentence, among the names in its wordings")


def _shown(number, digits: int | None):
    """One number per seed becomes its mean and spread; all else stays."""
    if isinstance(number, str | Real) or not hasattr(number, "__iter__"):
        return number
    return spread(number, digits)


def _inline(text: str) -> str:
    """Plain text with `code` as HTML, for a summary: Markdown is not read there."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text.strip()))


def _show(data: dict[str, str]) -> None:
    """Display all forms of one output; in a plain script, print the plain one."""
    from IPython import get_ipython
    from IPython.display import display

    if get_ipython() is None:
        print(data["text/plain"])
    else:
        display(data, raw=True)
