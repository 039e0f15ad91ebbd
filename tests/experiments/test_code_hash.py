"""A hash of the code follows what decides numbers: no less, no more."""

import ast
import linecache
import subprocess
import sys
from dataclasses import dataclass
from functools import partial

import pytest
from torch import nn

from fedtutor import methods, models, scenarios
from fedtutor.experiments.code_hash import OURS, PACKAGE, Code, changed, code_of
from fedtutor.methods.fedavg import FedAvg
from fedtutor.models import Architecture
from fedtutor.models import networks as nets
from fedtutor.scenarios import mini

METHODS = sorted(methods.METHODS)  # before a test enters more


def edited(*changes: tuple[str, str, str]) -> Code:
    """The package with texts replaced: (module, old, new)."""
    sources = dict(OURS.sources)
    for module, old, new in changes:
        assert old in sources[module], (module, old)
        sources[module] = sources[module].replace(old, new)
    return Code(sources)


def of(method="fedcsd", networks=("small_cnn",), scenario="mnist-mini", **options) -> str:
    found = code_of(method, networks, scenario, **{"virtual": False, **options})
    assert found["hash"], found
    return found["hash"]


def stale_methods(code: Code) -> set[str]:
    return {name for name in METHODS if of(name, code=code) != of(name)}


# --- what makes a result stale


def test_another_loss_is_another_code_of_those_who_use_it_alone():
    code = edited(("losses.fedcsd", "return cross_entropy(z, y) + mu * class_similarity",
                   "return cross_entropy(z, y) - mu * class_similarity"))  # fmt: skip
    assert stale_methods(code) == {"fedcsd"}


def test_a_shared_loss_concerns_all_who_follow_it():
    code = edited(("losses.basic", "def proximal_term(", "def proximal_term(_more, "))
    assert stale_methods(code) == {"fedprox"}
    code = edited(("losses.fedcsd", "def class_prototypes(", "def class_prototypes(_more, "))
    assert {"fedcsd", "fedproto", "fedlgd"} <= stale_methods(code) < set(METHODS)


def test_a_class_concerns_those_that_extend_it_and_its_helpers_count():
    found = stale_methods(edited(("methods.fedavg", "def average(", "def average(_more, ")))
    assert {"fedavg", "fedprox", "fedcsd"} <= found and "solo" not in found
    code = edited(("methods.fedcsd", "alpha=alpha) if w", "alpha=1 - alpha) if w"))
    assert stale_methods(code) == {"fedcsd"}
    code = edited(("methods.fedcsd", "alpha: float = 0.9", "alpha: float = 0.8"))
    assert stale_methods(code) == {"fedcsd"}


@pytest.mark.parametrize("module, old, new", [
    ("rounds", "client.steps += 1", "client.steps += 2"),
    ("engine.batches", "if parts and len(last) == 1", "if parts and len(last) <= 2"),
    ("clients", "self.steps", "self.stepped"),
    ("channel", "def size(", "def size(_more, "),
    ("engine.optimizers", "_foreach_add_(steps, 1)", "_foreach_add_(steps, 2)"),
    ("randomness", ">> 1", ">> 2"),
    ("measures", "def accuracy(", "def accuracy(_more, "),
    ("models.base", "to_empty(device=generator.device).train()", "to_empty().train()"),
    ("models.layers", "def initialize(", "def initialize(_more, "),
    ("engine.batches", "AHEAD = 2**20", "AHEAD = 2**10"),
])  # fmt: skip
def test_what_plays_the_rounds_concerns_everybody(module, old, new):
    assert stale_methods(edited((module, old, new))) == set(METHODS)


def test_a_network_concerns_its_runs_alone():
    code = edited(("models.networks", "conv(16, 32, 5, bias=True, norm=norm)",
                   "conv(16, 32, 3, bias=True, norm=norm)"))  # fmt: skip
    assert of(code=code) != of()
    assert of(networks=["small_mixer"], code=code) == of(networks=["small_mixer"])
    assert of(networks=["small_mixer", "small_cnn"], code=code) != of(
        networks=["small_mixer", "small_cnn"]
    )
    code = edited(("models.layers", "class MixerLayer(nn.Module):\n",
                   "class MixerLayer(nn.Module):\n    more = 1\n\n"))  # fmt: skip
    assert of(networks=["small_mixer"], code=code) != of(networks=["small_mixer"])
    assert of(code=code) == of()


