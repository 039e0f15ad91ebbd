"""Through NVIDIA FLARE: equal bits, faults, and nothing left behind."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from support.every import NAMES
from support.short import asked, here

from fedtutor.errors import SettingError, TrainingError
from fedtutor.processes import launch
from fedtutor.processes.commands import recipe_of

FAMILIES = ("fccl", "fedavg", "fedlgd", "repshare")  # public images, weights, virtual images, peers
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def flare(tmp_path, monkeypatch):
    """FLARE is there, its places are in a folder of the test's own, and all is gone afterwards."""
    pytest.importorskip("nvflare", reason="it is an extra: pip install -e '.[engine]'")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "places"))
    (tmp_path / "places").mkdir()
    yield tmp_path / "places"
    assert list((tmp_path / "places").glob("fedtutor-*")) == []
    assert launch.of_place(tmp_path / "places") == []


def assert_equal(there: dict, ours: dict) -> None:
    for key in ("accuracy", "loss", "bytes", "clients", "tests"):
        assert there[key] == ours[key], key


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_a_method_has_the_bits_of_one_process(name, one_thread):
    said = []
    run = asked(name)
    found = launch.federate(run, say=said.append)
    assert_equal(found["history"], here(run))
    assert [line.split(":")[0] for line in said] == ["round 1", "round 2"]
    assert {"server", "site-1", "site-2"} <= found["memory"].keys()


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("FEDTUTOR_SLOW"), reason="all methods: FEDTUTOR_SLOW=1")
@pytest.mark.parametrize("name", [name for name in NAMES if name not in FAMILIES])
def test_every_method_has_the_bits_of_one_process(name, one_thread):
    run = asked(name)
    assert_equal(launch.federate(run, say=list)["history"], here(run))


def killer(places: Path, site: str, after: int, wait: float = 0.0) -> threading.Thread:
    """Kills the site's process once the server has noted `after` rounds, and `wait` seconds."""

    def noted() -> int:
        files = list(places.glob("fedtutor-*/out/rounds.jsonl"))
        return files[0].read_text().count("\n") if files else 0

    def kill():
        while noted() < after:
            time.sleep(0.05)
        time.sleep(wait)
        for process in launch.of_place(places):
            if site in process.info["cmdline"]:
                process.kill()

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    return thread


@pytest.mark.slow
def test_a_killed_client_stops_the_run_which_goes_on_later_with_the_same_bits(
    flare, tmp_path, one_thread
):
    run = asked("fccl", rounds=3)
    run.states, run.timeout = str(tmp_path / "states"), 15
    killed = killer(flare, "site-2", after=1)
    with pytest.raises(TrainingError, match="client optical does not answer"):
        launch.federate(run, say=list)
    killed.join()
    names = {path.name for path in (tmp_path / "states").iterdir()}
    assert names == {"server", "mnist", "optical", "street", "synthetic"}
    said = []
    found = launch.federate(run, say=said.append)
    assert not any(line.startswith("round 1:") for line in said)  # it went on
    assert_equal(found["history"], here(run))


@pytest.mark.slow
def test_a_round_goes_on_without_a_killed_client(flare):
    run = asked("fccl", on_client_error="leave_out")
    run.timeout = 10
    killed = killer(flare, "site-3", after=1)
    with pytest.warns(RuntimeWarning, match="round 2 goes on without street: client street does"):
        found = launch.federate(run, say=list)
    killed.join()
    (failed,) = found["history"]["failures"]
    assert (failed["round"], failed["client"]) == (2, "street")
    last = found["history"]["accuracy"][-1]["matrix"]
    assert [row is None for row in last] == [False, False, True, False]


@pytest.mark.slow
def test_ctrl_c_leaves_no_process_and_no_folder(tmp_path):
    places = tempfile.mkdtemp(prefix="ft-", dir="/tmp")  # a socket's path must be short
    words = [sys.executable, "-m", "fedtutor", "federate", "fedavg", "--rounds", "50"]
    environment = {**os.environ, "TMPDIR": places, "PYTHONPATH": str(ROOT)}
    started = subprocess.Popen(words, cwd=tmp_path, env=environment, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    while "round 1" not in started.stdout.readline():
        assert started.poll() is None, started.stderr.read()
    assert len(launch.of_place(places)) >= 5  # a server and four sites
    started.send_signal(signal.SIGINT)
    said, wrong = started.communicate(timeout=60)
    assert started.returncode == 130 and "stopped" in said, wrong
    assert launch.of_place(places) == [] and not list(Path(places).glob("fedtutor-*"))
    shutil.rmtree(places)


def test_the_own_recipe_of_a_method():
    assert recipe_of("fccl") == "fccl" and recipe_of("fccl+") == "fccl_plus"
    assert recipe_of("fedprox") == "benchmark"


def test_what_cannot_be_played_is_said_before_a_process_starts(tmp_path):
    with pytest.raises(SettingError, match="no start-up kit"):
        launch.federate(asked("fccl"), way="deployed", kit=tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    with pytest.raises(Exception, match="is not empty"):
        launch.federate(asked("fccl"), keep=tmp_path / "full")


def test_without_flare_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setattr(launch.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SettingError, match=r"(?s)FLARE is not there.*fedtutor\[engine\]"):
        launch.federate(asked("fccl"))
