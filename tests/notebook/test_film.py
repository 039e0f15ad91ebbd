"""A film: a strip of few frames where nobody can move anything, a slider where somebody can."""

import numpy as np
import pytest
import torch
from IPython import display
from PIL import Image
from support.layout import words_of

from fedtutor import figures
from fedtutor.errors import SettingError
from fedtutor.notebook import film
from fedtutor.notebook.film import chosen
from fedtutor.notebook.slider import WIDGET

WORDS = "Pictures of ten digits, one per class, that turn from noise into strokes."
STEPS = {step: torch.full((10, 3, 8, 8), 2.5 * step) for step in range(0, 101, 10)}


@pytest.fixture
def shown():
    """A place for `show`: figures and descriptions."""
    found = []

    def show(figure, words):
        found.append((figure, words))

    show.found = found
    return show


def curve(axes, rounds):
    axes.plot(np.arange(rounds), np.arange(rounds))
    axes.set(xlim=(0, 10), ylim=(0, 10), xlabel="round", ylabel="height (no unit)")


DRAWN = {r: (lambda axes, r=r: curve(axes, r)) for r in range(1, 10)}
WHOLE = {
    r: (lambda r=r: figures.curves({"fedavg": [[0.5] * (r + 1)]}, title=f"After {r} rounds"))
    for r in range(1, 10)
}


def pictures(figure) -> list[np.ndarray]:
    return [np.asarray(axes.images[0].get_array()) for axes in figure.axes]


def test_without_a_reader_it_is_a_strip_of_five(shown, monkeypatch):
    film(STEPS, name="step", description=WORDS, show=shown)
    ((figure, words),) = shown.found
    assert words == WORDS
    assert [a.get_title("left") for a in figure.axes] == [
        "step 0", "step 20", "step 50", "step 80", "step 100",
    ]  # fmt: skip
    for axes, picture in zip(figure.axes, pictures(figure), strict=True):
        step = int(axes.get_title("left").split()[1])
        assert picture.shape == (5 * 9 + 1, 2 * 9 + 1, 3)  # five rows of two, with lines between
        assert picture[1, 1, 0] == round(2.5 * step)
    assert figure.get_suptitle() == "From step 0 to step 100"
    words_of(figure, monkeypatch)


def test_functions_draw_on_panels_of_one_strip(shown, monkeypatch):
    film(DRAWN, name="round", description=WORDS, show=shown, title="It climbs")
    figure, _ = shown.found[0]
    assert [len(axes.lines[0].get_xdata()) for axes in figure.axes] == [1, 3, 5, 7, 9]
    assert "It climbs" in words_of(figure, monkeypatch)


def test_whole_figures_stand_one_below_another(shown, monkeypatch):
    film(WHOLE, name="round", description=WORDS, show=shown)
    figure, _ = shown.found[0]
    assert [a.get_title("left") for a in figure.axes] == ["round 1", "round 5", "round 9"]
    words_of(figure, monkeypatch)


@pytest.mark.parametrize("frames", [STEPS, DRAWN, WHOLE])
def test_where_a_reader_sits_it_is_a_slider_over_all_frames(frames, shown, monkeypatch):
    monkeypatch.setattr(display, "display", lambda data, **_: shown.found.append(data))
    film(frames, name="step", description=WORDS, show=shown, live=True)
    (figure, _), widget = shown.found
    first, *_, last = frames
    assert WIDGET in widget
    assert widget["text/plain"] == f"Slider for step, from {first} to {last}. {WORDS}"
    assert len(figure.axes) == 1
    words_of(figure, monkeypatch)


@pytest.mark.parametrize(
    ("image", "size"),
    [
        (torch.zeros(4, 6), (4, 6)),
        (np.zeros((1, 4, 6), dtype=np.uint8), (4, 6)),
        (torch.zeros(3, 4, 6), (4, 6)),
        (Image.new("L", (6, 4)), (4, 6)),
        (torch.zeros(4, 1, 4, 6), (11, 15)),
        (torch.zeros(7, 3, 4, 6), (21, 15)),
    ],
)
def test_images_of_every_kind(image, size, shown):
    film({"a": image, "b": image}, name="step", description=WORDS, show=shown)
    assert pictures(shown.found[0][0])[0].shape == (*size, 3)


def test_colors_stay_what_they_are_and_what_lies_beside_them_is_cut(shown):
    red = torch.stack([torch.full((2, 2), v) for v in (300.0, 99.6, -5.0)])
    film({0: red, 1: red}, name="step", description=WORDS, show=shown)
    assert pictures(shown.found[0][0])[0][0, 0].tolist() == [255, 100, 0]


def test_few_frames_are_all_chosen():
    assert chosen([1, 2, 3]) == [1, 2, 3]
    assert chosen(list(range(100))) == [0, 25, 50, 74, 99]


@pytest.mark.parametrize(
    ("frames", "wrong"),
    [
        ({0: torch.zeros(2, 2)}, "two or more frames"),
        ([torch.zeros(2, 2)] * 3, "two or more frames"),
        ({0: torch.zeros(2, 2), 1: curve}, "functions of one kind"),
        ({0: torch.zeros(2, 3, 3), 1: torch.zeros(2, 3, 3)}, r"shape \[2, 3, 3\]"),
        ({0: "a", 1: "b"}, "give an image"),
        ({0: lambda: 1, 1: lambda: 2}, "return a matplotlib Figure"),
    ],
)
def test_what_is_no_film_is_refused(frames, wrong):
    with pytest.raises(SettingError, match=wrong):
        film(frames, name="step", description=WORDS)


def test_a_film_has_a_name():
    with pytest.raises(SettingError, match='such as "round"'):
        film(STEPS, name=" ", description=WORDS)
