"""UCB1 by every agent alone, with the mean of one's choice."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from fedbandits.algorithms.armed.agents import SPOKEN_FOR, IndexAgents, Places, best_shown, in_place
from fedbandits.algorithms.armed.estimators import EmpiricalMean, Estimation, MeanName
from fedbandits.algorithms.armed.estimators.contract import Rate, demand_at, width_at
from fedbandits.algorithms.armed.theory import lower_bound, upper_bound
from fedbandits.contract.algorithm import Bounds
from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray
from fedbandits.contract.catalogue import About
from fedbandits.contract.compiled import choose, learn, quiet, stands_for, untouched
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.linalg.jit import jit_inside, jit_part_exactly


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
class Indexed(NamedTuple):
    """`LonelyIndexAgents` with empirical means, for compiled loops."""

    turns: IntArray
    counts: IntArray
    sums: FloatArray
    rate: Rate
    places: Places


@stands_for(choose, Indexed)
@jit_inside
def _choose(agents: Indexed, i: int, arms: FloatArray, row: int, room: FloatArray) -> int:
    if not in_place(agents.places, arms, row):
        return -1
    turn, rate = int(agents.turns[i]) + 1, agents.rate
    if turn <= agents.places.arms:
        return turn - 1
    demand = demand_at(turn, rate.base, rate.slope)
    best, found = -np.inf, 0
    for k in range(agents.places.arms):
        count = agents.counts[i, k]
        mean = agents.sums[i, k] / count if count > 0 else 0.0
        index = exact_sum(mean, width_at(count, demand, rate.offset, rate.factor, rate.exponent))
        if index > best:
            best, found = index, k
    return found


@stands_for(learn, Indexed)
@jit_inside
def _learn(agents: Indexed, i: int, arms: FloatArray, row: int, pick: int, reward: float, room: FloatArray) -> bool:
    agents.sums[i, pick] += reward
    agents.counts[i, pick] += 1
    agents.turns[i] += 1
    return False


@jit_part_exactly
def exact_sum(one: float, other: float) -> float:
    """Of two numbers that are rounded before."""
    return one + other


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
        """See `Population`: of those who need no more than sums and counts."""
        known = self.known
        if type(known) is not EmpiricalMean or not untouched(self, LonelyIndexAgents, *SPOKEN_FOR, "_indices"):
            return None
        return Indexed(self.turns, known.counts, known.sums, known.rate, self.places())

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
