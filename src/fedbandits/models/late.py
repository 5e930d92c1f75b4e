"""Agents that make something of what they were told when they next decide, for compiled conversations.

Of many agents that are told something, few may decide before they are told more: what the others would have computed in
between nobody sees. It is computed when an agent is about to decide, or before anybody outside the compiled loop looks
(`contract.compiled.attend`), from sums that are always up to date, hence to the same bits.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fedbandits.contract.arrays import BoolArray, IntArray
from fedbandits.contract.compiled import calls
from fedbandits.linalg import kernels
from fedbandits.linalg.borrowing import borrowed
from fedbandits.linalg.jit import jit_inside, jit_part
from fedbandits.linalg.simd import address, target
from fedbandits.models.ridge import RidgeSums, Sharers, Workspace, refresh_one, workspace
from fedbandits.models.triggers import Watch, level_at

NOTHING, BEHIND, SHARED = 0, 1, 2
"""What an agent has to make up for: nothing; computing what follows from its sums; taking over what all were told."""

_MARGIN = 1e-6
"""How close to its threshold, relatively, a level is looked at in time. What agents are told only lowers it, but for
rounding: others who were told something do not come to call by it."""


class Listeners(Protocol):
    """Whoever has room to note who calls."""

    @property
    def callers(self) -> IntArray:
        """(n,) room for those who call."""

    @property
    def pressed(self) -> BoolArray:
        """(1,) whether somebody may be calling who has not just decided."""


class Late(NamedTuple):
    """Agents, and what each of them has to make up for."""

    agents: Sharers
    stale: NDArray[np.uint8]
    """(n,) `NOTHING`, `BEHIND` or `SHARED`."""
    callers: IntArray
    """(n,) room for those who call."""
    pressed: BoolArray
    """(1,) whether somebody may be calling who has not just decided."""
    room: Workspace


def late(agents: Sharers) -> Late:
    """Agents who have nothing to make up for, of whom anybody may be calling."""
    n, d = agents.fresh.moment.shape
    return Late(agents, np.zeros(n, np.uint8), np.empty(n, np.int64), np.ones(1, np.bool_), workspace(d))


@jit_inside
def find_callers(listeners: Listeners, agents: Any, due: bool) -> int:
    """How many call, those in the first places of `callers`, if somebody may."""
    found = 0
    if due or listeners.pressed[0]:
        for i in range(len(listeners.callers)):
            if calls(agents, i):
                listeners.callers[found] = i
                found += 1
        listeners.pressed[0] = found > 0
    return found


@jit_inside
def look_again(listeners: Listeners, agents: Any) -> None:
    """A conversation is over: note whether anybody calls all the same."""
    listeners.pressed[0] = False
    for i in range(len(listeners.callers)):
        listeners.pressed[0] |= calls(agents, i)


@jit_inside
def catch_up(late: Late, i: int) -> bool:
    """Let agent i compute what follows from its sums, if it has to; whether that could be done."""
    if late.stale[i] != BEHIND:
        return True
    late.stale[i] = NOTHING
    return refresh_one(late.agents, i, late.room)


@jit_inside
def let_know(late: Late, watch: Watch, i: int) -> bool:
    """The sums that agent i was told are in its `base`: it will compute what follows, at once if it might be calling
    then; whether that could be done.
    """
    fresh, growth = late.agents.fresh.seen[i], late.agents.results.growth
    late.stale[i] = BEHIND
    if not fresh > 0.0:
        growth[i] = 0.0
        return True
    near = watch.threshold - _MARGIN * max(1.0, abs(watch.threshold))
    if watch.code >= 0 and not level_at(watch.code, fresh, growth[i]) < near:
        return catch_up(late, i)
    return True


@jit_part
def add_up(agents: Sharers, who: IntArray, asked: int, keeping: bool, total: RidgeSums) -> None:
    """Hand over what is fresh of the first `asked` of `who`: its sum, agent after agent, is written to row 0 of
    `total`. It is moved to their `base` if they are `keeping` it; else they are told all of it before they decide.
    """
    agents, who, total = borrowed(agents), borrowed(who), borrowed(total)
    base, fresh = agents.base, agents.fresh
    d = fresh.moment.shape[1]
    total.gram[0] = 0.0
    total.moment[0] = 0.0
    total.seen[0] = 0.0
    for a in range(asked):
        i = who[a]
        if fresh.seen[i] > 0.0:
            for j in range(d):
                for k in range(d):
                    new = fresh.gram[i, j, k]
                    total.gram[0, j, k] += new
                    if keeping:
                        base.gram[i, j, k] += new
                    fresh.gram[i, j, k] = 0.0
                new = fresh.moment[i, j]
                total.moment[0, j] += new
                if keeping:
                    base.moment[i, j] += new
                fresh.moment[i, j] = 0.0
            if agents.counted:
                total.seen[0] += fresh.seen[i]
            base.seen[i] += fresh.seen[i]
            fresh.seen[i] = 0.0
        agents.results.growth[i] = 0.0


@jit_part
def merge_total(pool: RidgeSums, row: int, total: RidgeSums) -> None:
    """Add row 0 of `total` to a row of `pool`."""
    pool, total = borrowed(pool), borrowed(total)
    d = pool.moment.shape[1]
    for j in range(d):
        for k in range(d):
            pool.gram[row, j, k] += total.gram[0, j, k]
        pool.moment[row, j] += total.moment[0, j]
    pool.seen[row] += total.seen[0]


@jit_part
def logdet_of(sums: RidgeSums, row: int, ridge: float, room: Workspace) -> float:
    """log det(gram + ridge I) of one row; NaN where there is none."""
    sums, room = borrowed(sums), borrowed(room)
    d = sums.moment.shape[1]
    return kernels.logdet_one(address(sums.gram, row * d * d), ridge, d, target(room.upper, 0), target(room.work, 0))
