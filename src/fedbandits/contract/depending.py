"""Catalogue entries that depend on parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

Entry = TypeVar("Entry")


def depending(default: Entry, how: Callable[[Any, Entry], Entry]) -> Entry:
    """An entry in the catalogue that is `default` for a class, and `how(instance, default)` for each instance of it.

    What an algorithm says, and when, may follow from its parameters: one that calls by data may be given a schedule.
    The class is what the catalogue lists; what runs is an instance. `how` has to leave the entry of an instance made
    with default parameters as it is, and its name in any case: by that one it is found again.

    >>> from typing import ClassVar
    >>> class Periodic:
    ...     about: ClassVar[str] = depending("by data", lambda self, default: f"every {self.every}")
    ...     every = 5
    >>> Periodic.about, Periodic().about
    ('by data', 'every 5')

    To type checkers it is an entry, so that it satisfies protocols and can be overridden by a plain one.
    """
    return cast(Entry, _Depending(default, how))


class _Depending(Generic[Entry]):
    """Reads as an entry, on classes and on instances."""

    def __init__(self, default: Entry, how: Callable[[Any, Entry], Entry]) -> None:
        self._default = default
        self._how = how

    def __get__(self, instance: object | None, owner: type | None = None) -> Entry:
        return self._default if instance is None else self._how(instance, self._default)
