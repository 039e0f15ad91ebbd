"""Where something moves: frames behind a slider in JupyterLab, side by side everywhere else.

    film(
        {step: images[step] for step in (0, 10, 50, 100)}, name="step", show=run.show,
        description="Pictures of ten digits, one per class, that turn from noise into strokes.",
    )

Where a reader sits before it is asked of `slider.is_live`, as for every slider. A committed
notebook and its page show at most five frames in a row, the first and the last among them.
"""

from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from io import BytesIO

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.image import imread
from PIL import Image
from torchvision.utils import make_grid

from .. import figures
from ..errors import SettingError
from ..figures.drawing import canvas, style
from .slider import is_live, slider

MOST = 5  # frames in the strip
BIG = 3.0  # inches: height of a frame behind the slider
BETWEEN = 1  # pixels between the images of one frame
EMPTY = 255  # their gray


def film(
    frames: Mapping, *, name: str, description: str, title: str = "", show: Callable = figures.show,
    live: bool | None = None,
) -> None:  # fmt: skip
    """Show `frames` behind a slider where a reader can move it, otherwise as a strip.

    frames: label -> frame, in the order of time, two or more. A frame is

    - an image: uint8 from 0 to 255, or floats in that range, [height, width], [channels, height,
      width] with 1 or 3 channels, or several of them [n, channels, height, width]; or a PIL image;
    - a function of a matplotlib `Axes` that draws on it, with the same limits in every frame;
    - a function of nothing that returns a `Figure`; the strip has three of them, one below another.

    name: what the labels count, such as "round". description: of the whole film, as in
    `figures.show`. title: what the film shows; otherwise from which label to which. show:
    `figures.show`, or a notebook's `run.show`. live: True or False to decide what
    `slider.is_live` else finds out. Raises `SettingError` for what is no frame.
    """
    if not isinstance(name, str) or not name.strip():
        _refuse(f"name = {name!r}", do='give a word, such as "round"')
    if not isinstance(frames, Mapping) or len(frames) < 2:
        _refuse(f"frames = a {type(frames).__name__}", do="give a dict of two or more frames")
    frames = {label: _Frame(label, given) for label, given in frames.items()}
    if len({frame.kind for frame in frames.values()}) > 1:
        _refuse("frames of different kinds", do="give images, or functions of one kind")
    labels = list(frames)
    title = title or f"From {name} {_word(labels[0])} to {name} {_word(labels[-1])}"

    if is_live() if live is None else live:
        slider(
            lambda label: _one(frames[label], title=title, name=name), name=name, values=labels,
            description=description, show=show, live=True,
        )  # fmt: skip
    elif frames[labels[0]].kind == "figure":
        show(_stacked([frames[label] for label in chosen(labels, 3)], title, name), description)
    else:
        show(_strip([frames[label] for label in chosen(labels)], title, name), description)


def chosen(labels: list, most: int = MOST) -> list:
    """At most so many of `labels`, evenly spaced, the first and the last among them."""
    if len(labels) <= most:
        return labels
    return [labels[round(i)] for i in np.linspace(0, len(labels) - 1, most)]


class _Frame:
    """One frame: its label, its kind, what draws it on axes, and its height over its width."""

    def __init__(self, label, given):
        self.label, self.given, self.kind, self.tall = _word(label), given, "image", 0.8
        if callable(given):
            self.kind = "axes" if _takes_axes(given) else "figure"
            return
        self.given = _images(label, given)
        self.tall = _grid(self.given).shape[0] / _grid(self.given).shape[1]

    def draw(self, axes, *, wide: bool = False) -> None:
        """On axes; `wide` lays several images out in few rows, not in few columns."""
        if self.kind == "axes":
            self.given(axes)
            return
        axes.imshow(_grid(self.given, wide=wide), vmin=0, vmax=255)
        axes.set_axis_off()


