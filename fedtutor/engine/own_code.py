"""A fingerprint of code that a reader wrote: a method in a cell or a file, with what it calls.

A recorded run is found again only if the code that made it is still the same. For the package's own
methods its version says so. For a class or function of a reader, the source is hashed: of its
functions and values, of the classes that it extends, and of the reader's functions, classes, plain
values and modules that these name. Libraries are left out.
"""

import dis
import hashlib
import inspect
import sys
import sysconfig
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

CACHED = type(cache(len))  # what functools makes of a function under @cache or @lru_cache
GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME")  # what looks one up
PLAIN = (bool, int, float, str, bytes, type(None))
LIBRARIES = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib"))


def is_readers(thing) -> bool:
    """Whether a class, function or module is neither of this package nor of a library."""
    name = thing.__name__ if isinstance(thing, ModuleType) else getattr(thing, "__module__", None)
    root = (name or "builtins").partition(".")[0]
    if root == __name__.partition(".")[0] or root in sys.stdlib_module_names - {"__main__"}:
        return False
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is None or not any(Path(file).resolve().is_relative_to(p) for p in LIBRARIES)


def fingerprint(*things) -> str:
    """16 hex digits of the reader's code in classes, functions or objects; "" where all is ours."""
    parts: dict[int, str] = {}
    for thing in things:
        callable_ = isinstance(thing, type | FunctionType | ModuleType)
        _collect(thing if callable_ else type(thing), parts)
    if not parts:
        return ""
    return hashlib.sha256("\n".join(sorted(parts.values())).encode()).hexdigest()[:16]


def modules_of(thing) -> list[ModuleType]:
    """The reader's modules in which a class and its bases were written, without __main__."""
    kinds = thing.__mro__ if isinstance(thing, type) else [thing]
    names = {kind.__module__ for kind in kinds if is_readers(kind)} - {"__main__"}
    return [sys.modules[name] for name in sorted(names) if name in sys.modules]


def _collect(thing, parts: dict[int, str]) -> None:
    """Add the text of `thing`, and of what it names, unless it is there or is none of a reader."""
    if id(thing) in parts or not is_readers(thing):
        return
    if isinstance(thing, ModuleType):
        file = getattr(thing, "__file__", None)
        parts[id(thing)] = Path(file).read_text(encoding="utf-8") if file else thing.__name__
    elif isinstance(thing, FunctionType):
        parts[id(thing)] = _source(thing)
        for name in _names(thing.__code__):
            _follow(name, thing.__globals__.get(name), parts)
        defaults = [*(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values()]
        for place, value in enumerate(defaults):
            _follow(f"{thing.__qualname__}, default {place}", value, parts)
        for name, cell in zip(thing.__code__.co_freevars, thing.__closure__ or (), strict=True):
            _follow(name, cell.cell_contents, parts)
    elif isinstance(thing, type):
        parts[id(thing)] = f"class {' '.join(kind.__qualname__ for kind in thing.__mro__)}"
        own = {}
        for name, value in sorted(vars(thing).items()):
            value = getattr(value, "__func__", value)  # of a staticmethod or classmethod
            value = value.fget if isinstance(value, property) else value
            value = value.__wrapped__ if isinstance(value, CACHED) else value
            if isinstance(value, FunctionType):
                made = value.__code__.co_filename == "<string>" and name.startswith("__")
                if not made:  # by @dataclass
                    _collect(value, parts)
            elif isinstance(value, type):
                _collect(value, parts)
            elif isinstance(value, (*PLAIN, tuple, dict, list)) and not name.startswith("__"):
                own[name] = repr(value)
        parts[id(thing)] += f" {own}"
        for base in thing.__mro__[1:]:
            _collect(base, parts)


def _follow(name: str, value, parts: dict[int, str]) -> None:
    if isinstance(value, CACHED):
        value = value.__wrapped__
    if isinstance(value, FunctionType | type | ModuleType):
        _collect(value, parts)
        if not is_readers(value):  # another of a library is other code
            parts[id(value), name] = f"{name} = {_place(value)}"
    elif isinstance(value, (*PLAIN, tuple, dict, list)):
        parts[id(value), name] = f"{name} = {value!r}"


def _place(thing) -> str:
    if isinstance(thing, ModuleType):
        return thing.__name__
    return f"{thing.__module__}.{thing.__qualname__}"


def _names(code: CodeType) -> set[str]:
    """Globals that a function looks up, those of functions inside it, too; no attributes."""
    inner = [part for part in code.co_consts if isinstance(part, CodeType)]
    own = {i.argval for i in dis.get_instructions(code) if i.opname in GLOBALS}
    return own.union(*map(_names, inner))


def _source(function: FunctionType) -> str:
    """Its text; where nobody kept it, as at a prompt, its byte code."""
    try:
        return inspect.getsource(function.__code__)  # of a function itself it skips a decorator's
    except (OSError, TypeError):
        return _bytes(function.__code__)


def _bytes(code: CodeType) -> str:
    inner = [_bytes(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return f"{code.co_name} {code.co_code.hex()} {code.co_names} {code.co_varnames} {inner}"
