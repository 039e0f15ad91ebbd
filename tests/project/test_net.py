"""What each method, option, setting, network and scenario came to is what it comes to now.

`tools/net.py` plays the entries of `tests/net/net.json` again, and makes its tables again. Where
the processor computes the last digits with which the file was written (the entry "processor
digits"), all of an entry must be equal, bit by bit. Elsewhere names, counts, bytes, messages and
images still must, and numbers be near: training amplifies last digits, and how far is what follows.
"""

import csv
import io
import math

import pytest

from fedtutor.engine.files import load_json
from tools import net

KEPT = load_json(net.NET)
DIGITS = "processor digits"
MEANT = "If it is meant, run `python -m tools.net`, and name methods and reason in the commit."

# Part of an entry: how far numbers may be apart, as a share of them or absolutely. Without AVX
# (ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41) no loss moved by more than 4e-7 of itself,
# no norm by more than 6e-8, no sum / norm by more than 2e-5, and no image was judged otherwise.
NEAR = {"loss": (1e-4, 0), "norms": (1e-4, 0), "sums": (0, 1e-3), "accuracy": (0, 0.051)}
# The gradient of a deep network that nobody has trained: up to 5e-4 of its norm, 0.06 of its sum.
GRADIENTS = {"loss": (1e-3, 0), "norms": (1e-2, 0), "sums": (0, 0.3)}
# The first steps of Adam on public images go by the sign of a gradient, and nearly 0 is either;
# distilled images sum up many steps; bf16 has three digits; batch norm of noise images. A loss
# moved by up to 2 %, a norm by 0.3 %, a sum / norm by 1, an accuracy by 2 of 20 images.
AMPLIFIED = {"loss": (0.1, 0), "norms": (0.02, 0), "sums": (0, math.inf), "accuracy": (0, 0.21)}
AMPLIFY = {"ewc", "fccl", "fccl+", "feddf", "fedlgd", "fedmatch", "fedmd", "kd", "rcfl", "rhfl",
           "vhl", 'precision="bf16"'}  # fmt: skip


@pytest.fixture(scope="module")
def play():
    with net.player() as play:
        yield play


@pytest.fixture(scope="module")
def exact(play) -> bool:
    """Whether this processor computes the last digits of the net."""
    return play(KEPT[DIGITS]["how"]) == KEPT[DIGITS]


def near(name: str) -> dict:
    words = set(name.split())
    return GRADIENTS if "network" in words else AMPLIFIED if words & AMPLIFY else NEAR


def differences(kept: dict, now: dict, apart: dict | None) -> list[str]:
    """The parts of an entry that differ; where they may be `apart`, bits are not looked at."""
    parts = (kept.keys() | now.keys()) - ({"bits", "start"} if apart else set())
    return [
        f"{part}: {str(kept.get(part))[:200]} -> {str(now.get(part))[:200]}"
        for part in sorted(parts)
        if not same(kept.get(part), now.get(part), *(apart or {}).get(part, (0, 0)))
    ]


def same(a, b, share: float, number: float) -> bool:
    """Whether two values of JSON are equal, or their real numbers as near as that."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key], share, number) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        pairs = zip(a, b, strict=False)
        return len(a) == len(b) and all(same(*pair, share, number) for pair in pairs)
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=share, abs_tol=number)
    return a == b


def rows(table: str) -> dict[str, list]:
    """Name of a row -> its cells."""
    return {row[0]: [_real(cell) for cell in row[1:]] for row in csv.reader(io.StringIO(table))}


def _real(cell: str) -> float | str:
    try:
        return float(cell)
    except ValueError:
        return cell


def say(name: str, found: list[str]) -> None:
    if found:
        lines = [f"{name} is not what it was.", *found[:9], f"{len(found)} in all. {MEANT}"]
        pytest.fail("\n".join(lines), pytrace=False)


@pytest.mark.parametrize("name", sorted(KEPT.keys() - {DIGITS}))
def test_an_entry_comes_to_what_it_came_to(name, play, exact):
    kept = KEPT[name]
    say(name, differences(kept, play(kept["how"]), None if exact else near(name)))


@pytest.mark.parametrize("name", ["claims.csv", pytest.param("runs.csv", marks=pytest.mark.slow)])
def test_a_table_is_what_it_was(name):
    kept, now = rows((net.FOLDER / name).read_text(encoding="utf-8")), rows(net.table(name))
    say(name, differences(kept, now, dict.fromkeys(kept.keys() | now.keys(), (1e-9, 0))))


def test_everything_has_its_entry():
    wanted = net.wanted()
    new, gone = sorted(wanted.keys() - KEPT.keys()), sorted(KEPT.keys() - wanted.keys())
    say("the net", [f"new: {name}" for name in new] + [f"gone: {name}" for name in gone])


def test_every_method_came_to_the_same_in_three_ways():
    """One worker, two, and a run that was stopped and resumed."""
    ways = [e["three ways are the same"] for e in KEPT.values() if e["how"][2] == {} and "loss" in e
            and e["how"][0] == "method"]  # fmt: skip
    assert ways and all(ways)


@pytest.mark.parametrize("part", ["bits", "bytes", "loss", "norms", "accuracy"])
def test_the_net_sees_a_change(part):
    kept = KEPT["method fedcsd"]
    other = {"bits": "0", "bytes": [], "accuracy": [[0, "end", None, [[0.9] * 4] * 4]]}
    text = str(kept[part]).replace("2.", "1.").replace(", 1", ", 2")
    changed = {**kept, part: other.get(part, text)}
    assert [said.split(":")[0] for said in differences(kept, changed, None)] == [part]
    assert differences(kept, kept, NEAR) == []
    assert bool(differences(kept, changed, NEAR)) == (part != "bits")
