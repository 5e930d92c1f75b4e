"""Servers of clustered agents: a client graph, clusters, a queue, and one service at a time."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import ClassVar

import numpy as np

from fedbandits.algorithms.clustered.agents import ALARM, ASK_LEVEL, REPORT, SHARE, TOTAL
from fedbandits.algorithms.clustered.clusters import clusters_of
from fedbandits.algorithms.clustered.homogeneity import HomogeneityTest
from fedbandits.algorithms.linear.agents import COLLECT
from fedbandits.arrays import BoolArray, FloatArray, IntArray
from fedbandits.linalg.ridge import Statistics
from fedbandits.protocol import Conversation, Message
from fedbandits.state import Stateful

_NOBODY = np.empty(0, dtype=np.int64)


class ClusterServer(Stateful):
    """What servers of clusters have in common.

    `clusters` (m, n) says who belongs to which, `queue` (q,) holds indices of clusters that wait, `graph` (n, n) which
    pairs passed the test. `trigger(size)` is D_k.
    """

    keeps: ClassVar[tuple[str, ...]] = ("clusters", "graph", "queue", "step")
    resizes: ClassVar[frozenset[str]] = frozenset({"clusters", "queue"})

    def __init__(
        self,
        n: int,
        dim: int,
        *,
        trigger: Callable[[int], float],
        test: HomogeneityTest,
        clique_limit: int,
        serve_every: int,
        priority: bool,
    ) -> None:
        self._trigger = trigger
        self._test = test
        self._clique_limit = clique_limit
        self._serve_every = serve_every
        self._priority = priority
        self._dim = dim
        self.everybody = np.arange(n)
        self.clusters: BoolArray = np.ones((1, n), dtype=np.bool_)
        self.graph: BoolArray = ~np.eye(n, dtype=np.bool_)
        self.queue: IntArray = _NOBODY
        self.step = np.zeros((), dtype=np.int64)

    def thresholds(self) -> FloatArray:
        """(m,) D_k of each cluster."""
        return np.array([self._trigger(int(size)) for size in self.clusters.sum(axis=1)])

    def alarms(self) -> FloatArray:
        """(n,) the level at which each agent should call: the smallest D_k of its clusters."""
        return np.asarray(np.where(self.clusters, self.thresholds()[:, None], np.inf).min(axis=0))

    def _regroup(self, own: Statistics) -> None:
        self.graph = self._test.graph(own.gram, own.moment)
        self.clusters = clusters_of(self.graph, self._clique_limit)

    def _serving_now(self) -> bool:
        """Count the step; whether the server may serve a cluster in it."""
        self.step += 1
        return len(self.queue) > 0 and int(self.step) % self._serve_every == 0

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

    def __init__(
        self,
        n: int,
        dim: int,
        *,
        trigger: Callable[[int], float],
        test: HomogeneityTest,
        clique_limit: int,
        serve_every: int,
        priority: bool,
        clusters: BoolArray | None = None,
    ) -> None:
        super().__init__(
            n,
            dim,
            trigger=trigger,
            test=test,
            clique_limit=clique_limit,
            serve_every=serve_every,
            priority=priority,
        )
        self.own = Statistics(n, dim)
        self.reported = np.full(n, clusters is not None)
        self.serving = np.zeros(n, dtype=np.int8)
        self.gathered = Statistics(1, dim)
        if clusters is not None:
            self.clusters = clusters
            self.graph = (clusters.T.astype(np.int64) @ clusters > 0) & self.graph

    def converse(self, callers: IntArray) -> Conversation:
        """Cluster when all are ready, queue what has triggered, serve the next cluster."""
        if not self.reported.all():
            yield from self._cluster(callers)
        elif len(callers):
            yield from self._enqueue(callers)
        may_serve = self._serving_now()
        if may_serve or self.serving.any():
            yield from self._serve()

    def _cluster(self, callers: IntArray) -> Conversation:
        if len(callers) == 0:
            return
        reports = yield Message(REPORT.kind, callers)
        if len(reports.who):
            arrays = reports.arrays
            self.own.merge(reports.who, arrays["gram"], arrays["moment"], np.zeros(len(reports.who)))
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
            at = (yield from self._foremost()) if self._priority and len(self.queue) > 1 else 0
            self.serving[self.clusters[self._pop(at)]] = 1
            self.gathered.clear(np.zeros(1, dtype=np.int64))
        silent = np.flatnonzero(self.serving == 1)
        if len(silent):
            fresh = yield Message(COLLECT.kind, silent)
            if len(fresh.who):
                self.gathered.gram += fresh.arrays["gram"].sum(axis=0)
                self.gathered.moment += fresh.arrays["moment"].sum(axis=0)
                self.serving[fresh.who] = 2
            if (self.serving == 1).any():
                return
        members = np.flatnonzero(self.serving == 2)
        told = yield Message(SHARE.kind, members, self._shown(self.gathered, members))
        self.serving[told.who] = 0

    def _foremost(self) -> Generator[Message, Message, int]:
        """The position in the queue of the cluster whose members' levels add up to most; ties to the earliest."""
        waiting = self.clusters[self.queue]
        levels = yield Message(ASK_LEVEL.kind, np.flatnonzero(waiting.any(axis=0)))
        level = np.zeros(len(self.everybody))
        if len(levels.who):
            level[levels.who] = levels.arrays["level"]
        return int((waiting @ level).argmax())

    def _shown(self, statistics: Statistics, members: IntArray) -> dict[str, FloatArray]:
        return same_for_all(statistics.gram, statistics.moment, self.alarms()[members])


