"""What a compiled function is made of: its own instructions and those of all that becomes part of it.

Numba keeps compiled code until the file that a function stands in has changed; that it contains functions of other
files, and the values of variables there, goes unnoticed. `digest` is a number for all of it together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic

OURS = "fedbandits"
Stub = Callable[..., Any]
_meanings: dict[Stub, Callable[[type], Iterable[Any]]] = {}


def means(stub: Stub, meanings: Callable[[type], Iterable[Any]]) -> None:
    """Say that a call of `stub` is compiled as one of `meanings(kind)`, `kind` being one of the types of named tuples
    that the function is compiled for.
    """
    _meanings[stub] = meanings


def digest(function: FunctionType, kinds: Iterable[type]) -> str:
    """Of the function when it is compiled for arguments in which there are named tuples of these types."""
    types = sorted(set(kinds), key=_name)
    found: dict[FunctionType, str] = {}
    waiting = [function]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found[one], parts, stubs = _own(one)
            waiting.extend(parts)
            meant = (meaning for stub in stubs for kind in types for meaning in _meanings[stub](kind))
            waiting.extend(part for meaning in meant for part in _functions(meaning))
    lines = sorted(f"{_name(one)} {own}" for one, own in found.items())
    lines.extend(f"{_name(kind)} {getattr(kind, '_fields', ())}" for kind in types)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


@cache
def _own(function: FunctionType) -> tuple[str, tuple[FunctionType, ...], tuple[Stub, ...]]:
    """What is written in a function and the values it names, the functions of its own package and of ours, and the
    stubs.
    """
    home = {package_of(function.__module__), OURS}
    written = [_plain(function.__defaults__)]
    parts: list[FunctionType] = []
    stubs: list[Stub] = []
    named = list(_named(function, home))
    for code in _codes(function.__code__):
        said = function.__doc__  # which is a constant, too
        constants = [_plain(one) for one in code.co_consts if not isinstance(one, CodeType) and one != said]
        written.append(f"{code.co_code.hex()} {constants} {code.co_names}")
    for name, value in sorted(named, key=lambda pair: pair[0]):
        if isinstance(value, FunctionType) and value in _meanings:
            stubs.append(value)
        elif found := [one for one in _functions(value) if package_of(one.__module__) in home]:
            parts.extend(found)
            written.append(f"{name} {_plain(getattr(value, 'targetoptions', None))}")
        elif _is_plain(value):
            written.append(f"{name} {_plain(value)}")
    return "\n".join(written), tuple(parts), tuple(stubs)


def _named(function: FunctionType, home: set[str]) -> Iterator[tuple[str, Any]]:
    """What its names stand for: variables around it, those of its module, and what it may take out of modules."""
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    around = {name: cell.cell_contents for name, cell in cells if cell != CellType()}
    for name, value in [*around.items(), *((name, function.__globals__.get(name)) for name in names)]:
        if isinstance(value, ModuleType):
            if package_of(value.__name__) in home:
                held = vars(value)  # as it is: asking a module may load what nobody needs
                yield from ((f"{name}.{inner}", held[inner]) for inner in names if inner in held)
        else:
            yield name, value


def _functions(value: Any) -> tuple[FunctionType, ...]:
    """The function that is compiled where `value` is called, if any."""
    if isinstance(value, Dispatcher):
        value = value.py_func
    elif isinstance(value, _Intrinsic):
        value = value._defn
    return (value,) if isinstance(value, FunctionType) else ()


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return isinstance(value, bool | int | float | str | None)


def _plain(value: Any) -> str:
    """The value in words that are the same in every process."""
    if isinstance(value, set | frozenset):
        return repr(sorted(map(_plain, value)))
    if isinstance(value, dict):
        return repr(sorted((key, _plain(one)) for key, one in value.items()))
    return repr(value)


def _name(thing: Any) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"


def package_of(module: str) -> str:
    """The name of the package that a module of that name belongs to."""
    return module.partition(".")[0]
