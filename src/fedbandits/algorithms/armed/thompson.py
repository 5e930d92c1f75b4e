"""Thompson sampling by every agent alone, for rewards in [0, 1] and for Gaussian ones.

Draws are made by inversion of the posterior's distribution function, one uniform number of the agent's own stream for
each arm: an agent draws the same in a population of thousands and alone.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field
from scipy.special import betainc, betaincinv, ndtr, ndtri

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
from fedbandits.contract.facts import Noise
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams, WordArray, next_uniform
from fedbandits.linalg.jit import jit_inside, jit_part
from fedbandits.linalg.quantiles import address_of, beta_quantile, normal_quantile
from fedbandits.models.winning import winning_independently


@parameters
class ThompsonBeta:
    """Arm k is drawn from Beta(1 + wins_k, 1 + losses_k), its posterior under a uniform prior; the highest is taken.

    A reward r strictly between 0 and 1 counts as a win with probability r, by a trial of the agent's own (Agrawal &
    Goyal 2012), so any rewards in [0, 1] will do; problems whose rewards may leave it are refused.

    Guarantee: for each agent regret (1 + o(1)) sum_k Delta_k log T / KL(mu_k, mu_*), which no consistent algorithm
    beats for clicks; KL is that of Bernoulli laws, also where rewards are not binary.
    """

    about: ClassVar[About] = About(
        name="thompson-beta",
        family="armed",
        topology="alone",
        talks="never",
        says=(),
        calls="never",
        guarantee="regret (1 + o(1)) sum_k Delta_k log T / KL(mu_k, mu_*) per agent (rewards in [0, 1])",
        source="Thompson 1933; Agrawal & Goyal, COLT 2012; Kaufmann, Korda & Munos, ALT 2012",
        environment="bernoulli",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> BetaAgents:
        """n sampling agents."""
        check_unit_range(self.about.name, problem)
        return BetaAgents(problem, n, rng)

    def server(self, problem: Problem, n: int, rng: Streams) -> None:
        """Nobody to talk to."""


@parameters
class ThompsonGaussian:
    """Arm k is drawn from N(mean_k, noise^2 / n_k), its posterior for Gaussian rewards of known variance under a flat
    prior (that of Jeffreys); the highest is taken. The flat prior is improper: every arm is taken once first, in order.

    `noise` is the rewards' standard deviation; by default the one the problem tells.

    Guarantee: for each agent regret (1 + o(1)) sum_k 2 noise^2 log T / Delta_k for Gaussian rewards of that noise,
    which no consistent algorithm beats. None for heavier tails or a `noise` below the true one.
    """

    noise: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None

    about: ClassVar[About] = About(
        name="thompson-gaussian",
        family="armed",
        topology="alone",
        talks="never",
        says=(),
        calls="never",
        guarantee="regret (1 + o(1)) sum_k 2 noise^2 log T / Delta_k per agent (Gaussian rewards)",
        source="Korda, Kaufmann & Munos, NeurIPS 2013",
        environment="gaussian",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> GaussianAgents:
        """n sampling agents."""
        sigma = problem.get(Noise, Noise()).sigma if self.noise is None else self.noise
        return GaussianAgents(sigma, problem, n, rng)

    def server(self, problem: Problem, n: int, rng: Streams) -> None:
        """Nobody to talk to."""


@quiet
class Betas(NamedTuple):
    """`BetaAgents` for compiled loops."""

    known: Tallies
    words: WordArray
    quantile: int


@stands_for(choose, Betas)
@jit_inside
def _choose_by_beta(agents: Betas, i: int, arms: FloatArray, row: int, room: FloatArray) -> int:
    if not in_place(agents.known.places, arms, row):
        return -1
    counts, sums, best, found = agents.known.counts, agents.known.sums, -np.inf, 0
    for k in range(agents.known.places.arms):
        wins = sums[i, k]
        losses = counts[i, k] - wins
        drawn = beta_quantile(agents.quantile, 1.0 + wins, 1.0 + losses, next_uniform(agents.words, i))
        if drawn > best:
            best, found = drawn, k
    return found


@stands_for(learn, Betas)
@jit_inside
def _learn_beta(agents: Betas, i: int, arms: FloatArray, row: int, pick: int, reward: float, room: FloatArray) -> bool:
    check_unit_reward(reward)
    tally(agents.known, i, pick, 1.0 if next_uniform(agents.words, i) < reward else 0.0)
    return False


@quiet
class Normals(NamedTuple):
    """`GaussianAgents` for compiled loops."""

    known: Tallies
    words: WordArray
    quantile: int
    noise: float


@stands_for(choose, Normals)
@jit_inside
def _choose_by_normal(agents: Normals, i: int, arms: FloatArray, row: int, room: FloatArray) -> int:
    if not in_place(agents.known.places, arms, row):
        return -1
    counts, sums, best, found = agents.known.counts, agents.known.sums, -np.inf, 0
    for k in range(agents.known.places.arms):
        normal = normal_quantile(agents.quantile, next_uniform(agents.words, i))
        drawn = _posterior(sums[i, k], counts[i, k], agents.noise, normal)
        if drawn > best:
            best, found = drawn, k
    return found


@stands_for(learn, Normals)
@jit_inside
def _learn_normal(
    agents: Normals, i: int, arms: FloatArray, row: int, pick: int, reward: float, room: FloatArray
) -> bool:
    tally(agents.known, i, pick, reward)
    return False


@jit_part
def _posterior(total: float, count: int, noise: float, normal: float) -> float:
    """As `GaussianAgents` draw it, from a standard normal number."""
    return total / count + noise * normal / np.sqrt(count) if count > 0 else np.inf


class SamplingAgents(TallyingAgents):
    """Agents that take the arm of which they have drawn the highest value."""

    keeps: ClassVar[tuple[str, ...]] = (*TallyingAgents.keeps, "rng")

    def __init__(self, problem: Problem, n: int, rng: Streams) -> None:
        super().__init__(problem, n)
        self.rng = rng

    def _pick(self, who: IntArray) -> IntArray:
        return np.asarray(self._draw(who).argmax(axis=1))

    def _pick_among(self, who: IntArray, shown: BoolArray) -> IntArray:
        return best_shown(self._draw(who), shown)

    @abstractmethod
    def _draw(self, who: IntArray) -> FloatArray:
        """(w, K) a draw from the posterior of each arm."""
        raise NotImplementedError


class BetaAgents(SamplingAgents):
    """Agents that draw from Beta posteriors; `sums` counts wins."""

    def _chances(self, who: IntArray, shown: BoolArray) -> FloatArray | None:
        found = np.zeros(shown.shape)
        for row, agent in enumerate(who):
            wins = 1.0 + self.sums[agent, shown[row]]
            losses = 2.0 + self.counts[agent, shown[row]] - wins
            found[row, shown[row]] = winning_independently(
                partial(_beta_cdf, wins, losses), partial(_beta_quantile, wins, losses), len(wins)
            )
        return found

    def compiled(self) -> Any:
        """See `Population`."""
        if not (untouched(self, BetaAgents, *SPOKEN_FOR, "_draw") and untouched(self.rng, Streams, "uniform")):
            return None
        return Betas(self.tallies(), self.rng.words, address_of("beta"))

    def _draw(self, who: IntArray) -> FloatArray:
        """(w, K) a draw from each posterior."""
        wins = self.sums[who]
        losses = self.counts[who] - wins
        return np.asarray(betaincinv(1.0 + wins, 1.0 + losses, self.rng.uniform(who, self._arms)))

    def _tallied(self, who: IntArray, rewards: FloatArray) -> FloatArray:
        check_unit_rewards(who, rewards)
        # uniform numbers are neither 0 nor 1: clicks stay what they are
        return (self.rng.uniform(who) < rewards).astype(np.float64)


class GaussianAgents(SamplingAgents):
    """Agents that draw from Gaussian posteriors."""

    def __init__(self, noise: float, problem: Problem, n: int, rng: Streams) -> None:
        super().__init__(problem, n, rng)
        self._noise = noise

    def _chances(self, who: IntArray, shown: BoolArray) -> FloatArray | None:
        found = np.zeros(shown.shape)
        for row, agent in enumerate(who):
            counts, taken = self.counts[agent], np.maximum(self.counts[agent], 1)
            means, spread = self.sums[agent] / taken, self._noise / np.sqrt(taken)
            certain = np.where(counts == 0, np.inf, means)
            if self._noise == 0 or (counts[shown[row]] == 0).any():
                found[row, best_shown(certain[None], shown[row : row + 1])] = 1.0
                continue
            centre, width = means[shown[row]], spread[shown[row]]
            found[row, shown[row]] = winning_independently(
                partial(_normal_cdf, centre, width), partial(_normal_quantile, centre, width), len(centre)
            )
        return found

    def compiled(self) -> Any:
        """See `Population`."""
        drawn = untouched(self.rng, Streams, "uniform", "normal")
        if not (drawn and untouched(self, GaussianAgents, *SPOKEN_FOR, "_draw")):
            return None
        return Normals(self.tallies(), self.rng.words, address_of("normal"), float(self._noise))

    def _draw(self, who: IntArray) -> FloatArray:
        """(w, K) a draw from each posterior, infinite for arms never taken."""
        counts = self.counts[who]
        taken = np.maximum(counts, 1)
        drawn = self.sums[who] / taken + self._noise * self.rng.normal(who, self._arms) / np.sqrt(taken)
        return np.where(counts == 0, np.inf, drawn)


def _beta_cdf(wins: FloatArray, losses: FloatArray, x: FloatArray) -> FloatArray:
    return np.asarray(betainc(wins, losses, x[:, None]))


def _beta_quantile(wins: FloatArray, losses: FloatArray, level: FloatArray) -> FloatArray:
    return np.asarray(betaincinv(wins, losses, level[:, None]))


def _normal_cdf(centre: FloatArray, width: FloatArray, x: FloatArray) -> FloatArray:
    return np.asarray(ndtr((x[:, None] - centre) / width))


def _normal_quantile(centre: FloatArray, width: FloatArray, level: FloatArray) -> FloatArray:
    return centre + width * ndtri(level[:, None])
