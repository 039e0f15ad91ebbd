"""Packed images: the same scenarios bit for bit, and nothing that was not asked for."""

import io
import json
import shutil

import numpy as np
import pytest
from PIL import Image

from fedtutor import scenarios
from fedtutor.__main__ import main
from fedtutor.errors import DataError, SettingError
from fedtutor.experiments import commits
from fedtutor.experiments import manifest as queue
from fedtutor.experiments.packing import pack
from fedtutor.scenarios.base import build

MANIFEST = """
[[table]]
name = "one"
paper = "RepShare"
tables = ["1"]
recipe = "repshare"
scenario = "mnist"
overrides = { "scenario.private_size" = 40, "scenario.test_size" = 30, rounds = 1 }
value = 5
seeds = [0]
rows = [{ row = "IL", method = "solo", minutes = 1, gb = 1 }]
columns = [
  { column = "MNIST N=2", overrides = { "scenario.num_clients" = 2, "scenario.min_per_client" = 1 } },
  { column = "CIFAR10 N=2", scenario = "cifar10", overrides = { "scenario.num_clients" = 2, "scenario.min_per_client" = 1 } },
]
"""  # noqa: E501


def noise(count, *shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Samples of MNIST (arrays) and CIFAR-10 (JPEG files), and nothing else."""
    folder = tmp_path / "data"
    for number, split in enumerate(("train", "test")):
        y = np.arange(120) % 10
        (folder / "mnist").mkdir(parents=True, exist_ok=True)
        np.savez(
            folder / "mnist" / f"{split}.npz", images=noise(120, 28, 28, seed=number), labels=y
        )
        files = []
        for image in noise(120, 32, 32, 3, seed=number + 2):
            Image.fromarray(image).save(file := io.BytesIO(), "JPEG")
            files.append(np.frombuffer(file.getvalue(), np.uint8))
        (folder / "cifar10").mkdir(exist_ok=True)
        np.savez(folder / "cifar10" / f"{split}_jpeg.npz", jpeg=np.concatenate(files), labels=y,
                 offsets=np.cumsum([0, *map(len, files)]))  # fmt: skip
    monkeypatch.setenv("FEDTUTOR_DATA", str(folder))
    monkeypatch.setenv("FEDTUTOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FEDTUTOR_OFFLINE", "1")
    queue._absent.cache_clear()
    yield folder
    queue._absent.cache_clear()


@pytest.fixture
def runs(data, tmp_path):
    (tmp_path / "queue.toml").write_text(MANIFEST)
    return queue.load(tmp_path / "queue.toml")


def built(run, **changes):
    return build(run.recipe.scenario, **{**run.recipe.scenario_options, **changes})


def test_scenarios_from_packed_files_are_the_same(runs, tmp_path, monkeypatch, capsys):
    whole = [built(run) for run in runs]
    out = tmp_path / "out"
    assert pack(runs, out) == runs
    assert "2 runs, 4 files" in capsys.readouterr().out
    assert sorted(p.name for p in out.rglob("*.*")) == [
        "commit.json", "test.npz", "test_jpeg.npz", "train.npz", "train_jpeg.npz"
    ]  # fmt: skip
    with np.load(out / "mnist" / "train.npz") as file:
        assert len(file["images"]) == 40 and len(file["labels"]) == 120
    monkeypatch.setenv("FEDTUTOR_DATA", str(out))
    for run, before in zip(runs, whole, strict=True):
        now = built(run)
        assert (now.fingerprint, now.title) == (before.fingerprint, before.title)
        assert now.clients[0].private.x.float().std() > 1  # and not black
    for run in runs:
        with pytest.raises(DataError, match="was packed for other runs"):
            built(run, split_seed=1)


def test_what_was_packed_can_be_packed_again(runs, tmp_path, monkeypatch):
    pack(runs, tmp_path / "out")
    monkeypatch.setenv("FEDTUTOR_DATA", str(tmp_path / "out"))
    pack(runs[1:], tmp_path / "again")
    name = "cifar10/train_jpeg.npz"
    assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "out" / name).read_bytes()


def test_a_file_that_is_needed_whole_is_copied(runs, data, tmp_path):
    run = runs[0]
    all_of_it = {"scenario.private_size": 120, "scenario.test_size": 120}
    run = queue.replace(run, recipe=run.recipe.change(all_of_it))
    pack([run], tmp_path / "out")
    for split in ("train", "test"):
        name = f"mnist/{split}.npz"
        assert (tmp_path / "out" / name).read_bytes() == (data / name).read_bytes()


def test_the_limit_is_kept_and_absent_data_left_out(runs, data, tmp_path, capsys):
    assert pack(runs, tmp_path / "small", limit=0.1) == runs[:1]  # 70 images of 784 bytes
    assert "CIFAR10 N=2, seed 0: does not fit" in capsys.readouterr().out
    size = sum(p.stat().st_size for p in (tmp_path / "small").rglob("*.npz"))
    assert 50_000 < size < 100_000
    with pytest.raises(DataError, match="nothing to pack"):
        pack(runs, tmp_path / "none", limit=0.01)
    shutil.rmtree(data / "mnist")
    queue._absent.cache_clear()
    assert pack(runs, tmp_path / "rest") == runs[1:]
    assert "MNIST N=2, seed 0: left out, MNIST, train, is not here" in capsys.readouterr().out
    with pytest.raises(SettingError, match="is not empty"):
        pack(runs, tmp_path / "rest")


def test_no_pixel_is_read_to_see_whether_data_are_there(runs, monkeypatch):
    def blocks(*arguments):
        raise AssertionError("a pixel was read")

    monkeypatch.setattr("fedtutor.datasets.arrays._selected", blocks)
    assert queue.absent(runs[0]) is None
    with pytest.raises(AssertionError):
        built(runs[0])


def test_pack_and_run_from_the_command_line(runs, tmp_path, monkeypatch, capsys):
    out, manifest = tmp_path / "out", ["--manifest", str(tmp_path / "queue.toml")]
    words = ["queue", "pack", str(out), "--rows", "1", "--results", str(tmp_path / "r"), *manifest]
    assert main(words) == 0 and not (out / "cifar10").exists()
    note = json.loads((out / "commit.json").read_text())
    assert note["code"] == commits.code()
    assert note["commit"] == (commits.git_commit() or {"commit": None})["commit"]
    assert main(["queue", "pack", *manifest, "--results", str(tmp_path / "r")]) == 1
    assert "SettingError: no folder" in capsys.readouterr().err
    monkeypatch.setenv("FEDTUTOR_DATA", str(out))
    queue._absent.cache_clear()
    assert main(["queue", "list", *manifest, "--results", str(tmp_path / "r")]) == 0
    assert "2 runs: 0 done, 1 open with about 1 minutes" in capsys.readouterr().out
    assert set(scenarios.SCENARIOS) >= {"mnist", "cifar10"}
