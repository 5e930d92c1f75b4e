"""CLUB: centralised online clustering by deleting edges."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from fedbandits.algorithms.clustered.grouping import (
    GroupingParameters,
    GroupingServer,
    components,
    distances,
    shrinking,
)
from fedbandits.contract.arrays import BoolArray, IntArray
from fedbandits.contract.catalogue import About
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.models.ridge import solve
from fedbandits.models.sharing import COLLECT, FRESH, POOL


@parameters
class CLUB(GroupingParameters):
    """Online clustering of bandits (Gentile, Li & Zappella, ICML 2014), centralised.

    A graph over the agents starts complete. With w_i the ridge estimate from agent i's own m_i observations, edge (i,
    j) is deleted for good when

        ||w_i - w_j|| > c (f(m_i) + f(m_j)),   f(m) = sqrt((1 + log(1 + m)) / (1 + m)),

    c = `separation`; the connected components are the clusters, and an agent acts on the observations of its component.
    Every observation goes up, the component's sums come down: 2 (d^2 + d + 1) scalars per agent and round, metered as
    if it were a federation.

    Guarantee: for i.i.d. users and well-spread arms, regret O(d sqrt(m T) log T) for m clusters; the constant c of the
    analysis is far larger than what works.
    """

    separation: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.5

    about: ClassVar[About] = About(
        name="club",
        family="clustered",
        topology="star",
        talks="after every observation",
        says=(COLLECT, FRESH, POOL),
        calls="scheduled",
        guarantee="regret O(d sqrt(m T) log T) for m clusters and the analysis' constants",
        source="Gentile, Li & Zappella, ICML 2014",
        environment="clustered-linear",
    )

    def server(self, problem: Problem, n: int, rng: Streams) -> CLUBServer:
        """A server that deletes edges."""
        return CLUBServer(n, problem.dim, self.ridge, self.separation)


class CLUBServer(GroupingServer):
    """`graph` (n, n) loses edges and never gains one; groups are its components."""

    keeps: ClassVar[tuple[str, ...]] = (*GroupingServer.keeps, "graph")

    def __init__(self, n: int, dim: int, ridge: float, separation: float) -> None:
        super().__init__(n, dim)
        self._ridge = ridge
        self._separation = separation
        self.graph: BoolArray = ~np.eye(n, dtype=np.bool_)

    def _regroup(self, changed: IntArray) -> BoolArray:
        theta = solve(self.own.gram, self.own.moment, self._ridge)[1]
        reach = shrinking(self.own.count)
        apart = distances(theta) > self._separation * (reach[:, None] + reach[None, :])
        touched = np.zeros(len(theta), dtype=np.bool_)
        touched[changed] = True
        cut = apart & self.graph & (touched[:, None] | touched[None, :])
        if not cut.any():
            return self.group
        self.graph &= ~cut
        labels = components(self.graph)
        return np.asarray(labels[:, None] == labels[None, :])