class ReclusteringServer(ClusterServer):
    """Tests everybody anew whenever a trigger fires, and serves clean totals, one cluster per step.

    `own` holds each agent's own observations as reported, `level` the levels they reported, `told` the alarms they
    know.
    """

    keeps: ClassVar[tuple[str, ...]] = (*ClusterServer.keeps, "own", "level", "told")

    def __init__(
        self,
        n: int,
        dim: int,
        *,
        trigger: Callable[[int], float],
        test: HomogeneityTest,
        clique_limit: int,
        serve_every: int,
        priority: bool,
    ) -> None:
        super().__init__(
            n,
            dim,
            trigger=trigger,
            test=test,
            clique_limit=clique_limit,
            serve_every=serve_every,
            priority=priority,
        )
        self.own = Statistics(n, dim)
        self.level = np.zeros(n)
        self.told = np.full(n, trigger(n))

    def converse(self, callers: IntArray) -> Conversation:
        """Re-cluster if anybody called, then serve."""
        if len(callers):
            reports = yield Message(REPORT.kind, self.everybody)
            if len(reports.who):
                arrays = reports.arrays
                self.own.merge(reports.who, arrays["gram"], arrays["moment"], np.zeros(len(reports.who)))
                self.level[reports.who] = arrays["level"]
            self._regroup(self.own)
            self.queue = np.flatnonzero(self.clusters[:, callers[-1]])
        if self._serving_now():
            loads = self.clusters[self.queue] @ self.level
            cluster = self._pop(int(loads.argmax()) if self._priority else 0)
            members = np.flatnonzero(self.clusters[cluster])
            gram = self.own.gram[members].sum(axis=0, keepdims=True)
            moment = self.own.moment[members].sum(axis=0, keepdims=True)
            alarms = self.alarms()
            served = yield Message(TOTAL.kind, members, same_for_all(gram, moment, alarms[members]))
            self.told[served.who] = alarms[served.who]
            self.level[served.who] = 0.0
        if len(callers):
            alarms = self.alarms()
            moved = np.flatnonzero(self.told != alarms)
            if len(moved):
                heard = yield Message(ALARM.kind, moved, {"alarm": alarms[moved]})
                self.told[heard.who] = alarms[heard.who]


def same_for_all(gram: FloatArray, moment: FloatArray, alarm: FloatArray) -> dict[str, FloatArray]:
    """One model shown to all members, each with its own alarm."""
    return {
        "gram": np.broadcast_to(gram, (len(alarm), *gram.shape[1:])),
        "moment": np.broadcast_to(moment, (len(alarm), *moment.shape[1:])),
        "alarm": alarm,
    }
