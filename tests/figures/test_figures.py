"""Figures: style, titles, labels, layout without collisions, and the one door out."""

import io
import re
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from fedtutor import figures
from fedtutor.errors import DataError, FedtutorError, SettingError
from fedtutor.figures import heatmap

DOMAINS = ["mnist", "optical", "street", "synthetic"]
FOOTER = "digits-mini (MNIST sample, optical digits, two rendered stand-ins), quick, seeds 0 to 2"
WORDS = "Line chart: accuracy in percent per round, one line per method; FCCL+ lies above FedAvg."
rng = np.random.default_rng(0)
MATRIX = rng.uniform(0.1, 0.99, (3, 4, 4))
RUNS = rng.uniform(0.3, 0.9, (3, 12))
FEATURES, LABELS = rng.normal(size=(48, 8)), np.arange(48) % 4
RATES = np.logspace(-2.5, 0, 9)
GROUPS = np.array(DOMAINS)[np.arange(48) // 12]
PIXELS = torch.randint(0, 256, (10, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator())

EXAMPLES = {
    "curves, labels": lambda: figures.curves(
        {name: RUNS for name in ("solo", "fedavg", "fccl", "fccl+")}, title="All four are equal"
    ),
    "curves, legend": lambda: figures.curves(
        dict.fromkeys(figures.METHOD_STYLE, RUNS), title="A rather long finding " * 6
    ),
    "curves, cut": lambda: figures.curves(
        {"fedavg": RUNS[:1]}, title="One seed, cut axis", limits=(60, 100)
    ),
    "curves, log": lambda: figures.curves(
        {"fedcsd": RUNS[:, :4]}, title="Weights mu", x=[0.001, 0.01, 0.1, 1], xscale="log"
    ),
    "bars": lambda: figures.bars(
        {m: dict.fromkeys(DOMAINS, RUNS[:, 0]) for m in figures.METHOD_STYLE}, title="Every method"
    ),
    "bars, seconds": lambda: figures.bars(
        {"solo": {"all": [3.0]}, "mine": {"all": [40.0]}}, title="Local is fast", share=False,
        xlabel="time per round (s)",
    ),
    "accuracy_matrix": lambda: figures.accuracy_matrix(
        MATRIX, DOMAINS, DOMAINS, DOMAINS, title="Each knows its own"
    ),
    "accuracy_matrix, three": lambda: figures.accuracy_matrix(
        {name: MATRIX for name in ("solo", "FedAvg", "FCCL+")}, DOMAINS, DOMAINS, DOMAINS,
        title="Each knows its own",
    ),
    "accuracy_matrix, wide": lambda: figures.accuracy_matrix(
        np.tile(MATRIX, (1, 1, 3)), DOMAINS, list("abcdefghijkl"), title="Two lines in a cell"
    ),
    "accuracy_matrix, one row": lambda: figures.accuracy_matrix(
        MATRIX[0, :1], ["shared model"], DOMAINS, title="One model"
    ),
    "accuracy_matrix, large": lambda: figures.accuracy_matrix(
        np.full((57, 19), 0.5), [f"client {i}" for i in range(57)], list("abcdefghijklmnopqrs"),
        title="57 clients",
    ),
    "matrix": lambda: figures.matrix(
        MATRIX[0] - 0.5, title="Gains and losses", xlabel="mu", ylabel="tau", unit="gain (points)",
        decimals=1,
    ),
    "matrix, with spreads": lambda: figures.matrix(
        MATRIX[0] - 0.5, title="Gains and losses", xlabel="mu", ylabel="tau", unit="gain (points)",
        decimals=1, spreads=np.where(MATRIX[0] > 0.3, 0.1, np.nan),
    ),
    "roc": lambda: figures.roc(
        {name: {"likelihood ratio": RATES**0.3 * np.ones((3, 1)), "one threshold": [RATES]}
         for name in ("FedAvg", "FedLGD")}, RATES, title="Two panels, two attacks",
    ),
    "against_accuracy": lambda: figures.against_accuracy(
        {words: {"none": ([0.9, 0.8], [0.3, 0.2]), "noise": ([0.5, 0.4], [0.02, 0.01])}
         for words in ("members found (%)", "area (%)")},
        title="Noise costs accuracy", chance=(0.01, 0.5), joined=[("none", "noise")],
    ),
    "matrix, four": lambda: figures.matrix(
        {d: np.eye(10) for d in DOMAINS}, title="Identities everywhere", xlabel="class",
        ylabel="class", unit="correlation (no unit)", limit=1,
    ),
    "tsne_panels": lambda: figures.tsne_panels(
        {"FedAvg": FEATURES, "FCCL+": FEATURES}, LABELS, GROUPS, title="Noise twice"
    ),
    "contact_sheet": lambda: figures.contact_sheet(
        {"street (stand-in)": PIXELS, "gray": PIXELS[:6, :1]}, list("0123456789"), title="Two rows"
    ),
    "accuracy_against_bytes": lambda: figures.accuracy_against_bytes(
        {"solo": ([0, 0], [0.5, 0.6]), "fedavg": ([3e8, 3e8], [0.8, 0.82]),
         "fccl+": ([4e6, 4e6], [0.86, 0.84])}, title="FCCL+ is cheap",
    ),
    "accuracy_against_bytes, all": lambda: figures.accuracy_against_bytes(
        {m: ([1e6], [0.5]) for m in figures.METHOD_STYLE}, title="All in one spot"
    ),
    "class_histogram": lambda: figures.class_histogram(
        {f"client {i}": row for i, row in enumerate(np.arange(40).reshape(4, 10))},
        title="Four clients",
    ),
    "class_histogram, many": lambda: figures.class_histogram(
        {f"client {i}": np.arange(40) for i in range(57)}, title="Fifty-seven clients"
    ),
}  # fmt: skip
PICTURES = {"contact_sheet"}  # no axes to label


@pytest.fixture(scope="module")
def made():
    return {name: make() for name, make in EXAMPLES.items()}


@pytest.mark.parametrize("name", EXAMPLES)
def test_title_label_size_and_layout(made, name, monkeypatch):
    """A title, labeled axes, one width; no word leaves the picture or lies on another one."""
    figure, drawn, draw = made[name], {}, Text.draw

    def record(text, renderer, *args):
        if text.get_visible() and text.get_text().strip():
            drawn[id(text)] = (text, text.get_window_extent(renderer))
        return draw(text, renderer, *args)

    monkeypatch.setattr(Text, "draw", record)
    png = figures.to_png(figure, footer=FOOTER)
    image = Image.open(io.BytesIO(png))
    width, height = figure.get_size_inches()
    assert width == figures.WIDTH and image.size == (1520, round(height * figures.DPI))
    assert figure.get_suptitle()
    assert FOOTER.split()[0] in " ".join(text.get_text() for text, _ in drawn.values())
    if name not in PICTURES:
        words = {text.get_text().replace("\n", " ") for text, _ in drawn.values()}
        labels = {axes.get_xlabel() for axes in figure.axes} | {figure.get_supxlabel()}
        assert words & (labels - {""})
        assert any(axes.get_ylabel() for axes in figure.axes) or name.startswith("bars")
    for text, box in drawn.values():
        assert box.x0 >= -1 and box.y0 >= -1, text
        assert box.x1 <= 1521 and box.y1 <= height * figures.DPI + 1, text
    flat = [(t, b.padded(-2)) for t, b in drawn.values() if t.get_rotation() in (0, 90)]
    for i, (text, box) in enumerate(flat):
        clash = [other for other, there in flat[i + 1 :] if box.overlaps(there)]
        assert not clash, (text, clash)


def test_units_are_on_the_axes(made):
    assert made["curves, labels"].axes[0].get_ylabel() == figures.ACCURACY
    assert made["curves, labels"].axes[0].get_xlabel() == "round"
    assert made["bars"].get_supxlabel() == figures.ACCURACY
    assert "(%)" in made["accuracy_matrix"].axes[-1].get_ylabel().replace("\n", " ")
    assert "bytes" in made["accuracy_against_bytes"].axes[0].get_xlabel()
    assert "(points)" in made["matrix"].axes[-1].get_ylabel()


def test_accuracy_axis_runs_from_0_to_100_or_is_marked(made):
    whole, cut = made["curves, labels"], made["curves, cut"]
    assert whole.axes[0].get_ylim() == (0, 100) and not _with_id(whole, "cut")
    assert cut.axes[0].get_ylim() == (60, 100) and _with_id(cut, "cut")
    assert "starts at 60 %" in _caption(cut) and "One seed" in _caption(cut)
    assert made["bars"].axes[0].get_xlim()[0] == 0


def test_curves_show_mean_band_and_direct_labels(made):
    figure = figures.curves({"fedavg": [[0.1, 0.2], [0.3, 0.6]]}, title="Two seeds")
    axes = figure.axes[0]
    assert np.allclose(axes.lines[0].get_ydata(), [20, 40])
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert np.isclose(band.max(), 40 + 100 * np.std([0.2, 0.6], ddof=1))
    assert "2 seeds" in _caption(figure) and "standard deviation" in _caption(figure)
    clients = figures.curves({"fedavg": [[0.1], [0.3]]}, title="Two clients", over="clients")
    assert "mean over 2 clients" in _caption(clients)
    exact = figures.curves({"fedavg": [[0.1, 0.3]]}, title="Counted bytes", over=None)
    assert "seed" not in _caption(exact) and "known" not in _caption(exact)
    labels = [t.get_text() for t in _with_id(made["curves, labels"], "direct label")]
    assert sorted(labels) == ["FCCL", "FCCL+", "FedAvg", "local only (solo)"]
    rising = np.array([[0.5, 1]])
    full = figures.curves(dict.fromkeys(("solo", "fedavg", "fccl"), rising), title="All full")
    heights = sorted(t.get_position()[1] for t in _with_id(full, "direct label"))
    assert heights[-1] <= 100 and np.diff(heights).min() > 4
    assert not made["curves, labels"].legends and made["curves, legend"].legends


def test_curves_have_markers_where_the_caller_wants_them():
    two = {"solo": [[0.1, 0.2, 0.3]], "fedavg": [[0.3, 0.2, 0.1]]}
    lines = figures.curves(two, title="Two lines", marked=[0, 2]).axes[0].lines
    assert [line.get_markevery() for line in lines[:2]] == [[0, 2], [0, 2]]
    with pytest.raises(DataError, match="marked"):
        figures.curves(two, title="Two lines", marked=[1, 3])


def test_a_curve_is_cut_only_where_it_leaves_the_axes():
    two = {"solo": [[1.0, 0.9]], "fedavg": [[0.2, 0.7]]}
    first, second, *_ = figures.curves(two, title="On the edge", limits=(50, 100)).axes[0].lines
    assert not first.get_clip_on() and second.get_clip_on()


def test_matrix_outlines_and_numbers(made):
    cells = {(0.0, 1.0): "21", (1.0, 0.0): "100"}
    figure = figures.accuracy_matrix(
        [[0.5, 1], [0.214, 0]], ["a", "b"], ["u", "v"], ["v", None], title="Four cells"
    )
    texts = {t.get_position(): t.get_text() for t in figure.axes[0].texts}
    assert texts.items() >= cells.items()
    assert [patch.get_xy() for patch in _with_id(figure, "own")] == [(0.5, -0.5)]
    assert len(_with_id(made["accuracy_matrix"], "own")) == 4
    assert " ± " in made["accuracy_matrix"].axes[0].texts[0].get_text()
    largest = np.abs(MATRIX[0] - 0.5).max()
    assert made["matrix"].axes[0].images[0].get_clim() == pytest.approx((-largest, largest))
    names = {"title": "Two counts", "xlabel": "x", "ylabel": "y", "unit": "runs"}
    counts = figures.matrix([[0, 3]], signed=False, decimals=0, **names)
    assert counts.axes[0].images[0].get_clim() == (0, 3)


def test_every_number_in_a_cell_can_be_read():
    """Contrast of at least 4.5 to 1 (WCAG AA) between the number and its cell."""
    values = np.linspace(0, 1, 100).reshape(10, 10)
    axes = figures.accuracy_matrix(values, list("abcdefghij"), list("abcdefghij"),
                                   title="All colors").axes[0]  # fmt: skip
    assert len(axes.texts) == 100
    for text in axes.texts:
        j, i = map(round, text.get_position())
        cell = heatmap._luminance(mpl.colormaps["cividis"](values[i, j])[:3])
        ink = heatmap._luminance(mpl.colors.to_rgb(text.get_color()))
        assert (max(cell, ink) + 0.05) / (min(cell, ink) + 0.05) >= 4.5


def test_bars_show_mean_spread_and_every_seed():
    figure = figures.bars({"fccl": {"mnist": [0.5, 0.7]}}, title="Two seeds")
    axes = figure.axes[0]
    assert axes.patches[0].get_width() == pytest.approx(60)
    assert [list(line.get_xdata()) for line in _with_id(figure, "seeds")] == [[50, 70]]
    assert [t.get_text() for t in axes.texts] == ["60"]
    assert axes.get_title(loc="left") == "mnist" and "2 seeds" in _caption(figure)


def test_bars_may_begin_at_chance():
    def limits(*seeds):
        figure = figures.bars({"fccl": {"AUC": list(seeds)}}, title="Near chance", start=0.5)
        axes = figure.axes[0]
        bar = axes.patches[0]
        assert bar.get_x() == pytest.approx(50)
        assert bar.get_x() + bar.get_width() == pytest.approx(100 * np.mean(seeds))
        return axes.get_xlim()

    low, high = limits(0.55, 0.65)
    assert low == 50 and 65 < high < 80
    low, high = limits(0.40, 0.44)
    assert 0 < low <= 40 and 50 < high < 60


def test_who_is_not_named_is_gray_and_counted_in_the_caption():
    values = {m: ([1e6], [0.5]) for m in figures.METHOD_STYLE}
    values |= {"fedavg": ([1e5], [0.7]), "mine": ([1e7], [0.2])}
    figure = figures.accuracy_against_bytes(values, title="Two are named", named=["fedavg", "mine"])
    assert {t.get_text() for t in _with_id(figure, "direct label")} == {"FedAvg", "mine"}
    others = _with_id(figure, "other")
    assert len(others) == len(values) - 2 and not figure.legends
    assert f"{len(others)} other methods" in _caption(figure)
    plain = figures.accuracy_against_bytes(values, title="All are named", named=list(values))
    assert not _with_id(plain, "other") and "other methods" not in _caption(plain)


def test_bytes_have_human_units_and_a_place_for_nothing(made):
    axes = made["accuracy_against_bytes"].axes[0]
    ticks = [t.get_text() for t in axes.get_xticklabels()]
    assert ticks[0] == "nothing" and {"1 MB", "100 MB"} <= set(ticks)
    assert len(_with_id(made["accuracy_against_bytes"], "direct label")) == 3
    crowd = made["accuracy_against_bytes, all"]
    assert crowd.legends and not _with_id(crowd, "direct label")


def test_bubble_areas_are_proportional_to_counts():
    figure = figures.class_histogram({"a": [0, 10], "b": [40, 20]}, title="Skewed labels")
    bubbles = figure.axes[0].collections[0]
    sizes = dict(zip(map(tuple, bubbles.get_offsets().tolist()), bubbles.get_sizes(), strict=True))
    assert set(sizes) == {(1, 0), (0, 1), (1, 1)}
    assert sizes[0, 1] == pytest.approx(4 * sizes[1, 0]) == pytest.approx(2 * sizes[1, 1])


def test_tsne_depends_on_the_seed_alone():
    one, same = (figures.embed(FEATURES, seed=1) for _ in range(2))
    assert np.array_equal(one, same)
    panels = {"one": torch.tensor(FEATURES), "other": FEATURES}
    figure = figures.tsne_panels(panels, LABELS, GROUPS, title="Noise has no groups")
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["one", "other"]


def test_each_method_has_one_look_of_its_own():
    looks = [(style.color, style.marker) for style in figures.METHOD_STYLE.values()]
    assert len(set(looks)) == len(looks)
    assert figures.METHOD_STYLE.keys() == figures.DISPLAY.keys()
    strong = [name for name, style in figures.METHOD_STYLE.items() if style.strong]
    assert strong == ["fccl", "fccl+", "fedcsd", "repshare", "fedlgd"]
    assert len({figures.METHOD_STYLE[name].color for name in strong}) == 5
    for name in ("mine", "my method", "fccl+ without FISL"):
        look = figures.method_style(name)
        assert look == figures.method_style(name)
        assert (look.color, look.marker) not in looks
    names = [f"client {i}" for i in range(24)]
    assert len(set(figures.in_order(names).values())) == 24


def test_order_of_methods_is_fixed():
    assert figures.method_order(["mine", "fccl+", "solo", "fedavg"]) == [
        "solo", "fedavg", "fccl+", "mine",
    ]  # fmt: skip
    one, other = (
        figures.curves(dict.fromkeys(names, RUNS), title="Any order")
        for names in (["fccl+", "solo"], ["solo", "fccl+"])
    )
    assert figures.to_png(one) == figures.to_png(other)


@pytest.mark.parametrize(
    ("n", "text"),
    [(0, "0 B"), (950, "950 B"), (999.6, "1 kB"), (1250, "1.25 kB"), (123456, "123 kB"),
     (4.1e6, "4.1 MB"), (3e12, "3 TB")],
)  # fmt: skip
def test_human_bytes(n, text):
    assert figures.human_bytes(n) == text


def test_percent():
    assert figures.percent(0.874) == "87 %"


@pytest.mark.parametrize(
    ("values", "other", "text"),
    [
        ([0.61, 0.62, 0.63], [0.5, 0.51, 0.52], "FedAvg gains 11 points over local-only training"),
        ([0.5, 0.51], [0.61, 0.62], "FedAvg loses 11 points against local-only training"),
        ([0.51, 0.52], [0.5, 0.51], "FedAvg gains 1 point over local-only training"),
        # one seed of three has the other sign
        ([0.6, 0.6, 0.6], [0.5, 0.5, 0.61],
         "FedAvg gains 6.3 ± 6.4 points over local-only training: within the spread"),
        # more than two standard deviations, but one seed of ten has the other sign
        ([0.6] * 10, [0.5] * 9 + [0.601],
         "FedAvg gains 9 ± 3.2 points over local-only training: within the spread"),
        # one sign, but the mean is less than two standard deviations
        ([0.6, 0.6], [0.5, 0.56],
         "FedAvg gains 7 ± 4.2 points over local-only training: within the spread"),
        # one seed decides nothing
        ([0.6], [0.5], "FedAvg gains 10 points over local-only training (one seed)"),
        ([0.5, 0.5], [0.5, 0.5], "FedAvg and local-only training are equal"),
        ([0.5], [0.5], "FedAvg and local-only training are equal (one seed)"),
    ],
)  # fmt: skip
def test_finding(values, other, text):
    assert figures.finding("fedavg", "solo", values, other) == text


def test_finding_with_other_words():
    text = figures.finding(
        "fccl+", "my method", [2.0, 2.0], [5.0, 5.0], where="on street", scale=1, unit="MB",
        words=("sends {} more than", "sends {} less than"),
    )  # fmt: skip
    assert text == "FCCL+ sends 3 MB less than my method on street"


@pytest.mark.parametrize(
    ("method", "other", "values", "text"),
    [
        ("central", "solo", [0.8, 0.8],
         "Centralized training gains 30 points over local-only training"),
        ("solo", "central", [0.4, 0.4],
         "Local-only training loses 10 points against centralized training"),
        ("my method", "central", [0.5, 0.5],
         "My method and centralized training are equal"),
    ],
)  # fmt: skip
def test_a_finding_starts_with_a_capital_letter(method, other, values, text):
    assert figures.finding(method, other, values, [0.5, 0.5]) == text


@pytest.fixture
def displayed(shell):
    """What goes through IPython's display machinery."""
    from IPython.utils.capture import capture_output

    with capture_output() as captured:
        yield captured


def test_show_emits_one_image_with_its_description(displayed):
    figure = EXAMPLES["curves, labels"]()
    assert figures.show(figure, WORDS, footer=FOOTER) is None
    output, folded = displayed.outputs
    assert folded.data["text/html"].startswith("<details>") and WORDS in folded.data["text/html"]
    assert set(output.data) == {"image/png", "text/plain"}
    assert output.data["text/plain"].replace("\n", " ") == WORDS
    meta = output.metadata["image/png"]
    assert meta["width"] == 760 and WORDS in meta["alt"] and "All four are equal." in meta["alt"]
    assert _size(output.data["image/png"]) == (1520, 720)
    assert FOOTER.split()[0] in _caption(figure)


def test_show_closes_a_readers_own_figure_even_if_it_refuses_it(displayed):
    figure, axes = plt.subplots()
    axes.set_title("A reader's finding")
    figures.show(figure, WORDS)
    assert not plt.get_fignums() and len(displayed.outputs) == 2
    plt.subplots()
    with pytest.raises(SettingError, match="without a title"):
        figures.show(plt.gcf(), WORDS)
    assert not plt.get_fignums() and len(displayed.outputs) == 2


def test_show_folds_the_table_below(displayed):
    table = pd.DataFrame({"method": ["a<b", "c"], "accuracy (%)": [87.123456, 2]})
    figures.show(EXAMPLES["bars, seconds"](), WORDS + " A<B.", table=table)
    figures.show(EXAMPLES["bars, seconds"](), WORDS, table=table.set_index("method"), recorded=True)
    _, folded, _, recorded = displayed.outputs
    assert set(folded.data) == {"text/html", "text/plain"}
    text = "Table behind the figure: 2 rows, columns method, accuracy (%)."
    assert folded.data["text/plain"] == text
    page = folded.data["text/html"]
    assert re.fullmatch(figures.MEASURED_TABLE, page)
    assert (
        "<summary>" in page
        and WORDS in page
        and "A&lt;B" in page
        and "87.12" in page
        and "a&lt;b" in page
    )
    assert page.count('<th scope="col">') == 2 and "<th>" not in page
    assert '<th scope="row">c</th>' in recorded.data["text/html"]
    assert not re.search(figures.MEASURED_TABLE, recorded.data["text/html"])


def test_nbval_skips_measured_tables():
    lines = (Path(__file__).parents[1] / "nbval.cfg").read_text().splitlines()
    assert f"regex: {figures.MEASURED_TABLE}" in lines


def test_show_outside_ipython_renders_and_closes(monkeypatch, capsys):
    import IPython

    monkeypatch.setattr(IPython, "get_ipython", lambda: None)
    assert figures.show(EXAMPLES["curves, cut"](), WORDS) is None
    monkeypatch.setitem(sys.modules, "IPython", None)
    assert figures.show(EXAMPLES["curves, cut"](), WORDS) is None
    assert capsys.readouterr().out == "" and not plt.get_fignums()


@pytest.mark.parametrize(
    "words",
    ["", "   ", None, "A line chart.", WORDS + " The gain is 11.3 points.", WORDS + " About .5 up.",
     WORDS + " The rate is 1e-3.", WORDS + " 87 ± 2."],
)  # fmt: skip
def test_descriptions_without_words_or_with_measured_numbers_are_refused(words, displayed):
    with pytest.raises(SettingError):
        figures.show(EXAMPLES["curves, cut"](), words)
    assert not displayed.outputs


def test_whole_numbers_and_equations_may_be_described(displayed):
    figures.show(EXAMPLES["curves, cut"](), WORDS + " See Eq. 2, 4 clients and 10 classes.")
    assert len(displayed.outputs) == 2


@pytest.mark.parametrize(
    "name", ["curves, labels", "accuracy_matrix", "tsne_panels", "contact_sheet"]
)
def test_equal_input_gives_equal_bytes(name):
    assert figures.to_png(EXAMPLES[name]()) == figures.to_png(EXAMPLES[name]())


def test_nothing_leaks_and_nothing_seeps_in():
    plain, curve = (figures.to_png(EXAMPLES[name]()) for name in ("bars, seconds", "curves, cut"))
    with mpl.rc_context({"font.size": 20, "axes.grid": False, "axes.xmargin": 0.4}):
        before = dict(mpl.rcParams)
        assert figures.to_png(EXAMPLES["curves, cut"]()) == curve
        assert figures.to_png(EXAMPLES["bars, seconds"]()) == plain
        with figures.style():
            assert mpl.rcParams["font.size"] == figures.LABEL
        with pytest.raises(FedtutorError):
            figures.curves({}, title="An empty figure")
        assert dict(mpl.rcParams) == before
    assert not plt.get_fignums()


def test_a_photograph_keeps_its_colors_and_a_chart_gets_a_palette():
    noise = torch.randint(0, 256, (6, 3, 48, 48), dtype=torch.uint8, generator=torch.Generator())
    sheet = figures.to_png(figures.contact_sheet({"noise": noise}, title="Noise in color"))
    chart = figures.to_png(EXAMPLES["bars, seconds"]())
    assert Image.open(io.BytesIO(sheet)).mode == "RGB"
    assert Image.open(io.BytesIO(chart)).mode == "P"


T = {"title": "Some title"}
BAD = {
    "no title": lambda: figures.curves({"solo": RUNS}, title=""),
    "endless title": lambda: figures.curves({"solo": RUNS}, title="many words " * 60),
    "no series": lambda: figures.curves({}, **T),
    "a list": lambda: figures.curves([RUNS], **T),
    "one dimension": lambda: figures.curves({"solo": RUNS[0]}, **T),
    "percent for a share": lambda: figures.curves({"solo": 100 * RUNS}, **T),
    "not a number": lambda: figures.curves({"solo": [[0.5, float("nan")]]}, **T),
    "ragged": lambda: figures.curves({"solo": [[0.5], [0.5, 0.5]]}, **T),
    "words": lambda: figures.curves({"solo": [["high"]]}, **T),
    "other lengths": lambda: figures.curves({"solo": RUNS, "fedavg": RUNS[:, :3]}, **T),
    "x too short": lambda: figures.curves({"solo": RUNS}, x=[1, 2], **T),
    "log of zero": lambda: figures.curves({"solo": RUNS}, x=range(12), xscale="log", **T),
    "unknown scale": lambda: figures.curves({"solo": RUNS}, xscale="loq", **T),
    "limits": lambda: figures.curves({"solo": RUNS}, limits=(0.5, 120), **T),
    "style missing": lambda: figures.curves({"solo": RUNS}, styles={}, **T),
    "rows": lambda: figures.accuracy_matrix(MATRIX, DOMAINS[:3], DOMAINS, **T),
    "columns": lambda: figures.accuracy_matrix(MATRIX, DOMAINS, DOMAINS[:3], **T),
    "own": lambda: figures.accuracy_matrix(MATRIX, DOMAINS, DOMAINS, ["usps"] * 4, **T),
    "own too short": lambda: figures.accuracy_matrix(MATRIX, DOMAINS, DOMAINS, ["mnist"], **T),
    "other shapes": lambda: figures.accuracy_matrix(
        {"a": MATRIX, "b": MATRIX[:, :2]}, DOMAINS, DOMAINS, **T
    ),
    "other shapes of one seed": lambda: figures.matrix(
        {"a": MATRIX[0], "b": MATRIX[0, :2]}, xlabel="x", ylabel="y", unit="u", **T
    ),
    "limit": lambda: figures.matrix([[1]], xlabel="x", ylabel="y", unit="u", limit=0, **T),
    "other domains": lambda: figures.bars({"solo": {"a": [1]}, "fedavg": {"b": [1]}}, **T),
    "percent in a bar": lambda: figures.bars({"solo": {"a": [87]}}, **T),
    "negative bar": lambda: figures.bars({"solo": {"a": [-1]}}, share=False, **T),
    "labels": lambda: figures.tsne_panels({"a": FEATURES}, LABELS[:5], **T),
    "class names": lambda: figures.tsne_panels({"a": FEATURES}, LABELS, class_names=["0"], **T),
    "groups": lambda: figures.tsne_panels({"a": FEATURES}, LABELS, GROUPS[:5], **T),
    "three samples": lambda: figures.embed(FEATURES[:3], seed=0),
    "float images": lambda: figures.contact_sheet({"a": PIXELS / 255}, **T),
    "two channels": lambda: figures.contact_sheet({"a": PIXELS[:, :2]}, **T),
    "column names": lambda: figures.contact_sheet({"a": PIXELS}, ["0"], **T),
    "no pair": lambda: figures.accuracy_against_bytes({"solo": ([0],)}, **T),
    "negative bytes": lambda: figures.accuracy_against_bytes({"solo": ([-1], [0.5])}, **T),
    "half an image": lambda: figures.class_histogram({"a": [0.5]}, **T),
    "other classes": lambda: figures.class_histogram({"a": [1], "b": [1, 2]}, **T),
    "seeds": lambda: figures.finding("a", "b", [0.1], [0.1, 0.2]),
    "negative count": lambda: figures.human_bytes(-1),
    "no figure": lambda: figures.show("figure.png", WORDS),
    "no table": lambda: figures.show(EXAMPLES["curves, cut"](), WORDS, table=[1]),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_clear_error(name):
    with pytest.raises(FedtutorError) as caught:
        BAD[name]()
    assert isinstance(caught.value, (DataError, SettingError))
    assert caught.value.what and caught.value.where and caught.value.do


def _with_id(figure: Figure, gid: str) -> list:
    return figure.findobj(lambda artist: artist.get_gid() == gid)


def _caption(figure: Figure) -> str:
    (text,) = (t for t in figure.texts if t.get_gid() == "caption")
    return text.get_text().replace("\n", " ")


def _size(png) -> tuple[int, int]:
    import base64

    return Image.open(io.BytesIO(png if isinstance(png, bytes) else base64.b64decode(png))).size
