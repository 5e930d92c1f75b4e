"""LSVI-UCB: every agent plans alone."""

from __future__ import annotations

from typing import ClassVar

from fedbandits.algorithms.planning.parameters import PlanningParameters
from fedbandits.algorithms.planning.planners import Planners
from fedbandits.contract.catalogue import About
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams


@parameters
class LSVIUCB(PlanningParameters):
    """Optimistic least-squares value iteration (Jin, Yang, Wang & Jordan, COLT 2020), each agent for itself.

    After every episode an agent solves, for h = H, ..., 1 and over all it has done,

        w_h = L_h^-1 sum phi (r + V_{h+1}(x')),  L_h = lambda I + sum phi phi^T,
        Q_h(phi) = min(<w_h, phi> + beta ||phi||_{L_h^-1}, H - h + 1),  V_h = max Q_h,

    and acts greedily by Q until the next one is over.

    Guarantee: in linear MDPs with rewards in [0, 1] and ||phi|| <= 1, regret O(sqrt(d^3 H^4 T)) up to logarithms for
    each agent, at the theory's bonus with a large enough constant. A bonus that was tuned has none, and the theory's is
    so large that runs of practical length only explore.
    """

    about: ClassVar[About] = About(
        name="lsvi-ucb",
        family="planning",
        topology="alone",
        talks="never",
        says=(),
        calls="never",
        guarantee="regret O(sqrt(d^3 H^4 T)) per agent up to logarithms, linear MDPs, theory bonus",
        source="Jin, Yang, Wang & Jordan, COLT 2020; Dubey (2022), thesis, section 9.2",
        environment="linear-mdp",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> Planners:
        """n agents that talk to nobody."""
        return self.planners(problem, n, rng)

    def server(self, problem: Problem, n: int, rng: Streams) -> None:
        """Nobody."""
        return
