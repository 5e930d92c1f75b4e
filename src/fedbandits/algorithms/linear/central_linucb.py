"""Central LinUCB: all agents act on the pooled statistics of everybody, at the price of talking always."""

from __future__ import annotations

from typing import ClassVar

from fedbandits.algorithms.linear.parameters import LinearParameters
from fedbandits.algorithms.linear.servers import PoolServer
from fedbandits.contract.catalogue import About
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.models.optimistic import OptimisticAgents
from fedbandits.models.sharing import COLLECT, POOL, POOLED_FRESH
from fedbandits.models.triggers import ALWAYS


@parameters
class CentralLinUCB(LinearParameters):
    """One LinUCB (OFUL) for everybody: the best a homogeneous federation can hope for.

    After every step those who observed something upload its statistics and everybody downloads the pool:
    (w + n)(d^2 + d) scalars for w observations.

    Guarantee: that of OFUL (Abbasi-Yadkori et al. 2011) on all nT observations, O(d sqrt(nT) log(nT)); decisions taken
    in the same step do not see each other's outcome.
    """

    about: ClassVar[About] = About(
        name="central-linucb",
        family="linear",
        topology="star",
        talks="after every observation, to everybody",
        says=(COLLECT, POOLED_FRESH, POOL),
        calls="scheduled",
        guarantee="regret O(d sqrt(nT) log(nT)) of OFUL on all observations, one round late",
        source="Abbasi-Yadkori, Pal & Szepesvari, NeurIPS 2011",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> OptimisticAgents:
        """n agents that report every observation."""
        return self.optimists(problem, n, ALWAYS)

    def server(self, problem: Problem, n: int, rng: Streams) -> PoolServer:
        """A server that collects from those who observed and tells everybody."""
        return PoolServer(self, n, problem.dim, collects="callers", tells="everybody")
