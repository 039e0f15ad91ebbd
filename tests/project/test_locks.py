"""The lock files name what requirements.txt and requirements-dev.txt ask for, exactly."""

import re

import pytest

from fedtutor.engine.files import ROOT

PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s\\]+)", re.M)
GPU = re.compile(r"nvidia-|cuda-|triton$")


def pins(name: str) -> dict[str, str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    found = [(package.lower().replace("_", "-"), v) for package, v in PIN.findall(text)]
    assert len(dict(found)) == len(found) > 5
    return dict(found)


READER, TESTS, CPU, CUDA = (
    pins(f"requirements{part}.txt") for part in ("", "-dev", "-lock-linux-cpu", "-lock-linux-cuda")
)
WANTED = {**READER, **TESTS}


def test_no_package_is_pinned_twice():
    assert not READER.keys() & TESTS.keys() and len(WANTED) > 25


@pytest.mark.parametrize("lock", [CPU, CUDA], ids=["cpu", "cuda"])
def test_a_lock_has_every_pin(lock):
    differing = {name: (version, lock.get(name)) for name, version in WANTED.items()
                 if lock.get(name, "").removesuffix("+cpu") != version}  # fmt: skip
    assert not differing, "requirements.txt has changed: make the lock anew, see its first lines"


def test_the_two_locks_differ_in_the_gpu_alone():
    assert {n: v for n, v in CUDA.items() if not GPU.match(n)} == {
        name: version.removesuffix("+cpu") for name, version in CPU.items()
    }
    assert [n for n, v in CPU.items() if v.endswith("+cpu")] == ["torch", "torchvision"]
    assert sum(map(bool, map(GPU.match, CUDA))) > 10 and not any(map(GPU.match, CPU))


def test_every_line_of_the_cuda_lock_has_a_checksum():
    text = (ROOT / "requirements-lock-linux-cuda.txt").read_text(encoding="utf-8")
    blocks = re.split(r"^(?=[a-z])", text, flags=re.M)[1:]
    assert len(blocks) == len(CUDA) and all("--hash=sha256:" in block for block in blocks)


@pytest.mark.parametrize("name", ["cpu", "cuda"])
def test_a_lock_names_no_place_but_pytorchs(name):
    text = (ROOT / f"requirements-lock-linux-{name}.txt").read_text(encoding="utf-8")
    places = re.findall(r"\w+://[^\s]+", text)
    assert places == ["https://download.pytorch.org/whl/cpu"] * (name == "cpu")
    assert "file:" not in text and " @ " not in text
