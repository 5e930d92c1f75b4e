"""Servers of clustered agents: a client graph, clusters, a queue, and one service at a time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fedbandits.algorithms.clustered.agents import (
    ALARM,
    ASK_LEVEL,
    OWN,
    REPORT,
    SHARE,
    TOTAL,
    Clustered,
    Increments,
)
from fedbandits.algorithms.clustered.clusters import clusters_of
from fedbandits.algorithms.clustered.homogeneity import HomogeneityTest
from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray, State, shown_to
from fedbandits.contract.booking import Books, Speech, call, record, synchronised
from fedbandits.contract.compiled import HEARD, PENDING, attend, hear, stands_for, untouched
from fedbandits.contract.messages import Conversation, Message
from fedbandits.contract.server import Server
from fedbandits.linalg.borrowing import borrowed
from fedbandits.linalg.jit import jit_inside, jit_part
from fedbandits.models.late import BEHIND, Late, catch_up, find_callers, late
from fedbandits.models.ridge import RidgeSums
from fedbandits.models.sharing import COLLECT, told
from fedbandits.models.statistics import Statistics

_NOBODY = np.empty(0, dtype=np.int64)
_FIRST = np.zeros(1, dtype=np.int64)


@dataclass(frozen=True)
class Rules:
    """How a server of clusters works: `trigger(size)` is D_k of a cluster, `test` says who may be in one (None where
    clusters are given), and one cluster is served every `serve_every` steps, the most advanced one if `priority`, else
    the one that has waited longest. `counted` says whether counts travel with statistics.
    """

    trigger: Callable[[int], float]
    test: HomogeneityTest | None
    clique_limit: int
    serve_every: int
    priority: bool
    counted: bool


class ClusterServer(Server):
    """What servers of clusters have in common.

    `clusters` (m, n) says who belongs to which, `queue` (q,) holds indices of clusters that wait, `graph` (n, n) which
    pairs passed the test.
    """

    keeps: ClassVar[tuple[str, ...]] = ("clusters", "graph", "queue", "step")
    resizes: ClassVar[frozenset[str]] = frozenset({"clusters", "queue"})

    def __init__(self, n: int, dim: int, rules: Rules) -> None:
        self._rules = rules
        self._dim = dim
        self.everybody = np.arange(n)
        self.clusters: BoolArray = np.ones((1, n), dtype=np.bool_)
        self.graph: BoolArray = ~np.eye(n, dtype=np.bool_)
        self.queue: IntArray = _NOBODY
        self.step = np.zeros((), dtype=np.int64)

    def patience(self) -> int:
        """See `Server`: nothing is said unless somebody calls, or waits to be served."""
        return 0 if len(self.queue) else sys.maxsize

    def passed(self, steps: int) -> None:
        """See `Server`."""
        self.step += steps

    def portrait(self) -> State:
        """The client graph and the clusters."""
        return {"graph": self.graph.copy(), "clusters": self.clusters.copy()}

    def thresholds(self) -> FloatArray:
        """(m,) D_k of each cluster."""
        return np.array([self._rules.trigger(int(size)) for size in self.clusters.sum(axis=1)])

    def alarms(self) -> FloatArray:
        """(n,) the level at which each agent should call: the smallest D_k of its clusters."""
        return np.asarray(np.where(self.clusters, self.thresholds()[:, None], np.inf).min(axis=0))

    def _regroup(self, own: Statistics, among: BoolArray | None = None) -> None:
        """Test everybody, or everybody `among` (n,); whoever is left out is alone."""
        assert self._rules.test is not None, "clusters that were given are never tested"
        self.graph = self._rules.test.graph(own.gram, own.moment)
        if among is not None:
            self.graph &= among[:, None] & among[None, :]
        self.clusters = clusters_of(self.graph, self._rules.clique_limit)

    def _serving_now(self) -> bool:
        """Count the step; whether the server may serve a cluster in it."""
        self.step += 1
        return int(self.step) % self._rules.serve_every == 0

    def _pop(self, at: int) -> int:
        cluster = int(self.queue[at])
        self.queue = np.delete(self.queue, at)
        return cluster


class FixedClustersServer(ClusterServer):
    """Clusters once, when everybody has explored and reported; then serves increments, one cluster per step.

    `own` and `reported` hold the reports for the test. `serving` marks a service under way, so that members who cannot
    be reached are waited for: 0 nobody, 1 has to hand over, 2 has to be told. With `clusters` given from outside there
    is nothing to test.
    """

    keeps: ClassVar[tuple[str, ...]] = (*ClusterServer.keeps, "own", "reported", "serving", "gathered")

    def __init__(self, n: int, dim: int, rules: Rules, clusters: BoolArray | None = None) -> None:
        super().__init__(n, dim, rules)
        self.own = Statistics(n, dim)
        self.reported = np.full(n, clusters is not None)
        self.serving = np.zeros(n, dtype=np.int8)
        self.gathered = Statistics(1, dim)
        self._waiting = (_NOBODY, np.zeros(1, dtype=np.int64))
        if clusters is not None:
            self.clusters = clusters
            self.graph = (clusters.T.astype(np.int64) @ clusters > 0) & self.graph

    def converse(self, callers: IntArray) -> Conversation:
        """Cluster when all are ready, queue what has triggered, serve the next cluster."""
        if not self.reported.all():
            yield from self._cluster(callers)
        else:
            # whoever is waited for hands over in this very conversation: its call is answered by the service under way
            yield from self._enqueue(callers[self.serving[callers] != 1])
        may_serve = self._serving_now() and len(self.queue) > 0
        if may_serve or self.serving.any():
            yield from self._serve()

    def patience(self) -> int:
        """See `Server`: a service under way is gone on with."""
        return 0 if self.serving.any() else super().patience()

    speech: ClassVar[Speech] = ((COLLECT.kind, "down"), (OWN.kind, "up"), (SHARE.kind, "down"))

    def compiled(self, answering: Any) -> Any:
        """See `Server`: once there are clusters, served in the order in which they were queued."""
        known = isinstance(answering, Increments) and untouched(self, FixedClustersServer, "converse", "alarms")
        under_way = not self.reported.all() or self.serving.any()
        if not known or under_way or self._rules.priority:
            return None
        waiting = np.empty(len(self.clusters), dtype=np.int64)
        waiting[: len(self.queue)] = self.queue
        self._waiting = waiting, np.array([len(self.queue)])
        return ServiceTalk(
            late(answering.own),
            RidgeSums(*self.gathered),
            self.clusters,
            self.thresholds(),
            self.alarms(),
            answering.alarm,
            *self._waiting,
            self.step.reshape(1),
            self._rules.serve_every,
        )

    def tend(self) -> None:
        """See `Server`."""
        waiting, length = self._waiting
        self.queue = waiting[: length[0]].copy()

    def _cluster(self, callers: IntArray) -> Conversation:
        # who has reported may call again while others are waited for; its buffer still holds what it reported
        unheard = callers[~self.reported[callers]]
        if len(unheard) == 0:
            return
        reports = yield Message(REPORT.kind, unheard)
        if len(reports.who):
            self.own.merge(reports.who, *told(reports))
            self.reported[reports.who] = True
        if self.reported.all():
            self._regroup(self.own)
            self.queue = np.arange(len(self.clusters))

    def _enqueue(self, callers: IntArray) -> Conversation:
        unqueued = np.ones(len(self.clusters), dtype=np.bool_)
        unqueued[self.queue] = False
        concerned = self.clusters[:, callers] & unqueued[:, None]
        if not concerned.any():
            return
        thresholds = self.thresholds()
        reached = concerned & (thresholds[:, None] <= self.alarms()[callers])
        unsure = np.flatnonzero((concerned & ~reached).any(axis=0))
        if len(unsure):
            # in several clusters, and beyond the lowest of their thresholds: how far beyond, only the agent knows
            levels = yield Message(ASK_LEVEL.kind, callers[unsure])
            level = np.full(len(self.everybody), -np.inf)
            level[levels.who] = levels.arrays["level"] if levels.arrays else -np.inf
            reached |= concerned & (thresholds[:, None] <= level[callers])
        self.queue = np.concatenate([self.queue, np.flatnonzero(reached.any(axis=1))])

    def _serve(self) -> Conversation:
        if not self.serving.any():
            at = (yield from self._foremost()) if self._rules.priority and len(self.queue) > 1 else 0
            self.serving[self.clusters[self._pop(at)]] = 1
            self.gathered.clear(_FIRST)
        silent = np.flatnonzero(self.serving == 1)
        if len(silent):
            fresh = yield Message(COLLECT.kind, silent)
            if len(fresh.who):
                self.gathered.merge_all(0, *told(fresh))
                self.serving[fresh.who] = 2
            if (self.serving == 1).any():
                return
        members = np.flatnonzero(self.serving == 2)
        alarms = self.alarms()[members]
        reached = yield Message(SHARE.kind, members, same_for_all(self.gathered, alarms, counted=self._rules.counted))
        self.serving[reached.who] = 0

    def _foremost(self) -> Generator[Message, Message, int]:
        """The position in the queue of the cluster whose members' levels add up to most; ties to the earliest."""
        waiting = self.clusters[self.queue]
        levels = yield Message(ASK_LEVEL.kind, np.flatnonzero(waiting.any(axis=0)))
        level = np.zeros(len(self.everybody))
        if len(levels.who):
            level[levels.who] = levels.arrays["level"]
        return int((waiting @ level).argmax())


