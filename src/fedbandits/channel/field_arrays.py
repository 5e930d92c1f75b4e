"""What an end of a stage remembers of declared fields."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.state import Stateful


class FieldArrays(Stateful):
    """Zeros of the given `shapes`, one array for each name "KIND-FIELD": a field of a kind of message."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self._arrays_by_name = {name: np.zeros(shape) for name, shape in shapes.items()}
        for name, array in self._arrays_by_name.items():
            setattr(self, name, array)

    @property
    def keeps(self) -> tuple[str, ...]:  # type: ignore[override]
        """All of them."""
        return tuple(self._arrays_by_name)

    def of(self, kind: str, field: str) -> FloatArray | None:
        """That of a field; None for one of which nothing is remembered."""
        return self._arrays_by_name.get(f"{kind}-{field}")
