"""Results of other code are named and played again; uncommitted code records nothing."""

import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from support.recorded import git, made, recipe

from fedtutor.__main__ import main
from fedtutor.engine.checkpoints import Checkpoints
from fedtutor.engine.files import ROOT, save_json
from fedtutor.errors import SettingError
from fedtutor.experiments import (
    arenas,
    attack_list,
    commits,
    jobs,
    manifest,
    recording,
    stale,
)
from fedtutor.experiments import results as evidence
from fedtutor.experiments import run as running
from fedtutor.experiments.environment import environment, made_by
from fedtutor.experiments.rehearsal import rehearse
from fedtutor.experiments.results import load_result, result_path, save_result
from fedtutor.experiments.worker import work
from fedtutor.notebook.start import start


def spoil(path: Path, **code) -> None:
    """As if other code had recorded it; with no `code`, before results knew theirs."""
    value = json.loads(path.read_text())
    if code:
        value["environment"]["code"] |= code
    else:
        del value["environment"]["code"]
    save_json(path, value)


@pytest.fixture
def kept(tmp_path):
    """Three results in a folder: as they are, of other code, and of unknown code."""
    paths = []
    for seed in range(3):
        paths.append(result_path(recipe(), "fedavg", seed, folder=tmp_path))
        save_result(made(seed=seed), paths[-1])
    files = json.loads(paths[1].read_text())["environment"]["code"]["files"]
    spoil(paths[1], hash="another", files={**files, "rounds": "another"})
    spoil(paths[2])
    return paths


def said(caught) -> list[str]:
    return [str(w.message) for w in caught if str(w.message).startswith("recorded by other code")]


# --- what a result knows, and what is said of it


def test_a_result_whose_code_has_only_moved_is_not_stale(kept):
    files = load_result(kept[0]).environment["code"]["files"]
    spoil(kept[0], files={f"{name}-once": file for name, file in files.items()})
    about, settings = load_result(kept[0]).environment, vars(recipe().settings)
    assert stale.standing("fedavg", settings, "digits-mini", about) == (stale.CURRENT, "")


def test_a_result_knows_its_code_and_processor(kept):
    found = load_result(kept[0]).environment
    assert found["code"] == stale.code_now("fedavg", vars(recipe().settings), "digits-mini")
    assert {"rounds", "methods.fedavg", "models.layers", "scenarios.base"} <= set(
        found["code"]["files"]
    )
    assert found["instructions"]["torch"] == torch.backends.cpu.get_cpu_capability()
    assert "\n" not in found["processor"]
    if Path("/proc/cpuinfo").exists():
        assert found["processor"] in Path("/proc/cpuinfo").read_text() or not found["processor"]


def test_variables_that_cap_the_processor_are_noted(monkeypatch):
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    monkeypatch.delenv("MKL_CBWR", raising=False)
    found = environment()["instructions"]
    assert found["ONEDNN_MAX_CPU_ISA"] == "AVX2" and "MKL_CBWR" not in found


def test_the_state_of_every_result_is_told(kept, tmp_path):
    frame = stale.states(tmp_path)
    assert list(frame["state"]) == ["current", "stale", "unknown"]
    assert list(frame["changed"]) == ["", "rounds", stale.BEFORE]
    value = json.loads(kept[0].read_text())
    value["environment"]["git"] = {"commit": "ab" * 20, "dirty": True}
    save_json(kept[0], value)
    (tmp_path / "foreign.json").write_text("[1]")
    frame = stale.states(tmp_path)
    assert bool(frame["dirty"].iloc[0]) and len(frame) == 3
    total = stale.counts(frame).iloc[-1]
    assert dict(total[["results", "stale", "unknown", "current"]]) == {
        "results": 3, "stale": 1, "unknown": 1, "current": 1
    }  # fmt: skip


