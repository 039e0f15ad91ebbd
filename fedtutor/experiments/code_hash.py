"""Which code made a result: a hash of what decides a run's numbers, over its meaning.

One rule. From a run's roots (the federation, the round loop, its method, its networks, the builder
of its scenario) names are followed to the functions, classes and constants of this package that
they stand for, and from there on. The syntax tree of each counts, wherever it stands, without
comments, docstrings, type annotations and the words of errors, and without what can only refuse: a
run that comes to its end never did it. What a reader wrote, in a cell or in a file, is followed in
the same way. Whatever is installed beside us is not: a result names its versions.
"""

import ast
import hashlib
import linecache
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from types import FunctionType, ModuleType

from .. import methods, models, scenarios

PACKAGE = __name__.partition(".")[0]
HOME = Path(__file__).resolve().parents[1]
ROOTS = (("federation", "Federation"), ("rounds", "run"), ("experiments.results", "accuracies"))
# These decide no number: words, checks, files, and what a stopped run goes on from with equal bits.
LEFT_OUT = {"errors", "engine.kinds", "engine.files", "engine.checkpoints", "datasets.cache",
            "methods.checks"}  # fmt: skip
# Errors that end a run: no code catches them and goes on, as it does where a client fails.
REFUSALS = {"SettingError", "DataError", "ModelError", "StorageError"}
CATALOG = "datasets.catalog"  # of its table `SETS` those rows count that a run's texts name
DISTILS = ("distillation", "prepare")  # returns at once where the setting virtual_ipc is 0
UNTOLD = {"ctx", "kind", "type_comment", "type_params", "annotation", "returns"}
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
PLAIN = (bool, int, float, complex, str, bytes, type(None))


class NoSource(Exception):
    """What a reader wrote cannot be read; the words say whose source is missing."""


def code_of(method: str, networks: Iterable[str], scenario: str, *, virtual: bool = True,
            roots: Iterable[tuple[str, str]] = (), code: "Code | None" = None) -> dict:  # fmt: skip
    """{"hash", "files"} of the code that a run uses; {"hash": None, "unknown": why} if unreadable.

    `networks` are names of `models.MODELS`; `virtual`: whether images are distilled; `roots`:
    further functions of the package, (module, name), from which names are followed; the answer
    repeats them. "files" has a hash per file of the package, over what the run uses of it, and one
    per definition of a reader.
    """
    asked = [("method", method, methods.METHODS), ("scenario", scenario, scenarios.SCENARIOS)]
    asked += [("network", name, models.MODELS) for name in networks]
    return _code_of(asked, roots, virtual, code or OURS)


def code_of_study(root: tuple[str, str], names: Iterable[str], settings: dict, *,
                  code: "Code | None" = None) -> dict:  # fmt: skip
    """The same of a function that plays several runs, (module, name).

    `names`: the methods, networks and scenarios that it asks for by name; `settings`: what it does
    not say itself, such as a recipe's values: they count as if they were code.
    """
    tables = {"method": methods.METHODS, "network": models.MODELS, "scenario": scenarios.SCENARIOS}
    asked = [(kind, name, table) for kind, table in tables.items()
             for name in sorted(set(names)) if name in table]  # fmt: skip
    text = repr(sorted(settings.items()))
    own = {"values of its recipe": _hex(text, 8)} if settings else {}
    return _code_of(asked, [root], True, code or OURS, own)


def _code_of(asked: list, roots: Iterable, virtual: bool, code: "Code", own: dict | None = None):
    used = Used(code)
    used.own |= own or {}
    for kind, name, table in asked:
        if name not in table:
            return {"hash": None, "unknown": f"{kind} {name!r} is not registered"}
        root = getattr(table[name], "features", table[name])
        try:
            words = used.say(root)
        except NoSource as error:
            return {"hash": None, "unknown": str(error)}
        if isinstance(root, partial):
            used.own[f"options of {name}"] = _hex(words, 8)
    for module, name in roots:
        if not defined(used.code, module, name):
            return {"hash": None, "unknown": f"{module}.{name} is not in the package"}
        used.keys.add((module, name))
    own = tuple(sorted(used.own.items()))
    whole, files = summed(used.code, frozenset(used.keys), own, virtual)
    further = {"roots": sorted(map(list, roots))} if roots else {}
    return {"hash": whole, "files": dict(files), **further}


