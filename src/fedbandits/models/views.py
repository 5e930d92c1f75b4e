"""What agents have been shown, each sight once: states that can be told by their arms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from fedbandits.contract.arrays import Array, FloatArray, IntArray, State
from fedbandits.contract.state import Stateful
from fedbandits.linalg.jit import jit, jit_part

ViewTable = tuple[FloatArray, IntArray, IntArray, IntArray]
"""`arms`, `ends` and `count` of `Views`, and where they are found by their hashes."""
_FEW = 16
"""Views there is room for at first."""


class Views(Stateful):
    """For n agents, the distinct sets of arms each has seen: `arms` (n, room, d), one set after the other, `ends`
    (n, views) where each of them ends, and how many there are, `count` (n,).

    A set is found again by its numbers, in constant time. Where features are finite, as in a tabular problem, there are
    no more of them than states; else every turn adds one. Sets may differ in size; `widest` is what one has at most, as
    far as that is known beforehand.
    """

    keeps: ClassVar[tuple[str, ...]] = ("arms", "ends", "count")
    resizes: ClassVar[frozenset[str]] = frozenset({"arms", "ends"})

    def __init__(self, n: int, dim: int, widest: int = 1) -> None:
        self.widest = widest
        self.arms = np.zeros((n, _FEW, dim))
        self.ends = np.zeros((n, _FEW), dtype=np.int64)
        self.count = np.zeros(n, dtype=np.int64)
        self._index()

    def intern(self, who: IntArray, arms: FloatArray) -> IntArray:
        """(w,) the number of the view `arms` (w, K, d) of each of `who`, which is a new one where it was never seen."""
        self.make_room(who, 1, arms.shape[1])
        shown = np.ascontiguousarray(arms + 0.0)  # there is no negative zero
        return _intern(self.arms, self.ends, self.count, self._slots, who, shown)

    def of(self, agent: int) -> tuple[FloatArray, IntArray]:
        """All arms that `agent` has seen (rows, d), and where each set of them ends (views,)."""
        ends = self.ends[agent, : int(self.count[agent])]
        return self.arms[agent, : int(ends[-1]) if len(ends) else 0], ends

    def make_room(self, who: IntArray, views: int, rows: int) -> None:
        """Room for so many more `views` and arms, their `rows`, of each of `who`."""
        seen, used = _fullest(self.ends, self.count, who)
        if used + rows > self.arms.shape[1]:
            self.arms = grown(self.arms, used + rows)
        if seen + views > self.ends.shape[1]:
            self.ends = grown(self.ends, seen + views)
            self._index()

    @property
    def table(self) -> ViewTable:
        """All of it, for kernels."""
        return self.arms, self.ends, self.count, self._slots

    def _index(self) -> None:
        size = 4
        while size < 2 * self.ends.shape[1]:
            size *= 2
        self._slots = np.zeros((len(self.count), size), dtype=np.int64)
        _reindex(self.arms, self.ends, self.count, self._slots)

    def _arrays(self, prefix: str = "") -> State:
        """Without room that nobody uses, so that a snapshot says nothing of how it was reached."""
        seen, used = _fullest(self.ends, self.count, np.arange(len(self.count)))
        return {
            f"{prefix}arms": self.arms[:, :used],
            f"{prefix}ends": self.ends[:, :seen],
            f"{prefix}count": self.count,
        }

    def _share(self, agent: int, prefix: str) -> State:
        arms, ends = self.of(agent)
        count = self.count[agent : agent + 1]
        return {f"{prefix}arms": arms[None], f"{prefix}ends": ends[None], f"{prefix}count": count}

    def _check_grown(self, state: Mapping[str, Array], prefix: str) -> None:
        """Only the room may differ, and has to hold what there is."""
        n, _, dim = self.arms.shape
        arms, ends, count = (state[prefix + name] for name in self.keeps)
        views, rows = int(count.max(initial=0)), int(ends.max(initial=0))
        if len(ends) != n or ends.shape[1] < views:
            raise ValueError(f"the snapshot's {prefix}ends has shape {ends.shape}, this needs ({n}, {views} or more)")
        if len(arms) != n or arms.shape[1] < rows or arms.shape[2] != dim:
            needed = f"({n}, {rows} or more, {dim})"
            raise ValueError(f"the snapshot's {prefix}arms has shape {arms.shape}, this needs {needed}")

    def _take(self, state: Mapping[str, Array], prefix: str) -> None:
        super()._take(state, prefix)
        self._index()


def grown(array: Array, needed: int) -> Array:
    """`array` (n, room, ...) with room for what is needed: twice as much, until it is enough."""
    room = max(array.shape[1], 1)
    while room < needed:
        room *= 2
    larger = np.zeros((len(array), room, *array.shape[2:]), dtype=array.dtype)
    larger[:, : array.shape[1]] = array
    return larger


@jit
def _fullest(ends: IntArray, count: IntArray, who: IntArray) -> tuple[int, int]:
    """The largest numbers of views and of arms that any of `who` has seen."""
    seen, used = 0, 0
    for a in who:
        if count[a] > 0:
            seen = max(seen, count[a])
            used = max(used, ends[a, count[a] - 1])
    return seen, used


@jit_part
def _mixed(found: np.uint64, bits: np.uint64) -> np.uint64:
    found = (found ^ bits) * np.uint64(1099511628211)
    return found ^ (found >> np.uint64(29))


@jit_part
def _hash(rows: FloatArray) -> np.uint64:
    """Every fourth number has a hash of its own until the end, so that none waits for the one before."""
    start = np.uint64(1469598103934665603) + np.uint64(rows.shape[0])
    a, b, c, d = start, start, start, start
    whole = rows.shape[1] - rows.shape[1] % 4
    for j in range(rows.shape[0]):
        bits = rows[j].view(np.uint64)
        for k in range(0, whole, 4):
            a, b = _mixed(a, bits[k]), _mixed(b, bits[k + 1])
            c, d = _mixed(c, bits[k + 2]), _mixed(d, bits[k + 3])
        for k in range(whole, rows.shape[1]):
            a = _mixed(a, bits[k])
    return _mixed(_mixed(_mixed(a, b), c), d)


@jit_part
def _same(stored: FloatArray, rows: FloatArray) -> bool:
    if stored.shape[0] != rows.shape[0]:
        return False
    for j in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            if stored[j, k] != rows[j, k]:
                return False
    return True


@jit_part
def find_view(arms: FloatArray, ends: IntArray, count: IntArray, slots: IntArray, rows: FloatArray) -> int:
    """The number of the view `rows` (K, d) of one agent, which is noted where it is new: `arms` (room, d), `ends`
    (views,), `count` (1,) and `slots` are those of the agent, and there has to be room.
    """
    mask = np.uint64(len(slots) - 1)
    place = _hash(rows) & mask
    while slots[place] > 0:
        view = slots[place] - 1
        begin = ends[view - 1] if view > 0 else 0
        if _same(arms[begin : ends[view]], rows):
            return int(view)
        place = (place + np.uint64(1)) & mask
    view = count[0]
    begin = ends[view - 1] if view > 0 else 0
    arms[begin : begin + len(rows)] = rows
    ends[view] = begin + len(rows)
    slots[place] = view + 1
    count[0] = view + 1
    return int(view)


@jit
def _intern(
    arms: FloatArray, ends: IntArray, count: IntArray, slots: IntArray, who: IntArray, shown: FloatArray
) -> IntArray:
    found = np.empty(len(who), np.int64)
    for i in range(len(who)):
        a = who[i]
        found[i] = find_view(arms[a], ends[a], count[a : a + 1], slots[a], shown[i])
    return found


@jit
def _reindex(arms: FloatArray, ends: IntArray, count: IntArray, slots: IntArray) -> None:
    mask = np.uint64(slots.shape[1] - 1)
    for a in range(len(count)):
        begin = 0
        for view in range(count[a]):
            place = _hash(arms[a, begin : ends[a, view]]) & mask
            while slots[a, place] > 0:
                place = (place + np.uint64(1)) & mask
            slots[a, place] = view + 1
            begin = ends[a, view]
