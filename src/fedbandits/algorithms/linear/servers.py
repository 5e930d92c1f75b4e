"""The server of a star that keeps one pool of statistics."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from fedbandits.algorithms.linear.parameters import LinearParameters
from fedbandits.contract.arrays import IntArray, shown_to
from fedbandits.contract.booking import Books, Speech, call, record, synchronised
from fedbandits.contract.compiled import FAILED, HEARD, attend, hear, stands_for, untouched
from fedbandits.contract.messages import Conversation, Message
from fedbandits.contract.server import Server
from fedbandits.linalg import kernels
from fedbandits.linalg.borrowing import borrowed
from fedbandits.linalg.jit import jit_inside, jit_part
from fedbandits.models.late import (
    NOTHING,
    SHARED,
    Late,
    add_up,
    catch_up,
    find_callers,
    late,
    let_know,
    look_again,
    merge_total,
)
from fedbandits.models.optimistic import Optimists
from fedbandits.models.ridge import RidgeResults, RidgeSums, Sharers, solve_shared
from fedbandits.models.sharing import COLLECT, FRESH, POOL, told
from fedbandits.models.statistics import Statistics
from fedbandits.models.triggers import Watch

Audience = Literal["everybody", "callers"]


class PoolServer(Server):
    """When somebody calls: collect what is new from `collects`, add it to the pool, tell the pool to `tells`.

    Not more than `portion` agents are asked at once: what very many hand over need not be in memory all together.
    """

    keeps: ClassVar[tuple[str, ...]] = ("pool",)
    retracts: ClassVar[bool] = True
    waits: ClassVar[bool] = True

    def __init__(
        self,
        parameters: LinearParameters,
        n: int,
        dim: int,
        *,
        collects: Audience,
        tells: Audience,
        portion: int | None = None,
    ) -> None:
        self._parameters = parameters
        self._everybody = np.arange(n)
        self._collects = collects
        self._tells = tells
        self.pool = Statistics(1, dim)
        self._portion = portion or n
        self._room: tuple[RidgeSums, RidgeResults] | None = None

    def converse(self, callers: IntArray) -> Conversation:
        """One round of statistics: two requests, or several smaller ones for the first."""
        if len(callers) == 0:
            return
        asked, answered = self._audience(self._collects, callers), False
        for some in np.split(asked, range(self._portion, len(asked), self._portion)):
            fresh = yield Message(COLLECT.kind, some)
            if len(fresh.who):
                answered = True
                self.pool.merge_all(0, *told(fresh))
        if not answered:
            return
        listeners = self._audience(self._tells, callers)
        pool = self.pool.rows(np.zeros(1, dtype=np.int64), counted=self._parameters.tells_counts)
        yield Message(POOL.kind, listeners, shown_to(len(listeners), pool))

    speech: ClassVar[Speech] = ((COLLECT.kind, "down"), (FRESH.kind, "up"), (POOL.kind, "down"))

    def compiled(self, answering: Any) -> Any:
        """See `Server`: with agents that share sums, all of whom are asked at once."""
        known = isinstance(answering, Sharers) and untouched(self, PoolServer, "converse", "_audience")
        if not known or self._portion < len(self._everybody):
            return None
        if self._room is None:
            self._room = _room(self.pool)
        everybody = (self._collects == "everybody", self._tells == "everybody")
        return PoolTalk(late(answering), RidgeSums(*self.pool), *self._room, self._everybody, *everybody)

    def _audience(self, audience: Audience, callers: IntArray) -> IntArray:
        return self._everybody if audience == "everybody" else callers


class PoolTalk(NamedTuple):
    """A `PoolServer` and its agents, for compiled conversations."""

    late: Late
    pool: RidgeSums
    total: RidgeSums
    """(1, ...) room for the sum of what is handed over."""
    shared: RidgeResults
    """(1, ...) what follows from the pool, as it was told last."""
    everybody: IntArray
    collects_all: bool
    tells_all: bool


_COLLECT, _FRESH, _POOL = range(3)


def _room(pool: Statistics) -> tuple[RidgeSums, RidgeResults]:
    d = pool.moment.shape[1]
    shared = RidgeResults(kernels.aligned((1, d, d)), np.zeros((1, d)), np.zeros(1), np.zeros(1))
    return RidgeSums(*Statistics(1, d)), shared


@stands_for(attend, PoolTalk)
@jit_inside
def _attend(server: PoolTalk, i: int) -> bool:
    if server.late.stale[i] == NOTHING:
        return True
    return _make_up(server, i)


@stands_for(hear, PoolTalk)
@jit_inside
def _hear(server: PoolTalk, agents: Optimists, due: bool, books: Books) -> int:
    late = server.late
    callers = find_callers(late, agents, due)
    if callers == 0:
        return HEARD
    call(books, callers)
    synchronised(books)
    n = len(server.everybody)
    asked, told = n if server.collects_all else callers, n if server.tells_all else callers
    record(books, _COLLECT, asked)
    record(books, _FRESH, asked)
    record(books, _POOL, told)
    if not _exchange(server, agents.watch, asked, told):
        return FAILED
    look_again(late, agents)
    return HEARD


@jit_part
def _exchange(server: PoolTalk, watch: Watch, asked: int, told: int) -> bool:
    """Collect from those `asked`, who are everybody or the callers, and tell the pool to as many; False where nothing
    follows from it.
    """
    server = borrowed(server)
    late, agents, pool = server.late, server.late.agents, server.pool
    who = server.everybody if server.collects_all else late.callers
    for a in range(asked):
        if agents.fresh.seen[who[a]] > 0.0 and not _make_up(server, who[a]):
            return False
    add_up(agents, who, asked, not server.tells_all, server.total)
    merge_total(pool, 0, server.total)
    if not solve_shared(pool.gram, pool.moment, agents.ridge, late.room, server.shared):
        return False
    who = server.everybody if server.tells_all else late.callers
    for a in range(told):
        i = who[a]
        late.stale[i] = SHARED
        agents.results.growth[i] = 0.0 if not agents.fresh.seen[i] > 0.0 else agents.results.growth[i]
        # the pool that others hold may be another one by the time at which they decide
        if agents.fresh.seen[i] > 0.0 or not server.tells_all:
            if not _make_up(server, i):
                return False
            if agents.fresh.seen[i] > 0.0 and not let_know(late, watch, i):
                return False
    return True


@jit_part
def _make_up(server: PoolTalk, i: int) -> bool:
    """Let agent i know what it was told; whether that could be done."""
    server = borrowed(server)
    late, agents, pool, shared = server.late, server.late.agents, server.pool, server.shared
    if late.stale[i] != SHARED:
        return catch_up(late, i)
    base, results = agents.base, agents.results
    d = base.moment.shape[1]
    for j in range(d):
        for k in range(d):
            base.gram[i, j, k] = pool.gram[0, j, k]
            results.inverse[i, j, k] = shared.inverse[0, j, k]
        base.moment[i, j] = pool.moment[0, j]
        results.theta[i, j] = shared.theta[0, j]
    base.seen[i] = pool.seen[0] if agents.counted else 0.0
    results.logdet[i] = shared.logdet[0]
    agents.updates[i] = 0
    late.stale[i] = NOTHING
    return True
