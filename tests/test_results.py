"""Committed results: every file can be read, and still is what its recipe says today."""

import re
from pathlib import Path

import pytest

from fedtutor import scenarios
from fedtutor.errors import FedtutorError
from fedtutor.experiments import recipes, results

FILES = sorted(results.RESULTS.rglob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: "-".join(path.parts[-4:]))
def test_a_committed_result_is_that_of_its_recipe(path: Path):
    r = results.load_result(path)
    recipe = recipes.load(
        r.recipe, profile=r.profile, scenario=r.scenario["name"], overrides=r.overrides
    )
    assert results.result_path(recipe, r.method, r.seed) == path
    assert results.recorded(recipe, r.method, r.seed) == r, "its recipe has changed: run it again"


def test_every_folder_of_results_has_its_row():
    readme = (results.RESULTS / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(.+?)` \| .+ \|$", readme, flags=re.MULTILINE)
    folders = {path.parent.relative_to(results.RESULTS).as_posix() for path in FILES}
    assert sorted(rows) == sorted(folders)


def test_data_of_committed_results_are_those_of_today():
    """Where the data are at hand, their fingerprint is the recorded one."""
    seen = {}
    for r in map(results.load_result, FILES):
        key = (r.scenario["name"], str(r.scenario["options"]))
        if key not in seen:
            try:
                built = scenarios.build(r.scenario["name"], **r.scenario["options"])
            except FedtutorError:
                seen[key] = None  # absent here
                continue
            seen[key] = built.fingerprint
        assert seen[key] in (None, r.scenario["fingerprint"]), r.scenario
    assert any(seen.values()) or not FILES
