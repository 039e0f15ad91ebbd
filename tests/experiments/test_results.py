"""Committed results: every file can be read, and still is what its recipe says today."""

import json
import re
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

import pytest
from support.recorded import made, recipe

from fedtutor import scenarios
from fedtutor.errors import FedtutorError, StorageError
from fedtutor.experiments import recipes, results, stored
from fedtutor.experiments.results import RESULTS, load_all, load_result, recorded, result_path
from tools import record

FOLDERS = sorted({path.parent.relative_to(RESULTS) for path in stored.entries(RESULTS)}, key=str)


@pytest.fixture(scope="module")
def committed():
    return load_all(RESULTS)


@cache
def asked_by(name: str, profile: str, scenario: str, overrides: str):
    """The recipe of many results, read once."""
    return recipes.load(name, profile=profile, scenario=scenario, overrides=json.loads(overrides))


def fault(path: Path, r) -> str | None:
    """Why its recipe would not find a result there, or would find another; None if it does."""
    if isinstance(r, StorageError):
        return str(r)
    try:
        asked = asked_by(r.recipe, r.profile, r.scenario["name"], json.dumps(r.overrides))
        if result_path(asked, r.method, r.seed) != path:
            return f"it belongs to {result_path(asked, r.method, r.seed).relative_to(RESULTS)}"
        found = recorded(asked, r.method, r.seed)
    except FedtutorError as error:
        return str(error)
    return None if found == r else "its recipe or its data have changed: run it again"


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_committed_results_are_those_of_their_recipe(folder: Path, committed):
    there = {path: r for path, r in committed.items() if path.parent == RESULTS / folder}
    faults = {path.name: fault(path, r) for path, r in there.items()}
    assert there and not any(faults.values()), "\n".join(
        f"{folder}/{name}: {words}" for name, words in faults.items() if words
    )


def test_every_fault_of_a_result_is_named(committed):
    (path, good), (_, other) = list(committed.items())[:2]
    assert fault(path, good) is None
    assert "belongs to" in fault(path, other)
    assert "run it again" in fault(path, replace(good, parameters={"mu": -1.0}))
    assert "gone" in fault(path, StorageError("gone", where="here", do="nothing"))
    assert "recipe" in fault(path, replace(good, recipe="no such recipe"))