def changed(before: dict, after: dict) -> list[str]:
    """Files, and definitions of a reader, that differ between two answers of `code_of`."""
    one, other = before.get("files", {}), after.get("files", {})
    return sorted(name for name in {**one, **other} if one.get(name) != other.get(name))


def told(node, mentioned: list, checks: Iterable[str] = ()) -> str:
    """What counts of a syntax tree, the same for every Python; `mentioned` grows by its names.

    `checks`: names of functions that decide no number; a statement that only calls one is left out.
    """
    if isinstance(node, list):
        parts = [told(part, mentioned, checks) for part in node if not _silent(part, checks)]
        return f"[{','.join(parts)}]" if parts else ""
    if isinstance(node, ast.Raise):
        error = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        return f"raise {told(error, [])}"
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.Name | ast.Attribute | ast.Constant):
        mentioned.append(node)
    fields = [(name, told(value, mentioned, checks)) for name, value in ast.iter_fields(node)
              if name not in UNTOLD and value is not None]  # fmt: skip
    return f"{type(node).__name__}({','.join(f'{n}={words}' for n, words in fields if words)})"


def _silent(node, checks: Iterable[str]) -> bool:
    """Whether a statement decides no number: a text, an import, a refusal, a call of a check."""
    if isinstance(node, ast.Expr):
        called = getattr(getattr(node.value, "func", None), "id", None)
        return isinstance(node.value, ast.Constant) or called in checks
    return isinstance(node, ast.Import | ast.ImportFrom) or _refuses(node)


def _refuses(node) -> bool:
    """Whether a statement is an `if`, or a loop over some, with nothing in it but refusals.

    Its condition is taken to change nothing. One that gives a name to a value counts.
    """
    if not isinstance(node, ast.If | ast.For):
        return False
    if any(isinstance(part, ast.NamedExpr) for part in ast.walk(node)):
        return False
    if isinstance(node, ast.If):
        return all(_is_refusal(part) or _refuses(part) for part in (*node.body, *node.orelse))
    return not node.orelse and all(_refuses(part) for part in node.body)


def _is_refusal(node) -> bool:
    """Whether a statement raises one of `REFUSALS`."""
    error = node.exc if isinstance(node, ast.Raise) else None
    return getattr(getattr(error, "func", error), "id", None) in REFUSALS


def _hex(text: str, digits: int = 12) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


class Code:
    """A package as text: `sources` has module -> text, such as "methods.fccl" -> its file."""

    def __init__(self, sources: dict[str, str]):
        self.sources = sources
        self.packages = {name.rpartition(".")[0] for name in sources}


@cache
def top_level(code: Code, module: str) -> tuple[dict, dict]:
    """Name -> the statements that make it; imported name -> (module, name in it).

    In the catalog, the name of a data set stands for its row of the table.
    """
    statements, imports = {}, {}
    tree, up = ast.parse(code.sources[module]), module.split(".") if module else []
    up = up if module in code.packages else up[:-1]  # the folder that "." stands for
    for node in tree.body:
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        parts = [part for target in targets if target for part in ast.walk(target)]
        names = [part.id for part in parts if isinstance(part, ast.Name)]
        for made in names or filter(None, [getattr(node, "name", None)]):
            statements.setdefault(made, []).append(node)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            home = [*up[: len(up) - node.level + 1], *filter(None, [node.module])]
            for alias in node.names:
                imports[alias.asname or alias.name] = ".".join(home), alias.name
    if module == CATALOG:
        table = statements.pop("SETS")[0].value
        rows = zip(table.keys, table.values, strict=True)
        statements |= {key.value: [row] for key, row in rows}
    return statements, imports


def defined(code: Code, module: str, name: str) -> bool:
    """Whether a module of the package makes this name."""
    return module in code.sources and name in top_level(code, module)[0]


def find(code: Code, module: str, name: str):
    """What a name stands for: (module, name), a module's name, or None: nothing of ours."""
    origin = top_level(code, module)[1].get(name)
    if origin and origin != (module, name) and origin[0] in code.sources:
        return find(code, *origin)
    if defined(code, module, name):
        return module, name
    below = f"{module}.{name}".lstrip(".")
    return below if below in code.sources else None


def meant(code: Code, module: str, node: ast.AST):
    """The same for a name, an attribute or a text in the module's code."""
    if isinstance(node, ast.Name):
        return find(code, module, node.id)
    if isinstance(node, ast.Constant):
        return (CATALOG, node.value) if defined(code, CATALOG, node.value) else None
    inside = meant(code, module, node.value) if isinstance(node, ast.Attribute) else None
    return find(code, inside, node.attr) if isinstance(inside, str) else None


