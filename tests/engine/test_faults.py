"""On a full disk, on a read-only disk, with damaged files: a run goes on, bit for bit."""

import errno
import os
import tempfile

import pytest
import torch
from support.federations import assert_same_bits, federation, played, weights_of

from fedtutor.engine import files
from fedtutor.errors import StorageError
from fedtutor.rounds import run

# --- disks


def full():
    """No file of this process may grow beyond 600 bytes."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600, hard))
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def read_only():
    """No file can be begun."""

    def refuse(*args, **kwargs):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    patch = pytest.MonkeyPatch()
    patch.setattr(tempfile, "mkstemp", refuse)
    return patch.undo


def out_of_space():
    """The disk takes some bytes and then no more."""
    usual, patch = files._Target.write, pytest.MonkeyPatch()

    def write(target, content):
        if target.file.tell() > 500:
            target.error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            raise target.error
        return usual(target, content)

    patch.setattr(files._Target, "write", write)
    return patch.undo


@pytest.mark.parametrize(
    "break_it, words",
    [(full, "File too large"), (read_only, "Read-only"), (out_of_space, "No space left")],
)
def test_a_disk_that_takes_no_more(break_it, words, tmp_path):
    """One clear error, the files of before, and after that the same bits."""
    options = {"models": ["noisy"], "momentum": 0.9, "keep_optimizer": True, "rounds": 4}
    expected = played("fedavg", **options)

    def breaking(rounds):
        for round_ in rounds:
            if round_ == 3:
                breaking.mend = break_it()
            yield round_

    try:
        with pytest.raises(StorageError, match=f"cannot write round-000003.pt: {words}") as caught:
            run(federation(**options), checkpoint=tmp_path, every=0, progress=breaking)
    finally:
        breaking.mend()
    assert "free some space" in caught.value.do
    assert sorted(p.name for p in tmp_path.iterdir()) == ["round-000001.pt", "round-000002.pt"]
    fed = federation(**options)
    run(fed, checkpoint=tmp_path, every=0)
    assert_same_bits(weights_of(expected), weights_of(fed))


@pytest.mark.parametrize("break_it", [full, read_only, out_of_space])
def test_an_artifact_that_cannot_be_kept_leaves_nothing(break_it, tmp_path):
    fed = federation("solo", artifacts=tmp_path)
    mend = break_it()
    try:
        with pytest.raises(StorageError, match="cannot write stage-"):
            fed.artifact("stage", {}, lambda: {"x": torch.ones(1000)})
    finally:
        mend()
    assert not list(tmp_path.glob("[!.]*")) and not list(tmp_path.glob(".*.pt.[!l]*"))
    assert len(fed.artifact("stage", {}, lambda: {"x": torch.ones(1000)})["x"]) == 1000


def test_a_result_on_a_full_disk_leaves_the_old_one(tmp_path):
    path = tmp_path / "result.json"
    files.save_json(path, {"a": 1})
    mend = full()
    try:
        with pytest.raises(StorageError, match=r"cannot write result.json: File too large"):
            files.save_json(path, {"a": list(range(1000))})
    finally:
        mend()
    assert files.load_json(path) == {"a": 1} and len(list(tmp_path.iterdir())) == 1


# --- damaged checkpoints, and those of others


OPTIONS = {"models": ["noisy"], "momentum": 0.9, "keep_optimizer": True, "rounds": 4}


def cut(path):
    path.write_bytes(path.read_bytes()[:300])


def emptied(path):
    path.write_bytes(b"")


def flipped(path):
    """One bit of a weight."""
    weight = files.load_tensors(path)["tensors"][0].numpy().tobytes()
    content = bytearray(path.read_bytes())
    content[content.index(weight)] ^= 1
    path.write_bytes(content)
    files.load_tensors(path)  # can be read all the same


def other(path):
    torch.save([1, 2], path)


@pytest.mark.parametrize("damage", [cut, emptied, flipped, other])
def test_a_damaged_checkpoint_falls_back_to_the_one_before(damage, tmp_path):
    expected = played("fedavg", **OPTIONS)
    run(federation(**OPTIONS), checkpoint=tmp_path, every=0)
    damage(tmp_path / "round-000004.pt")
    fed = federation(**OPTIONS)
    with pytest.warns(RuntimeWarning, match=r"round-000004.pt is damaged.*from round-000003.pt"):
        run(fed, checkpoint=tmp_path, every=0)
    assert_same_bits(weights_of(expected), weights_of(fed))
    assert {**fed.history, "seconds": 0} == {**expected.history, "seconds": 0}
    files.load_tensors(tmp_path / "round-000004.pt")  # made anew


def test_where_all_are_damaged_the_newest_is_named(tmp_path):
    run(federation(**OPTIONS), checkpoint=tmp_path, every=0)
    for path in tmp_path.iterdir():
        cut(path)
    with pytest.raises(StorageError, match=r"round-000004\.pt is damaged"):
        run(federation(**OPTIONS), checkpoint=tmp_path)


@pytest.mark.parametrize(
    "change, words",
    [({"lr": 0.06}, "lr = 0.05, here 0.06"), ({"seed": 1}, "seed = 0, here 1"),
     ({"method": "solo"}, "method = fedavg, here solo"),
     ({"parameters": {"weighting": "uniform"}}, "fedavg.weighting = samples, here uniform"),
     ({"drop_last": True}, "drop_last = False, here True")],
)  # fmt: skip
def test_a_checkpoint_of_another_run_is_refused_by_name(change, words, tmp_path):
    run(federation(), checkpoint=tmp_path)
    with pytest.raises(StorageError, match=r"round-000003\.pt belongs to another") as caught:
        run(federation(**change), checkpoint=tmp_path)
    assert words in caught.value.what
