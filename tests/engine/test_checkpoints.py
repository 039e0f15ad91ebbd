"""Kill a run at any moment: nothing is half written, and it goes on bit for bit."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from support.federations import assert_same_bits, federation, played, weights_of
from support.runs import resumed, stop_after

from fedtutor.engine import files
from fedtutor.engine.checkpoints import Checkpoints
from fedtutor.errors import StorageError
from fedtutor.methods import Method
from fedtutor.rounds import run

OPTIONS = {"models": ["noisy"], "optimizer": "adam", "keep_optimizer": True, "lr": 0.01,
           "record": {"names": ["weights"], "rounds": [1]}, "rounds": 4}  # fmt: skip


@pytest.mark.parametrize("method", ["solo", "central", "fedavg", "fedprox"])
@pytest.mark.parametrize("stopped", [0, 1, 3])
def test_a_resumed_run_has_the_same_bits(method, stopped, tmp_path):
    whole, fed = resumed(method, tmp_path, stopped, **OPTIONS)
    assert len(fed.history["seconds"]) == 4
    assert len(fed.channel.messages) == len(whole.channel.messages)
    assert [c.steps for c in fed.clients] == [c.steps for c in whole.clients]


def test_only_the_last_two_are_kept(tmp_path):
    run(federation(rounds=5), checkpoint=tmp_path, every=0)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["round-000004.pt", "round-000005.pt"]


def test_the_interval_is_respected(tmp_path):
    run(federation(rounds=5), checkpoint=tmp_path, every=1e9)
    assert [p.name for p in tmp_path.iterdir()] == ["round-000005.pt"]


def test_a_finished_run_is_not_repeated(tmp_path):
    run(federation(), checkpoint=tmp_path)
    fed = federation()
    run(fed, checkpoint=tmp_path, progress=stop_after(0))
    assert fed.round_ == 3 and len(fed.history["loss"]) == 3


def test_a_truncated_checkpoint_is_one_clear_error(tmp_path):
    run(federation(), checkpoint=tmp_path)
    file = tmp_path / "round-000003.pt"
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(StorageError, match="damaged") as caught:
        run(federation(), checkpoint=tmp_path)
    assert "delete the file" in caught.value.do


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    run(federation(), checkpoint=tmp_path)
    for other in ({"seed": 1}, {"lr": 0.06}, {"method": "solo"}):
        with pytest.raises(StorageError, match="another run"):
            run(federation(**other), checkpoint=tmp_path)


def test_nothing_is_unpickled(tmp_path):
    torch.save({"identity": Path("x")}, tmp_path / "round-000001.pt")
    with pytest.raises(StorageError, match="damaged"):
        run(federation(), checkpoint=tmp_path)


def test_networks_in_state_are_refused(tmp_path):
    @dataclass
    class Careless(Method):
        name = "careless"

        def after_local(self, client):
            client.state["teacher"] = [torch.nn.Linear(1, 1)]

    with pytest.raises(StorageError, match="a Linear cannot be kept"):
        run(federation(Careless()), checkpoint=tmp_path)


def test_a_folder_that_cannot_be_written_is_one_clear_error(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with pytest.raises(StorageError, match="cannot write"):
        run(federation(), checkpoint=blocked / "folder")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_folder_is_one_clear_error(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match="cannot write"):
        run(federation(), checkpoint=tmp_path)


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "result.json"
    files.save_json(path, {"a": 1})

    def fail(name):
        Path(name).write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(StorageError, match="No space left"):
        files.write_atomically(path, fail)
    assert files.load_json(path) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]


CHILD = """
import sys
sys.path[:0] = sys.argv[1:2]
import pytest
from support.federations import NETWORKS, federation
from fedtutor import models
from fedtutor.rounds import run
models.MODELS.update(NETWORKS)
fed = federation("fedavg", models=["noisy"], rounds=60, momentum=0.9, keep_optimizer=True)
def say(rounds):
    for r in rounds:
        print(r, flush=True)
        yield r
run(fed, checkpoint=sys.argv[2], every=0, progress=say)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
def test_sigkill_at_several_moments(tmp_path):
    """Kill the process in the middle of its work, again and again; then let it finish."""
    options = {"models": ["noisy"], "rounds": 60, "momentum": 0.9, "keep_optimizer": True}
    whole = played("fedavg", **options)
    call = [sys.executable, "-c", CHILD, str(Path(__file__).parents[1]), str(tmp_path)]
    for moment, rest in ((3, 0.0), (15, 0.004), (33, 0.011)):
        child = subprocess.Popen(call, stdout=subprocess.PIPE, text=True)
        for line in child.stdout:
            if int(line) >= moment:
                time.sleep(rest)
                break
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        for path in tmp_path.glob("round-*.pt"):
            files.load_tensors(path)  # whole
    fed = federation("fedavg", **options)
    run(fed, checkpoint=tmp_path, every=0)
    assert_same_bits(weights_of(whole), weights_of(fed))
    assert json.dumps({**whole.history, "seconds": 0}) == json.dumps({**fed.history, "seconds": 0})


# --- small checkpoints


def test_equal_tensors_are_kept_once_and_come_back_apart(tmp_path):
    run(federation("fedavg", rounds=1), checkpoint=tmp_path)
    value = files.load_tensors(tmp_path / "round-000001.pt")
    assert len(value["tensors"]) == 8  # weight and bias of three clients and the server
    kept = Checkpoints(tmp_path / "equal", every=0)
    kept.save(federation("solo"), last=True)  # all clients have the initial weights
    assert len(files.load_tensors(kept.files()[0])["tensors"]) == 2
    again = federation("solo")
    assert kept.restore(again)
    first, second = (c.model.classifier.weight for c in again.clients[:2])
    with torch.no_grad():
        first += 1
    assert not torch.equal(first, second)


def test_what_every_round_makes_anew_is_not_kept(tmp_path):
    parameters = {"pretrain_epochs": 1}
    fed = federation("fccl", optimizer="adam", parameters=parameters)
    run(fed, checkpoint=tmp_path)
    holders = files.load_tensors(tmp_path / "round-000003.pt")["holders"]
    for client in fed.clients:
        assert set(client.models) == {"model", "previous", "pretrained"}
        assert set(holders[client.id]["models"]) == {"model"}
        assert holders[client.id]["optimizer"] is None
    run(fed := federation("fccl", keep_optimizer=True, parameters=parameters), checkpoint=None)
    kept = Checkpoints(tmp_path / "kept", every=0)
    kept.save(fed, last=True)
    holders = files.load_tensors(kept.files()[0])["holders"]
    assert all(holders[client.id]["optimizer"] for client in fed.clients)
