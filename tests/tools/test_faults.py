"""Killed at seeded moments: a run goes on, bit for bit."""

import signal

import pytest

from tools import faults

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return faults.whole_run(tmp_path_factory.mktemp("whole"))


@pytest.mark.slow
@pytest.mark.parametrize("k", range(5))
def test_killed_at_a_seeded_moment(whole, k, tmp_path):
    counts, expected = whole
    moment = faults.moments(counts, 5, seed=17)[k]
    assert faults.killed_and_resumed(moment, tmp_path) == expected


def test_every_place_has_events_and_moments_are_seeded(whole):
    counts, _ = whole
    assert counts["training"] == 60  # 3 clients, 5 rounds, 2 epochs of two batches
    assert counts["result"] == 4  # begun, whole, before and after it is renamed
    assert counts["checkpoint"] > 5 * 4 and counts["distillation"] > 3 * 6
    assert counts["notebook"] == sum(n for place, n in counts.items() if place != "notebook")
    drawn = faults.moments(counts, 20, seed=3)
    assert drawn == faults.moments(counts, 20, seed=3) != faults.moments(counts, 20, seed=4)
    assert len(set(drawn)) == 20 and [place for place, _ in drawn[:5]] == list(faults.PLACES)
