"""Central LSVI-UCB: all agents plan with the transitions of everybody, at the price of talking always."""

from __future__ import annotations

from typing import ClassVar

from fedbandits.algorithms.planning.messages import COLLECT, NEWS, TRANSITIONS
from fedbandits.algorithms.planning.news_server import NewsServer
from fedbandits.algorithms.planning.parameters import PlanningParameters
from fedbandits.algorithms.planning.planners import Planners
from fedbandits.contract.catalogue import About
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.models.triggers import ALWAYS


@parameters
class CentralLSVI(PlanningParameters):
    """One LSVI-UCB for everybody: the best that agents in the same MDP can hope for.

    Whoever has finished an episode calls, everybody sends its new transitions, and everybody is told all of them.

    Guarantee: that of LSVI-UCB on the MT episodes of everybody, O(sqrt(d^3 H^4 M T)) up to logarithms; episodes that
    run at the same time do not see each other.
    """

    about: ClassVar[About] = About(
        name="central-lsvi",
        family="planning",
        topology="star",
        talks="after every episode, everybody",
        says=(COLLECT, TRANSITIONS, NEWS),
        guarantee="regret O(sqrt(d^3 H^4 M T)) of LSVI-UCB on all episodes, one episode late",
        source="Jin, Yang, Wang & Jordan, COLT 2020; Dubey (2022), thesis, remark 9.2",
        environment="linear-mdp",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> Planners:
        """n agents that report every episode."""
        return self.planners(problem, n, rng, ALWAYS)

    def server(self, problem: Problem, n: int, rng: Streams) -> NewsServer:
        """A server that passes on what it hears."""
        return NewsServer(self.history(problem, n))

    def sizes(self, problem: Problem) -> dict[str, int]:
        """What regressions see of an arm has p numbers."""
        return {"p": self.size(problem)}
