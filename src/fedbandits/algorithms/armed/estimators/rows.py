"""Lists of numbers that grow at different speeds, one for every arm of every agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from fedbandits.contract.arrays import Array, FloatArray, Index, IntArray, State
from fedbandits.contract.state import Stateful
from fedbandits.linalg.jit import jit, jit_inside

_SMALLEST = 16
_SPARE = 2
MOST_CELLS = 2**26
"""So much room is not kept free for what may arrive at once; half a gigabyte."""


class Lists(NamedTuple):
    """`Rows` as compiled loops see them: list (i, k) begins at cell `starts[i, k]`, `lengths[i, k]` cells long.

    It may grow to `rooms[i, k]` cells.
    """

    cells: FloatArray
    starts: IntArray
    lengths: IntArray
    rooms: IntArray


class Rows(Stateful):
    """Lists in one array, each with room to spare: one that has filled its room moves to the end, into twice as much.

    When the end is reached, everything moves to a new array, without the gaps. So n numbers take O(n) cells and O(n)
    time, however unevenly they fall on the lists. A snapshot holds the numbers alone, list after list (`cells`), and
    `lengths` (n, K).
    """

    keeps: ClassVar[tuple[str, ...]] = ("cells", "lengths")
    resizes: ClassVar[frozenset[str]] = frozenset({"cells"})

    def __init__(self, n: int, arms: int) -> None:
        self._fill(np.zeros(0), np.zeros((n, arms), dtype=np.int64))

    @property
    def cells(self) -> FloatArray:
        """The numbers of all lists, one list after another. A copy."""
        return self._packed(slice(None))

    @property
    def lists(self) -> Lists:
        """Valid until a list is made longer."""
        return Lists(self._cells, self._starts, self.lengths, self._rooms)

    def extend(self, agent: int, arm: int) -> None:
        """Make room in a list, unless there is some."""
        room, length = int(self._rooms[agent, arm]), int(self.lengths[agent, arm])
        if length + _SPARE <= room:
            return
        if self._end + 2 * room > len(self._cells):
            self._fill(self.cells, self.lengths)
            return
        start, self._starts[agent, arm] = self._starts[agent, arm], self._end
        self._cells[self._end : self._end + length] = self._cells[start : start + length]
        self._rooms[agent, arm] = 2 * room
        self._end += 2 * room

    def reserve(self, more: IntArray) -> bool:
        """Make room for so many more numbers (n,) in all lists of an agent, unless there is some; False, nothing having
        changed, where that would be more than `MOST_CELLS` in all.
        """
        if more.sum() * self.lengths.shape[1] > MOST_CELLS:
            return False
        if (self.lengths + more[:, None] > self._rooms).any():
            self._fill(self.cells, self.lengths, more)
        return True

    def _fill(self, packed: FloatArray, lengths: IntArray, more: IntArray | None = None) -> None:
        """Lists of these lengths, whose numbers are `packed` one after another, with room for so many `more` (n,)."""
        self.lengths = lengths
        self._rooms = np.maximum(_SMALLEST, lengths + lengths // 2)
        if more is not None:
            self._rooms += more[:, None]
        ends = np.cumsum(self._rooms)
        self._starts = (ends - self._rooms.ravel()).reshape(lengths.shape)
        self._end = int(ends[-1])
        self._cells = np.empty(2 * self._end + 2 * int(self._rooms.max()))
        _unpack(packed, self.lists)

    def _packed(self, agents: slice) -> FloatArray:
        return _pack(self._cells, self._starts[agents], self.lengths[agents])

    def _share(self, agent: int, prefix: str) -> State:
        own = slice(agent, agent + 1)
        return {f"{prefix}cells": self._packed(own), f"{prefix}lengths": self.lengths[own]}

    def _check_grown(self, state: Mapping[str, Array], prefix: str) -> None:
        """As many numbers as the lists are long."""
        cells, lengths = state[f"{prefix}cells"], state[f"{prefix}lengths"]
        if lengths.min(initial=0) < 0 or len(cells) != lengths.sum():
            raise ValueError(f"the snapshot's {prefix}cells are {len(cells)} numbers, its lists have {lengths.sum()}")

    def _take(self, state: Mapping[str, Array], prefix: str) -> None:
        self._fill(state[f"{prefix}cells"], np.array(state[f"{prefix}lengths"]))


@jit_inside
def holds(lists: Lists, i: Index, k: Index, more: int) -> bool:
    """Whether a list has room for so many more numbers."""
    return bool(lists.lengths[i, k] + more <= lists.rooms[i, k])


@jit_inside
def append(lists: Lists, i: Index, k: Index, number: float) -> None:
    """Put a number at the end of a list that has room."""
    lists.cells[lists.starts[i, k] + lists.lengths[i, k]] = number
    lists.lengths[i, k] += 1


@jit_inside
def listed(lists: Lists, i: Index, k: Index) -> FloatArray:
    """The numbers of a list, by reference."""
    start = lists.starts[i, k]
    return lists.cells[start : start + lists.lengths[i, k]]


@jit
def _pack(cells: FloatArray, starts: IntArray, lengths: IntArray) -> FloatArray:
    out = np.empty(lengths.sum())
    at = 0
    for i in range(lengths.shape[0]):
        for k in range(lengths.shape[1]):
            for s in range(lengths[i, k]):
                out[at + s] = cells[starts[i, k] + s]
            at += lengths[i, k]
    return out


@jit
def _unpack(packed: FloatArray, lists: Lists) -> None:
    at = 0
    for i in range(lists.lengths.shape[0]):
        for k in range(lists.lengths.shape[1]):
            for s in range(lists.lengths[i, k]):
                lists.cells[lists.starts[i, k] + s] = packed[at + s]
            at += lists.lengths[i, k]