class ReclusteringServer(ClusterServer):
    """Tests everybody anew whenever a trigger fires, and serves clean totals, one cluster per step.

    `own` holds each agent's own observations as reported, `level` the levels they reported, `told` the alarms they
    know. Of several callers in a step the clusters of all are queued, or those of the `last` alone.
    """

    keeps: ClassVar[tuple[str, ...]] = (*ClusterServer.keeps, "own", "level", "told")
    retracts: ClassVar[bool] = True

    def __init__(self, n: int, dim: int, rules: Rules, *, last: bool) -> None:
        super().__init__(n, dim, rules)
        self._heeded = slice(-1, None) if last else slice(None)
        self.own = Statistics(n, dim)
        self.level = np.zeros(n)
        self.told = np.full(n, rules.trigger(n))

    patience = ClusterServer.patience

    def converse(self, callers: IntArray) -> Conversation:
        """Re-cluster if anybody called, then serve; in steps without a service, triggers that have fired wait."""
        if not self._serving_now():
            return
        if len(callers):
            reports = yield Message(REPORT.kind, self.everybody)
            if len(reports.who):
                self.own.merge(reports.who, *told(reports))
                self.level[reports.who] = reports.arrays["level"]
            self._regroup(self.own)
            self.queue = np.flatnonzero(self.clusters[:, callers[self._heeded]].any(axis=1))
        if len(self.queue):
            loads = self.clusters[self.queue] @ self.level
            cluster = self._pop(int(loads.argmax()) if self._rules.priority else 0)
            members = np.flatnonzero(self.clusters[cluster])
            alarms = self.alarms()
            total = sum_of(self.own, members)
            served = yield Message(
                TOTAL.kind, members, same_for_all(total, alarms[members], counted=self._rules.counted)
            )
            self.told[served.who] = alarms[served.who]
            self.level[served.who] = 0.0
        if len(callers):
            alarms = self.alarms()
            moved = np.flatnonzero(self.told != alarms)
            if len(moved):
                heard = yield Message(ALARM.kind, moved, {"alarm": alarms[moved]})
                self.told[heard.who] = alarms[heard.who]


