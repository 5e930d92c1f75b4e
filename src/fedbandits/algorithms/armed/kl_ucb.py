"""KL-UCB by every agent alone: the confidence intervals of coins, not of bounded numbers at large."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from fedbandits.algorithms.armed.agents import best_shown, in_place
from fedbandits.algorithms.armed.tally import (
    SPOKEN_FOR,
    Tallies,
    TallyingAgents,
    check_unit_range,
    check_unit_reward,
    check_unit_rewards,
    tally,
)
from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray
from fedbandits.contract.catalogue import About
from fedbandits.contract.compiled import choose, learn, quiet, stands_for, untouched
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.linalg.jit import jit, jit_inside, jit_part

_ITERATIONS = 100
"""Far more than Newton's method takes here; only there so that the loop has an end."""


@parameters
class KLUCB:
    """Each arm once, then argmax_k max{q : n_k KL(mean_k, q) <= log t + c log log t}, KL that of Bernoulli laws.

    t counts the agent's own decisions; log log t is taken as 0 before t = 3. Rewards may be anything in [0, 1];
    problems whose rewards may leave it are refused.

    Guarantee (c >= 3): for each agent regret (1 + o(1)) sum_k Delta_k log T / KL(mu_k, mu_*), which no consistent
    algorithm beats for clicks. The authors recommend c = 0 in practice, for which they prove nothing.
    """

    c: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 3.0

    about: ClassVar[About] = About(
        name="kl-ucb",
        family="armed",
        topology="alone",
        talks="never",
        says=(),
        calls="never",
        guarantee="regret (1 + o(1)) sum_k Delta_k log T / KL(mu_k, mu_*) per agent (rewards in [0, 1], c >= 3)",
        source="Garivier & Cappe, COLT 2011",
        environment="bernoulli",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> KLUCBAgents:
        """n agents on their own."""
        check_unit_range(self.about.name, problem)
        return KLUCBAgents(self.c, problem, n)

    def server(self, problem: Problem, n: int, rng: Streams) -> None:
        """Nobody to talk to."""


class KLUCBAgents(TallyingAgents):
    """Agents that are optimistic about coins."""

    def __init__(self, c: float, problem: Problem, n: int) -> None:
        super().__init__(problem, n)
        self._c = c

    def compiled(self) -> Any:
        """See `Population`."""
        return Coins(self.tallies(), float(self._c)) if untouched(self, KLUCBAgents, *SPOKEN_FOR) else None

    def _pick(self, who: IntArray) -> IntArray:
        return _pick_highest(self.sums, self.counts, who, self._c)

    def _pick_among(self, who: IntArray, shown: BoolArray) -> IntArray:
        return best_shown(_indices(self.sums, self.counts, who, self._c), shown)

    def _scores(self, who: IntArray, shown: BoolArray) -> FloatArray | None:
        return _indices(self.sums, self.counts, who, self._c)

    def _tallied(self, who: IntArray, rewards: FloatArray) -> FloatArray:
        check_unit_rewards(who, rewards)
        return rewards


@jit
def highest_plausible(mean: float, level: float) -> float:
    """max{q in [mean, 1] : KL(Bern(mean), Bern(q)) <= level}, by Newton's method.

    KL is convex in q and the start lies above the solution, so the iteration falls towards it and cannot overshoot.
    """
    if mean >= 1.0 or level <= 0.0:
        return mean
    return mean + _descend(mean, level, _reach(mean, level))


@jit_part
def _reach(mean: float, level: float) -> float:
    """How far above `mean` < 1 the highest plausible q can be at most, without solving for it.

    The lesser of two bounds: KL(p, q) >= 2 (q - p)^2 (Pinsker), and KL(p, q) >= -H(p) - (1 - p) log(1 - q), with H the
    entropy. The latter is exact for p = 0 and tight where q is close to 1.
    """
    miss = 1.0 - mean
    entropy = -miss * math.log(miss)
    if mean > 0.0:
        entropy -= mean * math.log(mean)
    return min(math.sqrt(0.5 * level), miss - math.exp(-(level + entropy) / miss))


@jit_part
def _descend(mean: float, level: float, above: float) -> float:
    """The solution as its distance from `mean`, starting from a distance `above` it."""
    miss = 1.0 - mean
    for _ in range(_ITERATIONS):
        left = miss - above
        if left <= 0.0:
            return miss
        excess = -miss * math.log1p(-above / miss) - level
        if mean > 0.0:
            excess -= mean * math.log1p(above / mean)
        lower = above - excess * (mean + above) * left / above
        if not 0.0 < lower < above:
            return above
        above = lower
    return above


@jit
def _pick_highest(sums: FloatArray, counts: IntArray, who: IntArray, c: float) -> IntArray:
    """(w,) the arm of highest index for each agent in `who`, or its first arm never taken; sums and counts (n, K)."""
    picks = np.empty(len(who), dtype=np.int64)
    for a in range(len(who)):
        picks[a] = _pick_one(sums, counts, who[a], c)
    return picks


@jit_part
def _pick_one(sums: FloatArray, counts: IntArray, i: int, c: float) -> int:
    taken = counts[i]
    demand = _demand(taken, c)
    best, found = -1.0, 0
    for k in range(len(taken)):
        if taken[k] == 0:
            return k
        mean = sums[i, k] / taken[k]
        level = demand / taken[k]
        # most arms are settled by the bound from which the exact index would be sought
        if mean < 1.0 and mean + _reach(mean, level) <= best:
            continue
        index = highest_plausible(mean, level)
        if index > best:
            best, found = index, k
    return found


@quiet
class Coins(NamedTuple):
    """`KLUCBAgents` for compiled loops."""

    known: Tallies
    c: float


@stands_for(choose, Coins)
@jit_inside
def _choose(agents: Coins, i: int, arms: FloatArray, row: int, room: FloatArray) -> int:
    known = agents.known
    return _pick_one(known.sums, known.counts, i, agents.c) if in_place(known.places, arms, row) else -1


@stands_for(learn, Coins)
@jit_inside
def _learn(agents: Coins, i: int, arms: FloatArray, row: int, pick: int, reward: float, room: FloatArray) -> bool:
    check_unit_reward(reward)
    tally(agents.known, i, pick, reward)
    return False


@jit
def _indices(sums: FloatArray, counts: IntArray, who: IntArray, c: float) -> FloatArray:
    """(w, K) the index of every arm for each agent in `who`, infinite for one never taken; sums and counts (n, K)."""
    found = np.full((len(who), counts.shape[1]), np.inf)
    for a in range(len(who)):
        taken = counts[who[a]]
        demand = _demand(taken, c)
        for k in range(len(taken)):
            if taken[k] > 0:
                found[a, k] = highest_plausible(sums[who[a], k] / taken[k], demand / taken[k])
    return found


@jit_part
def _demand(taken: IntArray, c: float) -> float:
    """log t + c log log t for the turn t after those in which the arms were `taken` (K,)."""
    log_turn = math.log(taken.sum() + 1.0)
    return log_turn + c * math.log(max(log_turn, 1.0))
