"""What looks saw: the first seed live, the others from a file."""

import json
from functools import partial
from importlib import import_module

import numpy as np
import pytest
import torch

from fedtutor import measures
from fedtutor.engine.files import ROOT
from fedtutor.errors import SettingError, StorageError
from fedtutor.experiments import commits, looks, stored
from fedtutor.rounds import epoch_loss


def spread_of(fed):
    """A look: something of every kind that can be kept."""
    weights = [client.model.state_dict() for client in fed.clients]
    first = next(iter(weights[0].values()))
    return {
        "round": fed.round_, "first": first, "kinds": (np.float32(0.1), float("nan"), None),
        3: [np.arange(2), first.double().numpy().mean()],
    }  # fmt: skip


def round_of(fed, *, times: int = 1):
    return times * fed.round_


@pytest.fixture(autouse=True)
def named(monkeypatch, tmp_path):
    """The looks of this file as if they stood in `measures`, recorded into an empty folder."""
    for function in (spread_of, round_of):
        monkeypatch.setattr(function, "__module__", "fedtutor.measures")
        monkeypatch.setattr(measures, function.__name__, function, raising=False)
    monkeypatch.setattr(looks, "LOOKS", tmp_path / "looks")
    monkeypatch.setattr(commits, "changed", lambda root=ROOT: [])


@pytest.fixture
def trained(run, monkeypatch):
    """Which (method, seed) a run trains."""
    start = import_module("fedtutor.notebook.start")  # the package has a function of that name
    found, train = [], start.train

    def counted(recipe, method, *, seed, **more):
        found.append((method, seed))
        return train(recipe, method, seed=seed, **more)

    monkeypatch.setattr(start, "train", counted)
    return found


def anew(run):
    """The same notebook in a new kernel."""
    run.results.clear()
    return run


