"""The slider: the plain figure in batch, a widget for a reader, the same picture in both."""

import warnings
from copy import deepcopy

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError

from fedtutor import figures
from fedtutor.engine.files import ROOT
from fedtutor.errors import DataError, SettingError
from fedtutor.notebook.slider import WIDGET, is_live, slider

WORDS = "Bars of accuracy, one bar per method; the second method is always higher than the first."
SETUP = f"""
from fedtutor import figures
from fedtutor.notebook.slider import is_live, slider

def draw(value):
    return figures.bars({{"solo": {{"all": [0.1]}}, "fedavg": {{"all": [value]}}}},
                        title=f"FedAvg at {{value:g}}")

words = {WORDS!r}
"""
STATIC = 'slider(draw, name="share", values=[0.2, 0.5, 0.9], start=0.5, description=words)'
PLAIN = "figures.show(draw(0.5), words)"
FORCED = STATIC[:-1] + ", live=True)"
MOVE = """
from ipywidgets import Widget, SelectionSlider
from ipywidgets.widgets.widget import _instances
moved = next(w for w in _instances.values() if isinstance(w, SelectionSlider))
moved.value = 0.9
"""


def draw(value) -> Figure:
    return figures.bars({"solo": {"all": [value]}}, title=f"A share of {value:g}")


def executed(*sources: str) -> nbformat.NotebookNode:
    """The cells, executed. Now and then a kernel never answers: then another one is asked, once."""
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    for patience in (60, 240):
        notebook = nbformat.v4.new_notebook(cells=deepcopy(cells))
        options = {"kernel_name": "python3", "record_timing": False, "timeout": patience}
        place = {"metadata": {"path": str(ROOT)}}
        try:
            return NotebookClient(notebook, resources=place, **options).execute()
        except CellTimeoutError as error:
            late = error
            warnings.warn(f"no answer from a kernel within {patience} s", stacklevel=2)
    raise late


@pytest.fixture(scope="module")
def batch():
    patch = pytest.MonkeyPatch()
    patch.setenv("TQDM_DISABLE", "1")
    yield executed(SETUP, STATIC, PLAIN)
    patch.undo()


@pytest.fixture(scope="module")
def forced():
    patch = pytest.MonkeyPatch()
    patch.delenv("TQDM_DISABLE", raising=False)
    yield executed(SETUP, FORCED, MOVE, STATIC)
    patch.undo()


def test_in_batch_it_is_the_plain_figure_and_nothing_else(batch):
    _, ours, plain = batch.cells
    assert len(ours.outputs) == 2  # the figure, and its description folded below
    assert ours.outputs == plain.outputs
    assert "widgets" not in batch.metadata


def test_a_batch_tool_gets_no_widget_even_without_the_variable(forced, batch):
    assert forced.cells[3].outputs == batch.cells[1].outputs


def test_forced_it_is_a_widget_with_a_text_for_those_who_cannot_see_it(forced):
    setup, ours, *_ = forced.cells
    assert not setup.outputs  # no warnings either
    (output,) = ours.outputs
    assert WIDGET in output.data and "image/png" not in output.data
    assert output.data["text/plain"] == f"Slider for share, from 0.2 to 0.9. {WORDS}"


def test_the_slider_redraws_the_figure_below_it(forced):
    assert not forced.cells[2].outputs
    models = list(forced.metadata.widgets["application/vnd.jupyter.widget-state+json"]
                  ["state"].values())  # fmt: skip
    names = {m["model_name"]: m["state"] for m in models}
    assert names["SelectionSliderModel"]["_options_labels"] == ["0.2", "0.5", "0.9"]
    assert names["SelectionSliderModel"]["index"] == 2
    shown, _ = names["OutputModel"]["outputs"]
    assert shown["metadata"]["image/png"]["alt"].startswith("FedAvg at 0.9.")
    assert names["VBoxModel"]["children"]


@pytest.mark.parametrize(
    ("metadata", "variable", "live"),
    [({"cellId": "a1"}, "", True), ({"cellId": "a1"}, "1", False), ({}, "", False)],
)
def test_a_reader_is_there_if_the_request_names_its_cell(metadata, variable, live):
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(ROOT))
    try:
        code = (f"import os; os.environ['TQDM_DISABLE'] = {variable!r}\n"
                "from fedtutor.notebook.slider import is_live; print(is_live())")  # fmt: skip
        message = client.session.msg(
            "execute_request", {"code": code, "silent": False}, metadata=metadata
        )
        client.shell_channel.send(message)
        asked, printed, done = message["header"]["msg_id"], "", False
        while not done:  # until the kernel says that it is idle again
            heard = client.get_iopub_msg(timeout=120)
            if heard["parent_header"].get("msg_id") == asked:
                printed += heard["content"].get("text", "")
                done = heard["content"].get("execution_state") == "idle"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert printed.strip() == str(live)


def test_without_a_kernel_nobody_is_there():
    assert not is_live()


def test_show_gets_the_figure_and_its_description():
    seen = []

    def show(figure, text):
        seen.append((figure.get_suptitle(), text))
        plt.close(figure)

    slider(draw, name="β", values=[0.1, 0.5], description="one", show=show)
    slider(draw, name="β", values=[0.1, 0.5], start=0.5, description="one", show=show)
    assert seen == [("A share of 0.1", "one"), ("A share of 0.5", "one")]


@pytest.mark.parametrize("live", [False, True])
def test_figures_do_not_pile_up(live):
    before = plt.get_fignums()
    for _ in range(3):
        slider(draw, name="β", values=[0.1, 0.5], description=WORDS, live=live)
    assert plt.get_fignums() == before


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"values": [0.1]}, "two or more different"),
        ({"values": []}, "two or more different"),
        ({"values": [1, 1.0]}, "two or more different"),
        ({"start": 7}, "choose one of: 0.1, 0.5"),
        ({"name": " "}, "give a word"),
        ({"description": "too short"}, "8 words"),
    ],
)
def test_bad_settings_are_refused(change, wrong):
    good = {"name": "β", "values": [0.1, 0.5], "description": WORDS}
    with pytest.raises(SettingError, match=wrong):
        slider(draw, **good | change)


def test_what_is_no_figure_is_refused():
    with pytest.raises(DataError, match="matplotlib Figure"):
        slider(lambda value: value, name="β", values=[1, 2], description=WORDS)


def test_committed_notebooks_hold_no_widget():
    for path in (ROOT / "notebooks").rglob("[0-9]*.ipynb"):
        notebook = nbformat.read(path, as_version=4)
        assert "widgets" not in notebook.metadata, path.name
        outputs = [o for c in notebook.cells for o in c.get("outputs", [])]
        assert not any(WIDGET in o.get("data", {}) for o in outputs), path.name
