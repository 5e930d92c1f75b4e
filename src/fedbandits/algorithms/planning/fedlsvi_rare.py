"""FedLSVI with rare communication: agents share sums, and plan together."""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from fedbandits.algorithms.planning.parameters import PlanningParameters
from fedbandits.algorithms.planning.rare_agents import RareAgents
from fedbandits.algorithms.planning.rare_messages import ASK, COLLECT, GRAMS, POOL, SUMS, TARGETS
from fedbandits.algorithms.planning.rare_server import RareServer
from fedbandits.contract.catalogue import About
from fedbandits.contract.depending import depending
from fedbandits.contract.facts import Fact, Questions
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.models.paced import Paced, by_schedule
from fedbandits.models.triggers import Trigger, grown


@parameters
class FedLSVIRare(Paced, PlanningParameters):
    """FedLSVI, RARE (Dubey 2022, algorithm 19): one plan for everybody, made of sums.

    Agents act on what was synchronised alone. An agent calls after an episode when, in any stage h,

        det(L_h + dS_h) >= S det(L_h),

    dS_h being sum phi phi^T over its own transitions since. Then everybody hands over dS_h of all stages, and the
    stages are solved from the last to the first: each agent says u_h = sum phi (r + V_{h+1}(x')) over **all** its own
    transitions, with the V_{h+1} that was just solved, and is told the sum, from which w_h follows. H + 1 rounds of
    questions and 2 H (d^2 + d) numbers for each agent; no transition leaves it. Equal transitions are kept once, so
    that an agent's memory, and what a question costs it, are bounded where features are finite.

    `threshold` is S > 1; 1 synchronises after every episode, infinity never. With `every` b agents call after b H own
    turns instead, which are b episodes unless some are over early. Before the first time, w = 0 and L = lambda I.

    Guarantee: at most H (d log_S(1 + MT/(d lambda)) + 1) synchronisations; the printed lemma 9.3 lacks the factor d.
    Group regret O(d^{3/2} H^2 sqrt(S M T)) up to logarithms (theorem 9.2) in one linear MDP, everybody in step, at the
    theory's bonus; its proof takes S for a bound on the growth by all agents together, and only that by each is
    tested, so that S^M is what the rule ensures.
    """

    threshold: Annotated[float, Field(ge=1)] = 2.0

    about: ClassVar[About] = depending(
        About(
            name="fedlsvi-rare",
            family="planning",
            topology="star",
            talks="everybody, after an episode in which one agent's determinant has grown by the factor S in a stage",
            says=(COLLECT, GRAMS, POOL, ASK, TARGETS, SUMS),
            guarantee="group regret O(d^1.5 H^2 sqrt(S M T)) up to logarithms, one linear MDP, theory bonus",
            source="Dubey (2022), thesis, section 9.3.2, algorithm 19",
            environment="linear-mdp",
        ),
        partial(by_schedule, unit="episode"),
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> RareAgents:
        """n agents with the trigger, or a schedule."""
        length = self.length(problem)
        return RareAgents(
            self.features(problem, rng),
            self.history(problem, n),
            self.models(problem, n),
            self.models(problem, n),
            self.beta(problem),
            np.stack([self.least(problem), self.most(problem)]),
            Trigger(grown, math.log(self.threshold)),
            None if self.every is None else self.every * length,
        )

    def server(self, problem: Problem, n: int, rng: Streams) -> RareServer:
        """A server that adds up."""
        return RareServer(n, self.length(problem), self.size(problem))

    def sizes(self, problem: Problem) -> dict[str, int]:
        """Episodes have H stages."""
        return {"H": self.length(problem)}

    def assumes(self, problem: Problem) -> tuple[Fact, ...]:
        """What bounds and stages may rest on."""
        return (*super().assumes(problem), Questions("targets", self.length(problem)))
