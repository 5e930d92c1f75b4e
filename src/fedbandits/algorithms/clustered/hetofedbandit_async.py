"""HetoFedBandit-Async: inside a cluster nobody waits for anybody."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from fedbandits.algorithms.clustered.agents import OWN, REPORT, TOTAL, TotalAgents
from fedbandits.algorithms.clustered.hetofedbandit import ClusterParameters
from fedbandits.algorithms.clustered.servers import ClusterServer, Rules, same_for_all, sum_of
from fedbandits.contract.arrays import IntArray
from fedbandits.contract.catalogue import About
from fedbandits.contract.messages import Conversation, Message
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.models.sharing import told
from fedbandits.models.statistics import Statistics


@parameters
class HetoFedBanditAsync(ClusterParameters):
    """Asynchronous collaboration inside clusters, the problem the publication leaves open.

    Test, clusters and triggers are HetoFedBandit's. But whoever has explored reports, and is clustered at once with
    those who have reported before; and when the server serves a cluster, only those of its members that are calling
    hand over what is new, and they receive the total of whatever the members have handed over so far. Stragglers delay
    nobody; they lack news until they call themselves. The rule of one cluster per step stands.

    What travels: d^2 + d + 1 scalars up and down for every caller of a service.

    Guarantee: none is proved. The statistics an agent acts on are always sums of own observations of agents that
    pairwise passed the test, so the confidence ellipsoid of a homogeneous cluster holds as in the synchronous variant.
    """

    explore: Annotated[int, Field(ge=0)] = 55

    about: ClassVar[About] = About(
        name="hetofedbandit-async",
        family="clustered",
        topology="star",
        talks="one cluster per step, only with those of its members that call",
        says=(REPORT, OWN, TOTAL),
        guarantee="none proved",
        source="beyond Blaser, Li & Wang, AISTATS 2024",
        environment="clustered-linear",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> TotalAgents:
        """n agents that share clean totals."""
        alarm = self.trigger(problem, problem.agents)
        return TotalAgents(self, problem, n, rng, explore=self.explore, alarm=alarm, level=self.level_of)

    def server(self, problem: Problem, n: int, rng: Streams) -> AsyncClustersServer:
        """A server that deals with callers only."""
        rules = self.rules(problem, self.test(problem, adaptive=False))
        return AsyncClustersServer(n, problem.dim, rules, explored=self.explore == 0)


class AsyncClustersServer(ClusterServer):
    """Clusters whoever has explored and reported, anew with every newcomer; every service concerns callers alone.

    An agent in several clusters is served with the largest of them. The queue holds clusters in the order in which a
    member first called.
    """

    keeps: ClassVar[tuple[str, ...]] = (*ClusterServer.keeps, "own", "reported")
    retracts: ClassVar[bool] = True

    def __init__(self, n: int, dim: int, rules: Rules, *, explored: bool) -> None:
        super().__init__(n, dim, rules)
        self.own = Statistics(n, dim)
        self.reported = np.full(n, explored)

    patience = ClusterServer.patience

    def converse(self, callers: IntArray) -> Conversation:
        """Take in newcomers, then serve the callers of one cluster."""
        newcomers = callers[~self.reported[callers]]
        if len(newcomers):
            yield from self._hear(newcomers)
            self._regroup(self.own, self.reported)
            self.queue = self.queue[:0]
            callers = np.setdiff1d(callers, newcomers)
        home = self.clusters.argmax(axis=0)  # clusters come largest first
        waiting = [int(k) for k in self.queue if k in home[callers]]
        waiting += [int(k) for k in dict.fromkeys(home[callers].tolist()) if k not in waiting]
        self.queue = np.array(waiting, dtype=np.int64)
        if not self._serving_now() or len(self.queue) == 0:
            return
        cluster = self._pop(0)
        members = callers[home[callers] == cluster]
        yield from self._hear(members)
        total = sum_of(self.own, np.flatnonzero(self.clusters[cluster]))
        alarms = self.alarms()[members]
        yield Message(TOTAL.kind, members, same_for_all(total, alarms, counted=self._rules.counted))

    def _hear(self, callers: IntArray) -> Conversation:
        reports = yield Message(REPORT.kind, callers)
        if len(reports.who):
            self.own.merge(reports.who, *told(reports))
            self.reported[reports.who] = True