def test_options_of_a_network_count(monkeypatch):
    before = of(networks=["small_convnet"])
    wider = partial(nets.convnet_features, depth=3, width=17)
    monkeypatch.setitem(models.MODELS, "small_convnet", Architecture(wider, "", 8))
    assert of(networks=["small_convnet"]) != before
    own = partial(nets.resnet, blocks=(1,), block=nets.bottleneck)
    monkeypatch.setitem(models.MODELS, "small_convnet", Architecture(own, "", 8))
    other = edited(("models.layers", "def bottleneck(", "def bottleneck(_more, "))
    assert of(networks=["small_convnet"], code=other) != of(networks=["small_convnet"])
    assert of(networks=["resnet10"], code=other) == of(networks=["resnet10"])


def test_a_scenario_concerns_its_runs_alone():
    code = edited(("scenarios.mini", 'bundled.enlarge(bundled.optical_digits(), 4)',
                   'datasets.enlarge(datasets.optical_digits(), 2)'))  # fmt: skip
    assert of(scenario="digits-mini", code=code) != of(scenario="digits-mini")
    assert of(code=code) == of()
    code = edited(
        ("scenarios.partitions", "def dirichlet_partition(", "def dirichlet_partition(_more, ")
    )
    assert of(code=code) != of()
    assert of(scenario="digits-mini", code=code) == of(scenario="digits-mini")


def test_of_the_table_of_data_sets_those_count_that_a_scenario_names():
    code = edited(("datasets.catalog", "_tree(arrays.usps", "_tree(arrays.idx"))
    assert of(scenario="digits-partial", code=code) != of(scenario="digits-partial")
    assert of(scenario="cifar10", code=code) == of(scenario="cifar10")
    code = edited(("datasets.arrays", "def usps(", "def usps(_more, "))
    assert of(scenario="digits-partial", code=code) != of(scenario="digits-partial")
    assert of(scenario="cifar10", code=code) == of(scenario="cifar10")


def test_distillation_concerns_those_who_distil():
    code = edited(("distillation", "def distilled(", "def distilled(_more, "))
    assert of("fedavg", virtual=True, code=code) != of("fedavg", virtual=True)
    assert of("fedavg", virtual=False, code=code) == of("fedavg", virtual=False)


# --- what does not


class Rewrite(ast.NodeTransformer):
    """Other docstrings, no type annotations, other words in errors."""

    def visit_Expr(self, node):
        text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return ast.Expr(ast.Constant("Other words.")) if text else node

    def visit_arg(self, node):
        node.annotation = ast.Constant("another type")
        return node

    def visit_FunctionDef(self, node):
        self.generic_visit(node)
        node.returns = ast.Constant("another type")
        return node

    def visit_Lambda(self, node):
        return node  # its arguments cannot have types

    def visit_Raise(self, node):
        if isinstance(node.exc, ast.Call) and any(k.arg == "do" for k in node.exc.keywords):
            node.exc = ast.Call(node.exc.func, [ast.Constant("other words")], [])
        return node


def test_comments_formatting_docstrings_annotations_and_words_of_errors_do_not_count():
    sources = {name: ast.unparse(ast.fix_missing_locations(Rewrite().visit(ast.parse(text))))
               for name, text in OURS.sources.items()}  # fmt: skip
    assert sum(map(len, sources.values())) < 0.9 * sum(map(len, OURS.sources.values()))
    other = Code(sources)
    assert stale_methods(other) == set()
    for name in scenarios.SCENARIOS:
        if scenarios.SCENARIOS[name].__module__.startswith(PACKAGE):
            assert of(scenario=name, code=other) == of(scenario=name)


