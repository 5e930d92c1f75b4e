"""Which code a result comes from, so that results of code that has changed since are not taken for those of today."""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import importlib.util
import secrets
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from fedbandits.contract.description import parameters_of
from fedbandits.studies.fileless import digest_of_class, is_fileless

_OURS = __name__.partition(".")[0]
_CHOOSING = f"{_OURS}.simulation.arguments"
"""Knows all algorithms, environments and networks by name; results depend on those that were chosen."""
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_UNKNOWN = secrets.token_hex()
"""Stands for what cannot be read: another one in every process."""


def digest_of_code(*things: object) -> str:
    """A digest of the source that defines the classes of `things` and the simulator, and of what that imports.

    `things` are values, whose parameters count too, or classes. Imports are followed within this package, within the
    package that a class comes from, and to files beside the class's own: a change of somebody's algorithm changes the
    digest for that algorithm and no other. Modules are read once in a process, as they are imported once. Not followed:
    other libraries, and names that are reached through the top of this package (`import fedbandits as fb`), except by
    inheritance. Classes whose source is in no file, as in a notebook, are read as they were compiled; files in the
    current directory are beside them. Files of data that a thing `reads` by a path of its own count as source.
    """
    kinds = {kind: None for thing in things for kind in _kinds(thing)}
    start = frozenset(kind.__module__ for kind in kinds if not is_fileless(kind))
    sources: dict[str, str] = {}
    waiting = [f"{_OURS}.simulation.loop", *start]
    for kind in kinds:
        if is_fileless(kind):
            sources[f"{kind.__module__}:{kind.__qualname__}"], named = digest_of_class(kind, _UNKNOWN)
            waiting.extend(named)
    beside = {path.parent for name in start if not _is_library(name) and (path := _file(name)) is not None}
    folders = frozenset(beside if len(sources) == 0 else {*beside, Path.cwd()})
    while waiting:
        name = waiting.pop()
        if name not in sources and _is_followed(name, start, folders):
            sources[name], imported = _read(name)
            waiting.extend(imported)
    for thing in things:
        sources |= {str(path): _content(path) for path in getattr(thing, "reads", ())}
    return hashlib.sha256("\n".join(f"{name} {sources[name]}" for name in sorted(sources)).encode()).hexdigest()


def _kinds(thing: object) -> Iterator[type]:
    """The class of `thing` with all that it inherits from, and those of the values that it was made with."""
    yield from (thing if isinstance(thing, type) else type(thing)).__mro__
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        for value in parameters_of(thing).values():
            for part in value if isinstance(value, list | tuple) else [value]:
                if type(part).__module__ not in sys.builtin_module_names:
                    yield from _kinds(part)


def _content(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return _UNKNOWN


@cache
def _is_followed(name: str, start: frozenset[str], folders: frozenset[Path]) -> bool:
    """Whether a module is one of those that somebody may edit in order to change results: one of `start`, of this
    package, or in one of `folders`.
    """
    if name in (_OURS, _CHOOSING) or _is_library(name):
        return False
    if name in start or name.startswith(f"{_OURS}."):
        return True
    path = _file(name)
    return path is not None and any(path.is_relative_to(folder) for folder in folders)


@cache
def _is_library(name: str) -> bool:
    """Whether a module belongs to Python or to something that was installed; this package never counts as that."""
    root = name.partition(".")[0]
    if root == _OURS:
        return False
    path = _file(root)
    return root in sys.stdlib_module_names or (path is not None and bool(_INSTALLED & {*path.parts}))


@cache
def _read(name: str) -> tuple[str, frozenset[str]]:
    """The digest of a module's source, and the modules that it names in its imports."""
    path = _file(name)
    if path is None:
        return _UNKNOWN, frozenset()
    try:
        source = path.read_bytes()
        return hashlib.sha256(source).hexdigest(), frozenset(_imports(name, path, ast.parse(source)))
    except (OSError, SyntaxError, ValueError):
        return _UNKNOWN, frozenset()


def _imports(name: str, path: Path, tree: ast.Module) -> Iterator[str]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                # what is a module itself does not depend on the package that it is in
                inner = f"{origin}.{alias.name}"
                yield inner if not _is_library(origin) and _file(inner) is not None else origin


@cache
def _file(name: str) -> Path | None:
    """Where a module's source is; None if there is none."""
    loaded = sys.modules.get(name)
    found = getattr(loaded, "__file__", None)
    if loaded is None:
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, AttributeError, ValueError):
            return None
        found = None if spec is None or not spec.has_location else spec.origin
    return Path(found) if found is not None and found.endswith(".py") else None
