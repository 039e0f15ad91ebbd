"""Files are read once as long as they stay as they are."""

import json
import os

import pytest

from fedtutor.engine.files import load_json, once_per_version, save_json
from fedtutor.errors import StorageError


def test_a_file_is_read_again_only_where_it_has_changed(tmp_path):
    path, asked = tmp_path / "a.json", []

    @once_per_version
    def read(path):
        asked.append(path)
        return load_json(path)

    path.write_text(json.dumps({"a": 1}))
    assert read(path) is read(path) and asked == [path]
    before = path.stat().st_mtime_ns
    path.write_text(json.dumps({"a": 2}))  # as many letters
    os.utime(path, ns=(before + 1, before + 1))
    assert read(path) == {"a": 2} and len(asked) == 2
    path.unlink()
    with pytest.raises(StorageError, match="is not there"):
        read(path)
    path.write_text("{")
    for _ in range(2):  # a failure is not kept
        with pytest.raises(StorageError, match="damaged"):
            read(path)
    path.write_text("{}")
    assert read(path) == {}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}])
def test_what_is_no_json_is_one_clear_error_and_what_was_there_stays(tmp_path, value):
    path = tmp_path / "a.json"
    save_json(path, {"a": 1})
    with pytest.raises(StorageError, match=r"a\.json is no JSON"):
        save_json(path, {"a": [value]})
    assert load_json(path) == {"a": 1} and list(tmp_path.iterdir()) == [path]
