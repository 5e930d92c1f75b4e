"""What a fact is: one kind of prior knowledge about a problem, found by its type."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self


class Fact:
    """A small frozen value that says one thing of a problem, with a `name` for configuration files.

    A family that has to know something new adds a subclass in a file of its own, made a dataclass by
    `contract.parameters.value`; nothing else changes.
    """

    name: ClassVar[str]

    @classmethod
    def read(cls, told: Any) -> Self:
        """The fact as a configuration file tells it: a table of its fields, a list of them, or its only field."""
        if isinstance(told, cls):
            return told
        if isinstance(told, Mapping):
            return cls(**told)
        return cls(*told) if isinstance(told, list | tuple) else cls(told)  # type: ignore[call-arg]

    def plain(self) -> dict[str, Any]:
        """Its fields, in terms JSON has."""
        return dataclasses.asdict(self)  # type: ignore[call-overload, no-any-return]
