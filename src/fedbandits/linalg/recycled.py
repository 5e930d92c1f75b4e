"""Room for large results that is used again: memory fresh from the system costs more than filling it."""

from __future__ import annotations

import math
import sys
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedbandits.linalg.kernels import aligned

Floats: TypeAlias = NDArray[np.float64]


class Recycled:
    """Gives the same room out again and again, as long as nobody else holds what was given out or a view of it; else
    new room. It grows to what was asked for most.

    With `lines` it begins at a cache line.
    """

    def __init__(self, *, lines: bool = False) -> None:
        self._new = aligned if lines else np.empty
        self._room = np.empty(0)
        self._owner: Floats | None = None

    def empty(self, shape: tuple[int, ...]) -> Floats:
        """An array of that shape, whose numbers are whatever was there."""
        size = math.prod(shape)
        # the room is referred to by this object and by the call alone; what it is part of, if so, by the room as well
        held = sys.getrefcount(self._room) > 2 or (self._owner is not None and sys.getrefcount(self._owner) > 3)
        if held or len(self._room) < size:
            self._room = self._new((size,))
            self._owner = self._room.base
        return self._room[:size].reshape(shape)

    def rows(self, array: Floats, who: NDArray[np.int64]) -> Floats:
        """`array[who]`."""
        # without "clip" numpy would fill a copy first; who is not there is refused before
        if len(who) and not 0 <= who.min() <= who.max() < len(array):
            raise IndexError(f"rows {who.min()} to {who.max()} of {len(array)}")
        return array.take(who, axis=0, out=self.empty((len(who), *array.shape[1:])), mode="clip")