@pytest.mark.parametrize("statement", [
    'if not w:\n        raise SettingError("none", where="w", do="give some")',
    'if not w:\n        raise ModelError',
    'if w is None:\n        raise DataError("no")\n    elif not w:\n        raise StorageError',
    'for one in w:\n        if not one:\n            raise SettingError("none")',
    'for one in w:\n        for two in one:\n            if two:\n                raise DataError',
])  # fmt: skip
def test_what_can_only_refuse_does_not_count(statement):
    assert stale_methods(stated(statement)) == set()


@pytest.mark.parametrize("statement", [
    'if not w:\n        raise TrainingError("none")',  # a run may go on without this client
    'if not w:\n        raise RuntimeError("none")',
    'if not w:\n        w = 1\n        raise SettingError("none")',
    'if not w:\n        raise SettingError("none")\n    else:\n        w = 1',
    'if not (w := w + 1):\n        raise SettingError("none")',
    'for one in w:\n        w = one',
    'for one in (w := w + [1]):\n        if not one:\n            raise SettingError("none")',
    'for one in w:\n        if not one:\n            raise SettingError\n    else:\n        w = 1',
    'raise SettingError("none")',
    'while not w:\n        raise SettingError("none")',
])  # fmt: skip
def test_what_does_more_than_refuse_counts(statement):
    assert "fedcsd" in stale_methods(stated(statement))


def stated(statement: str) -> Code:
    """The package with one more statement in a loss of FedCSD."""
    before = "    return cross_entropy(z, y) + mu * class_similarity"
    return edited(("losses.fedcsd", before, f"    {statement}\n{before}"))


def test_a_statement_that_only_calls_a_check_does_not_count():
    """A check is a function of a module that decides no number, such as the errors."""
    call = "require_limits(self)"
    assert stale_methods(edited(("methods.base", f"        {call}\n", "        pass\n"))) != set()
    other = edited(("methods.base", f"        {call}\n", f"        {call}\n        {call}\n"))
    assert stale_methods(other) == set()
    used = edited(("methods.base", f"        {call}\n", f"        self.limits = {call}\n"))
    assert stale_methods(used) == set(METHODS)
    other = edited(("methods.checks", "def require_limits(", "def require_limits(_more, "))
    assert stale_methods(other) == set()


def test_what_is_new_in_a_file_does_not_count():
    """A method, a loss, a network, a drawing, beside those that a run uses."""
    sources = dict(OURS.sources)
    for name in ("methods.fedcsd", "losses.fedcsd", "models.networks", "figures.drawing", "rounds"):
        sources[name] += "\n\ndef more(x):\n    return x\n"
    sources["methods.more"] = "from .fedavg import FedAvg\n\n\nclass More(FedAvg):\n    pass\n"
    sources["models.networks"] += '\nMODELS["more"] = Architecture(more, "", 1)\n'
    assert stale_methods(Code(sources)) == set()


def test_where_a_definition_stands_does_not_count():
    """The same losses in another file, imported from there."""
    sources = dict(OURS.sources)
    sources["losses.elsewhere"] = sources.pop("losses.fedcsd")
    for name, text in sources.items():
        if name.partition(".")[0] == "losses":
            sources[name] = text.replace("from .fedcsd import", "from .elsewhere import")
    assert stale_methods(Code(sources)) == set()


def test_what_changed_is_named_by_its_file():
    code = edited(("losses.fedcsd", "return cross_entropy(z, y) + mu", "return mu"),
                  ("rounds", "client.steps += 1", "client.steps += 2"))  # fmt: skip
    before = code_of("fedcsd", ["small_cnn"], "mnist-mini")
    after = code_of("fedcsd", ["small_cnn"], "mnist-mini", code=code)
    assert changed(before, after) == ["losses.fedcsd", "rounds"]


# --- what a reader wrote

CELL = """
from dataclasses import dataclass
from fedtutor import losses
from fedtutor.methods import register
from fedtutor.methods.fedavg import FedAvg

WEIGHT = 0.5


def halved(loss):
    return WEIGHT * loss  # half of it


@dataclass
class Mine(FedAvg):
    '''My method.'''

    mu: float = 0.1

    def local_loss(self, client, x, y):
        return halved(losses.cross_entropy(client.model(x), y))
"""


