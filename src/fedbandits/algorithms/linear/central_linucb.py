"""Central LinUCB: all agents act on the pooled statistics of everybody, at the price of talking always."""

from __future__ import annotations

from typing import ClassVar

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from fedbandits.algorithms.linear.agents import COLLECT, FRESH, POOL, LinearParameters, LinUCBAgents
from fedbandits.algorithms.linear.servers import PoolServer
from fedbandits.contract.arrays import BoolArray, FloatArray
from fedbandits.contract.catalogue import About
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
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
        says=(COLLECT, FRESH, POOL),
        guarantee="regret O(d sqrt(nT) log(nT)) of OFUL on all observations, one round late",
        source="Abbasi-Yadkori, Pal & Szepesvari, NeurIPS 2011",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> CentralLinUCBAgents:
        """n agents that report every observation."""
        return CentralLinUCBAgents(self, problem, n)

    def server(self, problem: Problem, n: int) -> PoolServer:
        """A server that collects from those who observed and tells everybody."""
        return PoolServer(self, n, problem.dim, collects="callers", tells="everybody")


class CentralLinUCBAgents(LinUCBAgents):
    """LinUCB agents that call whenever they have anything new."""

    def calling(self) -> BoolArray:
        """Who has observed something since the last upload."""
        return self.models.fresh.count > 0

    def urgency(self) -> FloatArray:
        """How far each agent's trigger has come; see `Urgent`."""
        return self.models.fresh.count.copy()