def sum_of(own: Statistics, members: IntArray) -> Statistics:
    """One set of statistics: the sum of those of `members`."""
    total = Statistics(1, own.moment.shape[1])
    total.merge(_FIRST, *(array[members].sum(axis=0) for array in own))
    return total


def same_for_all(one: Statistics, alarms: FloatArray, *, counted: bool) -> dict[str, FloatArray]:
    """One model shown to all members, each with its own alarm."""
    return shown_to(len(alarms), one.rows(_FIRST, counted=counted)) | {"alarm": alarms}


class ServiceTalk(NamedTuple):
    """A `FixedClustersServer` with clusters and `IncrementAgents`, for compiled conversations."""

    late: Late
    gathered: RidgeSums
    clusters: BoolArray
    thresholds: FloatArray
    """(m,) D_k of each cluster."""
    lowest: FloatArray
    """(n,) the smallest D_k of each agent's clusters."""
    alarm: FloatArray
    """(n,) the agents' own."""
    waiting: IntArray
    """(m,) the queue, in its first `length` places."""
    length: IntArray
    """(1,)."""
    step: IntArray
    """(1,)."""
    serve_every: int


_COLLECT, _OWN, _SHARE = range(3)


@stands_for(attend, ServiceTalk)
@jit_inside
def _attend(server: ServiceTalk, i: int) -> bool:
    return catch_up(server.late, i)


