"""Docstrings and signatures as readers need them: examples as code, and the parameters of decorated classes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe

sys.path.insert(0, str(Path(__file__).parent))
from examples import fenced

PARAMETERS = {"parameters": griffe.ParameterKind.keyword_only, "value": griffe.ParameterKind.positional_or_keyword}
"""Decorators of `fedbandits.contract.parameters` that make a class a dataclass, and how its fields are given."""


class Readable(griffe.Extension):
    """Rewrites docstrings before they are parsed, and tells what griffe does not know of our decorators."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Mend the docstring of one object."""
        if obj.docstring is not None and ">" in obj.docstring.value:
            obj.docstring.value = fenced(obj.docstring.value)

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Give decorated classes their signatures, when the classes they inherit from are known."""
        for kind in classes(pkg):
            if (how := given(kind)) is not None and "__init__" not in kind.members:
                fields = griffe.Parameters(griffe.Parameter("self"), *parameters(kind, how))
                kind.set_member("__init__", griffe.Function("__init__", parameters=fields, lineno=kind.lineno))


def classes(holder: griffe.Module | griffe.Class) -> Iterator[griffe.Class]:
    """All classes that are written in `holder`, at any depth."""
    for member in holder.members.values():
        if not member.is_alias and isinstance(member, griffe.Class):
            yield member
        if not member.is_alias and isinstance(member, griffe.Module | griffe.Class):
            yield from classes(member)


def given(kind: griffe.Class) -> griffe.ParameterKind | None:
    """How the fields of `kind` are given, if one of our decorators stands before it."""
    for decorator in kind.decorators:
        room, _, name = decorator.callable_path.rpartition(".")
        if room == "fedbandits.contract.parameters" and name in PARAMETERS:
            return PARAMETERS[name]
    return None


def parameters(kind: griffe.Class, how: griffe.ParameterKind) -> list[griffe.Parameter]:
    """The fields of `kind` with their defaults, inherited ones first."""
    fields: dict[str, griffe.Parameter] = {}
    for holder in (*reversed(kind.mro()), kind):
        for name, member in holder.members.items():
            # class variables and properties lack this label
            if isinstance(member, griffe.Attribute) and member.annotation and "instance-attribute" in member.labels:
                fields[name] = griffe.Parameter(name, annotation=member.annotation, kind=how, default=member.value)
    return list(fields.values())
