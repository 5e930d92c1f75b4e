"""Algorithms, environments and networks in plain values: for files that people read, and to tell results apart."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedbandits.contract.catalogue import ConfigError


def describe(thing: Any) -> dict[str, Any]:
    """Name and parameters of an algorithm, environment or network, as plain values.

    The name is that of the catalogue, or of the class where it has no entry. Parameters are the fields of a dataclass,
    and the attributes of anything else. What is made of other things says itself what it is (`described`).
    """
    own = getattr(thing, "described", None)
    if own is not None:
        return dict(own())
    return {"name": name_of(thing), **{name: plain(value) for name, value in parameters_of(thing).items()}}


def name_of(thing: Any) -> str:
    """What people call it."""
    about = getattr(thing, "about", None)
    return str(getattr(about, "name", type(thing).__name__))


def parameters_of(thing: Any) -> dict[str, Any]:
    """What it was made with: the fields of a dataclass, the attributes of anything else."""
    if dataclasses.is_dataclass(thing):
        return {item.name: getattr(thing, item.name) for item in dataclasses.fields(thing)}
    return dict(getattr(thing, "__dict__", {}))


def require_told_apart(thing: Any) -> None:
    """Refuse what `describe` does not tell apart from others of its kind: results of it cannot be kept.

    Dataclasses say what their parameters are. Of other classes nobody knows, unless all they hold are plain values.
    """
    if dataclasses.is_dataclass(thing):
        return
    kind = type(thing).__name__
    fix = f"make {kind} a frozen dataclass of parameters, or leave out= away"
    if not hasattr(thing, "__dict__"):
        raise ConfigError(f"out: what a {kind} was made with cannot be seen, so its results cannot be kept; {fix}")
    for name, value in vars(thing).items():
        if not _is_plain(value):
            raise ConfigError(
                f"out: {kind}.{name} is {_article(type(value).__name__)}, which tells nobody what the {kind} was made "
                f"with, so its results cannot be kept; {fix}"
            )


def plain(value: Any) -> Any:
    """`value` in terms JSON has: infinities and NaN become words, arrays lists, and the rest its representation."""
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, str | int | float) else repr(value)


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_plain, value.values()))
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biufUS"
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | int | float | np.generic)


def _article(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"
