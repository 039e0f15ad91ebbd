"""What every figure owes its reader: no word beyond the edge, none on another one."""

import io

from matplotlib.text import Text
from PIL import Image

from fedtutor import figures

FOOTER = "digits-mini (MNIST sample, optical digits, two rendered stand-ins), quick, seeds 0 to 2"


def words_of(figure, monkeypatch) -> dict[str, float]:
    """Every text that is drawn and its size in points, after a look at where it lies."""
    drawn, draw = {}, Text.draw

    def record(text, renderer, *args):
        if text.get_visible() and text.get_text().strip():
            drawn[id(text)] = (text, text.get_window_extent(renderer))
        return draw(text, renderer, *args)

    with monkeypatch.context() as patch:
        patch.setattr(Text, "draw", record)
        image = Image.open(io.BytesIO(figures.to_png(figure, footer=FOOTER)))
    width, height = image.size
    assert width == round(figures.WIDTH * figures.DPI)
    boxes = [(text, box.padded(-2)) for text, box in drawn.values()]
    for i, (text, box) in enumerate(boxes):
        assert box.x0 >= -1 and box.y0 >= -1, text
        assert box.x1 <= width + 1 and box.y1 <= height + 1, text
        clash = [other for other, there in boxes[i + 1 :] if box.overlaps(there)]
        assert not clash, (text, clash)
    return {text.get_text(): text.get_size() for text, _ in drawn.values()}
