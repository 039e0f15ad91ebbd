"""What every test finds: small networks by name, tables that are put back."""

import os

import hypothesis
import pytest
import torch

pytest.register_assert_rewrite("support")

from support.federations import NETWORKS  # noqa: E402  only now, to be rewritten

from fedtutor import models  # noqa: E402
from fedtutor.methods import METHODS  # noqa: E402
from fedtutor.scenarios.base import SCENARIOS  # noqa: E402

hypothesis.settings.register_profile("a machine may be busy", deadline=None)
hypothesis.settings.load_profile("a machine may be busy")


NEEDS = {  # marker: whether it is here, what is missing
    "gpu": (torch.cuda.is_available, "no GPU"),
    "data": (lambda: os.environ.get("FEDTUTOR_DATA"), "FEDTUTOR_DATA is not set"),
}


def pytest_runtest_setup(item):
    for name, (here, missing) in NEEDS.items():
        if item.get_closest_marker(name) and not here():
            pytest.skip(missing)


@pytest.fixture(autouse=True)
def small_networks(monkeypatch):
    for name, network in NETWORKS.items():
        monkeypatch.setitem(models.MODELS, name, network)


@pytest.fixture
def own_tables():
    """What a test registers is gone after it."""
    tables = (METHODS, models.MODELS, SCENARIOS)
    before = [dict(table) for table in tables]
    yield
    for table, kept in zip(tables, before, strict=True):
        table.clear()
        table.update(kept)


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    """An IPython session without a kernel, and without a trace in the home folder."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    InteractiveShell.clear_instance()
    config = Config({"HistoryAccessor": {"enabled": False}})
    folder = str(tmp_path_factory.mktemp("ipython"))
    yield InteractiveShell.instance(config=config, ipython_dir=folder)
    InteractiveShell.clear_instance()


@pytest.fixture
def two_threads():
    """PyTorch computes with two threads, as on a reader's machine: who sets one is noticed."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def one_thread():
    """Tiny layers: threads would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
