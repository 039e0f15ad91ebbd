"""Which code made a result: a hash of what decides a run's numbers, over its meaning.

One rule. From a run's roots (the federation, the round loop, its method, its networks, the builder
of its scenario) names are followed to the functions, classes and constants of this package that
they stand for, and from there on. The syntax tree of each counts, wherever it stands, without
comments, docstrings, type annotations and the words of errors. What a reader wrote, in a cell or in
a file, is followed in the same way. Whatever is installed beside us is not: a result names its
versions.
"""

import ast
import hashlib
import linecache
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FunctionType, ModuleType

from .. import methods, models, scenarios

PACKAGE = __name__.partition(".")[0]
HOME = Path(__file__).resolve().parents[1]
ROOTS = (("federation", "Federation"), ("rounds", "run"), ("experiments.results", "accuracies"))
# These decide no number: words, checks, files, and what a stopped run goes on from with equal bits.
LEFT_OUT = {"errors", "engine.kinds", "engine.files", "engine.checkpoints", "datasets.cache"}
SETS = ("datasets.catalog", "SETS")  # of this table those entries count that a run's texts name
DISTILS = ("distillation", "prepare")  # returns at once where the setting virtual_ipc is 0
UNTOLD = {"ctx", "kind", "type_comment", "type_params", "annotation", "returns"}
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
PLAIN = (bool, int, float, complex, str, bytes, type(None))


class NoSource(Exception):
    """What a reader wrote cannot be read; the words say whose source is missing."""


def code_of(method: str, networks: Iterable[str], scenario: str, *, virtual: bool = True,
            code: "Code | None" = None) -> dict:  # fmt: skip
    """{"hash", "files"} of the code that a run uses; {"hash": None, "unknown": why} if unreadable.

    `networks` are names of `models.MODELS`; `virtual`: whether images are distilled. "files" has a
    hash per file of the package, over what the run uses of it, and one per definition of a reader.
    """
    asked = [("method", method, methods.METHODS), ("scenario", scenario, scenarios.SCENARIOS)]
    asked += [("network", name, models.MODELS) for name in networks]
    used = Used(code or OURS)
    for kind, name, table in asked:
        if name not in table:
            return {"hash": None, "unknown": f"{kind} {name!r} is not registered"}
        try:
            used.root(f"{kind} {name}", getattr(table[name], "features", table[name]))
        except NoSource as error:
            return {"hash": None, "unknown": str(error)}
    return used.summary(virtual)


def changed(before: dict, after: dict) -> list[str]:
    """Files, and definitions of a reader, that differ between two answers of `code_of`."""
    one, other = before.get("files", {}), after.get("files", {})
    return sorted(name for name in {**one, **other} if one.get(name) != other.get(name))


def told(node, mentioned: list) -> str:
    """What counts of a syntax tree, the same for every Python; `mentioned` grows by its names."""
    if isinstance(node, list):
        return f"[{','.join(told(part, mentioned) for part in node if not _silent(part))}]"
    if isinstance(node, ast.Raise):
        error = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        return f"raise {told(error, [])}"
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.Name | ast.Attribute | ast.Constant):
        mentioned.append(node)
    parts = [f"{name}={told(value, mentioned)}" for name, value in ast.iter_fields(node)
             if name not in UNTOLD and value is not None and value != []]  # fmt: skip
    return f"{type(node).__name__}({','.join(parts)})"


def _silent(node) -> bool:
    text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return text or isinstance(node, ast.Import | ast.ImportFrom)


def _hex(text: str, digits: int = 12) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


@dataclass(frozen=True)
class Definition:
    """What counts of a function, class or constant: its hash, the keys it uses, texts in it."""

    hash: str
    uses: frozenset
    texts: frozenset


class Module:
    """The top level of a module: name -> statements that make it, imported name -> its origin."""

    def __init__(self, name: str, text: str, package: bool):
        self.statements: dict[str, list[ast.stmt]] = {}
        self.imports: dict[str, tuple[str, str]] = {}  # (module, name in it)
        tree, up = ast.parse(text), name.split(".") if name else []
        for node in tree.body:
            targets = getattr(node, "targets", [getattr(node, "target", None)])
            made = {part.id for target in targets if target for part in ast.walk(target)
                    if isinstance(part, ast.Name)}  # fmt: skip
            for own in made or {getattr(node, "name", None)} - {None}:
                self.statements.setdefault(own, []).append(node)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.level:
                home = up[: len(up) - node.level + package] + [node.module] * bool(node.module)
                for alias in node.names:
                    self.imports[alias.asname or alias.name] = ".".join(home), alias.name