@stands_for(hear, ServiceTalk)
@jit_inside
def _hear(server: ServiceTalk, agents: Clustered, due: bool, books: Books) -> int:
    callers = find_callers(server.late, agents, due)
    # who is in several clusters may have to be asked how far it has come: not here
    if callers and not _enqueue(server, callers):
        return PENDING
    call(books, callers)
    server.step[0] += 1
    if server.length[0] and server.step[0] % server.serve_every == 0:
        members = _serve(server)
        synchronised(books)
        record(books, _COLLECT, members)
        record(books, _OWN, members)
        record(books, _SHARE, members)
        server.late.pressed[0] = True
    return HEARD


@jit_part
def _enqueue(server: ServiceTalk, callers: int) -> bool:
    """Queue the clusters of those who call; False where their alarms do not say which, and nothing has changed."""
    server = borrowed(server)
    clusters, waiting, length = server.clusters, server.waiting, server.length
    before = length[0]
    for cluster in range(len(clusters)):
        queued, reached = False, False
        for place in range(before):
            queued |= waiting[place] == cluster
        for a in range(callers):
            i = server.late.callers[a]
            if clusters[cluster, i] and not queued:
                if not server.thresholds[cluster] <= server.lowest[i]:
                    length[0] = before
                    return False
                reached = True
        if reached:
            waiting[length[0]] = cluster
            length[0] += 1
    return True


@jit_part
def _serve(server: ServiceTalk) -> int:
    """Serve the cluster at the head of the queue; how many members it has."""
    server = borrowed(server)
    late, gathered, waiting = server.late, server.gathered, server.waiting
    agents = late.agents
    base, fresh = agents.base, agents.fresh
    d = fresh.moment.shape[1]
    members = server.clusters[waiting[0]]
    server.length[0] -= 1
    for place in range(server.length[0]):
        waiting[place] = waiting[place + 1]
    gathered.gram[0] = 0.0
    gathered.moment[0] = 0.0
    gathered.seen[0] = 0.0
    for i in range(len(members)):
        if members[i]:
            for j in range(d):
                for k in range(d):
                    gathered.gram[0, j, k] += fresh.gram[i, j, k]
                gathered.moment[0, j] += fresh.moment[i, j]
            gathered.seen[0] += fresh.seen[i] if agents.counted else 0.0
    served = 0
    for i in range(len(members)):
        if members[i]:
            for j in range(d):
                for k in range(d):
                    own = fresh.gram[i, j, k]
                    base.gram[i, j, k] = (base.gram[i, j, k] + own) + (gathered.gram[0, j, k] - own)
                    fresh.gram[i, j, k] = 0.0
                own = fresh.moment[i, j]
                base.moment[i, j] = (base.moment[i, j] + own) + (gathered.moment[0, j] - own)
                fresh.moment[i, j] = 0.0
            own = fresh.seen[i]
            base.seen[i] = (base.seen[i] + own) + (gathered.seen[0] - own if agents.counted else 0.0)
            fresh.seen[i] = 0.0
            agents.results.growth[i] = 0.0
            server.alarm[i] = server.lowest[i]
            late.stale[i] = BEHIND
            served += 1
    return served
