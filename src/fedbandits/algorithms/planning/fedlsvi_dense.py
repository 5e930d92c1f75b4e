"""FedLSVI with dense communication: agents share their transitions."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fedbandits.algorithms.planning.messages import COLLECT, NEWS, TRANSITIONS
from fedbandits.algorithms.planning.news_server import NewsServer
from fedbandits.algorithms.planning.parameters import PlanningParameters
from fedbandits.algorithms.planning.planners import Planners
from fedbandits.contract.catalogue import About
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.models.triggers import Trigger, both


@parameters
class FedLSVIDense(PlanningParameters):
    """FedLSVI, DENSE (Dubey 2022, algorithm 18): everybody's transitions, and each agent's own since, plan together.

    An agent plans as in `lsvi-ucb`, over all that was synchronised and what it has done since. With t - k episodes
    since the last synchronisation it calls when, in any stage h,

        log det(L_h + dS_h) - log det(L_h) >= S / (t - k),

    L_h being lambda I + sum phi phi^T over what was synchronised and dS_h over its own since. Then everybody sends its
    new transitions (phi, r, x') as they were made, and is told everybody's. **Raw observations cross**: of each
    transition the features of all actions in the state it led to. Equal transitions travel once, with their number and
    the sum of their rewards: where features are finite a message has at most one entry for each stage, state, action
    and next state, which are the counts of the thesis.

    `threshold` is S, or a formula by name, with T episodes of M agents: ``"log"`` T / (d M^2 log(MT)), for at most
    2 d H M log(MT) synchronisations or so, ``"constant"`` T log(MT) / (d M^2), for 2 d H M whatever T. 0 synchronises
    after every episode, infinity never.

    Guarantee: at most 2H sqrt(d (T/S) log(MT)) + 4H synchronisations (lemma 9.2), and group regret
    O(d H^2 (d M sqrt(S) + sqrt(d M T))) up to logarithms (theorem 9.1), in a linear MDP that is the same for all
    agents, rewards in [0, 1], ||phi|| <= 1, everybody in step, at the theory's bonus. None where agents come and go.
    """

    threshold: Annotated[float, Field(ge=0)] | Literal["log", "constant"] = "log"

    about: ClassVar[About] = About(
        name="fedlsvi-dense",
        family="planning",
        topology="star",
        talks="everybody, after an episode in which one agent's log-determinant has grown by S over the episodes since",
        says=(COLLECT, TRANSITIONS, NEWS),
        guarantee="group regret O(d H^2 (d M sqrt(S) + sqrt(d M T))) up to logarithms, one linear MDP, theory bonus",
        source="Dubey (2022), thesis, section 9.3.1, algorithm 18",
        environment="linear-mdp",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> Planners:
        """n agents with the trigger."""
        return self.planners(problem, n, rng, Trigger(both, self.trigger(problem)))

    def server(self, problem: Problem, n: int, rng: Streams) -> NewsServer:
        """A server that passes on what it hears."""
        return NewsServer(self.history(problem, n))

    def sizes(self, problem: Problem) -> dict[str, int]:
        """What regressions see of an arm has p numbers."""
        return {"p": self.size(problem)}

    def trigger(self, problem: Problem) -> float:
        """The number S."""
        agents, d = problem.agents, self.size(problem)
        episodes = math.ceil(problem.horizon / self.length(problem))
        many = math.log(max(agents * episodes, 3))
        if self.threshold == "log":
            return episodes / (d * agents**2 * many)
        if self.threshold == "constant":
            return episodes * many / (d * agents**2)
        return float(self.threshold)
