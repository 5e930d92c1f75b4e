"""The server of two phases: it finds a model with everybody, and then keeps the pool of what they observe."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from typing import ClassVar

import numpy as np

from fedbandits.algorithms.nonlinear.messages import ASK_SLOPE, BEGIN, START, TOTALS
from fedbandits.contract.arrays import FloatArray, IntArray, shown_to
from fedbandits.contract.messages import Conversation, Message
from fedbandits.contract.server import Server
from fedbandits.contract.streams import Streams
from fedbandits.models.candidates import Tallies
from fedbandits.models.minimisers import Minimum
from fedbandits.models.objectives import Curvature, Objective, SomebodyIsAwayError
from fedbandits.models.sharing import COLLECT, POOL, told
from fedbandits.models.statistics import Statistics

Oracle = Callable[[Objective, Streams], Generator[Message, Message, Minimum]]
"""Finds parameters by asking an objective, with draws of the server's own."""
Training = Callable[[FloatArray, FloatArray, Streams], FloatArray]
"""Counts (c,) and sums of rewards (c,) of the candidates -> (p,) what agents are told of a model."""

_FIRST = np.zeros(1, dtype=np.int64)


class SlopeObjective:
    """The mean of (y - f(x; w))^2 over the `count` observations that `members` have made in phase I.

    The first gradient that is asked for is that at the point where everybody begins: it need not be told.
    """

    def __init__(self, members: IntArray, count: float) -> None:
        self._members = members
        self._count = count
        self._begun = False

    def gradient(self, point: FloatArray) -> Generator[Message, Message, FloatArray]:
        """See `Objective`; `SomebodyIsAwayError` where not all answer."""
        if self._begun:
            reply = yield Message(ASK_SLOPE.kind, self._members, shown_to(len(self._members), {"w": point[None]}))
        else:
            reply = yield Message(BEGIN.kind, self._members)
        self._begun = True
        if len(reply.who) < len(self._members):
            raise SomebodyIsAwayError
        return np.asarray(2 * reply.arrays["gradient"].sum(axis=0) / self._count)

    def curvature(self, point: FloatArray) -> Generator[Message, Message, Curvature]:
        """Nobody is asked for it."""
        raise NotImplementedError


class TwoPhaseServer(Server):
    """`w` (p,) is the model, once it has `begun`; `informed` (n,) are those who were told.

    Phase I needs all who have called, at least the share `quorum` of everybody, from the first question to the last; it
    is given up where one falls silent, and begun again when somebody calls. Who comes later is told w when the next
    conversation takes place. In phase II whoever is silent is left out, and heard the next time.
    """

    keeps: ClassVar[tuple[str, ...]] = ("w", "begun", "informed", "rng")

    def __init__(self, n: int, size: int, rng: Streams, *, quorum: float, keep: bool) -> None:
        self._least = math.ceil(quorum * n)
        self._keep = keep
        self.w = np.zeros(size)
        self.begun = np.zeros((), dtype=np.bool_)
        self.informed = np.zeros(n, dtype=np.bool_)
        self.rng = rng

    def converse(self, callers: IntArray) -> Conversation:
        """Phase I when enough agents ask for it; afterwards, synchronisations."""
        if len(callers) == 0 or (not self.begun and len(callers) < self._least):
            return
        if not self.begun:
            try:
                found = yield from self._found(callers)
            except SomebodyIsAwayError:
                return
            self.w[:] = found
            self.begun[...] = True
        news = self._keep or bool(self.informed[callers].any())
        late = np.flatnonzero(~self.informed)
        if len(late):
            reached = yield Message(START.kind, late, shown_to(len(late), {"w": self.w[None]}))
            self.informed[reached.who] = True
        members = np.flatnonzero(self.informed)
        if not news or len(members) == 0:
            return
        fresh = yield Message(COLLECT.kind, members)
        if len(fresh.who):
            yield Message(*self._pooled(fresh, members))

    def _found(self, members: IntArray) -> Generator[Message, Message, FloatArray]:
        """What agents are told of a model."""
        raise NotImplementedError

    def _pooled(self, fresh: Message, members: IntArray) -> tuple[str, IntArray, dict[str, FloatArray]]:
        """What `members` are told once `fresh` is in the pool."""
        raise NotImplementedError


class StatisticsServer(TwoPhaseServer):
    """Finds w_0 by an `oracle` over sums of gradients, and keeps the `pool` of statistics of gradients at w_0. `quota`
    (n,) is how many observations of each agent phase I is about.
    """

    keeps: ClassVar[tuple[str, ...]] = (*TwoPhaseServer.keeps, "pool")

    def __init__(
        self, n: int, size: int, rng: Streams, oracle: Oracle, quota: IntArray, *, quorum: float, keep: bool
    ) -> None:
        super().__init__(n, size, rng, quorum=quorum, keep=keep)
        self._oracle = oracle
        self._quota = quota
        self.pool = Statistics(1, size)

    def _found(self, members: IntArray) -> Generator[Message, Message, FloatArray]:
        objective = SlopeObjective(members, float(self._quota[members].sum()))
        found = yield from self._oracle(objective, self.rng)
        return found.theta

    def _pooled(self, fresh: Message, members: IntArray) -> tuple[str, IntArray, dict[str, FloatArray]]:
        self.pool.merge(_FIRST, *(share.sum(axis=0) for share in told(fresh)))
        return POOL.kind, members, shown_to(len(members), self.pool.rows(_FIRST, counted=False))


class TallyServer(TwoPhaseServer):
    """Is told counts and sums of rewards for each candidate, makes a model of them by its own `training`, and keeps the
    `pool`; `first` is what was observed in phase I.
    """

    keeps: ClassVar[tuple[str, ...]] = (*TwoPhaseServer.keeps, "first", "pool")

    def __init__(
        self, n: int, size: int, rng: Streams, training: Training, candidates: int, *, quorum: float, keep: bool
    ) -> None:
        super().__init__(n, size, rng, quorum=quorum, keep=keep)
        self._training = training
        self.first, self.pool = Tallies(1, candidates), Tallies(1, candidates)

    def _found(self, members: IntArray) -> Generator[Message, Message, FloatArray]:
        reply = yield Message(COLLECT.kind, members)
        for tallies in (self.first, self.pool) if self._keep else (self.first,):
            if len(reply.who):
                tallies.add(_FIRST, reply.arrays["count"].sum(axis=0), reply.arrays["total"].sum(axis=0))
        if len(reply.who) < len(members):
            raise SomebodyIsAwayError
        return self._training(self.first.count[0], self.first.total[0], self.rng)

    def _pooled(self, fresh: Message, members: IntArray) -> tuple[str, IntArray, dict[str, FloatArray]]:
        self.pool.add(_FIRST, fresh.arrays["count"].sum(axis=0), fresh.arrays["total"].sum(axis=0))
        told = {"count": self.pool.count, "total": self.pool.total}
        return TOTALS, members, shown_to(len(members), told)
