"""MG-LSVI: teams that plan together in a Markov game, and exchange nothing but their rewards."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

import networkx as nx
import numpy as np
from pydantic import Field

from fedbandits.algorithms.planning.games.messages import REWARDS
from fedbandits.algorithms.planning.games.team_planners import TeamPlanners, log_ratio
from fedbandits.algorithms.planning.parameters import PlanningParameters
from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.catalogue import About
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import Game, Place
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.graphs.structure import clique_cover
from fedbandits.linalg import joint_iteration

_LARGEST = 4096
"""The largest p for which regressions are made: one matrix of it is 134 MB."""


@parameters
class MGLSVI(PlanningParameters):
    """Optimistic value iteration of teams (Dubey 2022, algorithm 21).

    Agents who see each other (the fact `Game`) and are linked on the graph influence each other. That graph is divided
    into as few cliques C as we find, the teams. In every episode t all draw the same scalarisation v, uniform on the
    simplex, from common randomness; entries of a team are rescaled to sum to 1 there, without which later values would
    be discounted by their sum in every stage. Each member solves, for h = H, ..., 1 and over the episodes in which it
    knows what all members got,

        w_h = L_h^-1 sum Phi (r + 1 V_{h+1}(x')),  L_h = lambda I + sum Phi Phi^T,
        Q_h(x, a) = min(v^T Phi(x, a)^T w_h + beta ||Phi(x, a)^T L_h^-1 Phi(x, a)||_2^(1/2), H - h + 1),
        V_h(x) = max_a Q_h(x, a),

    a running over the joint actions of the team, and takes its own part of the best. Column u of Phi (p, |C|) is
    [e_u (x) f; g]; f is made of the members' parts about rewards, g of those about next states (see
    `linalg.joint_iteration`). `joint`: "sum", one after the other, p = |C|^2 b_r + |C| b_s, which is linear in
    what each member does; or "product", p = |C| b_r^|C| + b_s^|C|, with which every table is linear.

    Up to `exact` joint actions the best is found by looking at all; beyond, by coordinate ascent: from the best without
    its bonus, one member after the other, until nobody can improve the index alone, which need not be the largest.

    Rewards are all that is exchanged: members tell each other theirs, since they last did, after an episode in which
    det(L_h + dL_h) >= S det(L_h) for any stage h (`threshold`: S; at most 1: after every episode; ``"budget"``:
    (1 + |C| T / p)^(1/D) with D = `rounds`). States and actions are seen. Episodes of which a member's rewards were
    lost are not planned with. Members who are not in step, or hear different things, act for themselves.

    `preferences`: "random"; "average", the same for all; or numbers, one for each agent.

    Guarantee: Bayes regret O(chi p^(3/2) H^2 sqrt(n_max S T)) up to logarithms (theorem 10.2) and at most
    chi (p H log_S(1 + T n_max / p) + H) synchronisations (lemma 10.2), chi being the number of teams and n_max the
    largest, in games that are linear in Phi, with the exact maximum, at the theory's bonus. None with coordinate
    ascent, a tuned bonus, or features that leave anything out.
    """

    threshold: Annotated[float, Field(gt=0)] | Literal["budget"] = 2.0
    rounds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 4.0
    joint: Literal["sum", "product"] = "sum"
    exact: Annotated[int, Field(ge=1)] = 64
    preferences: Literal["random", "average"] | tuple[Annotated[float, Field(gt=0, allow_inf_nan=False)], ...] = (
        "random"
    )

    about: ClassVar[About] = About(
        name="mg-lsvi",
        family="planning",
        topology="graph",
        talks="members of a team to each other, after an episode in which a determinant has grown S-fold",
        says=(REWARDS,),
        guarantee="Bayes regret O(chi d^(3/2) H^2 sqrt(n_max S T)), linear games, exact maximum, theory bonus",
        source="Dubey (2022), thesis, section 10.4, algorithm 21",
        hops=1,
        environment="team-mdp",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> TeamPlanners:
        """n agents, each of whom knows its team."""
        if isinstance(self.preferences, tuple) and len(self.preferences) != problem.agents:
            raise ConfigError(
                f"mg-lsvi: preferences: {problem.agents} agents need as many numbers (got {len(self.preferences)})"
            )
        return TeamPlanners(self, problem, self.teams(problem), n, rng)

    def server(self, problem: Problem, n: int, rng: Streams) -> None:
        """Nobody."""
        return

    def sizes(self, problem: Problem) -> dict[str, int]:
        """An episode has H rewards."""
        return {"H": self.length(problem)}

    def teams(self, problem: Problem) -> list[IntArray]:
        """The cliques, each ascending: of those who are linked and see each other."""
        game, place = problem.need(Game, by=self.about), problem.need(Place, by=self.about)
        linked = nx.to_numpy_array(place.graph, nodelist=list(range(problem.agents)), nonedge=np.nan)
        linked = ~np.isnan(linked)
        if game.sees is not None:
            sees = np.zeros_like(linked)
            for agent, seen in enumerate(game.sees):
                sees[agent, list(seen)] = True
            linked = linked & sees & sees.T
        return [np.asarray(clique) for clique in clique_cover(linked).cliques]

    def size(self, problem: Problem) -> int:
        """p of the largest team."""
        most = max(map(len, self.teams(problem)))
        _, _, rewards, states = self.form(problem, most)
        p = most * rewards + states
        if p > _LARGEST:
            raise ConfigError(
                f"mg-lsvi: {most} members have {p} features by {self.joint}, more than {_LARGEST}; use joint='sum', "
                "a smaller problem, or a network or visibility with smaller cliques"
            )
        return p

    def form(self, problem: Problem, members: int) -> tuple[int, bool, int, int]:
        """How features of a team are made: `pays`, whether by product, q_r and q_s."""
        game = problem.need(Game, by=self.about)
        block, rest = divmod(problem.dim, problem.agents)
        if rest or game.pays >= block:
            raise ConfigError(
                f"mg-lsvi: arms of {problem.dim} numbers have no blocks for {problem.agents} agents with more than "
                f"{game.pays} numbers each, as the fact 'game' says"
            )
        product = self.joint == "product"
        return game.pays, product, *joint_iteration.sizes(members, block, game.pays, product)

    def log_threshold(self, problem: Problem) -> float:
        """log S."""
        if self.threshold != "budget":
            return log_ratio(float(self.threshold))
        episodes = math.ceil(problem.horizon / self.length(problem))
        largest = max(map(len, self.teams(problem)))
        return math.log1p(largest * episodes / self.size(problem)) / self.rounds

    def scalarisation(self, rng: Streams, episode: int, agents: int) -> FloatArray:
        """(M,) positive weights that sum to 1: what everybody draws for an episode."""
        if self.preferences == "random":
            drawn = rng.common("scalarisation", episode).dirichlet(np.ones(agents))
            return np.maximum(drawn, np.finfo(np.float64).tiny)
        weights = np.ones(agents) if self.preferences == "average" else np.array(self.preferences)
        return np.asarray(weights / weights.sum())
