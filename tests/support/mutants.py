"""Mutants of numbered equations, and the checks that must notice them.

Found, not listed: equations in a module, checks in notebooks and in plain-loop tests. The rules
that they must keep are in `test_mutations.py`.
"""

import ast
import copy
import io
import re
from contextlib import contextmanager, redirect_stdout
from inspect import getsource, signature
from pathlib import Path
from types import ModuleType

import nbformat

from fedtutor.notebook.start import NAMES

from .notebooks import frozen

NUMBERED = re.compile(r"\bEqs?\. ?\(?\d")
FLIPPED = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip
DIMENSIONS = {"dim", "axis", "dims", "start_dim", "end_dim", "dim0", "dim1", "offset", "diagonal"}
# Mutants that compute the same, and why: {"function: line -> mutated line": "reason"}.
SAME: dict[str, str] = {}


# ----------------------------------------------------------------------------------- mutants


def equations(module: ModuleType) -> list[str]:
    """The public functions of `module` with a numbered equation in the docstring."""
    return [
        node.name for node in ast.parse(getsource(module)).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
        and NUMBERED.search(ast.get_docstring(node) or "")
    ]  # fmt: skip


def mutants(source: str, name: str):
    """(label, function, code object) for each operator of `name` and of its private helpers."""
    functions = {n.name: n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef)}
    wanted = [name]
    for current in wanted:  # grows while it is read
        called = [n.id for n in ast.walk(functions[current]) if isinstance(n, ast.Name)]
        wanted += [n for n in dict.fromkeys(called)
                   if n.startswith("_") and n in functions and n not in wanted]  # fmt: skip
    for current in wanted:
        for place in range(len(list(_places(functions[current])))):
            changed = copy.deepcopy(functions[current])
            parent, field, index, new = list(_places(changed))[place]
            old = getattr(parent, field) if index is None else getattr(parent, field)[index]
            before = ast.unparse(old if isinstance(old, ast.expr) else parent)
            if index is None:
                setattr(parent, field, new)
            else:
                getattr(parent, field)[index] = new
            after = ast.unparse(new if isinstance(new, ast.expr) else parent)
            tree = ast.Module([ast.fix_missing_locations(changed)], [])
            label = f"{current}: {before} -> {after}"
            if label not in SAME:
                yield label, current, _code(compile(tree, label, "exec"), current)


def _places(function: ast.FunctionDef):
    """(parent, field, index, replacement) for everything that can be flipped in the body.

    Left out are messages of errors and the minus of a dimension (`dim=-1`, `x[:, -1]`). Every
    returned value is negated once, so that an equation without operators has a mutant too.
    """
    quiet = set()
    for node in ast.walk(function):
        if isinstance(node, (ast.Raise, ast.Assert, ast.JoinedStr)):
            quiet |= set(ast.walk(node))
        if isinstance(node, ast.Subscript):
            quiet |= {n for n in ast.walk(node.slice) if isinstance(n, ast.UnaryOp)}
        if isinstance(node, ast.keyword) and node.arg in DIMENSIONS:
            quiet |= set(ast.walk(node.value))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):  # x.sum(-1)
            quiet |= {a for a in node.args if isinstance(a, ast.UnaryOp) and _is_whole(a.operand)}
    for statement in function.body:
        for node in ast.walk(statement):
            if node in quiet:
                continue
            if isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in FLIPPED:
                yield node, "op", None, FLIPPED[type(node.op)]()
            if isinstance(node, ast.Compare) and type(node.ops[0]) in FLIPPED:
                yield node, "ops", 0, FLIPPED[type(node.ops[0])]()
            if isinstance(node, ast.Return) and node.value is not None:
                yield node, "value", None, ast.UnaryOp(ast.USub(), node.value)
            for field, value in ast.iter_fields(node):
                for index, child in enumerate(value if isinstance(value, list) else [value]):
                    minus = isinstance(child, ast.UnaryOp) and isinstance(child.op, ast.USub)
                    if minus and child not in quiet:
                        yield node, field, index if isinstance(value, list) else None, child.operand


def _is_whole(node) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def _code(compiled, name: str):
    return next(c for c in compiled.co_consts if getattr(c, "co_name", None) == name)


@contextmanager
def mutated(module: ModuleType, name: str, code):
    """`module.name` computes `code` in here, wherever and however it was imported."""
    function = getattr(module, name)
    original = function.__code__
    function.__code__ = code
    try:
        yield
    finally:
        function.__code__ = original


# ------------------------------------------------------------------------------------ checks


