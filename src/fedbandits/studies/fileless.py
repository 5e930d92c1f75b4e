"""Digests of code that is in no file: classes of a notebook, of a prompt, or of a script that was piped in.

They are read as they were compiled: instructions, constants and defaults of the methods, values of the class, and then
everything that these name and that is in no file either. Names of library functions count, but not what is in them.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import pickle
import sys
from collections.abc import Iterator
from contextlib import suppress
from types import CodeType, FunctionType, ModuleType

_MADE_UP = (
    "__annot",
    "__dataclass_",
    "__pydantic_",
    "__abstract",
    "_abc_",
    "__sig",
    "__weakref",
    "__dict__",
    "__doc__",
    "__firstlineno__",
    "__static_attr",
)
"""How names begin that a class has without its author's doing, or that do not change what it does."""


def is_fileless(kind: type) -> bool:
    """Whether the source of `kind` is in no file that can be read.

    What was typed after `python -i script.py` belongs to a module that has a file, but was compiled from elsewhere.
    """
    module = sys.modules.get(kind.__module__)
    if kind.__module__ in sys.builtin_module_names:
        return False
    if getattr(module, "__file__", None) is None:
        return True
    own = [held for name, held in vars(kind).items() if isinstance(held, FunctionType) and not name.startswith("__")]
    return any(not os.path.exists(method.__code__.co_filename) for method in own)


def digest_of_class(kind: type, unknown: str) -> tuple[str, frozenset[str]]:
    """A digest of what `kind` does, and the modules that it names; `unknown` stands for what cannot be read."""
    reader = _Reader(unknown)
    reader.read(kind)
    return reader.digest.hexdigest(), frozenset(reader.modules)


class _Reader:
    """Feeds what it comes upon to `digest`, each class, function and collection once."""

    def __init__(self, unknown: str) -> None:
        self.digest = hashlib.sha256()
        self.modules: set[str] = set()
        self._unknown = unknown
        self._seen: dict[int, object] = {}

    def read(self, thing: object) -> None:
        if isinstance(thing, ModuleType):
            self._name(thing.__name__, "")
        elif isinstance(thing, type):
            if self._is_new(thing):
                self._class(thing)
        elif isinstance(thing, FunctionType):
            if self._is_new(thing):
                self._function(thing)
        elif isinstance(thing, property | classmethod | staticmethod | functools.cached_property):
            for part in ("fget", "fset", "fdel", "__func__", "func"):
                self.read(getattr(thing, part, None))
        elif isinstance(compiled := getattr(thing, "py_func", None), FunctionType):  # by numba
            self.read(compiled)
        else:
            self._value(thing)

    def _class(self, kind: type) -> None:
        if not is_fileless(kind):
            self._name(kind.__module__, kind.__qualname__)
            return
        self._feed(kind.__qualname__)
        for base in kind.__bases__:
            self.read(base)
        for name, held in vars(kind).items():
            if not name.startswith(_MADE_UP):
                self._feed(name)
                self.read(held)

    def _function(self, function: FunctionType) -> None:
        code = function.__code__
        if os.path.exists(code.co_filename):
            self._name(str(function.__globals__.get("__name__")), function.__qualname__)
        else:
            self._code(code)
            self.read(function.__defaults__)
            self.read(function.__kwdefaults__)
            for name in dict.fromkeys(_names(code)):
                if name in function.__globals__:
                    self.read(function.__globals__[name])
        for cell in function.__closure__ or ():
            with suppress(ValueError):  # a cell that is empty so far
                self.read(cell.cell_contents)

    def _code(self, code: CodeType) -> None:
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        self._feed(repr((code.co_code, counts, names)))
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._code(constant)
            else:
                self._feed(repr(constant))

    def _value(self, value: object) -> None:
        parts: list[object] | None = None
        if dataclasses.is_dataclass(value):
            parts = [getattr(value, item.name) for item in dataclasses.fields(value)]
        elif isinstance(value, list | tuple):
            parts = list(value)
        elif isinstance(value, dict):
            parts = [part for pair in value.items() for part in pair]
        if parts is None:
            self._feed(self._pickled(value))
        elif self._is_new(value):
            self._feed(str(len(parts)))
            for part in parts:
                self.read(part)
        if type(value).__module__ not in sys.builtin_module_names:
            self.read(type(value))

    def _pickled(self, value: object) -> str:
        try:
            return pickle.dumps(value).hex()
        except Exception:  # whatever somebody's class raises when it is pickled
            return self._unknown

    def _is_new(self, thing: object) -> bool:
        """Whether it is come upon for the first time; otherwise it is said when that was."""
        if id(thing) in self._seen:
            self._feed(f"number {list(self._seen).index(id(thing))}")
            return False
        self._seen[id(thing)] = thing  # held, so that nothing else gets its id
        return True

    def _name(self, module: str, name: str) -> None:
        self._feed(f"{module} {name}")
        self.modules.add(module)

    def _feed(self, text: str) -> None:
        self.digest.update(f"{len(text)} {text}".encode())


def _names(code: CodeType) -> Iterator[str]:
    """The names that `code` looks up, those of functions inside of it included."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
