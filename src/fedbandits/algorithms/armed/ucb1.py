"""UCB1 by every agent alone, with the mean of one's choice."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from fedbandits.algorithms.armed.agents import (
    INDEXED,
    IndexAgents,
    Indexed,
    best_shown,
    in_place,
    observe_indexed,
    pick_indexed,
)
from fedbandits.algorithms.armed.estimators import EmpiricalMean, Estimation, MeanName
from fedbandits.algorithms.armed.estimators.compiled import fits, weigh
from fedbandits.algorithms.armed.theory import lower_bound, upper_bound
from fedbandits.contract.algorithm import Bounds
from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray
from fedbandits.contract.catalogue import About
from fedbandits.contract.compiled import choose, learn, quiet, stands_for, untouched
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.linalg.jit import jit_inside


@parameters
class UCB1(Estimation):
    """Each arm once, then argmax_k mean_k + sqrt(2 log t / n_k) on the agent's own samples.

    Guarantee (rewards in [0, 1]): regret at most sum_k (8 log T / Delta_k + (1 + pi^2/3) Delta_k) for each agent.
    """

    about: ClassVar[About] = About(
        name="ucb1",
        family="armed",
        topology="alone",
        talks="never",
        says=(),
        calls="never",
        guarantee="regret O(sum_k log T / Delta_k) per agent (rewards in [0, 1])",
        source="Auer, Cesa-Bianchi & Fischer, Machine Learning 2002",
        environment="bernoulli",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> LonelyIndexAgents:
        """n agents on their own."""
        return LonelyIndexAgents(self, problem, n)

    def server(self, problem: Problem, n: int, rng: Streams) -> None:
        """Nobody to talk to."""

    def bounds(self, problem: Problem, means: FloatArray | None) -> Bounds | None:
        """Auer et al. (2002) and Lai & Robbins (1985), once for each agent."""
        if means is None:
            return None
        n = problem.agents
        upper = upper_bound(self, problem, means, groups=n, extra=n * (1 + np.pi**2 / 3))
        return Bounds(upper, lower_bound(problem, means, agents=n))


@parameters
class RobustUCB(UCB1):
    """UCB1 with a mean for heavy tails, by default the trimmed mean at confidence 1/t^2, and the width of that mean.

    Guarantee: regret O(sum_k Delta_k^(-1/eps) log T) for each agent if E|X|^(1+eps) <= u is known.
    """

    mean: MeanName = "trimmed"

    about: ClassVar[About] = About(
        name="robust-ucb",
        family="armed",
        topology="alone",
        talks="never",
        says=(),
        calls="never",
        guarantee="regret O(sum_k Delta_k^(-1/eps) log T) per agent under a bounded moment of order 1 + eps",
        source="Bubeck, Cesa-Bianchi & Lugosi, IEEE Transactions on Information Theory 2013",
        environment="stable",
    )


@quiet
class Lonely(NamedTuple):
    """`LonelyIndexAgents` for compiled loops."""

    own: Indexed


@stands_for(choose, Lonely)
@jit_inside
def _choose(agents: Lonely, i: int, arms: FloatArray, row: int, room: FloatArray) -> int:
    return pick_indexed(agents.own, i) if in_place(agents.own.places, arms, row) else -1


@stands_for(learn, Lonely)
@jit_inside
def _learn(agents: Lonely, i: int, arms: FloatArray, row: int, pick: int, reward: float, room: FloatArray) -> bool:
    observe_indexed(agents.own, i, pick, reward, weigh(agents.own.known, reward))
    return not fits(agents.own.known, i, pick, 1)


class LonelyIndexAgents(IndexAgents):
    """Index agents who hear of nobody, so that they can do with some of the arms, and tell what they compare."""

    def drop_arm(self, place: int) -> None:
        """See `ArmedAgents`; sums alone can be dropped."""
        if not isinstance(self.known, EmpiricalMean):
            super().drop_arm(place)
            return
        self.known.sums[:, place] = 0.0
        self.known.counts[:, place] = 0

    def compiled(self) -> Any:
        """See `Population`."""
        if not untouched(self, LonelyIndexAgents, *INDEXED):
            return None
        own = self.indexed(np.ones(self._n, dtype=np.int64))
        return None if own is None else Lonely(own)

    def _pick_among(self, who: IntArray, shown: BoolArray) -> IntArray:
        turns = self.turns[who] + 1
        return np.where(self._due(turns, shown), turns - 1, best_shown(self._indices(who, turns), shown))

    def _scores(self, who: IntArray, shown: BoolArray) -> FloatArray | None:
        if not isinstance(self.known, EmpiricalMean):  # the others move samples about while they estimate
            return None
        turns = self.turns[who] + 1
        return np.where(self._due(turns, shown)[:, None], np.nan, self._indices(who, turns))

    def _due(self, turns: IntArray, shown: BoolArray) -> BoolArray:
        """(w,) whose first K turns are not over, the arm whose turn it is being shown: nothing is compared."""
        place = np.minimum(turns, self._arms) - 1
        return np.asarray((turns <= self._arms) & shown[np.arange(len(turns)), place])