def names_it(tree: ast.AST, name: str) -> bool:
    """Whether code says `name` or `losses.name`; torch may have a function of that name too."""
    return any(
        (isinstance(n, ast.Name) and n.id == name)
        or (isinstance(n, ast.Attribute) and n.attr == name
            and isinstance(n.value, ast.Name) and n.value.id == "losses")
        for n in ast.walk(tree)
    )  # fmt: skip


def calls_check(tree: ast.AST) -> bool:
    """Whether code calls `check`."""
    called = [n.func for n in ast.walk(tree) if isinstance(n, ast.Call)]
    return any(getattr(f, "id", getattr(f, "attr", "")) == "check" for f in called)


def loop_tests(name: str, module: ModuleType) -> list:
    """The tests of `module` that take no argument and name the function `name`."""
    return [
        value for key, value in vars(module).items()
        if key.startswith("test_") and callable(value) and not signature(value).parameters
        and names_it(ast.parse(getsource(value)), name)
    ]  # fmt: skip


def check_cells(name: str, folder: Path) -> list[tuple[str, str, str]]:
    """(place, what it needs, source) of the notebooks' check cells for the function `name`."""
    found = []
    for path in sorted(folder.glob("[0-9][0-9]*.ipynb")):
        before: list[ast.stmt] = []
        for number, cell in enumerate(nbformat.read(path, as_version=4).cells):
            if cell.cell_type != "code":
                continue
            tree = ast.parse(cell.source)
            is_check = "check" in cell.metadata.get("tags", []) and calls_check(tree)
            if is_check and names_it(tree, name):
                found.append((f"{path.stem}, cell {number}", needed(tree, before), cell.source))
            before += tree.body
    return found


def needed(tree: ast.Module, before: list[ast.stmt]) -> str:
    """The earlier statements on which a cell depends, by the names that they bind.

    A call that changes an object in place is not seen: a check cell makes what it compares.
    """
    wanted, kept = set(), []
    for statement in reversed([*before, *tree.body]):
        in_cell, bound = any(statement is own for own in tree.body), _bound(statement)
        if in_cell or bound & wanted:
            if isinstance(statement, DEFINING) and not _stores_into(statement):
                wanted -= bound
            wanted |= _read(statement)
            kept += [] if in_cell else [statement]
    return "\n".join(ast.unparse(statement) for statement in reversed(kept))


DEFINING = (ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)


def _stores_into(statement: ast.stmt) -> bool:
    """Whether a part of something is replaced, as in `x[0] = 1`."""
    return any(isinstance(n, (ast.Attribute, ast.Subscript)) and isinstance(n.ctx, ast.Store)
               for n in ast.walk(statement))  # fmt: skip


def _bound(statement: ast.stmt) -> set[str]:
    """Names that a statement binds, or stores into, at the level of the notebook."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return {statement.name}
    names = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
            names |= {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names - _local(statement)


def _read(statement: ast.stmt) -> set[str]:
    names = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)
             and isinstance(n.ctx, ast.Load)}  # fmt: skip
    if "globals" in names:  # `start` reads the parameters there
        names |= set(NAMES)
    return names - _local(statement)


def _local(statement: ast.stmt) -> set[str]:
    """Names that live only inside functions and comprehensions of a statement."""
    names = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.arg):
            names.add(node.arg)
        if isinstance(node, (ast.FunctionDef, ast.comprehension)):
            inner = node.target if isinstance(node, ast.comprehension) else node
            names |= {n.id for n in ast.walk(inner) if isinstance(n, ast.Name)
                      and isinstance(n.ctx, ast.Store)}  # fmt: skip
    return names


def runnable(name: str, folder: Path, *tests: ModuleType) -> tuple[list, list]:
    """The checks of an equation as functions without arguments: cells, tests.

    Cells of frozen lessons are not run: their code is that of an earlier commit.
    """
    cells, waiting = [], frozen(folder)
    for place, prelude, source in check_cells(name, folder):
        if place.partition(",")[0] in waiting:
            continue
        names = {}
        with redirect_stdout(io.StringIO()):
            exec(compile(prelude, place, "exec"), names)
        code = compile(source, place, "exec")
        cells.append(lambda code=code, names=names: exec(code, dict(names)))
    return cells, [test for module in tests for test in loop_tests(name, module)]


def fails(checks: list) -> bool:
    """Whether one of the checks raises; an exception of any kind stops a reader's cell too."""
    with redirect_stdout(io.StringIO()):
        for check in checks:
            try:
                check()
            except Exception:
                return True
    return False


def survivors(module: ModuleType, name: str, checks: list) -> list[str]:
    """The mutants of an equation that none of its checks notices."""
    alive = []
    for label, function, code in mutants(getsource(module), name):
        with mutated(module, function, code):
            if not fails(checks):
                alive.append(label)
    return alive
