"""Agents that act on what they last downloaded and watch what they have learned since, for compiled loops.

They decide by one model, learn into another, and on top of the pool that whoever calls is told both begin anew. What is
computed of the pool is computed once for all who call in one step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray
from fedbandits.contract.booking import Books, call, record, synchronised
from fedbandits.contract.compiled import FAILED, HEARD, attend, calls, choose, hear, learn, stands_for
from fedbandits.linalg import kernels
from fedbandits.linalg.borrowing import borrowed
from fedbandits.linalg.jit import jit_inside, jit_part
from fedbandits.models.late import find_callers, look_again, merge_total
from fedbandits.models.ridge import RidgeResults, RidgeSums, Workspace, solve_shared, workspace
from fedbandits.models.statistics import Statistics
from fedbandits.models.told import Told, choose_as_told
from fedbandits.models.triggers import Watch, fires
from fedbandits.models.width import Radius, width_at


class Ahead(NamedTuple):
    """n agents: what they were told, with its log-determinants (n,), and in `inverse`, `theta`, `ahead` (its
    log-determinants) what follows from that and from what is fresh: `gram`, `moment`, `seen`.
    """

    told: Told
    logdet: FloatArray
    inverse: FloatArray
    theta: FloatArray
    ahead: FloatArray
    gram: FloatArray
    moment: FloatArray
    seen: FloatArray
    watch: Watch


@stands_for(choose, Ahead)
@jit_inside
def _choose(agents: Ahead, i: int, arms: FloatArray, row: int, room: FloatArray) -> int:
    return choose_as_told(agents.told, i, arms, row, room)


@stands_for(learn, Ahead)
@jit_inside
def _learn(agents: Ahead, i: int, arms: FloatArray, row: int, pick: int, reward: float, room: FloatArray) -> bool:
    kernels.observe_one(
        agents.inverse,
        agents.theta,
        agents.ahead,
        agents.gram,
        agents.moment,
        agents.seen,
        i,
        arms,
        row,
        pick,
        reward,
        room,
    )
    return False


@stands_for(calls, Ahead)
@jit_inside
def _calls(agents: Ahead, i: int) -> bool:
    return fires(agents.watch, agents.seen[i], agents.ahead[i] - agents.logdet[i])


class Downloaders(NamedTuple):
    """What compiled conversations have to know of such agents beside `Ahead`."""

    counts: FloatArray
    """(n,) observations that what an agent was told rests on, where counts travel."""
    rule: Radius
    """Widths of what they were told."""
    ridge: float
    counted: bool
    """Whether counts travel."""


class TalkRoom(NamedTuple):
    """Room for conversations."""

    total: RidgeSums
    """(1, ...) the sum of what is handed over."""
    known: RidgeResults
    """(1, ...) what follows from the pool."""
    work: Workspace
    callers: IntArray
    """(n,) those who call."""
    pressed: BoolArray
    """(1,) whether somebody may be calling who has not just decided."""


def talk_room(agents: int, dim: int) -> TalkRoom:
    """Room for conversations with so many agents, of whom anybody may be calling."""
    known = RidgeResults(kernels.aligned((1, dim, dim)), np.zeros((1, dim)), np.zeros(1), np.zeros(1))
    callers = np.empty(agents, np.int64), np.ones(1, np.bool_)
    return TalkRoom(RidgeSums(*Statistics(1, dim)), known, workspace(dim), *callers)


class DownloadTalk(NamedTuple):
    """A pool, and those who add to it and are told it."""

    agents: Downloaders
    pool: RidgeSums
    room: TalkRoom


_COLLECT, _FRESH, _POOL = range(3)


@stands_for(attend, DownloadTalk)
@jit_inside
def _attend(server: DownloadTalk, i: int) -> bool:
    return True


@stands_for(hear, DownloadTalk)
@jit_inside
def _hear(server: DownloadTalk, agents: Ahead, due: bool, books: Books) -> int:
    callers = find_callers(server.room, agents, due)
    if callers == 0:
        return HEARD
    call(books, callers)
    synchronised(books)
    record(books, _COLLECT, callers)
    record(books, _FRESH, callers)
    record(books, _POOL, callers)
    if not _exchange(server, agents, callers):
        return FAILED
    look_again(server.room, agents)
    return HEARD


@jit_part
def _exchange(server: DownloadTalk, agents: Ahead, callers: int) -> bool:
    """Let the first callers hand over what is fresh, and know the pool; False where nothing follows from it."""
    server, agents = borrowed(server), borrowed(agents)
    pool, room, known = server.pool, server.room, server.room.known
    _collect(agents, room, callers, server.agents.counted)
    merge_total(pool, 0, room.total)
    if not solve_shared(pool.gram, pool.moment, server.agents.ridge, room.work, known):
        return False
    count = pool.seen[0] if server.agents.counted else 0.0
    told = agents.told
    width = width_at(server.agents.rule, known.logdet[0], count)
    for a in range(callers):
        i = room.callers[a]
        for j in range(known.theta.shape[1]):
            for k in range(known.theta.shape[1]):
                told.inverse[i, j, k] = known.inverse[0, j, k]
                agents.inverse[i, j, k] = known.inverse[0, j, k]
            told.theta[i, j] = known.theta[0, j]
            agents.theta[i, j] = known.theta[0, j]
        told.width[i] = width
        agents.logdet[i] = known.logdet[0]
        agents.ahead[i] = known.logdet[0]
        server.agents.counts[i] = count
    return True


@jit_part
def _collect(agents: Ahead, room: TalkRoom, callers: int, counted: bool) -> None:
    """Write the sum of what is fresh of the first callers, one after the other, to `room.total`, and clear it."""
    agents, room = borrowed(agents), borrowed(room)
    total = room.total
    total.gram[0] = 0.0
    total.moment[0] = 0.0
    total.seen[0] = 0.0
    for a in range(callers):
        i = room.callers[a]
        for j in range(agents.moment.shape[1]):
            for k in range(agents.moment.shape[1]):
                total.gram[0, j, k] += agents.gram[i, j, k]
                agents.gram[i, j, k] = 0.0
            total.moment[0, j] += agents.moment[i, j]
            agents.moment[i, j] = 0.0
        total.seen[0] += agents.seen[i] if counted else 0.0
        agents.seen[i] = 0.0
