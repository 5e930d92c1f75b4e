"""Which code a result comes from, so that results of code that has changed since are not taken for those of today."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import secrets
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_OURS = __name__.partition(".")[0]
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_UNKNOWN = secrets.token_hex()
"""Stands for source that cannot be read, such as what was typed at a prompt: another one in every process."""


def digest_of_code(*things: object) -> str:
    """A digest of the source that defines the classes of `things` and the simulator, and of what that imports.

    Imports are followed within this package, within the package that a class comes from, and to files beside the
    class's own: a change of somebody's algorithm changes the digest for that algorithm and no other. Modules are read
    once in a process, as they are imported once. Not followed: other libraries, and names that are reached through the
    top of this package (`import fedbandits as fb`), except by inheritance. Files of data that a thing `reads` by a path
    of its own count as source.
    """
    start = frozenset(kind.__module__ for thing in things for kind in type(thing).__mro__)
    sources: dict[str, str] = {}
    waiting = [f"{_OURS}.simulation.loop", *start]
    while waiting:
        name = waiting.pop()
        if name not in sources and _is_followed(name, start):
            sources[name], imported = _read(name)
            waiting.extend(imported)
    for thing in things:
        sources |= {str(path): _content(path) for path in getattr(thing, "reads", ())}
    return hashlib.sha256("\n".join(f"{name} {sources[name]}" for name in sorted(sources)).encode()).hexdigest()


def _content(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return _UNKNOWN


@cache
def _is_followed(name: str, start: frozenset[str]) -> bool:
    """Whether a module is one of those that somebody may edit in order to change results."""
    if name == _OURS or _is_library(name):
        return False
    if name in start or name.startswith(f"{_OURS}."):
        return True
    path = _file(name)
    beside = {mine.parent for first in start if not _is_library(first) and (mine := _file(first)) is not None}
    return path is not None and any(path.is_relative_to(parent) for parent in beside)


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
