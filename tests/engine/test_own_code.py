"""A fingerprint of a reader's code changes with the code, and with nothing else."""

import sys
from pathlib import Path

import numpy as np
import pytest

from fedtutor import measures, methods
from fedtutor.engine.own_code import fingerprint, is_readers, modules_of

METHOD = """
from dataclasses import dataclass
from functools import cache, partial, wraps
import helping
from fedtutor.losses import cross_entropy
from fedtutor.methods.fedavg import FedAvg

SCALE = 2.0
TABLE = {"a": [1, 2]}

def twice(fn):
    @wraps(fn)
    def inner(*given):
        return 1 * fn(*given)
    return inner

@cache
def kept(x):
    return x + 3

def deep(x):
    return x * 5

def helper(x, by=SCALE):
    return [deep(v) for v in [x]][0] + TABLE["a"][0]

class Base(FedAvg):
    def inherited(self):
        return 7

class Inner:
    def value(self):
        return 11

@dataclass
class Mine(Base):
    mu: float = 0.5
    limit = 13
    Kind = Inner

    def local_loss(self, client, x, y):
        return SCALE * helper(x) + kept(1) + helping.used(x) + cross_entropy(x, y)

    @twice
    def decorated(self):
        return 17

    @property
    def share(self):
        return 19

    @staticmethod
    def fixed():
        return 23

    def other(self):
        def inside():
            return deep(29)
        return inside()
"""
HELPING = "def used(x):\n    return x + 31\n"


@pytest.fixture
def written(tmp_path, monkeypatch):
    """A function text, helping -> the fingerprint of `Mine` in a module of this text."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(text: str = METHOD, helping: str = HELPING, name: str = "Mine") -> str:
        number = len(list(tmp_path.glob("own_*.py")))
        (tmp_path / "helping.py").write_text(helping)
        (tmp_path / f"own_{number}.py").write_text(text)
        for module in ("helping", f"own_{number}"):
            sys.modules.pop(module, None)
        module = __import__(f"own_{number}")
        monkeypatch.delitem(sys.modules, "helping")
        sys.modules["helping"] = module.helping
        return fingerprint(getattr(module, name))

    yield write
    for name in [n for n in sys.modules if n == "helping" or n.startswith("own_")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return SCALE * helper", "return SCALE + helper"),  # its own code
        ("SCALE = 2.0", "SCALE = 2.5"),  # a value that it names, also as a default
        ("by=SCALE", "by=2.1"),
        ("[1, 2]", "[1, 3]"),  # a value that its helper names
        ("return x * 5", "return x * 6"),  # a helper's helper, called in a comprehension
        ("return x + 3\n", "return x + 4\n"),  # a helper that is cached
        ("return 7", "return 8"),  # of the class that it extends
        ("return 11", "return 12"),  # of a class inside it
        ("limit = 13", "limit = 14"),
        ("return 17", "return 18"),  # below a decorator
        ("return 1 * fn", "return 2 * fn"),  # the decorator
        ("return 19", "return 20"),
        ("return 23", "return 24"),
        ("deep(29)", "deep(30)"),
        ("methods.fedavg import FedAvg", "methods.scaffold import SCAFFOLD as FedAvg"),
        ("losses import cross_entropy", "losses import fd_loss as cross_entropy"),
    ],
)
def test_a_change_of_the_code_is_seen(written, old, new):
    assert METHOD.count(old) == 1
    assert written() != written(METHOD.replace(old, new))


def test_a_change_of_a_module_that_it_names_is_seen(written):
    assert written() != written(helping=HELPING.replace("31", "32"))


@pytest.mark.parametrize(
    "text",
    [
        METHOD,
        METHOD + "\n\ndef nobody_calls(x):\n    return x + 1\n\nUNUSED = 3\n",
        "# a new first line\n\nimport math\n" + METHOD,
    ],
)
def test_what_the_method_does_not_name_changes_nothing(written, text):
    first = written()
    assert len(first) == 16 and int(first, 16) >= 0
    assert written(text) == first


def test_what_is_of_the_package_or_of_a_library_has_none():
    assert fingerprint(methods.make("fccl+"), methods.METHODS["moon"]) == ""
    assert fingerprint(measures.accuracy, np.mean, Path, len, print) == ""
    assert not is_readers(np) and not is_readers(Path) and not is_readers(sys.modules["fedtutor"])
    assert modules_of(type(methods.make("fedavg"))) == []


def test_a_reader_is_whoever_is_neither():
    class Mine(methods.METHODS["fedprox"]):
        pass

    assert is_readers(Mine) and modules_of(Mine) == [sys.modules[__name__]]
    assert fingerprint(Mine) == fingerprint(Mine()) != ""  # a class, or an object of it
    assert fingerprint(test_a_reader_is_whoever_is_neither)
    assert modules_of(None) == []


def make(factor, function=None):
    def measure(fed):
        return factor if function is None else function(fed)

    return measure


def test_what_a_function_encloses_counts():
    assert fingerprint(make(2)) == fingerprint(make(2)) != fingerprint(make(3))
    assert fingerprint(make(2, make(4))) != fingerprint(make(2, make(5)))


def test_functions_that_call_each_other_end():
    def even(n):
        return n == 0 or odd(n - 1)

    def odd(n):
        return n != 0 and even(n - 1)

    assert fingerprint(even) and fingerprint(odd)


def prompt(text: str) -> dict:
    """What a prompt leaves, where nobody keeps the text."""
    names = {"__name__": "__main_of_a_reader__"}
    exec(text, names)
    return names


def test_code_whose_text_nobody_kept_is_known_by_its_byte_code():
    first = prompt("def f(x):\n    return x + g(x)\ndef g(x):\n    return x")
    same = prompt("def f(x):\n    return x + g(x)\ndef g(x):\n    return x")
    other = prompt("def f(x):\n    return x + g(x)\ndef g(x):\n    return -x")
    number = prompt("def f(x):\n    return x + g(x)\ndef g(x):\n    return x + 1")
    two = prompt("def f(x):\n    return x + g(x)\ndef g(x):\n    return x + 2")
    found = [fingerprint(names["f"]) for names in (first, same, other, number, two)]
    assert found[0] == found[1] and len(set(found)) == 4
