"""Room for large results that is used again: memory fresh from the system costs more than filling it."""

from __future__ import annotations

import sys
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedbandits.linalg.kernels import aligned

Floats: TypeAlias = NDArray[np.float64]


class Recycled:
    """Gives the same array out again and again, as long as nobody else holds it or a view of it; else a new one.

    With `lines` it begins at a cache line. As many arrays as `rooms` are remembered: two for results that are held
    until the next.
    """

    def __init__(self, *, lines: bool = False, rooms: int = 1) -> None:
        self._new = aligned if lines else np.empty
        self._rooms: list[Floats] = []
        self._most = rooms

    def empty(self, shape: tuple[int, ...]) -> Floats:
        """An array of that shape, whose numbers are whatever was there."""
        for place in range(len(self._rooms)):
            if self._rooms[place].shape == shape and not self._is_held(place):
                room = self._rooms[place]
                room.flags.writeable = True
                return room
        room = self._new(shape)
        self._rooms = [*self._rooms[1 - self._most or len(self._rooms) :], room]
        return room

    def _is_held(self, place: int) -> bool:
        # an array is referred to by the list and by the call alone; what it is part of, if so, by the array as well
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
    array.flags.writeable = False
    return array


def is_sealed(array: Floats) -> bool:
    """Whether neither the array nor any that it is a view of can be written to: it may be kept as it is."""
    part: object = array
    while isinstance(part, np.ndarray):
        if part.flags.writeable:
            return False
        part = part.base
    return part is None


def read_only(array: Floats) -> Floats:
    """A view that cannot be written to: for arrays that are sealed or not, one type to compile functions for."""
    shown = array.view()
    shown.flags.writeable = False
    return shown
