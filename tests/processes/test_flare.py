"""Through NVIDIA FLARE: equal bits, faults, and nothing left behind."""

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

import pytest
from support.every import NAMES

from fedtutor.errors import SettingError, TrainingError
from fedtutor.processes import launch
from fedtutor.processes.commands import recipe_of
from tools.bench.processes import asked, here

HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)  # of HTTP/2
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
        assert launch.kill(site) == 1

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    return thread


@pytest.mark.slow
def test_a_killed_client_stops_the_run_which_goes_on_later_with_the_same_bits(
    flare, tmp_path, one_thread
):
    run = asked("fccl", rounds=3, client_epochs=[4] * 4)
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
    run = asked("fccl", client_epochs=[8] * 4)
    run.timeout, run.leave_out = 10, True
    killed, said = killer(flare, "site-3", after=1), []
    found = launch.federate(run, say=said.append)
    killed.join()
    assert any("round 2 goes on without street: client street does" in line for line in said)
    (failed,) = found["history"]["failures"]
    assert (failed["round"], failed["client"]) == (2, "street")
    last = found["history"]["accuracy"][-1]["matrix"]
    assert [row is None for row in last] == [False, False, True, False]


@pytest.mark.slow
def test_ctrl_c_leaves_no_process_and_no_folder(tmp_path):
    places = tempfile.mkdtemp(prefix="ft-", dir="/tmp")  # a socket's path must be short
    words = [sys.executable, "-m", "fedtutor", "federate", "fedavg", "--rounds", "50"]
    environment = {**os.environ, "TMPDIR": places, "PYTHONPATH": str(ROOT)}
    # A shell's background job ignores Ctrl-C, and so do its children, if nobody says otherwise
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    started = subprocess.Popen(words, cwd=tmp_path, env=environment, text=True, preexec_fn=heard,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    while "round 1" not in started.stdout.readline():
        assert started.poll() is None, started.stderr.read()
    assert len(launch.of_place(places)) >= 5  # a server and four sites
    started.send_signal(signal.SIGINT)
    said, wrong = started.communicate(timeout=60)
    assert started.returncode == 130 and "stopped" in said, wrong
    assert launch.of_place(places) == [] and not list(Path(places).glob("fedtutor-*"))
    shutil.rmtree(places)


class Near:
    """A client's site of FLARE, in this process: `job` is what it was started with."""

    def __init__(self, job):
        from fedtutor.processes.flare import FlareClient

        self.made, self.name = FlareClient(**job), "site-1"

    def __call__(self, timeout):
        return self.made


def test_a_client_with_other_data_or_code_is_refused_before_round_1():
    from fedtutor.processes.flare import FlareServer, Wire, code, require_same

    scenario, *_ = FlareServer(**asked("fedavg").job())._parts()
    same = Wire({"mnist": Near(asked("fedavg").job())}, 5)
    require_same(same, code(), scenario.fingerprint)
    with pytest.raises(TrainingError, match="client mnist has other code") as error:
        require_same(same, "an older one", scenario.fingerprint)
    assert error.value.where == "before round 1"
    other = Wire({"mnist": Near(asked("fedavg", **{"scenario.private_size": 40}).job())}, 5)
    with pytest.raises(TrainingError, match="client mnist has other data"):
        require_same(other, code(), scenario.fingerprint)


def test_a_fault_at_a_client_reaches_the_server_in_words():
    from fedtutor.processes.flare import Wire

    wire = Wire({"mnist": Near(asked("fedavg").job())}, timeout=5)
    with pytest.raises(TrainingError, match="no longer has its state"):
        wire("mnist", "unpacked", "none")
    with pytest.raises(TrainingError, match="AttributeError"):
        wire("mnist", "no_such_call")


def test_a_client_whose_process_is_not_up_yet_is_asked_again(monkeypatch):
    from nvflare.collab import CollabCallError

    from fedtutor.processes import flare as module

    class Late(Near):
        asked = 0

        def call(self, message):
            self.asked += 1
            if self.asked < 3:
                raise CollabCallError("site-1", "call", TimeoutError("no cell"))
            return self.made.call(message)

        def __call__(self, timeout):
            return self

    monkeypatch.setattr(module, "PATIENCE", 0.01)
    late = Late(asked("fedavg").job())
    wire = module.Wire({"mnist": late}, timeout=5)
    assert wire("mnist", "ready", "", "")["id"] == "mnist" and late.asked == 3
    late.asked = 0
    with pytest.raises(TrainingError, match="client mnist does not answer"):
        wire("mnist", "row", False)  # one that was up is given up


@pytest.mark.slow
def test_over_grpc_a_stranger_without_a_certificate_does_not_get_in(one_thread):
    run, answers = asked("fedavg"), []

    def knock(line):
        (kits,) = Path(tempfile.gettempdir()).glob("fedtutor-*/kits/fedtutor/prod_00")
        answers.append(
            (knocked(kits, with_certificate=True), knocked(kits, with_certificate=False))
        )

    found = launch.federate(run, way="provisioned", say=knock)
    assert answers == [(True, False)] * 2
    assert_equal(found["history"], here(run))


def knocked(kits: Path, *, with_certificate: bool) -> bool:
    """Whether the server speaks with somebody who knows its address and its root certificate."""
    startup = kits / "site-1" / "startup"
    port = json.loads((startup / "fed_client.json").read_text())
    port = int(port["servers"][0]["service"]["target"].rpartition(":")[2])
    context = ssl.create_default_context(cafile=startup / "rootCA.pem")
    context.set_alpn_protocols(["h2"])
    context.check_hostname = False
    if with_certificate:
        context.load_cert_chain(startup / "client.crt", startup / "client.key")
    try:
        with (
            socket.create_connection(("localhost", port), timeout=5) as plain,
            context.wrap_socket(plain) as secured,
        ):
            secured.sendall(HELLO)
            return bool(secured.recv(9))
    except (ssl.SSLError, ConnectionError):
        return False


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


@pytest.mark.parametrize("starts", [1, 2])
def test_processes_that_did_not_find_each_other_start_once_more(starts, monkeypatch):
    played, said = [], []

    def play(place):
        played.append(place)
        if len(played) <= starts:
            for who, word in (
                ("server", "failed to sync clients ['site-1']"),
                ("site-1", "refused"),
            ):
                (place / "sites" / who).mkdir(parents=True)
                (place / "sites" / who / "error_log.txt").write_text(f"{word}\n")
        else:
            (place / "out" / "run.json").write_text('{"history": 1}')
        (place / "console_log.txt").write_text("started\n")

    monkeypatch.setattr(launch, "_played", play)
    if starts == 1:
        assert launch.federate(asked("fccl"), say=said.append)["history"] == 1
    else:
        with pytest.raises(TrainingError, match=r"server: failed to sync.*; site-1: refused"):
            launch.federate(asked("fccl"), say=said.append)
    assert len(played) == 2 and "start once more" in said[0]


def test_without_flare_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setattr(launch.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SettingError, match=r"(?s)FLARE is not there.*fedtutor\[engine\]"):
        launch.federate(asked("fccl"))
