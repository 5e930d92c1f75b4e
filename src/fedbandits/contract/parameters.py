"""Parameters as values: frozen, checked when they are made, with errors that name the field and the fix."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar, cast, dataclass_transform

from pydantic import ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass, rebuild_dataclass

from fedbandits.contract.errors import ConfigError, explain, hint

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(Field, dataclasses.field))
def parameters(kind: type[T]) -> type[T]:
    """Make `kind` a frozen dataclass of keyword parameters: every algorithm, environment, network and stage is one.

    Values are checked against their annotations, and what does not fit raises `ConfigError`, as from the command line:

    >>> from typing import Annotated
    >>> @parameters
    ... class Periodic:
    ...     every: Annotated[int, Field(ge=1)] = 10
    >>> Periodic(every=5)
    Periodic(every=5)
    >>> Periodic(evry=5)
    Traceback (most recent call last):
    fedbandits.contract.errors.ConfigError: Periodic has no parameter 'evry'; did you mean 'every'?
    >>> Periodic(every=0)
    Traceback (most recent call last):
    fedbandits.contract.errors.ConfigError: Periodic: every: must be greater than or equal to 1 (got 0)
    """
    return _made(kind, kw_only=True)


@dataclass_transform(frozen_default=True, field_specifiers=(Field, dataclasses.field))
def value(kind: type[T]) -> type[T]:
    """As `parameters`, for small values whose fields may also be given by their place: `Noise(0.5)`."""
    return _made(kind, kw_only=False)


_STRICT = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
_CALLER = 4
"""Frames from pydantic's look around up to where a class is decorated."""


def called(kind: type) -> str:
    """What people call `kind`: its name in the catalogue, or its own."""
    about = getattr(kind, "about", None)
    return str(getattr(about, "name", None) or getattr(kind, "name", None) or kind.__name__)


def _made(kind: type[T], *, kw_only: bool) -> type[T]:
    made: Any = dataclass(frozen=True, kw_only=kw_only, config=_STRICT)(kind)
    # names in annotations may be local to where the class is written, be it a function or a doctest; what is not known
    # there is an error now, since pydantic would put its own `__init__` in place of ours when it comes to know it
    rebuild_dataclass(made, _parent_namespace_depth=_CALLER)
    return _complaining(cast(type[T], made))


def _complaining(kind: type[T]) -> type[T]:
    """`kind`, whose making raises `ConfigError` where pydantic's own errors would come up."""
    checked: Callable[..., None] = kind.__init__

    def __init__(self: Any, *given: Any, **named: Any) -> None:  # noqa: N807
        name = called(type(self))
        known = [item.name for item in dataclasses.fields(type(self)) if item.init]
        for unknown in named:
            if unknown not in known:
                raise ConfigError(f"{name} has no parameter {unknown!r}; {hint(unknown, known, 'it takes')}")
        placed = [item.name for item in dataclasses.fields(type(self)) if item.init and not item.kw_only]
        if len(given) > len(placed):
            asked = f"at most {len(placed)} without names ({', '.join(placed)})" if placed else "its parameters by name"
            example = f"{type(self).__name__}({(known or ['...'])[0]}={given[0]!r})"
            raise ConfigError(f"{name} takes {asked}; write {example}")
        for twice in placed[: len(given)]:
            if twice in named:
                raise ConfigError(f"{name}: {twice} is given twice, by its place and by its name; leave one out")
        named |= dict(zip(placed, given, strict=False))  # by name, so that errors name it
        try:
            checked(self, **named)
        except ValidationError as error:
            raise ConfigError(explain(name, error)) from None

    __init__.__wrapped__ = checked  # type: ignore[attr-defined]
    kind.__init__ = __init__  # type: ignore[method-assign]
    return kind