def equal(one, other) -> bool:
    if isinstance(one, torch.Tensor | np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and bool((one == other).all())
    if isinstance(one, dict):
        return list(one) == list(other) and all(equal(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return one == other or (one != one and other != other)


# --- numbers, and back


@pytest.mark.parametrize("value", [
    None, True, 3, 0.1, float("inf"), "text", [1, [2.5]], (1, "a"), {"a": {2: (3,)}},
    np.arange(6).reshape(2, 3), np.float64([0.1, np.nan])[:1], np.array([True, False]),
    torch.randn(3, 2, generator=torch.Generator().manual_seed(0)).t(), torch.tensor(0.1),
    torch.zeros(0, 3), torch.tensor([1, 2], dtype=torch.uint8),
])  # fmt: skip
def test_values_come_back_to_the_bit(value):
    found = looks.unpacked(json.loads(json.dumps(looks.packed(value), allow_nan=False)))
    assert type(found) is type(value) and equal(found, value)


def test_what_is_no_number_is_refused():
    for value in (torch.nn.Linear(1, 1), np.array(["a"]), [object()], {1, 2}):
        with pytest.raises(SettingError, match="a look returned"):
            looks.packed(value)
    with pytest.raises(SettingError, match="a look returned Tensor"):
        looks.packed(torch.zeros(1, dtype=torch.bfloat16))


# --- which seed is trained, which is read


def test_without_a_record_every_seed_is_trained_once(run, trained):
    seen = run.looks("solo", spread_of)
    assert trained == [("solo", 0), ("solo", 1)] and not looks.LOOKS.exists()
    assert [[at["round"] for at in seed] for seed in seen] == [[0, 1, 2]] * 2
    assert not equal(seen[0][2]["first"], seen[1][2]["first"])
    assert equal(run.looks("solo", spread_of), seen) and run("solo", 1).seed == 1
    assert len(trained) == 2  # the result is that of the same training
    run.looks("solo", spread_of, lr=0.5)
    assert len(trained) == 4


def test_a_tuple_is_seen_in_one_training(run, trained):
    seen = run.looks("solo", (spread_of, round_of, partial(round_of, times=10)))
    assert len(trained) == 2
    assert list(seen) == ["spread_of", "round_of", "round_of(times=10)"]
    assert seen["round_of"] == [[0, 1, 2]] * 2 and seen["round_of(times=10)"][1] == [0, 10, 20]
    assert run.looks("solo", round_of) == seen["round_of"] and len(trained) == 2


def test_what_was_recorded_is_read_for_all_but_the_first(run, trained, monkeypatch):
    monkeypatch.setenv("FEDTUTOR_RECORD", "1")
    live = run.looks("solo", (spread_of, round_of))
    assert len(stored.entries(looks.LOOKS)) == 2  # two looks of one seed
    (file,) = looks.LOOKS.rglob("*.jsonl")
    assert file.relative_to(looks.LOOKS).as_posix() == "benchmark/quick/digits-mini.jsonl"
    monkeypatch.delenv("FEDTUTOR_RECORD")
    trained.clear()
    read = anew(run).looks("solo", (spread_of, round_of))
    assert trained == [("solo", 0)] and equal(read, live)
    run.seeds = [1, 0]  # now another one is the first
    assert equal(anew(run).looks("solo", round_of), list(reversed(live["round_of"])))
    assert trained == [("solo", 0), ("solo", 1), ("solo", 0)]


def test_another_setting_look_or_option_is_not_read(run, trained, monkeypatch):
    monkeypatch.setenv("FEDTUTOR_RECORD", "1")
    run.looks("solo", partial(round_of, times=2))
    monkeypatch.delenv("FEDTUTOR_RECORD")
    for look, changes in ((round_of, {}), (partial(round_of, times=3), {}),
                          (partial(round_of, times=2), {"lr": 0.5})):  # fmt: skip
        trained.clear()
        anew(run).looks("solo", look, **changes)
        assert len(trained) == 2
    line = looks.kept(run.recipe, "solo", 1, partial(round_of, times=2))
    assert line.values == [0, 2, 4] and line.options == {"times": 2}
    other = run.recipe.change({"lr": 0.5})  # at its place, but of another setting
    path = looks.path_of(other, "solo", 1, round_of)
    stored.fold({path: {**stored.entry(looks.path_of(
        run.recipe, "solo", 1, partial(round_of, times=2))).value, "options": {}}})  # fmt: skip
    assert looks.kept(other, "solo", 1, round_of) is None


def test_recompute_trains_what_is_recorded(run, trained, monkeypatch):
    monkeypatch.setenv("FEDTUTOR_RECORD", "1")
    run.looks("solo", round_of)
    monkeypatch.delenv("FEDTUTOR_RECORD")
    trained.clear()
    anew(run).looks("solo", round_of, recompute=True)
    assert trained == [("solo", 0), ("solo", 1)]


def test_a_look_has_a_name_in_the_package():
    assert looks.root_of(measures.mmd) == ("measures", "mmd")
    assert looks.root_of(partial(epoch_loss, sizes=[1])) == ("rounds", "epoch_loss")
    assert looks.root_of(lambda fed: 1) is None and looks.root_of(np.mean) is None


# --- mistakes


def test_a_reader_s_own_look_is_trained_and_cannot_be_kept(run, trained, monkeypatch):
    mine = lambda fed: fed.round_  # noqa: E731
    assert run.looks("solo", mine) == [[0, 1, 2]] * 2
    monkeypatch.setenv("FEDTUTOR_RECORD", "1")
    with pytest.raises(SettingError, match="no function of the package") as caught:
        anew(run).looks("solo", mine)
    assert "measures.py" in caught.value.do


def test_wrong_looks_are_told_before_anything_is_trained(run, trained):
    wrong = {
        "two looks are called 'round_of'": (round_of, round_of),
        "'mmd' is no look": "mmd",
        "cannot be written down": partial(round_of, times=torch.ones(1)),
    }
    for words, look in wrong.items():
        with pytest.raises(SettingError, match=words):
            run.looks("solo", look)
    assert not trained


def test_uncommitted_code_records_no_look(run, trained, monkeypatch):
    monkeypatch.setenv("FEDTUTOR_RECORD", "1")
    monkeypatch.setattr(looks, "LOOKS", ROOT / "data" / "looks" / "nowhere")
    monkeypatch.setattr(commits, "changed", lambda root=ROOT: ["fedtutor/rounds.py"])
    with pytest.raises(SettingError, match="uncommitted changes"):
        run.looks("solo", round_of)
    assert trained == [("solo", 0)] and not looks.LOOKS.exists()


def test_a_damaged_line_is_named(run, monkeypatch):
    monkeypatch.setenv("FEDTUTOR_RECORD", "1")
    run.looks("solo", round_of)
    (file,) = looks.LOOKS.rglob("*.jsonl")
    whole = json.loads(file.read_text())
    spoilt = {
        "parts": {**whole, "more": 1},
        "format": {**whole, "format": 2},
        "type": {**whole, "seen": 3},
        "array": {**whole, "seen": [{"tensor": "?"}]},
    }
    for name, value in spoilt.items():
        file.write_text(json.dumps(value) + "\n" + " " * len(name))
        with pytest.raises(StorageError, match="line 1") as caught:
            anew(run).looks("solo", round_of)
        assert "delete that line" in caught.value.do, name


def test_a_large_file_is_written_with_a_warning(run, monkeypatch):
    monkeypatch.setenv("FEDTUTOR_RECORD", "1")
    monkeypatch.setattr(looks, "MOST", 100)
    with pytest.warns(UserWarning, match="more than 0.0001: let its looks return less"):
        run.looks("solo", round_of)
