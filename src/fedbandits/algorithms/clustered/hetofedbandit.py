"""HetoFedBandit: find out who may learn with whom, then serve one cluster per step."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedbandits.algorithms.clustered.agents import (
    ALARM,
    ASK_LEVEL,
    LEVEL,
    OWN,
    REPORT,
    SEEN,
    SHARE,
    TOTAL,
    IncrementAgents,
    TotalAgents,
)
from fedbandits.algorithms.clustered.homogeneity import HomogeneityTest
from fedbandits.algorithms.clustered.servers import FixedClustersServer, ReclusteringServer, Rules
from fedbandits.algorithms.linear.parameters import LinearParameters
from fedbandits.contract.catalogue import About, ConfigError
from fedbandits.contract.facts import Noise
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.graphs.cliques import DEFAULT_LIMIT
from fedbandits.models.paced import Paced
from fedbandits.models.sharing import COLLECT
from fedbandits.models.triggers import Level, both, observed

_SOURCE = "Blaser, Li & Wang, AISTATS 2024"


@parameters
class ClusterParameters(Paced, LinearParameters):
    """What all HetoFedBandit variants share: the test, the trigger and the pace of the server.

    - `level` is the test's error rate for a pair, ``"theory"`` for delta/n^2; the released code uses 0.01;
    - `noncentrality` bounds psi for homogeneous pairs, ``"theory"`` for 1/(n^2 sigma^2), what the proof yields (the
      text prints 1/sigma^2, which merges different clusters);
    - `threshold` is D, the same for all clusters, or ``"theory"`` for D_k = T log(|C_k| T)/(d |C_k|);
    - `every` b, given in place of it, is a schedule: D_k = b, held against own turns since the last service
      (`models.paced`). Who is served when still follows from clusters that were found in data, and so does who calls:
      only where clusters are given do moments not depend on data;
    - `serve_every` steps the server serves one cluster; with one agent awake per step, n makes a round;
    - `clique_limit` bounds the enumeration of maximal cliques.
    """

    about: ClassVar[About]

    ridge: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.1
    level: Annotated[float, Field(gt=0, lt=1)] | Literal["theory"] = "theory"
    noncentrality: Annotated[float, Field(ge=0, allow_inf_nan=False)] | Literal["theory"] = "theory"
    threshold: Annotated[float, Field(ge=0)] | Literal["theory"] = "theory"
    serve_every: Annotated[int, Field(ge=1)] = 1
    clique_limit: Annotated[int, Field(ge=1)] = DEFAULT_LIMIT

    def test(self, problem: Problem, *, adaptive: bool) -> HomogeneityTest:
        """The homogeneity test for `problem`."""
        n, noise = problem.agents, problem.get(Noise, Noise()).sigma
        if noise <= 0:
            raise ConfigError(f"{self.about.name}: the homogeneity test divides by the noise; give an environment some")
        level = self.delta / n**2 if self.level == "theory" else float(self.level)
        psi = 1 / (n * noise) ** 2 if self.noncentrality == "theory" else float(self.noncentrality)
        return HomogeneityTest(noise, level, psi, adaptive)

    def rules(self, problem: Problem, test: HomogeneityTest | None, *, priority: bool = False) -> Rules:
        """How the server works."""
        return Rules(
            trigger=lambda size: self.trigger(problem, size),
            test=test,
            clique_limit=self.clique_limit,
            serve_every=self.serve_every,
            priority=priority,
            counted=self.tells_counts,
        )

    @property
    def level_of(self) -> Level:
        """What is held against D_k."""
        return both if self.every is None else observed

    def trigger(self, problem: Problem, size: int) -> float:
        """D_k for a cluster of `size` agents."""
        if self.every is not None:
            return float(self.every)
        if self.threshold != "theory":
            return float(self.threshold)
        return float(problem.horizon * np.log(size * problem.horizon) / (problem.dim * size))


@parameters
class HetoFedBandit(ClusterParameters):
    """Federated linear bandits with heterogeneous clients (Blaser, Li & Wang, AISTATS 2024).

    1. Every agent plays random arms for its first `explore` turns (T_0), then reports (V_i, b_i).
    2. The server tests all pairs for homogeneity and takes the maximal cliques of the graph of pairs that pass as
       clusters; they may overlap. All of them are queued, since none has shared anything yet. With `explore` = 0 there
       is nothing to test: everybody is one cluster.
    3. Agents act optimistically. When Delta t_i log(det V_i/det(V_i - Delta V_i)) reaches D_k of one of its clusters,
       the cluster is queued. Per step the server serves the head of the queue: its members hand over their own data
       since they were last served and receive the sum.

    What travels: d^2 + d scalars per report, 2 |C_k| (d^2 + d) + |C_k| per service, the last for the members' alarms.
    In a service an agent hands over its own data only. Members that cannot be reached are waited for: the service is
    completed when all have handed over, and each member gets its result as soon as it can be reached.

    Guarantee: with `explore` = T_0 of theorem 3.3 (hundreds to thousands of turns), regret
    O(sum_k d sqrt(|C_k| T) log^2(|C_k| T)) plus the exploration. The tuned T_0 of the experiments is not covered, nor
    is the bias term of lemma 3.2, which the published width omits.
    """

    explore: Annotated[int, Field(ge=0)] = 55

    about: ClassVar[About] = About(
        name="hetofedbandit",
        family="clustered",
        topology="star",
        talks="one cluster per step, first in first out, once a member's trigger reaches D_k",
        says=(REPORT, SEEN, COLLECT, OWN, SHARE, ASK_LEVEL, LEVEL),
        guarantee="regret O(sum_k d sqrt(|C_k| T)) up to logs plus exploration, with T_0 of theorem 3.3",
        source=_SOURCE,
        environment="clustered-linear",
    )

    priority: ClassVar[bool] = False

    def agents(self, problem: Problem, n: int, rng: Streams) -> IncrementAgents:
        """n agents that explore first and share increments."""
        alarm = self.trigger(problem, problem.agents)
        return IncrementAgents(self, problem, n, rng, explore=self.explore, alarm=alarm, level=self.level_of)

    def server(self, problem: Problem, n: int, rng: Streams) -> FixedClustersServer:
        """A server that clusters once."""
        clusters = None if self.explore else np.ones((1, n), dtype=np.bool_)
        rules = self.rules(problem, self.test(problem, adaptive=False), priority=self.priority)
        return FixedClustersServer(n, problem.dim, rules, clusters)


@parameters
class HetoFedBanditPQ(HetoFedBandit):
    """HetoFedBandit with a priority queue: the cluster with the largest sum of its members' levels is served first.

    While several clusters wait, the server asks their members for their levels, one scalar each. (The publication does
    not count these; the ledger does.)
    """

    about: ClassVar[About] = About(
        name="hetofedbandit-pq",
        family="clustered",
        topology="star",
        talks="one cluster per step, the one that has learned most first",
        says=HetoFedBandit.about.says,
        guarantee="as hetofedbandit",
        source=_SOURCE + ", appendix G",
        environment="clustered-linear",
    )

    priority: ClassVar[bool] = True


@parameters
class HetoFedBanditE(ClusterParameters):
    """HetoFedBandit-E: re-cluster on growing data, serve by priority (Blaser, Li & Wang, AISTATS 2024, section 3.4).

    No exploration phase: all agents start as one cluster. When an agent's trigger fires, the queue is emptied, every
    agent reports its own observations since its last report, the server tests all pairs anew with a data-dependent
    noncentrality, psi_ij = lambda_max(P_ij)/(n^2 sigma^2 max lambda_max(V)), and queues the clusters of the agent that
    called last. A service sends the clean total of the members' own observations, in place of whatever they had
    received: wrong neighbours leave no trace. Agents whose cluster, and with it whose D_k, has changed are told so.

    Of several agents that call in one step only the last one's clusters are queued, since every call empties the queue:
    so it is printed. `queued` = ``"all"`` queues the clusters of all of them, and priority has something to choose
    from. Whoever is not served calls again in the next step either way, so that messages are about as many.

    What travels: n (d^2 + d + 1) scalars per re-clustering, |C_k| (d^2 + d + 1) per service, 1 per changed alarm.

    Guarantee: none is proved by the publication for this variant.
    """

    queued: Literal["last", "all"] = "last"

    about: ClassVar[About] = About(
        name="hetofedbandit-e",
        family="clustered",
        topology="star",
        talks="everybody reports when a trigger fires; one cluster per step is served, by priority",
        says=(REPORT, OWN, TOTAL, ALARM),
        guarantee="none proved",
        source=_SOURCE,
        environment="clustered-linear",
    )

    priority: ClassVar[bool] = True

    def agents(self, problem: Problem, n: int, rng: Streams) -> TotalAgents:
        """n agents that share clean totals."""
        alarm = self.trigger(problem, problem.agents)
        return TotalAgents(self, problem, n, rng, explore=0, alarm=alarm, level=self.level_of)

    def server(self, problem: Problem, n: int, rng: Streams) -> ReclusteringServer:
        """A server that clusters at every trigger."""
        rules = self.rules(problem, self.test(problem, adaptive=True), priority=self.priority)
        return ReclusteringServer(n, problem.dim, rules, last=self.queued == "last")


@parameters
class HetoFedBanditDR(HetoFedBanditE):
    """HetoFedBandit with data-dependent re-clustering only: as HetoFedBandit-E, but first in first out."""

    about: ClassVar[About] = About(
        name="hetofedbandit-dr",
        family="clustered",
        topology="star",
        talks="everybody reports when a trigger fires; one cluster per step is served, first in first out",
        says=HetoFedBanditE.about.says,
        guarantee="none proved",
        source=_SOURCE + ", appendix G",
        environment="clustered-linear",
    )

    priority: ClassVar[bool] = False