def _one(frame: _Frame, *, title: str, name: str) -> Figure:
    """A frame as a figure of its own."""
    if frame.kind == "figure":
        return _drawn(frame)
    with style():
        figure = canvas(f"{title}: {name} {frame.label}", height=BIG + 0.5)
        frame.draw(figure.subplots(), wide=True)
    return figure


def _strip(frames: list[_Frame], title: str, name: str) -> Figure:
    """Frames side by side, each below its label."""
    width = figures.WIDTH / len(frames)
    height = min(width * max(frame.tall for frame in frames), BIG)
    drawn = frames[0].kind == "axes"
    with style():
        figure = canvas(title, height=height + (1.4 if drawn else 0.9))
        panels = figure.subplots(1, len(frames), sharex=drawn, sharey=drawn)
        for axes, frame in zip(panels, frames, strict=True):
            frame.draw(axes)
            axes.set_title(f"{name} {frame.label}")
            if drawn:
                axes.label_outer()
    return figure


def _stacked(frames: list[_Frame], title: str, name: str) -> Figure:
    """Whole figures, one below another."""
    pictures = [imread(BytesIO(figures.to_png(_drawn(frame)))) for frame in frames]
    tall = [picture.shape[0] / picture.shape[1] for picture in pictures]
    with style():
        figure = canvas(title, height=0.5 + sum(figures.WIDTH * t + 0.3 for t in tall))
        panels = figure.subplots(len(frames), 1, height_ratios=tall)
        for axes, picture, frame in zip(panels, pictures, frames, strict=True):
            axes.imshow(picture)
            axes.set_axis_off()
            axes.set_title(f"{name} {frame.label}")
    return figure


def _drawn(frame: _Frame) -> Figure:
    figure = frame.given()
    if not isinstance(figure, Figure):
        _refuse(f"frame {frame.label} returned a {type(figure).__name__}",
                do="return a matplotlib Figure, or draw on given axes")  # fmt: skip
    return figure


def _takes_axes(function: Callable) -> bool:
    """Whether it must be given something: `lambda axes, step=step: ...`."""
    positional = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    given = signature(function).parameters.values()
    return any(p.default is Parameter.empty and p.kind in positional for p in given)


def _images(label, given) -> np.ndarray:
    """uint8 [n, 3, height, width], n = 1 for a single image; gray ones get three channels."""
    if isinstance(given, Image.Image):
        given = np.asarray(given.convert("RGB")).transpose(2, 0, 1)
    try:
        given = given.detach().cpu().numpy() if hasattr(given, "detach") else np.asarray(given)
        pixels = given.astype(np.float64)
    except (TypeError, ValueError):
        pixels = np.array(np.nan)
    if pixels.ndim == 2:
        pixels = pixels[None]
    right = pixels.ndim in (3, 4) and pixels.size and np.isfinite(pixels).all()
    if not (right and pixels.shape[-3] in (1, 3)):
        _refuse(f"frame {label!r} is a {type(given).__name__} of shape {list(np.shape(given))}",
                do="give an image [channels, height, width] or a function that draws")  # fmt: skip
    pixels = pixels.round().clip(0, 255).astype(np.uint8)
    pixels = pixels if pixels.ndim == 4 else pixels[None]
    return pixels if pixels.shape[1] == 3 else pixels.repeat(3, 1)


def _grid(x: np.ndarray, *, wide: bool = False) -> np.ndarray:
    """[n, 3, height, width] as one picture [height, width, 3], row by row, near to a square."""
    root = int(len(x) ** 0.5)
    few = next(c for c in range(root, 0, -1) if len(x) % c == 0)
    few = max(few, root) if few == 1 else few  # a prime number leaves places empty
    many = -(-len(x) // few)
    sheet = make_grid(torch.as_tensor(x), nrow=many if wide else few, padding=BETWEEN,
                      pad_value=EMPTY)  # fmt: skip
    return sheet.numpy().transpose(1, 2, 0)


def _word(label) -> str:
    return f"{label:g}" if isinstance(label, int | float) else str(label)


def _refuse(what: str, *, do: str) -> None:
    raise SettingError(what, where="film", do=do)
