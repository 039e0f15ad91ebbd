"""A figure with a slider in JupyterLab, and the same figure without one everywhere else.

    slider(
        lambda beta: figures.class_histogram(counts(beta), title=f"Dirichlet split, β = {beta:g}"),
        name="β", values=[0.1, 0.5, 1, 10, 100], start=0.5, show=run.show,
        description="Bubbles: one row per client, one column per class; small β, few classes.",
    )

A slider appears where somebody can move it: the request to run the cell names the cell, as
JupyterLab, Notebook and VS Code do, and the environment variable `TQDM_DISABLE` is empty.
papermill, nbval and nbconvert send cells without a name, `python -m fedtutor` sets the variable
as well; there the figure for the start value is shown as any other figure, so committed
notebooks, their pages and their validation hold no widget.
"""

import os
from collections.abc import Callable, Sequence

from .. import figures
from ..errors import SettingError

WIDGET = "application/vnd.jupyter.widget-view+json"


def slider(
    draw: Callable, *, name: str, values: Sequence, description: str, start=None,
    show: Callable = figures.show, live: bool | None = None,
) -> None:  # fmt: skip
    """Show `draw(start)`; where a reader sits before it, with a slider over `values`.

    draw: value -> a matplotlib Figure, whose title says the value. It is called for the start
    value and whenever the slider stops, so what takes long is computed before, once per value.
    name: what the slider says beside it. start: one of `values`, by default the first.
    description: of the figure, as in `figures.show`; one text for all values.
    show: `figures.show`, or a notebook's `run.show`.
    live: True or False to decide what `is_live` else finds out.
    Raises `SettingError` for a start that is none of the values, and for fewer than two values.
    """
    values = list(values)
    start = values[0] if start is None and values else start
    labels = [f"{v:g}" if isinstance(v, int | float) else str(v) for v in values]
    if not isinstance(name, str) or not name.strip():
        _refuse(f"name = {name!r}", do='give a word or symbol, such as "β"')
    if len(values) < 2 or len(set(labels)) < len(labels):
        _refuse(f"values = {values!r}", do="give two or more different values")
    if start not in values:
        _refuse(f"start = {start!r}", do=f"choose one of: {', '.join(labels)}")

    if not (is_live() if live is None else live):
        show(draw(start), description)
        return
    from IPython.display import display
    from ipywidgets import Layout, Output, SelectionSlider, VBox

    figure = draw(start)
    chosen = SelectionSlider(
        options=list(zip(labels, values, strict=True)), value=start, description=name,
        continuous_update=False, style={"description_width": "initial"},
        layout=Layout(width="500px", max_width="100%"),
    )  # fmt: skip
    below = Output()

    def redraw(change) -> None:
        below.clear_output(wait=True)
        with below:
            show(draw(change["new"]), description)

    with below:
        show(figure, description)
    chosen.observe(redraw, names="value")
    words = f"Slider for {name}, from {labels[0]} to {labels[-1]}. {' '.join(description.split())}"
    bundle = VBox([chosen, below])._repr_mimebundle_()
    display({WIDGET: bundle[WIDGET], "text/plain": words}, raw=True)


def is_live() -> bool:
    """Whether a reader ran this cell from a front end that can show a widget."""
    if os.environ.get("TQDM_DISABLE"):
        return False
    try:
        import ipywidgets  # noqa: F401
        from IPython import get_ipython

        request = get_ipython().kernel.get_parent()
    except (ImportError, AttributeError):  # a plain script, plain IPython, another kernel
        return False
    return bool(request.get("metadata", {}).get("cellId"))


def _refuse(what: str, *, do: str) -> None:
    raise SettingError(what, where="slider", do=do)