def cell(text: str, number: int) -> type:
    """The class `Mine` of a notebook's cell."""
    name, space = f"/cells/{number}.py", {"__name__": "__main__"}
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    exec(compile(text, name, "exec"), space)
    return space["Mine"]


def of_cell(monkeypatch, text: str, number: int = 1, **options) -> dict:
    monkeypatch.setitem(methods.METHODS, "mine", cell(text, number))
    return code_of("mine", ["small_cnn"], "mnist-mini", **options)


def test_a_method_in_a_cell_counts_with_what_it_uses(monkeypatch):
    first = of_cell(monkeypatch, CELL)
    words = CELL.replace("  # half of it", "").replace("My method", "Another text")
    assert of_cell(monkeypatch, words, 2) == first
    for number, (old, new) in enumerate([
        ("WEIGHT * loss", "loss"), ("WEIGHT = 0.5", "WEIGHT = 0.6"), ("mu: float = 0.1", "mu = 2"),
        ("client.model(x)", "-client.model(x)"), ("losses.cross_entropy", "losses.distillation"),
    ]):  # fmt: skip
        assert of_cell(monkeypatch, CELL.replace(old, new), 3 + number)["hash"] != first["hash"]
    code = edited(("methods.fedavg", "def average(", "def average(_more, "))
    assert of_cell(monkeypatch, CELL, code=code)["hash"] != first["hash"]
    code = edited(("methods.fedcsd", "alpha=alpha) if w", "alpha=1 - alpha) if w"))
    assert of_cell(monkeypatch, CELL, code=code) == first
    other = of_cell(monkeypatch, CELL.replace("WEIGHT * loss", "loss"), 9)
    assert changed(first, other) == ["yours: halved"]


def test_a_method_without_source_is_unknown_code(monkeypatch):
    space = {"__name__": "__main__"}
    exec(CELL, space)
    monkeypatch.setitem(methods.METHODS, "mine", space["Mine"])
    found = code_of("mine", ["small_cnn"], "mnist-mini")
    assert found == {"hash": None, "unknown": "the source of Mine cannot be read"}
    assert code_of("nobody", [], "mnist-mini")["unknown"] == "method 'nobody' is not registered"


@dataclass
class InAFile(FedAvg):
    """Stands in a file of a reader."""

    def local_loss(self, client, x, y):
        return 2 * super().local_loss(client, x, y)


def body(channels, size):
    return nn.Sequential(nn.Flatten(), *[nn.Linear(channels * size**2, 5) for _ in range(1)])


def builder():
    return mini.mnist_mini()


def test_methods_networks_and_scenarios_in_a_file_count(monkeypatch):
    monkeypatch.setitem(methods.METHODS, "mine", InAFile)
    monkeypatch.setitem(models.MODELS, "mine", Architecture(body, "", 1))
    monkeypatch.setitem(models.MODELS, "lambda", Architecture(lambda c, s: nn.Flatten(), "", 1))
    monkeypatch.setitem(scenarios.SCENARIOS, "mine", builder)
    found = code_of("mine", ["mine", "lambda"], "mine")
    named = {name for name in found["files"] if name.startswith("yours")}
    test = "test_methods_networks_and_scenarios_in_a_file_count.<locals>.<lambda>"
    assert named == {f"yours: {name}" for name in ("InAFile", "body", "builder", test)}
    code = edited(("scenarios.mini", "images[order[:1000]]", "images[order[:900]]"))
    assert code_of("mine", ["mine"], "mine", code=code) != code_of("mine", ["mine"], "mine")


# --- in time


@pytest.mark.serial
def test_the_hashes_of_all_results_are_there_in_a_second():
    """Of processor time, in a fresh process; the rest of a run's import is not counted."""
    text = """
import time
from fedtutor import methods
from fedtutor.experiments.code_hash import code_of

began = time.process_time()
for method in methods.METHODS:
    for networks in (["small_convnet"], ["resnet10", "resnet12", "efficientnet_b0"]):
        for scenario in ("digits-mini", "digits-partial", "digits-five-partial"):
            code_of(method, networks, scenario)
assert 6 * len(methods.METHODS) > 167, "as many as there are combinations in data/results"
print(time.process_time() - began)
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 1