def test_every_folder_of_results_has_its_row():
    readme = (results.RESULTS / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(.+?)` \| .+ \|$", readme, flags=re.MULTILINE)
    assert sorted(rows) == sorted(folder.as_posix() for folder in FOLDERS)


def test_data_of_committed_results_are_those_of_today(committed):
    """Where the data are at hand, their fingerprint is the recorded one."""
    seen = {}
    for r in committed.values():
        key = (r.scenario["name"], str(r.scenario["options"]))
        if key not in seen:
            try:
                built = scenarios.build(r.scenario["name"], **r.scenario["options"])
            except FedtutorError:
                seen[key] = None  # absent here
                continue
            seen[key] = built.fingerprint
        assert seen[key] in (None, r.scenario["fingerprint"]), r.scenario
    assert any(seen.values()) or not FOLDERS


# --- folded


@pytest.fixture
def copy(tmp_path):
    """Runs of two folders, as they were before they were folded: their losses have more digits."""
    for folder in FOLDERS[:1] + FOLDERS[-1:]:
        runs = [(p, r) for p, r in load_all(RESULTS).items() if p.parent == RESULTS / folder]
        for path, r in runs[:30]:
            far = [
                {**row, "values": [v if v is None else v + 1e-9 for v in row["values"]]}
                for row in r.history["loss"]
            ]
            far = replace(r, history={**r.history, "loss": far})
            results.save_result(far, tmp_path / path.relative_to(RESULTS))
    return tmp_path


def rounded(r):
    return stored.rounded(asdict(r))


def test_folding_keeps_every_number_but_the_far_digits_of_a_loss(copy):
    before = load_all(copy)
    assert results.fold(copy) == (len(before), []) and not list(copy.rglob("*.json"))
    after = load_all(copy)
    assert list(after) == list(before) and len(list(copy.rglob("*.jsonl"))) == 2
    for path, old in before.items():
        new = after[path]
        assert asdict(new) == rounded(old) == rounded(new)
        assert new.history["accuracy"] == old.history["accuracy"] and new.headline == old.headline
        for one, other in zip(new.history["loss"], old.history["loss"], strict=True):
            assert one["values"] == pytest.approx(other["values"], abs=5e-7)


def test_folding_again_changes_no_byte_and_the_order_comes_from_the_content(copy):
    results.fold(copy)
    texts = {file: file.read_text() for file in copy.rglob("*.jsonl")}
    assert results.fold(copy) == (0, [])
    assert {file: file.read_text() for file in copy.rglob("*.jsonl")} == texts
    for file, text in texts.items():
        runs = [json.loads(line)["run"] for line in text.splitlines()]
        assert runs == sorted(runs) and text.endswith("\n") and '": ' not in text
        for name in reversed(runs):  # unfolded, and folded one by one from the other end
            r = load_result(file.with_suffix("") / f"{name}.json")
            results.save_result(
                r, copy / "again" / file.parent.relative_to(copy) / file.stem / f"{name}.json"
            )
            results.fold(copy / "again")
        assert (copy / "again" / file.relative_to(copy)).read_text() == text


def test_a_run_of_its_own_wins_over_its_line_until_it_is_folded_too(tmp_path):
    first = made(given=recipe())
    path = result_path(recipe(), "fedavg", 0, folder=tmp_path)
    results.save_result(first, path)
    results.save_result(made(given=recipe(), seed=1), path.with_name("fedavg-seed1.json"))
    results.fold(tmp_path)
    assert not path.exists() and load_result(path) == first
    assert recorded(recipe(), "fedavg", 0, folder=tmp_path) == first
    assert recorded(recipe(), "fedavg", 2, folder=tmp_path) is None
    newer = replace(first, totals={**first.totals, "seconds": 99.0})
    results.save_result(newer, path)
    assert load_result(path) == newer and len(load_all(tmp_path)) == 2
    assert results.fold(tmp_path) == (1, []) and load_result(path) == newer
    assert len(load_all(tmp_path)) == 2


def test_what_is_no_result_or_lies_elsewhere_stays_and_is_named(tmp_path, capsys):
    path = result_path(recipe(), "fedavg", 0, folder=tmp_path)
    results.save_result(made(given=recipe()), path)
    text = path.read_text()
    path.with_name("fedavg-seed1.json").write_text(text)
    path.with_name("fedavg-seed2.json").write_text(text[:300])
    assert record.main(["fold", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "fedavg-seed1.json: it belongs to start/quick/digits-mini/fedavg-seed0.json" in said
    assert "fedavg-seed2.json is damaged" in said and "1 runs folded" in said
    left = sorted(file.name for file in path.parent.iterdir())
    assert left == ["fedavg-seed1.json", "fedavg-seed2.json"] and load_result(path)
    assert record.main(["fold", str(tmp_path / "nowhere")]) == 1
    assert "no folder nowhere" in capsys.readouterr().err


@pytest.mark.parametrize(
    "spoil, hint",
    [
        (lambda line: line[:-9], "line 2 is damaged"),
        (lambda line: line.replace('"run":', '"ran":'), "does not say which run"),
        (lambda line: line.replace("seed1", "seed0"), "there twice"),
        (lambda line: line.replace('"format":1', '"format":9'), "has format 9"),
        (lambda line: re.sub(r'"seconds":[0-9.]+', '"seconds":NaN', line), "NaN is no number"),
    ],
)
def test_a_broken_line_is_named_and_hides_no_other(spoil, hint, tmp_path):
    path = result_path(recipe(), "fedavg", 0, folder=tmp_path)
    for seed in range(3):
        results.save_result(
            made(given=recipe(), seed=seed), path.with_name(f"fedavg-seed{seed}.json")
        )
    results.fold(tmp_path)
    file = stored.folded(path)
    lines = file.read_text().splitlines()
    lines[1] = spoil(lines[1])
    file.write_text("\n".join(lines) + "\n")
    found = load_all(tmp_path)
    (error,) = [r for r in found.values() if isinstance(r, StorageError)]
    assert hint in str(error) and len(found) == 3 and "jsonl, line 2" in error.where
    assert "delete that line" in error.do or "delete it" in error.do  # not all other runs with it
    assert load_result(path).seed == 0


@pytest.mark.parametrize("part", ["headline", "best"])
def test_a_last_digit_is_no_damage_and_a_larger_one_is(part, tmp_path):
    path = result_path(recipe(), "fedavg", 0, folder=tmp_path)
    good = made(given=recipe())
    for factor, sound in ((1 - 2e-16, True), (1 + 5e-16, True), (1 - 1e-9, False), (1.01, False)):
        moved = {**getattr(good, part)}
        moved["intra"] *= factor  # as another Python's `sum` may round it
        changed = replace(good, **{part: moved})
        if sound:
            results.save_result(changed, path)
            assert load_result(path).seed == 0
        else:
            with pytest.raises(StorageError, match="not those of the history"):
                results.save_result(changed, path)


def test_a_file_that_changes_is_read_again(tmp_path):
    path = result_path(recipe(), "fedavg", 0, folder=tmp_path)
    results.save_result(made(given=recipe()), path)
    assert load_result(path) is load_result(path)
    results.save_result(replace(made(given=recipe()), paper="another"), path)
    assert load_result(path).paper == "another"
    path.unlink()
    with pytest.raises(StorageError, match="is not there"):
        load_result(path)
