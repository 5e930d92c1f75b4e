"""What choices have led to: the transitions of n agents, each distinct one once, with how often it was made.

A transition of stage h is (phi, r, x'): the arm that was taken, what it paid, and the view that came next, if any. Sums
over them are all that least-squares value iteration needs, so that equal ones are kept as a number and a sum of
rewards: where features are finite, an agent's whole history takes at most one row for each stage, state, action and
next state, however long it lives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fedbandits.contract.arrays import Array, BoolArray, FloatArray, IntArray, State
from fedbandits.contract.state import Stateful
from fedbandits.linalg.jit import jit, jit_part
from fedbandits.models.views import Views, find_view, grown

NOTHING = -1
"""The view that comes after the end of an episode."""
Table = tuple[IntArray, IntArray, IntArray, FloatArray, IntArray]
"""`arm`, `to`, `number`, `reward` and `rows` of `Transitions`."""
_FEW = 8
"""Rows there is room for at first."""


class Told(NamedTuple):
    """Lists of transitions that stand for themselves: one for each of w agents, or one for all of them (w = 1).

    Views come with it: `arms` (w, rows, d) in sets of `sizes` (w, views). A transition was made in `stage` (w, m), by
    the arm in row `arm` (w, m), and led to the view `to` (w, m), or to `NOTHING`; `number` (w, m) times, which paid
    `reward` (w, m) in all. `views` (w,) and `many` (w,) are how many of each there are.
    """

    arms: FloatArray
    sizes: IntArray
    stage: IntArray
    arm: IntArray
    to: IntArray
    number: IntArray
    reward: FloatArray
    views: IntArray
    many: IntArray

    @property
    def rows(self) -> IntArray:
        """(w,) how many arms there are."""
        return np.asarray(self.sizes.sum(axis=1))

    def fits(self, length: int) -> bool:
        """Whether every number points at something that is there, stages being below `length`."""
        return bool(_fits(self, length))

    def merged(self, length: int) -> Told:
        """One list of what is in all of them, equal transitions being counted together."""
        if len(self.many) == 1:
            return self
        one = Transitions(1, self.arms.shape[2], length)
        one.absorb(np.zeros(len(self.many), dtype=np.int64), self)
        return one.told(np.zeros(1, dtype=np.int64), 0)


class Transitions(Stateful):
    """n histories of episodes of `length` H, in `parts` that are told apart.

    Row agent H + stage of `arm`, `to` (n H, room) and of `number`, `reward` (n H, room, parts) has the distinct
    transitions of that stage, `rows` (n H,) of them: the row of the arm in `views.arms`, the view it led to (`NOTHING`
    at the end of an episode), how often, and what was paid in all. `arms` is how many arms are shown at a turn, where
    that is known.
    """

    keeps: ClassVar[tuple[str, ...]] = ("views", "arm", "to", "number", "reward", "rows")
    resizes: ClassVar[frozenset[str]] = frozenset({"arm", "to", "number", "reward"})

    def __init__(self, n: int, dim: int, length: int, parts: int = 1, arms: int = 1) -> None:
        self.length = length
        self.views = Views(n, dim, arms)
        self.arm = np.zeros((n * length, _FEW), dtype=np.int64)
        self.to = np.zeros((n * length, _FEW), dtype=np.int64)
        self.number = np.zeros((n * length, _FEW, parts), dtype=np.int64)
        self.reward = np.zeros((n * length, _FEW, parts))
        self.rows = np.zeros(n * length, dtype=np.int64)

    def add(self, at: IntArray, arm: IntArray, to: IntArray, reward: FloatArray, part: int = 0) -> None:
        """One transition in each of the rows `at` (m,), distinct ones, which are agent H + stage."""
        if len(at):
            self._make_room(int(self.rows[at].max()) + 1)
            _add(self.table, at, arm, to, reward, part)

    def make_room(self) -> None:
        """Room for one more view of everybody, and one more transition in every stage."""
        self.views.make_room(np.arange(len(self.views.count)), 1, self.views.widest)
        self._make_room(int(self.rows.max(initial=0)) + 1)

    def move(self, who: IntArray, source: int, target: int) -> None:
        """All transitions of one part of `who` are of another one from now on."""
        at = self.places(who)
        self.number[at, :, target] += self.number[at, :, source]
        self.reward[at, :, target] += self.reward[at, :, source]
        self.clear(who, source)

    def any(self, part: int = 0) -> BoolArray:
        """(n,) who has any transitions in a part."""
        return np.asarray(self.number[:, :, part].any(axis=1).reshape(-1, self.length).any(axis=1))

    def clear(self, who: IntArray, part: int) -> None:
        """Forget one part of `who`; what was ever seen keeps its place."""
        at = self.places(who)
        self.number[at, :, part] = 0
        self.reward[at, :, part] = 0.0

    def absorb(self, who: IntArray, told: Told, part: int = 0, sign: int = 1) -> None:
        """Add what each of `who` is told to a part; with `sign` -1 take it out. Somebody may be told several lists."""
        if len(who) == 0 or told.many.max(initial=0) == 0:
            return
        most = int(np.bincount(who).max())
        self.views.make_room(who, most * int(told.views.max()), most * int(told.rows.max()))
        busiest = most * _busiest(told.stage, told.many, self.length)
        self._make_room(int(self.rows[self.places(who)].max()) + busiest)
        _absorb(self.views.table, self.table, who, told, self.length, part, sign)

    def told(self, who: IntArray, part: int) -> Told:
        """A part of the transitions of `who`, as lists that stand for themselves: with just the views they need."""
        sizes = _sizes(self.views.table, self.table, who, self.length, part)
        w, (arms, views, many) = len(who), sizes.max(axis=0, initial=0)
        stage, arm, to, number = (np.zeros((w, many), dtype=np.int64) for _ in range(4))
        told = Told(
            arms=np.zeros((w, arms, self.views.arms.shape[2])),
            sizes=np.zeros((w, views), dtype=np.int64),
            stage=stage,
            arm=arm,
            to=to,
            number=number,
            reward=np.zeros((w, many)),
            views=sizes[:, 1].copy(),
            many=sizes[:, 2].copy(),
        )
        _tell(self.views.table, self.table, who, self.length, part, told)
        return told

    @property
    def table(self) -> Table:
        """All of it but the views, for kernels."""
        return self.arm, self.to, self.number, self.reward, self.rows

    def places(self, who: IntArray) -> IntArray:
        """(w H,) the rows of `who`, agent by agent."""
        return (who[:, None] * self.length + np.arange(self.length)).ravel()

    def _make_room(self, rows: int) -> None:
        if rows > self.arm.shape[1]:
            for name in ("arm", "to", "number", "reward"):
                setattr(self, name, grown(getattr(self, name), rows))

    def _arrays(self, prefix: str = "") -> State:
        """Without room that nobody uses, so that a snapshot says nothing of how it was reached."""
        most = int(self.rows.max(initial=0))
        own: State = {f"{prefix}{name}": getattr(self, name)[:, :most] for name in ("arm", "to", "number", "reward")}
        return self.views._arrays(f"{prefix}views.") | own | {f"{prefix}rows": self.rows}

    def _share(self, agent: int, prefix: str) -> State:
        at = slice(agent * self.length, (agent + 1) * self.length)
        most = int(self.rows[at].max())
        own: State = {f"{prefix}{name}": getattr(self, name)[at, :most] for name in ("arm", "to", "number", "reward")}
        return self.views._share(agent, f"{prefix}views.") | own | {f"{prefix}rows": self.rows[at]}

    def _check_grown(self, state: Mapping[str, Array], prefix: str) -> None:
        """Only the room may differ, and has to hold what there is."""
        super()._check_grown(state, prefix)
        room = max(int(state[f"{prefix}rows"].max(initial=0)), state[f"{prefix}arm"].shape[1])
        for name in ("arm", "to", "number", "reward"):
            held = getattr(self, name)
            needed, given = (len(held), room, *held.shape[2:]), state[prefix + name].shape
            if given != needed:
                raise ValueError(f"the snapshot's {prefix}{name} has shape {given}, this needs {needed}")


@jit_part
def _note(kept: Any, at: int, arm: int, to: int) -> int:
    """The place of a transition in its row, at the end where it is new."""
    arms, tos, _, _, rows = kept
    count = rows[at]
    for k in range(count):
        if arms[at, k] == arm and tos[at, k] == to:
            return k
    arms[at, count] = arm
    tos[at, count] = to
    rows[at] = count + 1
    return int(count)


@jit_part
def add_one(kept: Any, at: int, arm: int, to: int, paid: float, part: int) -> bool:
    """One transition in row `at`, as part of a longer compiled loop; whether there is room for another one."""
    _, _, number, reward, rows = kept
    k = _note(kept, at, arm, to)
    number[at, k, part] += 1
    reward[at, k, part] += paid
    return bool(rows[at] < number.shape[1])


@jit
def _add(kept: Any, at: IntArray, arm: IntArray, to: IntArray, paid: FloatArray, part: int) -> None:
    for i in range(len(at)):
        add_one(kept, at[i], arm[i], to[i], paid[i], part)


@jit
def _busiest(stage: IntArray, many: IntArray, length: int) -> int:
    """The largest number of transitions in one stage of a list."""
    most = 0
    for i in range(len(many)):
        found = np.zeros(length, np.int64)
        for m in range(many[i]):
            found[stage[i, m]] += 1
        most = max(most, found.max())
    return most


@jit
def _fits(told: Any, length: int) -> bool:
    for i in range(len(told.many)):
        if not (0 <= told.views[i] <= told.sizes.shape[1] and 0 <= told.many[i] <= told.stage.shape[1]):
            return False
        rows = 0
        for v in range(told.sizes.shape[1]):
            if told.sizes[i, v] < (1 if v < told.views[i] else 0) or told.sizes[i, v] > told.arms.shape[1]:
                return False
            rows += told.sizes[i, v]
        if rows > told.arms.shape[1]:
            return False
        for m in range(told.many[i]):
            if not (0 <= told.stage[i, m] < length and 0 <= told.arm[i, m] < rows):
                return False
            if not (NOTHING <= told.to[i, m] < told.views[i] and told.number[i, m] >= 0):
                return False
    return True


@jit
def _absorb(views: Any, kept: Any, who: IntArray, told: Any, length: int, part: int, sign: int) -> None:
    arms, ends, count, slots = views
    number, reward = kept[2], kept[3]
    for i in range(len(who)):
        a = who[i]
        row = i if len(told.many) > 1 else 0
        found = np.empty(told.views[row], np.int64)
        place = np.empty(told.arms.shape[1], np.int64)
        begin = 0
        for v in range(told.views[row]):
            end = begin + told.sizes[row, v]
            found[v] = find_view(arms[a], ends[a], count[a : a + 1], slots[a], told.arms[row, begin:end])
            start = ends[a, found[v] - 1] if found[v] > 0 else 0
            for k in range(begin, end):
                place[k] = start + k - begin
            begin = end
        for m in range(told.many[row]):
            at = a * length + told.stage[row, m]
            after = told.to[row, m]
            k = _note(kept, at, place[told.arm[row, m]], found[after] if after >= 0 else NOTHING)
            number[at, k, part] += sign * told.number[row, m]
            reward[at, k, part] += sign * told.reward[row, m]


@jit_part
def _view_of(ends: IntArray, row: int) -> int:
    """The view that the arm in `row` belongs to."""
    return int(np.searchsorted(ends, row, side="right"))


@jit_part
def _needed(ends: IntArray, kept: Any, a: int, length: int, part: int) -> tuple[Any, int]:
    """(views,) which views of agent `a` the transitions of a part are about, and how many transitions there are."""
    arm, to, number, _, rows = kept
    needed = np.zeros(len(ends), np.bool_)
    many = 0
    for at in range(a * length, (a + 1) * length):
        for k in range(rows[at]):
            if number[at, k, part] != 0:
                many += 1
                needed[_view_of(ends, arm[at, k])] = True
                if to[at, k] >= 0:
                    needed[to[at, k]] = True
    return needed, many


@jit
def _sizes(views: Any, kept: Any, who: IntArray, length: int, part: int) -> IntArray:
    """(w, 3) how many arms, views and transitions there are in a part."""
    ends, count = views[1], views[2]
    sizes = np.zeros((len(who), 3), np.int64)
    for i in range(len(who)):
        a = who[i]
        needed, sizes[i, 2] = _needed(ends[a, : count[a]], kept, a, length, part)
        for v in range(count[a]):
            if needed[v]:
                sizes[i, 1] += 1
                sizes[i, 0] += ends[a, v] - (ends[a, v - 1] if v > 0 else 0)
    return sizes


@jit
def _tell(views: Any, kept: Any, who: IntArray, length: int, part: int, told: Any) -> None:
    """Fill `told`, which has the sizes it needs: views in the order in which they were first seen."""
    arms, ends, count, _ = views
    arm, to, number, reward, rows = kept
    for i in range(len(who)):
        a = who[i]
        seen = ends[a, : count[a]]
        needed, _ = _needed(seen, kept, a, length, part)
        named = np.empty(count[a], np.int64)
        shift = np.empty(count[a], np.int64)
        n, filled = 0, 0
        for v in range(count[a]):
            if needed[v]:
                begin = seen[v - 1] if v > 0 else 0
                size = seen[v] - begin
                told.arms[i, filled : filled + size] = arms[a, begin : begin + size]
                told.sizes[i, n] = size
                named[v], shift[v] = n, filled - begin
                n, filled = n + 1, filled + size
        m = 0
        for h in range(length):
            at = a * length + h
            for k in range(rows[at]):
                if number[at, k, part] != 0:
                    told.stage[i, m] = h
                    told.arm[i, m] = arm[at, k] + shift[_view_of(seen, arm[at, k])]
                    told.to[i, m] = named[to[at, k]] if to[at, k] >= 0 else NOTHING
                    told.number[i, m] = number[at, k, part]
                    told.reward[i, m] = reward[at, k, part]
                    m += 1