def test_the_command_lists_what_is_stale(kept, tmp_path, capsys):
    assert main(["stale", "--results", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "1 stale (its code has changed), 1 of unknown code" in out and "of 3" in out
    assert "start/quick/digits-mini/fedavg-seed1: stale" in out and "rounds" in out
    assert "fedavg-seed2" not in out
    assert main(["stale", "--all", "--results", str(tmp_path)]) == 0
    assert "fedavg-seed2: unknown" in capsys.readouterr().out
    assert main(["stale", "--results", str(tmp_path / "nowhere")]) == 1
    assert "no folder nowhere" in capsys.readouterr().err


def test_a_long_list_is_cut_and_says_so(kept, tmp_path, monkeypatch):
    monkeypatch.setattr(stale, "FIRST", 0)
    assert stale.in_words(stale.states(tmp_path)).endswith("and 1 more: --all lists them")


def test_unknown_code_is_not_stale_and_says_why(monkeypatch):
    about = {"code": {"hash": None, "unknown": "the source of Mine cannot be read"}}
    settings = vars(recipe().settings)
    told = stale.standing("fedavg", settings, "digits-mini", about)
    assert told == ("unknown", "the source of Mine cannot be read")
    about = {"code": {"hash": "ab", "files": {}}}
    state, words = stale.standing("nobody", settings, "digits-mini", about)
    assert state == "unknown" and words == "here method 'nobody' is not registered"


# --- who reads them


def test_other_code_is_read_with_a_warning_and_unknown_code_without(kept, tmp_path):
    for seed, expected in ((0, 0), (1, 1), (2, 0)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = evidence.recorded(recipe(), "fedavg", seed, folder=tmp_path)
        assert found == load_result(kept[seed]) and len(said(caught)) == expected


def test_a_notebook_is_warned_once_for_all_seeds(tmp_path, monkeypatch):
    monkeypatch.setattr(evidence, "RESULTS", tmp_path)
    monkeypatch.delenv("FEDTUTOR_RECORD", raising=False)
    for seed in (0, 1):
        path = result_path(recipe(), "fedavg", seed, folder=tmp_path)
        save_result(made(seed=seed), path)
        spoil(path, hash="another")
    names = {"profile": "quick", "scenario": None, "seeds": [0, 1], "methods": ["solo"],
             "device": "cpu", "overrides": {}}  # fmt: skip
    begun = start(names, recipe="start")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = begun.recorded("fedavg")
    (words,) = said(caught)
    assert "2 results, fedavg seed 0 on digits-mini" in words and len(results) == 2
    played = []
    monkeypatch.setattr(type(begun), "_train", lambda self, r, m, s, **o: played.append((m, s)))
    monkeypatch.setattr(stale, "warn", lambda results: None)
    begun.results.clear()
    monkeypatch.setenv("FEDTUTOR_RECORD", "1")
    begun.recorded("fedavg")
    assert played == [("fedavg", 0), ("fedavg", 1)]  # `refresh --record` makes them anew


def test_the_queue_has_it_to_do_again(kept, tmp_path):
    runs = [manifest.Run(
        table="t", paper="p", tables=(), row="FedAvg", column="", recipe=recipe(), method="fedavg",
        seed=seed, value=1.0, minutes=1.0, gb=0.1, first=0.0, parts=1,
    ) for seed in range(3)]  # fmt: skip
    found, faults = manifest.survey(runs, tmp_path)
    assert set(found) == set(kept) and not faults
    assert set(manifest.valid(found)) == {kept[0], kept[2]}
    told = manifest.overview(runs, found, tmp_path, tmp_path / "states")
    assert "0, 2" in told and "1 (its code has changed)" in told
    told = manifest.totals(runs, [runs[1]], tmp_path / "states", again=1)
    assert "2 done, 1 open" in told and told.endswith("; 1 to do again (its code has changed)")


def test_the_benchmark_has_it_to_do_again(tmp_path, monkeypatch):
    left = recording.missing("digits-mini", folder=tmp_path, names=["solo"])
    asked, method, seed = left[0]
    path = result_path(asked, method, seed, folder=tmp_path)
    save_result(made(method, seed=seed, given=asked), path)
    assert len(recording.missing("digits-mini", folder=tmp_path, names=["solo"])) == len(left) - 1
    spoil(path, hash="another")
    assert len(recording.missing("digits-mini", folder=tmp_path, names=["solo"])) == len(left)
    said = []
    monkeypatch.setattr(jobs, "alone", lambda task: left)
    recording.record("digits-mini", minutes=0, folder=tmp_path, say=said.append)
    assert said[0].endswith("1 of them again (its code has changed)")


def test_a_failure_of_other_code_is_tried_again(tmp_path, monkeypatch):
    asked, method, seed = recording.missing("digits-mini", folder=tmp_path, names=["solo"])[0]
    entry = {"what": "diverged", "asked": arenas.asked_of(asked, method),
             "environment": made_by(asked, method)}  # fmt: skip
    path = arenas.failure_file(asked, method, seed, tmp_path)
    save_json(path, entry)
    assert recording._done(asked, method, seed, tmp_path)
    entry["environment"]["code"] |= {"hash": "another"}
    save_json(path, entry)
    assert not recording._done(asked, method, seed, tmp_path)
    assert arenas.kept(asked, method, seed, tmp_path)["what"] == "diverged"


def test_what_notebook_07_reads_warns_once(run, tmp_path):
    inside = arenas.in_arena(run.recipe, "one network")
    for seed in run.seeds:
        path = result_path(inside, "fedavg", seed, folder=tmp_path)
        save_result(made(seed=seed, given=inside), path)
        spoil(path, hash="another")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        entry = arenas.gather(run, "one network", only=["fedavg"])["fedavg"]
    assert len(said(caught)) == 1 and len(entry.results) == 2


def test_a_checkpoint_of_other_code_is_not_gone_on_from(tmp_path, monkeypatch):
    small = recipe(overrides={"rounds": 2, "local_epochs": 1, "scenario.private_size": 20})

    def play():
        kept = Checkpoints(tmp_path / "states", every=120)
        return running.run(small, "solo", seed=0, threads=1, checkpoint=kept)

    first, resumed = play(), play()  # nothing is left to be played
    assert resumed.headline == first.headline and "work" not in resumed.totals
    about = made_by(small, "solo")
    other = {**about, "code": {**about["code"], "hash": "another"}}
    monkeypatch.setattr(running, "made_by", lambda *given: other)
    with pytest.warns(RuntimeWarning, match="other code: the run begins anew"):
        again = play()
    assert "work" in again.totals and again.headline == first.headline


# --- nothing of uncommitted code


@pytest.fixture
def clone(tmp_path):
    """A repository with one commit of a package, recipes and results."""
    for name in ("fedtutor/losses/basic.py", "data/recipes/start.toml", "data/results/README.md"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("a")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    return tmp_path


@pytest.mark.parametrize("name", [
    "fedtutor/losses/basic.py", "fedtutor/new method.py", "data/recipes/start.toml",
])  # fmt: skip
def test_uncommitted_code_records_nothing_below_data(clone, name):
    results = clone / "data" / "results"
    commits.require_committed(results, root=clone)
    (clone / "data/results/README.md").write_text("b")  # decides no number
    commits.require_committed(results, root=clone)
    (clone / name).write_text("b")
    for folder in (results, results / "deep" / "er", clone / "data" / "attacks"):
        with pytest.raises(SettingError, match="uncommitted changes") as caught:
            commits.require_committed(folder, root=clone)
        assert name in caught.value.what and "commit them first" in caught.value.do
    commits.require_committed(clone / "build", root=clone)  # a reader's own
    git(clone, "add", ".")
    with pytest.raises(SettingError):
        commits.require_committed(results, root=clone)
    git(clone, "commit", "-q", "-m", "second")
    commits.require_committed(results, root=clone)


def test_a_file_that_is_gone_is_uncommitted_too(clone):
    (clone / "fedtutor/losses/basic.py").unlink()
    assert commits.changed(clone) == ["fedtutor/losses/basic.py"]
    assert commits.git_commit(clone)["dirty"] is True


def test_outside_a_clone_the_packed_note_counts(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDTUTOR_DATA", str(tmp_path))
    results = tmp_path / "data" / "results"
    commits.require_committed(results, root=tmp_path)  # nobody says anything
    note = {"commit": "ab12", "dirty": True, "code": commits.code()}
    save_json(tmp_path / "commit.json", note)
    with pytest.raises(SettingError, match="noted here as uncommitted"):
        commits.require_committed(results, root=tmp_path)
    save_json(tmp_path / "commit.json", {**note, "dirty": False})
    commits.require_committed(results, root=tmp_path)


@pytest.fixture
def dirty(monkeypatch):
    monkeypatch.setattr(commits, "changed", lambda root=ROOT: ["fedtutor/rounds.py"])
    monkeypatch.setattr("fedtutor.federation.Federation.__init__", lambda *a, **k: 1 / 0)


RECORDERS = {
    "run": lambda folder: running.run(recipe(), "solo", seed=0, folder=folder),
    "queue": lambda folder: work([None], minutes=1, results=folder, kept=folder),
    "benchmark": lambda folder: recording.record("digits-mini", minutes=1, folder=folder,
                                                 names=["vhl"]),
    "rehearse": lambda folder: rehearse("start", names=["solo"], folder=folder),
    "attacks": lambda folder: attack_list.study("memory", recompute=True, keep=True),
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDERS)
def test_every_command_that_records_asks_first(name, dirty, monkeypatch):
    monkeypatch.setattr("fedtutor.experiments.worker.in_order", lambda runs, kept: runs)
    monkeypatch.setattr(jobs, "alone", lambda task: [(recipe(), "solo", 0)])
    with pytest.raises(SettingError, match=r"uncommitted changes: fedtutor/rounds\.py"):
        RECORDERS[name](ROOT / "data" / "nowhere")
    assert not (ROOT / "data" / "nowhere").exists()


def test_refresh_asks_before_the_first_notebook(dirty, capsys, monkeypatch):
    monkeypatch.delenv("FEDTUTOR_RECORD", raising=False)
    assert main(["refresh", "--only", "00", "--record"]) == 1
    assert "uncommitted changes" in capsys.readouterr().err
    assert "FEDTUTOR_RECORD" not in os.environ


def test_a_copy_with_an_edited_loss(tmp_path):
    """From the commit to an edit: results turn stale, nothing is recorded, a trial says dirty."""
    for name in ("fedtutor", "data/recipes", "data/bundled"):
        shutil.copytree(ROOT / name, tmp_path / name,
                        ignore=shutil.ignore_patterns("__pycache__"))  # fmt: skip
    (tmp_path / ".gitignore").write_text("__pycache__/\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")

    def play(names: list[str], folder: Path) -> str:
        text = f"""
from fedtutor.experiments import recipes
from fedtutor.experiments.run import run
small = {{"rounds": 1, "local_epochs": 1, "scenario.private_size": 20}}
asked = recipes.load("start", profile="quick", overrides=small)
for name in {names!r}:
    run(asked, name, seed=0, threads=1, folder={str(folder)!r})
"""
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        done = subprocess.run([sys.executable, "-c", text], cwd=tmp_path, env=environment,
                              capture_output=True, text=True)  # fmt: skip
        return done.stderr

    assert play(["fedprox", "fedavg"], tmp_path / "data" / "results") == ""
    loss = tmp_path / "fedtutor" / "losses" / "basic.py"
    text = loss.read_text()
    old = text[text.index("def proximal_term") :]
    new = old.replace("return ", "return 2 * ", 1)
    assert old != new
    loss.write_text(text.replace(old, new))
    said = play(["fedprox"], tmp_path / "data" / "results")
    assert "uncommitted changes: fedtutor/losses/basic.py" in said
    assert play(["fedprox"], tmp_path / "mine") == ""
    (mine,) = (tmp_path / "mine").rglob("*.json")
    assert load_result(mine).environment["git"]["dirty"] is True
    command = [sys.executable, "-m", "fedtutor", "stale", "--results", "data/results"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True,
                          env={**os.environ, "PYTHONPATH": str(tmp_path)}).stdout  # fmt: skip
    listed = [line for line in told.splitlines() if ": stale" in line]
    assert len(listed) == 1 and "fedprox" in listed[0] and "losses.basic" in listed[0]