class Code:
    """A package as text: `sources` has module -> text, such as "methods.fccl" -> its file.

    A definition's key is (module, name).
    """

    def __init__(self, sources: dict[str, str]):
        self.sources, self._modules, self._definitions = sources, {}, {}
        self._packages = {name.rpartition(".")[0] for name in sources}
        self.summaries = {}

    def module(self, name: str) -> Module:
        if name not in self._modules:
            self._modules[name] = Module(name, self.sources[name], name in self._packages)
        return self._modules[name]

    def find(self, module: str, name: str):
        """What `name` stands for in a module: a key, a module's name, or None: nothing of ours."""
        own = self.module(module)
        origin = own.imports.get(name)
        if origin and origin != (module, name) and origin[0] in self.sources:
            return self.find(*origin)
        if name in own.statements:
            return module, name
        below = f"{module}.{name}".lstrip(".")
        return below if below in self.sources else None

    def _meant(self, module: str, node: ast.AST):
        """The same for a name or an attribute in the module's code."""
        if isinstance(node, ast.Name):
            return self.find(module, node.id)
        inside = self._meant(module, node.value) if isinstance(node, ast.Attribute) else None
        return self.find(inside, node.attr) if isinstance(inside, str) else None

    def definition(self, key: tuple) -> Definition:
        """(module, name), or (*SETS, name of a data set): one row of that table."""
        if key not in self._definitions:
            nodes, mentioned = self.module(key[0]).statements[key[1]], []
            if len(key) == 3:
                nodes = [self.sets()[key[2]]]
            words = told(nodes, mentioned) if key != SETS else ""
            found = {self._meant(key[0], node) for node in mentioned}
            uses = frozenset(f for f in found if isinstance(f, tuple) and f[0] not in LEFT_OUT)
            texts = {n.value for n in mentioned if type(getattr(n, "value", None)) is str}
            self._definitions[key] = Definition(_hex(words), uses, frozenset(texts))
        return self._definitions[key]

    def sets(self) -> dict[str, ast.AST]:
        """Data set -> its row in the catalog."""
        table = self.module(SETS[0]).statements[SETS[1]][0].value
        return {key.value: row for key, row in zip(table.keys, table.values, strict=True)}

    def closure(self, roots: Iterable[tuple], *, virtual: bool = True) -> set[tuple]:
        """Keys of all that `roots` use, themselves included."""
        found, left, texts = set(), list(roots), set()
        while left:
            key = left.pop()
            if key not in found:
                found.add(key)
                if virtual or key != DISTILS:
                    left += self.definition(key).uses
                texts |= self.definition(key).texts
            if not left and SETS in found:
                left = [(*SETS, name) for name in texts & self.sets().keys()]
                left = [row for row in left if row not in found]
        return found


