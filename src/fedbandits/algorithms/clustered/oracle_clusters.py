"""The oracle: told the true clusters, it serves them as HetoFedBandit would."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fedbandits.algorithms.clustered.agents import ASK_LEVEL, LEVEL, OWN, SHARE, IncrementAgents
from fedbandits.algorithms.clustered.clusters import partition
from fedbandits.algorithms.clustered.hetofedbandit import ClusterParameters
from fedbandits.algorithms.clustered.servers import FixedClustersServer
from fedbandits.contract.catalogue import About, ConfigError
from fedbandits.contract.depending import depending
from fedbandits.contract.facts import Truth
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.models.paced import by_schedule
from fedbandits.models.sharing import COLLECT


@parameters
class OracleClusters(ClusterParameters):
    """HetoFedBandit without exploration or test: the server is told who is alike, the best anyone can hope for.

    Until its first service an agent calls at the trigger of a cluster of everybody, which is the earliest.

    Guarantee: that of DisLinUCB inside every cluster, up to waiting for the server, which serves one cluster per step.
    """

    about: ClassVar[About] = depending(
        About(
            name="oracle-clusters",
            family="clustered",
            topology="star",
            talks="as hetofedbandit, with the true clusters",
            says=(COLLECT, OWN, SHARE, ASK_LEVEL, LEVEL),
            guarantee="that of dislinucb inside every true cluster",
            source="baseline",
            oracle=True,
            environment="clustered-linear",
        ),
        by_schedule,
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> IncrementAgents:
        """n agents that share increments."""
        return IncrementAgents(
            self, problem, n, rng, explore=0, alarm=self.trigger(problem, problem.agents), level=self.level_of
        )

    def server(self, problem: Problem, n: int, rng: Streams) -> FixedClustersServer:
        """A server that knows the clusters."""
        known = problem.get(Truth)
        if known is None:
            raise ConfigError(
                "oracle-clusters: the environment has no clusters to tell; use one such as clustered-linear"
            )
        clusters = partition(np.array(known.clusters))
        return FixedClustersServer(n, problem.dim, self.rules(problem, test=None), clusters)
