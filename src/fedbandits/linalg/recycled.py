"""Room for large results that is used again: memory fresh from the system costs more than filling it."""

from __future__ import annotations

import sys
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]


class Recycled:
    """Gives the same array out again and again, as long as nobody else holds it or a view of it; else a new one."""

    def __init__(self) -> None:
        self._room = np.empty(0)

    def empty(self, shape: tuple[int, ...]) -> Floats:
        """An array of that shape, whose numbers are whatever was there."""
        # referred to by this object and by the call alone
        if self._room.shape != shape or sys.getrefcount(self._room) > 2:
            self._room = np.empty(shape)
        return self._room

    def rows(self, array: Floats, who: NDArray[np.int64]) -> Floats:
        """`array[who]`."""
        # without "clip" numpy would fill a copy first; who is not there is refused before
        if len(who) and not 0 <= who.min() <= who.max() < len(array):
            raise IndexError(f"rows {who.min()} to {who.max()} of {len(array)}")
        return array.take(who, axis=0, out=self.empty((len(who), *array.shape[1:])), mode="clip")
