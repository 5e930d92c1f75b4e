"""Algorithms, environments and networks in plain values: for files that people read, and to tell results apart."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedbandits.contract.catalogue import ConfigError


def describe(thing: Any) -> dict[str, Any]:
    """Public name and parameters of an algorithm, environment or network, as plain values."""
    if not dataclasses.is_dataclass(thing):
        raise ConfigError(
            f"{type(thing).__name__} is not a dataclass of parameters, so its results cannot be told apart"
        )
    parameters = {item.name: plain(getattr(thing, item.name)) for item in dataclasses.fields(thing)}
    return {"name": thing.about.name, **parameters}  # type: ignore[union-attr]


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
