"""A notebook's run, for tests of what it calls."""

import pytest
from support.notebook_run import notebook_run

from fedtutor.experiments import results


@pytest.fixture
def run(monkeypatch, tmp_path):
    """A notebook's run on tiny data, with nothing recorded."""
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    return notebook_run()
