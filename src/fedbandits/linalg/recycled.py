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

    With `lines` it begins at a cache line. As many rooms as `rooms` are remembered: two for results that are held until
    the next.
    """

    def __init__(self, *, lines: bool = False, rooms: int = 1) -> None:
        self._new = aligned if lines else np.empty
        self._rooms: list[Floats] = []
        self._most = rooms

    def empty(self, shape: tuple[int, ...]) -> Floats:
        """An array of that shape, whose numbers are whatever was there."""
        size = math.prod(shape)
        for place in range(len(self._rooms)):
            if len(self._rooms[place]) >= size and not self._is_held(place):
                room = self._rooms[place]
                for part in reversed(_parts(room)):
                    part.flags.writeable = True
                return room[:size].reshape(shape)
        room = self._new((size,))
        self._rooms = [*self._rooms[1 - self._most or len(self._rooms) :], room]
        return room.reshape(shape)

    def _is_held(self, place: int) -> bool:
        # a room is referred to by the list and by the call alone; what it is part of, if so, by the room as well
        owner = self._rooms[place].base
        return sys.getrefcount(self._rooms[place]) > 2 or (owner is not None and sys.getrefcount(owner) > 3)

    def rows(self, array: Floats, who: NDArray[np.int64]) -> Floats:
        """`array[who]`."""
        # without "clip" numpy would fill a copy first; who is not there is refused before
        if len(who) and not 0 <= who.min() <= who.max() < len(array):
            raise IndexError(f"rows {who.min()} to {who.max()} of {len(array)}")
        return array.take(who, axis=0, out=self.empty((len(who), *array.shape[1:])), mode="clip")


def sealed(array: Floats) -> Floats:
    """The same array, which nobody writes to any more; for those who would otherwise copy it (`is_sealed`)."""
    for part in _parts(array):
        part.flags.writeable = False
    return array


def is_sealed(array: Floats) -> bool:
    """Whether neither the array nor any that it is a view of can be written to: it may be kept as it is."""
    parts = _parts(array)
    return parts[-1].base is None and not any(part.flags.writeable for part in parts)


def _parts(array: Floats) -> list[Floats]:
    """The array, the one that it is a view of, and so on."""
    parts, part = [array], array.base
    while isinstance(part, np.ndarray):
        parts.append(part)
        part = part.base
    return parts


def read_only(array: Floats) -> Floats:
    """A view that cannot be written to: for arrays that are sealed or not, one type to compile functions for."""
    shown = array.view()
    shown.flags.writeable = False
    return shown