class Used:
    """Definitions of the package, and those of a reader, that one run uses."""

    def __init__(self, code: Code):
        self.code, self.keys = code, set(ROOTS)
        self.own: dict[str, str] = {}  # what a reader wrote and which options are bound -> hash

    def root(self, name: str, value) -> None:
        """Follow a method, a builder of a scenario, or what makes a network."""
        words = self.say(value)
        if isinstance(value, partial):
            self.own[f"options of {name}"] = _hex(words, 8)

    def say(self, value) -> str:
        """A plain value as it is, of anything else its kind; functions and classes are followed."""
        if isinstance(value, partial):
            return self.say((value.func, value.args, value.keywords))
        if isinstance(value, list | tuple | dict):
            parts = value.items() if isinstance(value, dict) else value
            return f"{type(value).__name__}({', '.join(self.say(part) for part in parts)})"
        if isinstance(value, type | FunctionType):
            self._follow(value)
            return value.__name__
        return repr(value) if isinstance(value, PLAIN) else type(value).__name__

    def _follow(self, value) -> None:
        package, _, module = value.__module__.partition(".")
        key, name = (module, value.__qualname__.partition(".")[0]), f"yours: {value.__qualname__}"
        ours = package == PACKAGE and module in self.code.sources
        if ours and key[1] in self.code.module(module).statements:
            self.keys.add(key)
        elif not _installed(package) and name not in self.own:
            self.own[name] = ""  # known, should it name itself
            nodes, space = source_of(value)
            mentioned, around = [], {}
            words = told(nodes, mentioned)
            for part in mentioned:
                found = _meaning(part, space)
                if found is not None and not isinstance(found, ModuleType):
                    around[ast.unparse(part)] = self.say(found)
            self.own[name] = _hex(f"{words}{sorted(around.items())}", 8)

    def summary(self, virtual: bool) -> dict:
        """What `code_of` returns."""
        code, own = self.code, sorted(self.own.items())
        known = frozenset(self.keys), tuple(own), virtual
        if known not in code.summaries:
            files = {}
            for key in sorted(code.closure(self.keys, virtual=virtual)):
                lines = files.setdefault(key[0], [])
                lines.append(f"{'.'.join(key[1:])} {code.definition(key).hash}")
            lines = sorted(line for of_one in files.values() for line in of_one)
            whole = _hex("\n".join([*lines, *(f"{name} {digits}" for name, digits in own)]))
            parts = {module: _hex("\n".join(lines), 8) for module, lines in files.items()}
            code.summaries[known] = {"hash": whole, "files": {**parts, **dict(own)}}
        return code.summaries[known]


def _meaning(node: ast.AST, space: dict):
    """The value of a name, or of a name in a module; None for what is neither."""
    if isinstance(node, ast.Name):
        return space.get(node.id)
    inside = _meaning(node.value, space) if isinstance(node, ast.Attribute) else None
    return getattr(inside, node.attr, None) if isinstance(inside, ModuleType) else None


def _installed(package: str) -> bool:
    """Whether it belongs to Python or to an installed package, and not to a reader."""
    file = getattr(sys.modules.get(package), "__file__", None) or ""
    outside = {"site-packages", "dist-packages"} & set(Path(file).parts)
    known = package in sys.stdlib_module_names or bool(outside)
    return known and package != "__main__"  # whatever command was started


def source_of(value) -> tuple[list[ast.AST], dict]:
    """(syntax trees, names around them) of a class or function in a file or in a notebook's cell.

    All trees of that name in one place: two lambdas of one line both count. Raises `NoSource`.
    """
    parts = vars(value).values() if isinstance(value, type) else [value]
    parts = [p for p in parts if isinstance(p, FunctionType) and p.__module__ == value.__module__]
    home, space = sys.modules.get(value.__module__), {}
    files = [*(part.__code__.co_filename for part in parts), getattr(home, "__file__", None) or ""]
    for part in parts:
        cells = zip(part.__code__.co_freevars, part.__closure__ or (), strict=True)
        space |= part.__globals__ | {name: cell.cell_contents for name, cell in cells}
    for file in dict.fromkeys(files):
        try:
            tree = ast.parse("".join(linecache.getlines(file)))
        except (SyntaxError, ValueError):
            continue
        kinds = ast.ClassDef if isinstance(value, type) else FUNCTIONS
        found = [node for node in ast.walk(tree) if isinstance(node, kinds)
                 and getattr(node, "name", "<lambda>") == value.__name__]  # fmt: skip
        if not isinstance(value, type):
            found = [node for node in found if _first(node) == value.__code__.co_firstlineno]
        if found:
            return found, space or vars(home)
    raise NoSource(f"the source of {value.__qualname__} cannot be read")


def _first(node: ast.AST) -> int:
    """The line on which Python says that a function begins."""
    return min([node.lineno, *(part.lineno for part in getattr(node, "decorator_list", ()))])


def read(home: Path = HOME) -> Code:
    """The package below a folder, as it is now."""
    sources = {}
    for path in sorted(home.rglob("*.py")):
        name = ".".join(path.relative_to(home).with_suffix("").parts)
        sources[name.removesuffix("__init__").removesuffix(".")] = path.read_text("utf-8")
    return Code(sources)


OURS = read()  # when it is imported: a later edit is not what this process runs
