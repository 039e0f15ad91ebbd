"""How many MB an installation takes, counted in the environment that runs this.

    python -m tools.bench.installation    # into data/installation.json
    python -m tools.bench.installation --cpu torch-2.13.0+cpu-...whl    # PyTorch's CPU build

Counted are the files that the installed packages list as theirs: those of requirements.txt with all
that they need, then what the tests, notebook 09 and the workflow add. It takes an environment in
which all of these are installed, on Linux with PyTorch's CUDA builds.
"""

import argparse
import json
import re
import sys
import zipfile
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from fedtutor.engine.files import ROOT, load_json

INSTALLATION = ROOT / "data" / "installation.json"
CUDA = ("nvidia-", "cuda-", "triton")  # what only PyTorch's CUDA builds need
EXTRAS = {"engine": ("nvflare", "psutil"), "workflow": ("snakemake",)}  # as in pyproject.toml


def named(name: str) -> str:
    """The name as packages are compared by: small letters, one kind of dash."""
    return re.sub(r"[-_.]+", "-", name).lower()


def required(path: Path) -> list[Requirement]:
    """What a requirements file asks for, with the files that it includes."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        line = line.partition("#")[0].strip()
        if line.startswith("-r"):
            found += required(path.parent / line.split()[1])
        elif line and not line.startswith("-"):
            found.append(Requirement(line))
    return found


def needed(requirements: list[Requirement]) -> set[str]:
    """Names of the installed packages that these need, they themselves among them."""
    todo, seen = list(requirements), set()
    while todo:
        one = todo.pop()
        key = named(one.name), tuple(sorted(one.extras))
        if key in seen:
            continue
        seen.add(key)
        try:
            lines = metadata.distribution(one.name).requires or []
        except metadata.PackageNotFoundError:
            continue  # for another system
        for other in map(Requirement, lines):
            asked = ({"extra": extra} for extra in ("", *one.extras))
            if other.marker is None or any(map(other.marker.evaluate, asked)):
                todo.append(other)
    return {name for name, _ in seen}


def megabytes(names: set[str]) -> float:
    """What the files of these packages take, in MB (10^6 bytes); what is not installed takes 0."""
    total = 0
    for name in names:
        try:
            files = metadata.distribution(name).files or []
        except metadata.PackageNotFoundError:
            continue
        places = (Path(file.locate()) for file in files)
        total += sum(place.stat().st_size for place in places if place.is_file())
    return total / 1e6


def unpacked(wheel: Path) -> float:
    """What the files in a wheel take, in MB."""
    with zipfile.ZipFile(wheel) as archive:
        return sum(info.file_size for info in archive.infolist()) / 1e6


def measured(cpu: float) -> dict[str, int]:
    """MB by part, rounded to ten; cpu: MB of PyTorch's CPU build."""
    reader = needed(required(ROOT / "requirements.txt"))
    tests = needed(required(ROOT / "requirements-dev.txt"))
    bare = {name for name in reader if not name.startswith(CUDA)} - {"torch"}
    parts = {
        "reader": megabytes(reader),
        "reader, CPU builds": megabytes(bare) + cpu,
        "tests": megabytes(tests - reader),
    }
    for extra, names in EXTRAS.items():
        parts[extra] = megabytes(needed(list(map(Requirement, names))) - tests)
    return {name: int(round(value, -1)) for name, value in parts.items()}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cpu", type=Path, help="a wheel of PyTorch's CPU build; else as before")
    wheel = parser.parse_args(arguments).cpu
    cpu = load_json(INSTALLATION)["cpu"]
    if wheel:
        cpu = {"wheel": wheel.name, "MB": round(unpacked(wheel))}
    parts = measured(cpu["MB"])
    about = {"torch": metadata.version("torch"), "python": sys.version.split()[0], "cpu": cpu}
    INSTALLATION.write_text(json.dumps({**about, "MB": parts}, indent=1) + "\n", encoding="utf-8")
    print(parts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