@cache
def definition(code: Code, module: str, name: str) -> tuple[str, set]:
    """(hash, which (module, name) it uses) of a function, class or constant."""
    statements, imports = top_level(code, module)
    mentioned, checks = [], {own for own, origin in imports.items() if origin[0] in LEFT_OUT}
    words = told(statements[name], mentioned, checks)
    found = {meant(code, module, node) for node in mentioned}
    return _hex(words), {f for f in found if isinstance(f, tuple) and f[0] not in LEFT_OUT}


@cache
def summed(code: Code, keys: frozenset, own: tuple, virtual: bool) -> tuple[str, dict]:
    """(hash, file -> hash) over all that `keys` use, themselves included, and a reader's `own`."""
    found, left, lines, files = {}, list(keys), [], {}
    while left:
        if (key := left.pop()) not in found:
            found[key], uses = definition(code, *key)
            left += uses if virtual or key != DISTILS else ()
    for (module, name), digits in sorted(found.items()):
        lines.append(f"{name} {digits}")
        files[module] = _hex(f"{files.get(module)}{lines[-1]}", 8)
    return _hex(f"{sorted(lines)}{own}"), files | dict(own)  # in whichever file


class Used:
    """Definitions of the package, and those of a reader, that one run uses."""

    def __init__(self, code: Code):
        self.code, self.keys = code, set(ROOTS)
        self.own: dict[str, str] = {}  # what a reader wrote and which options are bound -> hash

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
        if package == PACKAGE and defined(self.code, *key):
            self.keys.add(key)
        elif not _installed(package) and name not in self.own:
            self.own[name] = ""  # known, should it name itself
            nodes, space = source_of(value)
            mentioned, around = [], {}
            words = told(nodes, mentioned)
            for part in mentioned:
                found = _value(part, space)
                if found is not None and not isinstance(found, ModuleType):
                    around[ast.unparse(part)] = self.say(found)
            self.own[name] = _hex(f"{words}{sorted(around.items())}", 8)


def _value(node: ast.AST, space: dict):
    """What a name, or a name in a module, stands for; None for what is neither."""
    if isinstance(node, ast.Name):
        return space.get(node.id)
    inside = _value(node.value, space) if isinstance(node, ast.Attribute) else None
    return getattr(inside, node.attr, None) if isinstance(inside, ModuleType) else None


def _installed(package: str) -> bool:
    """Whether it belongs to Python or to an installed package, and not to a reader."""
    file = getattr(sys.modules.get(package), "__file__", None) or ""
    outside = {"site-packages", "dist-packages"} & set(Path(file).parts)
    known = package in sys.stdlib_module_names or outside
    return bool(known) and package != "__main__"  # whatever command was started


def source_of(value) -> tuple[list[ast.AST], dict]:
    """(syntax trees, names around them) of a class or function in a file or in a notebook's cell.

    All of that name in one cell or file: two lambdas both count. Raises `NoSource`.
    """
    kinds = ast.ClassDef if isinstance(value, type) else FUNCTIONS
    home = sys.modules.get(value.__module__)
    parts = vars(value).values() if isinstance(value, type) else [value]
    parts = [p for p in parts if isinstance(p, FunctionType) and p.__module__ == value.__module__]
    space = {} if parts else vars(home)
    for part in parts:
        cells = zip(part.__code__.co_freevars, part.__closure__ or (), strict=True)
        space |= part.__globals__ | {name: cell.cell_contents for name, cell in cells}
    for file in [*(p.__code__.co_filename for p in parts), getattr(home, "__file__", "")]:
        with suppress(SyntaxError, ValueError):  # no Python: the code of a machine, say
            tree = ast.parse("".join(linecache.getlines(file or "")))
            found = [node for node in ast.walk(tree) if isinstance(node, kinds)
                     and getattr(node, "name", "<lambda>") == value.__name__]  # fmt: skip
            if found:
                return found, space
    raise NoSource(f"the source of {value.__qualname__} cannot be read")


def read(home: Path = HOME) -> Code:
    """The package below a folder, as it is now."""
    sources = {}
    for path in sorted(home.rglob("*.py")):
        name = ".".join(path.relative_to(home).with_suffix("").parts)
        sources[name.removesuffix("__init__").removesuffix(".")] = path.read_text("utf-8")
    return Code(sources)


OURS = read()  # when it is imported: a later edit is not what this process runs
